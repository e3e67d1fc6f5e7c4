#!/usr/bin/env python3
"""crystals.py [--bin DIR] [--work DIR] [--each N] [--stride N] [--device D] [--threads N] [--compare N]

Measures how well a model distinguishes the 11 outcomes of simulated drops (icestream-simulate-drops). Cross-validates
models on statistics of grey levels alone, on all features but texture, and on all features. Then tests the last model
on as many drops made with another seed. Prints the confusion matrix beside the paper's table, which is for other
images. --compare N scores N of each outcome on the CPU and on the device and counts how many outcomes differ. Needs
only Python's standard library. Without a GPU, texture at stride 8 takes about 1.7 s a core and image."""

import argparse
import csv
import os
import subprocess
import tempfile
import time

PAPER = {
    "clear": (0.937, 0.937),
    "precipitate": (0.94, 0.717),
    "crystal": (0.637, 0.622),
    "phase separation": (0.653, 0.79),
    "precip & crystal": (0.422, 0.568),
    "precip & skin": (0.511, 0.796),
    "phase & crystal": (0.38, 0.348),
    "phase & precip": (0.5, 0.022),
    "skin": (0.545, 0.58),
    "junk": (0.309, 0.769),
    "other": (0.269, 0.369),
}
NAMES = list(PAPER)

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("--bin", default=os.path.join(os.path.dirname(__file__), "../../build/cpu/bin"))
options.add_argument("--work", default=None)
options.add_argument("--each", type=int, default=200)
options.add_argument("--stride", type=int, default=8)
options.add_argument("--device", default="auto")
options.add_argument("--threads", type=int, default=os.cpu_count())
options.add_argument("--compare", type=int, default=0)
options.add_argument("--only", default="statistics,simple,all")
options = options.parse_args()
work = options.work or tempfile.mkdtemp(prefix="icestream-crystals-")


def program(name, *words):
    begun = time.time()
    done = subprocess.run([f"{options.bin}/icestream-{name}", *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{name} {' '.join(map(str, words))}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return time.time() - begun


def scorer(*words, device=options.device):
    return program("crystal-scorer", *words, "--device", device, "--threads", options.threads)


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def outcomes(path):
    return {os.path.basename(r["image"]): r["outcome"] for r in rows(path)}


def report(pairs, title):
    counts = {a: {b: 0 for b in NAMES} for a in NAMES}
    for truth, found in pairs:
        counts[truth][found] += 1
    print(f"\n{title}\n{'':18s}" + "".join(f"{k + 1:5d}" for k in range(11)) + "  precision recall   paper's")
    recalls = []
    for k, a in enumerate(NAMES):
        predicted = sum(counts[b][a] for b in NAMES)
        precision = counts[a][a] / predicted if predicted else float("nan")
        recall = counts[a][a] / max(1, sum(counts[a].values()))
        recalls.append(recall)
        print(
            f"{k + 1:2d} {a:15.15s}"
            + "".join(f"{counts[a][b]:5d}" for b in NAMES)
            + f"  {precision:9.3f} {recall:6.3f}   {PAPER[a][0]:.3f} {PAPER[a][1]:.3f}"
        )
    crystals = [n for n in NAMES if "crystal" in n]
    found = sum(counts[a][b] for a in crystals for b in crystals)
    print(
        f"macro recall {sum(recalls) / 11:.3f}; any crystal recognised as any crystal "
        f"{found / max(1, sum(sum(counts[a].values()) for a in crystals)):.3f} (paper: 0.80, of other images)"
    )


print(
    f"in {work}; {options.each} of each outcome, stride {options.stride}, device {options.device}, {options.threads} "
    "threads",
    flush=True,
)
for name, seed in (("one", 1), ("two", 2)):
    program("simulate-drops", "--o", f"{work}/{name}", "--count", options.each, "--seed", seed)
groups = options.only.split(",")
for group in groups:
    seconds = scorer(
        "--train", f"{work}/one/labels.csv", "--o", f"{work}/{group}", "--features", group, "--stride", options.stride
    )
    pairs = [(r["label"], r["outcome"]) for r in rows(f"{work}/{group}/cross_validation.csv")]
    report(pairs, f"features: {group}, held out in turn ({seconds:.0f} s)")
labels = {r["path"]: r["label"] for r in rows(f"{work}/two/labels.csv")}
seconds = scorer(
    "--i", f"{work}/two/labels.csv", "--model", f"{work}/{groups[-1]}/crystals.model", "--o", f"{work}/scores"
)
found = outcomes(f"{work}/scores/scores.csv")
report(
    [(labels[name], outcome) for name, outcome in found.items()],
    f"features: {groups[-1]}, drops of another seed ({seconds:.0f} s)",
)
if options.compare > 0:
    kept = {}
    for name, label in labels.items():
        kept.setdefault(label, []).append(name)
    part = [name for names in kept.values() for name in names[: options.compare]]
    with open(f"{work}/two/part.csv", "w", encoding="utf-8") as file:
        file.write("path\n" + "\n".join(part) + "\n")
    seconds = scorer(
        "--i",
        f"{work}/two/part.csv",
        "--model",
        f"{work}/{groups[-1]}/crystals.model",
        "--o",
        f"{work}/cpu",
        device="cpu",
    )
    cpu = outcomes(f"{work}/cpu/scores.csv")
    differing = sum(cpu[name] != found[name] for name in part)
    print(
        f"\nCPU and {options.device}: {len(part)} images, {differing} outcomes differ: "
        f"{100 * (1 - differing / len(part)):.2f} % equal ({seconds:.0f} s on the CPU)"
    )
