#!/usr/bin/env python3
"""session_made.py: sessions of make_session.py are what `icestream status` takes for a sound session."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import make_session

BIN = os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(__file__), "../../build/cpu/bin"))
SCRATCH = tempfile.mkdtemp(prefix="icestream-made-")


def status(session):
    out = subprocess.run([os.path.join(BIN, "icestream"), "status", "--session", session.folder, "--json"],
                         capture_output=True, text=True, check=True)
    return json.loads(out.stdout)


def main():
    session = make_session.Session(os.path.join(SCRATCH, "ended"), 60)
    try:
        seen = status(session)
        assert seen["adds_up"] is True and seen["running"] is False, seen["miscount"]
        stages = seen["stages"]
        assert stages["watcher"]["done"] == 60 and stages["refiner"]["done"] == 6
        assert stages["ctf-estimator"]["failed"] == 2 and stages["lowpass-picker"]["rejected"] == 3
    finally:
        session.close()
    session = make_session.Session(os.path.join(SCRATCH, "runs"), 30, running=True, in_flight=4,
                                   without=["motion-corrector"])
    try:
        session.add(5)
        seen = status(session)
        assert seen["running"] is True and seen["adds_up"] is True, seen["miscount"]
        assert seen["stages"]["watcher"]["done"] == 35 and "motion-corrector" not in seen["stages"]
        assert sum(stage["in_flight"] for stage in seen["stages"].values()) == 4
    finally:
        session.close()
    assert status(session)["running"] is False
    print("ok")


try:
    main()
finally:
    shutil.rmtree(SCRATCH)
sys.exit(0)
