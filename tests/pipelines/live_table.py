#!/usr/bin/env python3
"""Watches `icestream run` on terminals of several widths: no row may be wider than the terminal, and what matters is there.

live_table.py"""

import os
import re
import shutil
import tempfile

from terminal import Terminal, check

BIN = os.path.abspath(os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(__file__), "../../build/cpu/bin")))
RELAY = os.path.join(BIN, "../tests/relay")


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
