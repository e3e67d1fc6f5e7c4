#!/usr/bin/env python3
"""A third-party stage in Python between picker and extractor."""

import os

from session import SOURCE, Work, check, finish, run, simulate, status, write

GRAPH = """\
session: {pixel_size: 4.0}
programs: [PROGRAM]
stages:
  watcher:        {directory: INCOMING}
  lowpass-picker: {from: watcher, diameter: 150, lowpass: 20}
  stranger:       {from: lowpass-picker, program: PROGRAM}
  extractor:      {from: stranger, box: 48}
"""

with Work("python") as work:
    count = 6
    simulate(work("sim"), micrographs=count, size=512, pixel_size=4.0, particles=12, interval=0, seed=3)
    stage = next(
        os.path.join(f, n)
        for f, _, names in os.walk(f"{SOURCE}/examples/stage-python")
        for n in names
        if n.endswith(".py")
    )
    graph = write(
        work("graph.yaml"),
        GRAPH.replace("INCOMING", work("sim", "micrographs")).replace("PROGRAM", os.path.abspath(stage)),
    )
    run("run", graph, "--session", work("session"), "--until-idle", "1", timeout=120)
    stages = status(work("session"))["stages"]
    for name in ("watcher", "lowpass-picker", "stranger", "extractor"):
        counts = stages[name]
        check(counts["done"] == count and counts["failed"] == 0 and counts["in_flight"] == 0, f"{name}: {counts}")
    finish()
