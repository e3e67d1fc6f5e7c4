#!/usr/bin/env python3
"""Sends kill -9 to every stage, to one of several replicas, to all at once and to the launcher, at random times of one
run. The run must end like an undisturbed one. Acknowledged items must never be touched again.

kills.py [ROUNDS [SEED]]: this many runs of 50 kills"""

import glob
import os
import signal
import sys
import time

from faults import (
    COUNT,
    Run,
    STAGES,
    Work,
    arrive,
    calm,
    check,
    done,
    finish,
    graph,
    ledger,
    names,
    outcome,
    pids,
    same,
    same_numbers,
    seeded,
    star,
    wait_until,
    whole,
)

KILLS = 50
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
PRODUCTS = {"lowpass-picker": "_autopick.star", "extractor": "_extract.star"}
CHAIN = (*STAGES, "classifier")
CLASSIFIER = "  classifier: {from: extractor, classes: 2, diameter: 150, snapshot_interval: 1}\n"
VICTIMS = (
    "watcher.0",
    "lowpass-picker.0",
    "lowpass-picker.1",
    "extractor.0",
    "extractor.1",
    "classifier.0",
    "all stages",
    "launcher",
)
OPTIONS = ("--restarts", "1000", "--backoff", "0.05")


def fingerprint(session, stage, item):
    """Returns a value that changes when a product is written again, even with the same bytes."""
    path = f"{session}/{stage}/{item}{PRODUCTS.get(stage)}"
    if not os.path.exists(path):  # a micrograph without picks has no particles
        return None
    state = os.stat(path)
    return state.st_ino, state.st_mtime_ns


def remember(session, acknowledged):
    """Adds the items that are acknowledged by now: number of attempts, time of the last change, and the product's
    fingerprint."""
    for sender, stage in zip(CHAIN, CHAIN[1:]):
        told = {row[0] for row in ledger(session, sender, "SELECT id FROM outbox WHERE acknowledged IS NOT NULL")}
        rows = ledger(session, stage, "SELECT id, attempts, time_changed FROM items WHERE state = 1")
        for item, attempts, changed in rows:
            if item in told and (stage, item) not in acknowledged:
                acknowledged[stage, item] = (attempts, changed, fingerprint(session, stage, item))


def touched(session, acknowledged):
    """Returns the remembered items that were attempted, changed or written again since."""
    now = {}
    for stage in CHAIN[1:]:
        for item, attempts, changed in ledger(session, stage, "SELECT id, attempts, time_changed FROM items"):
            now[stage, item] = (attempts, changed, fingerprint(session, stage, item))
    return [(key, before, now.get(key)) for key, before in acknowledged.items() if now.get(key) != before]


def strike(live, session, victim):
    """Kills. Returns whether there was a process to kill."""
    if victim == "launcher":
        live.kill()
        return True
    running = pids(session)
    targets = list(running.values()) if victim == "all stages" else [running[victim]] if victim in running else []
    for pid in targets:
        os.kill(pid, signal.SIGKILL)
    return bool(targets)


def classified(session):
    """Checks that a cumulative stage has each particle once."""
    newest = max(glob.glob(f"{session}/classifier/run_it*_data.star"))
    extracted, there = (
        [row["rlnImageName"] for row in star(path)["particles"]]
        for path in (f"{session}/extractor/particles.star", newest)
    )
    check(done(session, "classifier") == COUNT, "the classifier has had each micrograph")
    check(sorted(there) == sorted(extracted), f"{len(there)} particles in classes, of {len(extracted)}, each once")


def one_round(work, chance, number):
    incoming, session = work(f"incoming-{number}"), work(f"session-{number}")
    os.makedirs(incoming)
    path = graph(work.path, micrographs=incoming, picker="replicas: 2", extractor="replicas: 2", more=CLASSIFIER)
    waiting, acknowledged, struck = names(), {}, dict.fromkeys(VICTIMS, 0)
    live = Run(path, session, *OPTIONS)
    try:
        for kill in range(KILLS):
            more = COUNT * (kill + 1) // KILLS - COUNT * kill // KILLS
            arrive([waiting.pop(0) for _ in range(more)], incoming)
            # Waits for some point in the middle of the work: a few items later, and a moment more.
            target = min(COUNT - len(waiting), done(session, "extractor") + chance.randrange(4))
            wait_until(
                lambda: done(session, "extractor") >= target, 60, f"{target} items done before kill {kill}", live
            )
            time.sleep(chance.uniform(0, 0.05))  # the moment of a fault; the test waits for nothing here
            remember(session, acknowledged)
            # First each kind of kill in turn, so that all occur, then random ones.
            victim = VICTIMS[kill] if kill < len(VICTIMS) else chance.choice(VICTIMS)
            wait_until(lambda: strike(live, session, victim), 60, f"{victim} runs, to be killed")
            struck[victim] += 1
            if victim == "launcher":
                live = Run(path, session, *OPTIONS)
        remember(session, acknowledged)
        wait_until(lambda: done(session, "extractor") == COUNT, 100, "all are done", live)
        live.drain()
    finally:
        live.__exit__(*sys.exc_info())
    print(f"killed: {struck}")
    same(calm(), outcome(session, incoming))
    whole(session)
    same_numbers(session)
    again = touched(session, acknowledged)
    check(not again, f"of {len(acknowledged)} items acknowledged before a kill none was touched again {again[:2]}")
    classified(session)
    attempts = {s: ledger(session, s, "SELECT SUM(attempts - 1), MAX(attempts) FROM items")[0] for s in CHAIN[1:]}
    print(f"items that were not acknowledged and were taken up again, and how often at most: {attempts}")


with Work("kills") as work:
    chance = seeded(sys.argv[2] if len(sys.argv) > 2 else None)
    for number in range(ROUNDS):
        one_round(work, chance, number)
    finish()
