#!/usr/bin/env python3
"""RELION's Bayesian polishing goes on from the motion-corrector's files. Without steps of its own, the tracks with which it
begins are the motion that the files state, at each particle. With steps they move, stay near the simulation's truth, and the
polished particles are written. Forty small particles cannot tell more than the whole movie did: RELION need not come closer
than the files are."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

try:
    import mrcfile
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
if shutil.which("relion_motion_refine") is None:
    print("skipped: no relion_motion_refine")
    sys.exit(77)

from motion_movies import star

BIN = os.environ["ICESTREAM_BIN"]
SIZE, PIXEL, BOX, SEED = 512, 2.0, 120, 3
NAMES = ("mov_00001", "mov_00002")
print(f"seed {SEED}")


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, (command, done.stdout[-3000:])


def terms(x, y):
    u, v = x / SIZE - 0.5, y / SIZE - 0.5
    return np.array([1, u, u * u, v, v * v, u * v])


def place_by_files(record, x, y):
    """Returns the positions of the specimen at (x, y) in the frames, Å, relative to the first."""
    j = np.arange(record["frames"])
    shift = []
    for axis, whole in enumerate((record["shift_x"], record["shift_y"])):
        rows = np.array(record["local"][axis]).reshape(6, 3)
        local = sum(t * (a * j + b * j**2 + c * j**3) for t, (a, b, c) in zip(terms(x, y), rows))
        shift.append(np.array(whole) + local)
    place = -PIXEL * np.array(shift).T
    return place - place[0]


def place_by_truth(tables, x, y):
    shift = [
        [
            float(whole[f"rlnMicrographShift{a}"])
            + sum(t * float(local[f"icestreamLocal{a}{i}"]) for i, t in enumerate(terms(x, y)))
            for a in "XY"
        ]
        for whole, local in zip(tables["global_shift"], tables["local_shift"])
    ]
    place = -PIXEL * np.array(shift)
    return place - place[0]


def write_particles(truth):
    columns = ["rlnMicrographName", "rlnImageName", "rlnOpticsGroup", "rlnRandomSubset", "rlnCoordinateX",
               "rlnCoordinateY", "rlnAngleRot", "rlnAngleTilt", "rlnAnglePsi", "rlnOriginXAngst", "rlnOriginYAngst",
               "rlnDefocusU", "rlnDefocusV", "rlnDefocusAngle"]  # fmt: skip
    optics = truth["optics"][0]
    with open("particles.star", "w") as out:
        out.write("# version 30001\n\ndata_optics\n\nloop_\n" + "".join(f"_{name}\n" for name in optics))
        out.write(" ".join(optics.values()) + "\n\n# version 30001\n\ndata_particles\n\nloop_\n")
        out.write("".join(f"_{name}\n" for name in columns))
        for i, row in enumerate(truth["particles"]):
            name = os.path.splitext(os.path.basename(row["rlnMicrographName"]))[0]
            row["rlnMicrographName"] = f"mc/movies/{name}.mrc"
            row["rlnImageName"] = f"{i + 1:06d}@extract/{name}.mrcs"
            row["rlnRandomSubset"] = str(i % 2 + 1)
            out.write(" ".join(row[column] for column in columns) + "\n")


def write_fsc():
    with open("post.star", "w") as out:
        out.write("# version 30001\n\ndata_general\n\n_rlnFinalResolution 5.0\n_rlnBfactorUsedForSharpening -50.0\n\n")
        out.write("# version 30001\n\ndata_fsc\n\nloop_\n_rlnSpectralIndex\n_rlnResolution\n_rlnAngstromResolution\n")
        out.write("_rlnFourierShellCorrelationCorrected\n")
        for i in range(BOX // 2 + 1):
            k = i / (BOX * PIXEL)
            fsc = 1 / (1 + np.exp((k - 0.2) / 0.01))
            out.write(f"{i} {k:.6f} {1 / k if k > 0 else 999:.4f} {fsc:.6f}\n")


def polish(out, *arguments):
    run("relion_motion_refine", "--i", "particles.star", "--o", out, "--f", "post.star", "--m1", "truth/phantom.mrc",
        "--m2", "truth/phantom.mrc", "--corr_mic", "mc/corrected_micrographs.star", "--fdose", 4, "--angpix_ref", PIXEL,
        "--s_vel", 0.5, "--s_div", 5000, "--s_acc", 2, "--j", 2, *arguments)  # fmt: skip


def compare(out, rows):
    """Returns the largest difference of the tracks from the files, and the RMS distances of the tracks and of the files
    from the truth, Å."""
    from_files, track_off, files_off = [], [], []
    for name in NAMES:
        record = json.load(open(f"mc/movies/{name}_motion.json"))
        truth = star(f"truth/{name}_motion.star")
        tracks = star(f"{out}/mc/movies/{name}_tracks.star")
        for i, row in enumerate(r for r in rows if name in r["rlnMicrographName"]):
            x, y = float(row["rlnCoordinateX"]), float(row["rlnCoordinateY"])
            track = np.array([[float(r["rlnOriginXAngst"]), float(r["rlnOriginYAngst"])] for r in tracks[str(i)]])
            track -= track[0]
            files, right = place_by_files(record, x, y), place_by_truth(truth, x, y)
            from_files.append(np.abs(track - files).max())
            track_off.append(((track - right) ** 2).sum(axis=1))
            files_off.append(((files - right) ** 2).sum(axis=1))
    return max(from_files), np.sqrt(np.mean(track_off)), np.sqrt(np.mean(files_off))


with tempfile.TemporaryDirectory(prefix="icestream-motion-") as folder:
    os.chdir(folder)
    run(f"{BIN}/icestream-simulate", "--movies", "--o", ".", "--size", SIZE, "--pixel_size", PIXEL, "--micrographs", 2,
        "--frames", 10, "--particles", 20, "--dose", 40, "--interval", 0, "--seed", SEED, "--contamination", 0,
        "--carbon", 0, "--box", BOX)  # fmt: skip
    run(f"{BIN}/icestream-motion-corrector", "--i", "movies.star", "--o", "mc", "--gain", "gain.mrc", "--dose-per-frame",
        4, "--patches", "3,3")  # fmt: skip
    particles = star("truth/particles.star")
    write_particles(particles)
    write_fsc()
    polish("begun", "--max_iters", 0)
    off, _, files = compare("begun", particles["particles"])
    print(f"RELION begins {off:.4f} Å from the files, which are {files:.2f} Å from the truth")
    assert off < 0.01, off
    assert files < 2, files

    polish("polished", "--combine_frames", "--bfac_minfreq", 30)
    off, polished, _ = compare("polished", particles["particles"])
    print(f"polished tracks are {polished:.2f} Å from the truth")
    assert off > 0.1 and polished < 1.5, (off, polished, files)  # of a drift of 10 Å
    count = 0
    for name in NAMES:
        with mrcfile.open(f"polished/mc/movies/{name}_shiny.mrcs", permissive=True) as stack:
            assert stack.data.shape[1:] == (BOX, BOX) and np.isfinite(stack.data).all()
            assert (stack.data.std(axis=(1, 2)) > 0).all()
            count += len(stack.data)
    assert count == len(particles["particles"]) == len(star("polished/shiny.star")["particles"]), count
    os.chdir("/")
