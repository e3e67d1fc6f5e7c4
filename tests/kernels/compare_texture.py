"""Compares texture features with the consensus values of the IBSI phantom and with scikit-image.

compare_texture.py TEXTURE_TOOL [ibsi|skimage]. Exits with 77 if the phantom or scikit-image is missing."""

import gzip
import math
import os
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

TOOL, LEG = os.path.abspath(sys.argv[1]), sys.argv[2]
HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(os.environ.get("ICESTREAM_DATA", os.path.join(HERE, "../../../shared/data")), "ibsi")
failures = []


def check(what, ok, value):
    if not ok:
        print(f"FAIL {what}: {value}")
        failures.append(what)


def tool(*arguments, text=None):
    done = subprocess.run([TOOL, *map(str, arguments)], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"texture_tool {arguments} came back with {done.returncode}: {done.stderr}")
    return done.stdout


# The phantom has 5 x 4 x 4 voxels of levels 1 to 6, and a mask.


def read_nifti(path):
    """Reads values [z][y][x] of a gzipped NIfTI-1 file."""
    with gzip.open(path) as f:
        raw = f.read()
    order = "<" if struct.unpack("<i", raw[:4])[0] == 348 else ">"
    shape = struct.unpack(order + "8h", raw[40:56])[1:4]
    kinds = {2: "u1", 4: "i2", 8: "i4", 16: "f4", 64: "f8", 256: "i1", 512: "u2"}
    kind = kinds[struct.unpack(order + "h", raw[70:72])[0]]
    offset = int(struct.unpack(order + "f", raw[108:112])[0])
    return np.frombuffer(raw, order + kind, math.prod(shape), offset).reshape(shape[::-1]).astype(int)


def counted(image, mask, step):
    """Returns the matrix of one displacement (dz, dy, dx), counted both ways round; levels from 1."""
    n = np.zeros((6, 6))
    for at in np.argwhere(mask):
        to = tuple(at + step)
        if all(0 <= k < size for k, size in zip(to, image.shape)) and mask[to]:
            i, j = image[tuple(at)] - 1, image[to] - 1
            n[i, j] += 1
            n[j, i] += 1
    return n


def features(n):
    return np.array(tool("matrix", len(n), text=" ".join(repr(x) for x in (n / n.sum()).ravel())).split(), float)


def to_ibsi(f):
    """Converts icestream's features to the consensus' names: its levels count from 1, its entropies are in bits."""
    bits = 1 / math.log(2)
    shared = -math.log(max(1e-300, 1 - f[12] ** 2)) / 2 * bits
    return {
        "energy": f[0],
        "contrast": f[1],
        "corr": f[2],
        "joint_var": f[3],
        "inv_diff_mom": f[4],
        "sum_avg": f[5] + 2,
        "sum_var": f[6],
        "sum_entr": f[7] * bits,
        "joint_entr": f[8] * bits,
        "diff_var": f[9],
        "diff_entr": f[10] * bits,
        "info_corr1": f[11],
        "info_corr2": math.sqrt(1 - math.exp(-2 * shared)),
    }


def mean_of(matrices):
    values = [to_ibsi(features(n)) for n in matrices]
    return {k: sum(v[k] for v in values) / len(values) for k in values[0]}


def ibsi():
    folder = os.path.join(DATA, "ibsi_1_digital_phantom/nifti")
    table = os.path.join(DATA, "ibsi_1_dig_phantom.csv")
    if not os.path.exists(table):
        print(f"skipped: no phantom at {DATA}")
        sys.exit(77)
    image = read_nifti(os.path.join(folder, "image/phantom.nii.gz"))
    mask = read_nifti(os.path.join(folder, "mask/mask.nii.gz")) > 0
    steps = [(z, y, x) for z in (-1, 0, 1) for y in (-1, 0, 1) for x in (-1, 0, 1) if (z, y, x) > (0, 0, 0)]
    flat = [s for s in steps if s[0] == 0]
    slices = [[counted(image[z : z + 1], mask[z : z + 1], s) for s in flat] for z in range(len(image))]
    found = {
        "2D_avg": mean_of([n for one in slices for n in one]),
        "2D_comb": mean_of([sum(one) for one in slices]),
        "2_5D_avg": mean_of([sum(one[k] for one in slices) for k in range(len(flat))]),
        "2_5D_comb": mean_of([sum(sum(one) for one in slices)]),
        "3D_avg": mean_of([counted(image, mask, s) for s in steps]),
        "3D_comb": mean_of([sum(counted(image, mask, s) for s in steps)]),
    }
    with open(table, encoding="utf-8") as f:
        rows = [line.strip().split(";") for line in f]
    expected = {tag: value for value, _, tag in rows[1:] if value}
    compared = 0
    for way, values in found.items():
        for name, value in values.items():
            text = expected[f"cm_{name}_{way}"]
            # The tolerance is half of the last digit of the consensus value.
            digits = len(text.split(".")[1]) if "." in text else 0
            check(f"{name} {way}", abs(value - float(text)) <= 0.5001 * 10**-digits, f"{value}, not {text}")
            compared += 1
    print(f"{compared} consensus values of the IBSI phantom, {len(failures)} missed")


# One window, with its four neighbours by graycomatrix.


def skimage():
    try:
        from skimage import feature
    except ImportError as e:
        print(f"skipped: {e}")
        sys.exit(77)
    matrix = getattr(feature, "graycomatrix", None) or feature.greycomatrix
    props = getattr(feature, "graycoprops", None) or feature.greycoprops
    seed = 20261122
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    compared, side = 0, 33
    for kind in range(3):
        image = rng.integers(0, 256, (side, side)).astype(np.uint8)
        if kind > 0:
            y, x = np.mgrid[:side, :side]
            image = (120 + 90 * np.sin(0.3 * x * kind + 0.1 * y) + rng.integers(0, 30, (side, side))).astype(np.uint8)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "image.raw")
            image.tofile(path)
            rows = [line.split() for line in tool("image", path, side, side, 16, 16, 31.9, 1, 31).splitlines()]
        y, x = np.mgrid[:side, :side] - 16
        inside = image[x * x + y * y <= 15.95**2].astype(float)
        low, high = inside.min(), inside.max()
        for q in (64, 32, 16):
            level = np.minimum(q - 1, np.floor(q * (np.clip(image, low, high) - low) / (high - low))).astype(np.uint8)
            angles = [0, np.pi / 4, np.pi / 2, 3 * np.pi / 4]
            p = matrix(level[1:32, 1:32], [1], angles, levels=q, symmetric=True, normed=True)
            names = {1: "ASM", 2: "contrast", 3: "correlation", 5: "homogeneity"}
            truth = {k: props(p, name) for k, name in names.items()}
            one = p[:, :, 0, :]
            with np.errstate(divide="ignore", invalid="ignore"):
                truth[9] = -np.where(one > 0, one * np.log(one), 0).sum((0, 1))
            for number, values in truth.items():
                v = np.ravel(values)
                got = next(r for r in rows if r[:3] == [str(q), "1", str(number)])
                size = abs(v.mean())
                for name, a, b in (
                    ("mean", float(got[3]), v.mean()),
                    ("largest range", float(got[4]), np.ptp(v)),
                    ("smallest range", float(got[5]), np.ptp(v)),
                ):
                    check(f"image {kind}, {q} levels, f{number}, {name}", abs(a - b) <= 1e-5 * size, f"{a}, not {b}")
                    compared += 1
    print(f"{compared} values by scikit-image, {len(failures)} missed")


{"ibsi": ibsi, "skimage": skimage}[LEG]()
sys.exit(1 if failures else 0)
