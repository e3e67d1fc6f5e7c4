#!/usr/bin/env python3
"""A running session adopts templates that appear in the folder of its classifier, for the micrographs after, and picks
the earlier ones again, but for one in twenty that keeps its first picks; a replay of the session does the same, though its
classifier makes none."""

import contextlib
import json
import os
import signal
import sqlite3

import mrcfile
from session import (
    Work, check, feed, finish, history, keeps_first_picks, launch, run, simulate, star, status, stop, wait_until, write,
)  # fmt: skip

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


def picks(session):
    return [star(f"{session}/lowpass-picker/{name[:-4]}_autopick.star")[""] for name in names]


def items(session, stage):
    """Returns {id: revision} of the items that are done."""
    with contextlib.closing(sqlite3.connect(f"file:{session}/ledger/{stage}.sqlite?mode=ro", uri=True)) as ledger:
        return dict(ledger.execute("SELECT id, revision FROM items WHERE state = 1"))


def all_are(session, count):
    """Whether the last stage has so many items in a later revision."""
    return sum(revision > 0 for revision in items(session, "classifier").values()) == count


with Work("templates") as work:
    names = simulate(
        work("sim"), micrographs=ALL, size=512, pixel_size=4.0, particles=60, interval=0, seed=11, carbon=0, snr=0.08,
        contamination=0,
    )
    kept = [keeps_first_picks(n[:-4]) for n in names]
    check(sum(kept[:FIRST]) == sum(kept) == 1, f"kept {kept}")
    os.makedirs(work("incoming"))
    graph = write(work("graph.yaml"), GRAPH.replace("INCOMING", work("incoming")).replace("TRUTH", work("sim", "truth")))
    live = launch("run", graph, "--session", work("live"))
    try:
        feed([work("sim", "micrographs", n) for n in names[:FIRST]], work("incoming"), 0)
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
        # Nothing comes meanwhile: the picker adopts by itself, and picks the earlier micrographs again.
        wait_until(lambda: all_are(work("live"), FIRST - 1), 120, "the first micrographs are picked again", live)
        feed([work("sim", "micrographs", n) for n in names[FIRST:]], work("incoming"), 0.5)
        wait_until(lambda: all(map(os.path.exists, picked)), 60, "the other picks", live)
        live.send_signal(signal.SIGINT)  # it finishes what has begun
        check(live.wait(timeout=120) == 0, "live run")
    finally:
        stop(live)
    found, lines = epochs(work("live")), history(work("live"), "lowpass-picker")
    check(found == [int(not one) for one in kept], f"epochs {found}")
    check(len(lines) == 1 and lines[0]["adopted"] and lines[0]["source"] == "watcher", f"history {lines}")
    check(lines[0]["item"] in [n[:-4] for n in names[:FIRST]] and lines[0]["after_item"], f"adopted after {lines[0]['item']}")
    revisions = [items(work("live"), stage) for stage in ("lowpass-picker", "extractor", "classifier")]
    check(all(kept == revisions[0] for kept in revisions), f"revisions {revisions}")
    expected = [int(i < FIRST and not kept[i]) for i in range(ALL)]
    check([revisions[0][n[:-4]] for n in names] == expected, f"revisions {revisions[0]}")
    rows = star(work("live", "extractor", "particles.star"))["particles"]
    places = {(row["rlnMicrographName"], row["rlnCoordinateX"], row["rlnCoordinateY"]) for row in rows}
    check(len(places) == len(rows) > 0, f"{len(rows)} particles at {len(places)} places")
    changed = {n for n, one in zip(names, kept) if not one}
    second = {os.path.basename(row["rlnMicrographName"]) for row in rows if "_epoch001.mrcs" in row["rlnImageName"]}
    first = {os.path.basename(row["rlnMicrographName"]) for row in rows if "_epoch001.mrcs" not in row["rlnImageName"]}
    check(second == changed and first == set(names) - changed, f"second picks: {sorted(second)}, first: {sorted(first)}")
    log = open(work("live", "log", "icestream.log")).read()
    check("has made all earlier items again" in log, "the launcher says when all are picked again")
    check(status(work("live")).get("warnings", []) == [], f"warnings {status(work('live')).get('warnings')}")

    run("replay", work("live"), graph, "--session", work("again"), "--speed", "5", timeout=120)
    again = history(work("again"), "lowpass-picker")
    check(len(again) == 1 and again[0]["item"] == lines[0]["item"], f"history of the replay {again}")
    check(picks(work("again")) == picks(work("live")), "the replay ends with the same picks")
    finish()
