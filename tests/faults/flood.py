#!/usr/bin/env python3
"""Feeds more files than a session can process.

flood.py start [COUNT]                       thousands are there at the start
flood.py faster ORDER [SECONDS] [blind]      files come faster than the stages process them, for the whole run"""

import os
import signal
import sys
import threading
import time

from alone import environment, now, put, relays, resident, start
from faults import Work, check, counts, done, finish, ledger, pids, seeded, wait_until

WINDOW_MOST = 64
LATE = 40  # number of sends
SLICE = 0.45  # s; stages/watcher/watcher.c sweeps for 0.5 s between two files


def emitted(session):
    """Returns names in the order in which the watcher sent them, with the time of each."""
    return ledger(session, "watcher", "SELECT id, time_seen FROM items ORDER BY number")


def sent_too_soon(sent, begin):
    """Counts the first files that may have been sent before the watcher knew all. The first sweep of a large folder, or on a
    slow machine, is cut into slices, and the watcher hands out one file after each: never more files than slices."""
    for place, (_, seen) in enumerate(sent):
        if seen - begin < SLICE * (place + 1):
            return place
    return len(sent)


def there_at_the_start(work, count, choice):
    session = work("session")
    order = list(range(count))
    choice.shuffle(order)
    dates = {}
    for place, i in enumerate(order):
        put(work("raw", f"{i % 7}"), f"mic_{i:06d}.mrc", date=1e9 + place)
        dates[f"{i % 7}/mic_{i:06d}"] = place
    graph = relays(work, "settle: 0", "lanes: 16")
    begin, clock = now(), time.time()
    with start(work, graph, "--until-idle", 1, env=environment(work)) as live:
        wait_until(lambda: done(session, "relay") > 0, 100, "the first is done", live)
        seen = now() - begin
        watcher = pids(session)["watcher.0"]
        early = resident(watcher)
        peak = 0
        while live.poll() is None:
            try:
                peak = max(peak, resident(watcher))
            except (OSError, AttributeError):
                pass
            time.sleep(0.1)
        took = now() - begin
        live.finish(0)
    size = sum(os.path.getsize(os.path.join(session, "ledger", name)) for name in os.listdir(f"{session}/ledger"))
    print(
        f"{count} files: the first seen to be done after {seen:.2f} s, all after {took:.1f} s ({count / took:.0f}/s); watcher "
        f"{early} KiB at first, {peak} KiB at most; ledgers {size / count:.0f} bytes a file",
        flush=True,
    )
    (first,) = ledger(session, "relay", "SELECT MIN(time_changed) FROM items")[0]
    (others,) = ledger(session, "watcher", "SELECT COUNT(*) FROM items WHERE time_seen > ?", first)[0]
    check(others > count / 2, f"the first does not wait for the others: {others} were taken in after it was done")
    check(peak < early + 8000 + count // 2, "memory of the watcher is bounded")
    sent = emitted(session)
    places, soon = [dates[name] for name, _ in sent], sent_too_soon(sent, clock)
    check(soon < count / 10, f"{soon} at the most were sent during the first sweep")
    check(places[soon:] == sorted(places[soon:]), "of the files that are known the oldest comes first")
    check(sorted(places) == list(range(count)), "each file was sent once")
    check(all(f["done"] == f["seen"] == count for f in counts(session).values()), f"{counts(session)}")


class Feed(threading.Thread):
    """Writes files at a steady pace until stopped. Records when each came."""

    def __init__(self, folder, pace):
        super().__init__(daemon=True)
        self.folder, self.pace, self.came, self.over = folder, pace, [], threading.Event()

    def run(self):
        begin = time.time()
        while not self.over.is_set():
            name = f"mic_{len(self.came):06d}"
            put(self.folder, name + ".mrc", date=1e9 + len(self.came))
            self.came.append(time.time())
            self.over.wait(max(0, begin + len(self.came) / self.pace - time.time()))


def out_of_order(sent, came, order, late):
    """Counts files that were sent although an older (newer) file had been there while `late` others were sent. So many
    sends are more than a file that is already chosen, or the next sweep, can need. The test counts sends instead of
    seconds, because sends are as slow as the machine."""
    wrong, waiting, arrived, gone = 0, [], 0, set()
    for place, (name, _) in enumerate(sent):
        number = int(name.split("_")[1])
        while place >= late and arrived < len(came) and came[arrived] < sent[place - late][1]:
            if arrived not in gone:
                waiting.append(arrived)
            arrived += 1
        if waiting:
            wrong += waiting[-1] > number if order == "newest" else waiting[0] < number
        gone.add(number)
        if number in waiting:
            waiting.remove(number)
    return wrong


def faster(work, order, seconds, blind):
    session = work("session")
    graph = relays(work, f"order: {order}, settle: 0, poll: 0.3", "work: 0.04, lanes: 2")
    env = environment(work, "inotify", ICESTREAM_FAULT_INOTIFY="deaf") if blind else environment(work)
    feed = Feed(work("raw"), 250)
    os.makedirs(work("raw"))
    with start(work, graph, env=env) as live:
        feed.start()
        wait_until(lambda: done(session, "relay") >= 20, 100, "it has begun", live)
        found = pids(session)
        first = {name: resident(pid) for name, pid in found.items()}
        most, most_waiting, end = dict(first), 0, now() + seconds
        while now() < end:
            for name, pid in found.items():
                most[name] = max(most[name], resident(pid))
            rows = ledger(session, "watcher", "SELECT COUNT(*) FROM outbox WHERE acknowledged IS NULL")
            most_waiting = max(most_waiting, rows[0][0])
            time.sleep(0.1)
        feed.over.set()
        feed.join()
        finished = done(session, "relay")
        live.signal(signal.SIGINT)
        live.finish(0)
    print(
        f"{len(feed.came)} came, {finished} were done by then; KiB at first {first}, at most {most}; at most {most_waiting} "
        "were on their way",
        flush=True,
    )
    check(finished < len(feed.came) / 2, "files came faster than they were processed")
    check(most_waiting <= WINDOW_MOST, "the window holds the watcher back")
    for name, size in most.items():
        # The watcher remembers the name of each file that came, and nothing else about it.
        allowed = 8000 + (0.3 * len(feed.came) if name.startswith("watcher") else 0)
        check(size < first[name] + allowed, f"{name}: memory is bounded ({first[name]} to {size} KiB)")
    wrong = out_of_order(emitted(session), feed.came, order, LATE)
    check(wrong == 0, f"{order} first: {wrong} were sent out of order")
    check(all(f["done"] == f["seen"] for f in counts(session).values()), f"drained: {counts(session)}")


case, rest = sys.argv[1], sys.argv[2:]
with Work("flood") as work:
    choice = seeded()
    if case == "start":
        there_at_the_start(work, int(rest[0]) if rest else 10000, choice)
    else:
        faster(work, rest[0], float(rest[1]) if len(rest) > 1 else 4, "blind" in rest)
    finish()
