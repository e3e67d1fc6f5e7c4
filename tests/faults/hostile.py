#!/usr/bin/env python3
"""Tests hostile input that the edges let in. Items that name foreign files fail, and no program starts that the graph
does not name.

hostile.py paths|nowhere|series|programs"""

import json
import os
import re
import subprocess
import sys

from faults import SKIP, Run, Work, arrive, check, finish, graph, ledger, names, program, status, write
from wire import dropped

HOSTILE = '''#!/usr/bin/python3
"""A source that names what is none of its business."""
import json, os, sys, time
import zmq
if "--describe" in sys.argv:
    print(json.dumps({"name": "hostile", "summary": "", "version": "1", "in": "", "out": "micrograph picks particles",
                      "cumulative": False, "source": True, "params": []}))
    sys.exit(0)
me = json.load(open(sys.argv[sys.argv.index("--instance") + 1]))
items = json.load(open(ITEMS))
context = zmq.Context()
edges = {}
for edge in me["outputs"]:
    out, back = context.socket(zmq.PUSH), context.socket(zmq.PULL)
    out.bind(edge["data"])
    back.bind(edge["ack"])
    edges[edge["edge"]] = out, back
for name, (out, back) in edges.items():
    left = {}
    for seq, item in enumerate(items, 1):
        message = json.dumps({"v": 1, "kind": "item", "edge": name, "seq": seq, "attempt": 1, "item": item})
        out.send_string(message.replace("NUL", "\\\\u0000"))
        if item.get("columns"):
            left[seq] = item["id"]
    while left:
        answer = back.recv_json()
        if answer["kind"] == "ack":
            left.pop(answer["seq"], None)
    out.send_json({"v": 1, "kind": "end", "edge": name, "seq": 0, "attempt": 1})
    while back.recv_json().get("verdict") != "end":
        pass
context.destroy(linger=1000)
'''

PATHS_GRAPH = """\
session: {pixel_size: 6.0, inputs: [INPUT]}
programs: [HOSTILE]
stages:
  hostile:        {program: HOSTILE}
  lowpass-picker: {from: hostile, diameter: 130, lowpass: 40, write_png: false}
  extractor:      {from: hostile, box: 32}
"""


def source(work, items):
    """Writes the hostile source with what it sends. Returns its path."""
    write(work("items.json"), json.dumps(items))
    path = write(work("hostile"), HOSTILE.replace("ITEMS", repr(work("items.json"))))
    os.chmod(path, 0o755)
    return path


def nowhere():
    """Sends paths into folders that never were, before good items. They must fail at once: as many as there are lanes,
    each waiting for its folder, would stop the stage."""
    with Work("nowhere") as work:
        some, place = names()[:4], work("input")
        arrive(some, place)
        astray = ("nosuch/x.mrc", "nosuch/../../x.mrc", f"{place}/nosuch/x.mrc", f"{place}/a/b/c.mrc", "log/no/x.mrc")

        def item(id, path):
            return {
                "v": 1,
                "id": id,
                "kind": "micrograph",
                "micrograph": {"path": path, "nx": 160, "ny": 160},
                "columns": {"number": 1},
            }

        bad = [item(f"bad/{n}", path) for n, path in enumerate(3 * astray)]
        good = [item(f"good/{n}", f"{place}/{name}") for n, name in enumerate(some)]
        text = PATHS_GRAPH.replace("HOSTILE", source(work, bad + good)).replace("INPUT", place)
        path = write(work("graph.yaml"), text[: text.index("  extractor")])
        with Run(path, work("session")) as live:
            live.finish(3)  # the harness would wait 300 s for a folder, longer than this waits for the end
        rows = ledger(work("session"), "lowpass-picker", "SELECT id, state, reason FROM items")
        wrong = [row for row in rows if row[1] != (3 if row[0].startswith("bad/") else 1)]
        check(len(rows) == len(bad + good) and not wrong, f"what is nowhere fails, the rest is done {wrong[:3]}")
        reasons = {reason for _, state, reason in rows if state == 3}
        check(all("there is no such file" in r or "is neither in" in r for r in reasons), f"the reasons: {reasons}")


