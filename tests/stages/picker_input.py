#!/usr/bin/env python3
"""Runs one session with micrographs of all kinds: mixed sizes, formats and pixel sizes, dead columns, NaN pixels,
constant ones, too small ones. The picker picks each micrograph as it does alone, or the micrograph fails with an
error of its own that names the cause. The stage survives."""

import glob
import os
import re
import subprocess
import sys
import tempfile

try:
    import mrcfile
    import numpy as np
    import warnings

    warnings.simplefilter("ignore", RuntimeWarning)  # of NaN, which are meant
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
PROGRAM = os.path.join(os.environ["ICESTREAM_BIN"], "icestream-lowpass-picker")
SEED = 20260711
print("seed", SEED)
rng = np.random.default_rng(SEED)
PIXEL, BOX = 2.0, 64


def blob(x, y):
    return 1.5 / (1 + np.exp((np.sqrt(x * x + 1.4 * y * y) - 14) / 1.5)) + 2 * np.exp(
        -((x - 8) ** 2 + (y - 5) ** 2) / 30
    )


def field(nx, ny):
    """Returns grey values and the positions of the particles."""
    image, truth = 1.5 * rng.standard_normal((ny, nx)), []
    yy, xx = np.mgrid[-32:32, -32:32]
    for cy in range(45, ny - 44, 55):
        for cx in range(45, nx - 44, 55):
            psi = 2 * np.pi * rng.random()
            c, s = np.cos(psi), np.sin(psi)
            image[cy - 32 : cy + 32, cx - 32 : cx + 32] -= blob(c * xx - s * yy, s * xx + c * yy)
            truth.append((cx, cy))
    return (1000 + 50 * image).astype(np.float32), truth


def write(path, image):
    with mrcfile.new(path, overwrite=True) as file:
        file.set_data(image)
        file.voxel_size = PIXEL


def points(path):
    columns, rows = [], []
    for line in open(path):
        words = line.split()
        if words and words[0].startswith("_"):
            columns.append(words[0][1:])
        elif columns and len(words) == len(columns):
            rows.append((float(words[columns.index("rlnCoordinateX")]), float(words[columns.index("rlnCoordinateY")])))
    return rows


def found(picks, truth, tolerance=5):
    return sum(any(np.hypot(x - px, y - py) < tolerance for px, py in picks) for x, y in truth)


