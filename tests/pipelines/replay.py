#!/usr/bin/env python3
"""A replay of a recorded session at full speed must give the picks and particles of the live run."""

import os

from session import Work, check, feed, finish, launch, products, run, simulate, status, stop, write

GRAPH = """\
session: {pixel_size: 3.0}
stages:
  watcher:        {directory: INCOMING}
  lowpass-picker: {from: watcher, diameter: 150, lowpass: 20}
  extractor:      {from: lowpass-picker, box: 64}
"""

with Work("replay") as work:
    names = simulate(work("sim"), micrographs=8, size=512, pixel_size=3.0, particles=15, interval=0, seed=5)
    os.makedirs(work("incoming"))
    graph = write(work("graph.yaml"), GRAPH.replace("INCOMING", work("incoming")))
    live = launch("run", graph, "--session", work("live"), "--until-idle", "3")
    feed([work("sim", "micrographs", n) for n in names], work("incoming"), 0.2)
    try:
        check(live.wait(timeout=120) == 0, "live run")
    finally:
        stop(live)
    run("replay", work("live"), graph, "--session", work("again"), "--speed", "max", timeout=120)
    one, two = status(work("live")), status(work("again"))
    for stage in one["stages"]:
        keys = ("seen", "done", "rejected", "failed", "in_flight")
        a, b = ({k: s["stages"][stage][k] for k in keys} for s in (one, two))
        check(a == b and a["done"] == len(names), f"{stage}: live {a}, replay {b}")
    for stage, endings in (("lowpass-picker", "_autopick.star"), ("extractor", (".mrcs", "_extract.star"))):
        a, b = products(work("live"), stage, endings), products(work("again"), stage, endings)
        check(len(a) >= len(names) and a.keys() == b.keys(), f"{stage}: {len(a)} products in both")
        # The folder of the micrographs differs. Their names, coordinates, scores and pixels must not.
        words = [{k: [w.rsplit(b"/", 1)[-1] for w in v.split()] for k, v in s.items()} for s in (a, b)]
        differing = [k for k in a if words[0][k] != words[1][k]]
        check(not differing, f"{stage}: same content ({differing})")
    finish()
