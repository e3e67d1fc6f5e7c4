"""Helpers of the fault tests, on top of the pipeline tests' session.py: 200 small micrographs, an undisturbed session,
and the comparison with it.

    with Work("my-fault") as work, Run(graph(work.path), work("session"), "--until-idle", "1") as live:
        wait_until(lambda: done(work("session"), "extractor") >= 50, 60, "50 extracted", live)
        os.kill(pids(work("session"))["lowpass-picker.0"], signal.SIGKILL)
        live.finish(0)
    same(calm(), outcome(work("session")))
    finish()"""

import contextlib
import glob
import hashlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../pipelines"))
from session import (  # noqa: E402,F401 (the scripts beside this one import them from here)
    BIN,
    SKIP,
    Work,
    check,
    finish,
    points,
    program,
    run,
    simulate,
    star,
    status,
    wait_until,
    write,
)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../web"))
from same_numbers import same_numbers as compare_numbers  # noqa: E402

COUNT = 200
DATA = os.path.realpath(os.environ.get("ICESTREAM_FAULTS", os.path.join(BIN, "../tests/faults/data")))
MICROGRAPHS = os.path.join(DATA, "sim", "micrographs")
STAGES = ("watcher", "lowpass-picker", "extractor")
COUNTS = ("seen", "done", "rejected", "failed", "in_flight")

GRAPH = """\
session: {pixel_size: 6.0}
stages:
  watcher:        {directory: "MICROGRAPHS"WATCHER}
  lowpass-picker: {from: watcher, diameter: 130, lowpass: 40, write_png: falsePICKER}
  extractor:      {from: lowpass-picker, box: 32EXTRACTOR}
"""


def graph(folder, name="graph.yaml", micrographs=MICROGRAPHS, watcher="", picker="", extractor="", more="", session=""):
    """Writes a graph and returns its path. watcher, picker, extractor: additional keys of these stages (`replicas: 3,
    lanes: 1`). more: additional lines (stages). session: additional keys of the session."""
    text = GRAPH.replace("6.0}", "6.0, " + session + "}" if session else "6.0}").replace("MICROGRAPHS", micrographs)
    for word, keys in (("WATCHER", watcher), ("PICKER", picker), ("EXTRACTOR", extractor)):
        text = text.replace(word, ", " + keys if keys else "")
    return write(os.path.join(folder, name), text + more)


def names():
    """Returns the micrographs' file names, in order."""
    return sorted(os.listdir(MICROGRAPHS))


def arrive(some, folder):
    """Makes whole micrographs appear in a watched folder, each under its own name."""
    os.makedirs(folder, exist_ok=True)
    for name in some:
        hidden = os.path.join(folder, f".{name}.coming")
        shutil.copy2(os.path.join(MICROGRAPHS, name), hidden)
        os.rename(hidden, os.path.join(folder, name))


def seeded(argument=None):
    """Returns a random generator and prints its seed, which ICESTREAM_SEED or an argument sets."""
    seed = int(argument or os.environ.get("ICESTREAM_SEED") or time.time_ns() % 1000000)
    print(f"ICESTREAM_SEED={seed} repeats the choices of this test", flush=True)
    return random.Random(seed)


