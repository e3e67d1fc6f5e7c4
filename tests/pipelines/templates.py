#!/usr/bin/env python3
"""A running session adopts templates that appear in the folder of its classifier, for the micrographs after; a replay of the
session adopts them at the same micrograph, though its classifier makes none."""

import json
import os
import signal

import mrcfile
from session import Work, check, feed, finish, history, launch, run, simulate, star, stop, wait_until, write

FIRST, ALL, COUNT = 5, 9, 4
GRAPH = """\
session: {pixel_size: 4.0}
stages:
  watcher:        {directory: INCOMING, ctf: TRUTH/micrographs_ctf.star}
  lowpass-picker: {from: watcher, diameter: 150, lowpass: 20, write_png: false, templates_from: [classifier]}
  extractor:      {from: lowpass-picker, box: 64}
  classifier:     {from: extractor, diameter: 165, minimum_particles: 100000}
"""


def epochs(session):
    found = []
    for name in names:
        rows = star(f"{session}/lowpass-picker/{name[:-4]}_autopick.star")[""]
        own = {int(row["icestreamPickEpoch"]) for row in rows}
        check(len(own) == 1, f"{session}: {name} has {len(rows)} picks of epochs {own}")
        found.append(max(own, default=-1))
    return found


with Work("templates") as work:
    names = simulate(
        work("sim"), micrographs=ALL, size=512, pixel_size=4.0, particles=60, interval=0, seed=11, carbon=0, snr=0.08,
        contamination=0,
    )
    os.makedirs(work("incoming"))
    graph = write(work("graph.yaml"), GRAPH.replace("INCOMING", work("incoming")).replace("TRUTH", work("sim", "truth")))
    live = launch("run", graph, "--session", work("live"))
    try:
        feed([work("sim", "micrographs", n) for n in names[:FIRST]], work("incoming"), 0)
        log = work("live", "log", "lowpass-picker.0.log")
        picked = [work("live", "lowpass-picker", f"{n[:-4]}_autopick.star") for n in names]
        wait_until(lambda: all(map(os.path.exists, picked[:FIRST])), 60, "the first picks", live)
        # As a classifier would: first the images, then the record.
        with mrcfile.open(work("sim", "truth", "templates.mrcs")) as stack:
            images = stack.data[:COUNT]
        with mrcfile.new(work("live", "classifier", "templates_e001.mrcs")) as file:
            file.set_data(images)
            file.set_image_stack()
            file.voxel_size = 4.0
        record = {
            "v": 1, "epoch": 1, "file": "templates_e001.mrcs", "count": COUNT, "box": 96, "pixel_size": 4.0,
            "particles": 300.0,
            "from": {"stage": "classifier", "iteration": 3, "classes": list(range(1, COUNT + 1))},
        }  # fmt: skip
        write(work("live", "classifier", ".new"), json.dumps(record))
        os.rename(work("live", "classifier", ".new"), work("live", "classifier", "templates.json"))
        wait_until(lambda: "are better" in open(log).read(), 120, "a decision on the templates", live)
        feed([work("sim", "micrographs", n) for n in names[FIRST:]], work("incoming"), 0.5)
        wait_until(lambda: all(map(os.path.exists, picked)), 60, "the other picks", live)
        live.send_signal(signal.SIGINT)  # it finishes what has begun
        check(live.wait(timeout=120) == 0, "live run")
    finally:
        stop(live)
    found, lines = epochs(work("live")), history(work("live"), "lowpass-picker")
    check(found == FIRST * [0] + (ALL - FIRST) * [1], f"epochs {found}")
    check(len(lines) == 1 and lines[0]["adopted"] and lines[0]["source"] == "watcher", f"history {lines}")
    run("replay", work("live"), graph, "--session", work("again"), "--speed", "5", timeout=120)
    again = history(work("again"), "lowpass-picker")
    check(len(again) == 1 and again[0]["item"] == lines[0]["item"], f"history of the replay {again}")
    changed = [i for i, (a, b) in enumerate(zip(found, epochs(work("again")))) if a != b]
    # Micrographs appear at once, so those about the one of the adoption may come in another order.
    check(len(changed) <= 2, f"micrographs with another epoch: {changed}")
    finish()
