#!/usr/bin/python3
"""Tests the claim that a low-pass costs no particles. Picks simulated micrographs without a low-pass and with several,
by the same threshold rule. Compares recall, false discovery rate and time.

lowpass_claim.py [--micrographs 8] [--snr 0.007] [--lowpass 0 5 10 15 20] [--threshold 0.25]

Prints a table in Markdown. Fails when the last low-pass finds fewer particles, or more false ones, than no low-pass.
The simulator paints a simulated protein under a CTF with shot noise and the structure of ice. Templates are projections
of its own map, in other views than those on the micrographs. A pick within 0.35 of the diameter of a centre is right,
one to one, nearest first. The best F1 is the highest of all thresholds. It separates worse picking from a mere shift of
the scale of figures of merit, which depends on how much of a template's power the low-pass keeps."""

import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.environ.get("ICESTREAM_BIN", os.path.join(HERE, "../../build/cpu/bin"))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
from relion_files import read_star  # noqa: E402

DIAMETER, NEAR, MERIT_LEAST = 130, 0.35, 0.1


def table(path, *names):
    columns, rows = read_star(path, "")
    return np.array([[float(row[columns.index(n)]) for n in names] for row in rows]).reshape(-1, len(names))


def right(picks, truth, tolerance):
    """Returns which picks are right."""
    found_by = np.zeros(len(picks), bool)
    if not len(picks):
        return found_by
    distance = np.hypot(*(picks[:, None] - truth[None]).transpose(2, 0, 1))
    used, found = set(), set()
    for at in np.argsort(distance, axis=None):
        i, j = divmod(int(at), len(truth))
        if distance[i, j] > tolerance:
            break
        if i not in used and j not in found:
            used.add(i)
            found.add(j)
            found_by[i] = True
    return found_by


def user_seconds():
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def score(options, folder, lowpass):
    """Returns picks, particles, recall, false discovery rate, best F1 and the seconds of CPU of a micrograph."""
    output, numeric = f"{folder}/picks-{lowpass:g}", options.threshold != "auto"
    before = user_seconds()
    subprocess.run(
        [
            f"{BIN}/icestream-lowpass-picker",
            "--i",
            "micrographs.star",
            "--o",
            output,
            "--templates",
            f"{folder}/truth/templates.mrcs",
            "--diameter",
            str(1.1 * DIAMETER),
            "--angle_step",
            str(options.angle_step),
            "--lowpass",
            str(lowpass),
            "--threshold",
            str(min(MERIT_LEAST, float(options.threshold))) if numeric else "auto",
            "--write_png",
            "false",
            "--whiten",
            options.whiten,
            "--threads",
            str(options.threads),
        ],
        cwd=folder,
        check=True,
        stderr=subprocess.DEVNULL,
    )
    seconds = user_seconds() - before
    merits, good, there = [], [], 0
    for i in range(options.micrographs):
        truth = table(f"{folder}/truth/mic_{i + 1:05d}.star", "rlnCoordinateX", "rlnCoordinateY")
        picks = table(
            f"{output}/micrographs/mic_{i + 1:05d}_autopick.star",
            "rlnCoordinateX",
            "rlnCoordinateY",
            "rlnAutopickFigureOfMerit",
        )
        good.append(right(picks[:, :2], truth, NEAR * DIAMETER / options.pixel_size))
        merits.append(picks[:, 2])
        there += len(truth)
    merits, good = np.concatenate(merits), np.concatenate(good)
    order = np.argsort(-merits)
    best = (2 * np.cumsum(good[order]) / (np.arange(len(order)) + 1 + there)).max(initial=0)
    kept = merits >= float(options.threshold) if numeric else np.ones(len(merits), bool)
    picked, hits = int(kept.sum()), int(good[kept].sum())
    return picked, there, hits / there, 1 - hits / max(picked, 1), best, seconds / options.micrographs


def main():
    parser = argparse.ArgumentParser(description="Recall and false discovery rate of picking against the low-pass.")
    parser.add_argument("--micrographs", type=int, default=8)
    parser.add_argument("--size", type=int, default=1536, help="px")
    parser.add_argument("--pixel-size", type=float, default=1.5, help="A")
    parser.add_argument("--particles", type=int, default=70)
    parser.add_argument(
        "--snr", type=float, default=0.007, help="variance of signal over noise in a particle, per pixel"
    )
    parser.add_argument("--lowpass", type=float, nargs="+", default=[0, 5, 10, 15, 20], help="A; 0: none")
    parser.add_argument("--templates", type=int, default=6)
    parser.add_argument("--angle-step", type=float, default=10)
    parser.add_argument("--threshold", default="0.25", help="a figure of merit, or auto: the same rule for all")
    parser.add_argument("--whiten", choices=["auto", "on", "off"], default="off", help="off: as in the paper")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    box = 2 * round(0.5 * 240 / options.pixel_size)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                f"{BIN}/icestream-simulate",
                "--o",
                folder,
                "--micrographs",
                str(options.micrographs),
                "--size",
                str(options.size),
                "--pixel_size",
                str(options.pixel_size),
                "--particles",
                str(options.particles),
                "--snr",
                str(options.snr),
                "--templates",
                str(options.templates),
                "--box",
                str(box),
                "--diameter",
                str(DIAMETER),
                "--seed",
                str(options.seed),
                "--interval",
                "0",
                "--carbon",
                "0",
                "--contamination",
                "1",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        os.link(f"{folder}/truth/micrographs_ctf.star", f"{folder}/micrographs.star")
        print(
            f"{options.micrographs} simulated micrographs of {options.size}² at {options.pixel_size} Å/px, snr "
            f"{options.snr}, {options.templates} templates every {options.angle_step:g}°, threshold {options.threshold}, "
            f"whitening {options.whiten}, {options.threads} threads, seed {options.seed}; load {os.getloadavg()[0]:.1f}\n\n"
            "| low-pass | picks | particles | recall | FDR | best F1 | CPU s per micrograph |\n|---|---|---|---|---|---|---|"
        )
        rows = []
        for lowpass in options.lowpass:
            rows.append(score(options, folder, lowpass))
            picked, there, recall, false, best, seconds = rows[-1]
            print(
                f"| {f'{lowpass:g} Å' if lowpass else 'none'} | {picked} | {there} | {recall:.3f} | {false:.3f} | "
                f"{best:.3f} | {seconds:.2f} |",
                flush=True,
            )
    # Two standard deviations of a difference of shares. The particles are the same, and one in fifty changes sides.
    slack = 2 * math.sqrt(0.02 / rows[0][1])
    first, last = rows[0], rows[-1]
    worse = last[2] < first[2] - slack or last[3] > first[3] + slack or last[4] < first[4] - slack
    print(
        f"\n{'failed' if worse else 'passed'}: {options.lowpass[-1]:g} Å against "
        f"{f'{options.lowpass[0]:g} Å' if options.lowpass[0] else 'none'}, to within {slack:.3f}"
    )
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
