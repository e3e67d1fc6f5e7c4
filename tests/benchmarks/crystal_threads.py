#!/usr/bin/env python3
"""crystal_threads.py [--bin DIR] [--stride N] [--diameter N] [--rounds N]

Times icestream-crystal-scorer on one painted drop, with all features, on the CPU. Two threads on one image are compared
with two copies of the program that have one thread and one image each, in turns. Prints medians by the clock and by
processor time. Other load disturbs the clock; processor time shows work done twice, but not waiting. Two threads that
lose nothing would give 1."""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("--bin", default=os.path.join(os.path.dirname(__file__), "../../build/cpu/bin"))
options.add_argument("--stride", type=int, default=1)
options.add_argument("--diameter", type=int, default=200)
options.add_argument("--rounds", type=int, default=5)
options = options.parse_args()
work = tempfile.mkdtemp(prefix="icestream-crystals-")
subprocess.run(
    [f"{options.bin}/icestream-simulate-drops", "--o", f"{work}/drops", "--count", "1", "--seed", "1"], check=True
)


def run(copies, threads):
    """Returns seconds by the clock, and of processors, until `copies` programs have each done an image."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    words = [
        "--i",
        f"{work}/drops/crystal_0001.png",
        "--keep-features",
        "--stride",
        options.stride,
        "--diameter",
        options.diameter,
        "--device",
        "cpu",
        "--threads",
        threads,
    ]
    running = [
        subprocess.Popen(
            [f"{options.bin}/icestream-crystal-scorer", *map(str, words), "--o", f"{work}/out{i}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for i in range(copies)
    ]
    if any([program.wait() for program in running]):  # a list, so that all are waited for
        raise SystemExit("icestream-crystal-scorer failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.time() - begun, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


clock, processor, alone = [], [], []
for turn in range(options.rounds):
    load = os.getloadavg()[0]
    (one_clock, one_processor), (two_clock, two_processor) = run(1, 2), run(2, 1)
    clock.append(two_clock / 2 / one_clock)
    processor.append(two_processor / 2 / one_processor)
    alone.append(two_processor / 2)
    print(
        f"two threads {one_clock:6.2f} s, {one_processor:6.2f} s of processors; two copies {two_clock:6.2f} s, "
        f"{two_processor:6.2f} s; pace of threads {clock[-1]:.3f} by the clock, {processor[-1]:.3f} by processors "
        f"(load {load:.1f})",
        flush=True,
    )
print(
    f"medians: {statistics.median(clock):.3f} by the clock, {statistics.median(processor):.3f} by processor time; "
    f"an image takes {statistics.median(alone):.2f} s of one core"
)
shutil.rmtree(work)
