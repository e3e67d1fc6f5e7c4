#!/usr/bin/python3
"""Compares the extractor on files with relion_preprocess on the same picks: the images must agree, and RELION must read
the tables."""

import os
import shutil
import subprocess
import sys
import tempfile

try:
    import mrcfile
    import numpy as np
    from PIL import Image
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

BIN, DATA = os.environ["ICESTREAM_BIN"], os.path.join(os.environ["ICESTREAM_DATA"], "apoferritin")
# The second micrograph is a TIFF. RELION flips it, so y counts from its last line.
FILES = {"May08_03_05_02": "May08_03_05_02.mrc", "May08_04_32_27": "May08_04_32_27.tif"}
NAMES = list(FILES)
# A particle at the border, fractional coordinates that are truncated, the last pixel. None of them is a marked centre.
EXTRA = [(3.0, 5.0), (600.9, 500.99), (1239.0, 1199.0)]


def check(condition, message):
    if not condition:
        print("FAILED:", message)
        sys.exit(1)


def rows(path):
    with open(path) as text:
        return [
            line.split()
            for line in text
            if line.strip() and line[0] not in "_#" and not line.startswith(("data", "loop"))
        ]


def table(path, name):
    """Returns columns and rows of one looped table."""
    columns, found, inside = [], [], False
    with open(path) as text:
        for line in text:
            words = line.split()
            if line.startswith("data_"):
                inside = line.strip() == "data_" + name
            elif inside and words and words[0].startswith("_"):
                columns.append(words[0][1:])
            elif inside and words and words[0] != "loop_" and words[0][0] != "#":
                found.append(words)
    return columns, found


if not os.path.isdir(DATA):
    print(f"skipped: no data in {DATA}")
    sys.exit(77)
if shutil.which("relion_preprocess") is None:
    print("skipped: relion_preprocess is not installed")
    sys.exit(77)

with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    os.makedirs("coords/micrographs")
    os.makedirs("micrographs")
    for name in NAMES:  # as float: RELION 3.1 reads unsigned 16-bit values above 32767 as negative
        pixels = mrcfile.read(os.path.join(DATA, "micrographs", name + ".mrc")).astype(np.float32)
        if FILES[name].endswith(".tif"):
            Image.fromarray(pixels[::-1]).save(f"micrographs/{FILES[name]}")
            continue
        with mrcfile.new(f"micrographs/{FILES[name]}") as copy:
            copy.set_data(pixels)
            copy.voxel_size = 1.5
    with open(os.path.join(DATA, "micrographs_ctf.star")) as text:
        lines = text.read().splitlines()
    keep = [line for line in lines if not line.startswith("micrographs/") or any(n in line for n in NAMES)]
    for name in NAMES:
        keep = [line.replace(f"{name}.mrc", FILES[name]) for line in keep]
    with open("micrographs_ctf.star", "w") as out:
        out.write("\n".join(keep) + "\n")
    with open("autopick.star", "w") as index:
        index.write(
            "\n# version 30001\n\ndata_coordinate_files\n\nloop_\n_rlnMicrographName #1\n_rlnMicrographCoordinates #2\n"
        )
        for name in NAMES:
            picks = f"coords/micrographs/{name}_pick.star"
            centres = [(float(r[0]), float(r[1])) for r in rows(os.path.join(DATA, "centres", name + ".star"))]
            with open(picks, "w") as out:
                out.write("\n# version 30001\n\ndata_\n\nloop_\n_rlnCoordinateX #1\n_rlnCoordinateY #2\n")
                out.writelines(f"{x:.3f} {y:.3f}\n" for x, y in centres + EXTRA)
                out.write("\n")
            index.write(f"micrographs/{FILES[name]} {picks}\n")
        index.write("\n")

    ours = subprocess.run(
        [
            f"{BIN}/icestream-extractor",
            "--i",
            "micrographs_ctf.star,autopick.star",
            "--o",
            "extractor",
            "--box",
            "128",
            "--downscale-to",
            "64",
            "--threads",
            "1",
        ],
        capture_output=True,
        text=True,
    )
    check(ours.returncode == 0, f"exit {ours.returncode}: {ours.stderr}")
    theirs = subprocess.run(
        "relion_preprocess --i micrographs_ctf.star --coord_dir coords/ --coord_suffix _pick.star "
        "--part_star theirs/particles.star --part_dir theirs/ --extract --extract_size 128 --scale 64 "
        "--norm --bg_radius 24 --white_dust -1 --black_dust -1 --invert_contrast".split(),
        capture_output=True,
        text=True,
    )
    check(theirs.returncode == 0, f"relion_preprocess: {theirs.stdout}{theirs.stderr}")

    total = 0
    for name in NAMES:
        with mrcfile.open(f"extractor/micrographs/{name}.mrcs") as a, mrcfile.open(
            f"theirs/micrographs/{name}.mrcs"
        ) as b:
            check(a.data.shape == b.data.shape, f"{name}: {a.data.shape} against {b.data.shape}")
            difference = np.abs(a.data - b.data).max()
            print(f"{name}: {len(a.data)} images, largest difference {difference:.2e}")
            # Single against double precision, on values of a few standard deviations.
            check(difference < 2e-4, f"{name}: images differ by {difference}")
            check(abs(float(a.voxel_size.x) - 3.0) < 1e-4, f"pixel size {a.voxel_size}")
            total += len(a.data)
        check(mrcfile.validate(f"extractor/micrographs/{name}.mrcs"), f"mrcfile.validate refuses {name}.mrcs")

    columns, particles = table("extractor/particles.star", "particles")
    check(len(particles) == total, f"particles.star has {len(particles)} rows, the stacks {total} images")
    for column in (
        "rlnImageName",
        "rlnMicrographName",
        "rlnOpticsGroup",
        "rlnCoordinateX",
        "rlnDefocusU",
        "rlnDefocusV",
        "rlnDefocusAngle",
        "rlnPhaseShift",
        "rlnCtfFigureOfMerit",
    ):
        check(column in columns, f"{column} is not in particles.star: {columns}")
    image = particles[0][columns.index("rlnImageName")]
    check(image == "000001@extractor/micrographs/May08_03_05_02.mrcs", f"first image: {image}")
    check(float(particles[0][columns.index("rlnDefocusU")]) == 19960, "defocus of the first particle")
    columns, optics = table("extractor/particles.star", "optics")
    check(
        len(optics) == 1 and float(optics[0][columns.index("rlnImagePixelSize")]) == 3.0, f"optics: {columns} {optics}"
    )
    read = subprocess.run(
        "relion_star_handler --i extractor/particles.star --o read.star".split(), capture_output=True, text=True
    )
    check(read.returncode == 0 and "read.star" in os.listdir("."), f"relion_star_handler: {read.stdout}{read.stderr}")
    check(len(table("read.star", "particles")[1]) == total, "relion_star_handler lost rows")
print("passed")
