#!/usr/bin/env python3
"""The picker adopts templates of the session and picks the earlier micrographs again, while a classifier and a refiner work
on their particles. No selection may hold two revisions of a micrograph, wherever processes are killed; in the end all
particles are those of the second picks, but for a micrograph that keeps its first ones, and those that lie where one of
the former lay are still in its half.

picked_again.py [calm|kills [SEED]]"""

import contextlib
import glob
import json
import math
import os
import re
import signal
import sys
import time

import mrcfile
from faults import Run, Work, check, done, finish, ledger, pids, program, run, seeded, simulate, star, wait_until, write

CASE = sys.argv[1] if len(sys.argv) > 1 else "calm"
COUNT, TEMPLATES, DIAMETER, PIXEL = 6, 4, 150, 4.0
KEPT = {"mic_00003"}  # the one that keeps its first picks (again_spares of common/harness/again.h)
# `maker` makes no classes: the test writes its templates.
GRAPH = """\
session: {pixel_size: 4.0}
programs: ["CLASSIFIER"]
stages:
  watcher:        {directory: INCOMING, ctf: TRUTH/micrographs_ctf.star}
  lowpass-picker: {from: watcher, diameter: 150, lowpass: 20, write_png: false, templates_from: [maker]}
  extractor:      {from: lowpass-picker, box: 64, downscale_to: 32}
  maker:          {program: "CLASSIFIER", from: extractor, diameter: 165, minimum_particles: 100000}
  classifier:     {from: extractor, classes: 4, diameter: 165, snapshot_interval: 1, minimum_particles: 50, keep: all}
  refiner:        {from: classifier, reference: TRUTH/reference.mrc, diameter: 150, healpix_order: 1, live_order: 1,
                   max_iterations: 2, min_particles: 50, keep_iterations: 100}
"""
STAGES = ("lowpass-picker", "extractor", "classifier")


def put_templates(session, truth):
    """Writes what a classifier would: first the images, then the record."""
    folder = f"{session}/maker"
    with mrcfile.open(f"{truth}/templates.mrcs") as stack:
        images = stack.data[:TEMPLATES]
    with mrcfile.new(f"{folder}/templates_e001.mrcs") as file:
        file.set_data(images)
        file.set_image_stack()
        file.voxel_size = PIXEL
    record = {
        "v": 1, "epoch": 1, "file": "templates_e001.mrcs", "count": TEMPLATES, "box": 96, "pixel_size": PIXEL,
        "particles": 300.0, "from": {"stage": "maker", "iteration": 3, "classes": list(range(1, TEMPLATES + 1))},
    }  # fmt: skip
    write(f"{folder}/.new", json.dumps(record))
    os.rename(f"{folder}/.new", f"{folder}/templates.json")


def epoch_of(image):
    """Returns the micrograph and the epoch of the picks of an image's name."""
    found = re.fullmatch(r"\d+@.*/(mic_\d+)(?:_epoch(\d+))?\.mrcs", image)
    return found[1], int(found[2] or 0)


def particles(path):
    rows = star(path)["particles"]
    images = [row["rlnImageName"] for row in rows]
    check(len(set(images)) == len(images), f"{len(images)} particles in {os.path.basename(path)}, each once")
    epochs = {}
    for image in images:
        micrograph, epoch = epoch_of(image)
        epochs.setdefault(micrograph, set()).add(epoch)
    check(all(len(own) == 1 for own in epochs.values()), f"{os.path.basename(path)}: one revision of each micrograph")
    return rows


def epochs_of(rows):
    """Returns the epochs of the picks of all micrographs but those that keep their first."""
    found = [epoch_of(row["rlnImageName"]) for row in rows]
    check({epoch for micrograph, epoch in found if micrograph in KEPT} == {0}, f"{KEPT} has its first picks")
    return {epoch for micrograph, epoch in found if micrograph not in KEPT}


def place(row):
    return float(row["rlnCoordinateX"]), float(row["rlnCoordinateY"])


