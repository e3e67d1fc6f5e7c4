"""A session on three hosts: the launcher on the first, agents on the others, micrographs that arrive one by one.

    with World("fault") as world:
        with Session(world) as session:
            session.begin()
            session.arrive(20)
            world.hosts[1].kill()
            session.finish()
        session.compare()

Fault tests' data and the undisturbed session are those of tests/faults."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import rig
from database import Database
from relay import Relay

rig.enter()
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../faults"))
from faults import MICROGRAPHS, Work, calm, check, finish, names, outcome, program, same, seeded, whole, write  # noqa: E402,F401

STAGES = ("watcher", "lowpass-picker", "extractor")
LOST = 12  # s in which the items of a lost host are in work elsewhere

GRAPH = """\
session: {{pixel_size: 6.0, ledger: "{ledger}", listen: {listen}, {spread}}}
stages:
  watcher:        {{directory: "{raw}", poll: 0.2, settle: 0}}
  lowpass-picker: {{from: watcher, diameter: 130, lowpass: 40, write_png: false, replicas: 3}}
  extractor:      {{from: lowpass-picker, box: 32, replicas: 2}}
"""


class World(rig.Rig):
    """Three hosts with a server beside them. relay: stands before the server and can lose answers."""

    def __init__(self, name):
        # Others may enter, since the server runs as another user.
        self.work = Work(name)
        os.chmod(self.work.path, 0o711)
        super().__init__(self.work.path)
        self.database = Database(self)
        self.relay = Relay(self, self.database)
        self.failed = True

    def __exit__(self, kind, value, trace):
        self.database.__exit__(kind, value, trace)
        super().__exit__(kind, value, trace)
        self.work.__exit__(kind, value, trace)


class Session:
    """arrived: how many micrographs were let in so far; the next ones come when arrive() is called. spread: keys of the
    graph that make it one of several hosts."""

    def __init__(self, world, spread="hosts: [beta, gamma]"):
        self.world, self.arrived = world, 0
        self.launcher_host, *self.agent_hosts = world.hosts
        self.path, self.raw = os.path.join(world.shared, "session"), os.path.join(world.shared, "raw")
        os.makedirs(self.raw)
        url = world.relay.url + f"?sslrootcert={os.environ['PGSSLROOTCERT']}"
        text = GRAPH.format(ledger=url, listen=self.launcher_host.address, raw=self.raw, spread=spread)
        self.graph = write(os.path.join(world.shared, "graph.yaml"), text)
        self.launcher, self.agents, self.over, self.last = None, {}, threading.Event(), {}

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.over.set()
        if kind is not None:
            self.tell_ledgers()
            for host in self.world.hosts:
                for one in os.listdir(host.local):
                    if one.endswith(".out"):
                        print(f"---- {host.name}: {one}\n{open(os.path.join(host.local, one)).read()[-3000:]}")

    def tell_ledgers(self):
        """Prints what is not done, what waits to be sent, and what the server's connections do."""
        print(self.ask_server("SELECT now(), application_name, client_addr, client_port, state, xact_start, query_start,"
                              " left(query, 60), pg_blocking_pids(pid) FROM pg_stat_activity WHERE state <> 'idle'"))
        for stage in STAGES:
            print(f"---- {stage}")
            print(self.ask_tables(stage, "items", "id, state, instance, left(token, 4), to_timestamp(time_changed)", "state <> 1"))
            print(self.ask_tables(stage, "outbox", "edge, id, to_timestamp(time_sent)", "acknowledged IS NULL"))

    def ask_tables(self, stage, table, what, where):
        """Runs SELECT on a table of a stage's ledger; "" while the server is away."""
        query = (
            f"SELECT format('SELECT {what} FROM %I.%I WHERE {where}', schemaname, tablename) FROM pg_tables"
            f" WHERE tablename = '{stage}.{table}' \\gexec"
        )
        return self.ask_server(query)

    def ask_server(self, query):
        words = ["psql", "-qAt", self.world.database.local]
        return subprocess.run(words, input=query, capture_output=True, text=True).stdout

    # ---- what happens by itself

    def arrive(self, count, pace=0.1):
        """Lets as many micrographs arrive, one each `pace` seconds. Does not wait for them."""
        some = names()[self.arrived : self.arrived + count]
        self.arrived += count
        threading.Thread(target=self.feed, args=(some, pace), daemon=True).start()

    def feed(self, some, pace):
        for name in some:
            hidden = os.path.join(self.raw, f".{name}.coming")
            shutil.copy2(os.path.join(MICROGRAPHS, name), hidden)
            os.rename(hidden, os.path.join(self.raw, name))
            if self.over.wait(pace):
                return

    def launch(self, host=None, *more, env=None):
        host = host or self.launcher_host
        words = [program("icestream"), "run", self.graph, "--session", self.path, *more]
        self.launcher = host.start(*words, log=os.path.join(host.local, "launcher.out"), env=env)
        return self.launcher

    def join(self, host):
        """An agent needs the folder of the session, which its launcher makes."""
        rig.until(lambda: os.path.exists(f"{self.path}/hosts/launcher.json"), 60, "the launcher listens")
        words = [program("icestream"), "host", self.path, "--name", host.name, "--address", host.address]
        self.agents[host] = host.start(*words, log=os.path.join(host.local, "agent.out"))
        return self.agents[host]

    def begin(self):
        self.launch()
        for host in self.agent_hosts:
            self.join(host)

    # ---- what can be seen

    def ask(self, *words):
        return subprocess.run([program("icestream"), *words, "--session", self.path], capture_output=True, text=True)

    def done(self, stage):
        """Returns how many items a stage has done, from the tables of the server; 0 while it is away."""
        return int(self.ask_tables(stage, "items", "count(*)", "state = 1").strip() or 0)

    def places(self):
        """Returns {instance: host} as the launcher has it."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            self.last = json.load(open(f"{self.path}/hosts/hosts.json"))["instances"]
            return self.last
        return {}

    def run_number(self):
        """Returns how often a launcher has begun the session."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            return json.load(open(f"{self.path}/log/plan.json"))["run"]
        return 0

    def instances(self, host):
        """Returns {instance: pid} of the processes on a host."""
        found = {}
        for pid in host.processes():
            with contextlib.suppress(OSError, ValueError):
                words = open(f"/proc/{pid}/cmdline", "rb").read().decode().split("\0")
                orders = os.path.basename(words[words.index("--instance") + 1])
                found[".".join(orders.split(".")[:2])] = pid  # lowpass-picker.1 of lowpass-picker.1.7.instance.json
        return found

    def until(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while not condition():
            if self.launcher.poll() is not None:
                raise AssertionError(f"the session ended before: {what} {self.last}")
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {what}")
            time.sleep(0.05)

    def until_done(self, stage, count, seconds=90):
        self.until(lambda: self.done(stage) >= count, seconds, f"{stage} has done {count}")

    def until_all_done(self, seconds=90):
        self.until_done("extractor", self.arrived, seconds)

    def until_spread(self):
        """Waits until each host runs something; returns an instance of a picker on each."""
        wanted = {"launcher", *(host.name for host in self.agent_hosts)}
        self.until(lambda: wanted <= set(self.places().values()), 60, "each host runs something")
        return {place: name for name, place in self.places().items() if name.startswith("lowpass-picker")}

    # ---- the end

    def finish(self, seconds=120):  # noqa: F811 (a method)
        """Waits until all is done, and drains the session."""
        self.until_all_done(seconds)
        self.launcher.signal(signal.SIGINT)
        self.launcher.finish(0, seconds)

    def compare(self, what=""):
        """Checks that the session has what an undisturbed one has."""
        same(part(calm(), names()[: self.arrived]), outcome(self.path, self.raw), what)
        whole(self.path, what)


def part(undisturbed, some):
    """Returns what an undisturbed session has of some micrographs."""
    stems = {os.path.splitext(name)[0] for name in some}

    def is_of(path):
        name = os.path.basename(path)
        return any(name.startswith(stem + ".") or name.startswith(stem + "_") for stem in stems)

    found = dict(undisturbed)
    found["counts"] = {
        stage: dict(counts, seen=len(some), done=len(some)) for stage, counts in undisturbed["counts"].items()
    }
    for key in ("picks", "cuts", "stacks"):
        found[key] = {path: digest for path, digest in undisturbed[key].items() if is_of(path)}
    found["particles"] = [
        row for row in undisturbed["particles"] if any(is_of(value.split("@")[-1]) for value in row if "/" in value)
    ]
    return found


def kill(pid):
    os.kill(pid, signal.SIGKILL)