class Run:
    """Runs `icestream run` with its output in a file. It ends with the block, whatever happens inside."""

    def __init__(self, graph_path, session, *options, **popen):
        self.session, self.log = session, f"{session}.out"
        self.at = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        with open(self.log, "ab") as log:
            words = [program("icestream"), "run", graph_path, "--session", session, *map(str, options)]
            self.process = subprocess.Popen(words, stdout=log, stderr=log, **popen)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if self.poll() is None:
            self.process.kill()
            self.process.wait()
        if kind is not None:
            print(self.output()[-4000:])

    def poll(self):
        return self.process.poll()

    @property
    def returncode(self):
        return self.process.returncode

    def output(self):
        """Returns the output of this run so far."""
        with open(self.log, errors="replace") as log:
            log.seek(self.at)
            return log.read()

    def says(self, text):
        return text in self.output()

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """Kills the launcher. The kernel kills its stages with it. Returns when all are gone."""
        self.process.kill()
        self.process.wait()
        wait_until(lambda: not pids(self.session), 30, "no stage outlives a killed launcher")

    def drain(self, seconds=100):
        """Ends the run when all items are done. --until-idle could end it in the middle of a test that is slow."""
        wait_until(
            lambda: pids(self.session), 60, "the launcher, which takes signals before it starts a stage, listens", self
        )
        self.signal(signal.SIGINT)
        return self.finish(0, seconds)

    def finish(self, expected=0, seconds=100):  # noqa: F811 (a method, not the function of session)
        """Waits for the end and returns the output."""
        code = self.process.wait(seconds)
        if code != expected:
            raise AssertionError(f"the run ended with {code}, not {expected}:\n{self.output()[-4000:]}")
        return self.output()


def pids(session, stage=None):
    """Returns {"lowpass-picker.0": pid} of a session's running stages, or of one named stage."""
    found, folder = {}, os.path.join(os.path.realpath(session), "log") + "/"
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = open(f"/proc/{entry}/cmdline", "rb").read().decode(errors="replace").split("\0")
            if (
                "--instance" not in words[1:-1]
                or open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split()[0] == "Z"
            ):
                continue
            orders = os.path.realpath(words[words.index("--instance") + 1])
            if orders.startswith(folder) and orders.endswith(".instance.json"):
                found[os.path.basename(orders)[: -len(".instance.json")]] = int(entry)
    return {name: pid for name, pid in found.items() if stage is None or name.rsplit(".", 1)[0] == stage}


def ledger(session, stage, query, *values):
    """Returns rows of a stage's ledger; [] while there is no ledger."""
    path = os.path.join(session, "ledger", f"{stage}.sqlite")
    server = server_of(session)
    if server is not None:
        return ask_server(server, session, stage, query, values)
    if not os.path.exists(path):
        return []
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as connection:
        try:
            return connection.execute(query, values).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise


def server_of(session):
    """Returns the address of the PostgreSQL that alone has the ledgers; None: files have them."""
    path = os.path.join(session, "ledger", "postgresql.json")
    if not os.path.exists(path):
        return None
    with open(path) as marker:
        known = json.load(marker)
    return None if known["standing"] else known["url"]


def ask_server(server, session, stage, query, values):
    with open(os.path.join(session, "log", "plan.json")) as plan:
        schema = f"icestream_{json.load(plan)['id']}"
    for value in values:
        query = query.replace("?", f"'{value}'", 1)
    query = re.sub(r"\b(items|outbox|files|warnings)\b", rf'"{stage}.\1"', query)
    words = ["psql", "-qAt", "-F", "\x1f", server, "-c", f'SET search_path TO "{schema}"', "-c", query]
    answer = subprocess.run(words, capture_output=True, text=True)
    if "does not exist" in answer.stderr:
        return []
    rows = [line.split("\x1f") for line in answer.stdout.splitlines()]
    return [tuple(int(value) if value.lstrip("-").isdigit() else value for value in row) for row in rows]


def done(session, stage):
    """Returns how many items a stage has done, from its ledger: cheaper than status."""
    rows = ledger(session, stage, "SELECT COUNT(*) FROM items WHERE state = 1")
    return rows[0][0] if rows else 0


def counts(session):
    stages = json.loads(run("status", "--session", session, "--json").stdout)["stages"]
    return {name: {key: stage[key] for key in COUNTS} for name, stage in stages.items()}


