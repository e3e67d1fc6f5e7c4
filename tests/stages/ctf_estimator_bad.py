#!/usr/bin/env python3
"""Bad input of the ctf-estimator fails alone, and each time with its reason: a stack, NaN, a value that
overflows, a constant image, one that is smaller than a tile. Wrong parameters are refused at the start."""

import os
import struct
import subprocess
import tempfile

PROGRAM = os.path.join(os.environ["ICESTREAM_BIN"], "icestream-ctf-estimator")


def mrc(path, nx, ny, nz, values):
    header = bytearray(1024)
    struct.pack_into("<4i", header, 0, nx, ny, nz, 2)
    struct.pack_into("<3i3f", header, 28, nx, ny, nz, 1.5 * nx, 1.5 * ny, 1.5 * nz)
    header[208:216] = b"MAP \x44\x44\0\0"
    with open(path, "wb") as file:
        file.write(header)
        file.write(struct.pack(f"<{len(values)}f", *values))


def noise(count):
    state, values = 5, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) & ((1 << 64) - 1)
        values.append((state >> 40) / (1 << 24))
    return values


with tempfile.TemporaryDirectory(prefix="icestream-ctf-") as folder:
    os.mkdir(f"{folder}/in")
    good = noise(512 * 512)
    mrc(f"{folder}/in/good.mrc", 512, 512, 1, good)
    mrc(f"{folder}/in/nan.mrc", 512, 512, 1, good[:70000] + [float("nan")] + good[70001:])
    mrc(f"{folder}/in/huge.mrc", 512, 512, 1, good[:513] + [1e25] + good[514:])
    mrc(f"{folder}/in/constant.mrc", 512, 512, 1, [3.0] * (512 * 512))
    mrc(f"{folder}/in/small.mrc", 40, 512, 1, good[: 40 * 512])
    mrc(f"{folder}/in/stack.mrc", 512, 256, 2, good)
    run = subprocess.run([PROGRAM, "--i", f"{folder}/in", "--o", f"{folder}/o"], stderr=subprocess.PIPE, text=True)
    print(run.stderr)
    assert run.returncode == 3, run.returncode
    for text in (
        "(368, 136) is NaN or infinite",
        "no variance",
        "huge.mrc: pixel (1, 1) is 1e+25",
        "40 × 512 px",
        "holds 2 images",
    ):
        assert text in run.stderr, text
    assert "1 done, 0 rejected, 5 failed" in run.stderr
    for arguments, text in (
        (["--resolution", "5,30"], "the coarse end"),
        (["--defocus", "5000,1000"], "the least comes first"),
        (["--phase_shift", "90,10"], "the least comes first"),
        (["--box", "513"], "even"),
    ):
        run = subprocess.run(
            [PROGRAM, "--i", f"{folder}/in", "--o", f"{folder}/o2", *arguments], stderr=subprocess.PIPE, text=True
        )
        assert run.returncode == 2 or run.returncode == 1, run.returncode
        assert text in run.stderr, (arguments, run.stderr)
