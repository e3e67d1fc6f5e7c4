#!/usr/bin/python3
"""Refines sets of particles that are hard to refine, with the truth at hand, and prints one table: how far the map
agrees with the truth, what the program tells, how many poses are lost, the time.

  hard_particles.py WORK [--programs BUILD/bin,BUILD/tests] [--tools FOLDER] [--maps FOLDER] [--device cuda:0] ...

Needs numpy; on a GPU torch too. FOLDER of --tools holds simulate_particles.py and simulate_particles_gpu.py, which are
not part of this project; that of --maps the molecules. --programs: folders with icestream-refiner and true_poses.

Sets (choose with --sets):
  plain      three molecules at three SNRs and three seeds: 6,496 particles, shifts of 2 px, noise before the CTF too
  shift3     the same molecules, shifts of 3 px, no noise before the CTF
  noise      300, 2,000 and 10,000 images without any signal, eight seeds each
  foreign    particles of one molecule, reference of another
  cone, side preferred directions: within 20 degrees of one axis; within 4 degrees of the plane across it
  few        20 to 2,000 particles

Columns.
  true         resolution at 0.5 of the map that true poses give (true_poses)
  truth        at 0.5 and 0.143: of the map of all particles with the truth, no mask
  turned       at 0.5, with the map turned and moved onto the truth: masks that cut a molecule move it, and a foreign
               reference stands anywhere; in mask: with the mask of post-processing on both
  told         by the program, of its halves, at 0.143, unmasked; masked: in postprocess.star. A word: the program tells
               no resolution, and why ("unresolved" of history.jsonl). For sets of noise, called so or not, the number is what
               the halves agree to: the finest of all iterations, and at the end inside the mask
  off          share of poses off by more than 20 degrees (the molecule's symmetry counted)
  bar          truth within one shell of true poses at SNR 0.2, within 1.3 times at 0.1; no coarser than BEFORE at 0.05
  there        what is told is not finer than 1/1.1 of the better of truth and turned, at 0.5; masked there: likewise,
               in the mask. Halves of noise may not agree finer than what they share, whether or not a resolution is
               told of them; how many of these sets are called noise is counted at the end."""

import argparse
import contextlib
import io
import json
import os
import re
import runpy
import shutil
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

MOLECULES = {"cand1": ("cand1_1u6g_128", 170, 1), "cav11": ("cav11_5gjv_128", 190, 1), "p97": ("p97_3cf3_128", 150, 6)}
# At SNR 0.05, from 40 and from 60 Å: the resolution at 0.5 of seed 5 before images were compared with the whole noise.
BEFORE = {"cand1": (11.0, 11.5), "cav11": (21.7, 28.2), "p97": (35.2, 40.2)}
LOST = 20  # degrees
NOTHING = 1e-9  # an SNR
NOT_TOLD = 999  # Å


def all_sets():
    """Returns the sets in the order of the table: dictionaries with what makes each."""
    sets = []

    def add(family, molecule, snr, seed, count=6496, **more):
        one = {"shift": 2, "ice": 0.3, "views": "all", "reference": molecule, "lowpass": (40, 60)}
        one.update(family=family, molecule=molecule, snr=snr, seed=seed, count=count, **more)
        parts = [family, molecule, f"{snr:g}" if snr > NOTHING else "0", f"n{count}", f"s{seed}"]
        if one["reference"] != molecule:
            parts.append("from-" + one["reference"])
        one["name"] = "_".join(parts)
        sets.append(one)

    for snr in (0.2, 0.1, 0.05):
        for molecule in MOLECULES:
            for seed in (5, 6, 7):
                add("plain", molecule, snr, seed)
    for molecule in MOLECULES:
        add("shift3", molecule, 0.1, 5, shift=3, ice=0)
    for molecule, other in (("cav11", "cand1"), ("cand1", "p97"), ("p97", "cav11")):
        for snr in (0.2, 0.1, 0.03):
            add("foreign", molecule, snr, 5, reference=other, lowpass=(40,))
    for views in ("cone", "side"):
        for molecule in MOLECULES:
            for snr in (0.2, 0.1):
                add(views, molecule, snr, 5, views=views, lowpass=(40,))
    for molecule in MOLECULES:
        for count in (20, 50, 100, 300, 1000):
            add("few", molecule, 0.2, 5, count=count, lowpass=(40,))
    for molecule in MOLECULES:
        for seed in (5, 6, 7, 8):
            for count in (500, 1000, 2000):
                if (count, seed) != (1000, 5):
                    add("few", molecule, 0.2, seed, count=count, lowpass=(40,))
    for count in (300, 2000, 10000):
        for seed in range(8):
            add("noise", "cand1", NOTHING, seed, count=count, ice=0, lowpass=(40,))
    return sets


