#!/usr/bin/env python3
"""Sends many items through stages that do nothing, run by the launcher. The counts reconcile, nothing is done twice, no
process grows with the number of items, and replicas share the work.

many.py five ITEMS        a source and four stages in a row
many.py replicas ITEMS N  a source, a stage of N replicas that each take a few milliseconds, a stage that joins

CI runs it as a test with small numbers. With 100000 items it is the measurement in tests/benchmarks/RESULTS.md. Passing
never depends on time."""

import os
import re
import sqlite3
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../pipelines"))
from session import BIN, Work, check, finish, launch, run, status, stop, wait_until, write  # noqa: E402

WARM = 10000  # after this many items no process may grow any more
SLACK = 2048  # KiB that an allocator and its arenas may gain and lose
SOURCE, STAGE = (os.path.abspath(os.path.join(BIN, "../tests", name)) for name in ("null-source", "null-stage"))


def graph(items, stages):
    lines = [f"programs: [{SOURCE}, {STAGE}]", "stages:", f"  source: {{program: {SOURCE}, count: {items}}}"]
    before = "source"
    for name, keys in stages:
        lines.append(f"  {name}: {{from: {before}, program: {STAGE}{keys}}}")
        before = name
    return "\n".join(lines) + "\n"


def anonymous_kib(pid):
    """Returns the memory of a process without mapped files."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("RssAnon:"))
    except (OSError, StopIteration):
        return None  # the process has ended


def family(launcher):
    with open(f"/proc/{launcher}/task/{launcher}/children") as file:
        found = {int(pid): "" for pid in file.read().split()}
    for pid in found:
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                found[pid] = os.path.basename(file.read().split("\0")[2]).replace(".instance.json", "")
        except (OSError, IndexError):
            pass
    return {**found, launcher: "launcher"}


def query(session, stage, text, values=()):
    db = sqlite3.connect(f"file:{session}/ledger/{stage}.sqlite?mode=ro", uri=True, timeout=20)
    try:
        return db.execute(text, values).fetchall()
    finally:
        db.close()


def done(session, stage):
    try:
        return query(session, stage, "SELECT COUNT(*) FROM items WHERE state = 1")[0][0]
    except sqlite3.OperationalError:
        return 0  # the file does not exist yet


class Memory:
    """Records the largest memory of each process up to WARM items, and after."""

    def __init__(self):
        self.before, self.after, self.descriptors = {}, {}, {}

    def sample(self, launcher, passed):
        for pid, name in family(launcher).items():
            held = anonymous_kib(pid)
            if held is None or not name:
                continue
            into = self.before if passed < WARM else self.after
            into[name] = max(into.get(name, 0), held)
            try:
                self.descriptors[name] = max(self.descriptors.get(name, 0), len(os.listdir(f"/proc/{pid}/fd")))
            except OSError:
                pass

    def report(self, items):
        for name in sorted(self.before):
            grown = self.after.get(name, 0) - self.before[name]
            if items >= 3 * WARM:
                check(
                    grown <= SLACK,
                    f"{name}: {self.before[name]} KiB up to {WARM} items, {self.after.get(name, 0)} after",
                )


def carry(work, text, items, last):
    """Runs the graph to its end. Returns the session, the memory and the seconds."""
    session, memory = work("session"), Memory()
    begin = time.monotonic()
    live = launch("run", write(work("graph.yaml"), text), "--session", session)
    try:

        def ended():
            memory.sample(live.pid, done(session, last))
            return live.poll() is not None

        wait_until(ended, 60 + items / 200, "the end of the run")
        check(live.returncode == 0, f"exit {live.returncode}")
    finally:
        stop(live)
    return session, memory, time.monotonic() - begin


def silences(session):
    """Returns stages that the launcher has found silent."""
    with open(f"{session}/log/icestream.log") as log:
        return {found.group(1) for found in re.finditer(r"(\S+)\.\d+ (?:has not answered|does not answer)", log.read())}


def check_counts(session, stages, items):
    begin = time.monotonic()
    text = run("status", "--session", session).stdout
    took = time.monotonic() - begin
    begin = time.monotonic()
    counted = status(session)["stages"]
    full = time.monotonic() - begin
    for name in ("source", *stages):
        state = counted[name]
        check((state["seen"], state["done"]) == (items, items), f"{name}: {state['done']} of {state['seen']} done")
        check(f"{name:20} {items:8} {items:8}" in text, f"{name}: the printed table has the same counts")
        (attempts,) = query(session, name, "SELECT COUNT(*) FROM items WHERE attempts > 1")[0]
        # If the machine's disk stopped for longer than --hang-report, items of silent stages go to other replicas.
        silent = name in silences(session)
        check(
            attempts == 0 or silent, f"{name}: {attempts} items were begun twice{' after a silence' if silent else ''}"
        )
    for name in ("source", *stages[:-1]):
        sent = query(session, name, "SELECT COUNT(*), COUNT(DISTINCT id), SUM(verdict = 'done') FROM outbox")[0]
        check(sent == (items, items, items), f"{name}: sent, different, acknowledged {sent}")
    return took, full


def five(work, items):
    stages = ["one", "two", "three", "four"]
    session, memory, seconds = carry(work, graph(items, [(name, "") for name in stages]), items, "four")
    table, everything = check_counts(session, stages, items)
    memory.report(items)
    size = sum(os.path.getsize(f"{session}/ledger/{name}.sqlite") for name in ("source", *stages))
    print(
        f"{items} items through five stages in {seconds:.1f} s, {items / seconds:.0f}/s; ledgers {size / 1e6:.1f} MB, "
        f"{size / items:.0f} bytes an item; status {table:.2f} s, status --json {everything:.2f} s; "
        f"load {os.getloadavg()[0]:.1f}"
    )
    print("KiB at most:", ", ".join(f"{n} {max(v, memory.after.get(n, 0))}" for n, v in sorted(memory.before.items())))


def replicas(work, items, count):
    stages = ["wide", "joined"]
    # The source continues until all replicas have had work, so the time to start them does not matter.
    text = graph(
        f"{items}, meet: {count}", [("wide", f", replicas: {count}, meet: {count}, work: 0.005"), ("joined", "")]
    )
    session, memory, seconds = carry(work, text, items, "joined")
    items = done(session, "source")
    check_counts(session, stages, items)
    shares = [row[0] for row in query(session, "wide", "SELECT COUNT(*) FROM items GROUP BY instance")]
    check(len(shares) == count, f"{len(shares)} of {count} replicas had work")
    (again,) = query(session, "source", "SELECT COUNT(*) FROM outbox WHERE acknowledged IS NULL")[0]
    check(again == 0, f"{again} not acknowledged")
    first, last = query(session, "wide", "SELECT MIN(time_seen), MAX(time_changed) FROM items")[0]
    print(
        f"{items} items through {count} replicas in {seconds:.1f} s, {items / (last - first):.0f}/s from the first to the "
        f"last; shares {min(shares)} to "
        f"{max(shares)}; descriptors at most {max(memory.descriptors.values())}; load {os.getloadavg()[0]:.1f}"
    )


what, number = sys.argv[1], int(sys.argv[2])
with Work("many") as work:
    if what == "five":
        five(work, number)
    else:
        replicas(work, number, int(sys.argv[3]))
    finish()
