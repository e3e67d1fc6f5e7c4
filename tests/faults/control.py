#!/usr/bin/env python3
"""Checks POST /api/control on a session that runs, by a program that calls the same function without a server: marks,
classes, rules, values, retry, redo, drain and stop. Each deed stands in the one history, with who asked for it.

control.py TOOL"""

import json
import os
import subprocess
import sys

from faults import BIN, Run, Work, arrive, check, done, finish, graph, ledger, names, run, star, status, wait_until

TOOL = sys.argv[1]
COUNT = 4
PICKER = "lowpass-picker"
CLASSIFIER = """\
  classifier: {from: extractor, classes: 3, diameter: 150, snapshot_interval: 0, minimum_particles: 10, visits: 4,
               keep: all, final_passes: 2}
"""


def ask(session, **body):
    """Returns the answer to a body."""
    # The tool does not lie beside the stages' programs.
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    words = [TOOL, session, json.dumps(body)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment)
    check(result.returncode == 0, f"{body}: {result.stdout.strip()} {result.stderr.strip()}")
    return json.loads(result.stdout)


def refused(session, code, text, body):
    answer = ask(session, **body)
    check(not answer["ok"] and answer["code"] == code and text in answer["message"], f"refused: {answer['message']}")


def history(session):
    return status(session)["changes"]


def in_force(session):
    return all(one["in_force"] for one in history(session))


def snapshots(session):
    path = f"{session}/classifier/history.jsonl"
    return [json.loads(line) for line in open(path).read().splitlines()] if os.path.exists(path) else []


def selected(session):
    return {row["rlnImageName"] for row in star(f"{session}/classifier/latest_selected.star")["particles"]}


def obeys(session, number):
    return bool(snapshots(session)) and snapshots(session)[-1].get("change", 0) >= number


