#!/usr/bin/env python3
"""`icestream mark`: exposures and classes kept or rejected by hand. Each selection must hold exactly what the history of the
session says, also after the classifier or a mark was killed, and with several marks at once.

marks.py [live|kills [SEED]]"""

import glob
import json
import os
import signal
import subprocess
import sys
import time

from faults import (
    Run,
    Work,
    arrive,
    check,
    done,
    finish,
    graph,
    names,
    pids,
    program,
    run,
    same_numbers,
    seeded,
    star,
    status,
    wait_until,
)

CASE = sys.argv[1] if len(sys.argv) > 1 else "live"
COUNT = 6
CLASSIFIER = """\
  classifier: {from: extractor, classes: 3, diameter: 150, snapshot_interval: 0, minimum_particles: 10, visits: 4,
               keep: all, final_passes: 2}
"""


def mark(session, *words, expect=0):
    result = run("mark", "--session", session, *words, expect=expect)
    return result.stdout if expect == 0 else result.stderr


def rows(path):
    return {row["rlnImageName"]: row for row in star(path)["particles"]}


def extracted(session):
    """Returns all particles. The joined table comes a little later than those of the micrographs."""
    return {image for path in glob.glob(f"{session}/extractor/*_extract.star") for image in rows(path)}


def exposure(image):
    """Returns the exposure of "000001@extractor/mic_01.mrcs"."""
    return os.path.basename(image.split("@")[1])[: -len(".mrcs")]


def history(session):
    path = f"{session}/classifier/history.jsonl"
    lines = open(path).read().splitlines() if os.path.exists(path) else []
    return [json.loads(line) for line in lines]


def obeyed(session):
    """Returns the last change that the last selection obeys."""
    lines = history(session)
    return lines[-1].get("change", 0) if lines else -1


def changes(session):
    """Returns the changes, and checks that they are whole and numbered without a gap."""
    paths = sorted(glob.glob(f"{session}/changes/*.json"))
    read = [json.load(open(path)) for path in paths]
    check([one["number"] for one in read] == list(range(1, len(read) + 1)), f"{len(read)} changes, each once")
    return read


def expected(session):
    """Returns the particles that a selection with keep: all must hold."""
    marks, bound = {}, {}
    for change in changes(session):
        for entry in change.get("marks", []):
            marks[entry["id"]] = entry["mark"]
        for entry in change.get("choices", []):
            for image, row in rows(f"{session}/{change['members']}").items():
                if int(row["rlnClassNumber"]) in entry["classes"]:
                    bound[image] = entry["choice"]
    return {i for i in extracted(session) if marks.get(exposure(i)) != "reject" and bound.get(i) != "reject"}


def selected(session):
    return set(rows(f"{session}/classifier/latest_selected.star"))


def biggest(session):
    """Returns the last iteration, its class with most members, and these."""
    last = history(session)[-1]["iteration"]
    members = {}
    for image, row in rows(f"{session}/classifier/run_it{last:03d}_data.star").items():
        members.setdefault(int(row["rlnClassNumber"]), set()).add(image)
    k = max(members, key=lambda number: len(members[number]))
    return last, k, members[k]


def choose(session, verdict):
    """Chooses the biggest class of the last snapshot. Returns what biggest does, and what mark says. While a classifier
    works, a snapshot may be gone before it is read."""
    found = []

    def attempt():
        try:
            which = biggest(session)
        except FileNotFoundError:
            return False
        words = ("--session", session, verdict, "--iteration", which[0], "--classes", which[1])
        done_ = subprocess.run([program("icestream"), "mark", *map(str, words)], capture_output=True, text=True)
        check(done_.returncode == 0 or "there is no snapshot" in done_.stderr, f"mark {verdict}: {done_.stderr.strip()}")
        found[:] = (*which, done_.stdout)
        return done_.returncode == 0

    wait_until(attempt, 120, "a snapshot stays long enough to choose from it")
    return found


