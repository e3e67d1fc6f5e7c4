"""Helpers for tests of unattended sessions: tiny micrographs by the thousand, stages that do nothing, and libraries
that stand between a program and the system (tests/faults/preload_*.c)."""

import os
import re
import struct
import sys
import time

from faults import BIN, SKIP, Run, write

TESTS = os.path.abspath(os.path.join(BIN, "../tests"))


def tiny(side=16):
    """Returns a whole MRC file with one byte a pixel, 1 Å/px."""
    header = bytearray(1024)
    struct.pack_into("<10i3f", header, 0, side, side, 1, 0, 0, 0, 0, side, side, 1, side, side, 1)
    struct.pack_into("<3i", header, 64, 1, 2, 3)
    header[208:216] = b"MAP DA\0\0"
    return bytes(header) + bytes(i % 100 for i in range(side * side))


TINY = tiny()


def put(folder, name, content=TINY, date=None):
    """Makes a whole file appear at once. Names may be bytes."""
    encoded, folder = os.fsencode(name), os.fsencode(folder)
    path, hidden = os.path.join(folder, encoded), os.path.join(folder, b".coming")
    try:
        file = open(hidden, "wb")
    except FileNotFoundError:
        os.makedirs(folder)
        file = open(hidden, "wb")
    with file:
        file.write(content)
    if date is not None:
        os.utime(hidden, (date, date))
    try:
        os.rename(hidden, path)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path))
        os.rename(hidden, path)


def environment(work, preload=None, **more):
    """Returns an environment for `run`: icestream-relay on PATH (tests/common/relay.c), and a library in front of the
    system's."""
    os.makedirs(work("bin"), exist_ok=True)
    script = write(work("bin", "icestream-relay"), f"#!/bin/sh\nexec '{TESTS}/relay' relay \"$@\"\n")
    os.chmod(script, 0o755)
    found = dict(os.environ, PATH=f"{work('bin')}:{os.environ['PATH']}", **{k: str(v) for k, v in more.items()})
    if preload is not None:
        path = os.path.join(TESTS, f"preload_{preload}.so")
        if not os.path.exists(path):
            print(f"skipped: {path} was not built")
            sys.exit(SKIP)
        # The sanitizer's own library must be loaded first.
        options = "verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", "")
        found.update(LD_PRELOAD=path, ASAN_OPTIONS=options)
    return found


def relays(work, watcher, relay="", session="pixel_size: 1"):
    """Writes a graph of the watcher and one stage that passes its items on."""
    return write(
        work("graph.yaml"),
        f"session: {{{session}}}\nstages:\n"
        f"  watcher: {{directory: \"{work('raw')}\"{', ' if watcher else ''}{watcher}}}\n"
        f"  relay: {{from: watcher, program: relay{', ' if relay else ''}{relay}}}\n",
    )


def start(work, graph, *options, env, session="session"):
    os.makedirs(work("raw"), exist_ok=True)
    return Run(graph, work(session), *options, env=env)


def logs(session, instance):
    """Returns the lines of an instance's log, the oldest first, including its rotated files."""
    lines = []
    for k in range(9, -1, -1):
        path = os.path.join(session, "log", instance + ".log" + (f".{k}" if k else ""))
        if os.path.exists(path):
            lines += open(path, errors="replace").read().splitlines()
    return lines


def resident(pid, what="VmRSS"):
    """Returns KiB."""
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(rf"^{what}:\s+(\d+)", file.read(), re.M).group(1))


def now():
    return time.monotonic()
