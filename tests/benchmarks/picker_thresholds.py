#!/usr/bin/python3
"""Compares the picker's automatic threshold with the best fixed one, on simulated micrographs whose particles are known.

picker_thresholds.py [--only WORD,WORD] [--method log,template,relion] [--snr 0.05,0.2] [--keep FOLDER] [--seed 1]

Sets: real molecules and rods; sparse, usual, crowded and touching; three particles a micrograph, and none; edges of
carbon and of gold, lumps of ice, extreme defocus, micrographs that are not square, and no CTF values. Each set is
four micrographs (six where there are no particles, and as many as hold 72 of three particles) of 700² px. Particles have
random orientations and the micrograph's CTF; the ice scatters too. SNR: the variance of the projections inside the
particle, over the variance of the noise, at half the pixel size that the micrographs have. The method "relion" is
relion_autopick --LoG with its own threshold.

The fixed threshold is the best of all: each score of a pick is tried, as no user could. A pick counts if it lies within
0.2 diameters of a particle. Prints a line for each set, and at the end the greatest loss of F1. Fails above --most."""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

try:
    import mrcfile
    import numpy as np
    from scipy.ndimage import affine_transform, gaussian_filter
    from scipy.spatial import cKDTree
    from scipy.spatial.transform import Rotation
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.environ.get("ICESTREAM_BIN", os.path.join(HERE, "../../build/cpu/bin"))
MAPS = os.path.join(os.environ.get("ICESTREAM_DATA", os.path.join(HERE, "../../../shared/data")), "maps")
SIZE, ICE, B_FACTOR, TOLERANCE = 700, 0.09, 60, 0.2
VOLTAGE, CS, AMPLITUDE = 300, 2.7, 0.1
HEAD = """
data_optics

loop_
_rlnOpticsGroup
_rlnOpticsGroupName
_rlnMicrographOriginalPixelSize
_rlnMicrographPixelSize
_rlnVoltage
_rlnSphericalAberration
_rlnAmplitudeContrast
1 og1 {0} {0} 300 2.7 0.1

data_micrographs

loop_
_rlnMicrographName
_rlnOpticsGroup
_rlnDefocusU
_rlnDefocusV
_rlnDefocusAngle
"""
# name: molecule, diameter and LoG's diameter (Å), pixel size (Å), particles a micrograph, least distance (Å)
SETS = {
    "small": ("blob80", 80, "80", 3.0, 90, 90),
    "usual": ("cand1", 140, "140", 4.0, 50, 170),
    "round": ("cav11", 170, "170", 4.0, 50, 190),
    "crowded": ("cand1", 140, "140", 4.0, 150, 135),
    "touching": ("cand1", 140, "140", 4.0, 165, 105),
    "ring": ("p97", 170, "170", 4.0, 60, 180),
    "tetramer": ("betaGal", 170, "170", 4.0, 70, 180),
    "ribosome": ("70S", 270, "270", 6.0, 60, 280),
    "large": ("blob400", 400, "400", 6.4, 30, 420),
    "rod": ("rod", 260, "80,260", 4.0, 40, 200),
    "rods": ("rod", 260, "80,260", 4.0, 80, 130),
    "few": ("cand1", 140, "140", 4.0, 3, 170),
    "sparse": ("cav11", 170, "170", 4.0, 12, 190),
    "empty": ("cand1", 140, "140", 4.0, 0, 170),
    "empty_large": ("cav11", 170, "170", 4.0, 0, 190),
    "empty_rod": ("rod", 260, "80,260", 4.0, 0, 200),
    "carbon": ("cand1", 140, "140", 4.0, 50, 170),
    "gold": ("cand1", 140, "140", 4.0, 50, 170),
    "ice": ("cand1", 140, "140", 4.0, 50, 170),
    "facets": ("cand1", 140, "140", 4.0, 50, 170),
    "empty_ice": ("cand1", 140, "140", 4.0, 0, 170),
    "empty_facets": ("cand1", 140, "140", 4.0, 0, 170),
    "far_focus": ("cand1", 140, "140", 4.0, 50, 170),
    "near_focus": ("cand1", 140, "140", 4.0, 50, 170),
    "wide": ("cand1", 140, "140", 4.0, 40, 170),
    "no_ctf": ("cand1", 140, "140", 4.0, 50, 170),
}
DEFOCUS = {"far_focus": (45000, 60000), "near_focus": (3000, 5000)}  # Å
SHAPES = {"wide": (565, 800)}  # rows, columns
MICROGRAPHS = {"few": 24}
# Part of the electrons that ice absorbs and that gold absorbs; electrons in a pixel, in standard deviations.
LUMPS, ABSORBED = 8, {"ice": 0.04, "facets": 0.15, "gold": 0.8}
ELECTRONS = 25
FILES = {
    "cand1": "cand1_1u6g_128",
    "cav11": "cav11_5gjv_128",
    "p97": "p97_3cf3_128",
    "betaGal": "betaGal",
    "70S": "70S_4v4r_10A",
}


