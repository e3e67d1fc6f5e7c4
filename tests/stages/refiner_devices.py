#!/usr/bin/env python3
"""Runs one refinement on a CUDA device, twice: the results must be identical to the last bit. With so little memory
that the last sums move to the host, they must agree except for rounding, and the log must report it. On the CPU, the
first map must agree, and the resolution to within two shells. Less memory than the sums need is an error before the
first iteration. Skips if there is no device."""

import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
MAKE = os.path.abspath(sys.argv[1])
PROGRAM = os.path.join(os.environ["ICESTREAM_BIN"], "icestream-refiner")
BOX, PIXEL = 96, 2.2
FINAL = ("run_half1_class001_unfil.mrc", "run_half2_class001_unfil.mrc", "run_class001.mrc")


def refine(out, device, memory, *more):
    """Makes all iterations after the end of the stream: the number of iterations before depends on time."""
    return subprocess.run(
        [
            PROGRAM,
            "--i",
            "particles.star",
            "--reference",
            "truth.mrc",
            "--o",
            out,
            "--device",
            device,
            "--memory",
            str(memory),
            "--initial_lowpass",
            "40",
            "--diameter",
            "180",
            "--threads",
            "8",
            "--min_particles",
            "100000",
            "--keep_iterations",
            "40",
            "--verbose",
            *more,
        ],
        capture_output=True,
        text=True,
    )


def maps(out):
    return {name: open(f"{out}/{name}", "rb").read() for name in sorted(os.listdir(out)) if name.endswith(".mrc")}


def voxels(data):
    return np.frombuffer(data, "<f4")[256:]


def history(out):
    return [json.loads(line) for line in open(f"{out}/history.jsonl")]


def off(a, b):
    a, b = voxels(a), voxels(b)
    return abs(a - b).max() / abs(a).max()


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    subprocess.run([MAKE, ".", "300", str(BOX), str(PIXEL), "0.2"], check=True, stdout=subprocess.DEVNULL)
    first = refine("a", "cuda:0", 4)
    if "0 CUDA devices" in first.stderr or "without CUDA" in first.stderr:
        print("skipped: no CUDA device")
        sys.exit(77)
    assert first.returncode == 0, first.stderr
    assert "refine-memory" not in first.stderr, first.stderr
    for out, memory in (("b", 4), ("little", 0.36)):
        run = refine(out, "cuda:0", memory)
        assert run.returncode == 0, run.stderr
        assert ("sums of both halves" in run.stderr) == (out == "little"), run.stderr
    a, b, little = maps("a"), maps("b"), maps("little")
    assert len(a) > 10 and a.keys() == b.keys() == little.keys(), (a.keys(), little.keys())
    for name in a:
        assert a[name] == b[name], f"{name} is another the second time"
    for name in FINAL:
        assert off(a[name], little[name]) < 1e-4, f"{name}: off by {off(a[name], little[name])} with little memory"
    run = refine("cpu", "cpu", 4, "--max_iterations", "2")
    assert run.returncode == 0, run.stderr
    cpu = maps("cpu")
    name = "run_it001_class001.mrc"
    assert off(a[name], cpu[name]) < 3e-3, f"{name}: off by {off(a[name], cpu[name])} on the CPU"
    shells = [[BOX * PIXEL / line["resolution"] for line in history(out)[:2]] for out in ("a", "cpu")]
    assert np.abs(np.subtract(*shells)).max() < 2.5, f"resolved to shells {shells[0]}, on the CPU {shells[1]}"
    print(
        f"{len(history('a'))} iterations, the first to shells {shells[0]}, on the CPU {shells[1]}; first map off by "
        f"{off(a[name], cpu[name]):.1e}, last with little memory by {off(a[FINAL[2]], little[FINAL[2]]):.1e}"
    )
    # Each class of 96 px, compared up to 30 px, takes 5 MB.
    many = refine("many", "cuda:0", 0.25, "--classes", "100")
    assert many.returncode != 0 and "GiB of the device's memory" in many.stderr, many.stderr
    assert not os.path.exists("many/history.jsonl"), "it was refused after an iteration"
    # Sums and a reference of 128 px take 0.34 GB.
    subprocess.run([MAKE, ".", "40", "128", str(PIXEL), "0.2"], check=True, stdout=subprocess.DEVNULL)
    refused = refine("refused", "cuda:0", 0.25)
    assert refused.returncode != 0 and "GiB of the device's memory" in refused.stderr, refused.stderr
    assert not os.path.exists("refused/history.jsonl"), "it was refused after an iteration"
