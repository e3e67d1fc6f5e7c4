#!/usr/bin/env python3
"""Replaces a micrograph under its name, while its item is on its way, or after it was done: the item begins again, and picks
and pixels are those of the new file. A new date alone begins nothing again.

replaced.py flight|done"""

import os
import shutil
import signal
import sys

from faults import (
    MICROGRAPHS,
    Run,
    Work,
    arrive,
    check,
    counts,
    done,
    finish,
    graph,
    ledger,
    names,
    pids,
    run,
    wait_until,
)

SOME = 6


def replace(path, other):
    hidden = os.path.join(os.path.dirname(path), ".coming")
    shutil.copy(other, hidden)
    os.rename(hidden, path)


def products(session, stem):
    """The picks of a micrograph, and its stack."""
    read = [f"{session}/lowpass-picker/{stem}_autopick.star", f"{session}/extractor/{stem}.mrcs"]
    return [open(path, "rb").read() for path in read]


def fresh(work, stem, other):
    """The same of a session that has never seen another file of this name."""
    incoming, session = work("fresh"), work("fresh-session")
    os.makedirs(incoming)
    shutil.copy(other, f"{incoming}/{stem}.mrc")
    with Run(graph(work.path, micrographs=incoming), session, "--until-idle", "0.5") as live:
        live.finish(0)
    made = products(session, stem)
    shutil.rmtree(incoming)
    shutil.rmtree(session)
    return made


def case_flight(work):
    incoming, session = work("incoming"), work("session")
    other = f"{MICROGRAPHS}/{names()[50]}"
    path = graph(work.path, micrographs=incoming, extractor="lanes: 1")
    os.makedirs(incoming)
    with Run(path, session, "--hang-report", "1000", "--hang-kill", "1000") as live:
        wait_until(lambda: "extractor.0" in pids(session), 60, "the extractor runs", live)
        wait_until(lambda: os.path.exists(f"{session}/log/extractor.0.heartbeat.json"), 60, "and beats", live)
        stopped = pids(session)["extractor.0"]
        os.kill(stopped, signal.SIGSTOP)
        arrive(names()[:SOME], incoming)
        wait_until(lambda: done(session, "lowpass-picker") == SOME, 120, "all are picked", live)
        stems = sorted(os.path.splitext(name)[0] for name in os.listdir(incoming))
        replace(f"{incoming}/{stems[2]}.mrc", other)
        replace(f"{incoming}/{stems[4]}.mrc", f"{MICROGRAPHS}/{names()[4]}")  # the same content
        log = f"{session}/log/watcher.0.log"
        wait_until(lambda: open(log).read().count("replaced-since") == 2, 120, "the watcher sees both", live)
        os.kill(stopped, signal.SIGCONT)
        wait_until(
            lambda: ledger(session, "extractor", "SELECT COUNT(*) FROM items WHERE revision > 0 AND state = 1")
            == [(2,)],
            120,
            "both have begun again",
            live,
        )
        live.signal(signal.SIGINT)
        live.finish(0)
    totals = counts(session)["extractor"]
    check((totals["failed"], totals["done"]) == (0, SOME), f"{totals}: all are done")
    check(products(session, stems[2]) == fresh(work, stems[2], other), "picks and pixels are those of the new file")
    run("verify", "--session", session)


def case_done(work):
    """By a notice, and by a sweep alone."""
    for way, keys in (("notice", ""), ("sweep", "notices: false, poll: 0.2")):
        incoming, session = work(f"incoming-{way}"), work(f"session-{way}")
        other = f"{MICROGRAPHS}/{names()[50]}"
        arrive(names()[:SOME], incoming)
        with Run(graph(work.path, micrographs=incoming, watcher=keys), session) as live:
            wait_until(lambda: done(session, "extractor") == SOME, 120, "all are done", live)
            log = f"{session}/log/watcher.0.log"
            check("replaced-since" not in open(log).read(), f"{way}: nothing is replaced yet")
            replaced, dated = (os.path.splitext(name)[0] for name in sorted(os.listdir(incoming))[1:3])
            before = products(session, replaced)
            replace(f"{incoming}/{replaced}.mrc", other)
            os.utime(f"{incoming}/{dated}.mrc")  # nothing but a date
            wait_until(lambda: products(session, replaced) != before, 120, f"it begins again, by a {way}", live)
            wait_until(lambda: open(log).read().count("replaced-since") == 2, 120, "the other date is told", live)
            live.signal(signal.SIGINT)
            live.finish(0)
        check(products(session, replaced) == fresh(work, replaced, other), f"{way}: all of it is of the new file")
        again = ledger(session, "extractor", "SELECT id FROM items WHERE revision > 0")
        check(again == [(replaced,)], f"{way}: a new date alone begins nothing again {again}")
        totals = counts(session)["extractor"]
        check((totals["failed"], totals["done"]) == (0, SOME), f"{way}: {totals}: all are done")


with Work(f"replaced-{sys.argv[1]}") as work:
    {"flight": case_flight, "done": case_done}[sys.argv[1]](work)
    finish()
