#!/usr/bin/python3
"""Measures how much later particles reach their classes because the refiner makes a first map meanwhile.

  first_map_delay.py [--micrographs 60] [--interval 5] [--particles 60] [--symmetry C1] [--gpu]

Simulated micrographs come into a watched folder, one in each interval: once into a session without a refiner, once into one
whose refiner has no reference, and so tries to make one at 1,000, 2,000 … particles. Prints the times from a file's arrival
until the classifier has finished its particles: median, 99th percentile, most, in seconds; and the refiner's attempts."""

import argparse
import contextlib
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../pipelines"))
from session import feed, history, launch, simulate, stop, wait_until, write  # noqa: E402

GRAPH = """\
session: {pixel_size: 4.0}
stages:
  watcher:        {directory: INCOMING, ctf: TRUTH/micrographs_ctf.star}
  lowpass-picker: {from: watcher, diameter: 150, lowpass: 20, write_png: falseGPU}
  extractor:      {from: lowpass-picker, box: 64}
  classifier:     {from: extractor, diameter: 165GPU}
"""
REFINER = "  refiner:        {from: classifier, diameter: 165, symmetry: SYMMETRYGPU}\n"


def finished(session):
    """Returns when the classifier finished each micrograph."""
    with contextlib.closing(sqlite3.connect(f"file:{session}/ledger/classifier.sqlite?mode=ro", uri=True)) as ledger:
        return dict(ledger.execute("SELECT id, time_changed FROM items WHERE state = 1"))


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def play(name, text, names, options, folder):
    incoming, session = f"{folder}/{name}_incoming", f"{folder}/{name}"
    os.makedirs(incoming)
    text = text.replace("INCOMING", incoming).replace("TRUTH", f"{folder}/sim/truth").replace("SYMMETRY", options.symmetry)
    graph = write(f"{folder}/{name}.yaml", text.replace("GPU", ", gpu: 0" if options.gpu else ""))
    live = launch("run", graph, "--session", session, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        files = feed([f"{folder}/sim/micrographs/{one}" for one in names], incoming, options.interval)
        wait_until(lambda: files.finished, 60 + 2 * options.interval * len(names), "all files", live)
        wait_until(lambda: len(finished(session)) == len(names), 300, "all classes", live)
        done = finished(session)
        tried = history(session, "refiner") if os.path.exists(f"{session}/refiner/history.jsonl") else []
        decision = f"{session}/refiner/initial_model.json"
        if os.path.exists(decision):
            with open(decision, encoding="utf-8") as file:
                tried.append(json.load(file))
    finally:
        with contextlib.suppress(ProcessLookupError):
            live.send_signal(signal.SIGINT)
        stop(live)
    came = {os.path.splitext(one)[0]: when for one, when in zip(names, files.arrived)}
    late = [when - came[one] for one, when in done.items()]
    print(f"| {name} | {statistics.median(late):.2f} | {percentile(late, 0.99):.2f} | {max(late):.2f} |", flush=True)
    return tried


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--micrographs", type=int, default=60)
    parser.add_argument("--particles", type=int, default=60, help="on each")
    parser.add_argument("--interval", type=float, default=5, help="seconds")
    parser.add_argument("--symmetry", default="C1")
    parser.add_argument("--gpu", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        names = simulate(
            f"{folder}/sim", micrographs=options.micrographs, size=1024, pixel_size=4.0, particles=options.particles,
            interval=0, seed=11, snr=0.2,
        )  # fmt: skip
        print("| session | median | 99 % | most |\n|---|---|---|---|")
        play("without-refiner", GRAPH, names, options, folder)
        for line in play("first-map", GRAPH + REFINER, names, options, folder):
            print({key: line[key] for key in ("event", "accepted", "particles", "seconds", "text") if key in line})


main()
