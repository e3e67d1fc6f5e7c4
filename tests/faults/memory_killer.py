#!/usr/bin/env python3
"""Plays the system's memory killer: whenever a stage works on certain items, it is killed by SIGKILL. These items must be
set aside, with a reason, and all others done, whatever the limit on restarts. A person who kills a healthy stage must never
cost an item.

memory_killer.py one       one item, while it is read, and while its products are written
memory_killer.py lanes     three items, among many lanes and replicas
memory_killer.py person    each process of a healthy stage is killed, again and again, with items finished between"""

import contextlib
import os
import signal
import sys

from faults import (
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
    program,
    run,
    wait_until,
)

LIBRARY = os.path.abspath(os.path.join(os.path.dirname(program("icestream")), "../tests/preload_poison.so"))
OPTIONS = ("--until-idle", "1", "--backoff", "0.05")


def poison(stage, *files):
    return {
        **os.environ,
        "LD_PRELOAD": LIBRARY,
        "ICESTREAM_FAULT_POISON": f"icestream-{stage}:{'|'.join(files)}",
        "ICESTREAM_FAULT_SIGNAL": str(int(signal.SIGKILL)),
    }


def some(work, count, name="in"):
    """Puts micrographs with picks into a folder. Returns the folder and their ids."""
    ids = sorted(name[: -len(".mrcs")] for name in calm()["stacks"])[:count]
    arrive([name for name in names() if os.path.splitext(name)[0] in ids], work(name))
    return work(name), ids


def killed(work, name, stage, bad, file, restarts, **keys):
    """Runs a session in which the items `bad` have their stage killed, and then again without the killer."""
    folder, ids = some(work, 24, f"{name}-in")
    bad = [ids[i] for i in bad]
    session, path = work(name), graph(work.path, f"{name}.yaml", micrographs=folder, **keys)
    files = [file.format(item) for item in bad]
    with Run(path, session, *OPTIONS, "--restarts", restarts, env=poison(stage, *files)) as live:
        output = live.finish(3)
    rows = ledger(session, stage, "SELECT id, state, reason FROM items")
    failed = {item: reason for item, state, reason in rows if state == 3}
    check(sorted(failed) == sorted(bad), f"{name}: these are set aside: {sorted(failed)}")
    check(all("while it worked on this item alone" in r and "Killed" in r for r in failed.values()), f"{failed}")
    check(sum(state == 1 for _, state, _ in rows) == len(ids) - len(bad), f"{name}: all others are done")
    check(all(f"{item} is set aside" in output for item in bad), f"{name}: the launcher says so")
    # Each death but these may have finished one of the other items.
    deaths = output.count("was killed by signal 9")
    check(deaths <= 6 * len(bad) + len(ids), f"{name}: {deaths} deaths for {len(bad)} items")
    text = "".join(open(os.path.join(session, "log", f)).read() for f in os.listdir(f"{session}/log") if stage in f)
    check("one-by-one" in text, f"{name}: the stage took its items one by one")
    run("retry", "--session", session)
    with Run(path, session, *OPTIONS) as live:
        live.finish(0)
    expected, found = calm(), outcome(session, folder)
    wrong = [item for item in ids if found["stacks"][f"{item}.mrcs"] != expected["stacks"][f"{item}.mrcs"]]
    check(not wrong, f"{name}: after the retry all is as undisturbed {wrong[:2]}")


def one():
    with Work("memory-killer") as work:
        killed(work, "read", "lowpass-picker", [11], "{}.mrc", 2)
        killed(work, "written", "extractor", [0], ".{}.mrcs.partial", 5)


def lanes():
    with Work("memory-killer-lanes") as work:
        killed(work, "lanes", "lowpass-picker", [3, 4, 15], "{}.mrc", 5, picker="lanes: 8")
        killed(work, "replicas", "lowpass-picker", [3, 4, 15], "{}.mrc", 5, picker="replicas: 2, lanes: 4")


def person():
    """Kills the extractor after every few items."""
    with Work("memory-killer-person") as work:
        folder, ids = some(work, 24)
        session = work("session")
        path = graph(work.path, micrographs=folder, extractor="lanes: 2")
        with Run(path, session, "--backoff", "0.05", "--restarts", "100") as live:
            target = 2
            while target < len(ids):
                wait_until(lambda: done(session, "extractor") >= target, 120, f"{target} are done", live)
                for pid in pids(session, "extractor").values():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                target = done(session, "extractor") + 2
            output = live.drain()
        check("is set aside" not in output, "no item is blamed")
        states = ledger(session, "extractor", "SELECT state, crashes FROM items")
        check(states == [(1, 0)] * len(ids), f"all are done: {set(states)}")


cases = {"one": one, "lanes": lanes, "person": person}
if len(sys.argv) != 2 or sys.argv[1] not in cases:
    sys.exit(f"usage: memory_killer.py {'|'.join(cases)}")
cases[sys.argv[1]]()
finish()
