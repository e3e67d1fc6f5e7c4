#!/usr/bin/python3
"""Checks that relion_star_handler, relion_image_handler and mrcfile can read the files that the classifier writes."""

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

BIN = os.environ["ICESTREAM_BIN"]
SEED, BOX, COUNT = 11, 32, 160


def check(condition, message):
    if not condition:
        print("FAILED:", message)
        sys.exit(1)


def rows(path, name):
    found, inside = [], False
    with open(path) as text:
        for line in text:
            words = line.split()
            if line.startswith("data_"):
                inside = line.strip() == "data_" + name
            elif inside and words and words[0] != "loop_" and words[0][0] not in "_#":
                found.append(words)
    return found


def particle(random, kind):
    """Draws two blobs (kind 0) or a ring (kind 1), turned and noisy."""
    angle = random.uniform(0, 2 * np.pi)
    y, x = np.mgrid[:BOX, :BOX] - BOX // 2
    if kind == 1:
        image = np.exp(-((np.hypot(x, y) - 7) ** 2) / 6)
    else:
        image = sum(
            np.exp(-((x - s * 6 * np.cos(angle)) ** 2 + (y - s * 6 * np.sin(angle)) ** 2) / 12) for s in (-1, 1)
        )
    return (1.5 * image + random.normal(size=image.shape)).astype(np.float32)


