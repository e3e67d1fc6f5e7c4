#!/usr/bin/env python3
"""Tests the units for systemd. They must resume a session, and systemd must treat the exit codes as icestream means
them."""

import configparser
import os
import shlex
import shutil
import signal
import subprocess
import sys

from faults import BIN, SKIP, Run, Work, arrive, check, counts, done, finish, graph, names, pids, wait_until, write

COUNT = 40
# The environment that systemd gives to a system service.
BARE = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "LANG": "C.UTF-8"}


def read_unit(path):
    unit = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    unit.optionxform = str
    unit.read(path)
    return unit


def codes(unit, key):
    return {int(word) for word in unit["Service"][key].split()}


def verify(work, path, kind):
    if shutil.which("systemd-analyze") is None:
        print("systemd-analyze is not installed: units are not verified")
        return
    os.makedirs(work("runtime"), mode=0o700, exist_ok=True)
    words = ["systemd-analyze", "verify", "--man=no", *(["--user"] if kind == "user" else []), path]
    result = subprocess.run(
        words, capture_output=True, text=True, env=dict(os.environ, XDG_RUNTIME_DIR=work("runtime"))
    )
    told = [line for line in result.stderr.splitlines() if "icestream@" in line]
    check(result.returncode == 0 and not told, f"systemd-analyze verify, {kind}: {told or result.stderr}")


class Service(Run):
    """Runs the program of ExecStart, from the top folder and with nearly no environment."""

    def __init__(self, unit, session):
        self.session, self.log, self.at = session, f"{session}.out", os.path.getsize(f"{session}.out")
        words = [word.replace("%f", session) for word in shlex.split(unit["Service"]["ExecStart"])]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=BARE)
        self.pid = self.process.pid


cmake = shutil.which("cmake")
if cmake is None:
    print("skipped: cmake, which installs the units, is not there")
    sys.exit(SKIP)
with Work("systemd") as work:
    subprocess.run(
        [cmake, "--install", os.path.join(BIN, ".."), "--prefix", work("prefix")], check=True, stdout=subprocess.DEVNULL
    )
    units = {kind: read_unit(work("prefix/lib/systemd", kind, "icestream@.service")) for kind in ("system", "user")}
    for kind, unit in units.items():
        verify(work, work("prefix/lib/systemd", kind, "icestream@.service"), kind)
        program = shlex.split(unit["Service"]["ExecStart"])[0]
        check(
            program == os.path.realpath(work("prefix/bin/icestream")) and os.access(program, os.X_OK),
            f"{kind}: {program}",
        )
        check(
            unit["Service"]["KillSignal"] == "SIGTERM" and unit["Service"]["Restart"] == "always",
            f"{kind}: how it stops",
        )
        check(codes(unit, "RestartPreventExitStatus") == {0, 2, 3, 4}, f"{kind}: what is not tried again")
        check(codes(unit, "SuccessExitStatus") == {1, 3}, f"{kind}: what is no failure")
    unit, session = units["system"], os.path.realpath(work.path) + "/my session"

    arrive(names()[: COUNT // 2], work("raw"))
    first = graph(work.path, micrographs=work("raw"))
    with Run(first, session, "--set", "lowpass-picker.lowpass=45", "--set", "extractor.replicas=2") as live:
        wait_until(lambda: done(session, "extractor") >= 3, 60, "three are extracted", live)
        live.kill()  # the machine shuts down
    os.rename(first, work("gone.yaml"))
    with Service(unit, session) as live:
        wait_until(
            lambda: pids(session) and done(session, "extractor") == COUNT // 2,
            60,
            "what was there is done after the reboot",
            live,
        )
        live.signal(signal.SIGTERM)
        live.finish(1, float(unit["Service"]["TimeoutStopSec"]))  # a code in SuccessExitStatus
        check(not pids(session), "nothing is left running")
    arrive(names()[COUNT // 2 : COUNT], work("raw"))
    with Service(unit, session) as live:
        wait_until(lambda: done(session, "extractor") >= COUNT // 2 + 3, 60, "it goes on", live)
        live.signal(signal.SIGINT)
        live.finish(0)  # a code in RestartPreventExitStatus
    with Service(unit, session) as live:
        wait_until(
            lambda: pids(session) and done(session, "extractor") == COUNT, 60, "and finds what came meanwhile", live
        )
        live.signal(signal.SIGINT)
        live.finish(0)
    found = counts(session)
    check(all(f["seen"] == f["done"] == COUNT for f in found.values()), f"{found}")

    write(session + "/graph.yaml", "session: {}\nstages: {no-such-stage: {}}\n")
    with Service(unit, session) as live:
        live.finish(2)  # a code in RestartPreventExitStatus
    finish()
