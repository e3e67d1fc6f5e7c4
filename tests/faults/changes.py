#!/usr/bin/env python3
"""Other values for the stages of a session: `icestream set` while it runs and while it does not, and a run with a changed
graph. Every item must carry the change that it was made with, and none may be lost.

changes.py"""

import json

from faults import (
    Run,
    Work,
    arrive,
    check,
    done,
    finish,
    graph,
    ledger,
    names,
    pids,
    run,
    status,
    wait_until,
    write,
)

PICKER, EXTRACTOR = "lowpass-picker", "extractor"


def made_with(session, stage, of):
    """Returns {id: number of the change of the stage `of`} of the items that are done."""
    rows = ledger(session, stage, "SELECT id, json_extract(item, '$.change.\"' || ? || '\"') FROM items", of)
    return dict(rows)


def beats(session, number):
    with open(f"{session}/log/{PICKER}.0.heartbeat.json") as beat:
        return json.loads(beat.read() or "{}").get("change") == number


def works_with(session, number):
    try:
        return beats(session, number)
    except (OSError, ValueError):  # it is starting again
        return False


def refused(session, word, text):
    result = run("set", "--session", session, word, expect=2)
    check(text in result.stderr, f"set {word} is refused: {result.stderr.strip()[-200:]}")


with Work("changes") as work:
    session, folder, pictures = work("session"), work("inputs"), names()[:9]
    arrive(pictures[:3], folder)
    path = graph(work.path, micrographs=folder)
    with Run(path, session) as live:
        wait_until(lambda: done(session, EXTRACTOR) == 3, 120, "three items are done", live)
        before = pids(session, PICKER)
        out = run("set", "--session", session, f"{PICKER}.threshold=0.5").stdout
        check(f"change 1: {PICKER}.threshold: not set → 0.5 (live)" in out, f"set says what changes: {out.strip()}")
        wait_until(lambda: works_with(session, 1), 120, "the picker works with change 1", live)
        check(pids(session, PICKER) == before, "a live parameter needs no other process")
        arrive(pictures[3:5], folder)
        wait_until(lambda: done(session, EXTRACTOR) == 5, 120, "five items are done", live)
        run("set", "--session", session, f"{PICKER}.lowpass=45", f"{PICKER}.reject_if=picks.count < 0")
        wait_until(lambda: works_with(session, 2), 120, "the picker works with change 2", live)
        check(pids(session, PICKER) != before, "the picker was started again for the low-pass")
        arrive(pictures[5:7], folder)
        wait_until(lambda: done(session, EXTRACTOR) == 7, 120, "seven items are done", live)
        refused(session, f"{EXTRACTOR}.box=64", f"{EXTRACTOR}.box never changes in a session")
        refused(session, f"{PICKER}.lowpas=64", "lowpas")
        refused(session, f"{PICKER}.lowpass=coarse", "lowpass")
        refused(session, "session.pixel_size=3", "never change")
        live.drain()
    text = live.output()
    check("was killed" not in text and "ended with" not in text, "the restart is no death")
    expected = dict(zip((name[:-4] for name in pictures), [None] * 3 + [1] * 2 + [2] * 2))
    check(made_with(session, PICKER, PICKER) == expected, f"picks: {made_with(session, PICKER, PICKER)}")
    check(made_with(session, EXTRACTOR, PICKER) == expected, "particles know the change of their picks")
    check(set(made_with(session, EXTRACTOR, EXTRACTOR).values()) == {None}, "the extractor has not changed")

    history = status(session)["changes"]
    check([change["number"] for change in history] == [1, 2], f"status has the history {history}")
    entry = {"stage": PICKER, "key": "lowpass", "old": 40, "new": 45, "changes": "restart"}
    check(entry in history[1]["changes"] and history[1]["in_force"] and history[1]["user"], "who, when, old and new")
    text = run("status", "--session", session).stdout
    check(f"{PICKER}.lowpass: 40 → 45 (restart)" in text, "status shows the history")

    # A run with the same graph keeps what was set; one with another graph changes what may change.
    run("set", "--session", session, f"{PICKER}.threshold=0.4")
    with Run(path, session) as live:
        wait_until(lambda: works_with(session, 3), 120, "the next run works with change 3", live)
        orders = json.load(open(f"{session}/log/{PICKER}.0.instance.json"))["params"]
        check(orders["lowpass"] == 45 and orders["threshold"] == 0.4, f"what was set holds: {orders}")
        live.drain()
    arrive(pictures[7:], folder)
    changed = write(work("changed.yaml"), open(path).read().replace("lowpass: 40", "lowpass: 50"))
    with Run(changed, session, "--until-idle", "1") as live:
        live.finish()
    check(f"change 4: {PICKER}.lowpass: 45 → 50 (restart)" in live.output(), "the run says what has changed")
    check(list(made_with(session, PICKER, PICKER).values())[7:] == [4, 4], "the last items are of change 4")
    wrong = write(work("wrong.yaml"), open(changed).read().replace("box: 32", "box: 64"))
    with Run(wrong, session, "--until-idle", "1") as live:
        live.finish(2)
    check(f"{EXTRACTOR}.box was 32 and is 64" in live.output(), "a run refuses by name what never changes")
    check(len(status(session)["changes"]) == 4, "a refused graph is no change")

    # A session in which nothing was finished takes a corrected graph whole.
    session = work("wrong")
    broken = graph(work.path, "broken.yaml", micrographs=folder, picker="memory_limit: 0.001")
    broken = write(work("broken.yaml"), open(broken).read().replace("6.0}", "7.0}"))
    with Run(broken, session, "--until-idle", "0.5") as live:
        live.finish(3)
    check(done(session, PICKER) == 0, "nothing is finished with so little memory")
    with Run(path, session, "--until-idle", "0.5") as live:
        live.finish()
    check("takes the graph as it is now" in live.output(), "the run says that it takes the graph whole")
    check(done(session, EXTRACTOR) == len(pictures), "all items are done with the corrected graph")
    check(status(session)["changes"][0]["whole"], "the history tells of the new graph")

    # A change that somebody edited is named, and nothing counts of it.
    path = write(f"{session}/changes/0001.json", '{"number": 1, "changes": [{"stage": 3, "key": "box"}]}')
    refused(session, f"{PICKER}.threshold=0.3", f"{path}: not a change of a session")
    check(f"{path}: not a change" in run("status", "--session", session).stdout, "status names it, too")
    finish()