print("seed", SEED)
random = np.random.default_rng(SEED)
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    with mrcfile.new("p.mrcs") as stack:
        stack.set_data(np.array([particle(random, i % 2) for i in range(COUNT)]))
        stack.voxel_size = 4.0
    with open("particles.star", "w") as out:
        out.write(
            "\n# version 30001\n\ndata_optics\n\nloop_\n_rlnOpticsGroup #1\n_rlnOpticsGroupName #2\n_rlnVoltage #3\n"
            "_rlnSphericalAberration #4\n_rlnAmplitudeContrast #5\n_rlnImagePixelSize #6\n_rlnImageSize #7\n"
            f"_rlnImageDimensionality #8\n1 og 300 2.7 0.1 4.0 {BOX} 2\n\n\n# version 30001\n\ndata_particles\n\nloop_\n"
            "_rlnImageName #1\n_rlnMicrographName #2\n_rlnOpticsGroup #3\n"
        )
        out.writelines(f"{i + 1:06d}@p.mrcs m.mrc 1\n" for i in range(COUNT))
        out.write("\n")
    run = subprocess.run(
        [
            f"{BIN}/icestream-classifier",
            "--i",
            "particles.star",
            "--o",
            "classifier",
            "--classes",
            "5",
            "--diameter",
            "100",
            "--visits",
            "4",
            "--threads",
            "1",
        ],
        capture_output=True,
        text=True,
    )
    check(run.returncode == 0, f"exit {run.returncode}: {run.stderr}")
    history = [json.loads(line) for line in open("classifier/history.jsonl")]
    last = history[-1]
    check(last["event"] == "classes" and last["final"] and last["particles"] == COUNT, f"history: {last}")
    check(all(os.path.exists(path) for path in last["files"]), f"files that are not there: {last['files']}")
    prefix = f"classifier/run_it{last['iteration']:03d}"
    data = rows(prefix + "_data.star", "particles")
    check(len(data) == COUNT, f"{len(data)} rows of {COUNT}")
    check(len(rows(f"classifier/selected_it{last['iteration']:03d}.star", "particles")) == last["kept"], "selection")
    check(last["kept"] >= 0.8 * COUNT, f"only {last['kept']} of {COUNT} particles are kept")
    with mrcfile.open(prefix + "_classes.mrcs") as stack:
        check(stack.data.shape == (last["classes"], BOX, BOX), f"averages: {stack.data.shape}")
        check(np.isfinite(stack.data).all(), "averages that are not numbers")
    check(mrcfile.validate(prefix + "_classes.mrcs"), "mrcfile.validate refuses the averages")

    # RELION 3.0 had no optics table. The written table must hold the values of the rows, whatever the stack's header
    # says (4).
    with open("old.star", "w") as out:
        out.write(
            "\ndata_\n\nloop_\n_rlnImageName #1\n_rlnMicrographName #2\n_rlnVoltage #3\n_rlnSphericalAberration #4\n"
            "_rlnAmplitudeContrast #5\n_rlnMagnification #6\n_rlnDetectorPixelSize #7\n"
        )
        out.writelines(f"{i + 1:06d}@p.mrcs m.mrc 200 2.0 0.07 10000 5\n" for i in range(COUNT))
        out.write("\n")
    run = subprocess.run(
        [
            f"{BIN}/icestream-classifier",
            "--i",
            "old.star",
            "--o",
            "old",
            "--classes",
            "2",
            "--diameter",
            "100",
            "--visits",
            "1",
            "--final-passes",
            "1",
            "--threads",
            "1",
        ],
        capture_output=True,
        text=True,
    )
    check(run.returncode == 0, f"exit {run.returncode}: {run.stderr}")
    optics = rows("old/run_it001_data.star", "optics")
    check(
        len(optics) == 1 and [float(word) for word in optics[0][1:5]] == [200, 2, 0.07, 5], f"optics of 3.0: {optics}"
    )

    # Input and output lie in other folders. The written image names must lead the next program there.
    os.makedirs("a/way")
    os.makedirs("an/other")
    os.chdir("a/way")
    run = subprocess.run(
        [
            f"{BIN}/icestream-classifier",
            "--i",
            "../../particles.star",
            "--o",
            "../../an/other/classifier",
            "--classes",
            "2",
            "--diameter",
            "100",
            "--visits",
            "1",
            "--final-passes",
            "1",
            "--threads",
            "1",
        ],
        capture_output=True,
        text=True,
    )
    check(run.returncode == 0, f"exit {run.returncode}: {run.stderr}")
    os.chdir("../../an/other")
    names = [row[0] for row in rows("classifier/run_it001_data.star", "particles")]
    check(len(names) == COUNT and all(os.path.exists(name.split("@")[1]) for name in names), f"stacks of {names[0]}")
    os.chdir("../..")

    # The log counts images that are ignored and particles without a CTF.
    with mrcfile.open("p.mrcs", "r+") as stack:
        stack.data[3, 5, 5] = np.nan
        stack.data[8] *= 1e6
    run = subprocess.run(
        [
            f"{BIN}/icestream-classifier",
            "--i",
            "particles.star",
            "--o",
            "spoiled",
            "--classes",
            "2",
            "--diameter",
            "100",
            "--visits",
            "1",
            "--final-passes",
            "1",
            "--threads",
            "1",
        ],
        capture_output=True,
        text=True,
    )
    check(run.returncode == 0, f"exit {run.returncode}: {run.stderr}")
    check(f"2 of {COUNT} images are ignored" in run.stderr, f"nothing of spoiled images: {run.stderr}")
    check(f"{COUNT} of {COUNT} particles have no CTF" in run.stderr, f"nothing of missing CTFs: {run.stderr}")

    if shutil.which("relion_star_handler") is None:
        print("skipped: relion is not installed")
        sys.exit(77)
    read = subprocess.run(
        ["relion_star_handler", "--i", prefix + "_data.star", "--o", "read.star"], capture_output=True, text=True
    )
    check(read.returncode == 0 and len(rows("read.star", "particles")) == COUNT, f"relion_star_handler: {read.stderr}")
    read = subprocess.run(
        ["relion_image_handler", "--i", prefix + "_classes.mrcs", "--stats"], capture_output=True, text=True
    )
    check(read.returncode == 0 and "angpix = 4" in read.stdout, f"relion_image_handler: {read.stdout}{read.stderr}")
print("passed")
