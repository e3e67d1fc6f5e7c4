#!/usr/bin/env python3
"""Runs whole sessions of stages that only pass items on (tests/common/relay.c): deaths, signals, failures, joins,
retries.

supervision.py CASE"""

import contextlib
import glob
import json
import os
import pty
import re
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(__file__), "../../build/cpu/bin")))
RELAY = os.path.join(BIN, "../tests/relay")
MANY = 250


class Session:
    def __init__(self, folder, stages):
        self.folder, self.path, self.graph = folder, f"{folder}/session", f"{folder}/graph.yaml"
        for name in ("source", "relay"):
            with open(f"{folder}/{name}.sh", "w") as script:
                script.write(f"#!/bin/sh\nexec '{RELAY}' {name} \"$@\"\n")
            os.chmod(f"{folder}/{name}.sh", 0o755)
        with open(self.graph, "w") as graph:
            graph.write(
                f"programs: [{folder}/source.sh, {folder}/relay.sh, {folder}/gone.sh]\nstages:\n"
                + "".join(f"  {line}\n".replace("program: .", f"program: {folder}") for line in stages)
            )

    def start(self, *options):
        return subprocess.Popen(
            [f"{BIN}/icestream", "run", self.graph, "--session", self.path, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, process, expected):
        try:
            output, _ = process.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        if process.returncode != expected:
            raise AssertionError(f"exit {process.returncode}, expected {expected}:\n{output}")
        # The list of warnings at the end repeats the last death.
        return "".join(line for line in output.splitlines(True) if ": warning: " not in line)

    def run(self, expected=0, *options):
        return self.finish(self.start(*options), expected)

    def command(self, *words):
        return subprocess.run([f"{BIN}/icestream", *words, "--session", self.path], capture_output=True, text=True)

    def status(self):
        return json.loads(self.command("status", "--json").stdout)

    def counts(self, stage):
        found = self.status()["stages"][stage]
        return tuple(found[k] for k in ("seen", "done", "rejected", "failed", "in_flight"))

    def expect(self, stage, *counts):
        if self.counts(stage) != counts:
            raise AssertionError(f"{stage}: {self.counts(stage)}, expected {counts}")

    def wait_done(self, stage, number, process):
        """Waits until this many items are done. A status that is not there yet counts as none."""
        end = time.time() + 60
        while time.time() < end:
            try:
                if self.counts(stage)[1] >= number:
                    return
            except (ValueError, KeyError):
                pass
            if process.poll() is not None:
                raise AssertionError(f"over before {stage} had done {number}:\n{process.stdout.read()}")
        raise AssertionError(f"{stage} has not done {number} within a minute")

    def pid(self, stage):
        """Returns None when the process has just started and has not reported yet."""
        return self.status()["stages"][stage]["instances"][0].get("pid")


def chain(folder, count, source="", first=""):
    return Session(
        folder,
        [
            f"source: {{program: ./source.sh, count: {count}{source}}}",
            f"one: {{program: ./relay.sh, from: source{first}}}",
            "two: {program: ./relay.sh, from: one}",
        ],
    )


def all_done(session, count):
    for stage in ("source", "one", "two"):
        session.expect(stage, count, count, 0, 0, 0)
    assert open(f"{session.path}/two/summary.txt").read() == f"{count}\n"


def case_calm(folder):
    session = chain(folder, 40)
    session.run()
    all_done(session, 40)
    session.run()  # nothing to do
    all_done(session, 40)
    orders = json.load(open(f"{session.path}/log/one.0.instance.json"))
    assert not {"shared", "endpoints"} & set(orders), "one machine waits for no other"


def case_tcp(folder):
    """Stages that die come back at the sockets that the launcher keeps for them."""
    session = chain(folder, 40, first=", abort_at: 20, abort_times: 2")
    output = session.run(0, "--set", "session.transport=tcp", "--set", "one.replicas=2")
    assert output.count("died while it worked on grid/mic_0020") == 2, output
    all_done(session, 40)
    secret = f"{session.path}/log/source.0.instance.json"
    assert os.stat(secret).st_mode & 0o077 == 0, "the keys can be read by others"
    for edge in json.load(open(secret))["outputs"]:
        assert edge["data_descriptor"] > 2 and edge["ack_descriptor"] > 2, edge


def case_crash(folder):
    """An item that kills its stage twice must still be done."""
    session = chain(folder, 40, first=", abort_at: 20, abort_times: 2")
    output = session.run()
    assert output.count("died while it worked on grid/mic_0020") == 2, output
    all_done(session, 40)


def case_set_aside(folder):
    """An item that kills its stage three times is set aside. A retry sends it through."""
    session = chain(folder, 40, first=", abort_at: 20, abort_times: 3")
    output = session.run(3)
    assert "set aside" in output and "icestream retry" in output, output
    session.expect("one", 40, 39, 0, 1, 0)
    session.expect("two", 39, 39, 0, 0, 0)
    (item,) = [i for i in session.status()["items"] if i["state"] == "failed"]
    assert item["id"] == "grid/mic_0020" and item["stage"] == "one" and "Aborted" in item["reason"], item
    assert session.command("retry", "--stage", "two").stdout == "nothing has failed\n"
    assert session.command("retry", "--stage", "three").returncode == 2
    assert session.command("retry", "grid/mic_0021").returncode == 2
    assert session.command("retry", "grid/mic_0020").returncode == 0
    session.expect("one", 40, 39, 0, 0, 1)
    # As if the retry had been cut short before the sender got it.
    with contextlib.closing(sqlite3.connect(f"{session.path}/ledger/source.sqlite")) as ledger:
        assert (
            ledger.execute("UPDATE outbox SET acknowledged = 1, verdict = 'failed' WHERE acknowledged IS NULL").rowcount
            == 1
        )
        ledger.commit()
    assert session.command("retry").stdout.startswith("one: grid/mic_0020 goes through again\n")
    session.run()
    all_done(session, 40)


def case_set_aside_replicas(folder):
    """The same with two other replicas, which continue meanwhile."""
    session = chain(folder, MANY, first=", replicas: 3, abort_at: 20, abort_times: 3")
    session.run(3)
    session.expect("one", MANY, MANY - 1, 0, 1, 0)
    assert session.command("retry").stdout.startswith("one: grid/mic_0020 goes through again")
    session.run()
    all_done(session, MANY)


def case_stopped_inside(folder):
    """An item is not to blame when the stage is stopped while it works on it, however often this happens."""
    session = chain(folder, 40, first=", hang_at: 20, hang_times: 3")
    for i in range(3):
        live = session.start()
        while not os.path.exists(f"{session.path}/one/hung_{i}"):
            assert live.poll() is None, live.stdout.read()
            time.sleep(0.01)
        live.send_signal(signal.SIGTERM)
        output = session.finish(live, 1)
        assert "died while" not in output and "set aside" not in output, output
    session.run()
    all_done(session, 40)


def case_receiver_gone(folder):
    """The receiver has already ended, as after a death at the very end. Its sender must not wait for its answer."""
    session = chain(folder, 0)
    with open(f"{folder}/gone.sh", "w") as script:
        script.write(f"#!/bin/sh\n[ \"$1\" = --instance ] && exit 0\nexec '{RELAY}' relay \"$@\"\n")
    os.chmod(f"{folder}/gone.sh", 0o755)
    with open(session.graph) as graph:
        text = graph.read().replace(f"two: {{program: {folder}/relay.sh", f"two: {{program: {folder}/gone.sh")
    with open(session.graph, "w") as graph:
        graph.write(text)
    session.run()


def case_failed_item(folder):
    session = chain(folder, 40, first=", fail_at: 7, reject_if: number > 30")
    session.run(3)
    session.expect("one", 40, 30, 9, 1, 0)
    session.expect("two", 30, 30, 0, 0, 0)
    reasons = {i["reason"] for i in session.status()["items"] if i["state"] == "failed"}
    assert any("item 7 is broken" in r for r in reasons), reasons


def case_kill_stage(folder):
    session = chain(folder, MANY)
    live = session.start()
    for stage, number in (
        ("source", 20),
        ("one", 40),
        ("two", 60),
    ):  # the order in which they end
        session.wait_done("two", number, live)
        os.kill(session.pid(stage), signal.SIGKILL)
    output = session.finish(live, 0)
    assert output.count("starting it again") == 3, output
    all_done(session, MANY)


def case_kill_launcher(folder):
    session = chain(folder, MANY)
    live = session.start()
    session.wait_done("two", 20, live)
    pids = [session.pid(s) for s in ("source", "one", "two")]
    live.kill()
    live.communicate()
    end = time.time() + 20
    while any(os.path.exists(f"/proc/{p}") and open(f"/proc/{p}/stat").read().split(")")[1][1] != "Z" for p in pids):
        assert time.time() < end, "a stage outlives its launcher"
    session.run()
    all_done(session, MANY)


def case_stop(folder):
    session = chain(folder, MANY)
    live = session.start()
    session.wait_done("two", 20, live)
    live.send_signal(signal.SIGTERM)
    assert "run the session again" in session.finish(live, 1)
    assert session.counts("two")[1] < MANY, "nothing was left to go on with"
    session.run()
    all_done(session, MANY)


def case_locked_ledger(folder):
    """One ledger cannot be written, so the launcher cannot record a death in it. It must still look after the other
    stages."""
    session = chain(folder, MANY)
    live = session.start("--backoff", "0.1")
    session.wait_done("two", 20, live)
    with contextlib.closing(
        sqlite3.connect(f"{session.path}/ledger/one.sqlite", timeout=60, isolation_level=None)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        before = session.pid("two")
        for stage in ("one", "two"):
            os.kill(session.pid(stage), signal.SIGKILL)
        # This is as long as a stage waits for a ledger, and as long again. If the launcher waited too, no stage would
        # start.
        end = time.time() + 30
        while session.pid("two") in (before, None):
            assert live.poll() is None, live.stdout.read()
            assert time.time() < end, "nothing was started again while a ledger was locked"
            time.sleep(0.05)
        other.execute("ROLLBACK")
    assert session.finish(live, 0).count("starting it again") == 2
    all_done(session, MANY)


def case_drain(folder):
    session = chain(folder, 100000)
    live = session.start()
    session.wait_done("two", 20, live)
    live.send_signal(signal.SIGINT)
    assert "draining" in session.finish(live, 0)
    seen = session.counts("source")[0]
    assert 20 <= seen < 100000, seen
    for stage in ("source", "one", "two"):
        session.expect(stage, seen, seen, 0, 0, 0)


def screen(output):
    """Returns the lines that a terminal shows after this output."""
    lines, row, column, at = [""], 0, 0, 0
    while at < len(output):
        order = re.compile(r"\x1b\[(\d*)([A-Z])").match(output, at)
        if order is None:
            if output[at] == "\r":
                column = 0
            elif output[at] == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            else:
                lines[row] = lines[row][:column].ljust(column) + output[at] + lines[row][column + 1 :]
                column += 1
            at += 1
            continue
        at = order.end()
        if order[2] == "A":
            row = max(row - int(order[1] or 1), 0)
        elif order[2] == "J":
            lines = lines[:row] + [lines[row][:column]]
        else:
            raise AssertionError(f"the screen has no order {order[0]!r}")
    return lines


def case_ctrl_c(folder):
    """A terminal echoes Ctrl-C into the table. What icestream then says begins its line all the same."""
    session = chain(folder, 100000)
    ours, theirs = pty.openpty()
    live = subprocess.Popen(
        [f"{BIN}/icestream", "run", session.graph, "--session", session.path],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    output, pressed, end = "", False, time.time() + 120
    while True:
        assert time.time() < end, output
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            output += os.read(ours, 65536).decode()
        except OSError:  # nobody has the terminal open any more
            break
        if not pressed and re.search(r"\ntwo [^\n]*\n$", output):  # the whole table
            output += "^C"
            live.send_signal(signal.SIGINT)
            pressed = True
    os.close(ours)
    assert live.wait(timeout=60) == 0, output
    said = [line for line in screen(output) if "draining" in line]
    assert len(said) == 1 and said[0].startswith("icestream: draining"), said


def case_join(folder):
    """Three sources lead to one stage, on two ways and through replicas. Each item counts once. The instance files say
    that products of several sources lie apart, and go on saying what they said when the session began."""
    session = Session(
        folder,
        [
            "left: {program: ./source.sh, count: 30}",
            "right: {program: ./source.sh, count: 40, first: 100}",
            "up: {program: ./relay.sh, from: [left, right], replicas: 2}",
            "third: {program: ./source.sh, count: 20, first: 200}",
            "down: {program: ./relay.sh, from: third, replicas: 2}",
            "join: {program: ./relay.sh, from: [up, down]}",
        ],
    )
    counts = {"left": 30, "right": 40, "up": 70, "third": 20, "down": 20, "join": 90}

    def separate():
        paths = glob.glob(f"{session.path}/log/*.instance.json")
        assert len(paths) == 8, paths
        return {json.load(open(path))["separate"] for path in paths}

    session.run()
    for stage, count in counts.items():
        session.expect(stage, count, count, 0, 0, 0)
    assert separate() == {True}
    plan = json.load(open(f"{session.path}/log/plan.json"))
    assert plan.pop("separate")
    with open(f"{session.path}/log/plan.json", "w") as file:
        json.dump(plan, file)
    assert "the products of all sources in one folder" in session.run()
    for _ in range(2):
        assert separate() == {False}
        session.run()


cases = {name[5:]: function for name, function in globals().items() if name.startswith("case_")}
if len(sys.argv) != 2 or sys.argv[1] not in cases:
    sys.exit(f"usage: supervision.py {'|'.join(cases)}")
work = tempfile.mkdtemp(prefix="icestream-supervision-")
print(f"in {work}")
cases[sys.argv[1]](work)
shutil.rmtree(work)
