#!/usr/bin/env python3
"""Files of one name but for the ending, or but for "../": each is an item, or fails with a reason. No row vanishes."""

import glob
import os
import shutil
import subprocess

from alone import put
from faults import MICROGRAPHS, Run, Work, check, finish, names, program, star, status, write


def picker(work, table, cwd=None):
    words = [program("icestream-lowpass-picker"), "--i", table, "--o", work("out"), "--diameter", "130"]
    ended = subprocess.run([*words, "--pixel_size", "6"], capture_output=True, text=True, timeout=120, cwd=cwd)
    return ended.returncode, ended.stdout + ended.stderr


def copies(work, *paths):
    for path, name in zip(paths, names()):
        os.makedirs(os.path.dirname(work(path)), exist_ok=True)
        shutil.copy(os.path.join(MICROGRAPHS, name), work(path))


def on_files(case, *rows, folder="."):
    with Work(f"same-names-{case}") as work:
        os.makedirs(work(folder), exist_ok=True)
        copies(work, *(os.path.normpath(os.path.join(folder, row)) for row in rows))
        lines = "".join(f"{row}\n" for row in rows)
        table = write(work(folder, "mics.star"), f"data_\n\nloop_\n_rlnMicrographName\n{lines}")
        code, said = picker(work, table, work(folder))
        found = star(work("out/autopick.star"))["coordinate_files"]
        stars = {row["rlnMicrographCoordinates"] for row in found}
        images = {row["rlnMicrographName"] for row in found}
        check(code == 0 and len(images) == len(rows) == len(stars), f"{case}: exit {code}, {images}, {stars}: {said[-300:]}")
        made = glob.glob(f"{work('out')}/**/*_autopick.star", recursive=True)
        check(len(made) == len(rows), f"{case}: {len(made)} files of picks for {len(rows)} micrographs")
        # The stage behind it finds both again.
        words = [program("icestream-extractor"), "--i", work("out/autopick.star"), "--o", work("cut"), "--box", "32"]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=work.path)
        cut = {row["rlnMicrographName"] for row in star(work("cut/particles.star"))["particles"]}
        check(ended.returncode == 0 and cut == images, f"{case}: particles of {cut}: {ended.stderr[-300:]}")


def watched():
    with Work("same-names-watched") as work:
        now = os.path.getmtime(MICROGRAPHS)
        for at, name in enumerate(("mic.mrc", "mic.tif", "other.mrc")):
            put(work("in"), name, date=now + at)
        text = f"session: {{pixel_size: 1}}\nstages:\n  watcher: {{directory: {work('in')}, settle: 0.2, poll: 0.2}}\n"
        with Run(write(work("graph.yaml"), text), work("session"), "--until-idle", "1") as live:
            live.finish(3)
        failed = {item["id"]: item["reason"] for item in status(work("session"))["items"] if item["state"] == "failed"}
        done = status(work("session"))["stages"]["watcher"]["done"]
        right = list(failed) == ["mic.tif"] and "mic.mrc has the same name but for its ending" in failed["mic.tif"]
        check(right and done == 2, f"the second of one name fails with the reason: {failed}, {done} done")


def bad_names():
    """One bad name in a folder fails alone, with its reason."""
    atom = "ATOM  %5d  CA  ALA A%4d    %8.3f%8.3f%8.3f  1.00  0.00           C\n"
    with Work("same-names-bad") as work:
        for number in range(3):
            rows = "".join(atom % (k, k, 3.8 * k, k * k % 7, (k + number) % 5) for k in range(1, 30))
            put(work("models"), f"m{number}.pdb", (rows + "END\n").encode())
        for name in (b"line\nbreak.pdb", b"latin\xe4.pdb"):
            put(work("models"), name, (rows + "END\n").encode())
        words = [program("icestream-superposer"), "--i", work("models"), "--o", work("out")]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
        check(ended.returncode == 3 and "3 done, 0 rejected, 2 failed" in ended.stderr, f"superposer: {ended.stderr}")
        for shown in ("line?break.pdb~", "latin?.pdb~"):
            check(f"{shown}" in ended.stderr, f"{shown} is named")
        copies(work, "mics/a.mrc", "mics/b\n.mrc", "mics/c.mrc")
        code, said = picker(work, work("mics"))
        check(code == 3 and "2 done, 0 rejected, 1 failed" in said, f"picker: exit {code}: {said[-300:]}")


on_files("endings", "m/x.mrc", "m/x.tif")
on_files("above", "g/mic.mrc", "../g/mic.mrc", folder="project")
watched()
bad_names()
finish()
