#!/usr/bin/env python3
"""Intake pauses while the disk is nearly full, says so once, goes on when there is space; and ends when it is told to."""
import json
import signal

from alone import environment, logs, put, relays, start
from faults import Work, check, counts, done, finish, pids, status, wait_until, write


def note(session):
    return status(session)["stages"]["watcher"]["note"]


def pauses_and_resumes(work):
    session, space = work("session"), work("space")
    graph = relays(work, "poll: 0.2, min_free: 2")
    write(space, "3e9")
    for i in range(5):
        put(work("raw"), f"a{i}.mrc")
    with start(work, graph, "--until-idle", 2, env=environment(work, "space", ICESTREAM_FAULT_SPACE=space)) as live:
        wait_until(lambda: done(session, "relay") == 5, 30, "five are done", live)
        write(space, "1.5e9")
        wait_until(lambda: note(session).startswith("paused: 1.5 GB"), 10, "status says that intake is paused", live)
        for i in range(5):
            put(work("raw"), f"b{i}.mrc")
        # Longer than until_idle: what waits for space is not nothing.
        wait_until(lambda: live.says("paused: 1.5 GB are free, min_free is 2 GB"), 10, "so does run", live)
        pid = pids(session)["watcher.0"]
        beats = json.load(open(f"{session}/log/watcher.0.heartbeat.json"))["time"]
        wait_until(lambda: json.load(open(f"{session}/log/watcher.0.heartbeat.json"))["time"] > beats + 3, 20, "three seconds pass", live)
        check(counts(session)["watcher"]["seen"] == 5, "nothing was taken in meanwhile")
        write(space, "2.05e9")
        wait_until(lambda: note(session).startswith("paused: 2.05 GB"), 10, "a little more than min_free is not enough", live)
        write(space, "3e9")
        wait_until(lambda: done(session, "relay") == 10, 10, "there is space, so it goes on", live)
        live.finish(0)
    told = [line for line in logs(session, "watcher.0") if " disk-space " in line]
    check(len(told) == 2 and "less than min_free" in told[0] and "taken in again" in told[1], f"said once each: {told}")
    check(pid > 0 and all(f["done"] == 10 for f in counts(session).values()), f"{counts(session)}")


def ends_while_paused(work):
    session, space = work("second"), work("space")
    graph = relays(work, "poll: 0.2, min_free: 2", session="pixel_size: 1")
    write(space, "1e9")
    with start(work, graph, env=environment(work, "space", ICESTREAM_FAULT_SPACE=space), session="second") as live:
        wait_until(lambda: note(session).startswith("paused"), 30, "paused from the start", live)
        live.signal(signal.SIGINT)
        live.finish(0)
    check(counts(session)["watcher"]["seen"] == 0, "drained without taking anything in")
    with start(work, graph, "--until-idle", 1, "--set", "watcher.min_free=0", session="third",
               env=environment(work, "space", ICESTREAM_FAULT_SPACE=space)) as live:
        live.finish(0)
    check(counts(work("third"))["relay"]["done"] == 10, "min_free 0: space does not matter")


with Work("space") as work:
    pauses_and_resumes(work)
    ends_while_paused(work)
    finish()
