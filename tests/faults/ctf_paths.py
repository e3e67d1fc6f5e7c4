#!/usr/bin/env python3
"""Two grids with equal file names, whose CTF table grows slowly: no micrograph takes the row of another. Copies in another
folder still get their rows."""

import os
import time

from alone import logs, put
from faults import Run, Work, check, counts, finish, ledger, run, star, status, wait_until, write

COLUMNS = "data_\nloop_\n_rlnMicrographName\n_rlnDefocusU\n_rlnDefocusV\n_rlnDefocusAngle\n"


def graph(work, table, more=""):
    return write(
        work("graph.yaml"),
        f"session: {{pixel_size: 1}}\nstages:\n  watcher: {{directory: {work('in')}, ctf: {table}, poll: 0.2{more}}}\n",
    )


def add(table, *rows):
    with open(table, "a") as file:
        file.write("".join(f"{name} {defocus} {defocus} 0\n" for name, defocus in rows))


def defocus(session, folder):
    rows = star(f"{session}/watcher/micrographs.star")["micrographs"]
    root = os.path.realpath(folder) + "/"
    return {row["rlnMicrographName"].replace(root, ""): row.get("rlnDefocusU") for row in rows}


def sent(session):
    return {row[0] for row in ledger(session, "watcher", "SELECT id FROM items WHERE state = 1")}


def grids():
    with Work("ctf-grids") as work:
        table, session, now = work("ctf.star"), work("session"), time.time()
        write(table, COLUMNS)
        for number in (1, 2):
            put(work("in/g1"), f"mic_{number}.mrc", date=now - 100)
        add(table, ("g1/mic_1.mrc", 11000), ("g1/mic_2.mrc", 12000), ("g1/mic_3.mrc", 13000), ("late.mrc", 15000))
        with Run(graph(work, table, ", ctf_wait: 600"), session) as live:
            wait_until(lambda: {"g1/mic_1", "g1/mic_2"} <= sent(session), 120, "the first grid is sent", live)
            for number in (1, 2, 3):
                put(work("in/g2"), f"mic_{number}.mrc", date=now - 50)
            # The oldest goes first: when the later one is sent, the watcher has decided about the second grid.
            put(work("in"), "late.mrc", date=now - 10)
            wait_until(lambda: "late" in sent(session), 120, "the later file is sent", live)
            early = [name for name in sent(session) if name.startswith("g2/")]
            check(not early, f"the second grid waits for its own rows: {early}")
            add(table, *((f"g2/mic_{number}.mrc", 20000 + 1000 * number) for number in (1, 2, 3)))
            wait_until(lambda: len(sent(session)) == 6, 120, "the second grid is sent", live)
            live.drain()
        expected = {"late.mrc": 15000, "g1/mic_1.mrc": 11000, "g1/mic_2.mrc": 12000}
        expected.update({f"g2/mic_{number}.mrc": 20000 + 1000 * number for number in (1, 2, 3)})
        found = {name: float(value) for name, value in defocus(session, work("in")).items()}
        check(found == expected, f"each micrograph has the defocus of its own row: {found}")


def never():
    """The rows of the second grid never come: it goes on without CTF values, and the log says why."""
    with Work("ctf-never") as work:
        table, session = work("ctf.star"), work("session")
        write(table, COLUMNS)
        add(table, ("g1/mic_1.mrc", 11000))
        put(work("in/g1"), "mic_1.mrc")
        put(work("in/g2"), "mic_1.mrc")
        with Run(graph(work, table, ", ctf_wait: 0.5, ctf_missing: without"), session, "--until-idle", "1") as live:
            live.finish(0)
        found = defocus(session, work("in"))
        check(float(found["g1/mic_1.mrc"]) == 11000 and found["g2/mic_1.mrc"] == "nan", f"one has a row: {found}")
        said = [line for line in logs(session, "watcher.0") if " no-ctf " in line]
        check(len(said) == 1 and "g2/mic_1" in said[0] and "fits the folder" in said[0], f"said why: {said}")


def note(session):
    return status(session)["stages"]["watcher"]["note"]


def failed_since(rows, before):
    return len(rows) == 1 and rows[0][0] == 3 and rows != before


def late():
    """The table comes after the session has begun. A micrograph whose row does not come fails, is asked for again while the
    session runs, fails again, and goes on when the row has come."""
    with Work("ctf-late") as work:
        table, session = work("ctf.star"), work("session")
        for name in ("a.mrc", "b.mrc"):
            put(work("in"), name)
        state = "SELECT state, time_seen FROM items WHERE id = 'b'"
        with Run(graph(work, table, ", ctf_wait: 0.7"), session) as live:
            wait_until(lambda: os.path.exists(f"{session}/log/plan.json"), 120, "the session begins", live)
            wait_until(lambda: note(session) == "0 files, 2 pending", 120, "both wait for the table", live)
            write(table, COLUMNS)
            add(table, ("a.mrc", 11000))
            wait_until(lambda: "a" in sent(session), 120, "one has its row", live)
            wait_until(lambda: [row[0] for row in ledger(session, "watcher", state)] == [3], 120, "one fails", live)
            before = ledger(session, "watcher", state)
            reason = status(session)["items"]
            reason = [item["reason"] for item in reason if item["id"] == "b" and item["state"] == "failed"]
            check(len(reason) == 1 and "ctf_wait" in reason[0], f"the reason names the remedy: {reason}")
            run("retry", "--session", session, "b")
            wait_until(lambda: failed_since(ledger(session, "watcher", state), before), 120, "it waits and fails anew", live)
            add(table, ("b.mrc", 12000))
            wait_until(lambda: sent(session) == {"a", "b"}, 120, "it goes on when its row has come", live)
            live.drain()
        totals = counts(session)["watcher"]
        check((totals["seen"], totals["failed"]) == (2, 0), f"nothing failed in the end: {totals}")
        found = {name: float(value) for name, value in defocus(session, work("in")).items()}
        check(found == {"a.mrc": 11000, "b.mrc": 12000}, f"each has its own row: {found}")


def copies():
    """Copies and links in another folder than the table names; a row that is there twice."""
    with Work("ctf-copies") as work:
        table, session = work("ctf.star"), work("session")
        write(table, COLUMNS)
        add(table, ("/data/grid/a.mrc", 11000), ("Micrographs/b.mrc", 12000), ("/data/grid/c.mrc", 13000))
        add(table, ("/data/grid/c.mrc", 14000))
        put(work("originals"), "a.mrc")
        for name in ("b.mrc", "c.mrc"):
            put(work("in"), name)
        os.symlink(work("originals/a.mrc"), work("in/a.mrc"))
        with Run(graph(work, table, ", ctf_wait: 600"), session) as live:
            wait_until(lambda: len(sent(session)) == 3, 120, "all are sent", live)
            live.drain()
        found = {os.path.basename(name): float(value) for name, value in defocus(session, work("in")).items()}
        check(found == {"a.mrc": 11000, "b.mrc": 12000, "c.mrc": 14000}, f"copies have their rows: {found}")
        said = [line for line in logs(session, "watcher.0") if " ctf-twice " in line]
        check(len(said) == 1 and "rows 3 and 4" in said[0], f"the row that is there twice is said: {said}")


grids()
never()
late()
copies()
finish()
