#!/usr/bin/env python3
"""Flips bytes in products of a session that has ended, removes one and changes one. `icestream verify` must name each of
them, and nothing else."""

import fcntl
import glob
import json
import os
import random

from faults import Run, Work, arrive, check, finish, graph, names, run, same_numbers

SOME = 12
FLIPPED = 20


def verify(session, expect):
    """Returns {path: state} of what verify complains about, and the whole answer."""
    answer = json.loads(run("verify", "--session", session, "--json", expect=expect).stdout)
    return {entry["path"]: entry["state"] for entry in answer["files"] if entry["state"] != "unknown"}, answer


def flip(path):
    """Changes 20 bytes as a failing disk does: size and date stay."""
    before = os.stat(path)
    with open(path, "r+b") as file:
        at = random.Random(path).randrange(before.st_size - FLIPPED)
        file.seek(at)
        old = file.read(FLIPPED)
        file.seek(at)
        file.write(bytes(byte ^ 0x10 for byte in old))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def one(session, pattern, which=3):
    return sorted(glob.glob(f"{session}/{pattern}"))[which]


with Work("verify") as work:
    incoming, session = work("incoming"), work("session")
    more = "  classifier: {from: extractor, classes: 2, diameter: 150, snapshot_interval: 1}\n"
    path = graph(work.path, micrographs=incoming, picker="keep_maps: true", more=more)
    arrive(names()[:SOME], incoming)
    with Run(path, session, "--until-idle", "0.5") as live:
        live.finish(0)
    wrong, answer = verify(session, 0)
    check(wrong == {} and answer["unknown"] == 0, f"a whole session is whole: {wrong}")
    check(answer["whole"] > 6 * SOME and answer["bytes"] > 1e6, f"and {answer['whole']} files were read")

    kinds = {
        "picks": one(session, "lowpass-picker/*_autopick.star"),
        "stack": one(session, "extractor/*.mrcs"),
        "table": one(session, "extractor/*_extract.star"),
        "maps": max(glob.glob(f"{session}/lowpass-picker/*"), key=os.path.getsize),
        "joined table": f"{session}/extractor/particles.star",
        "class averages": one(session, "classifier/run_it*_classes.mrcs", -1),
        "input": one(incoming, "*.mrc"),
    }
    for kind, damaged in kinds.items():
        flip(damaged)
        name = os.path.relpath(damaged, session) if damaged.startswith(session + "/") else damaged
        wrong, _ = verify(session, 4)
        check(wrong == {name: "rotten"}, f"{kind}: {name} is rotten, and nothing else: {wrong}")
        flip(damaged)
    check(verify(session, 0)[0] == {}, "and whole again when the bytes are back")

    gone, longer = one(session, "extractor/*.mrcs", 5), one(session, "extractor/*.mrcs", 6)
    os.unlink(gone)
    with open(longer, "ab") as file:
        file.write(b"more")
    with open(f"{session}/extractor/notes.txt", "w") as file:
        file.write("of the user\n")
    wrong, answer = verify(session, 4)
    expected = {os.path.relpath(gone, session): "missing", os.path.relpath(longer, session): "changed"}
    check(wrong == expected, f"one is missing and one has changed: {wrong}")
    unknown = [entry["path"] for entry in answer["files"] if entry["state"] == "unknown"]
    check(unknown == ["extractor/notes.txt"], f"a file of the user is unknown: {unknown}")
    text = run("verify", "--session", session, expect=4).stdout
    check(all(word in text for word in ("missing", "changed", "unknown", "retry --lost")), "the text says the same")

    for broken in (gone, longer):
        if os.path.exists(broken):
            os.unlink(broken)
    run("retry", "--session", session, "--lost")
    with Run(path, session, "--until-idle", "0.5") as live:
        code = live.process.wait(120)
    check(code in (0, 3), f"the classifier may begin before its stacks are made anew: {code}")
    run("retry", "--session", session)
    with Run(path, session, "--until-idle", "0.5") as live:
        live.finish(0)
    check(verify(session, 0)[0] == {}, "retry --lost makes both anew")
    same_numbers(session)

    # A stage that runs removes files of earlier iterations before its ledger says so.
    own, made = f"{session}/extractor/particles.star", gone
    for path_away in (own, made):
        os.rename(path_away, path_away + ".away")
    ended, _ = verify(session, 4)
    with open(f"{session}/log/lock", "r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        running, answer = verify(session, 4)
    names_away = {os.path.relpath(own, session): "missing", os.path.relpath(made, session): "missing"}
    check(ended == names_away, f"both are missing: {ended}")
    check(answer["running"] and running == {os.path.relpath(made, session): "missing"}, f"while it runs one is: {running}")
    for path_away in (own, made):
        os.rename(path_away + ".away", path_away)
    finish()
