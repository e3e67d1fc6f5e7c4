#!/usr/bin/env python3
"""Compares picks on real micrographs of β-galactosidase with picks of experts (EMPIAR-10017: denoised 8-bit pictures
without CTF, whose borders repeat a line). Checks F1 at 40 px over all micrographs at the automatic threshold: with
templates projected from a map, with the map itself, and without templates."""

import glob
import math
import os
import subprocess
import sys
import tempfile

data = os.path.join(os.environ["ICESTREAM_DATA"], "empiar10017")
volume = os.path.join(os.environ["ICESTREAM_DATA"], "maps", "betaGal.mrc")
program = os.path.join(os.environ["ICESTREAM_BIN"], "icestream-lowpass-picker")
if not os.path.isdir(data) or not os.path.exists(volume):
    print(f"skipped: no {data} or no {volume}")
    sys.exit(77)
try:
    import mrcfile
    import numpy as np
    from scipy.ndimage import affine_transform
    from scipy.spatial import cKDTree
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
TOLERANCE = 40


def points(path):
    columns, rows = [], []
    for line in open(path):
        words = line.split()
        if words and words[0].startswith("_"):
            columns.append(words[0][1:])
        elif columns and len(words) >= len(columns):
            rows.append((float(words[columns.index("rlnCoordinateX")]), float(words[columns.index("rlnCoordinateY")])))
    return np.array(rows).reshape(-1, 2)


def matches(picks, truth):
    """Pairs picks one to one, nearest first."""
    if not len(picks):
        return 0
    near = cKDTree(truth).query_ball_point(picks, TOLERANCE)
    pairs = sorted((math.dist(picks[i], truth[j]), i, j) for i, found in enumerate(near) for j in found)
    used_picks, used_truth = set(), set()
    for _, i, j in pairs:
        if i not in used_picks and j not in used_truth:
            used_picks.add(i)
            used_truth.add(j)
    return len(used_picks)


def resized(image, size):
    """Crops or pads a square image in Fourier space, about its centre."""
    n = len(image)
    f, out = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(image))), np.zeros((size, size), complex)
    k = min(n, size)
    a, b = (n - k) // 2, (size - k) // 2
    out[b : b + k, b : b + k] = f[a : a + k, a : a + k]
    return np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(out))).real * (size / n) ** 2


def make_templates(path, count, pixel_size, box):
    """Returns projections along directions spread over half a sphere, with standard deviation 1 over the box and
    without a mask."""
    with mrcfile.open(volume) as file:
        density, voxel = file.data.astype(np.float32), float(file.voxel_size.x)
    n, centre, stack = len(density), np.full(3, len(density) // 2), []
    for i in range(count):
        z, phi = 1 - (i + 0.5) / count, i * math.pi * (3 - 5**0.5)
        direction = np.array([math.sqrt(1 - z * z) * math.cos(phi), math.sqrt(1 - z * z) * math.sin(phi), z])
        x = np.cross([0, 0, 1.0] if abs(z) < 0.9 else [1.0, 0, 0], direction)
        x /= np.linalg.norm(x)
        axes = np.array([direction, np.cross(direction, x), x])[:, ::-1].T
        view = affine_transform(density, axes, offset=centre - axes @ centre, order=1).sum(axis=0)
        size = 2 * round(n * voxel / pixel_size / 2)
        view, out = resized(view, size), np.zeros((box, box), np.float32)
        m = min(size, box)
        a, b = (box - m) // 2, (size - m) // 2
        out[a : a + m, a : a + m] = view[b : b + m, b : b + m]
        stack.append((out - out.mean()) / out.std())
    with mrcfile.new(path, overwrite=True) as file:
        file.set_data(np.array(stack, np.float32))
        file.set_image_stack()
        file.voxel_size = pixel_size


def pick(folder, arguments):
    subprocess.run(
        [
            program,
            "--i",
            f"{data}/micrographs",
            "--o",
            f"{folder}/picks",
            "--pixel_size",
            "1.77",
            "--diameter",
            "180",
            "--write_png",
            "false",
            *arguments,
        ],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    hits = picked = wanted = 0
    for path in sorted(glob.glob(f"{data}/gt/*.star")):
        name = os.path.basename(path)[: -len(".star")]
        picks, truth = points(f"{folder}/picks/{name}_autopick.star"), points(path)
        hits, picked, wanted = hits + matches(picks, truth), picked + len(picks), wanted + len(truth)
    return hits / wanted, hits / max(picked, 1)


failed = []
for name, templates, least in (
    ("10 templates of 4 Å, box 64", (10, 4.0, 64), 0.86),
    ("a map", "map", 0.86),
    ("LoG", None, 0.75),
):
    with tempfile.TemporaryDirectory() as folder:
        arguments = []
        if templates == "map":
            arguments = ["--templates", volume, "--symmetry", "D2", "--angle_step", "10"]
        elif templates:
            make_templates(f"{folder}/templates.mrcs", *templates)
            arguments = ["--templates", f"{folder}/templates.mrcs", "--angle_step", "10"]
        recall, precision = pick(folder, arguments)
        f1 = 2 * recall * precision / max(recall + precision, 1e-9)
        print(f"{name}: recall {recall:.3f} precision {precision:.3f} F1 {f1:.3f} (at least {least})", flush=True)
        if f1 < least:
            failed.append(f"{name}: F1 {f1:.3f}, at least {least} expected")
assert not failed, "\n".join(failed)
