#!/usr/bin/python3
"""A stage in Python that adds a column to each item and passes the item on. docs/protocol.md has the protocol.

A graph names the program twice, by its absolute path, since a graph starts no program that it does not list:
    programs: [/opt/icestream/examples/stage-python/stranger.py]
    stages: {…, stranger: {from: lowpass-picker, program: /opt/icestream/examples/stage-python/stranger.py}, …}
The stage acknowledges an item only when all stages downstream have acknowledged the result. So nothing is lost when this
process dies, and the stage has nothing to remember. The table of items is there for `icestream status`."""

import json
import os
import secrets
import sqlite3
import sys
import time

import zmq
import zmq.auth.thread
import zmq.utils.z85

DESCRIPTION = {
    "name": "stranger",
    "summary": "adds a column",
    "version": "1",
    "in": "micrograph",
    "out": "micrograph",
    "cumulative": False,
    "source": False,
    "params": [],
}
TABLES = """PRAGMA journal_mode = WAL; PRAGMA user_version = 2;
CREATE TABLE IF NOT EXISTS items (number INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL DEFAULT '',
  id TEXT NOT NULL, revision INTEGER NOT NULL DEFAULT 0, state INTEGER NOT NULL, reason TEXT, attempts INTEGER NOT NULL,
  crashes INTEGER NOT NULL, instance INTEGER NOT NULL, token TEXT, item TEXT NOT NULL, time_seen REAL NOT NULL,
  time_changed REAL NOT NULL, UNIQUE (id, source));
CREATE TABLE IF NOT EXISTS outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, edge TEXT NOT NULL,
  source TEXT NOT NULL DEFAULT '', id TEXT NOT NULL, item TEXT NOT NULL, time_sent REAL NOT NULL, acknowledged REAL, verdict TEXT);
CREATE TABLE IF NOT EXISTS ends (edge TEXT NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (edge, run));"""


def work(item):
    item.setdefault("columns", {})["strangerSeen"] = 1
    return item


def main(me):
    context, poller, token = zmq.Context(), zmq.Poller(), secrets.token_hex(16)

    if me["curve"]:  # tcp:// sockets: the guard lets in only peers that have the secret key
        guard = zmq.auth.thread.ThreadAuthenticator(context)
        guard.start()
        guard.configure_curve_callback(
            "*",
            type(
                "Ours",
                (),
                # Versions of pyzmq differ in how they give the key.
                {"callback": lambda self, _, key: me["curve"]["public"].encode() in (key, zmq.utils.z85.encode(key))},
            )(),
        )

    def sockets(edge, bind):
        pair = context.socket(zmq.PUSH), context.socket(zmq.PULL)
        for s, endpoint in zip(pair, (edge["data"], edge["ack"]) if bind else (edge["ack"], edge["data"])):
            if endpoint.startswith("tcp://"):
                s.curve_publickey, s.curve_secretkey = (me["curve"][k].encode() for k in ("public", "secret"))
                if bind:
                    s.curve_server = True
                else:
                    s.curve_serverkey = s.curve_publickey
            (s.bind if bind else s.connect)(endpoint)
        poller.register(pair[1], zmq.POLLIN)
        return pair

    ins, outs = ({e["edge"]: sockets(e, b) for e in me[k]} for k, b in (("inputs", False), ("outputs", True)))
    ledger = sqlite3.connect(me["ledger"], isolation_level=None, timeout=20)
    ledger.executescript(TABLES)
    seq = time.time_ns() // 1000  # larger than any number of an earlier run of this process
    held = {}  # (edge out, seq): [frame, source, when it was sent]
    waiting = {}  # source, (edge in, seq) or "end": edges out that have not acknowledged the result
    names, ends, beat = {}, {}, 0

    def answer(edge, kind, number, verdict=""):
        ins[edge][0].send_json(
            {
                "v": 1,
                "kind": kind,
                "edge": edge,
                "seq": number,
                "instance": me["instance"],
                "token": token,
                "verdict": verdict,
            }
        )

    def send(key):
        try:
            outs[key[0]][0].send_json(held[key][0], zmq.DONTWAIT)
            held[key][2] = time.monotonic()
        except zmq.Again:  # no receiver is there, or all are busy: the next attempt is later
            pass

    def forward(source, kind, number, **more):
        waiting[source] = set(outs)
        for edge in outs:
            held[edge, number] = [{"v": 1, "kind": kind, "edge": edge, "seq": number, "attempt": 1, **more}, source, 0]
            send((edge, number))

    for edge in ins:
        answer(edge, "hello", 0)
    while True:
        for s, _ in poller.poll(200):
            m = s.recv_json()
            source = m["edge"], m["seq"]
            if m["kind"] == "item":
                answer(*source[:1], "got", m["seq"])
                if source not in waiting:
                    m["item"].setdefault("source", m["edge"].split(">")[0].rpartition(".")[0])
                    seq, names[source] = seq + 1, (m["item"]["source"], m["item"]["id"])
                    ledger.execute(
                        "INSERT OR IGNORE INTO items (source, id, state, attempts, crashes, instance, item, time_seen,"
                        " time_changed) VALUES (?, ?, 0, 1, 0, ?, ?, ?, ?)",
                        (*names[source], me["instance"], json.dumps(m["item"]), time.time(), time.time()),
                    )
                    forward(source, "item", seq, item=work(m["item"]))
            elif m["kind"] == "end":
                ends[m["edge"]] = m["seq"]
            elif m["kind"] == "hello":
                for key in [k for k in held if k[0] == m["edge"]]:
                    send(key)
            elif m["kind"] == "ack" and source in held:
                waiting[held.pop(source)[1]].discard(m["edge"])
        for source in [s for s, edges in waiting.items() if not edges and s != "end"]:
            del waiting[source]
            ledger.execute(
                "UPDATE items SET state = 1, time_changed = ? WHERE source = ? AND id = ?",
                (time.time(), *names.pop(source)),
            )
            answer(source[0], "ack", source[1], "done")
        if len(ends) == len(ins) and not waiting:
            forward("end", "end", 0)
        if waiting.get("end") == set():
            for edge, number in ends.items():
                answer(edge, "ack", number, "end")
            if me["curve"]:
                guard.stop()
            context.destroy(linger=1000)
            return
        for key in [k for k, (_, _, sent) in held.items() if time.monotonic() - sent > 10]:
            send(key)
        if time.time() - beat > 1:
            beat = time.time()
            with open(me["heartbeat"] + ".tmp", "w") as f:
                json.dump({"time": beat, "pid": os.getpid(), "state": "waiting", "queue": len(waiting)}, f)
            os.replace(me["heartbeat"] + ".tmp", me["heartbeat"])


if "--describe" in sys.argv:
    print(json.dumps(DESCRIPTION))
elif "--instance" in sys.argv:
    with open(sys.argv[sys.argv.index("--instance") + 1]) as instance:
        main(json.load(instance))
else:
    sys.exit("Usage: stranger.py --instance FILE | --describe")