def read_map(path):
    with open(path, "rb") as file:
        head = file.read(1024)
    nx, ny, nz, mode = struct.unpack("<4i", head[:16])
    cell, extended = struct.unpack("<f", head[40:44])[0], struct.unpack("<i", head[92:96])[0]
    kind = {0: np.int8, 1: np.int16, 2: np.float32, 12: np.float16}[mode]
    values = np.fromfile(path, kind, nx * ny * nz, offset=1024 + extended)
    return values.reshape(nz, ny, nx).astype(np.float32), cell / nx


def write_map(path, values, pixel):
    n = values.shape[0]
    head = bytearray(1024)
    struct.pack_into("<10i", head, 0, n, n, n, 2, 0, 0, 0, n, n, n)
    struct.pack_into("<6f", head, 40, n * pixel, n * pixel, n * pixel, 90, 90, 90)
    struct.pack_into("<3i", head, 64, 1, 2, 3)
    head[208:216] = b"MAP DD\0\0"
    with open(path, "wb") as file:
        file.write(head)
        file.write(values.astype(np.float32).tobytes())


def smaller(values, pixel, box):
    """Crops the transform: the same extent on fewer voxels."""
    n = values.shape[0]
    low, end = n // 2 - box // 2, n // 2 + box // 2
    spectrum = np.fft.fftshift(np.fft.fftn(np.fft.ifftshift(values)))[low:end, low:end, low:end]
    back = np.fft.fftshift(np.fft.ifftn(np.fft.ifftshift(spectrum)).real) * (box / n) ** 3
    return back.astype(np.float32), pixel * n / box


