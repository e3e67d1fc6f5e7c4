#!/usr/bin/env python3
"""Two watchers whose micrographs have equal names. All of them must be picked, cut out and classified, and each must have
its own picks, particles and rows.

sources.py join|kills|classifier|series [SEED]"""

import contextlib
import glob
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time

from faults import (
    MICROGRAPHS,
    Run,
    Work,
    check,
    done,
    finish,
    graph,
    ledger,
    names,
    pids,
    program,
    run,
    seeded,
    star,
    wait_until,
    write,
)
from session import mrcfile, np

CASE = sys.argv[1]
SIZE = {"join": 3, "kills": 20, "classifier": 12, "series": 7}[CASE]
GRIDS = ("watcher", "watcher-b")

JOINED = """\
session: {pixel_size: 6.0}
stages:
  watcher:        {directory: "A"}
  watcher-b:      {program: watcher, directory: "B"}
  lowpass-picker: {from: [watcher, watcher-b], diameter: 130, lowpass: 40, write_png: false}
  extractor:      {from: lowpass-picker, box: 32}
"""

BRANCHES = """\
session: {pixel_size: 6.0}
stages:
  watcher:     {directory: "A"}
  watcher-b:   {program: watcher, directory: "B"}
  picker:      {program: lowpass-picker, from: watcher, diameter: 130, lowpass: 40, write_png: false}
  picker-b:    {program: lowpass-picker, from: watcher-b, diameter: 130, lowpass: 40, write_png: false}
  extractor:   {from: picker, box: 32}
  extractor-b: {program: extractor, from: picker-b, box: 32}
  classifier:  {from: [extractor, extractor-b], classes: 2, diameter: 150, snapshot_interval: 1}
"""

SERIES = """\
stages:
  watcher:            {directory: "A", series: mdoc, settle: 0.5, mdoc_wait: 3}
  watcher-b:          {program: watcher, directory: "B", series: mdoc, settle: 0.5, mdoc_wait: 3}
  tilt-reconstructor: {from: [watcher, watcher-b], thickness: 12, iterations: 2, quiet: 2, tilts_per_series: 7}
"""


def grids(work):
    """Makes two folders with different micrographs under equal names; returns their paths by watcher."""
    found, all_names = {}, names()
    for grid, watcher in enumerate(GRIDS):
        folder = work(f"grid-{grid}")
        os.makedirs(folder)
        for i in range(SIZE):
            shutil.copy2(
                os.path.join(MICROGRAPHS, all_names[grid * SIZE + i]), os.path.join(folder, f"mic_{i:04d}.mrc")
            )
        found[watcher] = folder
    return found


def digests(folder, ending):
    return {
        os.path.relpath(path, folder)[: -len(ending)]: hashlib.sha256(open(path, "rb").read()).hexdigest()
        for path in glob.glob(f"{folder}/*{ending}")
    }


def alone(work, watcher, folder):
    """Returns picks, stacks and number of particles of a grid in a session of its own."""
    session = work(f"alone-{watcher}")
    with Run(graph(work.path, f"{watcher}.yaml", micrographs=folder), session, "--until-idle", "0.5") as live:
        live.finish()
    particles = star(f"{session}/extractor/particles.star")["particles"]
    return (
        digests(f"{session}/lowpass-picker", "_autopick.star"),
        digests(f"{session}/extractor", ".mrcs"),
        len(particles),
    )


def write_graph(work, text, folders):
    path = work("joined.yaml")
    return write(path, text.replace('"A"', f'"{folders["watcher"]}"').replace('"B"', f'"{folders["watcher-b"]}"'))


def expect_whole(session, work, folders):
    """Checks picks, stacks and joined tables of both grids."""
    rows = star(f"{session}/extractor/particles.star")["particles"]
    total = 0
    for watcher, folder in folders.items():
        picks, stacks, count = alone(work, watcher, folder)
        total += count
        check(len(picks) == SIZE, f"{watcher}: {len(picks)} micrographs picked alone")
        check(
            digests(f"{session}/lowpass-picker/{watcher}", "_autopick.star") == picks,
            f"{watcher}: the picks are its own",
        )
        check(digests(f"{session}/extractor/{watcher}", ".mrcs") == stacks, f"{watcher}: the particles are its own")
        own = [row for row in rows if row["rlnImageName"].split("@")[1].startswith(f"extractor/{watcher}/")]
        check(len(own) == count, f"{watcher}: {len(own)} rows in particles.star, {count} alone")
        check(all(row["rlnMicrographName"].startswith(folder) for row in own), f"{watcher}: each names its micrograph")
    check(len({tuple(row.values()) for row in rows}) == len(rows) == total, f"{len(rows)} rows, each once, of {total}")
    joined = next(iter(star(f"{session}/lowpass-picker/autopick.star").values()))
    check(len({row["rlnMicrographName"] for row in joined}) == 2 * SIZE, "autopick.star has all micrographs")
    finished = {stage: done(session, stage) for stage in ("lowpass-picker", "extractor")}
    check(set(finished.values()) == {2 * SIZE}, f"all are done: {finished}")
    keys = {tuple(row) for row in ledger(session, "extractor", "SELECT source, id FROM items WHERE state = 1")}
    check(len(keys) == 2 * SIZE and {key[0] for key in keys} == set(GRIDS), "the ledger has both sources")
    check(run("status", "--session", session).returncode == 0, "the counts add up")


