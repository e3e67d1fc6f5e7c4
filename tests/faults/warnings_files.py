#!/usr/bin/env python3
"""Warnings on files: each kind is listed once at the end of a stage, the exit code stays. An error stands alone."""

import re
import subprocess

import mrcfile
import numpy as np
from faults import Work, arrive, check, finish, names, program, write


def listed(name, *words, code=0):
    """Runs a stage on files. Returns its standard error and {id: number} of the warnings listed in it."""
    ended = subprocess.run([program(f"icestream-{name}"), *words], capture_output=True, text=True, timeout=120)
    check(ended.returncode == code, f"{name} ends with {ended.returncode}: {ended.stderr[-600:]}")
    found = {}
    for line in ended.stderr.splitlines():
        match = re.match(rf"icestream-{name}: warning: .* \((\S+?)(?:, (\d+) times)?\)$", line)
        if match:
            check(match[1] not in found, f"{match[1]} is listed once")
            found[match[1]] = int(match[2] or 1)
    return ended.stderr, found


def reference(path, box, side):
    """Writes a ball as a reference for the refiner."""
    grid = np.mgrid[:box, :box, :box] - box / 2
    mrcfile.write(path, (np.sqrt((grid**2).sum(0)) < side).astype(np.float32), voxel_size=6, overwrite=True)


def nothing(work):
    """Writes 60 particles that show nothing, and returns their table."""
    mrcfile.write(work("nothing.mrcs"), np.zeros((60, 20, 20), np.float32), voxel_size=4)
    rows = "".join(f"{number}@{work('nothing.mrcs')} 4 300 2.7 0.1\n" for number in range(1, 61))
    columns = ("ImageName", "ImagePixelSize", "Voltage", "SphericalAberration", "AmplitudeContrast")
    return write(work("nothing.star"), "data_\n\nloop_\n" + "".join(f"_rln{name}\n" for name in columns) + rows)


with Work("warnings-files") as work:
    some = names()[:3]
    arrive(some, work("in"))
    # The headers say 6 Å/px.
    wrong = ["--pixel_size", "7", "--reject_if", "rlnNoSuchColumn > 1", "--diameter", "130"]
    said, found = listed("lowpass-picker", "--i", work("in"), "--o", work("picker"), *wrong)
    check(found == {"pixel-size": 3, "reject-if": 1}, f"a wrong pixel size and a rule without effect: {said}")
    said, found = listed("lowpass-picker", "--i", work("in"), "--o", work("picker"), "--diameter", "130")
    check(found == {}, f"nothing is listed where nothing is odd: {said}")

    watch = ["--i", work("in"), "--until_idle", "0.2", "--pattern"]
    said, found = listed("watcher", *watch, "*_fractions.tiff", "--o", work("watcher"))
    check(found == {"pattern": 1} and some[0][:4] in said, f"a pattern that fits nothing: {said}")
    said, found = listed("watcher", *watch, "*.mrc", "--o", work("watcher2"))
    check(found == {}, f"a pattern that fits: {said}")

    _, found = listed("extractor", "--i", work("picker/autopick.star"), "--o", work("extractor"), "--box", "32")
    check("ctf" not in found, "the extractor knows nothing of CTFs")
    particles = work("extractor/particles.star")
    few = ["--classes", "2", "--threads", "2"]
    said, found = listed("classifier", "--i", particles, "--o", work("classes"), "--diameter", "500", *few)
    check({"ctf", "mask"} <= set(found), f"no CTF at all, and a mask larger than the box: {said}")
    check("poor" not in found, f"one of the classes shows particles: {said}")
    said, found = listed("classifier", "--i", nothing(work), "--o", work("poor"), "--diameter", "60", "--classes", "1")
    check("poor" in found, f"the best class shows nothing: {said}")
    reference(work("ball.mrc"), 32, 10)
    words = ["--reference", work("ball.mrc"), "--threads", "2", "--max_iterations", "1"]
    said, found = listed("refiner", "--i", particles, "--o", work("maps"), "--diameter", "500", *words)
    check({"refine-ctf", "refine-mask"} <= set(found), f"the same at the refiner: {said}")
    reference(work("ball.mrc"), 8, 3)
    said, _ = listed("refiner", "--i", particles, "--o", work("no-maps"), "--diameter", "20", *words, code=2)
    check("error: " in said and " done, " not in said, f"no counts stand beside an error: {said}")

finish()
