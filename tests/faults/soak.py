#!/usr/bin/env python3
"""Runs a session for many minutes: `soak.py [MINUTES [PER_SECOND]]`. Micrographs come at a steady pace. In the second
half, stages and the launcher are killed at random. The script records memory and descriptors of every process, the
ledgers and the files of the session. They must not grow without need."""

import glob
import json
import os
import signal
import sys
import time

from alone import now, put, resident
from faults import MICROGRAPHS, Run, Work, check, counts, done, finish, graph, names, pids, seeded, star, wait_until

MINUTES = float(sys.argv[1]) if len(sys.argv) > 1 else 0.5
PACE = float(sys.argv[2]) if len(sys.argv) > 2 else 10
STEP = min(10, MINUTES * 60 / 20)  # s between samples


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def bytes_of(pattern):
    return sum(os.path.getsize(path) for path in glob.glob(pattern) if os.path.exists(path))


class Soak:
    def __init__(self, work):
        self.work, self.session, self.choice = work, work("session"), seeded()
        self.graph = graph(work.path, micrographs=work("raw"), watcher="settle: 0.5, poll: 1")
        with open(os.path.join(MICROGRAPHS, names()[0]), "rb") as file:
            self.content = file.read()
        self.fed, self.kills, self.curve, self.live = 0, 0, [], None

    def start(self):
        self.live = Run(self.graph, self.session, "--restarts", 20, "--log-size", 0.25)

    def feed(self, until):
        """Feeds micrographs at the pace until a time, and samples at intervals."""
        begin, first, look = now(), self.fed, now() + STEP
        while now() < until:
            put(self.work("raw"), f"mic_{self.fed:07d}.mrc", self.content)
            self.fed += 1
            if now() >= look:
                look += STEP
                yield self.look()
            time.sleep(max(0, begin + (self.fed - first) / PACE - now()))

    def look(self):
        row = {
            "time": now(),
            "fed": self.fed,
            "done": done(self.session, "extractor"),
            "kills": self.kills,
            "ledgers": bytes_of(f"{self.session}/ledger/*.sqlite"),
            "wal": bytes_of(f"{self.session}/ledger/*-wal"),
            "logs": bytes_of(f"{self.session}/log/*.log*"),
        }
        for name, pid in {**pids(self.session), "icestream": self.live.pid}.items():
            try:
                row[name] = [resident(pid), descriptors(pid)]
            except (OSError, AttributeError):
                pass
        self.curve.append(row)
        print(json.dumps(row), flush=True)
        return row

    def kill_one(self):
        found = pids(self.session)
        if self.kills % 10 == 9 or not found:
            self.live.kill()
            self.start()
        else:
            os.kill(found[self.choice.choice(sorted(found))], signal.SIGKILL)
        self.kills += 1


def compare(soak, calm):
    """Returns samples from the end of the first third to the end of the undisturbed part."""
    first, last = calm[len(calm) // 3], calm[-1]
    items = last["done"] - first["done"]
    for name in ("watcher.0", "lowpass-picker.0", "extractor.0", "icestream"):
        grown, more = last[name][0] - first[name][0], last[name][1] - first[name][1]
        print(
            f"{name}: {first[name][0]} KiB and {first[name][1]} descriptors at {first['done']} items, {last[name][0]} and "
            f"{last[name][1]} at {last['done']}"
        )
        check(grown < 2000 + 2 * items, f"{name}: {grown} KiB more after {items} more items")
        check(more <= 2, f"{name}: {more} descriptors more")
    check(max(row["wal"] for row in calm) < 64 << 20, "the ledgers' journals are bounded")
    print(f"ledgers: {last['ledgers'] / last['done']:.0f} bytes an item of three stages")


with Work("soak") as work:
    soak = Soak(work)
    os.makedirs(work("raw"))
    soak.start()
    try:
        middle, end = now() + MINUTES * 30, now() + MINUTES * 60
        list(soak.feed(middle))
        calm = list(soak.curve)
        for row in soak.feed(end):
            soak.kill_one()
        wait_until(
            lambda: pids(soak.session) and done(soak.session, "extractor") == soak.fed, 120, "all is done", soak.live
        )
        soak.look()
        soak.live.signal(signal.SIGINT)
        soak.live.finish(0)
    finally:
        soak.live.__exit__(None, None, None)
    compare(soak, calm)
    found = counts(soak.session)
    check(all(f["done"] == f["seen"] == soak.fed for f in found.values()), f"{soak.kills} kills: {found}")
    rows = star(f"{soak.session}/lowpass-picker/autopick.star")["coordinate_files"]
    check(
        len({row["rlnMicrographName"] for row in rows}) == len(rows) == soak.fed, f"autopick.star has {len(rows)} rows"
    )
    left = [p for p in glob.glob(f"{soak.session}/**/.*", recursive=True) if os.path.isfile(p)]
    check(len(left) <= soak.kills, f"{len(left)} unfinished files were left behind, at most one a kill")
    sizes = soak.look()
    check(sizes["logs"] < 4 * 5 * 0.26 * 2**20 + 2**20, f"logs have {sizes['logs']} bytes")
    finish()
