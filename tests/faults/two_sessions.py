#!/usr/bin/env python3
"""Sessions in the folder that they watch: no session takes the products of another, or its own."""

import os

import json

from alone import logs
from faults import Run, Work, arrive, check, finish, ledger, names, status, wait_until, write


def taken(session):
    return {row[0] for row in ledger(session, "watcher", "SELECT id FROM items WHERE state >= 0")}


# The picker's pictures match the watcher's pattern.
text = """\
session: {pixel_size: 6}
stages:
  watcher:        {directory: DIR, settle: 0.2, poll: 0.2}
  lowpass-picker: {from: watcher, diameter: 130, lowpass: 40}
"""

with Work("two-sessions") as work:
    arrive(names()[:3], work("in"))
    expected = {name[:-4] for name in names()[:3]}
    for number in ("one", "two"):
        session = work("in", number)
        with Run(write(work(f"{number}.yaml"), text.replace("DIR", work("in"))), session, "--until-idle", "1") as live:
            live.finish(0)
        check(taken(session) == expected, f"session {number} takes the micrographs alone: {sorted(taken(session))[:5]}")
        found = status(session)["stages"]
        check(all(stage["failed"] == 0 for stage in found.values()), f"session {number}: nothing failed")
    said = [line for line in logs(work("in/two"), "watcher.0") if " skipped " in line]
    check(len(said) == 1 and "/in/one is not searched" in said[0], f"the other session's folder is said: {said}")
    left = [entry["path"] for entry in status(work("in/two"))["left_out"]]
    check(left == [os.path.realpath(work("in/one"))], f"and told as left out: {left}")
    # Two that run at the same time.
    text = text.replace("pixel_size: 6", "pixel_size: 6, threads: 1")
    with Run(write(work("side.yaml"), text.replace("DIR", work("in"))), work("side")) as live:
        wait_until(lambda: status(work("side"))["stages"]["lowpass-picker"]["done"] > 0, 120, "a session is at work", live)
        with Run(work("side.yaml"), work("beside"), "--until-idle", "0.5") as beside:
            beside.finish(0)
    said = [line for line in logs(work("beside"), "icestream") if " cores " in line]
    check(len(said) == 1 and "this session takes 1 of" in said[0] and work("side") in said[0], f"cores: {said}")
    instances = json.load(open(work("beside/log/lowpass-picker.0.instance.json")))
    check((instances["threads"], instances["flush_threads"]) == (1, 1), "session.threads counts for all stages")
finish()
