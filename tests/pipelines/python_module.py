#!/usr/bin/env python3
"""Stages on the Python module `icestream`.

outcomes: one run in which items are rejected, fail by exceptions of every kind, and go on with columns and products; a
          retry takes what failed.
killed:   the stage is killed with -9 again and again; every item comes through once, and one that kills the process is
          set aside.
changes:  a live parameter gets another value.
tcp:      sockets with keys.
wrong:    a wrong parameter is exit 2 and names what was expected."""

import json
import os
import signal
import sqlite3
import subprocess
import sys

import mrcfile
import numpy as np
from session import SOURCE, Work, check, finish, launch, run, status, stop, wait_until, write

STAGE = f"""#!/usr/bin/python3
import os
import sys
import time

sys.path.append("{SOURCE}/python")
from icestream import Reject, Stage


class Trial(Stage):
    \"\"\"Does what the name of a micrograph says\"\"\"

    parameters = {{
        "factor": {{"default": 1.5, "minimum": 0, "changes": "live", "help": "A number."}},
        "pause": 0.0,
        "loud": False,
        "word": {{"type": "string"}},
    }}

    def setup(self):
        self.log("setup", f"factor {{self.params.factor}}")

    def process(self, item):
        word = item["id"].rpartition("/")[2].split("_")[0]
        time.sleep(self.params.pause)
        with open("calls.txt", "a") as calls:
            calls.write(item["id"] + "\\n")
        if word == "good":
            self.warn("odd", f"{{item['id']}} is odd")
        if not os.path.exists("mended"):
            if word == "reject":
                raise Reject("too dark \\udcff")
            if word == "raise":
                raise ValueError("first\\nno such column \\udcff")
            if word == "leave":
                sys.exit("left")
            if word == "none":
                return None
            if word == "nan":
                item["columns"]["broken"] = float("nan")
            if word == "other":
                item["id"] = "another"
            if word == "crash":
                os.abort()
        item["columns"]["trial"] = self.params["factor"] * self.session_params.pixel_size
        item["trial"] = {{"text": self.product(item, "_trial.txt")}}
        with open(item["trial"]["text"], "w") as file:
            file.write(self.resolve(item["micrograph"]["path"]))
        return item


Trial.main()
"""
GRAPH = """\
session: {pixel_size: 2.0MORE}
programs: [PROGRAM]
stages:
  watcher:    {directory: INCOMING}
  trial:      {from: watcher, program: PROGRAM, PARAMS}
  brightness: {from: trial}
"""


def prepare(work, names, params="factor: 3", more=""):
    """Writes micrographs of these names, the stage and a graph; returns the graph's path."""
    program = write(work("trial.py"), STAGE)
    os.chmod(program, 0o755)
    for name in names:
        path = work("incoming", f"{name}.mrc")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with mrcfile.new(path) as file:
            file.set_data(np.random.default_rng(1).normal(size=(16, 16)).astype(np.float32))
            file.voxel_size = 2.0
    text = GRAPH.replace("INCOMING", work("incoming")).replace("PROGRAM", program)
    return write(work("graph.yaml"), text.replace("PARAMS", params).replace("MORE", more))


def ledger(session, stage, columns):
    """Returns {id: (column, …)} of a stage's ledger."""
    with sqlite3.connect(f"file:{session}/ledger/{stage}.sqlite?mode=ro", uri=True) as db:
        return {row[0]: row[1:] for row in db.execute(f"SELECT id, {columns} FROM items")}


def outcomes(work):
    bad = ["reject_1", "raise_1", "leave_1", "none_1", "nan_1", "other_1"]
    good = ["grid/good_1", "good_2", "x" * 240 + "_1"]
    graph, session = prepare(work, good + bad), work("session")
    run("run", graph, "--session", session, "--until-idle", "0.5", timeout=120, expect=3)
    counts = status(session)["stages"]["trial"]
    check((counts["done"], counts["rejected"], counts["failed"]) == (3, 1, 5), f"counts: {counts}")
    rows = ledger(session, "trial", "state, reason, item")
    expected = {
        "reject_1": (2, "too dark ?"),
        "raise_1": (3, "no such column ?"),
        "leave_1": (3, "SystemExit: left"),
        "none_1": (3, "TypeError: process returned NoneType: it must return the item, or raise Reject"),
        "other_1": (3, "ValueError: process changed the item's id, source or revision: they say which item it is"),
    }
    for name, outcome in expected.items():
        check(rows[name][:2] == outcome, f"{name}: {rows[name][:2]}")
    check(rows["nan_1"][0] == 3 and rows["nan_1"][1].startswith("ValueError: "), f"nan_1: {rows['nan_1'][:2]}")
    log = open(f"{session}/log/trial.0.log").read()
    check("Traceback (most recent call last)" in log, "the log has the whole exception")
    check(log.count(" INFO start ") == 1, "no exception has ended the process")
    there = ledger(session, "brightness", "state, item")
    check(sorted(there) == sorted(good) and all(row[0] == 1 for row in there.values()), f"behind it: {list(there)}")
    check('"trial":6.0' in there["good_2"][1].replace(" ", ""), "the column is 3 × 2.0 Å")
    told = [(w["stage"], w["id"], w["count"]) for w in status(session)["warnings"] if w["stage"] == "trial"]
    check(told == [("trial", "odd", 2)], f"warnings: {told}")
    product = f"{session}/trial/grid/good_1_trial.txt"
    check(os.path.exists(product) and "trial/grid/good_1_trial.txt" in there["grid/good_1"][1], "the product is named")
    write(f"{session}/mended", "")
    run("retry", "--session", session)
    run("run", graph, "--session", session, "--until-idle", "0.5", timeout=120)
    rows = ledger(session, "trial", "state, reason, item")
    check(all(row[0] == (2 if name == "reject_1" else 1) for name, row in rows.items()), "the retry took all that failed")


