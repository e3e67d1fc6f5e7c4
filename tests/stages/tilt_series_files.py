"""Shared by tests of the tilt-reconstructor: the program, stacks made with NumPy, checks. Needs numpy and mrcfile."""

import os
import subprocess
import sys

SKIP = 77
try:
    import mrcfile
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(SKIP)

BIN = os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(__file__), "../../build/cpu/bin"))
DATA = os.environ.get("ICESTREAM_DATA", os.path.join(os.path.dirname(__file__), "../../../shared/data"))
failures = []


def check(condition, text):
    print("ok  " if condition else "FAIL", text, flush=True)
    if not condition:
        failures.append(text)


def end():
    print(f"{len(failures)} checks failed")
    sys.exit(1 if failures else 0)


def said(text, *words):
    missing = [w for w in words if w not in text]
    check(not missing, f"says: {words[0]}" + (f"; not {missing}, but: {text[-3000:]}" if missing else ""))


def command(program, *arguments, expect=0):
    result = subprocess.run(
        [os.path.join(BIN, program), *map(str, arguments)], capture_output=True, text=True, timeout=300
    )
    text = result.stdout + result.stderr
    check(
        result.returncode == expect,
        f"{program} {' '.join(map(str, arguments))[-90:]}: exit {result.returncode}"
        + ("" if result.returncode == expect else f", expected {expect}: {text[-2000:]}"),
    )
    return text


def reconstruct(*arguments, expect=0):
    return command("icestream-tilt-reconstructor", *arguments, expect=expect)


def simulate(folder, **options):
    command("icestream-simulate-tilts", "--o", folder, *[w for k, v in options.items() for w in (f"--{k}", v)])
    return f"{folder}/tilts/{options.get('name', 'ts')}", f"{folder}/truth/{options.get('name', 'ts')}"


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    return path


def write_stack(path, images, pixel_size=10.0):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with mrcfile.new(path, overwrite=True) as file:
        file.set_data(np.asarray(images, np.float32))
        file.set_image_stack()
        file.voxel_size = pixel_size
    return path


def volume(path):
    with mrcfile.open(path) as file:
        return file.data.astype(np.float32).copy()


def likeness(a, b):
    return float(np.corrcoef(np.ravel(a), np.ravel(b))[0, 1])
