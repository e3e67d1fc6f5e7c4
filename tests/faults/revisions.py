#!/usr/bin/env python3
"""Micrographs that come again in a later revision, while stages are killed. Each must end as if the later revision alone
had come: its picks, its particles, its rows, and in the classifier nothing of the earlier one.

revisions.py [calm|kills [SEED]]"""

import contextlib
import glob
import hashlib
import json
import os
import shutil
import signal
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
    same_numbers,
    seeded,
    star,
    wait_until,
    write,
)

CASE = sys.argv[1] if len(sys.argv) > 1 else "calm"
COUNT = 6
STAGES = """\
session: {pixel_size: 6.0, inputs: ["INPUTS"]}
programs: ["FEEDER"]
stages:
  feeder:         {program: "FEEDER"}
  lowpass-picker: {from: feeder, diameter: 130, lowpass: 40, write_png: false}
  extractor:      {from: lowpass-picker, box: 32}
  classifier:     {from: extractor, classes: 2, diameter: 150, snapshot_interval: 1, minimum_particles: 10}
"""


def digests(folder, ending):
    return {
        os.path.basename(path)[: -len(ending)]: hashlib.sha256(open(path, "rb").read()).hexdigest()
        for path in glob.glob(f"{folder}/*{ending}")
    }


def products(session):
    return digests(f"{session}/lowpass-picker", "_autopick.star"), digests(f"{session}/extractor", ".mrcs")


def feed(work, batches):
    """Writes the graph and what the source sends; returns the graph's path."""
    feeder = work("feeder.py")
    shutil.copy2(os.path.join(os.path.dirname(os.path.abspath(__file__)), "feeder.py"), feeder)
    os.chmod(feeder, 0o755)
    write(work("feed.json"), json.dumps(batches))
    return write(work("graph.yaml"), STAGES.replace("FEEDER", feeder).replace("INPUTS", work("inputs")))


with Work(f"revisions-{CASE}") as work:
    pictures, session, chance = names(), work("session"), seeded(sys.argv[2] if len(sys.argv) > 2 else None)
    os.makedirs(work("inputs/first"))
    os.makedirs(work("inputs/later"))
    os.makedirs(work("expected"))
    first, later = [], []
    for i in range(COUNT):
        for folder, items, revision, picture in (
            ("first", first, 0, pictures[i]),
            ("later", later, 2, pictures[COUNT + i]),
        ):
            path = work(f"inputs/{folder}/mic_{i}.mrc")
            shutil.copy2(os.path.join(MICROGRAPHS, picture), path)
            items.append([f"mic_{i}", path, revision])
        shutil.copy2(work(f"inputs/later/mic_{i}.mrc" if i % 2 else f"inputs/first/mic_{i}.mrc"), work("expected"))
    later = later[1::2]
    # Every second one comes again. Afterwards the earlier ones come once more, which must change nothing.
    path = feed(work, [first, later, first, later])
    write(work("hold.1"), "")
    with Run(path, session, "--restarts", "1000", "--backoff", "0.05") as live:
        wait_until(lambda: done(session, "classifier") == COUNT, 120, "the classifier has the first revisions", live)
        snapshot = f"{session}/classifier/run_it*_data.star"
        wait_until(lambda: glob.glob(snapshot), 120, "the classifier has counted them", live)
        os.unlink(work("hold.1"))
        for kill in range(10 if CASE == "kills" else 0):
            time.sleep(chance.uniform(0, 0.3))  # the moment of a fault; the test waits for nothing here
            running = sorted(pids(session).items())
            for _, pid in chance.sample(running, min(1, len(running))):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        live.finish(0, 240)
    alone = work("alone")
    with Run(graph(work.path, "alone.yaml", micrographs=work("expected")), alone, "--until-idle", "0.5") as live:
        live.finish()
    (picks, stacks), (expected_picks, expected_stacks) = products(session), products(alone)
    check(len(expected_picks) == COUNT, f"{len(expected_picks)} micrographs picked alone")
    check(picks == expected_picks, "picks are those of the latest revisions")
    check(stacks == expected_stacks, "particles are those of the latest revisions")
    for stage in ("lowpass-picker", "extractor", "classifier"):
        rows = sorted(ledger(session, stage, "SELECT id, revision, state FROM items"))
        check(
            rows == [(f"mic_{i}", 2 * (i % 2), 1) for i in range(COUNT)],
            f"{stage}: each item once, in its revision {rows}",
        )
    extracted = [row["rlnImageName"] for row in star(f"{session}/extractor/particles.star")["particles"]]
    count = len(star(f"{alone}/extractor/particles.star")["particles"])
    check(len(set(extracted)) == len(extracted) == count, f"{len(extracted)} rows in particles.star, {count} alone")
    newest = max(glob.glob(f"{session}/classifier/run_it*_data.star"))
    there = [row["rlnImageName"] for row in star(newest)["particles"]]
    check(sorted(there) == sorted(extracted), f"{len(there)} particles in classes, each once")
    if CASE == "calm":
        out = open(f"{session}/log/classifier.0.log").read()
        check("came in a later revision" in out, "the classifier began again from its ledger")
    same_numbers(session)
    finish()
