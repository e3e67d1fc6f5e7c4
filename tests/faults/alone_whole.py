#!/usr/bin/env python3
"""Disturbs an unattended run of 200 micrographs through real stages. The run must end like an undisturbed one. The
scripts of the same names check the details of each fault.

alone_whole.py clock    the clock goes back by an hour, then forward by two
alone_whole.py blind    the file system does not report new files
alone_whole.py names    names with blanks, quotation marks, UTF-8, 255 bytes; and some that no STAR file can hold"""

import os
import struct
import sys
import time

from alone import environment, put
from faults import (
    COUNT,
    MICROGRAPHS,
    STAGES,
    Run,
    Work,
    arrive,
    calm,
    check,
    counts,
    done,
    finish,
    graph,
    ledger,
    names,
    outcome,
    read_products,
    same,
    wait_until,
    whole,
)

KEYS = "settle: 0.5, poll: 0.2"


def in_thirds(work, between, **keys):
    """Runs a session to which the micrographs come in three parts. between(i) is called while the stages work on part
    i."""
    incoming, session = work("incoming"), work("session")
    os.makedirs(incoming)
    with Run(graph(work.path, micrographs=incoming, watcher=KEYS), session, **keys) as live:
        sent = 0
        for i in range(3):
            part = names()[COUNT * i // 3 : COUNT * (i + 1) // 3]
            arrive(part, incoming)
            wait_until(lambda: done(session, "lowpass-picker") > sent, 60, f"part {i} is in work", live)
            between(i)
            sent += len(part)
            wait_until(lambda: done(session, "extractor") == sent, 60, f"part {i} is done", live)
        said = live.drain()  # not --until-idle, which also sweeps the folder
    check("starting it again" not in said and "has not answered" not in said, "no process died or hung")
    same(calm(), outcome(session, incoming))
    whole(session)


def clock(work):
    control, settings = work("clock"), []
    with open(control, "wb") as file:
        file.write(bytes(4096))

    def set_clock(i):
        settings.append(struct.pack("<qq", time.time_ns(), (-3600, 3600, 0)[i] * 10**9))
        with open(control, "r+b") as file:  # the number of settings is written last
            file.seek(8)
            file.write(b"".join(settings))
            file.flush()
            file.seek(0)
            file.write(struct.pack("<q", len(settings)))

    in_thirds(work, set_clock, env=environment(work, "clock", ICESTREAM_FAULT_CLOCK=control))
    ((first, last),) = ledger(work("session"), "extractor", "SELECT MIN(time_changed), MAX(time_changed) FROM items")
    check(last - first > 7200, f"from the earliest to the latest time it is {last - first:.0f} s, of a run of seconds")


def blind(work):
    in_thirds(work, lambda i: None, env=environment(work, "inotify", ICESTREAM_FAULT_INOTIFY="deaf"))


def odd(i):
    """Returns another name for each micrograph."""
    stems = "with  spaces {}", "it's {}", 'say "{}"', "#{} ünïcödé Å", "冷冻电镜 {}", "data_ {}@loop_", "x" * 248 + "{}"
    return stems[i % len(stems)].format(f"{i:03d}") + ".mrc"


def odd_names(work):
    session, bad = work("session"), [b"line\nbreak.mrc", b"bad\xff.mrc", b"tab\t.mrc"]
    for i, name in enumerate(names()):
        with open(os.path.join(MICROGRAPHS, name), "rb") as file:
            put(work("raw"), odd(i), file.read())
    for name in bad:
        put(work("raw"), name, b"")
    with Run(graph(work.path, micrographs=work("raw"), watcher=KEYS), session, "--until-idle", "2") as live:
        live.finish(3)
    found, undisturbed = counts(session), calm()
    check(found["watcher"]["failed"] == len(bad), f"{found['watcher']}")
    check(all(found[stage]["done"] == COUNT for stage in STAGES), f"all others are done: {found}")
    # The products have other names but the same content.
    for what, stage, ending in (("picks", "lowpass-picker", "_autopick.star"), ("stacks", "extractor", ".mrcs")):
        ours = sorted(read_products(session, stage, ending, work("raw")).values())
        check(ours == sorted(undisturbed[what].values()), f"{len(ours)} {what} as undisturbed")


cases = {"clock": clock, "blind": blind, "names": odd_names}
if len(sys.argv) != 2 or sys.argv[1] not in cases:
    sys.exit(__doc__)
with Work(f"whole-{sys.argv[1]}") as folder:
    cases[sys.argv[1]](folder)
    finish()
