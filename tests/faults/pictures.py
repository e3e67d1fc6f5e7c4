#!/usr/bin/env python3
"""A micrograph that comes after its picture takes the picture's place, and `status --json` says what is left out, also
after the run and after another one."""

import os
import signal
import zlib

from alone import put
from faults import Run, Work, check, counts, done, finish, ledger, star, status, wait_until, write


def picture():
    """Returns a PNG of one grey pixel."""

    def chunk(kind, content):
        return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")

    header = (1).to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def left_out(session):
    return {os.path.basename(entry["path"]): entry["reason"] for entry in status(session)["left_out"]}


TEXT = "session: {pixel_size: 1}\nstages:\n  watcher: {directory: DIR, settle: 0.2, poll: 0.2}\n"

with Work("pictures") as work:
    graph, session = write(work("graph.yaml"), TEXT.replace("DIR", work("in"))), work("session")
    put(work("in"), "F0.png", picture())
    with Run(graph, session) as live:
        wait_until(lambda: os.path.exists(f"{session}/ledger/watcher.sqlite"), 120, "the watcher runs", live)
        wait_until(lambda: done(session, "watcher") == 1, 120, "the picture is taken", live)
        check(left_out(session) == {}, "nothing is left out yet")
        put(work("in"), "F0.mrc")
        put(work("in"), "F1.mrc")
        put(work("in"), "F1.png", picture())
        query = "SELECT id, state FROM items WHERE revision > 0"
        wait_until(lambda: ledger(session, "watcher", query) == [("F0", 1)], 120, "the micrograph follows", live)
        wait_until(lambda: set(left_out(session)) == {"F0.png", "F1.png"}, 120, "both pictures are told", live)
        live.signal(signal.SIGINT)
        live.finish(0)
    for again in (False, True):
        if again:
            with Run(graph, session, "--until-idle", "0.5") as live:
                live.finish(0)
        totals = counts(session)["watcher"]
        check((totals["seen"], totals["done"], totals["failed"]) == (2, 2, 0), f"two items: {totals}")
        rows = star(f"{session}/watcher/micrographs.star")["micrographs"]
        taken = sorted(os.path.basename(row["rlnMicrographName"]) for row in rows)
        check(taken == ["F0.mrc", "F1.mrc"], f"the micrographs are taken: {taken}")
        found = left_out(session)
        check(set(found) == {"F0.png", "F1.png"}, f"the pictures are left out: {found}")
        check(all("picture" in reason for reason in found.values()), f"with the reason: {found}")
finish()
