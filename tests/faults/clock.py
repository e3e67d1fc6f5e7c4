#!/usr/bin/env python3
"""Sets the clock back an hour in the middle of a run, and forward by two. Nothing that is measured in seconds may
notice."""

import os
import re
import signal
import struct
import time

from alone import TINY, environment, now, put, relays, start
from faults import Work, check, counts, done, finish, pids, status, wait_until

HOUR, IDLE, SILENT = 3600, 3, 5
settings = []


def set_clock(path, wrong_by):
    """Makes the clock wrong by this many seconds from now on."""
    settings.append((time.time_ns(), int(wrong_by * 1e9)))
    with open(path, "r+b") as file:
        file.seek(8)
        file.write(b"".join(struct.pack("<qq", *one) for one in settings))
        file.flush()
        file.seek(0)
        file.write(struct.pack("<q", len(settings)))


def beat_age(session, instance="relay.0"):
    beats = {i["name"]: i for i in status(session)["stages"]["relay"]["instances"]}
    return time.time() - beats[instance]["time"]


with Work("clock") as work:
    control, session = work("clock"), work("session")
    with open(control, "wb") as file:
        file.write(bytes(4096))
    env = environment(work, "clock", ICESTREAM_FAULT_CLOCK=control)
    graph = relays(work, "poll: 0.2, settle: 1, stall: 30")
    with start(work, graph, "--hang-report", SILENT, "--hang-kill", 1000, env=env) as live:
        for i in range(5):
            put(work("raw"), f"a{i}.mrc")
        wait_until(lambda: done(session, "relay") == 5, 60, "five are done", live)
        with open(work("raw", "growing.mrc"), "wb") as file:
            file.write(TINY[:1100])

        set_clock(control, -HOUR)
        wait_until(lambda: beat_age(session) > HOUR - 60, 60, "heartbeats tell the time that was set", live)
        for i in range(5):
            put(work("raw"), f"b{i}.mrc")
        wait_until(lambda: done(session, "relay") == 10, 60, "five more are done an hour before", live)
        with open(work("raw", "growing.mrc"), "ab") as file:
            file.write(TINY[1100:])
        wait_until(lambda: done(session, "relay") == 11, 60, "the file that grew meanwhile is done", live)
        check(status(session)["running"], "status says that it runs")

        # A hang is noticed by how long a process is silent, whatever the time in its last heartbeat is.
        check(not live.says("has not answered for"), "an hour back is no silence")
        victim = pids(session)["relay.0"]
        os.kill(victim, signal.SIGSTOP)
        begin = now()
        wait_until(lambda: live.says("has not answered for"), 100, "the hang is reported", live)
        print(f"a hang is reported after {now() - begin:.1f} s ({SILENT} s were asked for)")
        os.kill(victim, signal.SIGCONT)
        wait_until(lambda: live.says("answers again"), 60, "it answers again", live)

        set_clock(control, HOUR)
        wait_until(lambda: beat_age(session) < -HOUR + 60, 60, "heartbeats tell the time that was set", live)
        for i in range(5):
            put(work("raw"), f"c{i}.mrc")
        wait_until(lambda: done(session, "relay") == 16, 60, "five more are done an hour after", live)
        said = live.drain()
    check(len(re.findall(r"^icestream: \S+ has not answered", said, re.M)) == 1, "nothing else was taken for a hang")
    check(said.count("starting it again") == 0, "nothing was started again")
    begin = now()
    put(work("raw"), "last.mrc")
    with start(work, graph, "--until-idle", IDLE, env=env) as live:
        wait_until(lambda: done(session, "relay") == 17, 60, "one more is done", live)
        set_clock(control, -HOUR)
        live.finish(0)
    took = now() - begin
    check(IDLE <= took < HOUR, f"the stream ended {took:.1f} s after the last file came ({IDLE} s were asked for)")
    for stage, found in counts(session).items():
        check(found == {"seen": 17, "done": 17, "rejected": 0, "failed": 0, "in_flight": 0}, f"{stage}: {found}")
    finish()