def read_products(session, stage, ending, folder):
    """Returns {path: digest} of a stage's products. The watched folder's path inside them is ignored."""
    root, found = os.path.join(session, stage), {}
    for path in glob.glob(f"{glob.escape(root)}/**/*{ending}", recursive=True):
        content = open(path, "rb").read()
        if ending.endswith(".star"):
            content = content.replace(os.fsencode(folder), b"")
        found[os.path.relpath(path, root)] = hashlib.sha256(content).hexdigest()
    return found


def outcome(session, folder=MICROGRAPHS):
    """Returns the outcome of a session. folder: the folder it watched."""
    folder = os.path.realpath(folder)
    rows = star(f"{session}/extractor/particles.star")["particles"]
    totals = counts(session)
    return {
        "counts": {name: totals[name] for name in STAGES},
        "picks": read_products(session, "lowpass-picker", "_autopick.star", folder),
        "cuts": read_products(session, "extractor", "_extract.star", folder),
        "stacks": read_products(session, "extractor", ".mrcs", folder),
        "particles": sorted(tuple(value.replace(folder, "") for value in row.values()) for row in rows),
    }


def calm():
    """Returns the outcome of the undisturbed session."""
    session = os.path.join(DATA, "calm")
    if not os.path.isdir(session):
        sys.exit(f"{session} is not there: run prepare.py, or ctest, which does")
    return outcome(session)


def difference(a, b):
    if isinstance(a, dict):
        wrong = [(key, a[key], b.get(key)) for key in a if a[key] != b.get(key)]
        return f"{len(wrong)} missing or different, {len(b.keys() - a.keys())} too many: {wrong[:2]}"
    return f"{len(a)} became {len(b)}: {sorted(set(a) ^ set(b))[:2]}"


def same(undisturbed, disturbed, what=""):
    """Checks that two outcomes are equal."""
    what = what + ": " if what else ""
    for key, before in undisturbed.items():
        equal = disturbed[key] == before
        check(equal, f"{what}{key} as undisturbed" + ("" if equal else f": {difference(before, disturbed[key])}"))
    rows = disturbed["particles"]
    check(len(set(rows)) == len(rows), f"{what}no particle twice among {len(rows)}")


def same_numbers(session):
    """Checks that status, the page, the metrics and the report show the same counts of a session at rest."""
    try:
        compare_numbers(session)
    except AssertionError as wrong:
        check(False, f"the same numbers everywhere: {wrong}")
    else:
        check(True, "status, page, metrics and report show the same counts")


def whole(session, what=""):
    """Checks that products and ledgers agree. Each done item has its products, and each product has its item. Each
    message was sent once and is acknowledged. No half-written file remains."""
    what = what + ": " if what else ""
    for stage, ending in (("lowpass-picker", "_autopick.star"), ("extractor", ".mrcs"), ("extractor", "_extract.star")):
        items = {row[0] for row in ledger(session, stage, "SELECT id FROM items WHERE state = 1")}
        if stage == "extractor":  # a micrograph without picks has no particles
            items = {item for item in items if len(points(f"{session}/lowpass-picker/{item}_autopick.star"))}
        root = os.path.join(session, stage)
        found = glob.glob(f"{glob.escape(root)}/**/*{ending}", recursive=True)
        files = {os.path.relpath(path, root)[: -len(ending)] for path in found}
        check(
            files == items,
            f"{what}{stage}: {len(items)} items with products, {len(files)} products *{ending}; "
            f"without product {sorted(items - files)[:2]}, without item {sorted(files - items)[:2]}",
        )
    for stage in STAGES:
        twice = ledger(
            session,
            stage,
            "SELECT id, edge FROM outbox GROUP BY id, substr(edge, instr(edge, '>'))" " HAVING COUNT(*) > 1",
        )
        check(not twice, f"{what}{stage}: nothing was sent as two {twice[:2]}")
    left = [path for stage in STAGES for path in glob.glob(f"{glob.escape(session)}/{stage}/**/.*", recursive=True)]
    check(not left, f"{what}nothing half-written is left {left[:3]}")
