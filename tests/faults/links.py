#!/usr/bin/env python3
"""Watched folders whose links lead in circles or to the whole disk: all files are taken, and a signal is answered."""

import os
import signal

from alone import logs, put
from faults import Run, Work, check, finish, ledger, wait_until, write


def graph(work):
    text = "session: {pixel_size: 1}\nstages:\n  watcher: {directory: DIR, poll: 0.2}\n"
    return write(work("graph.yaml"), text.replace("DIR", work("in")))


def taken(session):
    return {row[0] for row in ledger(session, "watcher", "SELECT id FROM items WHERE state = 1")}


with Work("links") as work:
    session = work("session")
    for i in range(12):
        put(work(f"in/g{i}"), f"m{i}.mrc")
        for j in range(12):
            if i != j:
                os.symlink(f"../g{j}", work(f"in/g{i}/to{j}"))
    for name in ("plain1.mrc", "plain2.mrc"):
        put(work("in"), name)
    os.symlink("/", work("in/root"))
    expected = {f"g{i}/m{i}" for i in range(12)} | {"plain1", "plain2"}
    with Run(graph(work), session) as live:
        wait_until(lambda: len(taken(session)) >= len(expected), 120, "all files are taken", live)
        # A folder that comes later, with links into the maze.
        os.makedirs(work("in/late"))
        os.symlink("../g1", work("in/late/to1"))
        put(work("in/late"), "new.mrc")
        wait_until(lambda: "late/new" in taken(session), 120, "the late file is taken", live)
        live.signal(signal.SIGINT)
        live.finish(0)
    found = taken(session)
    check(found == expected | {"late/new"}, f"each file once, under its own folder: {sorted(found ^ expected)}")
    said = [line for line in logs(session, "watcher.0") if " skipped " in line]
    check(len(said) == 1 and "/root is not searched" in said[0], f"the link to / is said once: {said}")

# Hundreds of links to one large folder: it is searched once, and SIGINT ends the run.
with Work("links-many") as work:
    session = work("session")
    put(work("in"), "first.mrc")
    os.makedirs(work("far"))
    for i in range(40):
        for j in range(40):
            os.makedirs(work(f"far/{i}/{j}"))
    for i in range(300):
        os.symlink(work("far"), work(f"in/link{i}"))
    with Run(graph(work), session) as live:
        wait_until(lambda: "first" in taken(session), 120, "the first file is taken", live)
        live.signal(signal.SIGINT)
        live.finish(0)
    check(True, "SIGINT is answered")
finish()
