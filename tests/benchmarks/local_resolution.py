"""Local resolution of half maps whose two sides differ, beside regional FSCs, the truth and relion_postprocess --locres.

local_resolution.py VOLUME_TOOL MAP NOISE RATIO [--blur A] [--relion]: adds noise to a map, NOISE times the density's
standard deviation on the left and RATIO times that on the right; --blur low-passes the right side first."""

import argparse
import os
import subprocess
import tempfile
import time

import mrcfile
import numpy as np
from scipy.ndimage import gaussian_filter

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("tool")
parser.add_argument("map")
parser.add_argument("noise", type=float)
parser.add_argument("ratio", type=float)
parser.add_argument("--blur", type=float, default=0)
parser.add_argument("--relion", action="store_true")
given = parser.parse_args()
rng = np.random.default_rng(3)

with mrcfile.open(given.map, permissive=True) as file:
    density, pixel = file.data.astype(np.float64), float(file.voxel_size.x)
box = density.shape[0]
k = np.fft.fftfreq(box) * box
radius = np.sqrt(k[:, None, None] ** 2 + k[None, :, None] ** 2 + np.arange(box // 2 + 1) ** 2)
shells = np.round(radius).astype(int).ravel()


def spectrum_times(volume, gain):
    return np.fft.irfftn(np.fft.rfftn(volume) * gain, s=volume.shape)


def lowpass(volume, resolution):
    over = np.clip(radius - box * pixel / resolution + 1, 0, 2)
    return spectrum_times(volume, 0.5 + 0.5 * np.cos(np.pi * over / 2))


def crossing(a, b, threshold):
    """Returns where the FSC falls below a threshold, in Å."""
    first, second = np.fft.rfftn(a).ravel(), np.fft.rfftn(b).ravel()
    sums = [
        np.bincount(shells, v, minlength=box)[: box // 2 + 1]
        for v in ((first * second.conj()).real, abs(first) ** 2, abs(second) ** 2)
    ]
    curve = sums[0] / np.sqrt(sums[1] * sums[2] + 1e-30)
    for i in range(1, len(curve)):
        if curve[i] < threshold:
            return box * pixel / (i - 1 + (curve[i - 1] - threshold) / (curve[i - 1] - curve[i]))
    return 2 * pixel


def write(path, volume):
    with mrcfile.new(path, overwrite=True) as out:
        out.set_data(np.ascontiguousarray(volume, np.float32))
        out.voxel_size = pixel


x = np.arange(box) - box // 2
positive = np.clip(density, 0, None)
centre = (positive * x).sum() / positive.sum()
left = (1 / (1 + np.exp((x - centre) / 3)))[None, None, :]
inside = lowpass(density, 15) > 0.03 * density.max()
soft = gaussian_filter(inside.astype(float), 1.5)
truth = spectrum_times(density, np.exp(-25 * (radius / (box * pixel)) ** 2))  # B 100 Å²
if given.blur > 0:
    truth = left * truth + (1 - left) * lowpass(truth, given.blur)
deviation = given.noise * density[inside].std() * (left + given.ratio * (1 - left))
halves = [truth + deviation * rng.normal(size=truth.shape) for _ in range(2)]
mean = (halves[0] + halves[1]) / 2


def side(name):
    away = centre - x if name == "left" else x - centre
    return soft * (1 / (1 + np.exp(4 - away / 2)))[None, None, :]


def error(volume, where):
    return ((volume - truth)[where] ** 2).sum() / ((mean - truth)[where] ** 2).sum()


with tempfile.TemporaryDirectory() as folder:
    paths = [os.path.join(folder, name) for name in ("a", "b", "resolution", "filtered")]
    for path, half in zip(paths, halves):
        half.astype(np.float32).tofile(path)
    command = [given.tool, "local", str(box), str(pixel), *paths[:2], "0", *paths[2:]]
    print("icestream:", subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    local, filtered = (np.fromfile(path, np.float32).reshape(density.shape) for path in paths[2:])
    relion = None
    if given.relion:
        for i, half in enumerate(halves):
            write(f"{folder}/p_half{i + 1}_class001_unfil.mrc", half)
        write(f"{folder}/mask.mrc", np.clip(gaussian_filter(inside.astype(float), 2), 0, 1))
        began = time.monotonic()
        command = ["relion_postprocess", "--i", f"{folder}/p_half1_class001_unfil.mrc", "--o", f"{folder}/out"]
        command += ["--locres", "--angpix", str(pixel), "--adhoc_bfac", "0", "--mask", f"{folder}/mask.mrc"]
        subprocess.run(command, check=True, capture_output=True)
        print(f"relion_postprocess: {time.monotonic() - began:.1f} s")
        with mrcfile.open(f"{folder}/out_locres.mrc", permissive=True) as file:
            relion = file.data.astype(np.float64)

for name in ("left", "right"):
    weights = side(name)
    chosen = weights > 0.7
    print(
        f"{name}: halves 0.143 {crossing(halves[0] * weights, halves[1] * weights, 0.143):.2f} Å, "
        f"truth 0.5 {crossing(mean * weights, truth * weights, 0.5):.2f} Å, local (5, 50, 95 %)",
        np.round(np.percentile(local[chosen], [5, 50, 95]), 2),
        f"squared error of the filtered map {error(filtered, chosen):.3f} of the mean's",
    )
    if relion is not None:
        chosen &= relion > 0
        print(f"{name}: RELION", np.round(np.percentile(relion[chosen], [5, 50, 95]), 2))
whole = crossing(*halves, 0.143)
print(
    f"all: {whole:.2f} Å; squared error: filtered by local resolution {error(filtered, inside):.3f}, by the global "
    f"one {error(lowpass(mean, whole), inside):.3f}; solvent (1, 5, 50 %)",
    np.round(np.percentile(local[gaussian_filter(inside.astype(float), 6) < 0.01], [1, 5, 50]), 1),
)
if relion is not None:
    both = (soft > 0.7) & (relion > 0)
    print(f"correlation with RELION (1/d): {np.corrcoef(1 / relion[both], 1 / local[both])[0, 1]:.3f}")
