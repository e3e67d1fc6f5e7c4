#!/usr/bin/env python3
"""`icestream redo`: items of a session are made again with other parameters. The outcome must be that of a session that
had these parameters from the beginning, and no selection may hold two revisions of a micrograph, wherever processes are
killed.

redo.py [calm|kills [SEED]]"""

import contextlib
import glob
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

from faults import (
    Run,
    Work,
    arrive,
    check,
    done,
    finish,
    graph,
    ledger,
    names,
    pids,
    program,
    read_products,
    run,
    same_numbers,
    seeded,
    star,
    wait_until,
)

CASE = sys.argv[1] if len(sys.argv) > 1 else "calm"
COUNT = 5
STAGES = ("lowpass-picker", "extractor", "classifier")
CLASSIFIER = """\
  classifier: {from: extractor, classes: 2, diameter: 150, snapshot_interval: 1, minimum_particles: 10}
"""


def rows(session, stage):
    """Returns {id: (revision, state)} of a stage."""
    return {row[0]: row[1:] for row in ledger(session, stage, "SELECT id, revision, state FROM items")}


def products(session, folder):
    ways = (("lowpass-picker", "_autopick.star"), ("extractor", ".mrcs"))
    return [read_products(session, stage, ending, folder) for stage, ending in ways]


def images(path):
    return [row["rlnImageName"] for row in star(path)["particles"]]


def once(session, text):
    """Checks that no selection holds a particle, and so a micrograph, twice. Returns the last selection's particles."""
    snapshots = sorted(glob.glob(f"{session}/classifier/run_it*_data.star"))
    for path in snapshots:
        there = images(path)
        check(len(set(there)) == len(there), f"{text}: {len(there)} particles in {os.path.basename(path)}, each once")
    return sorted(images(snapshots[-1]))


def all_are(session, revision):
    return all(
        len(known) == COUNT and all(row[0] >= revision and row[1] != 0 for row in known.values())
        for known in (rows(session, stage) for stage in STAGES)
    )


