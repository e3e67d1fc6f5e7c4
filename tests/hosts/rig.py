"""Hosts for tests: network namespaces on one bridge, each with its own address, host name, processes and mounts.

    rig.enter()                                    # at the top of a script: starts it again inside namespaces
    with Rig(work.path) as world:
        a, b, c = world.hosts
        live = a.start("icestream", "run", ...)    # a program on host a
        b.cut(); b.join()                          # its cable
        b.mute(); b.heal()                         # nothing that b sends arrives; it still hears the others
        b.stop(); b.wake()                         # all its processes
        b.kill()                                   # a power cut; b.boot() starts it again
        b.hide(); b.show()                         # the shared folder, world.shared

The script itself stands on the bridge, at world.address: a fourth place, where PostgreSQL and relays run. Needs ip,
unshare, nsenter and mount. Where namespaces cannot be made, enter() skips the test and says why."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from subprocess import DEVNULL, PIPE

SKIP = 77
NET = "10.77.0"
INSIDE = "ICESTREAM_TEST_RIG"
NOWHERE = "02:00:00:00:00:01"  # a hardware address that nobody has
TOOLS = ("ip", "unshare", "nsenter", "mount", "umount", "hostname")


def skip(reason):
    print(f"skipped: {reason}", flush=True)
    sys.exit(SKIP)


def enter():
    """Starts this script again as root of new namespaces. They end with it, and all processes in them."""
    if os.environ.get(INSIDE):
        return
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for tool in TOOLS:
        if subprocess.run(["sh", "-c", f"command -v {tool}"], capture_output=True).returncode != 0:
            skip(f"{tool} is not installed (packages iproute2, util-linux, hostname)")
    words = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if os.getuid() != 0:
        words[1:1] = ["--user", "--map-root-user"]
    trial = subprocess.run([*words, "sh", "-ec", TRIAL], capture_output=True, text=True)
    if trial.returncode != 0:
        skip(f"namespaces cannot be made: {(trial.stderr.strip() or 'no reason given').splitlines()[-1]}")
    os.environ[INSIDE] = "1"
    os.execvp(words[0], [*words, sys.executable, *sys.argv])


# Does on a small scale what a rig does.
TRIAL = """
ip link set lo up
ip link add rig type bridge
ip link add one type veth peer name other
mount -t tmpfs none /mnt
unshare --net --uts --mount --pid --fork --mount-proc --kill-child hostname x
"""


def call(*words):
    """Runs a tool. An error of it ends the test."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.01)


def children(pid):
    with contextlib.suppress(OSError):
        return [int(word) for word in open(f"/proc/{pid}/task/{pid}/children").read().split()]
    return []


class Program:
    """A process on a host, with its output in a file. pid: as it is seen from the rig."""

    def __init__(self, host, words, log, env):
        self.log = log
        self.at = os.path.getsize(log) if os.path.exists(log) else 0
        with open(log, "ab") as out:
            # nsenter stands in front of the program, which is its child.
            self.front = subprocess.Popen([*host.inside(), *map(str, words)], stdout=out, stderr=out, env=env)
        until(lambda: children(self.front.pid) or self.poll() is not None, 10, f"{words[0]} starts")
        self.pid = next(iter(children(self.front.pid)), None)

    def poll(self):
        return self.front.poll()

    @property
    def returncode(self):
        return self.front.returncode

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            if self.pid is not None and self.poll() is None:
                os.kill(self.pid, number)

    def wait(self, seconds=60):
        """Waits for the end; returns the exit code."""
        return self.front.wait(seconds)

    def kill(self):
        self.signal(signal.SIGKILL)
        return self.wait()

    def output(self):
        with open(self.log, errors="replace") as log:
            log.seek(self.at)
            return log.read()

    def says(self, text):
        return text in self.output()

    def finish(self, expected=0, seconds=100):
        """Waits for the end and returns the output."""
        code = self.wait(seconds)
        if code != expected:
            raise AssertionError(f"the program ended with {code}, not {expected}:\n{self.output()[-4000:]}")
        return self.output()


