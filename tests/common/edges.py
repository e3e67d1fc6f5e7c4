#!/usr/bin/python3
"""Tests edges between processes, without a launcher: source → relay → sink. Some cases have a stage in Python,
replicas, or processes that are killed or move. In every case each item must be done once at every stage, with its product on
disk.

usage: edges.py RELAY STRANGER CASE"""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

RELAY, STRANGER, CASE = sys.argv[1:4]
COUNT, TIMEOUT = 60, 60


class Chain:
    """stages: [(name, program, replicas, params)]. Each stage is fed by the one before it. tcp: the chain keeps listening
    sockets for all instances, as the launcher does, and has a record of those that have moved."""

    def __init__(self, folder, stages, run=1, tcp=False, orders=()):
        self.orders = dict(orders)
        self.folder, self.stages, self.run, self.processes = folder, stages, run, {}
        os.makedirs(f"{folder}/run", exist_ok=True)
        self.sockets = tempfile.mkdtemp(prefix="ic", dir="/tmp")
        self.keys = [key.decode() for key in zmq.curve_keypair()] if tcp else None
        self.listening, self.moves = {}, 0

    def listen(self, index, instance):
        """Returns the sockets of an instance's edge, which stay open when the instance ends."""
        key = index, instance
        if key not in self.listening:
            self.listening[key] = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        return self.listening[key]

    def place(self, index, instance):
        if self.keys is None:
            return [f"ipc://{self.sockets}/{index}.{instance}.{end}" for end in "da"]
        return ["tcp://%s:%d" % one.getsockname() for one in self.listen(index, instance)]

    def move(self, index, instance=0):
        """Lets an instance that runs come up elsewhere. Its receivers have but the record to learn that from."""
        process = self.processes[index, instance]
        process.kill()
        process.wait()
        for one in self.listening.pop((index, instance)):
            one.close()
        self.moves += 1
        edges = [edge for before in range(len(self.stages)) for edge in self.edges(before)]
        self.tell({e["edge"]: {"data": e["data"], "ack": e["ack"]} for e in edges})
        self.start(index, instance)

    def tell(self, edges):
        with open(f"{self.folder}/run/.endpoints", "w") as f:
            json.dump({"v": 1, "number": self.moves, "edges": edges}, f)
        os.rename(f"{self.folder}/run/.endpoints", f"{self.folder}/run/endpoints.json")

    def edges(self, index):
        """Returns the edges that leave the stage with this index, by instance."""
        if index < 0 or index + 1 >= len(self.stages):
            return []
        (name, _, replicas, _), after = self.stages[index], self.stages[index + 1][0]
        return [
            {
                "edge": f"{name}.{i}>{after}",
                "data": place[0],
                "ack": place[1],
                "window": 8,
            }
            for i, place in enumerate(self.place(index, i) for i in range(replicas))
        ]

    def start(self, index, instance=0):
        name, program, replicas, params = self.stages[index]
        outputs = [self.edges(index)[instance]] if self.edges(index) else []
        base = f"{self.folder}/run/{name}.{instance}"
        spec = {
            "v": 1,
            "name": name,
            "instance": instance,
            "replicas": replicas,
            "run": self.run,
            "session": self.folder,
            "session_params": {"pixel_size": 1.5},
            "params": params,
            "inputs": self.edges(index - 1),
            "outputs": outputs,
            "until_idle": None,
            "device": "cpu",
            "threads": 1,
            "curve": None,
            "ledger": f"{self.folder}/ledger/{name}.sqlite",
            "log": base + ".log",
            "heartbeat": base + ".beat",
            "current": base + ".current",
            **self.orders,
        }
        handed = []
        if self.keys:
            spec["curve"] = dict(zip(("public", "secret"), self.keys))
            spec["endpoints"], spec["endpoints_number"] = f"{self.folder}/run/endpoints.json", self.moves
        if self.keys and outputs:
            handed = [one.fileno() for one in self.listen(index, instance)]
            outputs[0]["data_descriptor"], outputs[0]["ack_descriptor"] = handed
        os.makedirs(f"{self.folder}/ledger", exist_ok=True)
        with open(base + ".json", "w") as f:
            json.dump(spec, f)
        command = [*program, "--instance", base + ".json"]
        self.processes[index, instance] = subprocess.Popen(command, pass_fds=handed)

    def start_all(self, order=None):
        for index in order or range(len(self.stages)):
            for instance in range(self.stages[index][2]):
                self.start(index, instance)

    def wait(self, restart=()):
        """Waits until all processes have ended. Restarts stages in `restart` when they die. Returns the deaths: (key,
        exit code)."""
        deaths, limit = [], time.monotonic() + TIMEOUT
        while any(p.poll() is None for p in self.processes.values()):
            for key, process in list(self.processes.items()):
                if process.poll() not in (None, 0):
                    deaths.append((key, process.returncode))
                    if key[0] not in restart or len(deaths) > 20:
                        fail(f"{key} ended with {process.returncode}", self)
                    self.start(*key)
            if time.monotonic() > limit:
                fail("it does not end", self)
            time.sleep(0.01)
        codes = {k: p.returncode for k, p in self.processes.items()}
        if any(codes.values()):
            fail(f"exit codes {codes}", self)
        return deaths

    def done(self, name):
        path = f"{self.folder}/ledger/{name}.sqlite"
        if not os.path.exists(path):
            return 0
        db = sqlite3.connect(path, timeout=20)
        try:
            return db.execute("SELECT COUNT(*) FROM items WHERE state = 1").fetchone()[0]
        except sqlite3.OperationalError:
            return 0
        finally:
            db.close()

    def check(self, count=COUNT, products=True):
        for name, _, _, _ in self.stages:
            if self.done(name) != count:
                fail(f"{name}: {self.done(name)} of {count} done", self)
        last = self.stages[-1][0]
        db = sqlite3.connect(f"{self.folder}/ledger/{last}.sqlite")
        rows = [json.loads(r[0]) for r in db.execute("SELECT item FROM items WHERE state = 1")]
        db.close()
        if sorted(r["columns"]["number"] for r in rows) != list(range(count)):
            fail("items are missing or doubled", self)
        if products and len(os.listdir(f"{self.folder}/{last}/grid")) != count:
            fail("products are missing", self)
        if products and open(f"{self.folder}/{last}/summary.txt").read() != f"{count}\n":
            fail("the summary is not the last one", self)
        return rows

    def stop(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
        for one in sum(self.listening.values(), []):
            one.close()
        shutil.rmtree(self.sockets, ignore_errors=True)


def fail(text, chain):
    print(f"{CASE}: {text}", file=sys.stderr)
    for name in sorted(os.listdir(f"{chain.folder}/run")):
        if name.endswith(".log"):
            print(f"--- {name}\n{open(f'{chain.folder}/run/{name}').read()[-2000:]}", file=sys.stderr)
    chain.stop()
    sys.exit(1)


def source(**params):
    return ("source", [RELAY, "source"], 1, {"count": COUNT, **params})


def relay(name, replicas=1, **params):
    return (name, [RELAY, "relay"], replicas, params)


def until(chain, condition):
    limit = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > limit:
            fail("what was waited for does not come", chain)
        time.sleep(0.002)


def check_parts(chain, *names):
    """Each part of an instance reports in the heartbeat how long it was busy."""
    for name in names:
        parts = json.load(open(f"{chain.folder}/run/{name}.0.beat"))["parts"]
        for part in ("load", "process", "store", "ledger"):
            if parts[part]["threads"] < 1 or not 0 < parts[part]["busy"] <= parts["wall"] + 0.001:
                fail(f"{name}: the parts are {parts}", chain)
        log = open(f"{chain.folder}/run/{name}.0.log").read()
        if f" parts {COUNT} done in " not in log:
            fail(f"{name}: no line of the parts in the log", chain)


def plain(folder):
    chain = Chain(folder, [source(), relay("middle"), relay("sink")])
    chain.start_all(order=[2, 1, 0])
    chain.wait()
    chain.check()
    check_parts(chain, "middle", "sink")
    # Run again: every item is known, and nothing is done twice.
    before = os.stat(f"{folder}/sink/grid/mic_0000.txt").st_mtime_ns
    again = Chain(folder, chain.stages, run=2)
    again.start_all()
    again.wait()
    again.check()
    if os.stat(f"{folder}/sink/grid/mic_0000.txt").st_mtime_ns != before:
        fail("a product was made twice", again)
    chain.stop()
    return again


def python(folder):
    chain = Chain(folder, [source(), ("stranger", [sys.executable, STRANGER], 1, {}), relay("sink")])
    chain.start_all()
    until(chain, lambda: chain.done("sink") > 5)
    chain.processes[1, 0].kill()
    chain.wait(restart=(1,))
    rows = chain.check()
    if any(r["columns"].get("strangerSeen") != 1 for r in rows):
        fail("the stranger's column is missing", chain)
    return chain


def replicas(folder):
    chain = Chain(folder, [source(), relay("middle", 2), relay("sink", 2)])
    chain.start_all()
    chain.wait()
    chain.check()
    return chain


def kept(folder):
    """Instances that are killed come back at the sockets that were kept for them. A record of endpoints that is not later
    than their orders counts for nothing."""
    chain = Chain(folder, [source(), relay("middle", 2), relay("sink")], tcp=True)
    nowhere = {"data": "tcp://127.0.0.1:1", "ack": "tcp://127.0.0.1:1"}
    chain.moves = 7
    chain.tell({"source.0>middle": nowhere, "middle.0>sink": nowhere})
    before = [chain.place(index, 0) for index in (0, 1)]
    kill_some(chain)
    if before != [chain.place(index, 0) for index in (0, 1)]:
        fail("an endpoint has changed", chain)
    return chain


def moved(folder):
    """Instances come up elsewhere, and those that receive from them follow without being started again. A record that
    cannot be read is waited out."""
    chain = Chain(folder, [source(), relay("middle", 2), relay("sink")], tcp=True)
    with open(f"{folder}/run/endpoints.json", "w") as f:
        f.write('{"v": 1, "number": 1, ')
    log = f"{folder}/run/sink.0.log"
    chain.start(2)
    until(chain, lambda: os.path.exists(log) and " WARN endpoints " in open(log).read())
    last = chain.processes[2, 0]
    for index, instance in ((1, 1), (1, 0), (0, 0)):
        chain.start(index, instance)
    for victim, enough in (((0, 0), 3), ((1, 0), 10), ((1, 1), 20), ((0, 0), 30), ((1, 0), 40)):
        until(chain, lambda: chain.done("sink") >= enough)
        chain.move(*victim)
    chain.wait()
    chain.check()
    if chain.processes[2, 0] is not last:
        fail("the last stage was started again", chain)
    said = [line for line in open(f"{folder}/run/sink.0.log") if " moved " in line]
    if len(said) < 3:
        fail(f"the last stage followed {len(said)} times", chain)
    return chain


def killed(folder):
    chain = Chain(folder, [source(), relay("middle", 2), relay("sink")])
    kill_some(chain)
    return chain


def kill_some(chain):
    chain.start_all()
    for victim, enough in (((1, 0), 5), ((2, 0), 15), ((0, 0), 25), ((1, 1), 35), ((2, 0), 45)):
        until(chain, lambda: chain.done("sink") >= enough or chain.processes[victim].poll() is not None)
        if chain.processes[victim].poll() is None:
            chain.processes[victim].kill()
            chain.processes[victim].wait()
            chain.start(*victim)
    chain.wait(restart=(0, 1, 2))
    chain.check()


def aborting(folder):
    chain = Chain(folder, [source(), relay("middle", abort_at=7, abort_times=2), relay("sink")])
    chain.start_all()
    until(chain, lambda: chain.processes[1, 0].poll() is not None)
    current = open(f"{folder}/run/middle.0.current", "rb").read().split(b"\0")[0].split(b"\t")[-1]
    if current != b"grid/mic_0007":
        fail(f"current names {current}", chain)
    deaths = chain.wait(restart=(1,))
    if [code for _, code in deaths] != [-signal.SIGABRT] * 2:
        fail(f"deaths: {deaths}", chain)
    chain.check()
    return chain


def terminated(folder):
    """Sends SIGTERM to all in the middle of a run. The next run continues there."""
    chain = Chain(folder, [source(), relay("middle"), relay("sink")])
    chain.start_all()
    until(chain, lambda: chain.done("sink") > 10)
    begin = time.monotonic()
    for process in chain.processes.values():
        process.terminate()
    codes = [p.wait(timeout=TIMEOUT) for p in chain.processes.values()]
    if any(code not in (0, 143) for code in codes) or time.monotonic() - begin > 10:
        fail(f"stopped with {codes} after {time.monotonic() - begin:.1f} s", chain)
    chain.stop()
    again = Chain(folder, chain.stages, run=2)
    again.start_all()
    again.wait()
    again.check()
    return again


def absent(folder):
    """Files that come late on a shared file system hold up nothing else, and their items are done once."""
    late = (0, 20, 21, COUNT - 1)
    os.mkdir(f"{folder}/inputs")
    os.makedirs(f"{folder}/sink/grid")
    host = "".join(c if c.isalnum() else "_" for c in socket.gethostname())[:24]
    for name in (f".mic_0003.txt.{host}-0123abcd.partial", ".mic_0003.txt.elsewhere-0123abcd.partial"):
        open(f"{folder}/sink/grid/{name}", "w").close()
    put(folder, *(i for i in range(COUNT) if i not in late))
    chain = Chain(folder, [source(reads=True), relay("middle", reads=True), relay("sink")], orders={"shared": True})
    chain.start_all()
    until(chain, lambda: chain.done("sink") == COUNT - len(late))
    put(folder, *late[1:])
    until(chain, lambda: chain.done("sink") == COUNT - 1)
    # Whoever takes the item from an instance that dies begins to wait anew.
    chain.processes[1, 0].kill()
    chain.processes[1, 0].wait()
    chain.start(1)
    put(folder, late[0])
    chain.wait()
    left = [name for name in os.listdir(f"{folder}/sink/grid") if name.endswith(".partial")]
    if left != [".mic_0003.txt.elsewhere-0123abcd.partial"]:
        fail(f"partial files are left: {left}", chain)
    os.remove(f"{folder}/sink/grid/{left[0]}")
    chain.check()
    said = [line for line in open(f"{folder}/run/middle.0.log") if " absent " in line]
    if not any("mic_0020" in line for line in said) or len(said) < len(late):
        fail(f"the log says {said}", chain)
    return chain


def lost(folder):
    """A file that does not come fails its item alone, and later than without a shared file system."""
    os.mkdir(f"{folder}/inputs")
    put(folder, *(i for i in range(COUNT) if i != 7))
    for run, orders in ((1, {"shared": True, "file_wait": 1.5}), (2, {})):
        begin = time.monotonic()
        work = f"{folder}/{run}"
        os.mkdir(work)
        os.symlink(f"{folder}/inputs", f"{work}/inputs")
        orders["folders"] = [f"{folder}/inputs"]
        chain = Chain(work, [source(reads=True), relay("middle", reads=True), relay("sink")], orders=orders)
        chain.start_all()
        chain.wait()
        db = sqlite3.connect(f"{work}/ledger/middle.sqlite")
        rows = db.execute("SELECT id, reason FROM items WHERE state = 3").fetchall()
        if [row[0] for row in rows] != ["grid/mic_0007"] or chain.done("sink") != COUNT - 1:
            fail(f"failed: {rows}", chain)
        reason, waited = rows[0][1], "shared" in orders
        if f"'inputs/mic_0007.mrc' is neither in {work} nor" not in reason:
            fail(f"it failed with: {reason}", chain)
        if ("waited" in reason and "icestream retry" in reason) != waited:
            fail(f"it failed with: {reason}", chain)
        if waited and time.monotonic() - begin < 1.5:
            fail("it did not wait", chain)
        chain.stop()
    return chain


def put(folder, *numbers):
    for number in numbers:
        open(f"{folder}/inputs/mic_{number:04d}.mrc", "w").close()


def failing(folder):
    chain = Chain(folder, [source(), relay("middle", fail_at=4, reject_if="number > 50"), relay("sink")])
    chain.start_all()
    chain.wait()
    db = sqlite3.connect(f"{folder}/ledger/middle.sqlite")
    rows = db.execute("SELECT id, state, reason FROM items WHERE state > 1 ORDER BY id").fetchall()
    verdicts = dict(
        sqlite3.connect(f"{folder}/ledger/source.sqlite")
        .execute("SELECT verdict, COUNT(*) FROM outbox GROUP BY verdict")
        .fetchall()
    )
    if rows[0] != ("grid/mic_0004", 3, "item 4 is broken") or len(rows) != 10:
        fail(f"failed or rejected: {rows}", chain)
    if rows[1] != ("grid/mic_0051", 2, "number 51 > 50 (reject_if)"):
        fail(f"rejected: {rows[1]}", chain)
    if verdicts != {"done": 50, "failed": 1, "rejected": 9}:
        fail(f"verdicts: {verdicts}", chain)
    if chain.done("sink") != 50:
        fail(f"{chain.done('sink')} of 50 done", chain)
    return chain


try:
    import zmq
except ImportError:
    if CASE in ("python", "kept", "moved"):
        print("python3-zmq is not here: skipped")
        sys.exit(77)

with tempfile.TemporaryDirectory() as work:
    {
        "plain": plain,
        "python": python,
        "replicas": replicas,
        "killed": killed,
        "kept": kept,
        "moved": moved,
        "aborting": aborting,
        "terminated": terminated,
        "failing": failing,
        "absent": absent,
        "lost": lost,
    }[CASE](work).stop()
