#!/usr/bin/env python3
"""Renames logs at their size limit while stages and their child processes write to them. No line may be lost or torn,
and readers of the log continue."""

import os
import re

from alone import environment, logs, put, relays, start
from faults import Work, check, counts, done, finish, wait_until, write

MANY, SIZE, KEPT = 600, 0.04, 4  # MiB

# A child process that knows nothing of logs writes to the stage's standard error.
CHATTY = """\
#!/bin/sh
if [ "$1" = --instance ]; then
  (i=0; while [ $i -lt 3000 ]; do echo "line $i of a library" >&2; i=$((i+1)); done; touch 'WORK/said') &
fi
exec 'TESTS' relay "$@"
"""

with Work("logs") as work:
    session = work("session")
    env = environment(work)
    script = open(work("bin", "icestream-relay")).read()
    relay = re.search("'(.*)'", script).group(1)
    write(work("bin", "icestream-relay"), CHATTY.replace("WORK", work.path).replace("TESTS", relay))
    for i in range(MANY):
        put(work("raw"), f"broken_{i:04d}.mrc", b"no image" * 200)
    put(work("raw"), "whole.mrc")
    graph = relays(work, "settle: 0, poll: 0.2")
    with start(work, graph, "--until-idle", 2, "--log-size", SIZE, env=env) as live:
        wait_until(lambda: done(session, "relay") == 1, 60, "the whole one is done", live)
        wait_until(lambda: os.path.exists(work("said")), 60, "the library has said all", live)
        live.finish(3)
    check(counts(session)["watcher"]["failed"] == MANY, f"{counts(session)['watcher']}")
    told = [line for line in logs(session, "watcher.0") if " WARN failed " in line]
    names = [re.search(r"WARN failed (\S+):", line).group(1) for line in told]
    check(sorted(names) == [f"broken_{i:04d}" for i in range(MANY)], f"{len(set(names))} of {MANY} lines, each once")
    spoken = [line for line in logs(session, "relay.0") if "library" in line]
    numbers = sorted(int(m.group(1)) for m in (re.fullmatch(r"line (\d+) of a library", line) for line in spoken) if m)
    check(numbers == list(range(3000)), f"{len(numbers)} of 3000 lines of standard error, whole")
    sizes = {n: os.path.getsize(f"{session}/log/{n}") for n in sorted(os.listdir(f"{session}/log")) if ".log" in n}
    print(sizes)
    check(sum(n.startswith("watcher.0.log") for n in sizes) in range(3, KEPT + 2), "the log of the watcher was renamed")
    check(sum(n.startswith("relay.0.log") for n in sizes) in range(2, KEPT + 2), "so was the other")
    check(all(s <= SIZE * 2**20 for n, s in sizes.items() if n.startswith("watcher")), "none is too long")
    check(any("start" in line for line in logs(session, "icestream")), "the launcher has a log")
    finish()
