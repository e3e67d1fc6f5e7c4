#!/usr/bin/python3
"""Compares the lowpass-picker with relion_autopick 3.1.3: figure-of-merit maps, local statistics and picks.

Without arguments: real micrographs of apoferritin and a simulated one, at a low-pass of 20 A and without one. With
arguments: any micrographs, for example
  picker_relion.py --micrographs micrographs_ctf.star --templates templates.mrcs --templates-pixel-size 3 \\
      --diameter 130 --lowpass 20 0 --threshold 0.4 1.6 --first 2
Maps must correlate to 0.99 and 97 % of the picks agree within 3 px.

RELION divides each figure of merit by an expectation that it computes with random noise: exp((sum A^2 + 2 A eps) / 2n)
- 1, whose mean is exp(sum A^2 / 2n) - 1. For faint templates the noise changes all figures of merit of a template by tens
of percent from one seed to the next. This also changes the picks above a threshold, and which template is best. So the
test removes the noise from RELION's maps (one factor between its map and ours), and RELION picks from these maps
(--read_fom_maps). The test also prints the agreement with the noise left in, and the agreement of RELION's picks with
RELION's picks for another seed."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

try:
    import mrcfile
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
from relion_files import read_spider, read_star, write_spider  # noqa: E402

NEAR, MAPS_LEAST, PICKS_LEAST = 3.0, 0.99, 0.97
PICKER = os.path.join(
    os.environ.get("ICESTREAM_BIN", os.path.join(HERE, "../../build/cpu/bin")), "icestream-lowpass-picker"
)


def run(command, folder):
    started = time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.monotonic() - started


def prepare(case, folder):
    """Copies the first micrographs as floats (RELION 3.1 takes unsigned 16-bit values for signed ones), cropped if
    requested, and writes their STAR file. Returns their names and pixel size."""
    source = os.path.dirname(os.path.abspath(case.micrographs))
    columns, rows = read_star(case.micrographs, "micrographs")
    optics, group = read_star(case.micrographs, "optics")
    rows = rows[: case.first]
    pixel_size = float(group[0][optics.index("rlnMicrographPixelSize")])
    at = columns.index("rlnMicrographName")
    for i, row in enumerate(rows):
        path = os.path.join(source, row[at])
        if not os.path.exists(path):  # a session's STAR file names micrographs from the session's folder
            path = os.path.join(source, "..", row[at])
        row[at] = f"micrographs/m{i}.mrc"
        os.makedirs(f"{folder}/micrographs", exist_ok=True)
        with mrcfile.open(path, permissive=True) as read, mrcfile.new(f"{folder}/{row[at]}") as write:
            width, height = case.crop or read.data.shape[::-1]
            write.set_data(np.ascontiguousarray(read.data[:height, :width]).astype(np.float32))
            write.voxel_size = pixel_size
    with open(f"{folder}/micrographs.star", "w") as out:
        for name, header, table in ("optics", optics, group), ("micrographs", columns, rows):
            out.write(f"\n# version 30001\n\ndata_{name}\n\nloop_\n" + "".join(f"_{c}\n" for c in header))
            out.writelines(" ".join(row) + "\n" for row in table)
            out.write("\n")
    return [f"m{i}" for i in range(len(rows))], pixel_size


def relion(case, folder, output, lowpass, threshold, *more):
    command = [
        "relion_autopick",
        "--i",
        "micrographs.star",
        "--odir",
        f"{output}/",
        "--pickname",
        "relion",
        "--ref",
        os.path.abspath(case.templates),
        "--angpix",
        str(case.pixel_size),
        "--angpix_ref",
        str(case.templates_pixel_size),
        "--particle_diameter",
        str(case.diameter),
        "--ang",
        str(case.angle_step),
        "--threshold",
        str(threshold),
        "--min_distance",
        str(case.min_distance),
        "--shrink",
        "0",
        *more,
    ]
    command += ["--lowpass", str(lowpass)] if lowpass > 0 else []
    command += [] if case.no_invert else ["--invert"]
    command += [] if case.no_ctf else ["--ctf"]
    return run(command, folder)


def icestream(case, folder, output, lowpass, threshold, *more):
    """Runs the picker. If `more` names kept maps, the picker picks from these maps."""
    command = [
        PICKER,
        "--i",
        "micrographs.star",
        "--o",
        output,
        "--threshold",
        str(threshold),
        "--min_distance",
        str(case.min_distance),
        "--prune",
        "relion",
        "--max_stddev_noise",
        "0",
        "--write_png",
        "false",
        "--threads",
        str(case.threads),
        *more,
    ]
    if "--from_maps" not in more:
        command += [
            "--templates",
            os.path.abspath(case.templates),
            "--templates_pixel_size",
            str(case.templates_pixel_size),
            "--diameter",
            str(case.diameter),
            "--angle_step",
            str(case.angle_step),
            "--lowpass",
            str(lowpass),
            "--size_rule",
            "relion",
            "--keep_maps",
            "true",
            "--invert",
            "false" if case.no_invert else "true",
            "--ctf",
            "false" if case.no_ctf else "true",
        ]
    return run(command, folder)


def kept_maps(path):
    """Returns our maps (mean, deviation, and the figure of merit of each template) and their description."""
    with open(path + ".json") as text:
        known = json.load(text)
    with mrcfile.open(path + ".mrcs", permissive=True) as stack:
        data = stack.data.astype(float)
    merits = [
        np.expm1(np.sqrt(term["power"]) * data[3 + 2 * t] - term["power"] / 2) / np.expm1(term["power"] / 2)
        for t, term in enumerate(known["terms"])
    ]
    return known, data[1], data[2], merits


def correlation(a, b):
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1])


def picks(path):
    columns, rows = read_star(path, "")
    at = columns.index("rlnCoordinateX"), columns.index("rlnCoordinateY")
    return np.array([[float(row[i]) for i in at] for row in rows]).reshape(-1, 2)


def agreement(ours, theirs):
    """Pairs picks one to one, nearest first."""
    if not len(ours) or not len(theirs):
        return 0
    distance = np.hypot(*(ours[:, None] - theirs[None]).transpose(2, 0, 1))
    pairs, rows, columns = 0, set(), set()
    for at in np.argsort(distance, axis=None):
        i, j = divmod(int(at), len(theirs))
        if distance[i, j] > NEAR:
            break
        if i not in rows and j not in columns:
            rows.add(i)
            columns.add(j)
            pairs += 1
    return pairs


class Tally:
    """Adds up the agreement over micrographs."""

    def __init__(self):
        self.first = self.second = self.pairs = 0

    def add(self, first, second):
        self.first, self.second = self.first + len(first), self.second + len(second)
        self.pairs += agreement(first, second)

    def share(self):
        return self.pairs / max(self.first, self.second) if self.first or self.second else 1.0

    def __str__(self):
        return f"{100 * self.share():5.1f} % ({self.pairs} of {self.first} and {self.second})"


def compare_maps(folder, name, problems):
    """Compares maps inside the part that can hold centres: outside a micrograph that is not square RELION's values are
    random. Returns the factor of RELION's figures of merit for each template."""
    known, mean, deviation, merits = kept_maps(f"{folder}/icestream/micrographs/{name}_maps")
    base = f"{folder}/relion/micrographs/{name}_relion_"
    scale, work = known["work"] / known["size"], known["work"]
    spans = [
        slice(
            int(np.ceil(((known["size"] - known[n]) // 2 + known["border"]) * scale)) + 1,
            int(((known["size"] + known[n]) // 2 - known["border"]) * scale) - 1,
        )
        for n in ("ny", "nx")
    ]
    theirs = [read_spider(base + "avgNoise.spi"), read_spider(base + "stddevNoise.spi")]
    theirs += [read_spider(f"{base}ref{t:06d}._bestCCF.spi") for t in range(len(merits))]
    if theirs[0].shape != (work, work):
        problems.append(f"{name}: maps of {work} px, RELION's of {theirs[0].shape[1]} px")
        return None
    factors, found = [], []
    for t, (own, other) in enumerate(zip([mean, deviation] + merits, theirs)):
        own, other = own[tuple(spans)], other[tuple(spans)]
        found.append(correlation(own, other))
        if not found[-1] >= MAPS_LEAST:
            problems.append(f"{name}: map {t} correlates with RELION's to {found[-1]:.4f}")
        if t >= 2:
            factors.append(float((own * other).sum() / (own * own).sum()))
    # RELION's expectation is ours times 1 + noise of this standard deviation.
    noise = [
        np.exp(term["power"] / 2)
        * np.sqrt(term["power"] / (np.pi * known["radius"] ** 2))
        / np.expm1(term["power"] / 2)
        for term in known["terms"]
    ]
    print(
        f"  {name}: maps of {work} px, correlation mean {found[0]:.5f} deviation {found[1]:.5f} merit {min(found[2:]):.5f} to "
        f"{max(found[2:]):.5f}; RELION's merits are ours x "
        + " ".join(f"{f:.2f}" for f in factors)
        + " (its noise: +- "
        + " ".join(f"{100 * n:.0f}" for n in noise)
        + " %)"
    )
    for t, (factor, spread) in enumerate(zip(factors, noise)):
        # Allows five standard deviations. Rounding and RELION's bilinear interpolation add less than 2 %.
        if abs(1 / factor - 1) > 5 * spread + 0.02:
            problems.append(
                f"{name}: template {t + 1}: RELION's merits are ours x {factor:.3f}, more than its noise explains"
            )
    return factors


def take_noise_out(folder, names, factors):
    for name in names:
        for t, factor in enumerate(factors[name]):
            path = f"{folder}/relion/micrographs/{name}_relion_ref{t:06d}._bestCCF.spi"
            write_spider(path, read_spider(path) / factor)


def compare(case, folder, lowpass):
    names, case.pixel_size = prepare(case, folder)
    first = case.thresholds[0]
    took = relion(case, folder, "relion", lowpass, first, "--write_fom_maps", "--no_fom_limit")
    ours = icestream(case, folder, "icestream", lowpass, first)
    print(
        f"{case.name}, low-pass {lowpass if lowpass else 'none'}: relion_autopick {took:.1f} s, icestream {ours:.1f} s, "
        f"{len(names)} micrographs, set-up included",
        flush=True,
    )
    problems, factors = [], {}
    for name in names:
        factors[name] = compare_maps(folder, name, problems)
    if any(f is None for f in factors.values()):
        return problems
    straight = {}
    for threshold in case.thresholds:
        relion(case, folder, "relion", lowpass, threshold, "--read_fom_maps")
        straight[threshold] = {n: picks(f"{folder}/relion/micrographs/{n}_relion.star") for n in names}
    again = {}
    if not case.no_control:
        relion(case, folder, "again", lowpass, first, "--write_fom_maps", "--no_fom_limit", "--random_seed", "1000")
        for threshold in case.thresholds:
            relion(case, folder, "again", lowpass, threshold, "--read_fom_maps")
            again[threshold] = {n: picks(f"{folder}/again/micrographs/{n}_relion.star") for n in names}
    take_noise_out(folder, names, factors)
    for threshold in case.thresholds:
        relion(case, folder, "relion", lowpass, threshold, "--read_fom_maps")
        icestream(case, folder, f"picks{threshold}", lowpass, threshold, "--from_maps", f"{folder}/icestream")
        without, noisy, control = Tally(), Tally(), Tally()
        for n in names:
            own = picks(f"{folder}/picks{threshold}/micrographs/{n}_autopick.star")
            without.add(own, picks(f"{folder}/relion/micrographs/{n}_relion.star"))
            noisy.add(own, straight[threshold][n])
            if again:
                control.add(straight[threshold][n], again[threshold][n])
        print(
            f"  threshold {threshold}: picks agree to {without}; with RELION's noise {noisy}"
            + (f"; RELION with itself at another seed {control}" if again else ""),
            flush=True,
        )
        if without.share() < PICKS_LEAST:
            problems.append(f"{case.name}, low-pass {lowpass}, threshold {threshold}: picks agree to {without}")
        if without.first == 0:
            problems.append(f"{case.name}, low-pass {lowpass}, threshold {threshold}: nothing was picked")
    return problems


def own_cases(folder):
    """Compares real micrographs that are not square, with templates at another pixel size, whose maps RELION makes
    smaller than the low-pass needs. Then simulated square ones, whose maps RELION makes larger."""
    data = os.path.join(os.environ.get("ICESTREAM_DATA", os.path.join(HERE, "../../../shared/data")), "apoferritin")
    cases = []
    if os.path.isdir(data):
        cases.append(
            dict(
                name="apoferritin",
                micrographs=f"{data}/micrographs_ctf.star",
                templates=f"{data}/templates.mrcs",
                templates_pixel_size=3.0,
                diameter=130,
                min_distance=80,
                thresholds=[0.05, 0.4, 1.6],
                angle_step=20,
            )
        )
    simulate = os.path.join(os.path.dirname(PICKER), "icestream-simulate")
    subprocess.run(
        [
            simulate,
            "--o",
            f"{folder}/simulated",
            "--micrographs",
            "2",
            "--size",
            "664",
            "--particles",
            "30",
            "--interval",
            "0",
            "--templates",
            "4",
            "--contamination",
            "0",
            "--carbon",
            "0",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    cases.append(
        dict(
            name="simulated",
            micrographs=f"{folder}/simulated/truth/micrographs_ctf.star",
            templates=f"{folder}/simulated/truth/templates.mrcs",
            templates_pixel_size=2.5,
            diameter=140,
            min_distance=100,
            thresholds=[0.05, 0.3],
            angle_step=20,
        )
    )
    common = dict(first=2, crop=None, lowpass=[20, 0], no_ctf=False, no_invert=False, no_control=True, threads=1)
    return [argparse.Namespace(**{**common, **case}) for case in cases]


def arguments():
    parser = argparse.ArgumentParser(description="Compares icestream-lowpass-picker with relion_autopick.")
    parser.add_argument("--micrographs", help="STAR file with CTF values; paths from its folder or the one above")
    parser.add_argument("--templates")
    parser.add_argument("--templates-pixel-size", type=float)
    parser.add_argument("--diameter", type=float, help="A")
    parser.add_argument("--min-distance", type=float, default=100, help="A")
    parser.add_argument("--angle-step", type=float, default=5)
    parser.add_argument("--lowpass", type=float, nargs="+", default=[20], help="A; 0: none")
    parser.add_argument("--threshold", type=float, nargs="+", default=[0.4], dest="thresholds")
    parser.add_argument("--first", type=int, default=1, help="how many micrographs")
    parser.add_argument("--crop", type=int, nargs=2, help="width and height to cut the micrographs to, px")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-ctf", action="store_true")
    parser.add_argument("--no-invert", action="store_true")
    parser.add_argument("--no-control", action="store_true", help="do not run RELION again with another seed")
    case = parser.parse_args()
    case.name = case.micrographs
    if case.micrographs and not (case.templates and case.templates_pixel_size and case.diameter):
        parser.error("--templates, --templates-pixel-size and --diameter go with --micrographs")
    return case


def main():
    if shutil.which("relion_autopick") is None:
        print("skipped: relion_autopick is not installed (Debian: apt-get install relion)")
        sys.exit(77)
    given, problems = arguments(), []
    with tempfile.TemporaryDirectory() as folder:
        for i, case in enumerate([given] if given.micrographs else own_cases(folder)):
            for lowpass in case.lowpass:
                place = f"{folder}/{i}-{lowpass}"
                os.makedirs(place)
                problems += compare(case, place, lowpass)
    print("\n".join(problems) if problems else "passed")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