def phantom(name, rng):
    """Returns a density and its voxel size: balls scattered inside a ball or a cylinder."""
    length, width = {"blob80": (80, 80), "blob400": (400, 400), "rod": (260, 80)}[name]
    voxel = length / 80
    grid = (np.indices((128, 128, 128)) - 64).astype(np.float32)
    density = np.zeros((128, 128, 128), np.float32)
    for _ in range(40):
        radius = width * rng.uniform(0.08, 0.2)
        while True:
            at = rng.uniform(-0.5, 0.5, 3) * length
            inside = np.linalg.norm(at) < length / 2 if length == width else np.hypot(at[1], at[2]) < width / 2
            if inside and np.linalg.norm(at / [length, width, width]) < 0.5 + 0.2 * (length > width):
                break
        at *= 1 - 2 * radius / np.array([length, width, width])
        distance = sum((grid[i] * voxel - at[i]) ** 2 for i in range(3))
        density[distance < radius**2] += rng.uniform(0.5, 1)
    return density, voxel


def molecule(name, pixel_size, rng):
    """Returns the density on a grid of the pixel size, in a box with room to turn."""
    if name in FILES:
        with mrcfile.open(f"{MAPS}/{FILES[name]}.mrc", permissive=True) as file:
            density, voxel = file.data.astype(np.float32), float(file.voxel_size.x)
        density = np.maximum(density - np.median(density), 0)
    else:
        density, voxel = phantom(name, rng)
    return gaussian_filter(density, 0.4 * pixel_size / voxel), voxel


