#!/usr/bin/env python3
"""Times icestream-lowpass-picker on a session of micrographs, from page cache to STAR files: time of each, beside the
slowest of its parts. Reads only its own simulated input.

picker_stream.py [--count 200] [--size 4096] [--pixel 1.62] [--lowpass 20] [--device auto] [--ctf 1]
                 [--mode float32|float16|int8] [-- OPTION...]

Micrographs are noise with dark lopsided particles. --distinct of them are drawn, once in a --folder; the rest are links to
these (each is read as a separate file). Templates: eight, in steps of 5 degrees. Needs numpy."""

import argparse
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

parser = argparse.ArgumentParser()
for name, value in (("count", 200), ("size", 4096), ("distinct", 8), ("templates", 8), ("ctf", 1)):
    parser.add_argument(f"--{name}", type=int, default=value)
for name, value in (("pixel", 1.62), ("lowpass", 20.0)):
    parser.add_argument(f"--{name}", type=float, default=value)
parser.add_argument("--device", default="auto")
parser.add_argument("--mode", default="float32", choices=("float32", "float16", "int8"), help="pixels in the files")
parser.add_argument("--bin", default=os.environ.get("ICESTREAM_BIN", "build/cuda/bin"))
parser.add_argument("--folder", default=None, help="where to work; kept when it is given")
parser.add_argument("rest", nargs="*")
a = parser.parse_args()
rng = np.random.default_rng(1)
BOX, WIDE = 64, 3.0  # templates: px, and Å/px


def shape(t, y, x):
    return (
        1.2 * np.exp(-(x * x + (1 + 0.25 * t) * y * y) / 90) + 1.5 * np.exp(-((x - 7 + t) ** 2 + (y - 5) ** 2) / 25)
    ).astype(np.float32)


MODES = {"float32": (2, "<f4"), "float16": (12, "<f2"), "int8": (0, "i1")}


def write_mrc(path, data, pixel, stack=False, mode="float32"):
    nz, ny, nx = data.shape
    if mode == "int8":
        data = np.clip(np.rint(data - 100), -128, 127)
    number, kind = MODES[mode]
    words = [nx, ny, nz, number, 0, 0, 0, nx, ny, 1 if stack else nz]
    header = (
        struct.pack("<10i", *words) + struct.pack("<3f", nx * pixel, ny * pixel, pixel) + struct.pack("<3f", 90, 90, 90)
    )
    header += (
        struct.pack("<3i", 1, 2, 3) + struct.pack("<3f", data.min(), data.max(), data.mean()) + struct.pack("<2i", 0, 0)
    )
    header = header.ljust(208, b"\0") + b"MAP " + bytes((0x44, 0x44, 0, 0)) + struct.pack("<f", data.std())
    with open(path, "wb") as file:
        file.write(header.ljust(1024, b"\0"))
        data.astype(kind).tofile(file)


folder = a.folder or tempfile.mkdtemp(prefix="icestream-stream-")
os.makedirs(folder, exist_ok=True)
try:
    y, x = np.mgrid[-BOX // 2 : BOX // 2, -BOX // 2 : BOX // 2]
    write_mrc(f"{folder}/templates.mrcs", np.stack([shape(t, y, x) for t in range(a.templates)]), WIDE, stack=True)
    ratio = WIDE / a.pixel
    half = int(BOX / 2 * ratio)
    fy, fx = np.mgrid[-half:half, -half:half] / ratio
    particles = [shape(t, fy, fx) for t in range(a.templates)]
    for i in range(min(a.distinct, a.count)):
        if os.path.exists(f"{folder}/mic{i:04d}.mrc"):
            continue
        image = rng.standard_normal((a.size, a.size), dtype=np.float32)
        for _ in range(int((a.size / (3 * half)) ** 2)):
            cy, cx = rng.integers(half, a.size - half, 2)
            image[cy - half : cy + half, cx - half : cx + half] -= particles[rng.integers(a.templates)]
        write_mrc(f"{folder}/mic{i:04d}.mrc", (100 + 10 * image)[None], a.pixel, mode=a.mode)
    for i in range(a.distinct, a.count):
        if not os.path.exists(f"{folder}/mic{i:04d}.mrc"):
            os.link(f"{folder}/mic{i % a.distinct:04d}.mrc", f"{folder}/mic{i:04d}.mrc")
    with open(f"{folder}/micrographs.star", "w") as star:
        star.write(
            "data_optics\n\nloop_\n_rlnOpticsGroupName\n_rlnOpticsGroup\n_rlnMicrographPixelSize\n_rlnVoltage\n"
            f"_rlnSphericalAberration\n_rlnAmplitudeContrast\ng1 1 {a.pixel} 300 2.7 0.1\n\ndata_micrographs\n\nloop_\n"
            "_rlnMicrographName\n_rlnOpticsGroup\n_rlnDefocusU\n_rlnDefocusV\n_rlnDefocusAngle\n"
        )
        star.writelines(f"{folder}/mic{i:04d}.mrc 1 {12000 + 40 * i} {11800 + 40 * i} 20\n" for i in range(a.count))
    for i in range(min(a.distinct, a.count)):  # reads the file into the page cache
        with open(f"{folder}/mic{i:04d}.mrc", "rb") as file:
            while file.read(1 << 26):
                pass
    out = f"{folder}/out"
    shutil.rmtree(out, ignore_errors=True)
    command = [
        f"{a.bin}/icestream-lowpass-picker",
        "--i",
        f"{folder}/micrographs.star",
        "--o",
        out,
        "--templates",
        f"{folder}/templates.mrcs",
        "--diameter",
        "130",
        "--lowpass",
        str(a.lowpass),
        "--write_png",
        "false",
        "--ctf",
        "true" if a.ctf else "false",
        "--device",
        a.device,
        *a.rest,
    ]
    print(" ".join(command), flush=True)
    start = time.monotonic()
    code = subprocess.run(command).returncode
    took = time.monotonic() - start
    done = sum(name.endswith("_autopick.star") for _, _, names in os.walk(out) for name in names)
    print(
        f"{done} of {a.count} micrographs of {a.size}^2 in {took:.2f} s, start and templates included: "
        f"{1e3 * took / max(done, 1):.1f} ms each; exit code {code}"
    )
    sys.exit(code)
finally:
    if not a.folder:
        shutil.rmtree(folder, ignore_errors=True)