class Host:
    def __init__(self, world, number, name):
        self.world, self.number, self.name = world, number, name
        self.address, self.port = f"{NET}.{10 + number}", f"port{number}"
        self.local = os.path.join(world.folder, "local", name)
        os.makedirs(self.local)
        self.front, self.init, self.programs = None, None, []
        self.boot()

    # ---- power

    def boot(self):
        """Switches the host on. Its folder of local files is as it was."""
        words = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
        # The first process only takes in orphans, which the kernel buries where SIGCHLD is ignored.
        script = f"hostname {self.name}; trap '' CHLD; echo up; exec sleep infinity"
        self.front = subprocess.Popen([*words, "sh", "-ec", script], stdout=PIPE, stderr=DEVNULL, text=True)
        if self.front.stdout.readline() != "up\n":
            raise AssertionError(f"the host {self.name} does not start")
        self.init = children(self.front.pid)[0]
        call("ip", "link", "add", self.port, "type", "veth", "peer", "name", "eth0", "netns", str(self.init))
        call("ip", "link", "set", self.port, "master", "rig", "up")
        self.run("sh", "-ec", f"ip link set lo up; ip addr add {self.address}/24 dev eth0; ip link set eth0 up")
        self.run("mount", "--bind", self.world.names, "/etc/hosts")

    def kill(self):
        """A power cut: nobody hears a farewell, and no process of the host is left."""
        if self.init is None:
            return
        self.cut()
        os.kill(self.init, signal.SIGKILL)
        self.rouse()
        self.front.wait(20)
        self.front.stdout.close()
        self.init, self.programs = None, []
        # The kernel takes the other end away a moment later.
        subprocess.run(["ip", "link", "del", self.port], capture_output=True)

    # ---- programs

    def inside(self):
        return ["nsenter", "-t", str(self.init), "-n", "-u", "-m", "-p", "--"]

    def environment(self, env=None):
        return dict(os.environ, TMPDIR=self.local, HOME=self.local, **self.world.env, **(env or {}))

    def start(self, *words, log=None, env=None):
        log = log or os.path.join(self.local, os.path.basename(words[0]) + ".out")
        self.programs.append(Program(self, words, log, self.environment(env)))
        return self.programs[-1]

    def run(self, *words, check=True, env=None):
        """Runs a program on the host and returns it with its output."""
        done = subprocess.run(
            [*self.inside(), *map(str, words)], capture_output=True, text=True, env=self.environment(env)
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{self.name}: {' '.join(map(str, words))}: {done.stdout}{done.stderr}")
        return done

    def processes(self):
        """Returns the pids of all processes but the first, as they are seen from the rig; the dead do not count."""
        found = []
        own = os.readlink(f"/proc/{self.init}/ns/pid")
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{entry}/ns/pid") == own and int(entry) != self.init and state(entry) != "Z":
                    found.append(int(entry))
        return found

    def stop(self):
        """Stops all processes, as a machine that sleeps. wake() lets them go on."""
        self.everyone(signal.SIGSTOP, "T")

    def wake(self):
        self.everyone(signal.SIGCONT, None)
        self.rouse()

    def rouse(self):
        """nsenter stops itself when its program is stopped."""
        for one in self.programs:
            if one.poll() is None:
                one.front.send_signal(signal.SIGCONT)

    def everyone(self, number, wanted):
        def over():
            left = [pid for pid in self.processes() if state(pid) != wanted]
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            return wanted is None or not left

        until(over, 20, f"all processes of {self.name} have got signal {number}")

    # ---- network

    def cut(self):
        """Pulls the cable: nothing goes in or out."""
        call("ip", "link", "set", self.port, "down")

    def join(self):
        call("ip", "link", "set", self.port, "up")

    def mute(self):
        """Whatever the host sends goes to a hardware address that nobody has; what others send still arrives."""
        self.neighbours("replace", "lladdr", NOWHERE, "nud", "permanent")

    def heal(self):
        self.neighbours("del")

    def neighbours(self, verb, *more):
        for address in [self.world.address, *(h.address for h in self.world.hosts if h is not self)]:
            self.run("ip", "neigh", verb, address, *more, "dev", "eth0")

    # ---- files

    def hide(self):
        """Takes the shared folder away: an empty folder stands in its place, in which nothing can be written."""
        self.run("mount", "-t", "tmpfs", "-o", "ro,size=4k", "none", self.world.shared)

    def show(self):
        self.run("umount", "-l", self.world.shared)


def state(pid):
    """Returns the state of a process as a letter; "" when it is gone."""
    with contextlib.suppress(OSError):
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
    return ""


class Rig:
    """folder: an empty folder. shared: the folder in it that all hosts share. env: what programs on hosts find in their
    environment, beside TMPDIR."""

    def __init__(self, folder, names=("alpha", "beta", "gamma")):
        self.folder, self.address, self.env = folder, f"{NET}.1", {}
        self.shared = os.path.join(folder, "shared")
        os.makedirs(self.shared)
        self.names = os.path.join(folder, "hosts")
        with open(self.names, "w") as file:
            file.write(f"127.0.0.1 localhost\n{self.address} rig\n")
            file.writelines(f"{NET}.{11 + k} {name}\n" for k, name in enumerate(names))
        call("ip", "link", "set", "lo", "up")
        call("ip", "link", "add", "rig", "type", "bridge")
        call("ip", "addr", "add", f"{self.address}/24", "dev", "rig")
        call("ip", "link", "set", "rig", "up")
        call("mount", "--bind", self.names, "/etc/hosts")
        self.hosts = []
        for k, name in enumerate(names):
            self.hosts.append(Host(self, 1 + k, name))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for host in self.hosts:
            host.kill()
        call("umount", "-l", "/etc/hosts")
        call("ip", "link", "del", "rig")
