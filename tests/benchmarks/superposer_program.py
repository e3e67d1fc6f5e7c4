#!/usr/bin/env python3
"""Times RMSDs of all pairs by icestream-superposer and by MDTraj (package python3-mdtraj), in turns, with as many
threads each:

superposer_program.py [FRAMES [ATOMS [THREADS]]]

For icestream, times the whole program: it starts, reads a trajectory, clusters, and writes all files. For MDTraj, times
only the loop over its rmsd function, on centred frames in memory. Processor time is printed beside the wall time; it
can be compared even if others use the machine."""

import os
import resource
import subprocess
import sys
import tempfile
import time

THREADS = sys.argv[3] if len(sys.argv) > 3 else "2"
os.environ.update(OMP_NUM_THREADS=THREADS, OMP_WAIT_POLICY="passive")
try:
    import mdtraj
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

BUILD = os.path.dirname(os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(__file__), "../../build/cpu/bin")))
FRAMES, ATOMS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(sys.argv[2]) if len(sys.argv) > 2 else 500
ROUNDS = 5


def used(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def ours(folder):
    begin, before = time.perf_counter(), used(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [
            f"{BUILD}/bin/icestream-superposer",
            "--i",
            f"{folder}/frames.dcd",
            "--topology",
            f"{folder}/top.pdb",
            "--o",
            f"{folder}/out",
            "--threads",
            THREADS,
            "--device",
            "cpu",
            "--centres",
            "0",
        ],
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - begin, used(resource.RUSAGE_CHILDREN) - before


def theirs(frames):
    begin, before = time.perf_counter(), used(resource.RUSAGE_SELF)
    found = [mdtraj.rmsd(frames, frames, i, precentered=True, parallel=THREADS != "1") for i in range(len(frames))]
    return time.perf_counter() - begin, used(resource.RUSAGE_SELF) - before, np.array(found)


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([f"{BUILD}/tests/make_ensemble", folder, str(FRAMES), str(ATOMS), "100", "1.2"], check=True)
    frames = mdtraj.load(f"{folder}/frames.dcd", top=f"{folder}/top.pdb")
    frames.center_coordinates()
    a, b = [], []
    for _ in range(ROUNDS):
        a.append(ours(folder))
        *times, found = theirs(frames)
        b.append(times)
    worst = np.abs(np.load(f"{folder}/out/rmsd.npy") - 10 * found[np.triu_indices(FRAMES, 1)]).max()
    (wall_a, cpu_a), (wall_b, cpu_b) = np.min(a, 0), np.min(b, 0)
    print(
        f"{FRAMES} frames of {ATOMS} atoms, {THREADS} threads each, best of {ROUNDS}: icestream-superposer {wall_a:.3f} s "
        f"({cpu_a:.3f} s of processor time), MDTraj {mdtraj.version.version} {wall_b:.3f} s ({cpu_b:.3f} s): {wall_b / wall_a:.1f} "
        f"times faster, by processor time {cpu_b / cpu_a:.1f}; they differ by {worst:.1e} Å at most"
    )
