#!/usr/bin/env python3
"""Tests strangers: a process without the session's keys, or of another user, gets nothing and changes nothing. No
socket listens on a network unless the graph requests it.

strangers.py network|listen|closed"""

import json
import os
import re
import socket
import stat
import subprocess
import sys

from faults import (
    COUNT,
    Run,
    Work,
    arrive,
    calm,
    check,
    counts,
    done,
    finish,
    graph,
    ledger,
    names,
    outcome,
    pids,
    program,
    run,
    same,
    seeded,
    wait_until,
    whole,
    write,
)
from wire import dropped, instances, log_lines, zmq


def endpoints(session):
    """Returns {endpoint: (kind of socket bound there, edge)}."""
    return {
        edge[key]: (key, edge["edge"])
        for orders in instances(session).values()
        for edge in orders["outputs"]
        for key in ("data", "ack")
    }


def listeners(processes):
    """Returns addresses at which processes listen: {"127.0.0.1:4242"}, including IPv6 and UDP."""
    inodes, found = set(), set()
    for pid in processes:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                inodes |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{name}")))
            except OSError:
                pass
    for kind, states in (("tcp", ("0A",)), ("tcp6", ("0A",)), ("udp", ("07",)), ("udp6", ("07",))):
        for line in open(f"/proc/net/{kind}").readlines()[1:]:
            words = line.split()
            if words[9] in inodes and words[3] in states:
                address, port = words[1].split(":")
                packed = bytes.fromhex(address)[::-1] if len(address) == 8 else None
                found.add(f"{socket.inet_ntoa(packed) if packed else kind + ' ' + address}:{int(port, 16)}")
    return found


def refused(session, instance):
    """Returns how many peers an instance reports as turned away."""
    lines = log_lines(session, instance, "refused")
    return int(re.search(r"\((\d+) so far\)", lines[-1])[1]) if lines else 0


def evil(key, edge):
    """Returns false messages that a stranger would send to a stage."""
    back = {"v": 1, "edge": edge, "instance": 0, "token": "t", "verdict": "done"}
    ids = [name.rsplit(".", 1)[0] for name in names()]
    if key == "ack":
        return [{**back, "kind": kind, "seq": seq} for kind in ("hello", "ack") for seq in range(0, 2 * COUNT)]
    return [
        {"v": 1, "kind": "item", "edge": edge, "seq": n, "attempt": 1, "item": {"v": 1, "id": id, "kind": "micrograph"}}
        for n, id in enumerate(ids)
    ]


kept = []  # never destroyed: see the end


class Stranger:
    """Connects to each endpoint with some keys, or none. Sends false messages up and listens down."""

    def __init__(self, session, public=None, secret=None, server=None):
        self.context, self.listening = zmq.Context(), []
        kept.append(self)
        for endpoint, (key, edge) in endpoints(session).items():
            mouth = self.context.socket(zmq.PUSH if key == "ack" else zmq.PULL)
            if server:
                mouth.curve_publickey, mouth.curve_secretkey, mouth.curve_serverkey = public, secret, server
            mouth.connect(endpoint)
            if key == "data":
                self.listening.append(mouth)
                continue
            for lie in evil(key, edge):
                try:
                    mouth.send_json(lie, zmq.DONTWAIT)
                except zmq.Again:
                    break

    def heard(self):
        return sum(bool(ear.poll(0)) for ear in self.listening)


def raw(endpoint, text):
    host, port = endpoint[len("tcp://") :].rsplit(":", 1)
    with socket.create_connection((host, int(port))) as peer:
        try:
            peer.sendall(text)
        except OSError:
            pass


