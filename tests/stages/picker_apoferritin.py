#!/usr/bin/env python3
"""Compares picks on real, crowded micrographs at the default threshold with centres that were found independently (15
px). Picks within 62 px of the border count neither way, as no centre is marked there. Checks F1 for circles from
slightly narrow to a third too wide, for other low-pass filters, for templates on a wrong grey scale, without CTF
values, and without templates."""

import array
import glob
import math
import os
import subprocess
import sys
import tempfile

data = os.path.join(os.environ["ICESTREAM_DATA"], "apoferritin")
program = os.path.join(os.environ["ICESTREAM_BIN"], "icestream-lowpass-picker")
if not os.path.isdir(data):
    print(f"skipped: no {data}")
    sys.exit(77)
TOLERANCE, BORDER, WIDTH, HEIGHT = 15, 62, 1240, 1200
TEMPLATES = f"{data}/templates.mrcs"


def points(path):
    columns, rows = [], []
    for line in open(path):
        words = line.split()
        if words and words[0].startswith("_"):
            columns.append(words[0][1:])
        elif len(words) >= 2 and columns and len(words) >= len(columns):
            rows.append((float(words[columns.index("rlnCoordinateX")]), float(words[columns.index("rlnCoordinateY")])))
    return rows


def matches(picks, truth):
    pairs = sorted(
        (math.dist(p, t), i, j) for i, p in enumerate(picks) for j, t in enumerate(truth) if math.dist(p, t) < TOLERANCE
    )
    used_picks, used_truth = set(), set()
    for _, i, j in pairs:
        if i not in used_picks and j not in used_truth:
            used_picks.add(i)
            used_truth.add(j)
    return len(used_picks)


def scaled(factor, path):
    """Writes the templates times a factor: an MRC file of 32-bit floats without an extended header."""
    content = open(TEMPLATES, "rb").read()
    values = array.array("f", content[1024:])
    with open(path, "wb") as file:
        file.write(content[:1024])
        array.array("f", (factor * value for value in values)).tofile(file)
    return path


def pick(folder, arguments):
    """Returns recall and precision over all micrographs, and the number of picks in the drifted one."""
    subprocess.run([program, "--o", f"{folder}/lowpass-picker", *arguments], check=True, stderr=subprocess.DEVNULL)
    hits = picked = marked = 0
    for centres in sorted(glob.glob(f"{data}/centres/*.star")):
        name = os.path.basename(centres)[: -len(".star")]
        found = glob.glob(f"{folder}/lowpass-picker/**/{name}_autopick.star", recursive=True)
        assert len(found) == 1, f"{name}: {found}"
        picks = [
            (x, y) for x, y in points(found[0]) if BORDER <= x <= WIDTH - BORDER and BORDER <= y <= HEIGHT - BORDER
        ]
        truth = points(centres)
        hits, picked, marked = hits + matches(picks, truth), picked + len(picks), marked + len(truth)
    drifted = glob.glob(f"{folder}/lowpass-picker/**/May08_06_09_02_autopick.star", recursive=True)
    return hits / marked, hits / max(picked, 1), len(points(drifted[0]))


known, unknown = ["--i", f"{data}/micrographs_ctf.star"], ["--i", f"{data}/micrographs", "--pixel_size", "1.5"]
cases = [
    ("diameter 115", known, 1, 0.92, ["--diameter", "115", "--write_png", "false"]),
    ("diameter 130", known, 1, 0.96, ["--diameter", "130"]),
    ("diameter 145", known, 1, 0.95, ["--diameter", "145", "--write_png", "false"]),
    ("diameter 160, 30 A", known, 1, 0.92, ["--diameter", "160", "--lowpass", "30", "--write_png", "false"]),
    (
        "15 A, 30 degrees",
        known,
        1,
        0.95,
        ["--diameter", "130", "--lowpass", "15", "--angle_step", "30", "--write_png", "false"],
    ),
    ("no diameter", known, 1, 0.90, ["--write_png", "false"]),
    ("threshold 0.1", known, 1, 0.93, ["--diameter", "130", "--threshold", "0.1", "--write_png", "false"]),
    ("templates x 3", known, 3, 0.96, ["--diameter", "130", "--write_png", "false"]),
    ("templates x 0.05", known, 0.05, 0.96, ["--diameter", "130", "--write_png", "false"]),
    ("no CTF", unknown, 1, 0.95, ["--diameter", "130", "--write_png", "false"]),
    ("without templates", unknown, 0, 0.92, ["--diameter", "120", "--write_png", "false"]),
]
failed = []
for name, micrographs, factor, least, arguments in cases:
    with tempfile.TemporaryDirectory() as folder:
        templates = ["--templates", TEMPLATES if factor == 1 else scaled(factor, f"{folder}/scaled.mrcs")]
        recall, precision, drifted = pick(folder, micrographs + (templates if factor else []) + arguments)
        f1 = 2 * recall * precision / max(recall + precision, 1e-9)
        print(
            f"{name}: recall {recall:.3f} precision {precision:.3f} F1 {f1:.3f} (at least {least}); drifted micrograph: "
            f"{drifted} picks",
            flush=True,
        )
        if f1 < least:
            failed.append(f"{name}: F1 {f1:.3f}, at least {least} expected")
        # A numeric threshold always gives picks. Only `auto` decides whether a micrograph shows particles at all.
        if drifted > 30 and "--threshold" not in arguments:
            failed.append(f"{name}: {drifted} picks in a micrograph without visible particles")
        if "--write_png" not in arguments and len(glob.glob(f"{folder}/lowpass-picker/**/*.png", recursive=True)) != 10:
            failed.append(f"{name}: pictures are missing")
assert not failed, "\n".join(failed)