def project(density, voxel, pixel_size, box, turn):
    matrix = turn.as_matrix() * (pixel_size / voxel)
    offset = np.array(density.shape) / 2 - matrix @ np.full(3, box // 2)
    return affine_transform(density, matrix, offset, (box, box, box), order=1).sum(axis=0)


def contrast_transfer(shape, pixel_size, defocus):
    """Returns the transfer of the optics; negative where protein is dark."""
    k2 = np.fft.fftfreq(shape[0], pixel_size)[:, None] ** 2 + np.fft.rfftfreq(shape[1], pixel_size)[None, :] ** 2
    volts = VOLTAGE * 1e3
    wave = 12.2643 / math.sqrt(volts + 0.97845e-6 * volts**2)
    chi = math.pi * wave * defocus * k2 - math.pi / 2 * CS * 1e7 * wave**3 * k2**2
    return -np.sin(chi + math.asin(AMPLITUDE)) * np.exp(-B_FACTOR * k2 / 4)


def places(count, distance, pixel_size, margin, taken, rng):
    """Draws centres, none of them where `taken`."""
    found = []
    high = np.array(taken.shape[::-1]) - margin
    for _ in range(200000):
        if len(found) == count:
            break
        at = rng.uniform(margin, high, 2)
        if not taken[int(at[1]), int(at[0])] and all(
            math.dist(at, other) * pixel_size >= distance for other in found
        ):
            found.append(at)
    return np.array(found).reshape(-1, 2)


def lump(y, x, radius, corners, rng):
    """Returns one where a lump of ice is: a polygon with sharp rims, or an oval with soft ones."""
    angle = np.arctan2(y, x) + rng.uniform(0, math.pi)
    if corners:
        sector = 2 * math.pi / corners
        reach = radius * math.cos(sector / 2) / np.cos(np.mod(angle, sector) - sector / 2)
        return 1.0 * (np.hypot(x, y) < reach)
    reach = radius * (1 + 0.15 * np.cos(2 * angle) + 0.1 * np.cos(3 * angle))
    return gaussian_filter(1.0 * (np.hypot(x, y) < reach), 3)


def surroundings(name, shape, radius, noise, rng):
    """Draws what is not ice: returns density that scatters, electrons that are lost, and where no particles are."""
    y, x = np.indices(shape).astype(np.float32)
    scatters, lost, taken = np.zeros(shape), np.zeros(shape), np.zeros(shape, bool)
    name = name.replace("empty_", "")
    if name == "carbon":
        taken = x > rng.uniform(0.75, 0.85) * shape[1] + 8 * np.sin(y / 40)
        scatters = taken * (1.5 * noise + gaussian_filter(rng.normal(0, 8 * noise, shape), 2))
    elif name == "gold":
        # A hole wider than the micrograph, and light that falls off across it.
        far = np.hypot(x - rng.uniform(-1, 0) * shape[1], y - rng.uniform(0.3, 0.7) * shape[0])
        taken = far > np.quantile(far, 0.85)
        lost = ABSORBED[name] * ELECTRONS * noise * taken
        angle = rng.uniform(0, 2 * math.pi)
        lost += 0.2 * ELECTRONS * noise * (math.cos(angle) * x / shape[1] + math.sin(angle) * y / shape[0])
    elif name in ABSORBED:
        for _ in range(LUMPS):
            dy, dx = y - rng.uniform(0, shape[0]), x - rng.uniform(0, shape[1])
            one = lump(dy, dx, rng.uniform(0.7, 1.6) * radius, 6 * (name == "facets"), rng)
            taken |= one > 0.1
            lost = np.maximum(lost, ABSORBED[name] * ELECTRONS * noise * one)
    return scatters, lost, taken


def simulate(folder, name, snr, seed):
    """Writes micrographs and micrographs.star; returns the centres, in px, of each micrograph."""
    kind, diameter, _, pixel_size, count, distance = SETS[name]
    rng = np.random.default_rng([seed, list(SETS).index(name), round(1000 * snr)])
    density, voxel = molecule(kind, pixel_size, rng)
    box = 2 * math.ceil(0.75 * max(diameter, 160) / pixel_size)
    views = [
        project(density, voxel, pixel_size, box, Rotation.random(random_state=rng.integers(2**31))) for _ in range(24)
    ]
    variance = np.mean([view[view > 0.02 * view.max()].var() for view in views])
    with mrcfile.new(f"{folder}/map.mrc", overwrite=True) as file:
        file.set_data(density)
        file.voxel_size = voxel
    # Half the pixel size has four times the noise in each pixel.
    noise, shape = 0.5 / math.sqrt(snr), SHAPES.get(name, (SIZE, SIZE))
    truth, rows = [], []
    for number in range(micrographs_of(name)):
        scatters, lost, taken = surroundings(name, shape, diameter / pixel_size / 2, noise, rng)
        centres = places(count, distance, pixel_size, 0.5 * min(diameter, 200) / pixel_size, taken, rng)
        signal = np.zeros((shape[0] + 2 * box, shape[1] + 2 * box), np.float32)
        for x, y in centres:
            view = project(density, voxel, pixel_size, box, Rotation.random(random_state=rng.integers(2**31)))
            i, j = round(x), round(y)
            signal[j + box // 2 : j + 3 * box // 2, i + box // 2 : i + 3 * box // 2] += view
        signal = signal[box:-box, box:-box] / math.sqrt(variance)
        signal += rng.normal(0, noise * math.sqrt(ICE), shape) + scatters
        defocus = rng.uniform(*DEFOCUS.get(name, (10000, 20000)))
        image = np.fft.irfft2(np.fft.rfft2(signal) * contrast_transfer(shape, pixel_size, defocus), shape)
        image += rng.normal(0, noise, shape) - lost
        with mrcfile.new(f"{folder}/mic_{number}.mrc", overwrite=True) as file:
            file.set_data((100 + 10 * image).astype(np.float32))
            file.voxel_size = pixel_size
        rows.append(f"mic_{number}.mrc 1" + (f" {defocus:.0f} {defocus:.0f} 0\n" if name != "no_ctf" else "\n"))
        truth.append(centres)
    head = HEAD if name != "no_ctf" else HEAD[: HEAD.index("_rlnDefocusU")]
    with open(f"{folder}/micrographs.star", "w") as file:
        file.write(head.format(pixel_size) + "".join(rows) + "\n")
    return truth


def micrographs_of(name):
    return MICROGRAPHS.get(name, 4 if SETS[name][4] else 6)


def pick_with_relion(folder, output, name):
    """Writes the picks of RELION's Laplacian of Gaussian with its own threshold."""
    ends = [float(d) for d in SETS[name][2].split(",")]
    low, high = ends if len(ends) == 2 else (0.8 * ends[0], 1.2 * ends[0])
    command = ["relion_autopick", "--i", "micrographs.star", "--odir", f"{output}/", "--pickname", "autopick"]
    command += ["--LoG", "--LoG_diam_min", str(low), "--LoG_diam_max", str(high), "--shrink", "0", "--lowpass", "20"]
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def pick(folder, output, name, method, arguments):
    """Returns x, y and score of the picks of each micrograph."""
    diameter, log_diameter = SETS[name][1:3]
    command = [f"{BIN}/icestream-lowpass-picker", "--i", f"{folder}/micrographs.star", "--o", f"{folder}/{output}"]
    command += ["--write_png", "false", "--threads", "1"]
    shutil.rmtree(f"{folder}/{output}", ignore_errors=True)
    if method == "template":
        command += ["--templates", f"{folder}/map.mrc", "--diameter", str(diameter), "--angle_step", "10"]
    elif "," in log_diameter:
        command += ["--log_diameter", log_diameter]
    else:
        command += ["--diameter", log_diameter]
    if method == "relion":
        pick_with_relion(folder, output, name)
    else:
        subprocess.run(command + arguments, check=True, stderr=subprocess.DEVNULL)
    return [table(f"{folder}/{output}/mic_{i}_autopick.star") for i in range(micrographs_of(name))]


def table(path):
    columns, rows = [], []
    for line in open(path):
        words = line.split()
        if words and words[0].startswith("_"):
            columns.append(words[0][1:])
        elif columns and len(words) >= len(columns):
            rows.append(
                [
                    float(words[columns.index(c)])
                    for c in ("rlnCoordinateX", "rlnCoordinateY", "rlnAutopickFigureOfMerit")
                ]
            )
    return np.array(rows).reshape(-1, 3)


def hits(picks, truth, reach):
    """Returns which picks are particles: one to one, nearest first."""
    right = np.zeros(len(picks), bool)
    if not len(picks) or not len(truth):
        return right
    near = cKDTree(truth).query_ball_point(picks[:, :2], reach)
    pairs = sorted((math.dist(picks[i, :2], truth[j]), i, j) for i, found in enumerate(near) for j in found)
    used = set()
    for _, i, j in pairs:
        if not right[i] and j not in used:
            right[i] = True
            used.add(j)
    return right


def f1(right, picked, wanted):
    return 2 * right / max(picked + wanted, 1)


def best_fixed(picks, truth, reach):
    """Returns the best F1 of any threshold. As only a better pick removes another, lower picks can be left off."""
    scores, right = [], []
    for some, centres in zip(picks, truth):
        scores += list(some[:, 2])
        right += list(hits(some, centres, reach))
    order = np.argsort(scores)[::-1]
    wanted = sum(len(t) for t in truth)
    found = np.cumsum(np.array(right, int)[order])
    values = 2 * found / (np.arange(1, len(order) + 1) + wanted)
    if not len(values):
        return 0, math.inf
    return values.max(), np.array(scores)[order][values.argmax()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=",".join(SETS))
    parser.add_argument("--method", default="log")
    parser.add_argument("--snr", default="0.05,0.08,0.12,0.2,0.3,0.6")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=float, default=0.05)
    parser.add_argument("--keep")
    options = parser.parse_args()
    worst, full = 0, 0
    print("method   set          SNR   auto: picks recall precision F1   best fixed F1 at   loss", flush=True)
    for name in options.only.split(","):
        for snr in [float(s) for s in options.snr.split(",")] if SETS[name][4] else [0.2]:
            folder = tempfile.mkdtemp() if not options.keep else f"{options.keep}/{name}_{snr}"
            os.makedirs(folder, exist_ok=True)
            if os.path.exists(f"{folder}/truth.json"):
                truth = [np.array(t).reshape(-1, 2) for t in json.load(open(f"{folder}/truth.json"))]
            else:
                truth = simulate(folder, name, snr, options.seed)
                json.dump([t.tolist() for t in truth], open(f"{folder}/truth.json", "w"))
            reach = TOLERANCE * SETS[name][1] / SETS[name][3]
            for method in options.method.split(","):
                low = "-99" if method == "template" else "0.0001"
                automatic = pick(folder, f"auto_{method}", name, method, [])
                lowest = ["--threshold", low]
                every = pick(folder, f"all_{method}", name, method, lowest) if method != "relion" else automatic
                right = sum(hits(p, t, reach).sum() for p, t in zip(automatic, truth))
                picked, wanted = sum(map(len, automatic)), sum(map(len, truth))
                value = f1(right, picked, wanted)
                best, at = best_fixed(every, truth, reach) if wanted else (0, math.inf)
                counts = " ".join(str(len(p)) for p in automatic)
                print(
                    f"{method:8} {name:12} {snr:<5} {picked:4} {right / max(wanted, 1):.3f} {right / max(picked, 1):.3f} "
                    f"{value:.3f}   {best:.3f} at {at:.3f}   {best - value:+.3f}   ({counts})",
                    flush=True,
                )
                if wanted:
                    worst = max(worst, best - value)
                else:
                    full = max(full, picked / len(truth))
            if not options.keep:
                shutil.rmtree(folder)
    print(
        f"greatest loss of F1 {worst:.3f} (at most {options.most}); picks of empty micrographs {full:.2f} each (at most 0.33)"
    )
    sys.exit(worst > options.most or full > 1 / 3)


if __name__ == "__main__":
    main()
