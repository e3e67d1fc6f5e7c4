#!/usr/bin/env python3
"""File systems that do not report new files: the sweep must find all, also in folders that are made later."""

import errno

from alone import environment, logs, put, relays, start
from faults import Work, check, counts, done, finish, wait_until

MODES = {
    f"init:{errno.ENOSYS}": "inotify cannot be used",
    f"init:{errno.EMFILE}": "inotify cannot be used",
    f"watch:{errno.ENOSPC}": "max_user_watches",
    "deaf": None,
}

with Work("blind") as work:
    for number, (mode, warning) in enumerate(MODES.items()):
        folder, session = work(f"raw{number}"), work(f"session{number}")
        graph = relays(work, "poll: 0.2")
        text = open(graph).read().replace(work("raw"), folder)
        with open(graph, "w") as file:
            file.write(text)
        for i in range(3):
            put(folder, f"before{i}.mrc")
        env = environment(work, "inotify", ICESTREAM_FAULT_INOTIFY=mode)
        # Not with --until-idle, which sweeps the folder before it decides that no file will come.
        with start(work, graph, env=env, session=f"session{number}") as live:
            wait_until(lambda: done(session, "relay") == 3, 60, "what was there is done", live)
            for i in range(3):
                put(folder, f"new/deep{i % 2}/later{i}.mrc")
            wait_until(lambda: done(session, "relay") == 6, 60, "what came later is done", live)
            live.drain()
        found = counts(session)
        check(all(f["seen"] == f["done"] == 6 for f in found.values()), f"{mode}: {found['relay']}")
        told = [line for line in logs(session, "watcher.0") if " no-notices " in line]
        check(len(told) == (warning is not None) and (not told or warning in told[0]), f"{mode}: the log says {told}")
    finish()
