#!/usr/bin/env python3
"""Tests that no single file ends a session of tilt series: neither one whose series cannot name a tomogram, nor the first
one without a pixel size, nor a series on whose tomogram the stage is killed each time. The items of that file or series
fail with the reason, and the good series becomes a tomogram.

series.py names|first|killed"""

import os
import shutil
import signal
import struct
import subprocess
import sys

from faults import BIN, Run, Work, check, finish, ledger, program, write

GRAPH = """\
stages:
  watcher: {directory: "FOLDER", pattern: "*.mrc", series: SERIES, settle: 0.5, mdoc_wait: 3}
  tilt-reconstructor: {from: watcher, thickness: 12, iterations: 2, quiet: 2, tilts_per_series: 7}
"""
PATTERN = '"t_{series}_{order}_{angle}.mrc"'


def tilts(work):
    """Returns the folder of a good series of seven tilts, with its .mdoc."""
    subprocess.run(
        [program("icestream-simulate-tilts"), "--o", work("made"), "--size", "32", "--thickness", "12"]
        + ["--from", "-30", "--to", "30", "--step", "10", "--files", "single"],
        check=True,
        capture_output=True,
    )
    return work("made", "tilts")


def mdoc(names):
    blocks = (f"[ZValue = {k}]\nTiltAngle = {10 * k}\nSubFramePath = {name}\n" for k, name in enumerate(names))
    return "PixelSpacing = 10\nImageSize = 32 32\n\n" + "\n".join(blocks)


def run(work, name, how):
    """Runs a session of the folder NAME to its end. Returns its output and {id: (state, reason)} of the watcher."""
    path = write(work(f"{name}.yaml"), GRAPH.replace("FOLDER", work(name)).replace("SERIES", how))
    with Run(path, work(f"{name}-session"), "--until-idle", "2", "--backoff", "0.05") as live:
        output = live.finish(3)
    rows = ledger(work(f"{name}-session"), "watcher", "SELECT id, state, reason FROM items")
    return output, {row[0]: row[1:] for row in rows}


def verdict(work, name, output, found, bad, words, tomogram):
    failed = {item: reason for item, (state, reason) in found.items() if state == 3}
    check(sorted(failed) == sorted(bad), f"{name}: these items fail, and no other: {sorted(failed)}")
    check(all(words in reason for reason in failed.values()), f"{name}: the reason is there: {set(failed.values())}")
    check("starting it again" not in output, f"{name}: no stage died")
    there = os.path.exists(work(f"{name}-session", "tilt-reconstructor", f"{tomogram}.mrc"))
    check(there, f"{name}: the tomogram of the good series is made")


def names():
    with Work("series-names") as work:
        good = tilts(work)
        first = os.path.join(good, "ts_001_-30.0.mrc")
        shutil.copytree(good, work("mdoc"))
        bad = []
        for k, name in enumerate((b"B\xe4r.mdoc", b"B\n1.mdoc", b"B\x01.mdoc")):
            images = [f"b{k}_{i}.mrc" for i in range(3)]
            for image in images:
                shutil.copy(first, work("mdoc", image))
            bad += [image[: -len(".mrc")] for image in images]
            with open(os.path.join(os.fsencode(work("mdoc")), name), "w") as file:
                file.write(mdoc(images))
        output, found = run(work, "mdoc", "mdoc")
        verdict(work, "mdoc", output, found, bad, "rename the .mdoc", "ts")
        os.makedirs(work("pattern"))
        for k, name in enumerate(sorted(name for name in os.listdir(good) if name.endswith(".mrc"))):
            shutil.copy(os.path.join(good, name), work("pattern", f"t_ts_{k}_{10 * k - 30}.mrc"))
        for series in ("..", "."):
            shutil.copy(first, work("pattern", f"t_{series}_1_-30.mrc"))
        output, found = run(work, "pattern", PATTERN)
        verdict(work, "pattern", output, found, ["t_.._1_-30", "t_._1_-30"], "rename the .mdoc", "ts")


def first():
    """Takes the pixel size out of the oldest tilt. The .mdoc does not have it either."""
    with Work("series-first") as work:
        shutil.copytree(tilts(work), work("in"))
        oldest = work("in", "ts_001_-30.0.mrc")
        with open(oldest, "r+b") as file:
            file.seek(40)
            file.write(struct.pack("<3f", 0, 0, 0))
        os.utime(oldest, (1577836800, 1577836800))
        text = open(work("in", "ts.mdoc")).read()
        write(work("in", "ts.mdoc"), "".join(line for line in text.splitlines(True) if "PixelSpacing" not in line))
        output, found = run(work, "in", "mdoc")
        verdict(work, "in", output, found, ["ts_001_-30.0"], "session.pixel_size", "ts")
        done = [item for item, (state, _) in found.items() if state == 1]
        check(len(done) == 6, f"the others go on: {sorted(done)}")


def killed():
    """Plays the memory killer, which comes when the stage writes the tomogram of one series, or its preview; and a crash
    at that time."""
    with Work("series-killed") as work:
        good = tilts(work)
        shutil.copytree(good, work("in"))
        images = []
        for k, name in enumerate(sorted(name for name in os.listdir(good) if name.endswith(".mrc"))):
            images.append(f"bad_{k}.mrc")
            shutil.copy(os.path.join(good, name), work("in", images[-1]))
        write(work("in", "bad.mdoc"), mdoc(images).replace("TiltAngle = ", "TiltAngle = -"))
        path = write(work("graph.yaml"), GRAPH.replace("FOLDER", work("in")).replace("SERIES", "mdoc"))
        killer = {
            **os.environ,
            "LD_PRELOAD": os.path.abspath(os.path.join(BIN, "../tests/preload_poison.so")),
        }
        both = ".bad_preview.mrc.partial|.bad.mrc.partial"
        for name, file, number in (
            ("tomogram", ".bad.mrc.partial", signal.SIGKILL),
            ("preview", both, signal.SIGKILL),
            ("crash", both, signal.SIGSEGV),
        ):
            session = work(name)
            killer["ICESTREAM_FAULT_SIGNAL"] = str(int(number))
            killer["ICESTREAM_FAULT_POISON"] = f"icestream-tilt-reconstructor:{file}"
            with Run(path, session, "--until-idle", "2", "--backoff", "0.05", env=killer) as live:
                live.finish(3)
            rows = ledger(session, "tilt-reconstructor", "SELECT id, state, reason FROM items")
            failed = {item: reason for item, state, reason in rows if state == 3}
            bad = sorted(image[: -len(".mrc")] for image in images)
            check(sorted(failed) == bad, f"{name}: the tilts of this series fail, and no other: {sorted(failed)}")
            check(all("while it worked on this series" in r for r in failed.values()), f"{set(failed.values())}")
            check(os.path.exists(f"{session}/tilt-reconstructor/ts.mrc"), f"{name}: the good tomogram is made")
            check(not os.path.exists(f"{session}/tilt-reconstructor/.begun"), f"{name}: no mark is left")
        run_again = [program("icestream"), "retry", "--session", work("tomogram")]
        subprocess.run(run_again, check=True, capture_output=True)
        with Run(path, work("tomogram"), "--until-idle", "2") as live:
            live.finish(0)
        check(os.path.exists(work("tomogram", "tilt-reconstructor", "bad.mrc")), "after a retry it is made, too")


cases = {"names": names, "first": first, "killed": killed}
if len(sys.argv) != 2 or sys.argv[1] not in cases:
    sys.exit(f"usage: series.py {'|'.join(cases)}")
cases[sys.argv[1]]()
finish()
