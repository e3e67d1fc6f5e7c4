#!/usr/bin/env python3
"""quickstart_end.py: how examples/quickstart.sh ends: at a terminal the page stays until Ctrl-C, in CI and in a pipe nothing
stays. Programs that do nothing stand in for icestream's."""
import os
import pty
import re
import subprocess
import sys
import tempfile

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/quickstart.sh")
PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >>'%(calls)s'
while [ $# -gt 0 ]; do
  case $1 in --o) mkdir -p "$2/truth"; touch "$2/truth/ready" ;; esac
  shift
done
"""


def run(name, terminal, **environment):
    """Runs the script with stand-ins; returns what it called."""
    with tempfile.TemporaryDirectory(prefix="icestream-quickstart-") as work:
        calls = os.path.join(work, "calls")
        os.makedirs(os.path.join(work, "bin"))
        for program in ["icestream", "icestream-simulate", "icestream-motion-corrector", "icestream-score"]:
            path = os.path.join(work, "bin", program)
            with open(path, "w", encoding="utf-8") as file:
                file.write(PROGRAM % {"calls": calls})
            os.chmod(path, 0o755)
        words = [SCRIPT, "--bin", os.path.join(work, "bin"), "--work", os.path.join(work, "made")]
        known = {key: value for key, value in os.environ.items() if key != "CI"}
        ends, streams = [], {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        if terminal:
            ends = list(pty.openpty())
            streams = {"stdin": ends[1], "stdout": ends[1]}
        try:
            done = subprocess.run(words, env={**known, **environment}, timeout=120, stderr=subprocess.PIPE, **streams)
        finally:
            for end in ends:
                os.close(end)
        assert done.returncode == 0, (name, done.stderr)
        with open(calls, encoding="utf-8") as file:
            return file.read().replace(work, "SCRATCH").splitlines()


def main():
    shown = "icestream serve --session SCRATCH/made/session --listen 127.0.0.1:0"
    seen = run("terminal", True)
    started = [line for line in seen if line.startswith("icestream run ")]
    assert len(started) == 1 and re.search(r" --session SCRATCH/made/session .*--serve --listen 127\.0\.0\.1:0$", started[0])
    assert seen[-1] == shown, seen
    for name, terminal, environment in [("CI", True, {"CI": "true"}), ("pipe", False, {}), ("CI's pipe", False, {"CI": "true"})]:
        seen = run(name, terminal, **environment)
        assert not any(line.startswith("icestream serve") for line in seen), (name, seen)
    print("ok")


main()
sys.exit(0)