def killed(work):
    names = [f"good_{i}" for i in range(12)] + ["crash_1"]
    graph, session = prepare(work, names, "pause: 0.05"), work("session")
    live = launch("run", graph, "--session", session, "--until-idle", "3")
    try:
        for least in (1, 4, 8):
            wait_until(lambda: len(open(f"{session}/calls.txt").readlines()) >= least, 120, f"{least} calls", live)
            os.kill(heart(session), signal.SIGKILL)
        check(live.wait(240) == 3, "the run ends, and one item has failed")
    finally:
        stop(live)
    rows = ledger(session, "trial", "state, reason")
    check(all(row[0] == (3 if name == "crash_1" else 1) for name, row in rows.items()), f"{rows}")
    there = ledger(session, "brightness", "state, attempts")
    check(len(there) == 12 and all(row[0] == 1 for row in there.values()), "each item came through, and the crash did not")


def changes(work):
    """A live parameter gets another value while the stage runs."""
    graph, session = prepare(work, ["good_1"]), work("session")
    live = launch("run", graph, "--session", session)

    def seen(name):
        try:
            found = ledger(session, "brightness", "state, item")
        except sqlite3.OperationalError:  # there is no ledger yet, or no table in it
            return False
        return name in found and found[name][0] == 1

    try:
        wait_until(lambda: seen("good_1"), 120, "the first item is done", live)
        run("set", "--session", session, "trial.factor=5")
        beat = f"{session}/log/trial.0.heartbeat.json"
        wait_until(lambda: json.load(open(beat))["change"] == 1, 120, "the stage works with the change", live)
        prepare(work, ["good_2"])
        wait_until(lambda: seen("good_2"), 120, "the second item is done", live)
    finally:
        stop(live)
    items = {name: json.loads(row[0]) for name, row in ledger(session, "brightness", "item").items()}
    check(items["good_1"]["columns"]["trial"] == 6, f"before: {items['good_1']['columns']['trial']}")
    check(items["good_2"]["columns"]["trial"] == 10, f"after: {items['good_2']['columns']['trial']}")
    check("change" not in items["good_1"] or items["good_1"]["change"].get("trial", 0) == 0, "no change at first")
    check(items["good_2"]["change"]["trial"] == 1, "the item carries the change that it was made with")
    log = open(f"{session}/log/trial.0.log").read()
    check(log.count(" INFO start ") == 1, "the stage was not started again")


def heart(session):
    """Returns the process of the stage."""
    holder = {}

    def beats():
        holder["pid"] = json.load(open(f"{session}/log/trial.0.heartbeat.json"))["pid"]
        os.kill(holder["pid"], 0)
        return True

    wait_until(beats, 120, "the stage has a heartbeat")
    return holder["pid"]


def tcp(work):
    graph, session = prepare(work, ["good_1", "good_2"], more=", transport: tcp"), work("session")
    run("run", graph, "--session", session, "--until-idle", "0.5", timeout=120)
    there = ledger(session, "brightness", "state")
    check(there == {"good_1": (1,), "good_2": (1,)}, f"{there}")


def wrong(work):
    graph = prepare(work, ["good_1"], "factor: -1")
    result = run("check", graph, expect=2)
    check("factor" in result.stderr, f"check: {result.stderr.strip()}")
    instance = write(
        work("instance.json"),
        f'{{"v": 1, "name": "trial", "session": "{work.path}", "params": {{"factor": "much"}}, "inputs": [], "outputs": []}}',
    )
    result = subprocess.run([work("trial.py"), "--instance", instance], capture_output=True, text=True)
    check(result.returncode == 2 and "factor is much: expected float" in result.stderr, f"instance: {result}")


cases = {"outcomes": outcomes, "changes": changes, "killed": killed, "tcp": tcp, "wrong": wrong}
if len(sys.argv) != 2 or sys.argv[1] not in cases:
    sys.exit(f"usage: python_module.py {'|'.join(cases)}")
if subprocess.run(["/usr/bin/python3", "-c", "import zmq"], capture_output=True).returncode != 0:
    print("skipped: /usr/bin/python3 has no zmq (package python3-zmq)")
    sys.exit(77)
with Work(f"python-{sys.argv[1]}") as work:
    cases[sys.argv[1]](work)
    finish()
