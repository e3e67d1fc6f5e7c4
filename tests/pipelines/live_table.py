#!/usr/bin/env python3
"""Watches `icestream run` on terminals of several widths: no row may be wider than the terminal, and what matters is there.

live_table.py"""

import atexit
import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import tempfile
import termios
import time

BIN = os.path.abspath(os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(__file__), "../../build/cpu/bin")))
RELAY = os.path.join(BIN, "../tests/relay")
LIMIT = float(os.environ.get("LIMIT", 120))  # s to wait for anything
CURSOR = re.compile(r"\r?\x1b\[\d*[AJ]")


def check(condition, text):
    if not condition:
        raise AssertionError(text)


class Terminal:
    """A program on a terminal of its own. `output` is all that it has printed."""

    def __init__(self, command, columns, rows=40, **environment):
        self.ours, theirs = pty.openpty()
        self.resize(columns, rows)
        self.output = ""
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, **environment}, close_fds=True
        )
        os.close(theirs)
        atexit.register(self.process.terminate)

    def resize(self, columns, rows=40):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds=1):
        """Returns False once nobody has the terminal open any more."""
        if not select.select([self.ours], [], [], seconds)[0]:
            return True
        try:
            self.output += os.read(self.ours, 65536).decode("utf-8", "surrogateescape")
        except OSError:
            return False
        return True

    def tables(self, begin=0):
        """Returns the whole tables that were drawn after this much of the output, each as a list of rows. Messages above
        a table stay where they are, and the terminal may break them."""
        parts = CURSOR.split(self.output[begin:].replace("\r\n", "\n"))
        tables = [
            [row for row in part.split("\n")[:-1] if not row.startswith("icestream: ")]
            for part in parts
            if re.search(r"^stage ", part, re.M)
        ]
        return tables if self.process.poll() is not None else tables[:-1]

    def wait_table(self, fits, what, begin=0):
        """Waits for a table that fits; checks on the way that no row is wider than the terminal."""
        end = time.time() + LIMIT
        while time.time() < end:
            going = self.read()
            for table in self.tables(begin):
                if fits("\n".join(table)):
                    return table
            check(going, f"the run ended before {what}:\n{self.output[-3000:]}")
        raise AssertionError(f"not within {LIMIT} s: {what}:\n{self.output[-3000:]}")

    def finish(self):
        while self.read():
            pass
        return self.process.wait(timeout=LIMIT)


def graph(folder):
    for name in ("source", "relay", "thinker"):
        with open(f"{folder}/{name}.sh", "w") as script:
            script.write(f"#!/bin/sh\nexec '{RELAY}' {name} \"$@\"\n")
        os.chmod(f"{folder}/{name}.sh", 0o755)
    with open(f"{folder}/graph.yaml", "w") as file:
        file.write(
            f"programs: [{folder}/source.sh, {folder}/relay.sh, {folder}/thinker.sh]\nstages:\n"
            f"  source: {{program: {folder}/source.sh, count: 12}}\n"
            f"  relay: {{program: {folder}/relay.sh, from: source, fail_at: 3, picks: 10}}\n"
            f"  thinker: {{program: {folder}/thinker.sh, from: relay}}\n"
        )
    return f"{folder}/graph.yaml"


def start(folder, columns, **environment):
    os.makedirs(folder)
    command = [f"{BIN}/icestream", "run", graph(folder), "--session", f"{folder}/session"]
    return Terminal(command, columns, **environment)


def enough(folder):
    with open(f"{folder}/session/thinker/enough", "w"):
        pass


def is_complete(table):
    """All is counted, the stage at work of its own says what it does, and the numbers of its note are whole."""
    return (
        "110 picks" in table
        and re.search(r"\d per minute", table)
        and "8.4 " in table
        and "computing iteration 17" in table
        and re.search(r"(^|\s)123456\.789(\s|$)", table)
        and re.search(r"(?m)^relay +11 ", table)
    )


def look(folder, terminal, columns):
    table = terminal.wait_table(is_complete, f"a whole table in {columns} columns")
    for drawn in terminal.tables():
        wide = [row for row in drawn if len(row) > columns]
        check(not wide, f"{columns} columns: {wide}")
    check(re.match(r"\d+:\d\d:\d\d   12 items", table[0]), f"{columns} columns: the first line: {table[0]!r}")
    check("8.4 Å" in "\n".join(table), table)
    row = [row for row in table if row.startswith("thinker")][0]
    check("waiting" not in row, row)
    if columns >= 80:
        check(row.endswith("computing iteration 17"), f"the state stands in the row: {row!r}")
    told = terminal.output.count("icestream: relay: grid/mic_0003 failed: item 3 is broken")
    check(told == 1, f"the failure is told once, while the run goes on: {told}")
    enough(folder)
    check(terminal.finish() == 3, f"one item has failed: {terminal.output[-3000:]}")


def ascii_only(folder, terminal):
    """A locale that is not UTF-8 gets no byte beyond ASCII, and a low terminal no more rows than it has."""
    table = terminal.wait_table(is_complete, "a whole table")
    check("8.4 A" in "\n".join(table), table)
    terminal.resize(80, 5)
    begin = len(terminal.output)
    low = terminal.wait_table(lambda text: "more lines)" in text, "a table of four rows", begin)
    check(len(low) == 4, low)
    beyond = [c for c in terminal.output if ord(c) > 127]
    check(not beyond, f"bytes beyond ASCII: {beyond}")
    enough(folder)
    check(terminal.finish() == 3, f"one item has failed: {terminal.output[-3000:]}")


work = tempfile.mkdtemp(prefix="icestream-live-table-")
print(f"in {work}")
terminals = {columns: start(f"{work}/{columns}", columns, LC_ALL="C.UTF-8") for columns in (44, 80, 132)}
plain = start(f"{work}/ascii", 80, LC_ALL="C")
for columns, terminal in terminals.items():
    look(f"{work}/{columns}", terminal, columns)
ascii_only(f"{work}/ascii", plain)
shutil.rmtree(work)
