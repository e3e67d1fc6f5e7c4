#!/usr/bin/python3
"""What true_poses prints of particles whose poses are known: no error of poses that are true, a map that is like the
molecule; of poses of which a tenth is turned by 40 degrees, that tenth.

  true_poses_test.py TRUE_POSES MAKE_PARTICLES: the programs"""

import math
import random
import re
import subprocess
import sys
import tempfile

TRUE_POSES, MAKE_PARTICLES = sys.argv[1:3]
PARTICLES, BOX, PIXEL = 400, 40, 6.0
failures = []


def check(what, ok, value=""):
    print(f"{'ok  ' if ok else 'FAIL'} {what}: {value}")
    if not ok:
        failures.append(what)


def run(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr, end="", flush=True)
    if done.returncode != 0:
        sys.exit(f"{words[0]} ended with {done.returncode}")
    return done.stdout


def product(a, b):
    return [[sum(a[i][k] * b[k][j] for k in range(3)) for j in range(3)] for i in range(3)]


def about(axis, angle):
    """Returns the rotation about x (0), y (1) or z (2)."""
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    i, j = (axis + 1) % 3, (axis + 2) % 3
    m = [[float(r == k) for k in range(3)] for r in range(3)]
    m[i][i], m[i][j], m[j][i], m[j][j] = c, s, -s, c
    return m


def matrix(rot, tilt, psi):
    return product(about(2, psi), product(about(1, tilt), about(2, rot)))


def angles(m):
    """Returns rot, tilt and psi of a rotation that is not about z."""
    tilt = math.acos(max(-1, min(1, m[2][2])))
    return [math.degrees(a) for a in (math.atan2(m[2][1], m[2][0]), tilt, math.atan2(m[1][2], -m[0][2]))]


def rewrite(source, to, change):
    """Copies a table of particles, with other angles: change(index, [rot, tilt, psi])."""
    names, count, on = [], 0, False
    with open(source, encoding="utf-8") as old, open(to, "w", encoding="utf-8") as new:
        for line in old:
            words = line.split()
            if line.startswith("data_"):
                names, on = [], line.startswith("data_particles")
            elif words and words[0].startswith("_"):
                names.append(words[0])
            elif on and words and words[0] != "loop_" and not words[0].startswith("#"):
                at = [names.index("_rlnAngle" + name) for name in ("Rot", "Tilt", "Psi")]
                for i, value in zip(at, change(count, [float(words[i]) for i in at])):
                    words[i] = f"{value:.6f}"
                line, count = " ".join(words) + "\n", count + 1
            new.write(line)


def turn(every, degrees):
    """Returns a change for rewrite: turns each of so many particles about an axis of its own."""

    def change(index, old):
        if index % every != 0:
            return old
        draw = random.Random(index)
        frame = matrix(*(draw.uniform(0, 180) for _ in range(3)))
        back = [list(row) for row in zip(*frame)]
        return angles(product(product(back, product(about(0, degrees), frame)), matrix(*old)))

    return change


def off(text):
    found = re.search(r"(\d+) poses: off by ([\d.]+)° \(median\), ([\d.]+) % by more than 20°", text)
    return int(found[1]), float(found[2]), float(found[3])


def shown(text):
    """Returns where all particles agree with the truth: at 0.5 and 0.143."""
    found = re.search(r"truth to ([\d.]+) A \(0.5\), ([\d.]+) A \(0.143\)", text)
    return float(found[1]), float(found[2])


with tempfile.TemporaryDirectory() as work:
    run(MAKE_PARTICLES, work, PARTICLES, BOX, PIXEL, 20, 3)
    truth, molecule, other = work + "/truth.star", work + "/truth.mrc", work + "/turned.star"
    same = run(TRUE_POSES, truth, molecule, truth)
    count, median, lost = off(same)
    check("true poses are off by nothing", (count, median, lost) == (PARTICLES, 0, 0), (count, median, lost))
    check("their map is like the molecule to Nyquist", shown(same)[0] < 2.2 * PIXEL, shown(same))
    rewrite(truth, other, turn(10, 40))
    found = run(TRUE_POSES, truth, molecule, other)
    count, median, lost = off(found)
    check("of a tenth turned by 40 degrees, a tenth is lost", count == PARTICLES and abs(lost - 10) <= 1, lost)
    check("the median stays", median == 0, median)
    rewrite(truth, other, turn(1, 15))
    count, median, lost = off(run(TRUE_POSES, truth, molecule, other))
    check("all turned by 15 degrees: none is lost", (count, median, lost) == (PARTICLES, 15, 0), (median, lost))
    rewrite(truth, other, turn(1, 40))
    worse = shown(run(TRUE_POSES, other, molecule))
    check("particles at wrong poses make a map that is less like it", worse[0] > 2 * shown(same)[0], worse)
sys.exit(1 if failures else 0)
