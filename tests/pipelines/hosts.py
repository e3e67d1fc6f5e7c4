#!/usr/bin/env python3
"""Runs sessions on two hosts, which are both this machine: the launcher's own, and an agent by the name `away`. The stages
only pass items on (tests/common/relay.c). Needs a PostgreSQL (tests/common/private_postgresql.sh).

hosts.py CASE"""

import contextlib
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(__file__), "../../build/cpu/bin")))
RELAY = os.path.join(BIN, "../tests/relay")
URL = os.environ["ICESTREAM_TEST_POSTGRESQL"]
COUNT = 200
LOST = 12  # s in which items of a lost host are in work elsewhere


class Session:
    def __init__(self, folder, one="", two="", session="", source="", count=COUNT, read=True):
        self.read = read  # whether the output of agents is
        self.folder, self.path, self.graph = folder, f"{folder}/session", f"{folder}/graph.yaml"
        self.agents, self.launcher = [], None
        for name in ("source", "relay"):
            script = f"{folder}/icestream-{name}"
            with open(script, "w") as file:
                file.write(f"#!/bin/sh\nexec '{RELAY}' {name} \"$@\"\n")
            os.chmod(script, 0o755)
        with open(self.graph, "w") as graph:
            graph.write(
                f"session: {{ledger: '{URL}', listen: 127.0.0.1{session or ', hosts: [away]'}}}\n"
                f"programs: [{folder}/icestream-source, {folder}/icestream-relay]\n"
                "stages:\n"
                f"  source: {{program: {folder}/icestream-source, count: {count}{source}}}\n"
                f"  one: {{program: {folder}/icestream-relay, from: source{one}}}\n"
                f"  two: {{program: {folder}/icestream-relay, from: one{two}}}\n"
            )
        os.makedirs(self.path)

    def launch(self, *options):
        log = open(f"{self.folder}/launcher.out", "a")
        self.launcher = subprocess.Popen(
            [f"{BIN}/icestream", "run", self.graph, "--session", self.path, *options],
            stdout=log,
            stderr=subprocess.STDOUT,
        )

    def join(self, name="away", *options):
        log = open(f"{self.folder}/{name}.out", "a") if self.read else subprocess.PIPE
        agent = subprocess.Popen(
            [f"{BIN}/icestream", "host", self.path, "--name", name, *options],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, TMPDIR=self.folder),
        )
        if not self.read:
            agent.stdout.close()
        self.agents.append(agent)
        return agent

    def said(self, name="launcher"):
        return open(f"{self.folder}/{name}.out").read()

    def finish(self, expected=0):
        assert self.launcher.wait(timeout=90) == expected, self.said()

    def command(self, *words):
        return subprocess.run([f"{BIN}/icestream", *words, "--session", self.path], capture_output=True, text=True)

    def status(self):
        return json.loads(self.command("status", "--json").stdout)

    def done(self, stage):
        try:
            return self.status()["stages"][stage]["done"]
        except (ValueError, KeyError):
            return 0

    def until(self, what, true, seconds=60):
        end = time.time() + seconds
        while not true():
            assert self.launcher.poll() is None, f"the session ended before {what}:\n{self.said()}"
            assert time.time() < end, f"not within {seconds} s: {what}\n{self.said()}"
            time.sleep(0.05)

    def until_done(self, stage, count):
        self.until(f"{stage} has done {count}", lambda: self.done(stage) >= count)

    def places(self):
        with contextlib.suppress(OSError, ValueError):
            return json.load(open(f"{self.path}/hosts/hosts.json"))["instances"]
        return {}

    def until_place(self, instance, host, seconds=60):
        self.until(f"{instance} runs on {host}", lambda: self.places().get(instance) == host, seconds)

    def pid(self, instance):
        """The process of an instance, from its heartbeat, which the launcher has written into the session."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            return json.load(open(f"{self.path}/log/{instance}.heartbeat.json"))["pid"]
        return None

    def products(self):
        """Returns what the session has made, without times."""
        found = {}
        for stage in ("one", "two"):
            for path in glob.glob(f"{self.path}/{stage}/**/*.txt", recursive=True):
                found[os.path.relpath(path, self.path)] = open(path).read()
        return found

    def all_done(self, count=COUNT):
        for stage in ("source", "one", "two"):
            found = self.status()["stages"][stage]
            counts = tuple(found[k] for k in ("seen", "done", "rejected", "failed", "in_flight"))
            assert counts == (count, count, 0, 0, 0), f"{stage}: {counts}\n{self.said()}"
        products = self.products()
        assert len(products) == 2 * count + 2, len(products)
        for path, text in products.items():
            assert text == (f"{count}\n" if path.endswith("summary.txt") else path), f"{path}: {text}"
        assert not os.path.exists(f"{self.path}/hosts/launcher.json"), "the keys were left"

    def end(self):
        for process in filter(None, [*self.agents, self.launcher]):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()


def psql(command):
    return subprocess.run(["psql", "-qAt", URL, "-c", command], capture_output=True, text=True, check=True).stdout


def gone(pid):
    with contextlib.suppress(OSError):
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "Z"
    return True


def case_calm(session):
    """A stage runs on another host, and another one is dealt out. Both hosts end with the session."""
    agent = session.join()
    session.launch()
    session.finish()
    session.all_done()
    assert agent.wait(timeout=20) == 0, session.said("away")
    assert "is over" in session.said("away"), session.said("away")
    assert not glob.glob(f"{session.folder}/icestream-host-*"), "the folder of the host was left"


def case_late(session):
    """Files that are late on the file system that hosts share hold up nothing else. Partial files that a host has left are
    removed."""
    late, left = (0, 100, COUNT - 1), f"{session.path}/two/grid/.mic_0000.txt.gone-0123abcd.partial"
    os.makedirs(f"{session.path}/inputs")
    os.makedirs(os.path.dirname(left))
    for number in range(COUNT):
        if number not in late:
            open(f"{session.path}/inputs/mic_{number:04d}.mrc", "w").close()
    open(left, "w").close()
    session.join()
    session.launch()
    session.until_done("two", COUNT - len(late))
    assert not os.path.exists(left), "a partial file was left"
    for number in late:
        open(f"{session.path}/inputs/mic_{number:04d}.mrc", "w").close()
    session.finish()
    session.all_done()
    said = open(f"{session.path}/log/two.0.log").read()
    assert " INFO absent grid/mic_0100" in said, said


def case_died(session):
    """An instance that dies on a host starts again there. Its heartbeat and its death come over the control channel."""
    session.join()
    session.launch()
    session.until_place("two.0", "away")
    session.until_done("two", 20)
    session.until("two.0 has a heartbeat", lambda: session.pid("two.0"))
    (beat,) = session.status()["stages"]["two"]["instances"]
    assert beat["host"] == "away" and "silent" not in beat, beat
    (host,) = session.status()["hosts"]
    assert host["name"] == "away" and host["there"], host
    text = session.command("status").stdout
    assert "host launcher: source.0, one.0\n" in text and "GPUs): two.0\n" in text, text
    os.kill(session.pid("two.0"), signal.SIGKILL)
    session.finish()
    assert "two.0 was killed by signal 9" in session.said(), session.said()
    session.all_done()


def case_agent_killed(session):
    """Instances of a lost host go on elsewhere, and that is no death."""
    agent = session.join()
    session.launch()
    session.until_place("one.1", "away")
    session.until_done("two", 20)
    pid = session.pid("one.1")
    agent.kill()
    begin = time.time()
    session.until_place("one.1", "launcher", LOST)
    print(f"elsewhere after {time.time() - begin:.1f} s")
    assert gone(pid), "an instance outlives its agent"
    session.finish()
    assert "the host away is not heard any more" in session.said(), session.said()
    assert "starting it again" not in session.said(), session.said()
    session.all_done()


def case_agent_stopped(session):
    """A host that seemed to be lost comes back: what it still runs is killed, and it joins again."""
    agent = session.join()
    session.launch()
    session.until_place("one.1", "away")
    session.until_done("two", 20)
    pid = session.pid("one.1")
    agent.send_signal(signal.SIGSTOP)
    session.until_place("one.1", "launcher", LOST)
    assert not gone(pid), "an instance ends when its agent is stopped"
    agent.send_signal(signal.SIGCONT)
    session.until("the host joins again", lambda: session.said().count("the host away has joined") == 2, 20)
    session.until("the old instance is gone", lambda: gone(pid), 10)
    assert session.done("one") < COUNT, "all was done before the host came back"
    session.finish()
    session.all_done()
    assert agent.wait(timeout=20) == 0, session.said("away")


def case_launcher_killed(session):
    """Instances on a host outlive the launcher. The next launcher does not know them: they are killed, and begin anew."""
    agent = session.join()
    session.launch()
    session.until_place("one.1", "away")
    session.until_done("two", 20)
    pid = session.pid("one.1")
    session.launcher.kill()
    session.launcher.wait()
    said = len(session.said())
    assert not gone(pid), "an instance on another host ends with the launcher"
    session.launch()
    session.until("the host joins anew", lambda: "has joined" in session.said()[said:], 40)
    session.until("the old instance is gone", lambda: gone(pid), 10)
    assert session.done("one") < COUNT, "all was done before the host joined anew"
    session.finish()
    assert session.said("away").count("has welcomed this host") == 2, session.said("away")
    session.all_done()
    assert agent.wait(timeout=20) == 0, session.said("away")


def case_leaving(session):
    """A host that is told to end lets its instances go on elsewhere, at once."""
    agent = session.join()
    session.launch()
    session.until_place("one.1", "away")
    session.until_done("two", 20)
    agent.terminate()
    session.until_place("one.1", "launcher", 7)
    assert agent.wait(timeout=20) == 0, session.said("away")
    session.finish()
    assert "the host away has left" in session.said(), session.said()
    assert "starting it again" not in session.said(), session.said()
    session.all_done()


def case_joins_later(session):
    """A host that joins while the session runs gets a replica."""
    session.launch()
    session.until_done("two", 20)
    assert set(session.places().values()) == {"launcher"}, session.places()
    session.join()
    session.until("a replica moves", lambda: "away" in (session.places()["one.0"], session.places()["one.1"]))
    session.finish()
    session.all_done()


def case_drain(session):
    """The source ends; all that has begun is finished, on both hosts."""
    session.join()
    session.launch()
    session.until_place("two.0", "away")
    session.until_done("two", 20)
    session.launcher.send_signal(signal.SIGINT)
    session.finish()
    seen = session.status()["stages"]["source"]["seen"]
    assert 20 <= seen < COUNT, seen
    session.all_done(seen)


def case_stop(session):
    """A session that is stopped ends its hosts, and goes on from there."""
    agent = session.join()
    session.launch()
    session.until_place("one.1", "away")
    session.until_done("two", 20)
    pid = session.pid("one.1")
    session.launcher.terminate()
    session.finish(1)
    assert agent.wait(timeout=20) == 0 and gone(pid), session.said("away")
    ended = open(f"{session.path}/log/one.1.log").read()
    assert "asked to stop" in ended, f"an instance on the host was killed, and not asked:\n{ended}"
    session.join()
    session.launch()
    session.finish()
    session.all_done()


def case_check(session):
    """A graph is told what several hosts need, and shows where its instances may run."""
    with open(session.graph) as file:
        good = file.read()

    def check(text, code):
        with open(session.graph, "w") as file:
            file.write(text)
        answer = subprocess.run([f"{BIN}/icestream", "check", session.graph], capture_output=True, text=True)
        assert answer.returncode == code, answer
        return answer.stdout + answer.stderr

    shutil.copy(f"{session.folder}/icestream-relay", f"{session.folder}/relay")  # by a name that is not ours
    said = check(good, 0)
    for words in (r"source\.0 .* launcher +icestream-source", r"one\.0 .* any +icestream", r"two\.0 .* away +icestream"):
        assert re.search(words, said), said
    for text, words in (
        (good.replace(f"ledger: '{URL}', ", ""), "session.hosts: several hosts share their ledgers in PostgreSQL"),
        (good.replace("session: {", "session: {transport: ipc, "), "several hosts speak over tcp"),
        (good.replace("hosts: [away]", "hosts: [away, away]"), "session.hosts: away is there twice"),
        (good.replace("hosts: [away]", "hosts: [away, gpu]"), '"gpu" cannot name a host'),
        (good.replace("on: away", "on: awaz"), 'did you mean "away"?'),
        (good.replace(", hosts: [away]", ""), "two.on: the session has one host"),
        (good.replace("icestream-relay", "relay"), "two.on: a program of others keeps its ledger"),
        (good.replace("hosts: [away]", "host: [away]"), 'did you mean "hosts"?'),
    ):
        said = check(text, 2)
        assert words in said, f"{words}\n{said}"
    assert "session.listen is missing" in check(good.replace("listen: 127.0.0.1, ", ""), 0)
    for kind, shown in (("gpu", "any with a GPU"), ("cpu", "any without a GPU"), ("launcher", "launcher")):
        assert re.search(rf"two\.0 .* {shown} +icestream", check(good.replace("on: away", f"on: {kind}"), 0))


def case_alone(session):
    """Without a launcher a host ends after a while."""
    agent = session.join("away", "--alone", "1")
    session.launcher = agent
    assert agent.wait(timeout=30) == 75, session.said("away")
    assert "no launcher runs" in session.said("away"), session.said("away")


def case_taken_over(session):
    """A launcher whose session another one has taken ends, although a host works for it."""
    session.join()
    session.launch()
    session.until_place("one.1", "away")
    session.until_done("two", 20)
    schema = psql("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'icestream_%'").strip()
    psql(
        f"UPDATE \"{schema}\".leases SET number = number + 1, token = 'another', host = 'elsewhere', process = '',"
        " renewed = clock_timestamp() WHERE name = ''"
    )
    session.finish(1)
    assert "has taken this session over" in session.said(), session.said()


def case_record_of_before(session):
    """Endpoints of an earlier run do not count in the next one, however often edges had moved."""
    session.join()
    session.launch()
    session.until_place("two.0", "away")
    session.until_done("two", 20)
    session.launcher.kill()
    session.launcher.wait()
    (folder,) = glob.glob(f"{session.folder}/icestream-host-*")
    nowhere = {"data": "tcp://127.0.0.1:9", "ack": "tcp://127.0.0.1:9"}
    with open(f"{folder}/endpoints.json", "w") as file:
        json.dump({"v": 1, "number": 50, "edges": {"one.0>two": nowhere}}, file)
    session.launch()
    session.finish()
    session.all_done()


def case_unread(session):
    """A host whose output nobody reads any more, such as one that was started over ssh, goes on."""
    agent = session.join()
    session.launch()
    session.finish()
    session.all_done()
    assert agent.wait(timeout=20) >= 0, "a signal has ended it"


def case_no_room(session):
    """An order that a host cannot carry out for want of room does not keep signals away."""
    agent = session.join()
    session.launcher = agent  # which must not end
    session.until("the host has a folder", lambda: glob.glob(f"{session.folder}/icestream-host-*"))
    (folder,) = glob.glob(f"{session.folder}/icestream-host-*")
    os.mkdir(f"{folder}/endpoints.json.new")  # so that no file of this name can be written
    session.launch()
    session.until_done("one", 20)
    session.launcher.terminate()
    session.finish(1)
    assert agent.wait(timeout=20) == 0, session.said("away")


cases = {name[5:]: function for name, function in globals().items() if name.startswith("case_")}
SLOW = ", replicas: 2, work: 0.1"
graphs = {
    "calm": {"one": ", replicas: 2", "two": ", on: away"},
    "late": {"source": ", reads: true", "two": ", on: away, reads: true"},
    "died": {"two": ", on: away, work: 0.05"},
    "joins_later": {"one": SLOW, "session": ", control_port: 0"},
    "drain": {"one": ", work: 0.02", "two": ", on: away, work: 0.05"},
    "agent_stopped": {"one": ", replicas: 2, work: 0.2"},
    "launcher_killed": {"one": ", replicas: 2, work: 0.2"},
    "alone": {},
    "record_of_before": {"two": ", on: away, work: 0.05"},
    "unread": {"two": ", on: away", "read": False},
    "no_room": {"one": ", on: away, work: 0.1"},
    "check": {"two": ", on: away"},
}
if len(sys.argv) != 2 or sys.argv[1] not in cases:
    sys.exit(f"usage: hosts.py {'|'.join(cases)}")
work = tempfile.mkdtemp(prefix="icestream-hosts-")
print(f"in {work}")
one_session = Session(work, **graphs.get(sys.argv[1], {"one": SLOW}))
try:
    cases[sys.argv[1]](one_session)
finally:
    one_session.end()
shutil.rmtree(work)
