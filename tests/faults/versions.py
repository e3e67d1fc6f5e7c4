#!/usr/bin/env python3
"""A session whose ledgers are of version 1, which knew items by their id alone, and whose plan says nothing of revisions,
is killed in the middle of its work and run again. It must end like an undisturbed one, each item once. A session of a
later version is refused with both versions."""

import contextlib
import glob
import json
import os
import sqlite3

from faults import (
    COUNT,
    STAGES,
    Run,
    Work,
    calm,
    check,
    done,
    finish,
    graph,
    ledger,
    outcome,
    run,
    same,
    star,
    wait_until,
    whole,
)

CHAIN = (*STAGES, "classifier")
CLASSIFIER = "  classifier: {from: extractor, classes: 2, diameter: 150, snapshot_interval: 1}\n"
# Version 1 wrote other keys, no tables of files and no sources in what was sent.
BACK = """
CREATE TABLE items_1 (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, state INTEGER NOT NULL,
  reason TEXT, attempts INTEGER NOT NULL, crashes INTEGER NOT NULL, instance INTEGER NOT NULL, token TEXT,
  item TEXT NOT NULL, time_seen REAL NOT NULL, time_changed REAL NOT NULL);
INSERT INTO items_1 SELECT number, id, state, reason, attempts, crashes, instance, token,
  json_remove(item, '$.source', '$.revision'), time_seen, time_changed FROM items;
DROP TABLE items;
ALTER TABLE items_1 RENAME TO items;
CREATE INDEX items_state ON items (state);
CREATE TABLE outbox_1 (seq INTEGER PRIMARY KEY AUTOINCREMENT, edge TEXT NOT NULL, id TEXT NOT NULL,
  item TEXT NOT NULL, time_sent REAL NOT NULL, acknowledged REAL, verdict TEXT);
INSERT INTO outbox_1 SELECT seq, edge, id, json_remove(item, '$.source', '$.revision'), time_sent, acknowledged, verdict
  FROM outbox;
DROP TABLE outbox;
ALTER TABLE outbox_1 RENAME TO outbox;
CREATE INDEX outbox_waiting ON outbox (edge, seq) WHERE acknowledged IS NULL;
CREATE INDEX outbox_id ON outbox (id);
DROP TABLE about;
DROP TABLE files;
PRAGMA user_version = 1;
"""


def versions(session):
    return {ledger(session, stage, "PRAGMA user_version")[0][0] for stage in CHAIN}


def change_plan(session, **members):
    """Writes the plan without what it says of revisions, and with other members."""
    path = f"{session}/log/plan.json"
    with open(path) as file:
        plan = {**json.load(file), **members}
    for stage in plan["stages"]:
        stage.pop("revisions", None)
    with open(path, "w") as file:
        json.dump(plan, file)


with Work("versions") as work:
    session = work("session")
    path = graph(work.path, more=CLASSIFIER)
    with Run(path, session) as live:
        wait_until(lambda: done(session, "extractor") >= COUNT // 4, 120, "a quarter is extracted", live)
        live.kill()
    before = done(session, "classifier")
    for stage in CHAIN:
        with contextlib.closing(sqlite3.connect(f"{session}/ledger/{stage}.sqlite", isolation_level=None)) as old:
            old.executescript(BACK)
    change_plan(session)
    check(versions(session) == {1}, "the ledgers are of version 1")
    told = run("status", "--session", session, "--json").stdout
    check('"adds_up": true' in told or '"adds_up":true' in told or '"miscount"' not in told, "status reads version 1")
    check(versions(session) == {1}, "and leaves it as it is")
    with Run(path, session, "--until-idle", "0.5") as live:
        live.finish(0, 200)
    check(versions(session) == {2}, "the ledgers are of version 2")
    same(calm(), outcome(session))
    whole(session)
    for stage in CHAIN:
        rows = ledger(session, stage, "SELECT COUNT(*), COUNT(DISTINCT id), SUM(state = 1) FROM items")
        check(rows == [(COUNT, COUNT, COUNT)], f"{stage}: each item once {rows}")
    sources = {row[0] for row in ledger(session, "lowpass-picker", "SELECT DISTINCT source FROM items")}
    check(
        "watcher" in sources and sources <= {"", "watcher"}, f"no stage was taken for the source of an item {sources}"
    )
    newest = max(glob.glob(f"{session}/classifier/run_it*_data.star"))
    extracted, there = (
        sorted(row["rlnImageName"] for row in star(table)["particles"])
        for table in (f"{session}/extractor/particles.star", newest)
    )
    check(
        there == extracted, f"{len(there)} particles in classes, of {len(extracted)}, each once ({before} items before)"
    )
    check(run("status", "--session", session).returncode == 0, "the counts add up")
    check(os.path.exists(f"{session}/lowpass-picker/autopick.star"), "products lie where they lay")
    # An item that got its source after the migration is one item in the second copy too.
    run("retry", "--session", session, "--lost")
    run("repair", "--session", session)
    for stage in CHAIN:
        rows = ledger(session, stage, "SELECT COUNT(*), COUNT(DISTINCT id) FROM items")
        check(rows == [(COUNT, COUNT)], f"{stage}: repair brings back nothing twice {rows}")
    change_plan(session)
    told = run("redo", "--session", session, "mic_00001").stdout
    check("1 item goes" in told, f"items of an earlier version can be made again: {told}")
    change_plan(session, v=2)
    for command in (("run", path), ("status",)):
        told = run(*command, "--session", session, expect=1)
        words = "the plan has version 2, and this program reads up to 1"
        check(words in told.stderr, f"{command}: a later version is refused: {told.stderr}")
    finish()