def fsc(a, b):
    n = a.shape[0]
    fa, fb = np.fft.rfftn(a), np.fft.rfftn(b)
    k, kx = np.fft.fftfreq(n) * n, np.arange(n // 2 + 1)
    radius = np.sqrt(k[:, None, None] ** 2 + k[None, :, None] ** 2 + kx[None, None, :] ** 2)
    shell = np.round(radius).astype(int).ravel()
    power = [np.bincount(shell, (abs(f) ** 2).ravel())[: n // 2 + 1] for f in (fa, fb)]
    return np.bincount(shell, (fa * fb.conj()).real.ravel())[: n // 2 + 1] / np.sqrt(power[0] * power[1] + 1e-30)


def reaches(curve, limit, extent):
    """Returns the resolution, Å, of the last shell before the first below the limit; 999: no shell."""
    shell = 1
    while shell < len(curve) and curve[shell] >= limit:
        shell += 1
    return extent / (shell - 1) if shell > 1 else 999


# Views: the tools draw cos(tilt) from -1 to 1. These narrow it.
NARROW = {
    "cone": lambda u: 1 - (1 - np.cos(np.deg2rad(20))) * (u + 1) / 2,
    "side": lambda u: np.sin(np.deg2rad(4)) * u,
}


class NarrowViews:
    """Passes all calls to a random generator of numpy; cos(tilt) is narrowed."""

    def __init__(self, generator, narrow):
        self.generator, self.narrow = generator, narrow

    def __getattr__(self, name):
        return getattr(self.generator, name)

    def uniform(self, low=0.0, high=1.0, size=None):
        drawn = self.generator.uniform(low, high, size)
        return self.narrow(drawn) if (low, high) == (-1, 1) else drawn


@contextlib.contextmanager
def narrowed(views):
    plain = np.random.default_rng
    if views != "all":
        np.random.default_rng = lambda *a, **k: NarrowViews(plain(*a, **k), NARROW[views])
    try:
        yield
    finally:
        np.random.default_rng = plain


def simulate(one, o):
    """Makes the particles of a set with the tools as they are. One at a time: the tools read global state."""
    folder, molecule = os.path.join(o.work, one["name"]), MOLECULES[one["molecule"]]
    if os.path.exists(os.path.join(folder, "particles.star")):
        return folder
    os.makedirs(folder, exist_ok=True)
    source, words = os.path.join(o.maps_here, molecule[0] + ".mrc"), sys.argv
    count = str(max(20, int(one["count"] * o.share)))
    shift = one["shift"] * o.shift_share
    if o.device.startswith("cuda"):
        tool = os.path.join(o.tools, "simulate_particles_gpu.py")
        sys.argv = [tool, folder, count, str(molecule[1]), str(one["snr"]), str(one["seed"]), source]
    else:
        tool = os.path.join(o.tools, "simulate_particles.py")
        given = {"map": source, "out": folder, "particles": count, "diameter": molecule[1], "snr": one["snr"]}
        given.update(seed=one["seed"], shift=shift, ice=one["ice"])
        sys.argv = [tool] + [str(word) for key, value in given.items() for word in ("--" + key, value)]
    os.environ.update(SHIFT=str(shift), ICE=str(one["ice"]))
    try:
        with narrowed(one["views"]), contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(tool, run_name="__main__")
    finally:
        sys.argv = words
    return folder


def read_poses(path):
    """Returns {image: row} and matrices and origins by row, of a table of particles."""
    columns, rows, on = [], [], False
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if line.startswith("data_"):
                on = line.startswith("data_particles")
                columns = [] if on else columns
            elif on and words and words[0][0] == "_":
                columns.append(words[0])
            elif on and words and words[0] not in ("loop_", "#"):
                rows.append(words)
    at = {name: columns.index("_rln" + name) for name in ("ImageName", "AngleRot", "AngleTilt", "AnglePsi")}
    at.update({name: columns.index("_rln" + name) for name in ("OriginXAngst", "OriginYAngst")})
    names = {}
    for i, row in enumerate(rows):
        number, stack = row[at["ImageName"]].split("@")
        names[number + "@" + os.path.basename(stack)] = i
    angles = np.array([[row[at["Angle" + n]] for n in ("Rot", "Tilt", "Psi")] for row in rows], float)
    origins = np.array([[row[at[f"Origin{n}Angst"]] for n in "XY"] for row in rows], float)
    (a, b, g) = np.deg2rad(angles).T
    ca, cb, cg, sa, sb, sg = np.cos(a), np.cos(b), np.cos(g), np.sin(a), np.sin(b), np.sin(g)
    parts = [cg * cb * ca - sg * sa, cg * cb * sa + sg * ca, -cg * sb]
    parts += [-sg * cb * ca - cg * sa, -sg * cb * sa + cg * ca, sg * sb, sb * ca, sb * sa, cb]
    return names, np.stack(parts, 1).reshape(-1, 3, 3), origins


def matched(truth, found):
    """Returns matrices and origins, true and found, of the same images."""
    rows = [(truth[0][name], i) for name, i in found[0].items() if name in truth[0]]
    there, here = np.array(rows).T
    return truth[1][there], found[1][here], truth[2][there], found[2][here]


def angle_between(a, b):
    return np.rad2deg(np.arccos(np.clip((np.einsum("...ij,...ij->...", a, b) - 1) / 2, -1, 1)))


def share_lost(true, found, order, turn=np.eye(3)):
    """Returns the share of poses off by more than LOST; turn: from the found map's frame to the true one."""
    best = np.full(len(true), 180.0)
    for s in range(order):
        c, d = np.cos(2 * np.pi * s / order), np.sin(2 * np.pi * s / order)
        best = np.minimum(best, angle_between(true @ np.array([[c, d, 0], [-d, c, 0], [0, 0, 1]]), found @ turn.T))
    return (best > LOST).mean()


def common_turn(true, found):
    """Returns the rotation Q (found map at p is the true one at Q p) that most particles agree on, with their share."""
    turns = np.einsum("nji,njk->nik", true, found)
    some = turns[:: max(1, len(turns) // 1000)]
    share, best = max(((angle_between(some, q) < 12).mean(), i) for i, q in enumerate(some[:400]))
    near = turns[angle_between(turns, some[best]) < 15]
    u, _, v = np.linalg.svd(near.mean(0))
    return u @ np.diag([1, 1, np.linalg.det(u @ v)]) @ v, share


def turned(values, turn, shift):
    """Samples values at turn.T (q + shift), q and shift in px from the centre: trilinear."""
    n = values.shape[0]
    k = np.arange(n, dtype=np.float32) - n // 2
    z, y, x = np.meshgrid(k, k, k, indexing="ij")
    at = np.stack([x.ravel() + shift[0], y.ravel() + shift[1], z.ravel() + shift[2]])
    at = (turn.T.astype(np.float32) @ at) + n // 2
    base = np.clip(np.floor(at).astype(int), 0, n - 2)
    f = np.clip(at - base, 0, 1).astype(np.float32)
    out = np.zeros(n**3, np.float32)
    for corner in range(8):
        bits = [(corner >> i) & 1 for i in range(3)]
        weight = np.prod([f[i] if bits[i] else 1 - f[i] for i in range(3)], 0)
        out += weight * values[base[2] + bits[2], base[1] + bits[1], base[0] + bits[0]]
    return out.reshape(n, n, n)


def small_turn(vector):
    angle = np.linalg.norm(vector)
    if angle == 0:
        return np.eye(3)
    x, y, z = vector / angle
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k


def onto_truth(values, truth, pixel, foreign, true, found, true_origins, origins):
    """Finds the turn and the shift of a map onto the truth, by the poses of its particles if its reference was foreign,
    then by the maps. A map of the other hand, which no particle can tell, is turned over. Returns a function that moves
    maps so, and the share of lost poses."""
    if not foreign:
        return fitted(values, truth, pixel, np.eye(3), np.zeros(3), False, (0.6, 0.3, 0.15)), None
    plain, flipped = common_turn(true, found), common_turn(true, np.diag([-1.0, -1, 1]) @ found)
    other_hand = flipped[1] > plain[1]
    turn = (flipped if other_hand else plain)[0]
    seen = np.diag([-1.0, -1, 1]) @ found if other_hand else found
    near = angle_between(np.einsum("nji,njk->nik", true, seen), turn) < 15
    moved = (origins - true_origins)[near] / pixel
    shift = np.linalg.lstsq(true[near][:, :2].reshape(-1, 3), moved.ravel(), rcond=None)[0]
    move = fitted(values, truth, pixel, turn, shift, other_hand, (3, 3, 1, 1, 0.4, 0.4, 0.2))
    return move, share_lost(true, seen, 1, move.turn)


def over(values):
    return np.roll(values[::-1, ::-1, ::-1], 1, (0, 1, 2))


def fitted(values, truth, pixel, turn, shift, other_hand, steps):
    """Refines a turn and a shift, px, by the FSC of the maps. Returns a function that moves maps so."""
    values = over(values) if other_hand else values
    box = min(48, values.shape[0])
    less, least = smaller(values, pixel, box)[0], smaller(truth, pixel, box)[0]
    scale = box / values.shape[0]

    def fits(parameters):
        q = small_turn(np.deg2rad(parameters[:3])) @ turn
        curve = fsc(turned(less, q, (shift + parameters[3:]) * scale), least)
        return curve[1 : box // 3].sum()

    parameters, best = np.zeros(6), fits(np.zeros(6))
    for step in steps:
        for i in range(6):
            for sign in (-1, 1):
                tried = parameters.copy()
                tried[i] += sign * step
                value = fits(tried)
                if value > best:
                    parameters, best = tried, value
    last, moved = small_turn(np.deg2rad(parameters[:3])) @ turn, shift + parameters[3:]

    def move(one):
        return turned(over(one) if other_hand else one, last, moved)

    move.turn = last
    return move


def read_history(folder):
    """Returns the lines of all iterations."""
    with open(os.path.join(folder, "history.jsonl"), encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if "resolution" in line]


def masked_resolution(folder):
    """Returns the told resolution, 999 of what is called noise, and the one that the corrected FSC has all the same."""
    with open(os.path.join(folder, "postprocess.star"), encoding="utf-8") as file:
        general, table = file.read().split("data_fsc")
    told = float(re.search(r"_rlnFinalResolution\s+(\S+)", general).group(1))
    rows = [line.split() for line in table.split("\ndata_")[0].splitlines() if line.strip()]
    names = [row[0] for row in rows if row[0].startswith("_")]
    values = [row for row in rows if row[0][0].isdigit()]
    take = lambda name: [float(row[names.index(name)]) for row in values]  # noqa: E731
    curve, frequency = take("_rlnFourierShellCorrelationCorrected"), take("_rlnResolution")
    return told, reaches(curve, 0.143, 1 / frequency[1])


def program(name, o):
    for folder in o.programs.split(","):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    raise FileNotFoundError(f"{name} is in none of {o.programs}")


def true_poses(one, o):
    """Returns the resolution at 0.5 that true poses give; None: not known."""
    folder = os.path.join(o.work, one["name"])
    kept = os.path.join(folder, "true")
    if one["snr"] <= NOTHING:
        return None
    if not os.path.exists(kept):
        words = [program("true_poses", o), folder + "/truth_particles.star"]
        told = subprocess.run(words + [map_of(one["molecule"], o)], capture_output=True, text=True, env=environment(o))
        with open(kept, "w", encoding="utf-8") as file:
            file.write(told.stdout + told.stderr)
    with open(kept, encoding="utf-8") as file:
        text = file.read()
    found = re.search(r"truth\D*([\d.]+)", text)
    return float(found.group(1)) if found else None


def environment(o):
    return dict(os.environ, OMP_NUM_THREADS=str(o.threads))


def map_of(molecule, o):
    return os.path.join(o.maps_here, MOLECULES[molecule][0] + ".mrc")


def refine(one, lowpass, o):
    """Runs the refiner on a set. Returns a line of the table."""
    folder = os.path.join(o.work, one["name"])
    out = os.path.join(folder, f"r{lowpass}")
    shutil.rmtree(out, ignore_errors=True)
    given = {"i": folder + "/particles.star", "o": out, "reference": map_of(one["reference"], o)}
    given.update(diameter=MOLECULES[one["molecule"]][1], initial_lowpass=lowpass, device=o.device)
    given.update(memory=o.memory, keep_iterations=1, threads=o.threads)
    words = [program("icestream-refiner", o)]
    words += [str(word) for key, value in given.items() for word in ("--" + key, value)] + o.refiner.split()
    began = time.monotonic()
    with open(out + ".log", "w", encoding="utf-8") as log:
        code = subprocess.run(words, stdout=log, stderr=log, env=environment(o), timeout=o.limit).returncode
    seconds = time.monotonic() - began
    if code != 0:
        with open(out + ".log", encoding="utf-8") as log:
            return {"set": one, "lowpass": lowpass, "failed": log.read().strip().splitlines()[-1:]}
    return judge(one, lowpass, out, seconds, o)


def judge(one, lowpass, out, seconds, o):
    molecule = MOLECULES[one["molecule"]]
    truth, pixel = read_map(map_of(one["molecule"], o))
    extent = truth.shape[0] * pixel
    iterations = read_history(out)
    masked, masked_agreement = masked_resolution(out)
    line = {"set": one, "lowpass": lowpass, "seconds": seconds, "told": iterations[-1]["resolution"] or NOT_TOLD}
    line.update(called_noise=iterations[-1].get("noise", False), masked=masked, masked_agreement=masked_agreement)
    line["unresolved"] = iterations[-1].get("unresolved", "noise" if line["called_noise"] else None)
    line["agreement"] = min(iteration["agreement"] for iteration in iterations)
    line.update(pixel=pixel, extent=extent, true=one["true"].result(), lost=None)
    if one["snr"] <= NOTHING:
        line.update(half=None, limit=None, turned=None, in_mask=None)
        return line
    values = read_map(os.path.join(out, "run_class001.mrc"))[0]
    mask = read_map(os.path.join(out, "postprocess_mask.mrc"))[0]
    poses = matched(
        read_poses(os.path.join(o.work, one["name"], "truth_particles.star")),
        read_poses(os.path.join(out, "run_data.star")),
    )
    foreign = one["reference"] != one["molecule"]
    move, lost = onto_truth(values, truth, pixel, foreign, *poses)
    line["lost"] = lost if foreign else share_lost(poses[0], poses[1], molecule[2])
    moved, mask = move(values), move(mask)
    curve = fsc(values, truth)
    line.update(half=reaches(curve, 0.5, extent), limit=reaches(curve, 0.143, extent))
    line["turned"] = reaches(fsc(moved, truth), 0.5, extent)
    line["in_mask"] = reaches(fsc(moved * mask, truth * mask), 0.5, extent)
    return line


def shared_floor(line, lowpass):
    """Returns the resolution, Å, of the last shell that the halves share: halves of noise must not agree finer."""
    return line["extent"] / round(line["extent"] / min(40, lowpass))


def verdicts(line):
    one, half = line["set"], line["half"]
    if half is None:
        floor = shared_floor(line, line["lowpass"]) - 0.01
        return "-", line["agreement"] >= floor, line["masked_agreement"] >= floor
    bar = "-"
    if one["family"] == "plain" and line["true"]:
        if one["snr"] >= 0.2:
            bar = line["extent"] / half >= line["extent"] / line["true"] - 1.01
        elif one["snr"] >= 0.1:
            bar = half <= 1.3 * line["true"]
        else:
            bar = half <= BEFORE[one["molecule"]][line["lowpass"] != 40] + 0.05
    best = min(half, line["turned"])
    return bar, line["told"] >= best / 1.1 - 0.01, line["masked"] >= min(best, line["in_mask"]) / 1.1 - 0.01


HEAD = (
    "set",
    "from",
    "true",
    "truth .5/.143",
    "turned, in mask",
    "told",
    "masked",
    "off",
    "s",
    "bar",
    "there",
    "masked there",
)


def text(line):
    if "failed" in line:
        return f"| {line['set']['name']} | {line['lowpass']} | failed: {line['failed']} |"

    def word(verdict):
        return verdict if verdict == "-" else "yes" if verdict else "**no**"

    def told_of(told, agreement):
        if not line["unresolved"]:
            return number(told if line["half"] is not None else agreement)
        return line["unresolved"] if line["half"] is not None else f"{line['unresolved']} ({agreement:.1f})"

    number = lambda value: "-" if value is None else f"{value:.1f}"  # noqa: E731
    lost = "-" if line["lost"] is None else f"{100 * line['lost']:.0f} %"
    cells = [line["set"]["name"], str(line["lowpass"]), number(line["true"])]
    cells += [number(line["half"]) + "/" + number(line["limit"])]
    cells += [number(line["turned"]) + ", " + number(line["in_mask"])]
    cells += [told_of(line["told"], line["agreement"]), told_of(line["masked"], line["masked_agreement"])]
    cells += [lost, f"{line['seconds']:.0f}"] + [word(v) for v in verdicts(line)]
    return "| " + " | ".join(cells) + " |"


def count_verdicts(lines):
    """Prints, for each family and SNR, how many of the lines pass."""
    groups = {}
    for line in (line for line in lines if "failed" not in line):
        key = (line["set"]["family"], line["set"]["snr"])
        groups.setdefault(key, []).append(line)
    for (family, snr), found in groups.items():
        noise = sum(line["called_noise"] for line in found)
        told = [f"called noise {noise} of {len(found)}"] if noise > 0 or family == "noise" else []
        for name, column in zip(("bar", "there", "masked there"), zip(*map(verdicts, found))):
            asked = [v for v in column if v != "-"]
            if asked:
                told.append(f"{name} {sum(map(bool, asked))} of {len(asked)}")
        print(f"{family} {snr if snr > NOTHING else 0:g}: " + ", ".join(told))


def prepare_maps(o):
    o.maps_here = os.path.join(o.work, "maps")
    o.shift_share = 1
    os.makedirs(o.maps_here, exist_ok=True)
    for name, _, _ in MOLECULES.values():
        to = os.path.join(o.maps_here, name + ".mrc")
        if not os.path.exists(to):
            values, pixel = read_map(os.path.join(o.maps, name + ".mrc"))
            if o.box:
                values, pixel = smaller(values, pixel, o.box)
            write_map(to, values, pixel)
        if o.box:
            o.shift_share = o.box / 128


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("work")
    add("--programs", default="build/cpu/bin,build/cpu/tests", help="folders with icestream-refiner and true_poses")
    add("--tools", default="../shared/tools", help="folder of the programs that make particles")
    add("--maps", default="../shared/data/maps", help="folder of the molecules")
    add("--sets", default=".", help="regular expressions on the sets' names, by commas")
    add("--lowpass", default="40,60", help="start from these resolutions, Å, if the set has them")
    add("--device", default="cpu", help="cpu or cuda:N")
    add("--at-once", type=int, default=1, help="refinements at once: for quality, not for times")
    add("--threads", type=int, default=2, help="of each refinement")
    add("--memory", default="4", help="of each refinement, GiB")
    add("--box", type=int, default=0, help="make the molecules, and so the particles, as small as this, px")
    add("--share", type=float, default=1, help="make only this share of the particles")
    add("--refiner", default="", help="further options of the refiner")
    add("--limit", type=float, default=600, help="of one refinement, s")
    add("--stop", type=float, default=1e9, help="begin no refinement after so many s")
    add("--lines", default="", help="write the table's lines into this file, as JSON")
    return parser.parse_args()


def choose(patterns):
    """Returns the sets in the order of the patterns."""
    chosen = []
    for pattern in patterns.split(","):
        chosen += [one for one in all_sets() if re.search(pattern, one["name"]) and one not in chosen]
    return chosen


def main():
    o = arguments()
    began = time.monotonic()
    os.makedirs(o.work, exist_ok=True)
    prepare_maps(o)
    chosen = choose(o.sets)
    wanted = [int(word) for word in o.lowpass.split(",")]
    left, lock, lines, table = {}, threading.Lock(), [], sys.stdout  # simulate takes sys.stdout away meanwhile
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|", flush=True)

    def work(one, lowpass):
        late = time.monotonic() - began > o.stop
        try:
            line = {"set": one, "lowpass": lowpass, "failed": "no time left"} if late else refine(one, lowpass, o)
        except Exception as error:  # the other sets are still worth their lines
            line = {"set": one, "lowpass": lowpass, "failed": repr(error)}
        with lock:
            lines.append(line)
            print(text(line), file=table, flush=True)
            left[one["name"]] -= 1
            if left[one["name"]] == 0 and o.device.startswith("cuda"):
                remove_images(os.path.join(o.work, one["name"]))

    with ThreadPoolExecutor(o.at_once) as pool, ThreadPoolExecutor(2) as others:
        running = []
        for one in chosen:
            starts = [lowpass for lowpass in one["lowpass"] if lowpass in wanted]
            if not starts or time.monotonic() - began > o.stop:
                continue
            simulate(one, o)
            one["true"] = others.submit(true_poses, one, o)
            left[one["name"]] = len(starts)
            running += [pool.submit(work, one, lowpass) for lowpass in starts]
            while sum(not job.done() for job in running) > 2 * o.at_once:
                time.sleep(0.02)
    count_verdicts(lines)
    if o.lines:
        with open(o.lines, "w", encoding="utf-8") as file:
            json.dump([dict(line, set=line["set"]["name"]) for line in lines], file, default=float)
    print(f"{time.monotonic() - began:.0f} s in all")


def remove_images(folder):
    for name in os.listdir(folder):
        if name.endswith(".mrcs"):
            os.remove(os.path.join(folder, name))


if __name__ == "__main__":
    main()
