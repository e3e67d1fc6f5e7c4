#!/usr/bin/python3
"""A source that emits micrographs as it is told, in any revision and any order. feed.json beside it is a list of lists
of [id, path, revision]: each inner list is sent once all before it are acknowledged; a file `hold.N` beside it holds list
N back. It keeps nothing: after a death it sends everything again."""

import json
import os
import sys
import time

import zmq

HERE = os.path.dirname(os.path.abspath(__file__))
DESCRIPTION = {
    "name": "feeder",
    "summary": "emits what it is told",
    "version": "1",
    "in": "",
    "out": "micrograph",
    "cumulative": False,
    "source": True,
    "params": [],
}


def main(me):
    context, beat = zmq.Context(), 0
    (edge,) = me["outputs"]
    data, ack = context.socket(zmq.PUSH), context.socket(zmq.PULL)
    data.bind(edge["data"])
    ack.bind(edge["ack"])

    def send(kind, seq, **more):
        try:
            message = {"v": 1, "kind": kind, "edge": edge["edge"], "seq": seq, "attempt": 1, **more}
            data.send_json(message, zmq.DONTWAIT)
        except zmq.Again:  # nobody listens yet; the next attempt is later
            pass

    def live():
        nonlocal beat
        if time.time() - beat > 0.5:
            beat = time.time()
            with open(me["heartbeat"] + ".tmp", "w") as f:
                json.dump({"time": beat, "pid": os.getpid(), "state": "waiting"}, f)
            os.replace(me["heartbeat"] + ".tmp", me["heartbeat"])

    def until_acknowledged(messages):
        at = 0
        while messages:
            if time.monotonic() - at > 1:
                at = time.monotonic()
                for seq, (kind, more) in messages.items():
                    send(kind, seq, **more)
            live()
            if ack.poll(100):
                answer = ack.recv_json()
                if answer["kind"] == "ack":
                    messages.pop(answer["seq"], None)

    seq = time.time_ns() // 1000
    for number, batch in enumerate(json.load(open(os.path.join(HERE, "feed.json")))):
        while os.path.exists(os.path.join(HERE, f"hold.{number}")):
            live()
            time.sleep(0.05)
        messages = {}
        for item, path, revision in batch:
            seq += 1
            messages[seq] = "item", {
                "item": {
                    "v": 1,
                    "id": item,
                    "kind": "micrograph",
                    "revision": revision,
                    "micrograph": {"path": path},
                    "optics": {"group": "opticsGroup1", "pixel_size": 6.0},
                }
            }
        until_acknowledged(messages)
    until_acknowledged({0: ("end", {})})
    context.destroy(linger=1000)


if "--describe" in sys.argv:
    print(json.dumps(DESCRIPTION))
else:
    with open(sys.argv[sys.argv.index("--instance") + 1]) as instance:
        main(json.load(instance))
