#!/usr/bin/env python3
"""Picks on the CPU and on a CUDA device; only ties may differ. There are more shapes of micrographs than plans in the
cache. One micrograph is constant and fails. The picker runs with templates and CTF, without CTF, by LoG, and by
RELION's rules. Skips if there is no device."""

import glob
import math
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.join(os.environ["ICESTREAM_BIN"], "icestream-lowpass-picker")
SEED, PIXEL, BOX = 20261121, 2.0, 64
rng = np.random.default_rng(SEED)
print("seed", SEED)


MODES = {"f4": 2, "f2": 12, "i1": 0, "u1": 0, "i2": 1, "u2": 6}


def write(path, data, stack=False, kind="<f4"):
    """Writes an MRC file by hand: machines with GPUs may have no mrcfile. kind: of pixels, behind their byte order."""
    nz, ny, nx = data.shape
    order = kind[0]
    header = np.zeros(256, order + "i4")
    header[[0, 1, 2, 3, 7, 8, 9]] = nx, ny, nz, MODES[kind[1:]], nx, ny, 1 if stack else nz
    header[10:16] = np.array([nx * PIXEL, ny * PIXEL, PIXEL, 90, 90, 90], order + "f4").view(order + "i4")
    header[16:19] = 1, 2, 3
    if kind[1:] == "u1":  # IMOD's mark of unsigned bytes
        header[38] = 1146047817
    if kind[1] != "f":
        data = np.rint(data)
    header = header.tobytes()
    stamp = b"DD" if order == "<" else b"\x11\x11"
    with open(path, "wb") as file:
        file.write(header[:208] + b"MAP " + stamp + b"\0\0" + header[216:])
        data.astype(kind).tofile(file)


def shape(t, y, x):
    return 1.5 / (1 + np.exp((np.hypot(x, (1.1 + 0.2 * t) * y) - 14) / 1.5)) + 2 * np.exp(
        -((x - 8) ** 2 + (y - 5) ** 2) / 30
    )


def field(nx, ny):
    image = 1.5 * rng.standard_normal((ny, nx))
    yy, xx = np.mgrid[-32:32, -32:32]
    for cy in range(45, ny - 44, 55):
        for cx in range(45, nx - 44, 55):
            a = 2 * np.pi * rng.random()
            image[cy - 32 : cy + 32, cx - 32 : cx + 32] -= shape(
                rng.integers(2), np.sin(a) * xx + np.cos(a) * yy, np.cos(a) * xx - np.sin(a) * yy
            )
    return (100 + 9 * image)[None]


def picks(folder):
    found = {}
    for path in glob.glob(f"{folder}/**/*_autopick.star", recursive=True):
        columns, rows = [], []
        for line in open(path):
            words = line.split()
            if words and words[0].startswith("_"):
                columns.append(words[0])
            elif columns and len(words) == len(columns):
                rows.append(dict(zip(columns, map(float, words))))
        found[os.path.basename(path)] = rows
    return found


def same(a, b):
    near = math.hypot(a["_rlnCoordinateX"] - b["_rlnCoordinateX"], a["_rlnCoordinateY"] - b["_rlnCoordinateY"]) < 0.02
    return near and abs(a["_rlnAutopickFigureOfMerit"] - b["_rlnAutopickFigureOfMerit"]) < 1e-3


with tempfile.TemporaryDirectory() as folder:
    shapes = [(512, 512), (480, 301), (512, 512), (333, 470), (400, 400), (512, 512), (450, 380), (480, 301)]
    # A device takes some of these as they lie in the file, and others not; behind them one micrograph in all kinds.
    kinds = ["<f4", "<f2", "<i2", ">f4", "<i2", "<u2", "<u1", ">i2"]
    for i, (nx, ny) in enumerate(shapes):
        write(f"{folder}/mic{i}.mrc", np.full((1, ny, nx), 7.0) if i == 4 else field(nx, ny), kind=kinds[i])
    again = np.clip(np.rint(field(512, 512)), 0, 127)
    for kind in ("<f4", ">f4", "<f2", "<i1", "<u1", "<i2", "<u2"):
        shapes.append((512, 512))
        write(f"{folder}/mic{len(shapes) - 1}.mrc", again, kind=kind)
    y, x = np.mgrid[-BOX // 2 : BOX // 2, -BOX // 2 : BOX // 2]
    write(f"{folder}/templates.mrcs", np.stack([shape(t, y, x) * (x * x + y * y < 400) for t in range(2)]), stack=True)
    with open(f"{folder}/micrographs.star", "w") as star:
        star.write(
            f"data_optics\n\nloop_\n_rlnOpticsGroup\n_rlnMicrographPixelSize\n_rlnVoltage\n1 {PIXEL} 300\n\n"
            "data_micrographs\n\nloop_\n_rlnMicrographName\n_rlnOpticsGroup\n_rlnDefocusU\n_rlnDefocusV\n"
        )
        star.writelines(f"{folder}/mic{i}.mrc 1 {9000 + 200 * min(i, 8)} {8800 + 200 * min(i, 8)}\n" for i in range(len(shapes)))
    common = ["--templates", f"{folder}/templates.mrcs", "--diameter", "76", "--lowpass", "12", "--angle_step", "10"]
    cases = {
        "templates, no CTF": [*common, "--ctf", "false"],
        "templates, CTF, not whitened": [*common, "--whiten", "off"],
        "RELION's rules": [*common, "--ctf", "false", "--prune", "relion", "--threshold", "0.3"],
        "LoG": ["--method", "log", "--diameter", "64"],
    }
    failed = []
    for name, arguments in cases.items():
        results = []
        for device in ("cpu", "cuda:0"):
            out = f"{folder}/{device[:3]}-{len(name)}"
            run = subprocess.run(
                [
                    PROGRAM,
                    "--i",
                    f"{folder}/micrographs.star",
                    "--o",
                    out,
                    "--write_png",
                    "false",
                    "--device",
                    device,
                    *arguments,
                ],
                stderr=subprocess.PIPE,
                text=True,
            )
            if run.returncode != 0 and ("visible here" in run.stderr or "without CUDA" in run.stderr):
                print("skipped: no CUDA device:", run.stderr.strip().splitlines()[-1])
                sys.exit(77)
            # Exit code 3: the constant micrograph fails, and no other fails.
            if run.returncode != 3 or "1 failed" not in run.stderr or "mic4.mrc: all of its pixels" not in run.stderr:
                failed.append(f"{name} on {device}: exit code {run.returncode}\n{run.stderr}")
            found = picks(out)
            results.append(found)
            alike = [found.get(f"mic{i}_autopick.star") for i in range(8, len(shapes))]
            if alike[0] is None or any(rows != alike[0] for rows in alike):
                failed.append(f"{name} on {device}: kinds of pixels give other picks")
        cpu, cuda = results
        count = sum(map(len, cpu.values()))
        other = sum(not any(same(a, b) for b in cuda.get(m, [])) for m in cpu for a in cpu[m])
        other += sum(not any(same(a, b) for b in cpu.get(m, [])) for m in cuda for a in cuda[m])
        print(f"{name}: {count} picks, {other} of them on one device only")
        # Ties may differ. More differences are an error.
        if count < 50 or other > count / 500:
            failed.append(f"{name}: {other} of {count} picks differ")
    assert not failed, "\n".join(failed)