with Work(f"redo-{CASE}") as work:
    session, folder, chance = work("session"), work("inputs"), seeded(sys.argv[2] if len(sys.argv) > 2 else None)
    arrive(names()[:COUNT], folder)
    path = graph(work.path, micrographs=folder, more=CLASSIFIER)
    options = ("--restarts", "1000", "--backoff", "0.05")
    with Run(path, session, *options) as live:
        wait_until(lambda: done(session, "classifier") == COUNT, 120, "the classifier has all items", live)
        snapshot = f"{session}/classifier/run_it*_data.star"
        wait_until(lambda: glob.glob(snapshot), 120, "the classifier has counted them", live)
        run("set", "--session", session, "lowpass-picker.lowpass=50")
        if CASE == "calm":
            out = run("redo", "--session", session).stdout
            check(f"lowpass-picker: {COUNT} items go through again" in out, f"redo says: {out.strip()}")
            wait_until(lambda: all_are(session, 1), 240, "all items are there in their later revision", live)
            live.drain(240)
    if CASE == "kills":
        # The redo, stages and the launcher die, one after the other; what was asked for is not lost.
        run("redo", "--session", session)
        for turn in range(3):
            with Run(path, session, *options, "--until-idle", "2") as live:
                wait_until(lambda: pids(session) or live.poll() is not None, 60, "stages run", live)
                with subprocess.Popen([program("icestream"), "redo", "--session", session]) as again:
                    for kill in range(4):
                        time.sleep(chance.uniform(0, 0.4))  # the moment of a fault; the test waits for nothing here
                        for _, pid in chance.sample(sorted(pids(session).items()), 1 if pids(session) else 0):
                            with contextlib.suppress(ProcessLookupError):
                                os.kill(pid, signal.SIGKILL)
                    again.kill()
                live.kill()
            if glob.glob(f"{session}/classifier/run_it*_data.star"):
                once(session, f"after kill {turn}")
        with Run(path, session, *options, "--until-idle", "1") as live:
            live.finish(0, 240)
    check(all_are(session, 1), f"each item is there once, in a later revision {rows(session, 'classifier')}")
    alone = work("alone")
    other = graph(work.path, "alone.yaml", micrographs=folder)
    with open(other) as text:
        changed = text.read().replace("lowpass: 40", "lowpass: 50")
    with open(other, "w") as text:
        text.write(changed)
    with Run(other, alone, "--until-idle", "0.5") as live:
        live.finish()
    check(products(session, folder) == products(alone, folder), "picks and particles are those of the present parameters")
    extracted = images(f"{session}/extractor/particles.star")
    check(sorted(extracted) == sorted(images(f"{alone}/extractor/particles.star")), "so is the table of particles")
    check(once(session, "in the end") == sorted(extracted), "the classes hold these particles")

    if CASE == "calm":
        # A stage that rejects what it had done takes it out of the stages behind it.
        sizes = dict(ledger(session, "extractor", "SELECT id, json_extract(item, '$.picks.count') FROM items"))
        limit = sorted(set(sizes.values()))[-2]  # some have more, whichever counts the picker finds
        left = {item for item, size in sizes.items() if size > limit}
        check(0 < len(left) < COUNT, f"{len(left)} of {COUNT} micrographs have more than {limit} picks")
        run("set", "--session", session, f"extractor.reject_if=picks.count > {limit}")
        out = run("redo", "--session", session, "--stage", "extractor").stdout
        check("run the session again" in out, "redo says that the session must run")
        # The extractor has died with one of them in hand: it holds the later revision, and has not sent it on.
        query = "SELECT MAX(json_extract(item, '$.revision')) FROM outbox WHERE id = ?"
        revision = ledger(session, "lowpass-picker", query, sorted(left)[0])[0][0]
        with contextlib.closing(sqlite3.connect(f"{session}/ledger/extractor.sqlite")) as connection, connection:
            change = "UPDATE items SET state = 0, revision = ?, instance = 0, token = 'dead' WHERE id = ?"
            connection.execute(change, (revision, sorted(left)[0]))
        with Run(path, session, *options, "--until-idle", "1") as live:
            live.finish(0, 240)
        states = {item: row[1] for item, row in rows(session, "classifier").items()}
        check(states == {item: 2 if item in left else 1 for item in sizes}, f"the classifier gives them up: {states}")
        stay = [name for name in extracted if os.path.basename(name)[: -len(".mrcs")] not in left]
        check(once(session, "after a rejection") == sorted(stay), "their particles are in no class")
        check(rows(session, "lowpass-picker") != rows(session, "extractor"), "the picker's items stay as they were")

        same_numbers(session)

        # Redo tells of items that are on their way already, and of those that failed.
        item = sorted(left)[0]
        with contextlib.closing(sqlite3.connect(f"{session}/ledger/extractor.sqlite")) as connection, connection:
            connection.execute("UPDATE items SET state = 3, reason = 'made to fail' WHERE id = ?", (item,))
        out = run("redo", "--session", session, "--stage", "extractor", item).stdout
        check("1 failed, and `icestream retry" in out, f"redo says what takes a failed item: {out.strip()}")
        for expected in ("1 item goes through again", "1 is on its way to the stage already"):
            out = run("redo", "--session", session, stay[0].split("/")[-1][: -len(".mrcs")]).stdout
            check(expected in out and "run the session again" in out, f"redo of an item: {out.strip()}")

        # An item that comes from far before is not overtaken by the one that the stage had.
        out = run("redo", "--session", session, "--stage", "classifier", stay[0].split("/")[-1][: -len(".mrcs")]).stdout
        check("classifier: 0 items" in out and "1 is on its way" in out, f"redo overtakes nothing: {out.strip()}")

        # Items that cannot be made again are refused by name.
        result = run("redo", "--session", session, "--stage", "watcher", expect=2)
        check("watcher is a source" in result.stderr, f"a source is refused: {result.stderr.strip()}")
        plan = json.load(open(f"{session}/log/plan.json"))
        for stage in plan["stages"]:
            stage["revisions"] = stage["name"] != "extractor"
        with open(f"{session}/log/plan.json", "w") as text:
            json.dump(plan, text)
        result = run("redo", "--session", session, "--stage", "extractor", expect=2)
        check("extractor does not take later revisions" in result.stderr, result.stderr.strip())
        result = run("redo", "--session", session, names()[0][:-4])
        check("warning: extractor does not take later revisions" in result.stderr, "redo says what stays as it was")
    same_numbers(session)
    finish()
