#!/usr/bin/env python3
"""Kills a process again and again. The launcher starts it after ever longer pauses. After a number of deaths with no
item done between them, the run gives up and prints why. The next run continues."""

import os
import signal

from faults import (
    COUNT,
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
    pids,
    same,
    time,
    wait_until,
    whole,
)

RESTARTS, BACKOFF = 3, 0.2


def kill_at_every_start(live, session, instance):
    """Kills the instance at every start until it is not started any more. Returns the times of the kills and of the
    starts."""
    killed, seen, last = [], [], None
    while live.poll() is None:
        pid = pids(session).get(instance)
        if pid is not None and pid != last:
            seen.append(time.monotonic())
            killed.append(time.monotonic())
            os.kill(pid, signal.SIGKILL)
            last = pid
        time.sleep(0.01)  # leaves the processor to others
    return killed, seen


with Work("gives-up") as work:
    incoming, session = work("incoming"), work("session")
    arrive(names()[: COUNT // 2], incoming)
    path = graph(work.path, micrographs=incoming, picker="replicas: 2")
    options = ("--restarts", RESTARTS, "--backoff", BACKOFF)
    # Without the watcher no new item comes, so at some time nothing is done between two deaths.
    with Run(path, session, *options) as live:
        wait_until(lambda: done(session, "extractor") >= 10, 60, "ten items are done", live)
        killed, seen = kill_at_every_start(live, session, "watcher.0")
        output = live.finish(1)
    limit = f"watcher.0 was killed by signal 9 (Killed); {RESTARTS + 1} deaths in a row, with nothing finished"
    check(limit in output, "the launcher gives up after this many deaths, and prints why")
    check("icestream gives up. See " in output and "watcher.0.log" in output, "the launcher names the log to read")
    check(not pids(session), "nothing is left running")
    pauses = [there - dead for dead, there in zip(killed[-RESTARTS - 1 :], seen[-RESTARTS:])]
    print(f"pauses before the last starts: {[f'{pause:.2f} s' for pause in pauses]}")
    check(all(pause >= BACKOFF * 2**i for i, pause in enumerate(pauses)), "each pause is twice the one before")
    arrive(names()[COUNT // 2 :], incoming)
    with Run(path, session, *options, "--until-idle", "1") as live:
        live.finish(0)
    same(calm(), outcome(session, incoming), "run again")
    whole(session, "run again")
    finish()
