#!/usr/bin/env python3
"""The watched folder is away (a disk that is not mounted) while the watcher must start again, or the whole session after a
reboot: that is waited for. The folder is a link that leads to the disk."""
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
    with start(work, graph, "--until-idle", 3, env=environment(work)) as live:
        for i in range(COUNT):
            put(work("raw"), f"a{i}.mrc")
        wait_until(lambda: done(session, "relay") == COUNT, 30, "what was there is done", live)
        os.rename(work("disk"), work("elsewhere"))
        os.kill(pids(session)["watcher.0"], signal.SIGKILL)
        wait_until(lambda: live.says("watcher.0 cannot go on"), 20, "it is said", live)
        wait_until(lambda: pids(session, "relay"), 1, "the others go on", live)
        os.rename(work("elsewhere"), work("disk"))
        for i in range(COUNT):
            put(work("raw"), f"b{i}.mrc")
        said = live.finish(0)
    check(said.count("cannot go on") == 1, "it is said once")
    os.rename(work("disk"), work("elsewhere"))
    with Run(os.path.join(session, "graph.yaml"), session, "--until-idle", 3, env=environment(work)) as live:
        wait_until(lambda: live.says("watcher.0 cannot go on"), 20, "the session begins, and it is said", live)
        os.rename(work("elsewhere"), work("disk"))
        for i in range(COUNT):
            put(work("raw"), f"c{i}.mrc")
        live.finish(0)
    for stage, found in counts(session).items():
        check(found == {"seen": 3 * COUNT, "done": 3 * COUNT, "rejected": 0, "failed": 0, "in_flight": 0}, f"{stage}: {found}")
    finish()
