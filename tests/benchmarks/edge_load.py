#!/usr/bin/python3
"""Measures what one edge carries: a source and a stage that do nothing, two processes, with acknowledgements and
ledgers.

usage: edge_load.py rate|latency [--items N] [--folder DIR]… [--build build/cpu]

rate: items a second, from the first item that the receiver sees to the last that is struck off the source's outbox.
latency: one item at a time into an idle edge. Times from its place in the outbox to the claim at the receiver, and to
the moment when its acknowledgement is written down, beside the disk's fsync time."""

import argparse
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile


class Edge:
    def __init__(self, build, folder, **params):
        self.work = tempfile.mkdtemp(prefix="icestream-edge-", dir=folder)
        self.sockets = tempfile.mkdtemp(prefix="ic", dir="/tmp")
        edge = {"edge": "source.0>sink", "data": f"ipc://{self.sockets}/d", "ack": f"ipc://{self.sockets}/a"}
        self.processes = [
            self.start(f"{build}/tests/null-stage", "sink", {}, [edge], []),
            self.start(f"{build}/tests/null-source", "source", params, [], [{**edge, "window": 8}]),
        ]

    def start(self, program, name, params, inputs, outputs):
        base = f"{self.work}/{name}"
        spec = {
            "v": 1,
            "name": name,
            "instance": 0,
            "replicas": 1,
            "run": 1,
            "session": self.work,
            "session_params": {},
            "params": params,
            "inputs": inputs,
            "outputs": outputs,
            "until_idle": None,
            "device": "cpu",
            "threads": 1,
            "curve": None,
            "ledger": f"{base}.sqlite",
            "log": f"{base}.log",
            "heartbeat": f"{base}.beat",
            "current": f"{base}.current",
        }
        with open(f"{base}.json", "w") as file:
            json.dump(spec, file)
        prefix = os.environ.get("EDGE_PREFIX", "").replace("NAME", name).split()
        return subprocess.Popen([*prefix, program, "--instance", f"{base}.json"])

    def wait(self):
        for process in self.processes:
            if process.wait() != 0:
                sys.exit(f"a stage ended with {process.returncode}: see {self.work}")

    def rows(self, name, query):
        db = sqlite3.connect(f"{self.work}/{name}.sqlite")
        try:
            return db.execute(query).fetchall()
        finally:
            db.close()

    def remove(self):
        shutil.rmtree(self.work)
        shutil.rmtree(self.sockets, ignore_errors=True)


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p / 100 * len(values)))]


def floors(build, folder):
    """Returns the rates of SQLite and ZeroMQ alone, and the disk's time, from bench_edge."""
    text = subprocess.run([f"{build}/tests/bench_edge", folder], check=True, capture_output=True, text=True).stdout
    found = json.loads(text)
    found["fsync"] = f"fsync {found['fsync_ms']:.2f} ms (99 %: {found['fsync_99_ms']:.2f})"
    return found


def load():
    return "load %.1f" % os.getloadavg()[0]


def rate(args, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    edge = Edge(args.build, folder, count=args.items)
    edge.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = sum(getattr(after, k) - getattr(before, k) for k in ("ru_utime", "ru_stime"))
    ((first,),) = edge.rows("source", "SELECT MIN(time_seen) FROM items")
    count, last = edge.rows("source", "SELECT COUNT(*), MAX(acknowledged) FROM outbox WHERE verdict = 'done'")[0]
    ((done,),) = edge.rows("sink", "SELECT COUNT(*) FROM items WHERE state = 1")
    if count != args.items or done != args.items:
        sys.exit(f"{args.items} items, {done} done, {count} acknowledged: see {edge.work}")
    size = sum(os.path.getsize(f"{edge.work}/{n}.sqlite") for n in ("source", "sink"))
    found, rate = floors(args.build, folder), count / (last - first)
    print(
        f"{folder}: {count} items in {last - first:.2f} s: {rate:.0f}/s, CPU {1e6 * cpu / count:.0f} us an item in both, "
        f"ledgers {size / count:.0f} bytes an item; {load()}"
    )
    print(
        f"    floor: SQLite alone {found['sqlite']}/s ({found['at_once']} items a transaction, one core), ratio "
        f"{found['sqlite'] / rate:.2f}; ZeroMQ alone {found['zmq']}/s, ratio {found['zmq'] / rate:.2f}; {found['fsync']}"
    )
    edge.remove()


def latency(args, folder):
    edge = Edge(args.build, folder, count=args.items, pause=args.pause)
    edge.wait()
    sent = {i: (a, b) for i, a, b in edge.rows("source", "SELECT id, time_sent, acknowledged FROM outbox")}
    seen = dict(edge.rows("sink", "SELECT id, time_seen FROM items"))
    # Before the two processes are connected, the edge does not exist yet.
    joined = min(b for _, b in sent.values())
    sent = {i: times for i, times in sent.items() if times[0] > joined}
    there = [1000 * (seen[i] - a) for i, (a, _) in sent.items()]
    back = [1000 * (b - a) for a, b in sent.values()]
    fsync = floors(args.build, folder)["fsync"]
    for name, values in (("claimed", there), ("acknowledged", back)):
        print(
            f"{folder}: {name:12} median {percentile(values, 50):.2f} ms, 99 % {percentile(values, 99):.2f} ms, most "
            f"{max(values):.2f} ms; {len(values)} items, {1000 * args.pause:g} ms apart; {fsync}, {load()}"
        )
    edge.remove()


parser = argparse.ArgumentParser()
parser.add_argument("what", choices=["rate", "latency"])
parser.add_argument("--items", type=int)
parser.add_argument("--pause", type=float, default=0.02)
parser.add_argument("--folder", action="append")
parser.add_argument("--build", default="build/cpu")
args = parser.parse_args()
args.items = args.items or {"rate": 50000, "latency": 1000}[args.what]
for folder in args.folder or ["/dev/shm", tempfile.gettempdir()]:
    {"rate": rate, "latency": latency}[args.what](args, folder)
