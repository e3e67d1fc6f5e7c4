#!/usr/bin/env python3
"""Stops a stage with SIGSTOP. The launcher must notice, and report it in `run` and `status`. The stage's items go to
another replica; its messages do no harm when it wakes. The only replica of a stage is killed and started again.

hang.py [SECONDS]: stops for at least this long, with the launcher's own limits. Without SECONDS the limits are shorter.
"""

import contextlib
import json
import os
import signal
import sqlite3
import sys
import time

from faults import (
    BIN,
    COUNT,
    Run,
    Work,
    arrive,
    calm,
    check,
    done,
    finish,
    graph,
    ledger,
    names,
    outcome,
    pids,
    run,
    same,
    seeded,
    wait_until,
    whole,
)

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 0
LIMITS = () if SECONDS else ("--hang-report", "4")  # longer than a busy machine delays a heartbeat
HALF = COUNT // 2
# Makes commits slow, so that a stop can hit the middle of one.
SLOW = {**os.environ, "LD_PRELOAD": os.path.join(BIN, "../tests/preload_disk.so"), "ICESTREAM_DISK_SLOW": "1"}


def held(session, stage, replica):
    return [r[0] for r in ledger(session, stage, "SELECT id FROM items WHERE state = 0 AND instance = ?1", replica)]


def unanswered(session, stage, instance):
    """Returns the items that the instance has finished, and whose receipt it has not heard of."""
    query = "SELECT DISTINCT id FROM outbox WHERE acknowledged IS NULL AND edge GLOB ?1"
    return [r[0] for r in ledger(session, stage, query, f"{instance}>*")]


def is_locked(session, stage):
    """Tells whether a process has locked the ledger for longer than a commit takes."""
    path = f"{session}/ledger/{stage}.sqlite"
    with contextlib.closing(sqlite3.connect(path, timeout=1, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return True
    return False


def stop_with_items(session, instance, incoming, chance, locking):
    """Stops an instance while it holds items. locking: whether it must be writing to the ledger at that moment. Returns
    the items."""
    stage, replica = instance.rsplit(".", 1)
    waiting = names()[HALF:]
    for count in range(HALF):
        arrive([waiting[count]], incoming)
        time.sleep(chance.uniform(0, 0.02))  # the moment of a fault; the test waits for nothing here
        pid = pids(session)[instance]
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T", 60, "it is stopped")
        items = held(session, stage, int(replica))
        if items and is_locked(session, stage) == locking:
            arrive(waiting[count + 1 :], incoming)
            return items
        os.kill(pid, signal.SIGCONT)
    raise AssertionError(f"{instance} never had anything to do")


def silence(session, instance):
    state = json.loads(run("status", "--session", session, "--json").stdout)
    stage = state["stages"][instance.rsplit(".", 1)[0]]
    return next(i.get("silent", 0) for i in stage["instances"] if i["name"] == instance)


def begin(work, name, *options, **keys):
    incoming, session = work(f"{name}-incoming"), work(name)
    arrive(names()[:HALF], incoming)
    path = graph(work.path, f"{name}.yaml", micrographs=incoming, **keys)
    return incoming, session, Run(path, session, *LIMITS, *options, env=SLOW)


def one_of_two(work, instance, chance):
    stage = instance.rsplit(".", 1)[0]
    keys = {"picker": "replicas: 2", "extractor": "replicas: 2"}
    incoming, session, live = begin(work, f"hang-{stage}", "--hang-kill", "1000", **keys)
    with live:
        wait_until(lambda: done(session, stage) >= 20, 60, "twenty items done", live)
        items = stop_with_items(session, instance, incoming, chance, False)
        stopped = time.monotonic()
        pid = pids(session)[instance]
        # What it has finished belongs to the next stage, and may still lie in its memory until it wakes.
        asleep = unanswered(session, stage, instance)
        wait_until(lambda: live.says(f"{instance} has not answered for"), 60, "the hang is reported", live)
        print(f"{instance} stopped with {len(items)} items, reported {time.monotonic() - stopped:.1f} s later")
        check(
            live.says("its items go to the other replicas"),
            f"{stage}: the launcher reports what it does with the items",
        )
        wait_until(lambda: silence(session, instance) > 1, 60, "status reports the silent instance", live)
        text = run("status", "--session", session).stdout
        check(f"{instance}: has not answered for" in text, f"{stage}: in words too")
        most = COUNT - len(asleep)
        wait_until(lambda: done(session, "extractor") >= most, 100, "all else is done by the other replica", live)
        print(f"all done but {len(asleep)}, which it had finished, {time.monotonic() - stopped:.1f} s after the stop")
        wait_until(lambda: time.monotonic() - stopped > SECONDS, SECONDS + 10, "it was stopped for long enough")
        os.kill(pid, signal.SIGCONT)
        wait_until(lambda: live.says(f"{instance} answers again"), 60, "it is reported that it answers again", live)
        output = live.drain()
    check("starting it again" not in output, f"{stage}: nobody was killed")
    attempts = dict(ledger(session, stage, "SELECT id, attempts FROM items"))
    check(all(attempts[item] == 2 for item in items), f"{stage}: each of its items was taken up by another")
    check(all(attempts[item] == 1 for item in attempts if item not in items), f"{stage}: and no others")
    same(calm(), outcome(session, incoming), stage)
    whole(session, stage)


def with_the_ledger(work, instance, chance):
    """A replica that is stopped while it writes to the ledger locks out the others. The only way is to kill it."""
    stage = instance.rsplit(".", 1)[0]
    keys = {"picker": "replicas: 2", "extractor": "replicas: 2"}
    incoming, session, live = begin(work, f"locked-{stage}", "--hang-kill", "1000", **keys)
    with live:
        wait_until(lambda: done(session, stage) >= 20, 60, "twenty items done", live)
        stop_with_items(session, instance, incoming, chance, True)
        wait_until(lambda: done(session, "extractor") == COUNT, 100, "all is done", live)
        output = live.drain()
    check(
        f"{instance} does not answer and blocks the ledger for the others: killing it" in output,
        f"{stage} with the ledger: killed",
    )
    same(calm(), outcome(session, incoming), f"{stage} with the ledger")
    whole(session, f"{stage} with the ledger")


def only_one(work, instance):
    stage = instance.rsplit(".", 1)[0]
    incoming, session, live = begin(work, f"only-{stage}", "--hang-kill", "1")
    with live:
        wait_until(lambda: done(session, stage) >= 20, 60, "twenty items done", live)
        pid = pids(session)[instance]
        os.kill(pid, signal.SIGSTOP)
        arrive(names()[HALF:], incoming)
        wait_until(lambda: done(session, "extractor") == COUNT, 100, "all is done", live)
        output = live.drain()
    check(
        f"{instance} has not answered for" in output and "it will be killed and started again in 1 s" in output,
        f"{stage} alone: reported",
    )
    check("its items go to" not in output, f"{stage} alone: there is nobody to take its items")
    check(f"{instance} was killed by signal 9" in output, f"{stage} alone: killed and started again")
    same(calm(), outcome(session, incoming), f"{stage} alone")
    whole(session, f"{stage} alone")


with Work("hang") as work:
    chance = seeded()
    one_of_two(work, "lowpass-picker.0", chance)
    with_the_ledger(work, "lowpass-picker.1", chance)
    only_one(work, "extractor.0")
    if SECONDS:
        one_of_two(work, "extractor.1", chance)
        only_one(work, "watcher.0")
        only_one(work, "lowpass-picker.0")
    finish()
