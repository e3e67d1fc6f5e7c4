#!/usr/bin/env python3
"""Starts the watcher, or the whole session after a reboot, while the watched folder is away (a disk that is not
mounted). They must wait for it. The folder is a link that leads to the disk."""

import os
import signal

from alone import environment, put, relays, start
from faults import Run, Work, check, counts, done, finish, pids, wait_until

COUNT = 5

with Work("away") as work:
    session = work("session")
    os.makedirs(work("disk/raw"))
    os.symlink("disk/raw", work("raw"))
    graph = relays(work, "poll: 0.2, settle: 1")
    with start(work, graph, env=environment(work)) as live:
        for i in range(COUNT):
            put(work("raw"), f"a{i}.mrc")
        wait_until(lambda: done(session, "relay") == COUNT, 60, "the first micrographs are done", live)
        os.rename(work("disk"), work("elsewhere"))
        os.kill(pids(session)["watcher.0"], signal.SIGKILL)
        wait_until(
            lambda: live.says("watcher.0 cannot go on"), 60, "the launcher reports that the folder is away", live
        )
        wait_until(lambda: pids(session, "relay"), 60, "the others go on", live)
        os.rename(work("elsewhere"), work("disk"))
        for i in range(COUNT):
            put(work("raw"), f"b{i}.mrc")
        wait_until(lambda: done(session, "relay") == 2 * COUNT, 100, "the later micrographs are done", live)
        said = live.drain()
    check(said.count("icestream: watcher.0 cannot go on") == 1, "the launcher reports this once")
    os.rename(work("disk"), work("elsewhere"))
    with Run(os.path.join(session, "graph.yaml"), session, env=environment(work)) as live:
        wait_until(
            lambda: live.says("watcher.0 cannot go on"), 60, "the launcher reports this for the new session too", live
        )
        os.rename(work("elsewhere"), work("disk"))
        for i in range(COUNT):
            put(work("raw"), f"c{i}.mrc")
        wait_until(lambda: done(session, "relay") == 3 * COUNT, 100, "all is done", live)
        live.drain()
    for stage, found in counts(session).items():
        check(
            found == {"seen": 3 * COUNT, "done": 3 * COUNT, "rejected": 0, "failed": 0, "in_flight": 0},
            f"{stage}: {found}",
        )
    finish()
