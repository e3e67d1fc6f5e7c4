#!/usr/bin/env python3
"""Deletes files between two runs of a session: the particle table of a done item, the classifier's last snapshot, and
then all snapshots. The session must continue with the rest and report the loss. It must be whole again when the table
is repaired and retried."""

import glob
import os
import subprocess

from faults import Work, arrive, check, counts, done, finish, graph, names, program, run, star

SOME = 60
CLASSIFIER = "  classifier: {from: extractor, classes: 2, diameter: 150, snapshot_interval: 1}\n"


def go(path, session, *options):
    words = [program("icestream"), "run", path, "--session", session, "--until-idle", "0.5", *options]
    return subprocess.run(words, capture_output=True, text=True, timeout=100)


def classified(session):
    """Returns names of the particles in the newest snapshot."""
    newest = max(glob.glob(f"{session}/classifier/run_it*_data.star"))
    return sorted(row["rlnImageName"] for row in star(newest)["particles"])


def log(session, stage="classifier"):
    with open(f"{session}/log/{stage}.0.log", errors="replace") as text:
        return text.read()


def joined(session):
    """Returns names of the particles in the extractor's joined table."""
    return sorted(row["rlnImageName"] for row in star(f"{session}/extractor/particles.star")["particles"])


def snapshots(session):
    return sorted(glob.glob(f"{session}/classifier/run_it*_model.star"))


with Work("reread") as work:
    incoming, session = work("incoming"), work("session")
    path = graph(work.path, micrographs=incoming, more=CLASSIFIER)
    arrive(names()[:SOME], incoming)
    check(go(path, session).returncode == 0, "the first run ends well")
    whole = classified(session)
    check(done(session, "classifier") == SOME and whole, "with all particles")

    table = sorted(glob.glob(f"{session}/extractor/**/*_extract.star", recursive=True))[3]
    stem = os.path.basename(table)[: -len("_extract.star")]
    good = open(table, "rb").read()
    os.truncate(table, len(good) - 20)
    os.truncate(snapshots(session)[-1], 300)
    answer = go(path, session)
    print(answer.stderr[-2000:])
    check(answer.returncode == 3, "one item has failed after all, the rest goes on")
    totals = counts(session)["classifier"]
    check((totals["done"], totals["failed"], totals["seen"]) == (SOME - 1, 1, SOME), f"and is counted so: {totals}")
    check(os.path.basename(table) in log(session) and "cannot be read again" in log(session), "the log names its table")
    check("not-restored" in log(session), "and the snapshot that is broken")
    missing = set(whole) - set(classified(session))
    check(missing and all(stem in name for name in missing), "its particles alone are missing")
    check(set(joined(session)) == set(whole) - missing, "in the joined table as well")
    check("particles-unreadable" in log(session, "extractor"), "and its stage logs this")

    with open(table, "wb") as file:
        file.write(good)
    run("retry", "--session", session)
    check(go(path, session).returncode == 0, "once the table is mended and retried, all is well")
    check(
        classified(session) == joined(session) == whole and done(session, "classifier") == SOME,
        "and nothing is missing",
    )

    for model in snapshots(session):
        os.truncate(model, 0)
    arrive(names()[SOME : SOME + 5], incoming)
    check(go(path, session).returncode == 0, "without any snapshot the classifier begins anew")
    check(
        set(whole) < set(classified(session)) and done(session, "classifier") == SOME + 5,
        "with all that was there, and all that came",
    )
    finish()