def series():
    """Sends tilts of series whose names cannot name a tomogram, beside those of a good one."""
    with Work("hostile-series") as work:
        some, place = names()[:3], work("input")
        arrive(some, place)
        odd = ("B\n1", "..", "a/../b", "", "/x", "x" * 5000)

        def item(id, series, n):
            return {
                "v": 1,
                "id": id,
                "kind": "micrograph",
                "micrograph": {"path": f"{place}/{some[n]}", "nx": 160, "ny": 160},
                "tilt": {"series": series, "angle": 10 * n},
                "columns": {"number": 1},
            }

        bad = [item(f"bad/{k}_{n}", name, n) for k, name in enumerate(odd) for n in range(3)]
        good = [item(f"good/{n}", "good", n) for n in range(3)]
        hostile = source(work, bad + good)
        path = write(
            work("graph.yaml"),
            f"session: {{pixel_size: 6.0, inputs: [{place}]}}\nprograms: [{hostile}]\nstages:\n"
            f"  hostile: {{program: {hostile}}}\n"
            "  tilt-reconstructor: {from: hostile, thickness: 12, iterations: 2, quiet: 1, bin: 2}\n",
        )
        with Run(path, work("session")) as live:
            output = live.finish(3)
        check("starting it again" not in output, "the stage does not die of a name")
        rows = ledger(work("session"), "tilt-reconstructor", "SELECT id, state, reason FROM items")
        wrong = [row for row in rows if row[1] != (3 if row[0].startswith("bad/") else 1)]
        check(len(rows) == len(bad + good) and not wrong, f"tilts of such series fail, the rest is done {wrong[:3]}")
        reasons = {reason for _, state, reason in rows if state == 3}
        check(all("cannot name a tomogram" in reason for reason in reasons), f"the reasons: {reasons}")
        check(os.path.exists(work("session", "tilt-reconstructor", "good.mrc")), "the good series has its tomogram")


def paths():
    """Sends items from a hostile source. Each stage after it processes what it may and fails the rest."""
    with Work("paths") as work:
        some, session, outside, place = names()[:6], work("session"), work("outside"), work("input")
        arrive(some, place)
        arrive(some, outside)
        os.symlink(f"{outside}/{some[0]}", f"{place}/link.mrc")
        os.symlink(outside, f"{place}/folder")
        os.symlink(f"{place}/{some[1]}", f"{place}/inside.mrc")
        os.makedirs(f"{session}/lowpass-picker")
        os.symlink(outside, f"{session}/lowpass-picker/out")
        picks = write(f"{place}/picks.star", "data_\n\nloop_\n_rlnCoordinateX #1\n_rlnCoordinateY #2\n80 80\n")
        write(f"{outside}/picks.star", open(picks).read())

        def item(id, path, star=picks):
            return {
                "v": 1,
                "id": id,
                "kind": "micrograph",
                "micrograph": {"path": path, "nx": 160, "ny": 160},
                "picks": {"star": star, "count": 1},
                "columns": {"number": 1},
            }

        good = [item(f"good/{n}", f"{place}/{name}") for n, name in enumerate(some)] + [
            item("good/inside", f"{place}/inside.mrc"),
            item("good/dots", f"{place}/../input/{some[0]}"),
        ]
        bad = [
            item(f"bad/{n}", path)
            for n, path in enumerate(
                (
                    "/etc/passwd",
                    f"{outside}/{some[0]}",
                    f"{place}/../outside/{some[0]}",
                    f"../outside/{some[0]}",
                    f"{place}/link.mrc",
                    f"{place}/folder/{some[0]}",
                    "/proc/self/environ",
                    f"{place}x/../outside/{some[0]}",
                    f"{session}/../outside/{some[0]}",
                    "/dev/zero",
                )
            )
        ]
        gone = [item(f"gone/{n}", path) for n, path in enumerate(("nowhere.mrc", "", f"{place}/a\nb.mrc", f"{place}"))]
        led_out = [item("out/1", f"{place}/{some[2]}"), item("out/deeper/1", f"{place}/{some[2]}")]
        stars = [
            item(f"star/{n}", f"{place}/{some[3]}", star)
            for n, star in enumerate((f"{outside}/picks.star", "../outside/picks.star", "/etc/passwd"))
        ]
        odd = [
            {**item(id, f"{place}/{some[4]}"), "columns": {}}
            for id in (
                "../escape",
                "a/../../escape",
                "/absolute",
                "a//b",
                "./a",
                "a\nb",
                "aNULb",
                "",
                "..",
                "a/",
                "\x7f",
            )
        ]
        hostile = source(work, good + bad + gone + led_out + stars + odd)
        path = write(work("graph.yaml"), PATHS_GRAPH.replace("HOSTILE", hostile).replace("INPUT", place))
        with Run(path, session) as live:
            live.finish(3)
        found = {
            stage: {
                id: (state, reason)
                for id, state, reason in ledger(session, stage, "SELECT id, state, reason FROM items")
            }
            for stage in ("lowpass-picker", "extractor")
        }
        for stage, verdicts in found.items():
            wrong = [one["id"] for one in good if verdicts.get(one["id"], (0,))[0] != 1]
            check(not wrong, f"{stage}: what is in the input folder is done {wrong}")
            wrong = [
                (one["micrograph"]["path"], verdicts.get(one["id"]))
                for one in bad
                if verdicts.get(one["id"], (0,))[0] != 3 or "nor in an input folder" not in verdicts[one["id"]][1]
            ]
            check(not wrong, f"{stage}: what is outside fails, with the reason {wrong[:3]}")
            check(all(verdicts[one["id"]][0] == 3 for one in gone), f"{stage}: what is not there fails")
            check(dropped(session, f"{stage}.0") == len(odd), f"{stage}: messages with odd ids are dropped")
            check(
                len(verdicts) == len(good + bad + gone + led_out + stars),
                f"{stage}: {len(verdicts)} items in the ledger",
            )
        for one in led_out:
            state, reason = found["lowpass-picker"][one["id"]]
            check(state == 3, f"a product that a link leads out is not written: {reason}")
        for one in stars:
            state, reason = found["extractor"][one["id"]]
            check(state == 3 and "nor in an input folder" in reason, f"a STAR file outside is not read: {reason}")
        check(sorted(os.listdir(outside)) == sorted(some + ["picks.star"]), "nothing was written outside")
        check(
            not os.path.exists(work("escape"))
            and sorted(os.listdir(work.path))
            == sorted(["graph.yaml", "hostile", "input", "items.json", "outside", "session", "session.out"]),
            "nor beside",
        )


