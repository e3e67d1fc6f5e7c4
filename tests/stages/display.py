#!/usr/bin/env python3
"""Checks what stages leave for a page that shows the session: a thumbnail by the first stage that holds the pixels, the spectrum
with its fit, fit and motion as JSON, all named under `display` in the item; columns of motion, CTF and gain; latencies and
outcomes in the heartbeat. Without motion correction and CTF estimation the picker makes the thumbnail, without a picker the
extractor. A stage that is done again makes the same. On files there are no pictures for pages."""

import json
import os
import sqlite3
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from motion_movies import camera, movie, read_mrc, write_mrc

BIN = os.environ["ICESTREAM_BIN"]
SIZE, FRAMES, PIXEL = 384, 12, 1.2
seed = int(sys.argv[1]) if len(sys.argv) > 1 else 20
print(f"seed {seed}")
SESSION = f"session: {{pixel_size: {PIXEL}, voltage: 300, spherical_aberration: 2.7, amplitude_contrast: 0.1}}\nstages:\n"
MOVIES = """
  watcher:          {{directory: {folder}/in, settle: 0.2}}
  motion-corrector: {{from: watcher, dose_per_frame: 1.5, patches: [1, 1]{gain}}}
  ctf-estimator:    {{from: motion-corrector, write_png: false}}
  lowpass-picker:   {{from: ctf-estimator, diameter: 60}}
"""
PICKED = """
  watcher:        {{directory: {folder}/mics, settle: 0.2}}
  lowpass-picker: {{from: watcher, diameter: 60}}
  extractor:      {{from: lowpass-picker, box: 48}}
"""
COORDINATES = """
  watcher:   {{directory: {folder}/mics, settle: 0.2}}
  extractor: {{from: watcher, box: 48, coordinates: {folder}/coordinates.star}}
"""


