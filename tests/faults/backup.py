#!/usr/bin/env python3
"""Copies a session while it runs. The copy must go on to the end of an undisturbed run, with the products that it got,
and the session must not notice."""

import glob
import json
import os

from faults import (
    COUNT,
    Run,
    Work,
    calm,
    check,
    done,
    finish,
    graph,
    outcome,
    run,
    same,
    wait_until,
    whole,
)

with Work("backup") as work:
    session, copy, bare = work("session"), work("copy"), work("bare")
    path = graph(work.path)
    with Run(path, session) as live:
        wait_until(lambda: done(session, "extractor") >= 20, 120, "20 are extracted", live)
        text = run("backup", "--session", session, "--to", bare).stdout
        check("without products" in text and not os.path.exists(f"{bare}/extractor"), f"ledgers alone: {text.strip()}")
        run("backup", "--session", session, "--to", copy, "--products")
        held = done(copy, "extractor")
        check(held >= 20, f"the copy has {held} items")
        stacks = len(glob.glob(f"{copy}/extractor/*.mrcs"))
        check(stacks >= 20, f"and {stacks} stacks")
        wait_until(lambda: done(session, "extractor") == COUNT, 120, "all are extracted", live)
        live.drain()
    same(calm(), outcome(session), "the session itself")
    whole(session, "the session itself")
    check(not glob.glob(f"{copy}/log/lock") and not glob.glob(f"{copy}/**/.*", recursive=True), "nothing of processes")
    with Run(path, copy, "--until-idle", "0.5") as live:
        live.finish(0)
    same(calm(), outcome(copy), "the copy")
    whole(copy, "the copy")
    wrong = json.loads(run("verify", "--session", copy, "--json").stdout)
    check(wrong["missing"] + wrong["rotten"] + wrong["changed"] == 0, "and is whole")

    again = run("backup", "--session", session, "--to", bare, "--products").stdout
    check(len(glob.glob(f"{bare}/extractor/*.mrcs")) == len(glob.glob(f"{session}/extractor/*.mrcs")), again.strip())
    inside = run("backup", "--session", session, "--to", f"{session}/copy", expect=2).stderr
    check("lie in each other" in inside, "a copy does not go into the session")
    other = work("other")
    with Run(path, other, "--until-idle", "0.2") as live:
        live.finish(0)
    foreign = run("backup", "--session", session, "--to", other, expect=2).stderr
    check("another session" in foreign, "nor over another session")
    finish()
