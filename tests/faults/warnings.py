#!/usr/bin/env python3
"""Warnings are records: `run` shows each kind once, `status` and the end of the run list it with its count, also after a
restart, and the exit code stays. Those of the launcher stand in the same list."""

import contextlib
import json
import os
import signal
import sqlite3

from faults import Run, Work, arrive, check, done, finish, graph, names, pids, run, wait_until

UNKNOWN = 'reject_if: "rlnNoSuchColumn > 1"'


def listed(session):
    """Returns {(stage, id): warning}."""
    found = json.loads(run("status", "--session", session, "--json").stdout)["warnings"]
    check(len({(row["stage"], row["id"]) for row in found}) == len(found), f"each kind is listed once: {found}")
    return {(row["stage"], row["id"]): row for row in found}


def kinds(output):
    """Returns the lines with which `run` shows warnings while it runs, by stage and id."""
    lines = [line for line in output.splitlines() if line.startswith("icestream: ") and ": warning: " in line]
    return sorted((line.split(": ")[1], line.rsplit("(", 1)[1].rstrip(")")) for line in lines)


with Work("warnings") as work:
    # The headers say 6 Å/px.
    some, session = names()[:4], work("session")
    text = graph(work.path, micrographs=work("in"), extractor=UNKNOWN)
    with open(text) as file:
        changed = file.read().replace("pixel_size: 6.0", "pixel_size: 7.0").replace("box: 32", "box: 16")
    with open(text, "w") as file:
        file.write(changed)
    arrive(some[:2], work("in"))
    with Run(text, session, "--until-idle", "1") as live:
        output = live.finish(0)
    wanted = [("extractor", "box"), ("extractor", "reject-if"), ("watcher", "pixel-size")]
    check(kinds(output) == wanted, f"run shows each kind once, at once: {output}")
    first = listed(session)
    check(sorted(first) == wanted, f"status --json lists them: {first}")
    for row in first.values():
        whole = {"stage", "id", "message", "count", "first", "last"} == set(row)
        check(whole and row["count"] >= 1 and 1.7e9 < row["first"] <= row["last"], f"a record: {row}")
    check("rlnNoSuchColumn" in first["extractor", "reject-if"]["message"], "the message names the column")
    check("112 Å" in first["extractor", "box"]["message"], "the box is 16 px of 7 Å")
    difference = first["watcher", "pixel-size"]["message"]
    check("6 Å/px" in difference and "the session 7" in difference, f"the message has both values: {difference}")
    for where, shown in (("status", run("status", "--session", session).stdout), ("the end of run", output)):
        line = f"watcher: warning: {difference} (pixel-size)\n"
        check(f"\n{line}" in shown, f"{where} lists the warning: {shown}")

    # After a restart the counts go on. A stage that dies is a warning of the launcher.
    with Run(text, session) as live:
        wait_until(lambda: "extractor.0" in pids(session), 60, "the extractor runs", live)
        arrive(some[2:3], work("in"))
        wait_until(lambda: done(session, "extractor") == 3, 100, "the new one is extracted", live)
        wait_until(lambda: ("watcher", "pixel-size") in kinds(live.output()), 60, "run shows it while it runs", live)
        os.kill(pids(session)["lowpass-picker.0"], signal.SIGKILL)
        wait_until(lambda: ("icestream", "died") in listed(session), 60, "the death is in the list", live)
        live.drain()
        output = live.output()
    again = listed(session)
    check(again["watcher", "pixel-size"]["count"] == 2, f"counts go on: {again}")
    check(again["watcher", "pixel-size"]["first"] == first["watcher", "pixel-size"]["first"], "first stays")
    check(again["watcher", "pixel-size"]["last"] > first["watcher", "pixel-size"]["last"], "last does not")
    check("(pixel-size, 2 times)\n" in output, f"the end says how often: {output}")
    died = again["icestream", "died"]
    check(died["count"] == 1 and "lowpass-picker.0 was killed by signal 9" in died["message"], f"the launcher's: {died}")
    check("icestream: warning: lowpass-picker.0 was killed" in output, f"the end lists it: {output}")

    # No other command stumbles over them.
    for words in (["verify"], ["repair"], ["backup", "--to", work("copy")]):
        ended = run(words[0], "--session", session, *words[1:])
        check(ended.returncode == 0, f"{words[0]} ends with {ended.returncode}: {ended.stderr}")
    kept = listed(work("copy"))
    check(kept == again, f"a backup has them: {kept}")

    # A session of a version without warnings has none, and gets them.
    with contextlib.closing(sqlite3.connect(f"{session}/ledger/extractor.sqlite")) as connection:
        connection.execute("DROP TABLE warnings")
    check(("extractor", "reject-if") not in listed(session), "a ledger without the table has no warnings")
    arrive(some[3:4], work("in"))
    with Run(text, session, "--until-idle", "1") as live:
        live.finish(0)
    check(listed(session)["extractor", "reject-if"]["count"] == 1, "and gets them in the next run")

finish()
