#!/usr/bin/env python3
"""Tests what `status` and `retry` say of a session whose ledgers and products were touched.

joins.py lost|status|retry"""

import glob
import json
import os
import struct
import subprocess
import sys

from faults import MICROGRAPHS, Run, Work, arrive, check, finish, graph, names, program, whole, write


def icestream(command, session, *words):
    return subprocess.run(
        [program("icestream"), command, "--session", session, *words], capture_output=True, text=True, timeout=300
    )


def row(text, first):
    """Returns the numbers of the line that begins with this word."""
    found = [line.split()[1:] for line in text.splitlines() if line.split()[:1] == [first]]
    return found[0] if found else None


def inputs(session, stage):
    return json.loads(icestream("status", session, "--json").stdout)["stages"][stage]["inputs"]


def some(work, count):
    """Returns a session of a few micrographs that has ended, and its graph."""
    incoming, session = work("incoming"), work("session")
    arrive(names()[:count], incoming)
    path = graph(work.path, micrographs=incoming)
    with Run(path, session, "--until-idle", 1) as live:
        live.finish(0, 300)
    return path, session


def quiet(session, expected, what):
    """Checks that status finds nothing wrong with the counts."""
    answer = icestream("status", session)
    check(answer.returncode == 0, f"{what}: exit {answer.returncode}")
    check("add up" not in answer.stdout + answer.stderr, f"{what}: no alarm: {answer.stderr}")
    check(row(answer.stdout, "watcher>lowpass-picker") == expected, f"{what}: the row of the input: {answer.stdout}")


def case_lost(work):
    """A deleted product that is to be made again is no reason for an alarm, not even when that fails."""
    path, session = some(work, 3)
    quiet(session, None, "undisturbed")
    product = sorted(glob.glob(f"{session}/lowpass-picker/*_autopick.star"))[0]
    for broken in (False, True):
        os.remove(product)
        answer = icestream("retry", session, "--lost")
        check(answer.stdout.count("goes through again") == 1, f"retry --lost: {answer.stdout}")
        quiet(session, ["3", "3", "1", "0"], "after retry --lost")
        check(
            inputs(session, "lowpass-picker") == {"watcher": {"sent": 3, "seen": 3, "waiting": 1, "lost": 0}},
            "the JSON says what waits",
        )
        if broken:
            name = os.path.basename(product).replace("_autopick.star", ".mrc")
            os.remove(f"{work('incoming')}/{name}")
        with Run(path, session, "--until-idle", 1) as live:
            live.finish(3 if broken else 0, 300)
        check(os.path.exists(product) != broken, "the product is there again, if it can be made")
        quiet(session, None, "after the run")
        if not broken:
            whole(session)


def case_status(work):
    """A stage whose ledger was lost is found out at its input; the advice is one that helps."""
    path, session = some(work, 3)
    for file in glob.glob(f"{session}/ledger/extractor.sqlite*"):
        os.remove(file)
    advice = f"`icestream repair --session {os.path.realpath(session)}`"
    why = "extractor: 3 items were acknowledged but are not in its ledger"
    for runs in range(3):
        if runs > 0:
            with Run(path, session, "--until-idle", 1) as live:
                said = live.finish(4, 300)
            check(why in said and advice in said, f"run says what helps: {said}")
            check("run the session again" not in said, "and not what does not")
        answer = icestream("status", session)
        check(answer.returncode == 4 and why in answer.stderr and advice in answer.stderr, f"so does status: {answer}")
        check("end the run" not in answer.stderr, "no run is to be ended")
        check(row(answer.stdout, "lowpass-picker>extractor") == ["3", "0", "0", "3"], f"its row: {answer.stdout}")
        check(row(answer.stdout, "watcher>lowpass-picker") is None, "and no row for the input that is right")
        check(
            inputs(session, "extractor") == {"lowpass-picker": {"sent": 3, "seen": 0, "waiting": 0, "lost": 3}},
            "and the JSON",
        )
    answer = icestream("retry", session, "--lost")
    check(answer.returncode == 4 and advice in answer.stderr, f"retry --lost does not say that nothing is lost: {answer}")
    answer = icestream("repair", session)
    check(answer.returncode == 0, f"repair: {answer}")
    quiet(session, None, "after following the advice")
    with Run(path, session, "--until-idle", 1) as live:
        live.finish(0, 300)
    quiet(session, None, "and the next run")
    whole(session)


TWO_GRIDS = """\
session: {pixel_size: 6.0}
stages:
  watcher:        {directory: "INCOMING/a"}
  watcher-b:      {program: watcher, directory: "INCOMING/b"}
  lowpass-picker: {from: [watcher, watcher-b], diameter: 130, lowpass: 40, write_png: false}
  extractor:      {from: lowpass-picker, box: 32}
"""


