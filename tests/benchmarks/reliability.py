#!/usr/bin/python3
"""Tests whether weighting particles by how their fit changes (`reliability`) sharpens the map (paper 001, Figure 8).

  reliability.py [--particles 6496] [--box 128] [--pixel-size 2.2] [--snr 0.1] [--width 1.2] [--junk 0.2]
                 [--seeds 1,2,3] [--device cpu] [--threads 2] [--memory 4] [--work FOLDER]

The same simulated particles, a fifth of them junk, are refined without weights and with either norm, from 40 Å until
they converge. Half of the junk is pure noise, half shows another structure of the same size and contrast
(make_particles).
Prints tables in Markdown for each seed. Each iteration has a row: resolution (Å, between shells) where the FSC of the
map with the truth falls below 0.5 and that of the halves below 0.143, and the mean weights of good particles and of
either junk. At the end, for all seeds: means over the iterations that all three runs reached, and the last."""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.abspath(os.environ.get("ICESTREAM_BIN", os.path.join(HERE, "../../build/cpu/bin")))
TESTS = os.path.abspath(os.environ.get("ICESTREAM_TESTS", os.path.join(BIN, "../tests")))
VARIANTS = {"off": [], "l2": ["--reliability"], "l2sq": ["--reliability", "--reliability_norm", "l2sq"]}
KINDS = ("good", "other structure", "noise")  # classes 1, 2, 3 of truth.star
HEADER = 1024  # bytes of an MRC file without an extended header


def run(words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))} came back with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def star(path, table, *names):
    """Returns rows of these columns, of the looped table data_NAME."""
    columns, rows, inside = [], [], False
    with open(path) as text:
        for line in text:
            words = line.split()
            if line.startswith("data_"):
                inside = line.strip() == "data_" + table
            elif inside and words and words[0].startswith("_"):
                columns.append(words[0][4:])
            elif inside and words and words[0] != "loop_" and words[0][0] != "#":
                rows.append(words)
    if not all(name in columns for name in names):
        return []
    return [[row[columns.index(name)] for name in names] for row in rows]


def crossing(curve, limit, extent):
    """Returns Å where a curve first falls below the limit."""
    for shell in range(1, len(curve)):
        if curve[shell] < limit:
            part = (curve[shell - 1] - limit) / (curve[shell - 1] - curve[shell])
            return extent / max(shell - 1 + part, 0.5)
    return extent / (len(curve) - 1)


def raw(path, box):
    """Converts the map for volume_tool."""
    with open(path, "rb") as file:
        header = file.read(HEADER)
        sizes, extended = struct.unpack_from("<3i", header), struct.unpack_from("<i", header, 92)[0]
        assert sizes == (box, box, box), f"{path} is {sizes}, not of {box} px"
        file.seek(HEADER + extended)
        with open("map.raw", "wb") as out:
            out.write(file.read(4 * box**3))
    return "map.raw"


def refine(o, name, kinds):
    """Returns for each iteration: Å with the truth, Å of the halves, mean weight of each kind."""
    run(
        [
            f"{BIN}/icestream-refiner",
            "--i",
            "particles.star",
            "--o",
            name,
            "--reference",
            "truth.mrc",
            "--diameter",
            min(220, 0.78 * o.box * o.pixel_size),
            "--initial_lowpass",
            "40",
            "--keep_iterations",
            "1000",
            "--min_particles",
            "1000000",
            "--threads",
            o.threads,
            "--device",
            o.device,
            "--memory",
            o.memory,
            *VARIANTS[name],
        ]
    )
    extent, found = o.box * o.pixel_size, []
    with open(f"{name}/history.jsonl") as history:
        iterations = [json.loads(line)["iteration"] for line in history]
    for i in iterations:
        last = not os.path.exists(f"{name}/run_it{i:03d}_class001.mrc")
        stem = f"{name}/run" if last else f"{name}/run_it{i:03d}"
        curve = run([f"{TESTS}/volume_tool", "fsc", o.box, raw(f"{stem}_class001.mrc", o.box), "truth.raw"]).split()
        model = f"{stem}_half1_model.star" if os.path.exists(f"{stem}_half1_model.star") else f"{stem}_model.star"
        halves = [float(row[0]) for row in star(model, "model_class_1", "GoldStandardFsc")]
        sums, counts = [0.0] * len(KINDS), [0] * len(KINDS)
        for image, weight in star(f"{stem}_data.star", "particles", "ImageName", "ParticleReliability"):
            kind = kinds[image]
            sums[kind], counts[kind] = sums[kind] + float(weight), counts[kind] + 1
        found.append(
            [crossing([float(v) for v in curve], 0.5, extent), crossing([1.0] + halves[1:], 0.143, extent)]
            + [s / n if n else 1.0 for s, n in zip(sums, counts)]
        )
    return found


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def one_seed(o, seed):
    made = run([f"{TESTS}/make_particles", ".", o.particles, o.box, o.pixel_size, o.snr, seed, o.width, o.junk])
    kinds = {image: int(number) - 1 for image, number in star("truth.star", "particles", "ImageName", "ClassNumber")}
    counts = [list(kinds.values()).count(k) for k in range(len(KINDS))]
    print(
        f"seed {seed}: {o.particles} particles of {o.box}² px, {o.pixel_size:g} Å/px, SNR {o.snr:g}; "
        + ", ".join(f"{n} {what}" for n, what in zip(counts, KINDS))
        + f". {made.splitlines()[0]}\n"
    )
    os.rename(raw("truth.mrc", o.box), "truth.raw")
    results = {name: refine(o, name, kinds) for name in VARIANTS}
    rows = range(max(map(len, results.values())))
    table(
        ["iteration", *VARIANTS],
        [
            [str(i + 1)] + [f"{f[i][0]:.2f}, {f[i][1]:.2f}" if i < len(f) else "" for f in results.values()]
            for i in rows
        ],
    )
    table(
        ["iteration"] + [f"{name}: {what}" for name in VARIANTS if VARIANTS[name] for what in KINDS],
        [
            [str(i + 1)]
            + [
                f"{f[i][2 + k]:.4f}" if i < len(f) else ""
                for name, f in results.items()
                if VARIANTS[name]
                for k in range(len(KINDS))
            ]
            for i in rows
        ],
    )
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, kind, value in (
        ("particles", int, 6496),
        ("box", int, 128),
        ("pixel-size", float, 2.2),
        ("snr", float, 0.1),
        ("width", float, 1.2),
        ("junk", float, 0.2),
        ("seeds", str, "1,2,3"),
        ("device", str, "cpu"),
        ("threads", int, 2),
        ("memory", float, 4),
        ("work", str, None),
    ):
        parser.add_argument("--" + name, type=kind, default=value)
    options = parser.parse_args()
    summary = []
    for seed in options.seeds.split(","):
        with tempfile.TemporaryDirectory(dir=options.work) as folder:
            os.chdir(folder)
            results = one_seed(options, seed)
            os.chdir("/")
        common = min(map(len, results.values())) - 1  # the last iteration differs: it joins the halves
        for name, found in results.items():
            means = [sum(f[j] for f in found[:common]) / common for j in range(2)]
            summary.append(
                [
                    seed,
                    name,
                    str(len(found)),
                    f"{means[0]:.2f}, {means[1]:.2f}",
                    f"{found[-1][0]:.2f}, {found[-1][1]:.2f}",
                ]
            )
    table(
        ["seed", "weights", "iterations", "Å, mean of the common ones: truth, halves", "Å, last: truth, halves"],
        summary,
    )
    return 0


sys.exit(main())
