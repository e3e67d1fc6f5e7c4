#!/usr/bin/env python3
"""Times one auto-refinement on 1, 2, 4 … CUDA devices of this machine, and compares what the runs write.

several_gpus.py STAR --reference MAP --diameter Å [--devices 1,2,4] [--bin FOLDER] [--work FOLDER] [-- MORE …]

MORE goes to icestream-refiner as it is (--symmetry D2 --healpix_order 3). Prints the seconds of the iterations of each order,
and the efficiency of iterations 2 to last: time on one device over n times that on n devices. The first iteration reads
images and takes memory. Maps and tables must be the same bytes: exit 1 if they are not, 77 if there are too few devices."""

import argparse
import collections
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time


def arguments():
    own, more = sys.argv[1:], []
    if "--" in own:
        more = own[own.index("--") + 1 :]
        own = own[: own.index("--")]
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("star")
    p.add_argument("--reference", required=True)
    p.add_argument("--diameter", required=True)
    p.add_argument("--devices", default="1,2,4")
    p.add_argument("--bin", default=os.environ.get("ICESTREAM_BIN", "build/cuda/bin"))
    p.add_argument("--work", default=None)
    a = p.parse_args(own)
    a.devices = [int(n) for n in a.devices.split(",")]
    a.more = more
    return a


def refine(a, folder, devices):
    """Returns the lines of history.jsonl. All iterations come after the end of the stream, so that runs have the same."""
    out = os.path.join(folder, f"devices{devices}", "run")  # tables name the last folder
    os.makedirs(os.path.dirname(out), exist_ok=True)
    command = [os.path.join(a.bin, "icestream-refiner"), "--i", a.star, "--o", out, "--reference", a.reference]
    command += ["--diameter", a.diameter, "--device", "cuda:0", "--devices", str(devices)]
    command += ["--min_particles", "1000000", "--keep_iterations", "1", *a.more]
    began = time.monotonic()
    run = subprocess.run(command, capture_output=True, text=True)
    whole = time.monotonic() - began
    if run.returncode != 0 and ("are wanted, but there" in run.stderr or "CUDA" in run.stderr):
        print(f"skipped: {devices} devices: {run.stderr.strip().splitlines()[-1]}")
        return None, None, None
    if run.returncode != 0:
        sys.exit(f'{" ".join(command)}:\n{run.stderr}')
    with open(os.path.join(out, "history.jsonl")) as f:
        lines = [json.loads(line) for line in f]
    return [line for line in lines if line["event"] == "map"], sums(out), whole


def sums(out):
    """Returns the sum of each map and table, in which files of the run are named without its folder."""
    found = {}
    for name in sorted(os.listdir(out)):
        if name.startswith("run_") and name.endswith((".mrc", ".star")):
            with open(os.path.join(out, name), "rb") as f:
                found[name] = hashlib.sha256(f.read().replace(out.encode(), b".")).hexdigest()
    return found


def by_order(history):
    seconds = collections.OrderedDict()
    for line in history[1:]:
        key = (line["order"], line["final"])
        count, total, compare = seconds.get(key, (0, 0, 0))
        seconds[key] = (count + 1, total + line["seconds"], compare + line["steps"].get("compare", 0))
    return seconds


def show(devices, history, whole, alone):
    total = sum(line["seconds"] for line in history[1:])
    print(f"devices: {devices}; {len(history)} iterations, {whole:.1f} s from start to exit")
    first = history[0]["seconds"]
    print(f"    the first        {first:9.3f} s")
    for (order, final), (count, seconds, compare) in by_order(history).items():
        what = "last one" if final else f"{count} of order {order}"
        print(f"    {what:16} {seconds:9.3f} s, of which comparing {compare:9.3f} s")
    steps, rest = collections.Counter(), whole - sum(line["seconds"] + line["between"] for line in history)
    for line in history[1:]:
        steps.update(line["steps"])
    print("    their steps     " + ", ".join(f"{name} {s:.2f}" for name, s in steps.items() if s >= 0.05))
    print(f"    between iterations {sum(line['between'] for line in history):.2f} s, before and after them {rest:.2f} s")
    line = f"    2 to last        {total:9.3f} s"
    if alone is not None and devices > 1:
        line += f", efficiency {alone / (devices * total):.3f}"
    print(line)
    return total


def compare(first, other, devices):
    different = [name for name in first if first[name] != other.get(name)] + [n for n in other if n not in first]
    if different:
        print(f"{devices} devices: {len(different)} of {len(first)} files differ, the first {different[0]}")
    else:
        print(f"{devices} devices: all {len(first)} maps and tables are the same bytes")
    return not different


def main():
    a = arguments()
    same, alone, first, ran = True, None, None, 0
    with tempfile.TemporaryDirectory() as folder:
        for devices in a.devices:
            history, files, whole = refine(a, a.work or folder, devices)
            if history is None:
                break
            ran += 1
            total = show(devices, history, whole, alone)
            if devices == 1:
                alone = total
            if first is None:
                first = files
            else:
                same = compare(first, files, devices) and same
    sys.exit(1 if not same else 0 if ran == len(a.devices) else 77)


main()