def programs():
    """Checks all processes of a run: the launcher starts only its stages, and stages start nothing. No shell runs."""
    if subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode:
        print("skipped: processes cannot be traced here (strace)")
        sys.exit(SKIP)
    with Work("programs") as work:
        few, session = work("a; touch $(injected) `injected`"), work("session 'x'; touch injected")
        arrive(names()[:5], few)
        path = graph(work.path, micrographs=few, more="  classifier: {from: extractor, diameter: 130, classes: 1}\n")
        trace = work("trace")
        words = [
            "strace",
            "-f",
            "-qq",
            "-e",
            "trace=execve,execveat",
            "-s",
            "300",
            "-o",
            trace,
            program("icestream"),
            "run",
            path,
            "--session",
            session,
            "--until-idle",
            "0.5",
        ]
        subprocess.run(words, cwd=work.path, capture_output=True, timeout=200, check=True)
        started = [re.search(r'execve(?:at)?\((?:\w+, )?"([^"]*)"', line) for line in open(trace)]
        started = [match[1] for match in started if match]
        folder = os.path.realpath(os.path.dirname(program("icestream")))
        strange = [
            one
            for one in started
            if os.path.realpath(os.path.dirname(one)) != folder
            or os.path.basename(one)
            not in (
                "icestream",
                "icestream-watcher",
                "icestream-lowpass-picker",
                "icestream-extractor",
                "icestream-classifier",
            )
        ]
        check(len(started) >= 9 and not strange, f"{len(started)} programs were started; strange: {strange}")
        check(
            not [name for _, _, files in os.walk(work.path) for name in files if name == "injected"],
            "no word became one",
        )
        done_all = status(session)["stages"]
        check(all(one["done"] == 5 for name, one in done_all.items() if name != "classifier"), "and all was done")


cases = {"paths": paths, "nowhere": nowhere, "series": series, "programs": programs}
if len(sys.argv) != 2 or sys.argv[1] not in cases:
    sys.exit(f"usage: hostile.py {'|'.join(cases)}")
cases[sys.argv[1]]()
finish()
