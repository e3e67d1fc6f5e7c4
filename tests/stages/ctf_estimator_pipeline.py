#!/usr/bin/env python3
"""The ctf-estimator in a graph: with `local` each particle gets the defocus of its place, a micrograph with a known CTF passes
unchanged, and a micrograph without rings is left out by `reject_if` with the reason."""

import glob
import json
import os
import struct
import subprocess
import tempfile

BIN = os.environ["ICESTREAM_BIN"]
GRAPH = """
session: {{pixel_size: 2.5, voltage: 300, spherical_aberration: 2.7, amplitude_contrast: 0.1}}
stages:
  watcher:        {{directory: {folder}/in, settle: 0.2, ctf: {folder}/known.star, ctf_wait: 0.5}}
  ctf-estimator:  {{from: watcher, resolution: [30, 6], local: true}}
  lowpass-picker: {{from: ctf-estimator, diameter: 150, reject_if: rlnCtfMaxResolution > 15, write_png: false}}
  extractor:      {{from: lowpass-picker, box: 64}}
"""


def table(path, name):
    columns, found, inside = [], [], False
    for line in open(path):
        words = line.split()
        if words and words[0].startswith("data_"):
            inside, columns = words[0] == "data_" + name, []
        elif inside and words and words[0].startswith("_"):
            columns.append(words[0][1:])
        elif inside and columns and len(words) == len(columns):
            found.append(dict(zip(columns, words)))
    return found


def stem(row):
    return os.path.basename(row["rlnMicrographName"]).rsplit(".", 1)[0]


def defocus_at(path, x, y):
    """Interpolates the defocus on the grid of a file."""
    points = {(float(r["rlnCoordinateX"]), float(r["rlnCoordinateY"])): float(r["rlnDefocusU"]) for r in table(path, "local_ctf")}
    xs, ys = sorted({p[0] for p in points}), sorted({p[1] for p in points})
    assert len(points) == len(xs) * len(ys) >= 25 and xs[0] == ys[0] == 0 and xs[-1] == ys[-1] == 1023, (xs, ys)
    i = max(k for k in range(len(xs) - 1) if xs[k] <= max(x, 0))
    j = max(k for k in range(len(ys) - 1) if ys[k] <= max(y, 0))
    fx = min(max((x - xs[i]) / (xs[i + 1] - xs[i]), 0), 1)
    fy = min(max((y - ys[j]) / (ys[j + 1] - ys[j]), 0), 1)
    low = (1 - fx) * points[xs[i], ys[j]] + fx * points[xs[i + 1], ys[j]]
    high = (1 - fx) * points[xs[i], ys[j + 1]] + fx * points[xs[i + 1], ys[j + 1]]
    return (1 - fy) * low + fy * high


with tempfile.TemporaryDirectory(prefix="icestream-ctf-") as folder:
    simulate = [f"{BIN}/icestream-simulate", "--o", f"{folder}/sim", "--micrographs", "3", "--size", "1024", "--pixel_size",
                "2.5", "--interval", "0", "--particles", "60", "--seed", "3"]  # fmt: skip
    subprocess.run(simulate, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    truth = {stem(row): row for row in table(f"{folder}/sim/truth/micrographs_ctf.star", "micrographs")}
    os.mkdir(f"{folder}/in")
    paths = sorted(glob.glob(f"{folder}/sim/micrographs/*.mrc"))
    for path in paths:
        os.rename(path, f"{folder}/in/{os.path.basename(path)}")
    names = [os.path.basename(path)[:-4] for path in paths]
    with open(f"{folder}/known.star", "w") as file:
        file.write("data_\nloop_\n_rlnMicrographName\n_rlnDefocusU\n_rlnDefocusV\n_rlnDefocusAngle\n")
        file.write(f"in/{names[0]}.mrc 12345 12300 7\n")
    # White noise, in the shape of the others.
    header = bytearray(open(f"{folder}/in/{names[1]}.mrc", "rb").read(1024))
    noise, state = bytearray(), 1
    for _ in range(1024 * 1024):
        state = (state * 6364136223846793005 + 1442695040888963407) & ((1 << 64) - 1)
        noise += struct.pack("<f", (state >> 40) / (1 << 24))
    open(f"{folder}/in/noise.mrc", "wb").write(header + noise)
    open(f"{folder}/graph.yaml", "w").write(GRAPH.format(folder=folder))
    run = [f"{BIN}/icestream", "run", f"{folder}/graph.yaml", "--session", f"{folder}/s", "--until-idle", "3"]
    done = subprocess.run(run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout

    found = {stem(row): row for row in table(f"{folder}/s/ctf-estimator/micrographs_ctf.star", "micrographs")}
    assert sorted(found) == sorted(names + ["noise"]), sorted(found)
    assert float(found[names[0]]["rlnDefocusU"]) == 12345 and float(found[names[0]]["rlnDefocusAngle"]) == 7
    assert not os.path.exists(f"{folder}/s/ctf-estimator/{names[0]}_ctf.json")
    for name in names[1:]:
        off = float(found[name]["rlnDefocusU"]) - float(truth[name]["rlnDefocusU"])
        print(f"{name}: off by {off:.0f} Å, to {found[name]['rlnCtfMaxResolution']} Å")
        assert abs(off) < 400, (found[name], truth[name])
        fit = json.load(open(f"{folder}/s/ctf-estimator/{name}_ctf.json"))
        assert abs(fit["defocus_u"] - float(found[name]["rlnDefocusU"])) < 1
        assert len(fit["k"]) == len(fit["data"]) == len(fit["fit"]) == len(fit["score"])
        assert fit["k"][-1] < 0.5 / 2.5
        # Pixels of 2.5 Å show nothing of an ice ring at 3.7 Å: no value, not the value of clear ice.
        assert fit["ice"] is None and "rlnCtfIceRingDensity" not in found[name], (fit["ice"], found[name])
        assert fit["tilt"]["angle"] == float(found[name]["icestreamTiltAngle"]) < 20 and "reason" not in fit, fit["tilt"]
    assert float(found["noise"]["rlnCtfMaxResolution"]) == 25
    particles = table(f"{folder}/s/extractor/particles.star", "particles")
    assert {stem(row) for row in particles} == set(names), {stem(row) for row in particles}
    for row in particles:
        expected = float(found[stem(row)]["rlnDefocusU"])
        if stem(row) != names[0]:
            x, y = float(row["rlnCoordinateX"]), float(row["rlnCoordinateY"])
            expected = defocus_at(f"{folder}/s/ctf-estimator/{stem(row)}_local.star", x, y)
            assert abs(expected - float(truth[stem(row)]["rlnDefocusU"])) < 500, (row, truth[stem(row)])
        assert abs(float(row["rlnDefocusU"]) - expected) < 0.1, (row, expected)
    assert not os.path.exists(f"{folder}/s/ctf-estimator/noise_local.star")
    assert "no rings" in json.load(open(f"{folder}/s/ctf-estimator/noise_ctf.json"))["reason"]
    status = subprocess.run(
        [f"{BIN}/icestream", "status", "--session", f"{folder}/s", "--json"], stdout=subprocess.PIPE, text=True
    )
    rejected = [item for item in json.loads(status.stdout)["items"] if item["state"] == "rejected"]
    assert [item["id"] for item in rejected] == ["noise"] and "rlnCtfMaxResolution" in rejected[0]["reason"], rejected
