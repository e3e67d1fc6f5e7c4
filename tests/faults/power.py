#!/usr/bin/env python3
"""Simulates power cuts. A session resumes from the content of the disk at a random instant, and must end like an
undisturbed one.

power.py copy [INSTANTS]     the session's folder as it is at an instant
power.py synced [INSTANTS]   only files' contents and folders' entries that were synced by then (preload_power.c)
power.py mixed [INSTANTS]    for each file and entry either the synced state, or the last write, or a part of it"""

import glob
import os
import shutil
import signal
import sys
import time

from faults import (
    BIN,
    COUNT,
    Run,
    Work,
    calm,
    check,
    done,
    finish,
    graph,
    ledger,
    outcome,
    pids,
    same,
    seeded,
    wait_until,
    whole,
)

PRELOAD = os.path.join(BIN, "../tests/preload_power.so")


def resume(work, session, undisturbed, what):
    """Resumes a copy of the session elsewhere, to the end."""
    with Run(graph(work.path), session, "--until-idle", "0.5") as live:
        live.finish(0)
    now = outcome(session)
    before = check.failed
    same(undisturbed, now, what)
    whole(session, what)
    if check.failed == before:
        shutil.rmtree(session)


def is_stopped(pid):
    """Returns whether all threads are stopped. A thread that waits for the disk stops only after the wait."""
    states = (open(path).read().rsplit(")", 1)[1].split()[0] for path in glob.glob(f"/proc/{pid}/task/*/stat"))
    return all(state == "T" for state in states)


def case_copy(instants, work, chosen, undisturbed):
    targets = sorted(chosen.randrange(COUNT) for _ in range(instants))
    session = work("session")
    with Run(graph(work.path), session) as live:
        for i, target in enumerate(targets):
            wait_until(lambda: done(session, "extractor") >= target, 60, f"{target} are done", live)
            time.sleep(0.05 * chosen.random())  # a random instant; the test does not wait for anything here
            all_of_them = [live.pid, *pids(session).values()]
            for pid in all_of_them:
                os.kill(pid, signal.SIGSTOP)
            wait_until(lambda: all(is_stopped(pid) for pid in all_of_them), 60, "all stand still")
            shutil.copytree(session, work(f"copy{i}"), symlinks=True, ignore=shutil.ignore_patterns("sockets"))
            for pid in all_of_them:
                os.kill(pid, signal.SIGCONT)
        wait_until(lambda: done(session, "extractor") == COUNT, 100, "all are done", live)
        live.drain()
    same(undisturbed, outcome(session), "the session that was copied")
    for i, target in enumerate(targets):
        resume(work, work(f"copy{i}"), undisturbed, f"copied at {target}")


class Disk:
    """Rebuilds the disk after a cut from the library's copies (shadow). In mixed mode, some entries come from the last
    state instead."""

    def __init__(self, shadow, chosen, mixed):
        self.shadow, self.chosen, self.mixed = shadow, chosen, mixed

    def kept(self, kind, name):
        path = os.path.join(self.shadow, kind, name)
        return path if os.path.exists(path) else None

    def flip(self):
        return self.mixed and self.chosen.random() < 0.5

    def folder(self, identity, real, target):
        """Rebuilds a folder from its synced entries. real: the folder as it was in memory, or None."""
        os.makedirs(target)
        listing, path = {}, self.kept("folders", identity)
        for line in open(path) if path else ():
            kind, entry, name = line.rstrip("\n").split(" ", 2)
            listing[name] = (kind, entry)
        there = set(os.listdir(real)) if real and os.path.isdir(real) else set()
        for name in sorted(listing.keys() | (there if self.mixed else set())):
            if name.endswith("-shm") or name == "sockets":  # shared memory; nobody listens any more
                continue
            own = os.path.join(real, name) if name in there else None
            if name not in listing:
                if self.flip():
                    self.memory(own, os.path.join(target, name))
                continue
            if name not in there and self.flip():
                continue  # its removal reached the disk
            kind, entry = listing[name]
            if kind == "d":
                self.folder(entry, own, os.path.join(target, name))
            else:
                self.file(entry, own, os.path.join(target, name))

    def file(self, identity, own, target):
        path = self.kept("files", identity)
        if own and os.path.isfile(own) and self.flip():
            self.memory(own, target)
        elif path:
            shutil.copyfile(path, target)
        else:
            open(target, "w").close()  # the name reached the disk, its content did not

    def memory(self, own, target):
        """Returns the content that was in memory. Data after the last sync may be incomplete."""
        if os.path.isdir(own):
            os.makedirs(target)
            return
        shutil.copyfile(own, target)
        kept = [os.path.getsize(p) for p in glob.glob(f"{self.shadow}/files/{os.stat(own).st_ino}-*")]
        length, safe = os.path.getsize(own), max(kept, default=0)
        if safe < length and self.flip():
            os.truncate(target, self.chosen.randrange(safe, length))


def case_synced(instants, work, chosen, undisturbed, mixed=False):
    for i in range(instants):
        disk, shadow = work(f"disk{i}"), work(f"shadow{i}")
        for path in (disk, *(os.path.join(shadow, kind) for kind in ("files", "folders", "locks"))):
            os.makedirs(path)
        session, target = os.path.join(disk, "session"), chosen.randrange(COUNT - 5)
        environment = {
            **os.environ,
            "LD_PRELOAD": PRELOAD,
            "ICESTREAM_POWER_DISK": os.path.realpath(disk),
            "ICESTREAM_POWER_SHADOW": shadow,
        }
        with Run(graph(work.path), session, "--until-idle", "2", env=environment) as live:
            wait_until(lambda: done(session, "extractor") >= target, 60, f"{target} are done", live)
            time.sleep(0.05 * chosen.random())  # a random instant; the test does not wait for anything here
            for pid in (live.pid, *pids(session).values()):
                os.kill(pid, signal.SIGKILL)
            live.kill()
        Disk(shadow, chosen, mixed).folder("root", disk, work(f"after{i}"))
        after = os.path.join(work(f"after{i}"), "session")
        kept = {stage: done(after, stage) for stage in ("watcher", "lowpass-picker", "extractor")}
        was = {stage: done(session, stage) for stage in kept}
        check(True, f"instant {i}: done were {was}, kept are {kept}")
        missing = [
            row[0]
            for row in ledger(after, "lowpass-picker", "SELECT id FROM items WHERE state = 1")
            if not os.path.getsize(f"{after}/lowpass-picker/{row[0]}_autopick.star")
        ]
        check(not missing, f"instant {i}: what is done has its products {missing[:3]}")
        if not mixed:
            check(kept["extractor"] >= target, f"instant {i}: nothing that was acknowledged is lost")
        resume(work, after, undisturbed, f"instant {i}")
        shutil.rmtree(disk)
        shutil.rmtree(shadow)


def case_mixed(*arguments):
    case_synced(*arguments, mixed=True)


cases = {name[5:]: function for name, function in globals().items() if name.startswith("case_")}
if len(sys.argv) < 2 or sys.argv[1] not in cases:
    sys.exit(__doc__)
with Work(f"power-{sys.argv[1]}") as folder:
    cases[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 2, folder, seeded(), calm())
    finish()