def check_selections(session, text):
    for stage, pattern in (("classifier", "selected_it*.star"), ("classifier", "run_it*_data.star")):
        for path in sorted(glob.glob(f"{session}/{stage}/{pattern}")):
            with contextlib.suppress(FileNotFoundError):  # the classifier removes its older files
                particles(path)
    print(f"      {text}", flush=True)


def check_halves(session):
    """Checks that each particle of the second picks is in the half of the one in whose place it lies."""
    before, kept, wrong = {}, 0, []
    for path in sorted(glob.glob(f"{session}/refiner/run_it*_data.star")):
        for row in particles(path):
            micrograph, epoch = epoch_of(row["rlnImageName"])
            if epoch == 0:
                before.setdefault(micrograph, {})[place(row)] = row["rlnRandomSubset"]
                continue
            near = [
                (math.dist(place(row), other), half)
                for other, half in before.get(micrograph, {}).items()
                if math.dist(place(row), other) * PIXEL <= 0.19 * DIAMETER
            ]
            if near:
                kept += 1
                if min(near)[1] != row["rlnRandomSubset"]:
                    wrong.append(row["rlnImageName"])
    check(kept >= 50, f"{kept} times a particle of the second picks lies where a former one lay")
    check(not wrong, f"all are in its half: {wrong[:5]}")


def newest(session):
    """Whether each stage has all items in the revision of the second picks."""
    query = "SELECT id FROM items WHERE state = 1 AND json_extract(item, '$.columns.icestreamPickEpoch') = 1"
    return all(len(ledger(session, stage, query)) == COUNT - len(KEPT) for stage in STAGES)


with Work(f"picked-again-{CASE}") as work:
    session, chance = work("session"), seeded(sys.argv[2] if len(sys.argv) > 2 else None)
    simulate(
        work("sim"), micrographs=COUNT, size=512, pixel_size=PIXEL, particles=60, interval=0, seed=11, carbon=0, snr=0.08,
        contamination=0,
    )  # fmt: skip
    text = GRAPH.replace("INCOMING", work("sim", "micrographs")).replace("TRUTH", work("sim", "truth"))
    text = text.replace("CLASSIFIER", os.path.realpath(program("icestream-classifier")))
    path = write(work("graph.yaml"), text)
    options = ("--restarts", "1000", "--backoff", "0.05")
    with Run(path, session, *options) as live:
        wait_until(lambda: done(session, "classifier") == COUNT, 120, "the classifier has all items", live)
        wait_until(lambda: glob.glob(f"{session}/refiner/run_it*_data.star"), 200, "the refiner has a map", live)
        put_templates(session, work("sim", "truth"))
        if CASE == "calm":
            wait_until(lambda: newest(session), 240, "all micrographs are picked again", live)
            live.drain(300)
    if CASE == "kills":
        for turn in range(3):
            with Run(path, session, *options) as live:
                wait_until(lambda: pids(session), 60, "stages run", live)
                for kill in range(6):
                    time.sleep(chance.uniform(0, 2))  # the moment of a fault; the test waits for nothing here
                    for _, pid in chance.sample(sorted(pids(session).items()), 1 if pids(session) else 0):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                live.kill()
            check_selections(session, f"after round {turn}")
        with Run(path, session, *options) as live:
            wait_until(lambda: newest(session), 240, "all micrographs are picked again", live)
            live.drain(300)
    check_selections(session, "in the end")
    last = particles(f"{session}/classifier/latest_selected.star")
    check(epochs_of(last) == {1}, f"{len(last)} particles are of the second picks")
    extracted = star(f"{session}/extractor/particles.star")["particles"]
    places = {(row["rlnMicrographName"], *place(row)) for row in extracted}
    check(len(places) == len(extracted) > 0, f"{len(extracted)} particles at {len(places)} places")
    check({row["rlnImageName"] for row in last} <= {row["rlnImageName"] for row in extracted}, "the extractor's")
    final = particles(f"{session}/refiner/run_data.star")
    check(epochs_of(final) == {1}, f"{len(final)} particles make the map")
    check_halves(session)
    verified = run("verify", "--session", session).stdout
    check(" missing" not in verified, f"verify: {verified.splitlines()[-1]}")
    check("unknown    extractor" not in verified, "the ledger knows the particles of the first picks")
    finish()
