#!/usr/bin/env python3
"""Replaces a micrograph under its name while its item is on its way: picks of the old image and pixels of the new one must
never both stand. A copy with another date, but the same content, changes nothing. A micrograph that is replaced after it
was done is told.

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


def case_flight(work):
    incoming, session = work("incoming"), work("session")
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
        replace(f"{incoming}/{stems[2]}.mrc", f"{MICROGRAPHS}/{names()[50]}")
        replace(f"{incoming}/{stems[4]}.mrc", f"{MICROGRAPHS}/{names()[4]}")  # the same content
        os.kill(stopped, signal.SIGCONT)
        wait_until(
            lambda: counts(session)["extractor"]["in_flight"] == 0 and counts(session)["extractor"]["seen"] == SOME,
            120,
            "all are finished",
            live,
        )
        live.signal(signal.SIGINT)
        code = live.process.wait(120)
    totals = counts(session)["extractor"]
    reason = run("status", "--session", session).stdout
    log = open(f"{session}/log/extractor.0.log").read()
    stack = f"{session}/extractor/{stems[2]}.mrcs"
    check(code == 3 and (totals["failed"], totals["done"]) == (1, SOME - 1), f"{code}, {totals}: one has failed")
    check(f"{stems[2]}.mrc was replaced" in reason and "replaced" in log, f"and says why: {reason[-700:]}")
    check(not os.path.exists(stack), "nothing is made of old picks and new pixels")
    check(os.path.exists(f"{session}/extractor/{stems[4]}.mrcs"), "a new date alone is no new file")
    verdict = run("verify", "--session", session, expect=4).stdout
    check(f"{stems[2]}.mrc" in verdict and f"{stems[4]}.mrc" not in verdict, f"verify names it too: {verdict}")

    replace(f"{incoming}/{stems[2]}.mrc", f"{MICROGRAPHS}/{names()[2]}")
    run("retry", "--session", session)
    with Run(path, session, "--until-idle", "0.5") as live:
        live.finish(0)
    check(os.path.exists(stack), "with the old file back, retry makes it")
    run("verify", "--session", session)


def case_done(work):
    """By a notice, and by a sweep alone."""
    for way, keys in (("notice", ""), ("sweep", "notices: false, poll: 0.2")):
        incoming, session = work(f"incoming-{way}"), work(f"session-{way}")
        arrive(names()[:SOME], incoming)
        with Run(graph(work.path, micrographs=incoming, watcher=keys), session) as live:
            wait_until(lambda: done(session, "extractor") == SOME, 120, "all are done", live)
            log = f"{session}/log/watcher.0.log"
            check("replaced-since" not in open(log).read(), f"{way}: nothing is replaced yet")
            replaced = sorted(os.listdir(incoming))[1]
            replace(f"{incoming}/{replaced}", f"{MICROGRAPHS}/{names()[50]}")
            wait_until(lambda: "replaced-since" in open(log).read(), 120, f"the watcher notices it by a {way}", live)
            live.drain()
        lines = [line for line in open(log) if "replaced-since" in line]
        check(len(lines) == 1 and replaced in lines[0], f"{way}: one line, with its name: {lines}")
        check(replaced in run("verify", "--session", session, expect=4).stdout, f"{way}: verify names it too")


with Work(f"replaced-{sys.argv[1]}") as work:
    {"flight": case_flight, "done": case_done}[sys.argv[1]](work)
    finish()
