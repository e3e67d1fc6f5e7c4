#!/usr/bin/env python3
"""A file whose header and tail are written first, as parallel copies do, is not taken before its middle is there. A file
that stays sparse is taken in the end."""

import os
import sys

import numpy as np
from alone import put, tiny
from faults import SKIP, Run, Work, check, finish, ledger, wait_until, write

SIDE = 512
WHOLE = tiny(SIDE)


def taken(session):
    return {row[0] for row in ledger(session, "watcher", "SELECT id FROM items WHERE state = 1")}


def tail_first(path):
    with open(path, "wb") as file:
        file.write(WHOLE[:4096])
        file.seek(len(WHOLE) - 4096)
        file.write(WHOLE[-4096:])
        file.flush()
        if os.lseek(file.fileno(), 0, os.SEEK_HOLE) >= len(WHOLE):
            print("skipped: this file system does not tell of holes")
            sys.exit(SKIP)


with Work("tail-first") as work:
    text = "session: {pixel_size: 1}\nstages:\n  watcher: {directory: DIR, poll: 0.2, settle: 0.1, stall: 600}\n"
    graph, session = write(work("graph.yaml"), text.replace("DIR", work("in"))), work("session")
    os.makedirs(work("in"))
    tail_first(work("in/a.mrc"))
    os.utime(work("in/a.mrc"), (1e9, 1e9))
    with Run(graph, session) as live:
        for name in ("b.mrc", "c.mrc"):  # the oldest is looked at first
            put(work("in"), name)
            wait_until(lambda: name[:-4] in taken(session), 120, f"{name} is taken", live)
        check("a" not in taken(session), "a file with a hole is not taken")
        with open(work("in/a.mrc"), "r+b") as file:
            file.seek(4096)
            file.write(WHOLE[4096:-4096])
        wait_until(lambda: "a" in taken(session), 120, "the file is taken when it is whole", live)
        live.drain()

    # The same at rest, and patience of 6 × settle at the least.
    text = text.replace("settle: 0.1, stall: 600", "settle: 0.2, stall: 0.5")
    graph, session = write(work("again.yaml"), text.replace("DIR", work("sparse"))), work("session-again")
    os.makedirs(work("sparse"))
    tail_first(work("sparse/a.mrc"))
    with Run(graph, session) as live:
        wait_until(lambda: "a" in taken(session), 120, "a file that stays sparse is taken", live)
        live.drain()
    content = np.fromfile(work("sparse/a.mrc"), np.uint8)
    check(len(content) == len(WHOLE), "and is as long as its header says")
finish()