def case_retry(work):
    """Two grids have micrographs of equal names. Status counts each, and an item has a name that is unique."""
    incoming, session = work("incoming"), work("session")
    arrive(names()[:3], f"{incoming}/a")
    for name, other in zip(names()[:3], names()[3:6]):
        arrive([other], f"{incoming}/b")
        os.rename(f"{incoming}/b/{other}", f"{incoming}/b/{name}")
    first, second, third = (os.path.splitext(name)[0] for name in names()[:3])
    with open(f"{incoming}/b/{first}.mrc", "r+b") as file:  # an image of ones, in which nothing can be picked
        pixels = file.seek(0, os.SEEK_END) // 4 - 256
        file.seek(1024)
        file.write(struct.pack("<f", 1) * pixels)
    path = write(work("graph.yaml"), TWO_GRIDS.replace("INCOMING", incoming))
    with Run(path, session, "--until-idle", 1) as live:
        said = live.finish(3, 300)
    check(f"watcher-b/{first} failed" in said, f"the reason names source and id: {said}")
    data = json.loads(icestream("status", session, "--json").stdout)
    check(
        data["stages"]["lowpass-picker"]["inputs"]
        == {
            "watcher": {"sent": 3, "seen": 3, "waiting": 0, "lost": 0},
            "watcher-b": {"sent": 3, "seen": 3, "waiting": 0, "lost": 0},
        },
        f"each input by itself: {data['stages']['lowpass-picker']['inputs']}",
    )
    listed = {(item["source"], item["id"], item["name"]) for item in data["items"] if item["stage"] == "extractor"}
    wanted = [("watcher", i) for i in (first, second, third)] + [("watcher-b", i) for i in (second, third)]
    check(listed == {(s, i, f"{s}/{i}") for s, i in wanted}, f"the JSON has source, id and name: {listed}")

    for command in ("status", "retry"):
        answer = icestream(command, session, first)
        check(
            answer.returncode == 2 and f"watcher/{first} and watcher-b/{first}" in answer.stderr,
            f"{command}: an id of two items is refused with both names: {answer.stderr}",
        )
    answer = icestream("status", session, f"watcher/{first}", f"watcher-b/{first}").stdout.splitlines()
    check(f"lowpass-picker: watcher/{first} done" in answer, f"status of one item: {answer}")
    check(f"lowpass-picker: watcher-b/{first} failed: " in "\n".join(answer), f"and of the other: {answer}")
    check(len(answer) == 5, "at each stage that has seen it")
    check(icestream("status", session, "nobody").returncode == 2, "an unknown name is refused")

    answer = icestream("retry", session, f"watcher/{first}")
    check(answer.returncode == 2, f"one that has not failed is not sent again: {answer}")
    answer = icestream("retry", session, f"watcher-b/{first}")
    check(answer.stdout.splitlines()[:1] == [f"lowpass-picker: watcher-b/{first} goes through again"], f"retry: {answer}")
    with Run(path, session, "--until-idle", 1) as live:
        live.finish(3, 300)
    done = json.loads(icestream("status", session, "--json").stdout)["stages"]
    check([done[stage]["done"] for stage in ("lowpass-picker", "extractor")] == [5, 5], "the five good ones are done")

    products = glob.glob(f"{session}/lowpass-picker/watcher-b/*_autopick.star")
    check(len(products) == 2, f"the products of each source lie apart: {products}")
    os.remove(f"{session}/lowpass-picker/watcher-b/{second}_autopick.star")
    answer = icestream("retry", session, "--lost", second)
    check(answer.returncode == 2, f"retry --lost: an id of two items is refused: {answer}")
    answer = icestream("retry", session, "--lost", f"watcher-b/{second}").stdout
    again = f"lowpass-picker: watcher-b/{second} goes through again, since its products are gone"
    check(answer.splitlines()[:1] == [again] and answer.count("goes") == 1, f"only the lost one goes again: {answer}")
    check(
        inputs(session, "lowpass-picker")["watcher-b"] == {"sent": 3, "seen": 3, "waiting": 1, "lost": 0},
        "it waits at its own input",
    )
    check(inputs(session, "lowpass-picker")["watcher"]["waiting"] == 0, "and at no other")
    with Run(path, session, "--until-idle", 1) as live:
        live.finish(3, 300)
    check(len(glob.glob(f"{session}/lowpass-picker/watcher-b/*_autopick.star")) == 2, "it is made again")


cases = {name[5:]: function for name, function in globals().items() if name.startswith("case_")}
if len(sys.argv) != 2 or sys.argv[1] not in cases:
    sys.exit(f"usage: joins.py {'|'.join(cases)}")
assert os.path.isdir(MICROGRAPHS), f"{MICROGRAPHS}: run prepare.py, or ctest, which does"
with Work(f"joins-{sys.argv[1]}") as work:
    cases[sys.argv[1]](work)
    finish()