def network():
    rng = seeded()
    with Work("network") as work:
        incoming, session = work("incoming"), work("session")
        arrive(names()[: COUNT // 2], incoming)
        others = work("others")
        with Run(
            graph(work.path, name="other.yaml", micrographs=work(), session="transport: tcp"), others
        ) as other, Run(graph(work.path, micrographs=incoming, session="transport: tcp"), session) as live:
            wait_until(lambda: done(session, "extractor") == COUNT // 2, 100, "half of them is done", live)
            wait_until(lambda: len(pids(others)) == 3, 30, "the other session runs", other)
            told = instances(session)
            check(
                all(stat.S_IMODE(os.stat(f"{session}/log/{name}.instance.json").st_mode) == 0o600 for name in told),
                "files with keys have mode 0600",
            )
            found = listeners([live.pid, *pids(session).values()])
            check({f"tcp://{address}" for address in found} == set(endpoints(session)), f"listening: {sorted(found)}")
            check(all(address.startswith("127.0.0.1:") for address in found), "on loopback only")
            curve, foreign = told["watcher.0"]["curve"], instances(others)["watcher.0"]["curve"]
            ours, theirs = curve["public"].encode(), foreign["public"].encode()
            check(ours != theirs, "each session has keys of its own")
            fresh_public, fresh_secret = zmq.curve_keypair()
            before = counts(session), ledger(session, "watcher", "SELECT * FROM outbox ORDER BY seq")
            strangers = {
                "no keys": Stranger(session),
                "another session's keys": Stranger(session, theirs, foreign["secret"].encode(), theirs),
                "another session's keys, and our public one": Stranger(
                    session, theirs, foreign["secret"].encode(), ours
                ),
                "new keys, and our public one": Stranger(session, fresh_public, fresh_secret, ours),
                "our public key with another secret": Stranger(session, ours, fresh_secret, ours),
            }
            for endpoint in endpoints(session):
                for text in (b"", rng.randbytes(3000), b"GET / HTTP/1.1\r\n\r\n", rng.randbytes(1 << 20)):
                    raw(endpoint, text)
            for name in ("watcher.0", "lowpass-picker.0"):
                wait_until(lambda: refused(session, name) >= len(strangers), 30, f"{name} has turned them away", live)
            check(
                (counts(session), ledger(session, "watcher", "SELECT * FROM outbox ORDER BY seq")) == before,
                "nothing has changed",
            )
            # A peer with the keys is heard. This shows what the others could have done.
            friend = zmq.Context()
            mouth = friend.socket(zmq.PUSH)
            mouth.curve_publickey = mouth.curve_serverkey = ours
            mouth.curve_secretkey = curve["secret"].encode()
            mouth.connect(told["watcher.0"]["outputs"][0]["ack"])
            mouth.send(b"nonsense")
            wait_until(lambda: dropped(session, "watcher.0") == 1, 30, "who has the keys is heard", live)
            friend.destroy(linger=0)
            arrive(names()[COUNT // 2 :], incoming)
            wait_until(lambda: done(session, "extractor") == COUNT, 100, "all is done", live)
            for what, stranger in strangers.items():
                check(stranger.heard() == 0, f"{what}: nothing was to be heard")
            for each in (live, other):
                each.signal(2)
                each.finish(0)
        check(dropped(session, "lowpass-picker.0") == 0, "nothing of theirs came so far that it was read")
        same(calm(), outcome(session, incoming))
        whole(session)


def listen():
    """The graph may set another address of this host. Without it no socket listens there."""
    with Work("listen") as work:
        folder = work("few")
        arrive(names()[:3], folder)
        for session, words, address in (
            (work("ipc"), "", None),
            (work("tcp"), "transport: tcp", "127.0.0.1"),
            (work("told"), "transport: tcp, listen: 127.0.0.2", "127.0.0.2"),
        ):
            with Run(graph(work.path, micrographs=folder, session=words), session) as live:
                wait_until(lambda: done(session, "extractor") == 3, 60, "work is done", live)
                found = listeners([live.pid, *pids(session).values()])
                check(
                    {one.split(":")[0] for one in found} == ({address} if address else set()),
                    f"'{words}' listens on {sorted(found)}",
                )
                live.signal(15)
                live.finish(1)
        said = run(
            "run",
            graph(work.path, micrographs=folder, session="transport: tcp, listen: 203.0.113.7"),
            "--session",
            work("no"),
            expect=1,
        )
        check("203.0.113.7" in said.stderr and "session.listen" in said.stderr, said.stderr.strip())
        for words in (
            "transport: tcp, listen: 0.0.0.0",
            "transport: tcp, listen: '*'",
            "listen: 127.0.0.1",
            "transport: tcp, listen: somewhere",
        ):
            said = run("check", graph(work.path, micrographs=folder, session=words), expect=2)
            check("session.listen" in said.stderr, said.stderr.strip())


def closed():
    """Sockets of this host lie in a folder that only their user can enter, whatever the umask is and whatever the
    folder was."""
    with Work("closed") as work:
        folder, session = work("few"), work("session")
        arrive(names()[:3], folder)
        os.chmod(work.path, 0o755)
        for name, mode in (("open", 0o777), ("loose", 0o755), ("loose/log", 0o777)):
            os.mkdir(work(name))
            os.chmod(work(name), mode)
        with Run(graph(work.path, micrographs=folder), work("loose"), umask=0) as live:
            wait_until(lambda: done(work("loose"), "extractor") == 3, 60, "work is done", live)
            place = open(work("loose/log/sockets")).read()
            check(place.startswith("/tmp/"), f"not in a folder in which anybody may rename: {place}")
            live.signal(2)
            live.finish(0)
        check(not os.path.exists(place), "no socket is left behind")
        with Run(graph(work.path, micrographs=folder), session, umask=0o002) as live:
            wait_until(lambda: done(session, "extractor") == 3, 60, "work is done", live)
            place = f"{session}/log/sockets"
            check(
                stat.S_IMODE(os.stat(place).st_mode) == 0o700, f"{place} has mode {os.stat(place).st_mode & 0o7777:o}"
            )
            sockets = [f"{place}/{name}" for name in os.listdir(place)]
            check(len(sockets) == 4, f"{len(sockets)} sockets")
            if os.geteuid() == 0:
                attempt = (
                    "import os, socket, sys\nos.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
                    "for path in sys.argv[1:]:\n    try:\n        socket.socket(socket.AF_UNIX).connect(path)\n"
                    "        print('in')\n    except PermissionError:\n        print('out')\n"
                )
                said = subprocess.run([sys.executable, "-c", attempt, *sockets], capture_output=True, text=True)
                check(said.stdout.split() == ["out"] * 4, f"another user stays outside: {said.stdout.split()}")
            else:
                print("another user cannot be played without being root: the folder's mode has to do")
            live.signal(2)
            live.finish(0)
        check(not os.path.lexists(place), "no socket is left behind")
        # A stage opens no socket where others could connect.
        orders = json.load(open(f"{session}/log/watcher.0.instance.json"))
        os.chmod(work("open"), 0o755)
        orders["run"] += 1
        orders["until_idle"] = 0.1
        orders["outputs"][0].update(data=f"ipc://{work('open')}/d", ack=f"ipc://{work('open')}/a")
        told = write(work("orders.json"), json.dumps(orders))
        said = subprocess.run([program("icestream-watcher"), "--instance", told], capture_output=True, text=True)
        check(said.returncode == 1 and "chmod 700" in said.stderr, f"{said.returncode}: {said.stderr.strip()}")


cases = {"network": network, "listen": listen, "closed": closed}
if len(sys.argv) != 2 or sys.argv[1] not in cases:
    sys.exit(f"usage: strangers.py {'|'.join(cases)}")
cases[sys.argv[1]]()
finish()
sys.stdout.flush()
os._exit(0)  # contexts whose peers were often turned away may wait for ever when they are destroyed (libzmq 4.3.4)
