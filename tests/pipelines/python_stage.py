#!/usr/bin/env python3
"""Two stages of others between picker and extractor, in Python: one without the module `icestream`, one with it. Beside
private_postgresql.sh icestream's own stages keep their ledgers in PostgreSQL, and those of others keep files."""

import json
import os
import sqlite3

from session import SOURCE, Work, check, finish, run, simulate, status, write

GRAPH = """\
session: {pixel_size: 4.0}
programs: [FOLDER/stranger.py, FOLDER/sparse.py]
stages:
  watcher:        {directory: INCOMING}
  lowpass-picker: {from: watcher, diameter: 150, lowpass: 20}
  stranger:       {from: lowpass-picker, program: FOLDER/stranger.py}
  sparse:         {from: stranger, program: FOLDER/sparse.py, least: 1}
  extractor:      {from: sparse, box: 48}
"""

with Work("python") as work:
    count = 6
    simulate(work("sim"), micrographs=count, size=512, pixel_size=4.0, particles=12, interval=0, seed=3)
    folder = os.path.realpath(f"{SOURCE}/examples/stage-python")
    graph = write(
        work("graph.yaml"),
        GRAPH.replace("INCOMING", work("sim", "micrographs")).replace("FOLDER", folder),
    )
    if "ICESTREAM_TEST_POSTGRESQL" in os.environ:
        text = open(graph).read().replace("4.0}", f'4.0, ledger: "{os.environ["ICESTREAM_TEST_POSTGRESQL"]}"}}')
        write(graph, text)
    run("run", graph, "--session", work("session"), "--until-idle", "1", timeout=120)
    stages = status(work("session"))["stages"]
    for name in ("watcher", "lowpass-picker", "stranger"):
        counts = stages[name]
        check(counts["done"] == count and counts["failed"] == 0 and counts["in_flight"] == 0, f"{name}: {counts}")

    def items_of(name):
        with sqlite3.connect(f"file:{work('session')}/ledger/{name}.sqlite?mode=ro", uri=True) as ledger:
            return [json.loads(text) for (text,) in ledger.execute("SELECT item FROM items")]

    rich = sum(item["picks"]["count"] >= 1 for item in items_of("lowpass-picker"))
    for name, done, rejected in (("sparse", rich, count - rich), ("extractor", rich, 0)):
        counts = stages[name]
        check((counts["done"], counts["rejected"], counts["failed"]) == (done, rejected, 0), f"{name}: {counts}")
    check(0 < rich, f"{rich} micrographs have particles")
    for item in items_of("extractor"):
        with open(work("session", item["density"]["text"])) as file:
            words = file.read().split()
        area = (512 * 4.0 / 1e4) ** 2
        near = abs(item["columns"]["particlesPerSquareMicrometre"] * area - item["picks"]["count"]) < 1e-6
        check(near and words[0] == str(item["picks"]["count"]), f"{item['id']}: {' '.join(words)}")
    lines = open(f"{folder}/sparse.py").read().count("\n")
    check(lines <= 30, f"the example on the module has {lines} lines")
    finish()
