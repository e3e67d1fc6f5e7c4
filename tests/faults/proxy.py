#!/usr/bin/env python3
"""Damages the traffic between stages. Messages and answers are dropped, doubled, cut short, delayed and overtaken.
Nonsense of every kind comes in between, strangers connect to the sockets, and a stage connects late. All items must
arrive once, all nonsense must be counted and reported, and memory must stay bounded.

proxy.py [SEED [PARTS]]    PARTS: how many of a hundred messages each fault hits (5)"""

import json
import os
import random
import socket
import sys
import threading
import time

from faults import Run, Work, calm, check, done, finish, graph, outcome, pids, same, seeded, wait_until, whole, write
from wire import bend, dropped, log_lines, nonsense, peak_kib, stray_answers, zmq

RESEND = 0.3
LONG = [[b"[" + b"0," * 600000 + b"0]"], [b'{"v":1,"kind":"' + b"x" * 1500000 + b'"}']]  # longer than a message may be
HUGE = b"\x7b" * (100 << 20)
PEAK_MIB, KNOCKED = 160, 100


class Proxy(threading.Thread):
    """Stands between the two ends of an edge. sent[direction]: number of bad messages that the receiver must drop.
    certain[direction]: the number of them that had gone before the end message in this direction."""

    def __init__(self, place, parts, seed):
        super().__init__(daemon=True)
        self.place, self.parts, self.rng = place, parts, random.Random(seed)
        self.stop, self.error = threading.Event(), None
        self.sent, self.certain = {"down": 0, "up": 0}, {"down": 0, "up": 0}
        self.faults = dict.fromkeys(("dropped", "doubled", "cut", "held", "nonsense"), 0)
        self.start()

    def run(self):
        try:
            self.serve()
        except Exception as error:  # the test reports it
            self.error = error

    def serve(self):
        while not os.path.exists(self.place + ".edge"):
            if self.stop.wait(0.02):
                return
        self.edge = json.load(open(self.place + ".edge"))
        context = zmq.Context()
        make = {
            name: context.socket(kind)
            for name, kind in (
                ("from_up", zmq.PULL),
                ("to_down", zmq.PUSH),
                ("from_down", zmq.PULL),
                ("to_up", zmq.PUSH),
            )
        }
        make["from_up"].rcvhwm = make["to_down"].sndhwm = 4
        make["from_up"].connect(self.edge["data"])
        make["to_down"].bind(f"ipc://{self.place}.d")
        make["from_down"].bind(f"ipc://{self.place}.a")
        make["to_up"].connect(self.edge["ack"])
        ways = {"down": (make["from_up"], make["to_down"], []), "up": (make["from_down"], make["to_up"], [])}
        held = {"down": [], "up": []}
        self.huge(make["to_down"])
        while not self.stop.is_set():
            for way, (source, target, queue) in ways.items():
                if len(queue) < 4 and source.poll(2):
                    queue += self.mangle(way, source.recv_multipart(), held[way])
                now = time.monotonic()
                queue += [frames for due, frames in held[way] if due <= now]
                held[way][:] = [one for one in held[way] if one[0] > now]
                while queue and self.push(way, target, queue[0]):
                    queue.pop(0)
        context.destroy(linger=0)

    def huge(self, target):
        """Sends HUGE first, on a connection of its own: no other message is lost when the receiver cuts it."""
        monitor, sent = target.get_monitor_socket(zmq.EVENT_DISCONNECTED), False
        while not self.stop.is_set() and not (sent and monitor.poll(0)):
            try:
                if not sent:
                    target.send(HUGE, zmq.DONTWAIT)
                    sent = True
            except zmq.Again:
                pass
            self.stop.wait(0.02)
        target.disable_monitor()

    def push(self, way, target, frames):
        try:
            target.send_multipart(frames, zmq.DONTWAIT)
        except zmq.Again:
            return False
        if getattr(frames, "bad", False):
            self.sent[way] += 1
        elif b'"end"' in frames[0]:
            self.certain[way] = self.sent[way]
        return True

    def mangle(self, way, frames, held):
        """Returns the messages that leave now in place of one message. Delayed messages are added to held."""
        out = []
        if self.happens():
            edge = self.edge["edge"]
            choices = nonsense(edge, self.rng) + (stray_answers(edge, self.rng) if way == "up" else LONG)
            for choice in self.rng.sample(choices, 12):
                out.append(Bad(choice))
                self.faults["nonsense"] += 1
        if self.happens():
            self.faults["dropped"] += 1
            return out
        if self.happens():
            self.faults["cut"] += 1
            return out + [Bad([frames[0][: self.rng.randrange(len(frames[0]))]])]
        if self.happens():
            self.faults["doubled"] += 1
            out.append(frames)
        if self.happens():
            self.faults["held"] += 1
            held.append((time.monotonic() + self.rng.uniform(0, 0.5), frames))
            return out
        return out + [frames]

    def happens(self):
        return self.rng.random() * 100 < self.parts