def begin(live, session):
    wait_until(lambda: done(session, "classifier") == COUNT, 120, "the classifier has all items", live)
    wait_until(lambda: history(session), 120, "there is a snapshot", live)


with Work(f"marks-{CASE}") as work:
    session, folder, chance = work("session"), work("inputs"), seeded(sys.argv[2] if len(sys.argv) > 2 else None)
    arrive(names()[:COUNT], folder)
    path = graph(work.path, micrographs=folder, more=CLASSIFIER)
    options = ("--restarts", "1000", "--backoff", "0.05")
    with Run(path, session, *options) as live:
        begin(live, session)
        ids = sorted({exposure(image) for image in extracted(session)})
        if CASE == "live":
            out = mark(session, "--reject", ids[0], "--why", "ice")
            check("change 1: 1 exposure rejected by hand" in out, f"mark says what it did: {out.strip()}")
            check("the next selection of particles obeys it" in out, "and when it counts")
            wait_until(lambda: obeyed(session) == 1, 120, "the classifier obeys the mark without a new particle", live)
            check(ids[0] not in {exposure(image) for image in selected(session)}, "the exposure's particles are left out")
            check(selected(session) == expected(session), "and only they")

            last, k, members, out = choose(session, "--reject")
            check(f"with {len(members)} particles" in out, f"the choice names its particles: {out.strip()}")
            wait_until(lambda: obeyed(session) == 2, 120, "the classifier obeys the choice", live)
            check(selected(session) == expected(session), "the members are left out")
            check(not selected(session) & members, "all of them")

            # A classifier that dies keeps what was chosen, and obeys what comes later, with no particle in between.
            before = pids(session, "classifier")
            os.kill(before["classifier.0"], signal.SIGKILL)
            wait_until(lambda: pids(session, "classifier") not in ({}, before), 120, "the classifier is back", live)
            mark(session, "--clear", ids[0])
            wait_until(lambda: obeyed(session) == 3, 120, "the classifier obeys a mark after its death", live)
            back = {i for i in extracted(session) - members if exposure(i) == ids[0]}
            check(back <= selected(session), f"{len(back)} particles of the exposure are back")
            check(selected(session) == expected(session) and not selected(session) & members, "the choice still binds")

            # Particles that come later follow the rule.
            arrive(names()[COUNT : COUNT + 1], folder)
            wait_until(lambda: done(session, "classifier") == COUNT + 1, 120, "another micrograph is there", live)
            live.drain()
            check(selected(session) == expected(session), "new particles follow the rule, the bound ones the choice")
            check(any(exposure(i) == names()[COUNT][:-4] for i in selected(session)), "and there are new particles")
        else:
            live.drain()

    if CASE == "live":
        check("the next run of the session obeys" in mark(session, "--reject", ids[1]), "marks wait for the next run")
        check("nothing has changed" in mark(session, "--reject", ids[1]), "the same mark again is no change")
        for words, text in (
            (("--reject", "nobody"), "no stage of"),
            (("--keep", "--iteration", "900", "--classes", "1"), "there is no snapshot of iteration 900"),
            (("--keep", "--iteration", history(session)[-1]["iteration"], "--classes", "1,99"), "has no class 99"),
            (("--keep", "--stage", "refiner", "--iteration", "1", "--classes", "1"), "has no classifier refiner"),
        ):
            err = mark(session, *words, expect=2)
            check(text in err, f"refused: {err.strip()}")
        known = status(session)["changes"]
        check([one["by"] for one in known] == ["mark"] * 4 and known[0]["marks"][0]["why"] == "ice", "status has them")
        told = [(one["id"], one["mark"], one["number"]) for one in status(session)["marks"]]
        check(told == [(ids[1], "reject", 4)], f"status has the marks that stand: {told}")
        items = {one["id"]: one.get("mark") for one in status(session)["items"]}
        check(items[ids[1]] == "reject" and items[ids[0]] is None, "and each item has its own")
        text = run("status", "--session", session, ids[1]).stdout
        check("rejected by hand" in text and "change 4" in text, f"status of an exposure has its mark: {text.strip()}")
        text = run("status", "--session", session).stdout
        check(f"rejected by hand: {ids[0]} (ice)" in text, "status shows the mark and its reason")
        check(f"rejected by hand: class {k} of iteration {last} of classifier" in text, "and the choice of classes")
        check(status(session)["stages"]["extractor"]["rejected"] == 0, "the ledgers' verdicts are not touched")

        # A copy of the session knows the marks and the particles.
        run("backup", "--session", session, "--to", work("copy"))
        copied = sorted(os.path.basename(one) for one in glob.glob(f"{work('copy')}/changes/*"))
        there = sorted(os.path.basename(one) for one in glob.glob(f"{session}/changes/*"))
        check(copied == there and "0002.star" in there, f"a backup has the changes: {copied}")
        check(status(work("copy"))["marks"] == status(session)["marks"], "and the marks")

        # A choice brings back the classes that the rule drops, and nothing else.
        run("set", "--session", session, 'classifier.keep=members > 1000000')
        mark(session, "--clear", "--iteration", last)
        last, k, members, _ = choose(session, "--keep")
        with Run(path, session, *options, "--until-idle", "1") as live:
            live.finish()
        kept = {image for image in members if exposure(image) != ids[1]}
        check(selected(session) == kept, f"a choice keeps {len(kept)} particles that the rule drops")
        check(history(session)[-1]["kept_by_hand"] == len(kept), "and the history counts them")
    else:
        # Many at once, some of them killed: each mark that said it is done is there, and each change is whole.
        last, k, members = biggest(session)
        several = [
            subprocess.Popen(
                [program("icestream"), "mark", "--session", session, "--reject", ids[n % 2], "--why", str(n)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for n in range(8)
        ]
        told = [(n, one.communicate(timeout=120)[0]) for n, one in enumerate(several)]
        check(all(one.returncode == 0 for one in several), "eight marks at once")
        reasons = {entry["why"] for change in changes(session) for entry in change["marks"]}
        check(reasons == {str(n) for n, _ in told}, f"each is in the history: {sorted(reasons)}")
        for turn in range(12):
            words = ("--reject", "--iteration", str(last), "--classes", str(k)) if turn % 2 else ("--keep", ids[turn % 3])
            victim = subprocess.Popen(
                [program("icestream"), "mark", "--session", session, "--why", f"turn {turn}", *words],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(chance.uniform(0, 0.05))  # the moment of a fault; the test waits for nothing here
            victim.kill()
            victim.wait()
        count = len(changes(session))
        mark(session, "--reject", ids[0], "--why", "the last")
        check(len(changes(session)) == count + 1, "marks go on after those that were killed")
        with Run(path, session, *options) as live:
            wait_until(lambda: obeyed(session) >= count + 1, 120, "the classifier obeys the last mark", live)
            check(selected(session) == expected(session), "the selection is that of the history")
            for turn in range(3):
                before = pids(session, "classifier")
                mark(session, "--keep" if turn % 2 else "--reject", ids[3], "--why", f"killed {turn}")
                time.sleep(chance.uniform(0, 0.5))  # as above
                if pids(session, "classifier") == before:
                    os.kill(before["classifier.0"], signal.SIGKILL)
                wait_until(lambda: pids(session, "classifier") not in ({}, before), 120, "the classifier is back", live)
            mark(session, "--reject", ids[4])
            number = len(changes(session))
            wait_until(lambda: obeyed(session) == number, 120, "the classifier obeys the last of them", live)
            check(selected(session) == expected(session), "no death lost or doubled a choice")
            live.drain()
        check(selected(session) == expected(session), "nor the end of the run")
    same_numbers(session)
    finish()
