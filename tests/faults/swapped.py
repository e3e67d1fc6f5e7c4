#!/usr/bin/env python3
"""Swaps the ledgers of two stages, puts a ledger of another session in place, and loses the plan. Ledgers that do not
belong where they lie are refused by the launcher, by `status` and by the stage itself; a lost plan harms nobody."""

import json
import os
import shutil
import subprocess

from faults import DATA, Run, Work, calm, check, finish, graph, ledger, outcome, program, run, same

PAIR = ("lowpass-picker", "extractor")


def move(session, renames):
    """Renames ledgers together with their write-ahead logs, all at once."""
    for end in ("", "-wal", "-shm"):
        for old, _ in renames:
            if os.path.exists(f"{session}/ledger/{old}.sqlite{end}"):
                os.rename(f"{session}/ledger/{old}.sqlite{end}", f"{session}/ledger/{old}.moved{end}")
        for old, new in renames:
            if os.path.exists(f"{session}/ledger/{old}.moved{end}"):
                os.rename(f"{session}/ledger/{old}.moved{end}", f"{session}/ledger/{new}.sqlite{end}")


with Work("swapped") as work:
    session = work("session")
    shutil.copytree(os.path.join(DATA, "calm"), session)
    path = graph(work.path)
    about = dict(ledger(session, "extractor", "SELECT key, value FROM about"))
    check(about["stage"] == "extractor" and len(about["session"]) == 32, f"a ledger says to whom it belongs: {about}")

    move(session, [PAIR, PAIR[::-1]])
    with Run(path, session, "--until-idle", "0.5") as live:
        text = live.finish(2)
    named = "extractor.sqlite" in text or "lowpass-picker.sqlite" in text
    check(named and all(stage in text for stage in PAIR) and "repair" in text, f"the launcher refuses: {text[-500:]}")
    check("swapped" in run("status", "--session", session, expect=2).stderr, "and so does status")
    orders = f"{session}/log/extractor.0.instance.json"
    content = json.load(open(orders))
    content["ledger"] = f"{session}/ledger/extractor.sqlite"
    content["session"] = session
    json.dump(content, open(orders, "w"))
    words = [program("icestream-extractor"), "--instance", orders]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=60)
    check(answer.returncode == 2 and "lowpass-picker" in answer.stderr, f"and so does the stage: {answer.stderr}")

    move(session, [PAIR, PAIR[::-1]])
    os.unlink(f"{session}/log/plan.json")
    with Run(path, session, "--until-idle", "0.5") as live:
        live.finish(0)
    same(calm(), outcome(session), "put back, and without a plan")
    after = dict(ledger(session, "extractor", "SELECT key, value FROM about"))
    check(after == about, "and the session has the id that it had")

    other = work("other")
    empty = work("empty")
    os.makedirs(empty)
    with Run(graph(work.path, "other.yaml", micrographs=empty), other, "--until-idle", "0.2") as live:
        live.finish(0)
    shutil.copy(f"{other}/ledger/extractor.sqlite", f"{session}/ledger/extractor.sqlite")
    for end in ("-wal", "-shm"):
        if os.path.exists(f"{session}/ledger/extractor.sqlite{end}"):
            os.unlink(f"{session}/ledger/extractor.sqlite{end}")
    with Run(path, session, "--until-idle", "0.5") as live:
        text = live.finish(2)
    check("another session" in text and "extractor.sqlite" in text, f"another session's ledger is refused: {text[-400:]}")
    finish()
