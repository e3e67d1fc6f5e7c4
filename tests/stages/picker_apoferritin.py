#!/usr/bin/env python3
"""Template picking of real micrographs at the default threshold: recall and precision of at least 0.90 against centres
found independently (15 px; picks nearer than 62 px to the border count neither way, as no centre is marked there)."""
import glob, math, os, subprocess, sys, tempfile

data = os.path.join(os.environ["ICESTREAM_DATA"], "apoferritin")
program = os.path.join(os.environ["ICESTREAM_BIN"], "icestream-lowpass-picker")
if not os.path.isdir(data):
    print(f"skipped: no {data}")
    sys.exit(77)
TOLERANCE, BORDER, WIDTH, HEIGHT = 15, 62, 1240, 1200


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
    pairs = sorted((math.dist(p, t), i, j) for i, p in enumerate(picks) for j, t in enumerate(truth)
                   if math.dist(p, t) < TOLERANCE)
    used_picks, used_truth = set(), set()
    for _, i, j in pairs:
        if i not in used_picks and j not in used_truth:
            used_picks.add(i)
            used_truth.add(j)
    return len(used_picks)


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([program, "--i", f"{data}/micrographs_ctf.star", "--o", f"{folder}/lowpass-picker",
                    "--templates", f"{data}/templates.mrcs", "--diameter", "130", *sys.argv[1:]], check=True)
    hits = picked = marked = 0
    for centres in sorted(glob.glob(f"{data}/centres/*.star")):
        name = os.path.basename(centres)[:-len(".star")]
        found = glob.glob(f"{folder}/lowpass-picker/**/{name}_autopick.star", recursive=True)
        assert len(found) == 1, f"{name}: {found}"
        assert os.path.exists(found[0].replace("_autopick.star", ".png")), f"{name}: no picture"
        picks = [(x, y) for x, y in points(found[0])
                 if BORDER <= x <= WIDTH - BORDER and BORDER <= y <= HEIGHT - BORDER]
        truth = points(centres)
        n = matches(picks, truth)
        print(f"{name}: recall {n / len(truth):.3f} precision {n / max(len(picks), 1):.3f}")
        hits, picked, marked = hits + n, picked + len(picks), marked + len(truth)
    drifted = glob.glob(f"{folder}/lowpass-picker/**/May08_06_09_02_autopick.star", recursive=True)
    recall, precision = hits / marked, hits / max(picked, 1)
    print(f"all: recall {recall:.3f} precision {precision:.3f}; drifted micrograph: {len(points(drifted[0]))} picks")
    assert recall >= 0.90 and precision >= 0.90
    assert len(points(drifted[0])) <= 30, "a micrograph without visible particles yields few picks"
