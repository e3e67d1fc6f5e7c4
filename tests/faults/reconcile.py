#!/usr/bin/env python3
"""Checks that `icestream status` reconciles. At any moment of a run the counts must add up, within each stage and
across each edge. If a ledger was changed by hand, status must report it and exit with 4."""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess

from faults import (
    COUNT,
    DATA,
    Run,
    Work,
    arrive,
    calm,
    check,
    done,
    finish,
    graph,
    names,
    outcome,
    program,
    same,
    whole,
)


def ask(session, *options):
    words = [program("icestream"), "status", "--session", session, *options]
    return subprocess.run(words, capture_output=True, text=True)


def tamper(work, number, stage, statement):
    session = work(f"tampered-{number}")
    shutil.copytree(os.path.join(DATA, "calm"), session)
    with contextlib.closing(sqlite3.connect(f"{session}/ledger/{stage}.sqlite")) as connection:
        changed = connection.execute(statement).rowcount
        connection.commit()
    assert changed == 1, f"{statement}: {changed} rows"
    return session


TAMPERED = (
    (
        "extractor",
        "DELETE FROM items WHERE number = 7",
        "extractor: 1 items were acknowledged but are not in its ledger",
    ),
    ("lowpass-picker", "DELETE FROM outbox WHERE seq = 3", "extractor: 1 items are in its ledger but nobody sent them"),
    (
        "watcher",
        "UPDATE outbox SET edge = 'watcher.0>nobody' WHERE seq = 3",
        "lowpass-picker: 1 items are in its ledger but nobody sent them",
    ),
    (
        "lowpass-picker",
        "UPDATE items SET state = 9 WHERE number = 5",
        "lowpass-picker: 200 items were seen, which is not the sum of the others",
    ),
    (
        "watcher",
        "INSERT INTO items SELECT 999, source, 'mic_x', revision, state, reason, attempts, crashes, instance, token, "
        "item, time_seen, time_changed FROM items WHERE number = 1",
        "lowpass-picker: 1 items are done upstream but were not sent to it",
    ),
)

with Work("reconcile") as work:
    untouched = work("untouched")
    shutil.copytree(os.path.join(DATA, "calm"), untouched)
    check(ask(untouched).returncode == 0, "untouched: all adds up")
    check(json.loads(ask(untouched, "--json").stdout)["adds_up"], "in JSON as well")
    for number, (stage, statement, why) in enumerate(TAMPERED):
        session = tamper(work, number, stage, statement)
        text, data = ask(session), ask(session, "--json")
        check(text.returncode == 4 and data.returncode == 4, f"{statement}: exit 4")
        check(f"the counts do not add up: {why}" in text.stderr and why in text.stdout, f"says {why}")
        check(json.loads(data.stdout)["miscount"] == why, "so does the JSON")
    # A stage is always in the middle of some work when status asks. This must not look like a miscount.
    incoming, session, asked = work("incoming"), work("session"), 0
    path = graph(work.path, micrographs=incoming, picker="replicas: 2", extractor="replicas: 2")
    with Run(path, session) as live:
        waiting = names()
        while waiting or asked <= COUNT // 10 or done(session, "extractor") < COUNT:
            assert live.poll() is None, "the run has ended"
            arrive(waiting[:5], incoming)
            del waiting[:5]
            answer = ask(session)
            if answer.returncode == 4:
                check(False, f"asked during the run: {answer.stderr}")
                break
            asked += answer.returncode == 0
        live.drain()
    check(asked > COUNT // 10, f"asked {asked} times during a run, each time all added up")
    same(calm(), outcome(session, incoming))
    whole(session)
    finish()