class Bad(list):
    bad = True


def knock(endpoint, rng):
    """Connects strangers to a socket that a stage has bound: raw bytes, half a greeting, another kind of socket, 100
    MB. libzmq accepts some raw bytes as messages of its first version, so a few of them may be counted."""
    path = endpoint[len("ipc://") :]
    greeting = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + b"\0" * 32
    for text in (
        b"",
        rng.randbytes(5000),
        b"GET / HTTP/1.1\r\n\r\n",
        greeting[:7],
        greeting,
        greeting + b"\x04\xff" + rng.randbytes(300),
        greeting + b"\x02" + b"\xff" * 8 + rng.randbytes(99),
    ):
        with socket.socket(socket.AF_UNIX) as raw:
            raw.connect(path)
            try:
                raw.sendall(text)
            except OSError:
                pass
    context = zmq.Context()
    for kind in (zmq.SUB, zmq.REQ, zmq.DEALER, zmq.PAIR):
        context.socket(kind).connect(endpoint)
    push = context.socket(zmq.PUSH)
    push.connect(endpoint)
    try:
        push.send(HUGE, zmq.DONTWAIT)
    except zmq.Again:  # already turned away
        pass
    return context


rng = seeded(sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] != "0" else None)
parts = float(sys.argv[2]) if len(sys.argv) > 2 else 5
with Work("proxy") as work:
    programs = [
        bend(work.path, "watcher", RESEND, False),
        bend(work.path, "lowpass-picker", RESEND),
        bend(work.path, "extractor", RESEND),
    ]
    path = graph(
        work.path,
        watcher=f"program: {programs[0]}",
        picker=f"program: {programs[1]}",
        extractor=f"program: {programs[2]}",
        more=f"programs: [{', '.join(programs)}]\n",
    )
    proxies = {stage: Proxy(work(f"{stage}.0"), parts, rng.random()) for stage in ("lowpass-picker", "extractor")}
    session, peaks = work("session"), {}

    def watch():
        for name, pid in pids(session).items():
            try:
                peaks[name.split(".")[0]] = max(peaks.get(name.split(".")[0], 0), peak_kib(pid) / 1024)
            except OSError:
                pass
        return live.poll() is not None

    write(work("extractor.wait"), "")
    with Run(path, session, "--until-idle", "1") as live:
        wait_until(lambda: done(session, "lowpass-picker") >= 8, 60, "picks wait for the extractor", live)
        check(not log_lines(session, "extractor.0", "start"), "the extractor is late")
        visitors = []
        for endpoint in (proxies[s].edge[k] for s in proxies for k in ("ack", "data")):
            visitors.append(knock(endpoint, rng))
        os.remove(work("extractor.wait"))
        wait_until(watch, 200, "the end")
        live.finish(0)
    for context in visitors:
        context.destroy(linger=0)
    for stage, proxy in proxies.items():
        proxy.stop.set()
        proxy.join()
        print(f"{stage}: {proxy.faults}, to be dropped: {proxy.sent}")
        check(proxy.error is None, f"the proxy itself is well {proxy.error}")
        check(all(proxy.faults.values()), "each fault has happened")
    print({name: f"{peak:.0f} MiB" for name, peak in peaks.items()}, "at most")
    check(peaks and max(peaks.values()) < PEAK_MIB, f"no stage has held more than {PEAK_MIB} MiB")
    same(calm(), outcome(session))
    whole(session)
    # Bad messages that go up the wire to a stage, and down to it.
    picker, extractor = proxies["lowpass-picker"], proxies["extractor"]
    for name, ways in (
        ("watcher.0", [(picker, "up")]),
        ("lowpass-picker.0", [(picker, "down"), (extractor, "up")]),
        ("extractor.0", [(extractor, "down")]),
    ):
        count = dropped(session, name)
        least, most = (sum(getattr(p, what)[way] for p, way in ways) for what in ("certain", "sent"))
        check(
            least <= count <= most + KNOCKED,
            f"{name} has counted {count} of {least} to {most} bad messages, and " "perhaps a few of the strangers'",
        )
        lines = log_lines(session, name, "bad-frame") + log_lines(session, name, "stray")
        check(1 <= len(lines) <= 12, f"{name} tells of them in {len(lines)} lines")
        check(not log_lines(session, name, "ERROR"), f"{name} has no error")
    finish()
