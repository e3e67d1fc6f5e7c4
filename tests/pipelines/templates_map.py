#!/usr/bin/env python3
"""A running session refines a map of particles that were picked without templates. The refiner writes projections of the map,
the picker adopts them, though its classifier makes no templates, and picks the earlier micrographs again. One in
twenty keeps its first picks, and is not picked again."""

import contextlib
import os
import sqlite3

import mrcfile
import numpy as np
from session import Work, check, feed, finish, history, keeps_first_picks, launch, simulate, star, stop, wait_until, write

COUNT = 24
GRAPH = """\
session: {pixel_size: 4.0}
stages:
  watcher:        {directory: INCOMING, ctf: TRUTH/micrographs_ctf.star}
  lowpass-picker: {from: watcher, diameter: 150, lowpass: 20, write_png: false, templates_from: [classifier, refiner]}
  extractor:      {from: lowpass-picker, box: 64}
  classifier:     {from: extractor, diameter: 165, minimum_particles: 100000}
  refiner:        {from: extractor, reference: TRUTH/reference.mrc, diameter: 150, healpix_order: 1, live_order: 2,
                   max_iterations: 2, min_particles: 200}
"""


def revisions(session):
    """Returns {id: revision} of the picker."""
    path = f"file:{session}/ledger/lowpass-picker.sqlite?mode=ro"
    with contextlib.closing(sqlite3.connect(path, uri=True)) as ledger:
        return dict(ledger.execute("SELECT id, revision FROM items WHERE state = 1"))


def picked_by_the_map(session):
    """Returns how many micrographs are picked by the first adopted templates, all the way to the refiner."""
    path = f"file:{session}/ledger/refiner.sqlite?mode=ro"
    query = "SELECT COUNT(*) FROM items WHERE state = 1 AND json_extract(item, '$.columns.icestreamPickEpoch') >= 1"
    with contextlib.closing(sqlite3.connect(path, uri=True)) as ledger:
        return ledger.execute(query).fetchone()[0]


with Work("templates-map") as work:
    names = simulate(
        work("sim"), micrographs=COUNT, size=512, pixel_size=4.0, particles=60, interval=0, seed=11, carbon=0, snr=0.1,
        contamination=0,
    )  # fmt: skip
    os.makedirs(work("incoming"))
    graph = write(work("graph.yaml"), GRAPH.replace("INCOMING", work("incoming")).replace("TRUTH", work("sim", "truth")))
    session = work("session")
    kept = [n for n in names if keeps_first_picks(n[:-4])]
    check(len(kept) == 3, f"kept {kept}")
    live = launch("run", graph, "--session", session)
    try:
        feed([work("sim", "micrographs", n) for n in names], work("incoming"), 0)
        wait_until(lambda: os.path.exists(f"{session}/refiner/templates.json"), 240, "templates of the map", live)
        wait_until(lambda: os.path.exists(f"{session}/refiner/history.jsonl"), 60, "a map", live)
        wait_until(lambda: picked_by_the_map(session) == COUNT - len(kept), 400, "all micrographs are picked again", live)
    finally:  # the last refinement is not under test
        stop(live)
    adopted = [line for line in history(session, "lowpass-picker") if line["adopted"]]
    check([line["from"]["stage"] for line in adopted][:1] == ["refiner"], f"adopted {adopted}")
    with mrcfile.open(f"{session}/lowpass-picker/templates_e001.mrcs") as stack:
        images, pixel = stack.data, float(stack.voxel_size.x)
    check(images.shape[0] == 48 and abs(images.shape[1] * pixel - 256) < 1, f"{images.shape} of {pixel} Å")
    spectra = np.abs(np.fft.fft2(images)) ** 2
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(images.shape[1], pixel), np.fft.fftfreq(images.shape[1], pixel)))
    beyond = spectra[:, frequency > 1 / 16].sum() / spectra.sum()
    check(beyond < 1e-2, f"{beyond:.1e} of the templates lies beyond 16 Å")
    for name in names:
        rows = star(f"{session}/lowpass-picker/{name[:-4]}_autopick.star")[""]
        epochs = {int(row["icestreamPickEpoch"]) for row in rows}
        check(epochs == {0} if name in kept else min(epochs) >= 1, f"{name}: {len(rows)} picks of epochs {epochs}")
    check(all(revisions(session)[name[:-4]] == 0 for name in kept), f"{kept} are not picked again")
    finish()
