#!/usr/bin/env python3
"""Takes file descriptors, the size of files, the standard streams and plain names away from a session. It must wait and
say for what, or refuse with a message that names the path. Once the limit is lifted it must end like an undisturbed
one, and no item may be blamed.

limits.py files | size | stdio | names"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time

from faults import (
    STAGES,
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
    program,
    read_products,
    run,
    wait_until,
    write,
)

COUNT = 12
OPTIONS = ("--backoff", "0.05", "--restarts", "1")
SMALL = names()[:COUNT]


def products(session, folder):
    folder = os.path.realpath(folder)
    return [
        read_products(session, stage, ending, folder)
        for stage, ending in (
            ("lowpass-picker", "_autopick.star"),
            ("extractor", "_extract.star"),
            ("extractor", ".mrcs"),
        )
    ]


def undisturbed(work):
    """Runs the micrographs without a limit; returns the folder and the products."""
    folder, session = work("in"), work("calm")
    arrive(SMALL, folder)
    with Run(graph(work.path, micrographs=folder), session, "--until-idle", "1") as live:
        live.finish(0)
    return folder, products(session, folder)


def unblamed(session, what):
    """Checks that nothing failed, and that no item was held to have crashed its stage."""
    found = counts(session)
    check(all(found[stage]["done"] == COUNT for stage in STAGES), f"{what}: all are done: {found}")
    for stage in STAGES:
        blamed = ledger(session, stage, "SELECT id FROM items WHERE crashes > 0")
        check(not blamed, f"{what}: {stage} blames no item: {blamed[:2]}")


def limited(kind, value):
    """Returns what sets a soft limit in a child, before it becomes the launcher."""
    return lambda: resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


def lift(kind, live):
    for pid in (live.pid, *pids(live.session).values()):
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, kind, (resource.prlimit(pid, kind)[1],) * 2)


def notes(session):
    """Returns the notes of the stages' heartbeats: what they wait for."""
    found = []
    for stage in STAGES:
        with contextlib.suppress(OSError, ValueError):
            found.append(json.load(open(f"{session}/log/{stage}.0.heartbeat.json"))["note"])
    return " ".join(found)


def tries(session):
    """Returns the most starts of a stage that ended because something was short."""
    most = 0
    for stage in STAGES:
        with contextlib.suppress(OSError):
            most = max(most, open(f"{session}/log/{stage}.0.log", errors="replace").read().count(" ERROR "))
    return most


def wait_out(work, folder, calm, kind, value, word):
    """Runs under a limit until something is said to be short, and for more tries than deaths would be forgiven; lifts
    the limit; and compares the end with that of an undisturbed run."""
    session, what = work(f"session-{value}"), f"limit {value}"
    with Run(graph(work.path, micrographs=folder), session, *OPTIONS, preexec_fn=limited(kind, value)) as live:
        wait_until(lambda: word in live.output() + notes(session), 120, f"{what}: the limit is named", live)
        wait_until(
            lambda: tries(session) >= 4 or "waits: " in notes(session) or live.says("ledger cannot be"),
            120,
            f"{what}: it waits",
            live,
        )
        check(live.poll() is None, f"{what}: the run lives on")
        wait_until(lambda: lift(kind, live) or done(session, "extractor") == COUNT, 120, f"{what}: it goes on", live)
        output = live.drain()
    check("gives up" not in output and "killed" not in output, f"{what}: nobody dies or gives up")
    check(products(session, folder) == calm, f"{what}: the products are the same")
    unblamed(session, what)


def files():
    """Too few descriptors for a stage's sockets, and for the connections of receivers that come later."""
    with Work("files") as work:
        folder, calm = undisturbed(work)
        for value in (20, 26):
            wait_out(work, folder, calm, resource.RLIMIT_NOFILE, value, "ulimit -n")
        short = graph(work.path, "short.yaml", micrographs=folder)
        said = subprocess.run(
            [program("icestream"), "run", short, "--session", work("short")],
            capture_output=True,
            text=True,
            preexec_fn=limited(resource.RLIMIT_NOFILE, 10),
        )
        check(
            said.returncode == 75 and "ulimit -n" in said.stderr,
            f"the launcher: {said.returncode}, {said.stderr[-160:]}",
        )
        accepted(work, folder)
        finish()


