#!/usr/bin/env python3
"""Makes the first map of a small set on a CUDA device, on the device with so little memory, and so few threads, that
starts follow each other there, and on the CPU: all must accept it, and the best start of those that they have in common
must fit alike. The device must refuse noise both ways. Skips if there is no device."""

import json
import os
import subprocess
import sys
import tempfile

MAKE = os.path.abspath(sys.argv[1])
PROGRAM = os.path.join(os.environ["ICESTREAM_BIN"], "icestream-refiner")
NO_MAP = 3  # exit code


def decide(particles, out, *more):
    """Returns what was decided, without the time that it took."""
    words = [PROGRAM, "--i", particles, "--o", out, "--diameter", "170", "--max_iterations", "1"]
    done = subprocess.run([*words, *more], capture_output=True, text=True)
    if "0 CUDA devices" in done.stderr or "without CUDA" in done.stderr:
        print("skipped: no CUDA device")
        sys.exit(77)
    assert done.returncode in (0, NO_MAP), done.stderr
    with open(f"{out}/initial_model.json") as text:
        decision = json.load(text)
    assert decision["accepted"] == (done.returncode == 0), decision
    assert os.path.exists(f"{out}/initial_model.mrc") == decision["accepted"], decision
    return decision


def best_alike(starts, others):
    """Compares the best starts alone: in thirty iterations rounding may lead a poor one elsewhere."""
    common = list(zip(starts, others))
    assert all(one["half"] == other["half"] for one, other in common), common
    best, other = (max(side, key=lambda start: start["gain"]) for side in zip(*common))
    assert abs(best["gain"] - other["gain"]) < other["deviation"], (best, other)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for name, snr in (("signal", "4"), ("noise", "0")):
        os.mkdir(name)
        subprocess.run([MAKE, name, "1000", "48", "4.4", snr], check=True, stdout=subprocess.DEVNULL)
        particles = f"{name}/particles.star"
        device = decide(particles, f"{name}/device", "--device", "cuda:0", "--threads", "8", "--memory", "4")
        little = decide(particles, f"{name}/little", "--device", "cuda:0", "--threads", "1", "--memory", "0.3")
        assert device["accepted"] == little["accepted"] == (name == "signal"), (device, little)
        assert len(device["starts"]) == len(little["starts"]), (device, little)
        if name == "noise":  # there rounding decides what a start becomes
            continue
        cpu = decide(particles, f"{name}/cpu", "--device", "cpu", "--threads", "4")
        assert cpu["accepted"] and len(cpu["starts"]) < len(device["starts"]), (device, cpu)
        for other in (little, cpu):
            best_alike(device["starts"], other["starts"])
        print("gains on the device:", [start["gain"] for start in device["starts"]])
        print("gains on the CPU:", [start["gain"] for start in cpu["starts"]])
