#!/usr/bin/env python3
"""Deletes sockets and instance files of a session that runs, as log-out, cleaners and tidy users do, and then lets
processes die. The run must end like an undisturbed one, and nobody may be told to mend anything.

sockets.py logout | cleaner | elsewhere | instances | stranger"""

import glob
import importlib.util
import json
import os
import shutil
import signal
import stat
import sys

from faults import (
    SKIP,
    STAGES,
    Run,
    Work,
    arrive,
    calm,
    check,
    done,
    finish,
    graph,
    names,
    outcome,
    pids,
    same,
    wait_until,
    whole,
    write,
)
from session import SOURCE

OPTIONS = ("--backoff", "0.05")


class Fed(Run):
    """A run whose micrographs come in parts, so that each deletion is followed by work."""

    def __init__(self, work, session, **popen):
        self.folder, self.sent, self.rest = work("in"), 0, names()
        os.mkdir(self.folder)
        super().__init__(graph(work.path, micrographs=self.folder), session, *OPTIONS, **popen)

    def send(self, count=40):
        arrive(self.rest[:count], self.folder)
        self.sent += len(self.rest[:count])
        self.rest = self.rest[count:]

    def settle(self):
        wait_until(lambda: done(self.session, "extractor") >= self.sent, 120, f"{self.sent} are done", self)

    def begin(self):
        """Brings all stages to work."""
        self.send()
        self.settle()

    def die(self, *stages):
        """Kills stages, and waits until each works under a new number."""
        for stage in stages:
            before = pids(self.session)[f"{stage}.0"]
            os.kill(before, signal.SIGKILL)
            wait_until(
                lambda: pids(self.session).get(f"{stage}.0", before) != before, 120, f"{stage} starts again", self
            )

    def end(self, what):
        self.send(len(self.rest))
        wait_until(lambda: done(self.session, "watcher") >= len(names()), 120, "all are found", self)
        self.settle()
        output = self.drain()
        same(calm(), outcome(self.session, self.folder), what)
        whole(self.session, what)
        return output


def place(session):
    """Returns the folder of the sockets."""
    path = f"{session}/log/sockets"
    return path if os.path.isdir(path) else open(path).read()


def bound(session):
    """Returns how many sockets the stages have bound under the names that receivers know."""
    folder = place(session)
    return len([name for name in os.listdir(folder) if name != "probe"]) if os.path.isdir(folder) else 0


def logout():
    """The folder of the log-in session goes with the log-out. The sockets do not lie there."""
    with Work("logout") as work:
        session, runtime = work("session"), work("runtime")
        os.mkdir(runtime, 0o700)
        with Fed(work, session, env={**os.environ, "XDG_RUNTIME_DIR": runtime}) as live:
            live.begin()
            check(os.listdir(runtime) == [], "nothing lies in XDG_RUNTIME_DIR")
            check(os.path.isdir(f"{session}/log/sockets"), "the sockets lie below the session")
            check(stat.S_IMODE(os.stat(f"{session}/log/sockets").st_mode) == 0o700, "and only this user reaches them")
            shutil.rmtree(runtime)
            live.die("extractor")
            live.begin()
            live.die("lowpass-picker", "watcher")
            live.end("log-out")
        check(not os.path.lexists(f"{session}/log/sockets"), "no socket is left behind")
        finish()


def clean(live, session):
    """Deletes the sockets' files, then their folder. After each, senders live on and receivers start again, and the
    other way round."""
    for everything in (False, True):
        folder = place(session)
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        if everything:
            os.rmdir(folder)
        live.die("extractor")  # its sender goes on, whose sockets have no name any more
        live.begin()
        wait_until(lambda: bound(session) == 4, 120, "all sockets have their names again", live)
        check(stat.S_IMODE(os.stat(folder).st_mode) == 0o700, "in a folder of this user")
        shutil.rmtree(folder)
        live.die(*STAGES)
        live.begin()