def accepted(work, folder):
    """A receiver connects when its sender has no descriptor left. The sender dies of it inside ZeroMQ; neither that
    nor the item in process counts."""
    session, more = work("accept"), work("more")
    arrive(SMALL[: COUNT // 2], more)
    kind = resource.RLIMIT_NOFILE
    with Run(graph(work.path, micrographs=more), session, *OPTIONS) as live:
        wait_until(lambda: done(session, "extractor") == COUNT // 2, 120, "half is done", live)
        before = pids(session)
        picker = before["lowpass-picker.0"]
        room = len(os.listdir(f"/proc/{picker}/fd")) - 4
        resource.prlimit(picker, kind, (room, resource.prlimit(picker, kind)[1]))
        os.kill(before["extractor.0"], signal.SIGKILL)
        died = False
        for _ in range(600):  # another libzmq may bear it and not die
            died = pids(session).get("lowpass-picker.0", picker) != picker
            if died:
                break
            time.sleep(0.1)
        lift(kind, live)
        arrive(SMALL[COUNT // 2 :], more)
        wait_until(lambda: done(session, "extractor") == COUNT, 120, "all is done", live)
        output = live.drain()
    check(not died or "lowpass-picker.0 cannot go on" in output, "the launcher says that something is short")
    unblamed(session, "a connection too many")


def size():
    """Too small a limit on the size of files: for ledgers, for stacks, and for the launcher's own files."""
    with Work("size") as work:
        folder, calm = undisturbed(work)
        for value in (40 << 10, 200 << 10):
            wait_out(work, folder, calm, resource.RLIMIT_FSIZE, value, "ulimit -f")
        said = subprocess.run(
            [program("icestream-extractor"), "--i", f"{work('calm')}/lowpass-picker/autopick.star", "--o", work("cut")]
            + ["--box", "32"],
            capture_output=True,
            text=True,
            cwd=work("calm"),
            preexec_fn=limited(resource.RLIMIT_FSIZE, 8 << 10),
        )
        check(said.returncode == 1 and "ulimit -f" in said.stderr, f"on files: {said.returncode}, {said.stderr[-200:]}")
        finish()


def stdio():
    """The standard streams are closed, in every combination, as daemons and careless scripts leave them."""
    with Work("stdio") as work:
        folder, calm = undisturbed(work)
        path = graph(work.path, micrographs=folder)
        for closed in ("<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"):
            session = work("".join(c if c.isdigit() else "io"["<>".find(c)] for c in closed if c in "<>2"))
            words = [program("icestream"), "run", path, "--session", session, "--until-idle", "1"]
            code = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *words]).returncode
            check(code == 0, f"{closed}: exit {code}")
            check(products(session, folder) == calm, f"{closed}: the products are the same")
            unblamed(session, closed)
        for stage, words in (
            ("lowpass-picker", ["--i", folder, "--diameter", "130", "--pixel_size", "6", "--lowpass", "40"]),
            ("extractor", ["--i", f"{work('calm')}/lowpass-picker/autopick.star", "--box", "32"]),
        ):
            words = [program(f"icestream-{stage}"), *words, "--o", work(f"{stage}-files")]
            code = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words], cwd=work("calm")).returncode
            check(code == 0, f"{stage} on files: exit {code}")
        finish()


def odd_names():
    """Watched folders and sessions whose names cannot stand in tables."""
    with Work("names") as work:
        arrive(SMALL[:1], work("in"))
        for name in (b"B\xe4r", b"a\nb", b"a\x1bb"):
            folder = os.fsencode(work.path) + b"/" + name
            os.mkdir(folder)
            path = write(work("g.yaml"), "session: {pixel_size: 6}\nstages:\n  watcher: {directory: in}\n")
            words = [os.fsencode(program("icestream")), b"check", os.fsencode(path)]
            said = subprocess.run([*words, b"--set", b"watcher.directory=" + folder], capture_output=True)
            text = said.stderr.decode()
            check(
                said.returncode == 2 and "watcher.directory" in text and "not UTF-8" in text and "plain name" in text,
                f"{name}: {said.returncode}, {text.strip()}",
            )
            os.symlink(folder, work("link"))
            run("check", path, "--set", f"watcher.directory={work('link')}")
            os.unlink(work("link"))
        words = [os.fsencode(program("icestream")), b"run", os.fsencode(path), b"--session"]
        said = subprocess.run([*words, os.fsencode(work.path) + b"/s\xe4"], capture_output=True)
        check(said.returncode == 2 and b"not UTF-8" in said.stderr, f"a session: {said.returncode}, {said.stderr}")
        finish()


cases = {"files": files, "size": size, "stdio": stdio, "names": odd_names}
if len(sys.argv) != 2 or sys.argv[1] not in cases:
    sys.exit(f"usage: limits.py {'|'.join(cases)}")
cases[sys.argv[1]]()