def join(work):
    folders, session = grids(work), work("session")
    with Run(write_graph(work, JOINED, folders), session, "--until-idle", "0.5") as live:
        live.finish()
    expect_whole(session, work, folders)


def kills(work):
    """Kills stages at random moments."""
    folders, session, chance = grids(work), work("session"), seeded(sys.argv[2] if len(sys.argv) > 2 else None)
    path, struck = write_graph(work, JOINED, folders), 0
    with Run(path, session, "--restarts", "1000", "--backoff", "0.05") as live:
        for kill in range(12):
            target = 2 * SIZE * kill // 12
            wait_until(lambda: done(session, "extractor") >= target, 120, f"{target} items done", live)
            time.sleep(chance.uniform(0, 0.05))  # the moment of a fault; the test waits for nothing here
            wait_until(lambda: pids(session), 120, "a stage runs after the kill before", live)
            running = sorted(pids(session).items())
            for _, pid in running if kill % 4 == 3 else chance.sample(running, min(1, len(running))):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    struck += 1
        wait_until(lambda: done(session, "extractor") == 2 * SIZE, 120, "all are done", live)
        live.drain(120)
    check(struck >= 6, f"{struck} processes were killed")  # now and then a stage dies before it is struck
    expect_whole(session, work, folders)


def classifier(work):
    """Two branches into one classifier."""
    folders, session = grids(work), work("session")
    with Run(write_graph(work, BRANCHES, folders), session, "--until-idle", "0.5") as live:
        live.finish()
    newest = max(glob.glob(f"{session}/classifier/run_it*_data.star"))
    extracted = [
        row["rlnImageName"]
        for stage in ("extractor", "extractor-b")
        for row in star(f"{session}/{stage}/particles.star")["particles"]
    ]
    there = [row["rlnImageName"] for row in star(newest)["particles"]]
    total = sum(alone(work, watcher, folder)[2] for watcher, folder in folders.items())
    check(len(extracted) == total, f"{len(extracted)} particles were extracted, {total} alone")
    check(sorted(there) == sorted(extracted), f"{len(there)} particles in classes, of {len(extracted)}, each once")
    check(done(session, "classifier") == 2 * SIZE, "the classifier has had each micrograph of both grids")
    check(run("status", "--session", session).returncode == 0, "the counts add up")


def series(work):
    """Two tilt series of one name into one tilt-reconstructor; a tilt of the second has another size."""
    folders, session = {}, work("session")
    for watcher in GRIDS:
        subprocess.run(
            [program("icestream-simulate-tilts"), "--o", work(watcher), "--size", "32", "--thickness", "12"]
            + ["--from", "-30", "--to", "30", "--step", "10", "--files", "single"],
            check=True,
            capture_output=True,
        )
        folders[watcher] = work(watcher, "tilts")
    odd = os.path.join(folders["watcher-b"], "ts_004_0.0.mrc")
    with mrcfile.open(odd) as file:
        pixel_size = file.voxel_size.x
    with mrcfile.new(odd, np.zeros((48, 48), np.float32), overwrite=True) as file:
        file.voxel_size = pixel_size
    with Run(write_graph(work, SERIES, folders), session, "--until-idle", "2") as live:
        live.finish(3)
    made = {watcher: os.path.exists(f"{session}/tilt-reconstructor/{watcher}/ts.mrc") for watcher in GRIDS}
    check(all(made.values()), f"each source has its tomogram {made}")
    states = "SELECT source, SUM(state = 1), SUM(state = 3) FROM items GROUP BY source ORDER BY source"
    rows = ledger(session, "tilt-reconstructor", states)
    check(rows == [("watcher", 7, 0), ("watcher-b", 6, 1)], f"the odd tilt fails, and not its namesake {rows}")


with Work(f"sources-{CASE}") as work:
    {"join": join, "kills": kills, "classifier": classifier, "series": series}[CASE](work)
    finish()
