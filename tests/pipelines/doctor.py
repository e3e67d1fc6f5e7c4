#!/usr/bin/env python3
"""Runs `icestream doctor` on this machine: as text, as JSON, where nothing can be written, and with a program whose
library is missing."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

BIN = os.environ["ICESTREAM_BIN"]
NAMES = ("program", "machine", "gpu", "driver", "libraries", "page", "disk", "space", "inotify", "open-files", "clock")
bad = 0


def check(good, message):
    global bad
    if not good:
        print(f"FAILED: {message}")
        bad = 1


def doctor(program, *words):
    return subprocess.run([program, "doctor", *words], capture_output=True, text=True, timeout=110)


def findings(program, *words):
    told = doctor(program, "--json", *words)
    answer = json.loads(told.stdout)
    checks = answer["checks"]
    levels = {c["name"]: c["level"] for c in checks}
    check(all(c["level"] in ("ok", "warning", "error") and c["message"] for c in checks), f"findings: {checks}")
    wrong = "error" in levels.values()
    check(told.returncode == (1 if wrong else 0) and answer["well"] == (not wrong), f"exit {told.returncode}: {levels}")
    return levels, {c["name"]: c for c in checks}


# Each call writes 128 MB: into memory, where there is room, since the disk itself is not tested.
SHARED = "/dev/shm"
roomy = os.access(SHARED, os.W_OK) and shutil.disk_usage(SHARED).free > 4e9
with tempfile.TemporaryDirectory(prefix="icestream-doctor-", dir=SHARED if roomy else None) as work:
    icestream = os.path.join(BIN, "icestream")
    levels, _ = findings(icestream, work)
    check(set((*NAMES, "sockets", "port")) <= set(levels), f"what is looked at: {sorted(levels)}")
    check(levels["libraries"] == "ok", "the programs of the build find their libraries")
    check(levels["port"] == "ok", "a port can be opened")
    check(os.listdir(work) == [], f"nothing is left behind: {os.listdir(work)}")

    told = doctor(icestream, work)
    for name in NAMES:
        check(f" {name} " in told.stdout, f"the text tells of {name}")
    check(told.stdout.splitlines()[-1].split()[0] in ("Nothing", "0", "1", "2"), "the text ends with the count")

    levels, found = findings(icestream, os.path.join(work, "nowhere"))
    check(levels["disk"] == "error" and "nowhere" in found["disk"]["message"], f"a folder that is not there: {found}")

    # A stage that needs a library of another version, as after a change of the system.
    alone = os.path.join(work, "bin")
    os.mkdir(alone)
    shutil.copy(icestream, alone)
    with open(os.path.join(BIN, "icestream-watcher"), "rb") as file:
        code = file.read()
    check(b"libtiff.so.6\0" in code, "the watcher needs libtiff")
    with open(os.path.join(alone, "icestream-watcher"), "wb") as file:
        file.write(code.replace(b"libtiff.so.6\0", b"libtiff.so.0\0"))
    os.chmod(os.path.join(alone, "icestream-watcher"), 0o755)
    with open(os.path.join(alone, "icestream-script"), "w") as file:
        file.write("#!/bin/sh\nexit 1\n")
    os.chmod(os.path.join(alone, "icestream-script"), 0o755)
    levels, found = findings(os.path.join(alone, "icestream"), work)
    library = found["libraries"]
    check(library["level"] == "error" and "libtiff.so.0" in library["message"], f"a library is missing: {library}")
    check(library["remedy"] == "sudo apt-get install libtiff6", f"which command installs it: {library}")
    # A folder of LD_LIBRARY_PATH has it.
    extra = os.path.join(work, "lib")
    os.mkdir(extra)
    traced = subprocess.run(["ldd", os.path.join(BIN, "icestream-watcher")], capture_output=True, text=True, check=True)
    real = [line.split()[2] for line in traced.stdout.splitlines() if line.split()[:1] == ["libtiff.so.6"]]
    check(len(real) == 1, f"ldd finds libtiff: {real}")
    shutil.copy(real[0], os.path.join(extra, "libtiff.so.0"))
    os.environ["LD_LIBRARY_PATH"] = extra
    levels, found = findings(os.path.join(alone, "icestream"), work)
    check(levels["libraries"] == "ok", f"LD_LIBRARY_PATH counts: {found['libraries']}")
    del os.environ["LD_LIBRARY_PATH"]
    with open(os.path.join(alone, "icestream-watcher"), "wb") as file:
        file.write(code[:100])
    levels, found = findings(os.path.join(alone, "icestream"), work)
    told = found["libraries"]["message"]
    check(levels["libraries"] == "error" and "icestream-watcher" in told and "whole" in told, f"a cut program: {told}")
    os.remove(os.path.join(alone, "icestream-watcher"))
    levels, found = findings(os.path.join(alone, "icestream"), work)
    check(levels["libraries"] == "error" and alone in found["libraries"]["message"], f"without stages: {found}")
sys.exit(bad)
