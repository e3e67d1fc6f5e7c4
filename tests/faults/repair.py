#!/usr/bin/env python3
"""Loses, ages or damages ledgers of a session that has ended. `icestream repair` must bring back what they held, so that
status is 0, the session is as before, and a further run does nothing again.

repair.py lost    the ledgers of each stage in turn, then a ledger with its second copy, then all ledgers
repair.py older   a ledger of the middle of the run
repair.py wal     a write-ahead log that is cut, and a ledger that is damaged"""

import contextlib
import glob
import os
import random
import shutil
import sqlite3
import sys

from faults import (
    STAGES,
    Run,
    Work,
    arrive,
    check,
    counts,
    finish,
    graph,
    ledger,
    names,
    outcome,
    pids,
    run,
    same,
    wait_until,
    whole,
)

FIRST, SECOND = 20, 40


def forget(session, stage, copy=False):
    for path in glob.glob(f"{session}/ledger/{stage}.sqlite*") + glob.glob(f"{session}/ledger/{stage}.jsonl") * copy:
        os.unlink(path)


def times(session):
    """Returns when products were written. A stage that does an item again writes them anew."""
    found = glob.glob(f"{session}/lowpass-picker/*_autopick.star") + glob.glob(f"{session}/extractor/mic_*")
    return {path: os.stat(path).st_mtime_ns for path in found}


def go(work, incoming, session, some):
    arrive(some, incoming)
    with Run(graph(work.path, micrographs=incoming), session, "--until-idle", "0.5") as live:
        live.finish(0)


def mended(work, incoming, session, before, what, expect=""):
    """Repairs and checks that all is as it was, and stays so when the session runs again."""
    undisturbed, written = before
    text = run("repair", "--session", session).stdout
    check(expect in text, f"{what}: repair says {expect!r}: {text.strip()}")
    run("status", "--session", session)
    same(undisturbed, outcome(session, incoming), what)
    go(work, incoming, session, [])
    same(undisturbed, outcome(session, incoming), f"{what}, and run again")
    whole(session, what)
    check(times(session) == written, f"{what}: nothing is done twice")
    check(run("repair", "--session", session).stdout == "nothing to repair\n", f"{what}: nothing is left to repair")
    run("verify", "--session", session)


def case_lost(work, incoming, session):
    go(work, incoming, session, names()[:FIRST])
    before = outcome(session, incoming), times(session)
    check(run("repair", "--session", session).stdout == "nothing to repair\n", "a whole session needs no repair")
    for stage in STAGES:
        forget(session, stage)
        mended(work, incoming, session, before, f"{stage} lost", "was lost")
    forget(session, "lowpass-picker", copy=True)
    mended(work, incoming, session, before, "the picker's with its copy", "was lost")
    for stage in STAGES:
        forget(session, stage)
    mended(work, incoming, session, before, "all lost", "was lost")
    forget(session, "extractor", copy=True)
    text = run("repair", "--session", session).stdout
    check("go through again" in text, f"without anything to go by, items go through again: {text.strip()}")
    go(work, incoming, session, [])
    same(before[0], outcome(session, incoming), "the last ledger with its copy")
    arrive(names()[FIRST:SECOND], incoming)
    with Run(graph(work.path, micrographs=incoming), session) as live:
        wait_until(lambda: pids(session), 60, "the session runs", live)
        check(
            "another icestream" in run("repair", "--session", session, expect=1).stderr,
            "a session that runs is not repaired",
        )
        live.drain()
    check(counts(session)["extractor"]["done"] >= FIRST, "and goes on")


def case_older(work, incoming, session):
    go(work, incoming, session, names()[:FIRST])
    old = work("old")
    shutil.copytree(f"{session}/ledger", old)
    go(work, incoming, session, names()[FIRST:SECOND])
    before = outcome(session, incoming), times(session)
    for stage in STAGES:
        forget(session, stage)
        for path in glob.glob(f"{old}/{stage}.sqlite*"):
            shutil.copy(path, f"{session}/ledger")
        mended(work, incoming, session, before, f"{stage} older", "was older")


def case_wal(work, incoming, session):
    """The launcher is killed in mid-work, so that the write-ahead logs stay; then the disk cuts one."""
    path = graph(work.path, micrographs=incoming)
    go(work, incoming, session, names()[:FIRST])
    arrive(names()[FIRST:SECOND], incoming)
    readers = []
    for stage in STAGES:  # a reader keeps the log from being written back into the ledger when its stage ends
        reader = sqlite3.connect(f"{session}/ledger/{stage}.sqlite", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM items").fetchall()
        readers.append(reader)
    with Run(path, session, "--until-idle", "0.5") as live:
        live.finish(0)
    before = outcome(session, incoming), times(session)
    keep = work("kept")
    shutil.copytree(f"{session}/ledger", keep)
    for reader in readers:
        with contextlib.suppress(sqlite3.Error):
            reader.close()
    for stage in STAGES:
        for part in (3, 6, 12, 24, 48):  # the watcher's items may all be at the beginning of its log
            forget(session, stage)
            for end in ("", "-wal"):
                shutil.copy(f"{keep}/{stage}.sqlite{end}", f"{session}/ledger")
            log = f"{session}/ledger/{stage}.sqlite-wal"
            os.truncate(log, os.path.getsize(log) // part)
            held = ledger(session, stage, "SELECT COUNT(*) FROM items WHERE state = 1")
            if not held or held[0][0] < SECOND:
                break
        check(not held or held[0][0] < SECOND, f"{stage}: the cut log has lost items: {held}")
        mended(work, incoming, session, before, f"{stage}: log cut", "put back")
    for stage in STAGES:
        path = f"{session}/ledger/{stage}.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        damage = random.Random(stage)
        with open(path, "r+b") as file:
            for _ in range(40):
                file.seek(4096 + damage.randrange(os.path.getsize(path) - 8192))
                file.write(damage.randbytes(64))
        mended(work, incoming, session, before, f"{stage}: damaged", "damaged")


with Work(f"repair-{sys.argv[1]}") as work:
    {"lost": case_lost, "older": case_older, "wal": case_wal}[sys.argv[1]](work, work("incoming"), work("session"))
    finish()
