#!/usr/bin/env python3
"""Makes the first map of a small set on a CUDA device and on the CPU: both must accept it, and the starts that both make
must be the same maps but for rounding. Both must refuse noise. With so little memory, and so few threads, that starts
follow each other on the device, the decision must be the same to the last digit. Skips if there is no device."""

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
    del decision["seconds"]
    return decision


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for name, snr in (("signal", "0.3"), ("noise", "0")):
        os.mkdir(name)
        subprocess.run([MAKE, name, "400", "48", "4.4", snr], check=True, stdout=subprocess.DEVNULL)
        particles = f"{name}/particles.star"
        device = decide(particles, f"{name}/device", "--device", "cuda:0", "--threads", "8", "--memory", "4")
        little = decide(particles, f"{name}/little", "--device", "cuda:0", "--threads", "1", "--memory", "0.3")
        assert little == device, f"{name}: another decision with little memory: {little}, {device}"
        cpu = decide(particles, f"{name}/cpu", "--device", "cpu", "--threads", "4")
        assert device["accepted"] == cpu["accepted"] == (name == "signal"), (device, cpu)
        assert len(device["starts"]) > len(cpu["starts"]), (device, cpu)
        if not cpu["accepted"]:
            continue
        for one, other in zip(device["starts"], cpu["starts"]):
            assert one["half"] == other["half"], (one, other)
            assert abs(one["gain"] - other["gain"]) < 0.2 * other["deviation"], (one, other)
        print("gains on the device:", [start["gain"] for start in device["starts"]])
        print("gains on the CPU:", [start["gain"] for start in cpu["starts"]])