def cleaner():
    """A cleaner deletes the sockets below the session."""
    with Work("cleaner") as work:
        session = work("session")
        with Fed(work, session) as live:
            live.begin()
            check(place(session) == f"{session}/log/sockets", "the sockets lie below the session")
            clean(live, session)
            output = live.end("cleaned")
        check("was gone; made again" in output, "the launcher reports what it made again")
        texts = "".join(open(path).read() for path in glob.glob(f"{session}/log/*.log"))
        check(" WARN socket-gone " in texts, "and a stage reports what it bound again")
        finish()


def elsewhere():
    """A session whose own path is too long for sockets has them in /tmp, where cleaners are more common still."""
    with Work("elsewhere") as work:
        session = work("a-very-long-name-" * 6, "session")
        os.makedirs(os.path.dirname(session))
        with Fed(work, session) as live:
            live.begin()
            folder = place(session)
            check(folder.startswith("/tmp/icestream-") and len(folder) < 30, f"the sockets lie in {folder}")
            clean(live, session)
            live.end("cleaned")
        check(not os.path.exists(folder), "no folder is left behind")
        check(not os.path.lexists(f"{session}/log/sockets"), "nor its name")
        finish()


def orders(path):
    """Returns what an instance file says, but for the deaths so far, which the launcher writes there."""
    return {key: value for key, value in json.load(open(path)).items() if key != "deaths"}


def instances():
    """All instance files are deleted, with the processes that had read them."""
    with Work("instances") as work:
        session = work("session")
        with Fed(work, session) as live:
            live.begin()
            files = sorted(glob.glob(f"{session}/log/*.instance.json"))
            before = [orders(path) for path in files]
            check(len(files) == len(STAGES), f"each process has its file: {len(files)}")
            for path in files:
                os.unlink(path)
            live.die(*STAGES)
            live.begin()
            check(sorted(glob.glob(f"{session}/log/*.instance.json")) == files, "all are there again")
            check([orders(path) for path in files] == before, "with the same content")
            check(all(stat.S_IMODE(os.stat(path).st_mode) == 0o600 for path in files), "and for this user alone")
            live.end("instance files deleted")
        finish()


STRANGER = """\
programs: ["PROGRAM"]
session: {pixel_size: 6.0}
stages:
  watcher:        {directory: "FOLDER"}
  stranger:       {from: watcher, program: "PROGRAM"}
  lowpass-picker: {from: stranger, diameter: 130, lowpass: 40, write_png: false}
  extractor:      {from: lowpass-picker, box: 32}
"""


def stranger():
    """A program of others does not bind its deleted sockets again, so the launcher starts it again."""
    if importlib.util.find_spec("zmq") is None:
        print("skipped: no pyzmq")
        sys.exit(SKIP)
    with Work("stranger") as work:
        folder, session = work("in"), work("session")
        text = STRANGER.replace("PROGRAM", os.path.realpath(f"{SOURCE}/examples/stage-python/stranger.py"))
        path = write(work("graph.yaml"), text.replace("FOLDER", folder))
        arrive(names()[:6], folder)
        with Run(path, session, *OPTIONS) as live:
            # The launcher looks at the sockets before it counts.
            wait_until(lambda: "extractor 6/6" in live.output(), 60, "the launcher sees that six are done", live)
            before = pids(session)["stranger.0"]
            for edge in json.load(open(f"{session}/log/stranger.0.instance.json"))["outputs"]:
                os.unlink(edge["data"].replace("ipc://", ""))
                os.unlink(edge["ack"].replace("ipc://", ""))
            wait_until(lambda: pids(session).get("stranger.0", before) != before, 60, "the stranger starts again", live)
            os.kill(pids(session)["lowpass-picker.0"], signal.SIGKILL)  # the next one needs the sockets' names
            arrive(names()[6:12], folder)
            wait_until(lambda: done(session, "extractor") == 12, 120, "all are done", live)
            output = live.drain()
        check("stranger.0: its sockets were deleted" in output, "the launcher says why it starts it again")
        finish()


cases = {"logout": logout, "cleaner": cleaner, "elsewhere": elsewhere, "instances": instances, "stranger": stranger}
if len(sys.argv) != 2 or sys.argv[1] not in cases:
    sys.exit(f"usage: sockets.py {'|'.join(cases)}")
cases[sys.argv[1]]()