def run(folder, names, arguments, pixel_sizes):
    """Returns the exit code, the messages, and the picks of each micrograph that is done."""
    groups = sorted(set(pixel_sizes.values()))
    with open(f"{folder}/micrographs.star", "w") as star:
        star.write("data_optics\n\nloop_\n_rlnOpticsGroupName\n_rlnOpticsGroup\n_rlnMicrographPixelSize\n")
        star.writelines(f"g{i} {i + 1} {size}\n" for i, size in enumerate(groups))
        star.write("\ndata_micrographs\n\nloop_\n_rlnMicrographName\n_rlnOpticsGroup\n")
        star.writelines(f"{folder}/{name} {groups.index(pixel_sizes[name]) + 1}\n" for name in names)
    out = f"{folder}/out{run.count}"
    run.count += 1
    done = subprocess.run(
        [PROGRAM, "--i", f"{folder}/micrographs.star", "--o", out, "--write_png", "false", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        timeout=110,
    )
    picks = {}
    for name in names:
        stars = glob.glob(f"{out}/**/{os.path.splitext(name)[0]}_autopick.star", recursive=True)
        if stars:
            picks[name] = points(stars[0])
    return done.returncode, done.stderr, picks


run.count = 0
with tempfile.TemporaryDirectory() as folder:
    images, truths = {}, {}
    for name, nx, ny in (
        ("a.mrc", 512, 512),
        ("b.mrc", 480, 301),
        ("c.mrc", 512, 512),
        ("d.mrc", 333, 470),
        ("e.mrc", 400, 400),
        ("f.mrc", 512, 512),
    ):
        images[name], truths[name] = field(nx, ny)
    # Two dead columns, a hot one and a patch of NaN: each small enough to pick around.
    images["c.mrc"][:, 100] = 0
    images["c.mrc"][:, 101] = 0
    images["c.mrc"][:, 400] = 65535
    images["f.mrc"][200:203, 300:303] = np.nan
    images["f.mrc"][10, 10] = np.inf
    for name, image in images.items():
        write(f"{folder}/{name}", image)
    eight, truths["eight.mrc"] = field(450, 450)
    write(f"{folder}/eight.mrc", np.clip((eight - 1000) / 5, -128, 127).astype(np.int8))
    write(f"{folder}/constant.mrc", np.full((300, 300), 7, np.float32))
    write(f"{folder}/nothing.mrc", np.full((300, 300), np.nan, np.float32))
    write(f"{folder}/small.mrc", field(100, 60)[0])
    write(f"{folder}/tiny.mrc", rng.standard_normal((8, 8)).astype(np.float32))
    yy, xx = np.mgrid[-BOX // 2 : BOX // 2, -BOX // 2 : BOX // 2]
    templates = (blob(xx, yy) * (xx * xx + yy * yy < 400))[None].astype(np.float32)
    with mrcfile.new(f"{folder}/templates.mrcs") as file:
        file.set_data(templates)
        file.set_image_stack()
        file.voxel_size = PIXEL

    good = [*images, "eight.mrc"]
    bad = {
        "constant.mrc": r"all of its pixels are 7",
        "nothing.mrc": r"none of its pixels is a finite number",
        "small.mrc": r"do not fit into (its|a micrograph of) 100 × 60",
        "tiny.mrc": r"8 × 8 px",
        "zero.mrc": r"pixel size",
        "wide.mrc": r"pixel size|pixel_size",
        "cut.mrc": r"byte",
    }
    for name in ("zero.mrc", "wide.mrc"):
        write(f"{folder}/{name}", images["a.mrc"])
    with mrcfile.open(f"{folder}/zero.mrc", "r+") as file:
        file.voxel_size = 0
    content = open(f"{folder}/a.mrc", "rb").read()
    open(f"{folder}/cut.mrc", "wb").write(content[: len(content) // 2])
    order = [
        "a.mrc",
        "constant.mrc",
        "b.mrc",
        "small.mrc",
        "c.mrc",
        "tiny.mrc",
        "d.mrc",
        "zero.mrc",
        "e.mrc",
        "wide.mrc",
        "f.mrc",
        "nothing.mrc",
        "eight.mrc",
        "cut.mrc",
    ]
    sizes = {name: PIXEL for name in order} | {"zero.mrc": 0.0, "wide.mrc": 1000.0}

    failed = []
    for method, arguments in (
        ("templates", ["--templates", f"{folder}/templates.mrcs", "--diameter", "76", "--lowpass", "12"]),
        ("LoG", ["--method", "log", "--diameter", "64", "--lowpass", "12"]),
    ):
        code, messages, picks = run(folder, order, arguments, sizes)
        if code != 3:
            failed.append(
                f"{method}: exit code {code}; 3 is expected when some micrographs cannot be picked\n{messages}"
            )
        for name in good:
            hits, count = found(picks.get(name, []), truths[name], 5 if method == "templates" else 8), len(
                picks.get(name, [])
            )
            print(f"{method}: {name}: {len(truths[name])} planted, {hits} found, {count} picks")
            if hits < 0.9 * len(truths[name]) or count > 1.15 * len(truths[name]) + 1:
                failed.append(f"{method}: {name}: {hits} of {len(truths[name])} found with {count} picks")
            # Alone the micrograph gives the same picks: no state remains from the others.
            alone = run(folder, [name], arguments, sizes)[2].get(name)
            if alone != picks.get(name):
                failed.append(f"{method}: {name} is picked differently among others and alone")
        for name, reason in bad.items():
            said = [line for line in messages.splitlines() if os.path.splitext(name)[0] in line and " failed " in line]
            if name in picks or not any(re.search(reason, line) for line in said):
                failed.append(f"{method}: {name}: an error with '{reason}' expected, got {said or picks.get(name)}")
    assert not failed, "\n".join(failed)
