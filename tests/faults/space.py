#!/usr/bin/env python3
"""Fills the disk nearly. Intake must pause, log this once, and continue when there is space. It must also end when
asked to."""

import json

from alone import environment, logs, put, relays, start
from faults import Work, check, counts, done, finish, status, wait_until, write


def note(session):
    return status(session)["stages"]["watcher"]["note"]


def ends_while_paused(work, session, space):
    graph = relays(work, "poll: 0.2, min_free: 2")
    write(space, "3e9")
    for i in range(5):
        put(work("raw"), f"a{i}.mrc")
    with start(work, graph, env=environment(work, "space", ICESTREAM_FAULT_SPACE=space)) as live:
        wait_until(lambda: done(session, "relay") == 5, 60, "five are done", live)
        write(space, "1.5e9")
        wait_until(lambda: note(session).startswith("paused: 1.5 GB"), 60, "status says that intake is paused", live)
        for i in range(5):
            put(work("raw"), f"b{i}.mrc")
        live.drain()
    check(counts(session)["watcher"]["seen"] == 5, "drained without taking anything more in")
    told = [line for line in logs(session, "watcher.0") if " disk-space " in line]
    check(len(told) == 1 and "less than min_free" in told[0], f"said once: {told}")
    return graph


def resumes(work, session, space, graph):
    def beat():
        return json.load(open(f"{session}/log/watcher.0.heartbeat.json"))["time"]

    options = "--until-idle", 2
    with start(work, graph, *options, env=environment(work, "space", ICESTREAM_FAULT_SPACE=space)) as live:
        wait_until(
            lambda: live.says("paused: 1.5 GB are free, min_free is 2 GB"), 60, "run says that it is paused", live
        )
        # Longer than until_idle: a run that waits for space is not idle.
        begin = beat()
        wait_until(lambda: beat() > begin + 3, 60, "three seconds pass", live)
        check(counts(session)["watcher"]["seen"] == 5, "nothing was taken in meanwhile")
        write(space, "2.05e9")
        wait_until(
            lambda: note(session).startswith("paused: 2.05 GB"), 60, "a little more than min_free is not enough", live
        )
        write(space, "3e9")
        live.finish(0)
    told = [line for line in logs(session, "watcher.0") if " disk-space " in line]
    check(len(told) == 3 and "taken in again" in told[2], f"said that there is space again: {told}")
    check(all(f["done"] == 10 for f in counts(session).values()), f"there is space, so it went on: {counts(session)}")
    write(space, "1e9")
    with start(
        work,
        graph,
        "--until-idle",
        1,
        "--set",
        "watcher.min_free=0",
        session="second",
        env=environment(work, "space", ICESTREAM_FAULT_SPACE=space),
    ) as live:
        live.finish(0)
    check(counts(work("second"))["relay"]["done"] == 10, "min_free 0: space does not matter")


with Work("space") as work:
    resumes(work, work("session"), work("space"), ends_while_paused(work, work("session"), work("space")))
    finish()
