#!/usr/bin/env python3
"""The memory of each stage must not grow over 500 small micrographs, after 300 others have filled its caches (SQLite's,
the allocator's, one lane after another)."""

import os
import shutil

from session import Work, check, finish, launch, pids_of, resident_kib, simulate, status, stop, wait_until, write

GRAPH = """\
session: {pixel_size: 6.0}
stages:
  watcher:        {directory: INCOMING}
  lowpass-picker: {from: watcher, diameter: 150, lowpass: 30, angle_step: 20}
  extractor:      {from: lowpass-picker, box: 32}
"""
STAGES = ("watcher", "lowpass-picker", "extractor")

with Work("memory") as work:
    first, count, distinct = 300, 800, 20
    names = simulate(work("sim"), micrographs=distinct, size=256, pixel_size=6.0, particles=8, interval=0, seed=4)
    os.makedirs(work("incoming"))
    for i in range(count):
        # Each micrograph is a copy, because the watcher rightly treats links to one file as duplicates.
        shutil.copyfile(work("sim", "micrographs", names[i % distinct]), work("incoming", f"mic_{i:04d}.mrc"))
    graph = write(work("graph.yaml"), GRAPH.replace("INCOMING", work("incoming")))
    live = launch("run", graph, "--session", work("session"), "--until-idle", "2")
    samples = {stage: [] for stage in STAGES}

    def sample():
        done = status(work("session"))["stages"]["extractor"]["done"]
        for stage in STAGES:
            for pid in pids_of(stage, work("session")):
                samples[stage].append((done, resident_kib(pid)))
        return done >= count or live.poll() is not None

    try:
        wait_until(sample, 300, "all extracted")
        check(live.wait(timeout=60) == 0, "the run ended well")
    finally:
        stop(live)
    for stage in STAGES:
        early = [kib for done, kib in samples[stage] if first <= done <= first + 100]
        late = [kib for done, kib in samples[stage] if count - 100 <= done < count]
        check(bool(early) and bool(late), f"{stage}: {len(early)} early and {len(late)} late samples")
        if early and late:
            growth = max(late) / max(early) - 1
            check(growth <= 0.05, f"{stage}: {max(early)} KiB early, {max(late)} KiB late: {100 * growth:+.1f} %")
    finish()
