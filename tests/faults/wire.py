"""Helpers for the wires between the stages of a session: endpoints that a program listed in the graph takes over from
the launcher, and messages that no stage should send. On top of faults.py; needs pyzmq."""

import glob
import json
import os
import sys

from faults import SKIP, check, program

try:
    import zmq
except ImportError:
    print("skipped: python3-zmq is not installed")
    sys.exit(SKIP)

REWIRE = '''#!/usr/bin/python3
"""Stands in for a stage: bends its edges as told, then becomes the stage itself."""
import json, os, sys, time
program, folder, resend, name = PROGRAM, FOLDER, RESEND, NAME
if "--instance" in sys.argv:
    at = sys.argv.index("--instance") + 1
    orders = json.load(open(sys.argv[at]))
    for number, edge in enumerate(orders["inputs"] if BENT else []):
        with open(f"{folder}/{name}.{orders['instance']}.{number}.tmp", "w") as told:
            json.dump(edge, told)
        place = f"{folder}/{name}.{number}"
        os.replace(told.name, place + ".edge")
        edge["data"], edge["ack"] = f"ipc://{place}.d", f"ipc://{place}.a"
    for edge in orders["outputs"]:
        edge["resend"] = resend
    while os.path.exists(f"{folder}/{name}.wait"):
        time.sleep(0.02)
    path = sys.argv[at].replace(".instance.json", ".bent.instance.json")
    with open(path, "w") as bent:
        json.dump(orders, bent)
    sys.argv[at] = path
os.execv(program, [program, *sys.argv[1:]])
'''


def bend(folder, stage, resend, bent=True):
    """Writes a program that runs in the stage's place. Returns its path, for `program:` and `programs:`. Its inputs go
    through FOLDER/STAGE.N.d and .a instead (bent). Its outputs send again after `resend` seconds. It waits while
    FOLDER/STAGE.wait exists."""
    path = os.path.join(folder, f"bent-{stage}")
    text = REWIRE
    for word, value in (
        ("PROGRAM", program(f"icestream-{stage}")),
        ("FOLDER", folder),
        ("RESEND", resend),
        ("NAME", stage),
        ("BENT", bent),
    ):
        text = text.replace(word, repr(value))
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)
    return path


def instances(session):
    """Returns the launcher's settings for each instance: {"watcher.0": {…}}."""
    found = {}
    for path in glob.glob(f"{session}/log/*.instance.json"):
        if ".bent." not in path:
            found[os.path.basename(path)[: -len(".instance.json")]] = json.load(open(path))
    return found


def dropped(session, instance):
    """Returns how many messages an instance has dropped, from its heartbeat."""
    with open(f"{session}/log/{instance}.heartbeat.json") as beat:
        return json.load(beat)["dropped"]


def log_lines(session, instance, word):
    path = f"{session}/log/{instance}.log"
    return [line for line in open(path, errors="replace") if f" {word} " in line] if os.path.exists(path) else []


def nonsense(edge, rng):
    """Returns messages that must change nothing on a live edge: [frames, …]. Each is dropped and counted. Each is
    shorter than 64 KiB, so that it is not cut off on the way up."""
    item = {"v": 1, "id": "stranger", "kind": "micrograph", "micrograph": {"path": "x.mrc"}}

    def message(**changed):
        whole = {"v": 1, "kind": "item", "edge": edge, "seq": 1, "attempt": 1, "item": item, **changed}
        return json.dumps({key: value for key, value in whole.items() if value is not None}).encode()

    def answer(**changed):
        return message(**{"kind": "ack", "item": None, "instance": 0, "token": "t", "verdict": "done", **changed})

    odd_ids = [
        "/etc/passwd",
        "../../escape",
        "a/../../../escape",
        "a/./b",
        "a//b",
        "",
        "a\nb",
        "a\tb",
        ".",
        "..",
        "x" * 2000,
    ]
    single = [
        rng.randbytes(rng.randrange(1, 2000)),
        b"",
        b"{",
        b"null",
        b"true",
        b"17",
        b"[]",
        b'"text"',
        b"{}",
        message(v=2),
        message(v=10**9),
        message(v="1"),
        message(v=None),
        message(v=-1),
        message(v=0),
        message(kind="nothing"),
        message(kind=None),
        message(kind=["item"]),
        message(kind="item\n"),
        message(edge="nowhere.0>nobody"),
        message(edge="x" * 50000),
        message(edge=None),
        message(edge=5),
        message(seq=-1),
        message(seq=10**30),
        message(seq=2**63),
        message(seq=1.5),
        message(seq="1"),
        message(attempt=-1),
        message(attempt=2**40),
        message(item=None),
        message(item=5),
        message(item={}),
        message(item=[item]),
        message(kind="end", seq=5),
        answer(token=None),
        answer(token="x" * 5000),
        answer(instance=-1),
        answer(instance=2**40),
        answer(seq=-(2**63)),
        answer(seq=10**25),
        b"[" * 50000,
        b'{"v":' * 5000,
        b'{"a":' * 3000 + b"1" + b"}" * 3000,
        message(item=None)[:-1] + b',"item":{"v":1,"id":"a\\u0000b","kind":"micrograph"}}',
        message().replace(b"stranger", b"stra\xff\xfenger"),
        message().replace(b"stranger", b"stra\x00nger"),
        message()[: rng.randrange(1, 60)],
        message() + b"x",
        message() + message(),
        b"\x00" * 5000,
        message().replace(b'"seq": 1', b'"seq": 1e400'),
        message().replace(b'"seq"', b'"v": 1, "seq"', 1),
        b" " * 50000,
    ] + [message(item={**item, "id": odd}) for odd in odd_ids]
    several = [[message(), message()], [b"", message()], [message(), b""], [b"x"] * 500]
    return [[one] for one in single] + several


def stray_answers(edge, rng):
    """Returns answers about messages that were never sent."""
    back = {"v": 1, "kind": "ack", "edge": edge, "instance": 0, "token": "t", "verdict": "done"}
    numbers = [10**6, 2**62, 2**63 - 1, rng.randrange(10**6, 10**12)]
    return [[json.dumps({**back, "seq": number}).encode()] for number in numbers] + [
        [json.dumps({**back, "seq": 0, "verdict": "end"}).encode()]
    ]


def peak_kib(pid):
    """Returns the peak memory of a process so far."""
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


__all__ = ["bend", "check", "dropped", "instances", "log_lines", "nonsense", "peak_kib", "stray_answers", "zmq"]