with Work("control") as work:
    session, folder = work("session"), work("inputs")
    arrive(names()[:COUNT], folder)
    path = graph(work.path, micrographs=folder, more=CLASSIFIER)
    with Run(path, session) as live:
        wait_until(lambda: done(session, "classifier") == COUNT and snapshots(session), 120, "a snapshot", live)

        # Exposures, by the numbers that the page knows.
        answer = ask(session, do="mark", n=[1, 2], mark="reject", why="ice")
        check(answer["ok"] and answer["changed"] == 2 and answer["change"] == 1, f"two are marked: {answer}")
        check(history(session)[0]["peer"] == "uid 1000", "the history has who asked")
        marked = {entry["id"] for entry in history(session)[0]["marks"]}
        wait_until(lambda: obeys(session, 1), 120, "the classifier obeys", live)
        left = {os.path.basename(image.split("@")[1])[: -len(".mrcs")] for image in selected(session)}
        check(len(marked) == 2 and not left & marked, f"{marked} are left out of {left}")
        check(ask(session, do="mark", n=[1], mark="reject")["changed"] == 0, "marked again: nothing changes")
        answer = ask(session, do="mark", n=[1, 2], mark=None)
        check(answer["changed"] == 2, f"the marks are taken back: {answer}")

        # Classes: those that are not kept are rejected.
        wait_until(lambda: obeys(session, 2), 120, "the classifier obeys", live)

        def choose():
            last = snapshots(session)[-1]["iteration"]
            try:
                rows = star(f"{session}/classifier/run_it{last:03d}_data.star")["particles"]
            except FileNotFoundError:  # a working classifier has made room for later ones
                return False
            numbers = [int(row["rlnClassNumber"]) for row in rows]
            best = max(numbers, key=numbers.count)
            answer = ask(session, do="classes", iteration=last, keep=[best])
            check(answer["ok"] or "there is no snapshot" in answer["message"], f"classes: {answer}")
            return answer["ok"] and (last, best, answer)

        chosen = []
        wait_until(lambda: chosen.append(choose()) or chosen[-1], 120, "a choice of classes", live)
        iteration, best, answer = chosen[-1]
        rows = star(f"{session}/changes/{answer['change']:04d}.star")["particles"]
        kept = {row["rlnImageName"] for row in rows if int(row["rlnClassNumber"]) == best}
        wait_until(lambda: obeys(session, answer["change"]), 120, "the classifier obeys the choice", live)
        check(answer["changed"] == 3 and selected(session) == kept, f"only the {len(kept)} of class {best} go on: {answer}")
        check(ask(session, do="classes", iteration=iteration, keep=None)["changed"] == 3, "the choice is taken back")

        # Rules and values, for what comes.
        answer = ask(session, do="rules", stage=PICKER, text="picks.count < 100000")
        check(answer["changed"] == 1, f"a rule: {answer}")
        wait_until(lambda: in_force(session), 120, "the rule is in force", live)
        arrive(names()[COUNT : COUNT + 1], folder)
        rejected = "SELECT COUNT(*) FROM items WHERE state = 2"
        wait_until(lambda: ledger(session, PICKER, rejected) == [(1,)], 120, "the rule rejects what comes", live)
        note = ledger(session, PICKER, "SELECT json_extract(item, '$.change') FROM items WHERE state = 2")
        check(json.loads(note[0][0]) == {PICKER: answer["change"]}, f"the item notes by which change: {note}")
        check(done(session, PICKER) == COUNT, "what was done before stays")
        answer = ask(session, do="rules", stage=PICKER, text="")
        check(answer["changed"] == 1, f"no rule any more: {answer}")
        answer = ask(session, do="set", stage=PICKER, key="threshold", value=0.5)
        check(answer["changed"] == 1 and "0.5" in answer["message"], f"a value: {answer}")
        answer = ask(session, do="set", values=[f"{PICKER}.threshold=0.4", f"{PICKER}.lowpass=45"])
        check(answer["changed"] == 2, f"two values: {answer}")

        # Once more with the new values.
        changes = len(history(session))
        wait_until(lambda: in_force(session), 120, "the values are in force", live)
        first = ledger(session, PICKER, "SELECT id FROM items WHERE state = 1 ORDER BY number LIMIT 1")[0][0]
        answer = ask(session, do="redo", stage=PICKER, items=[first])
        check(answer["ok"] and answer["changed"] == 1, f"redo: {answer}")
        revision = "SELECT revision, state FROM items WHERE id = ?"
        wait_until(lambda: ledger(session, PICKER, revision, first) == [(1, 1)], 120, "it was made again", live)
        check(len(history(session)) == changes + 1 and history(session)[-1]["by"] == "redo", "the history has the redo")
        answer = ask(session, do="retry")
        check(answer["ok"] and answer["changed"] == 0 and "nothing has failed" in answer["message"], f"retry: {answer}")
        check(len(history(session)) == changes + 1, "a retry of nothing is not in the history")

        # A wrong request is refused, and changes nothing.
        changes = len(history(session))
        for code, text, body in (
            (400, '"do" is missing', {}),
            (400, '"do" is dance', {"do": "dance"}),
            (400, '"mark" must be', {"do": "mark", "n": [1]}),
            (400, '"mark" must be', {"do": "mark", "n": [1], "mark": "maybe"}),
            (400, '"n" must be a list', {"do": "mark", "n": 1, "mark": "keep"}),
            (400, '"n" must be a list', {"do": "mark", "n": ["1"], "mark": "keep"}),
            (404, "no exposure 900", {"do": "mark", "n": [1, 900], "mark": "keep"}),
            (400, '"why" must be a text', {"do": "mark", "n": [1], "mark": "keep", "why": 3}),
            (400, '"iteration" must be', {"do": "classes", "keep": [1]}),
            (404, "no snapshot of iteration 900", {"do": "classes", "iteration": 900, "keep": [1]}),
            (400, "no class 77", {"do": "classes", "iteration": snapshots(session)[-1]["iteration"], "keep": [77]}),
            (400, '"keep" is missing', {"do": "classes", "iteration": 1}),
            (400, "does not end with a number", {"do": "rules", "stage": PICKER, "text": "picks.count <"}),
            (400, "nobody", {"do": "rules", "stage": "nobody", "text": ""}),
            (400, "one line", {"do": "set", "stage": PICKER, "key": "threshold", "value": "1\n  box: 4"}),
            (400, "never changes", {"do": "set", "stage": "extractor", "key": "box", "value": 64}),
            (400, "values of session", {"do": "set", "values": ["session.pixel_size=3"]}),
            (400, '"values" must be', {"do": "set", "values": [3]}),
            (400, '"until" must be', {"do": "silence", "alarm": "ice", "until": "later"}),
            (503, "keeps no alarms", {"do": "silence", "alarm": "ice", "until": 2e9}),
            (400, '"items" is empty', {"do": "retry", "items": []}),
            (404, "has no stage nobody", {"do": "retry", "stage": "nobody"}),
            (400, "1 to 16", {"do": "redo", "stage": PICKER}),
            (400, "no refiner", {"do": "invert-hand"}),
            (400, "is a classifier", {"do": "invert-hand", "stage": "classifier"}),
        ):
            refused(session, code, text, body)
        check(len(history(session)) == changes, "nothing of it is in the history")

        answer = ask(session, do="drain")
        check(answer["ok"] and answer["changed"] == 1, f"drain: {answer}")
        answer = ask(session, do="drain")
        check(answer["ok"] or "does not run" in answer["message"], f"drain twice does not stop at once: {answer}")
        live.finish()
        check("draining" in live.output(), "the run drained")
    check(history(session)[-1]["by"] == "drain", "the history has it")
    text = run("status", "--session", session).stdout
    check("drain: the run finishes what has started" in text, "status shows it")
    refused(session, 409, "does not run", {"do": "drain"})
    refused(session, 409, "does not run", {"do": "stop"})
    with Run(path, session) as live:
        wait_until(lambda: status(session)["stages"]["watcher"]["seen"] > COUNT, 120, "the run is there", live)
        wait_until(lambda: ask(session, do="stop")["ok"], 120, "stop", live)
        wait_until(lambda: live.poll() is not None, 120, "the run ends", None)
    check(history(session)[-1]["by"] == "stop", "the history has the stop")
    finish()