def icestream(*arguments):
    done = subprocess.run([f"{BIN}/icestream", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def run(name, graph):
    with open(f"{folder}/{name}.yaml", "w") as file:
        file.write(SESSION + graph)
    icestream("run", f"{folder}/{name}.yaml", "--session", f"{folder}/{name}", "--until-idle", "2")
    return f"{folder}/{name}"


def items(session, stage):
    """Returns the items that a stage has finished, by id."""
    ledger = sqlite3.connect(f"file:{session}/ledger/{stage}.sqlite?mode=ro", uri=True)
    found = {id_: json.loads(text) for id_, text in ledger.execute("SELECT id, item FROM items WHERE state = 1")}
    ledger.close()
    return found


def jpeg_size(path):
    """Returns the sides of a grey JPEG."""
    data, at = open(path, "rb").read(), 2
    assert data[:2] == b"\xff\xd8" and data[-2:] == b"\xff\xd9", path
    while not 0xC0 <= data[at + 1] <= 0xC2:
        at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    ny, nx, channels = struct.unpack(">HHB", data[at + 5 : at + 10])
    assert channels == 1, channels
    return nx, ny


def png_size(path):
    data = open(path, "rb").read(24)
    assert data[:8] == b"\x89PNG\r\n\x1a\n", path
    return struct.unpack(">II", data[16:24])


def beat(session, stage):
    with open(f"{session}/log/{stage}.0.heartbeat.json") as file:
        return json.load(file)


with tempfile.TemporaryDirectory(prefix="icestream-display-") as folder:
    os.makedirs(f"{folder}/in/grid <1>")
    os.mkdir(f"{folder}/mics")
    gain = camera(SIZE, seed)
    write_mrc(f"{folder}/gain.mrc", gain)
    names = ["grid <1>/a", "grid <1>/b", "c"]
    for i, name in enumerate(names):
        counts, _ = movie(SIZE, FRAMES, seed=seed + i, gain=gain)
        write_mrc(f"{folder}/in/{name}.mrc", counts, PIXEL)

    # From movies: each stage adds its part.
    session = run("movies", MOVIES.format(folder=folder, gain=f", gain: {folder}/gain.mrc"))
    done = items(session, "lowpass-picker")
    assert sorted(done) == sorted(names), sorted(done)
    for name, item in done.items():
        assert item["display"] == {
            "thumb": f"motion-corrector/{name}_thumb.jpg",
            "motion": f"motion-corrector/{name}_motion.json",
            "ctf": f"ctf-estimator/{name}_ctf.json",
            "spectrum": f"ctf-estimator/{name}_spectrum.png",
        }, item["display"]
        assert jpeg_size(f"{session}/motion-corrector/{name}_thumb.jpg") == (192, 192)
        assert os.path.getsize(f"{session}/motion-corrector/{name}_thumb.jpg") < 25000
        nx, ny = png_size(f"{session}/ctf-estimator/{name}_spectrum.png")
        assert nx == ny and 64 <= nx <= 256, (nx, ny)
        assert not os.path.exists(f"{session}/ctf-estimator/{name}_ctf.png")  # write_png: false
        motion = json.load(open(f"{session}/motion-corrector/{name}_motion.json"))
        assert motion["v"] == 1 and motion["frames"] == FRAMES == len(motion["x"]) == len(motion["y"]), motion
        assert np.allclose(motion["x"], -PIXEL * np.array(motion["shift_x"]), atol=1e-3)
        steps = np.hypot(np.diff(motion["x"]), np.diff(motion["y"]))
        assert abs(steps.sum() - motion["total"]) < 0.02, (steps.sum(), motion["total"])
        assert abs(motion["early"] + motion["late"] - motion["total"]) < 0.01
        assert motion["x"][-1] > 1 and motion["y"][-1] < -1, "the track goes as the specimen does, and not as its correction"
        fit = json.load(open(f"{session}/ctf-estimator/{name}_ctf.json"))
        assert fit["v"] == 1 and len(fit["k"]) > 20
        assert len(fit["k"]) == len(fit["data"]) == len(fit["background"]) == len(fit["fit"]) == len(fit["score"])
        columns = item["columns"]
        for column in ("rlnDefocusU", "rlnDefocusV", "rlnCtfAstigmatism", "rlnCtfMaxResolution", "rlnCtfIceRingDensity",
                       "rlnAccumMotionTotal", "rlnAccumMotionEarly", "rlnAccumMotionLate", "icestreamMotionTotal",
                       "icestreamPickCount"):  # fmt: skip
            assert isinstance(columns[column], (int, float)), (column, columns)
        assert 0 <= columns["icestreamGainResidualSd"] < 0.04, columns["icestreamGainResidualSd"]
        for path in item["display"].values():
            assert path in item["files"], f"{path} has no digest: icestream verify would not look at it"
    icestream("verify", "--session", session)
    heard = beat(session, "motion-corrector")
    assert heard["outcomes"] == {"done": 3, "rejected": 0, "failed": 0}, heard
    assert heard["latencies"]["counts"][-1] == 3 and heard["resident"] > 1e6, heard
    assert heard["latencies"]["counts"] == sorted(heard["latencies"]["counts"]) and heard["latencies"]["sum"] > 0, heard
    assert beat(session, "watcher")["outcomes"]["done"] == 3

    # The column says by how much the pixels of frames differ: the camera's deviation is 15 %.
    session = run("no_gain", MOVIES.format(folder=folder, gain=""))
    for item in items(session, "lowpass-picker").values():
        residual = item["columns"]["icestreamGainResidualSd"]
        print(f"without the gain: {residual:.3f}")
        assert 0.08 < residual < 0.25, residual

    # From micrographs: the first that reads one makes its thumbnail.
    for i, name in enumerate(("m1", "m2")):
        image = read_mrc(f"{folder}/movies/motion-corrector/{names[i]}.mrc")[0]
        write_mrc(f"{folder}/mics/{name}.mrc", image[:200].astype(np.float32), PIXEL)
    session = run("picked", PICKED.format(folder=folder))
    done = items(session, "extractor")
    assert sorted(done) == ["m1", "m2"], sorted(done)
    for name, item in done.items():
        assert item["display"] == {"thumb": f"lowpass-picker/{name}_thumb.jpg"}, item["display"]
        assert jpeg_size(f"{session}/lowpass-picker/{name}_thumb.jpg") == (192, 100)
        assert not os.path.exists(f"{session}/extractor/{name}_thumb.jpg")
    before = open(f"{session}/lowpass-picker/m1_thumb.jpg", "rb").read()
    os.remove(f"{session}/lowpass-picker/m1_thumb.jpg")
    icestream("redo", "--session", session, "--stage", "lowpass-picker")
    icestream("run", f"{folder}/picked.yaml", "--session", session, "--until-idle", "2")
    assert open(f"{session}/lowpass-picker/m1_thumb.jpg", "rb").read() == before
    with open(f"{folder}/coordinates.star", "w") as file:
        file.write("data_\nloop_\n_rlnMicrographName\n_rlnCoordinateX\n_rlnCoordinateY\n")
        file.write("mics/m1.mrc 100 100\nmics/m1.mrc 200 90\n")
    session = run("coordinates", COORDINATES.format(folder=folder))
    done = items(session, "extractor")
    assert {item["display"]["thumb"] for item in done.values()} == {f"extractor/m{i}_thumb.jpg" for i in (1, 2)}, done
    assert jpeg_size(f"{session}/extractor/m1_thumb.jpg") == (192, 100)

    # On files nobody looks at a page.
    out = f"{folder}/files"
    subprocess.run(
        [f"{BIN}/icestream-lowpass-picker", "--i", f"{folder}/mics", "--o", out, "--diameter", "60", "--pixel_size",
         str(PIXEL)], check=True, stderr=subprocess.DEVNULL)  # fmt: skip
    assert "m1_autopick.star" in os.listdir(out) and "m1_thumb.jpg" not in os.listdir(out), os.listdir(out)
