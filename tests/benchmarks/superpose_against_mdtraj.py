#!/usr/bin/python3
"""Compares all pairs of 1,000 frames of 500 atoms on the CPU with mdtraj's rmsd, with as many threads, in the same run.

superpose_against_mdtraj.py [--frames 1000] [--atoms 500] [--threads 2] [--repeats 5]

Both sides start from coordinates in memory and centre them. mdtraj runs in two ways: as it is commonly used, md.rmsd(t,
t, i, precentered=True) for every frame i, which computes each pair twice; and with every frame only against views of
the frames behind it. Runs alternate and the best of --repeats counts, in seconds of CPU (all threads), because other
work on a shared machine disturbs them least. Wall times are printed too.
The pairs on which both differ most, and some others, are also computed by a singular value decomposition in double.
icestream must be within 0.005 Å of it. Fails below 8 x of mdtraj's common way."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
for name, default in ("frames", 1000), ("atoms", 500), ("threads", 2), ("repeats", 5):
    parser.add_argument(f"--{name}", type=int, default=default)
parser.add_argument(
    "--bench", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/cpu/tests/bench_superpose")
)
options = parser.parse_args()
# Must be set before mdtraj starts its threads.
os.environ.update(OMP_NUM_THREADS=str(options.threads), OMP_WAIT_POLICY="passive")
try:
    import mdtraj as md
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing} (Debian: python3-mdtraj)")
    sys.exit(77)
FASTER_LEAST, ALLOWED = 8, 0.005


def random_walks(frames, atoms):
    """Returns chains of 3.8 Å steps that bend back, each frame another one, like models of one sequence; Å."""
    seed = int(time.time())
    print(f"seed {seed}")
    random = np.random.default_rng(seed)
    steps = random.normal(size=(frames, atoms, 3))
    for k in range(1, atoms):
        steps[:, k] += 0.5 * steps[:, k - 1]
    steps *= 3.8 / np.linalg.norm(steps, axis=2, keepdims=True)
    return np.cumsum(steps, axis=1).astype(np.float32)


def topology(atoms):
    made = md.Topology()
    chain = made.add_chain()
    for _ in range(atoms):
        made.add_atom("CA", md.element.carbon, made.add_residue("ALA", chain))
    return made


def of_mdtraj(xyz, made, triangle):
    trajectory = md.Trajectory(xyz / 10, made)
    frames = len(xyz)
    result = np.empty((frames, frames), np.float32)
    wall, cpu = time.perf_counter(), time.process_time()
    trajectory.center_coordinates()
    if triangle:
        view = md.Trajectory(xyz[:1], made)
        for i in range(frames - 1):
            view._xyz, view._rmsd_traces = trajectory._xyz[i + 1 :], trajectory._rmsd_traces[i + 1 :]
            result[i, i + 1 :] = md.rmsd(view, trajectory, i, precentered=True)
    else:
        for i in range(frames):
            result[i] = md.rmsd(trajectory, trajectory, i, precentered=True)
    return (time.perf_counter() - wall, time.process_time() - cpu), 10 * result[np.triu_indices(frames, 1)]


def ours(folder, frames, atoms):
    command = [options.bench, "cpu", frames, atoms, options.threads, f"{folder}/xyz", f"{folder}/rmsd"]
    out = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout
    add, add_cpu, pairs, pairs_cpu = map(
        float, re.search(r"add ([\d.]+) s \(CPU ([\d.]+)\), all pairs ([\d.]+) s \(CPU ([\d.]+)\)", out).groups()
    )
    floor = re.search(r"floor: .*OpenBLAS ([\d.]+) s \(CPU ([\d.]+)\)", out).groups()
    return (add + pairs, add_cpu + pairs_cpu), np.fromfile(f"{folder}/rmsd", np.float32), tuple(map(float, floor))


def kabsch(p, q):
    """Returns the RMSD of two structures in double."""
    p, q = p - p.mean(axis=0, dtype=np.float64), q - q.mean(axis=0, dtype=np.float64)
    u, s, v = np.linalg.svd(p.T @ q)
    if np.linalg.det(u) * np.linalg.det(v) < 0:
        s[2] = -s[2]
    return np.sqrt(max(0, (np.sum(p * p) + np.sum(q * q) - 2 * s.sum()) / len(p)))


def check(xyz, values, theirs):
    """Returns each side's largest error against the truth, over the pairs on which they differ most and every
    thousandth."""
    first, second = np.triu_indices(len(xyz), 1)
    pairs = np.concatenate([np.argsort(np.abs(values - theirs))[-100:], np.arange(0, len(values), 1000)])
    truth = np.array([kabsch(xyz[first[k]], xyz[second[k]]) for k in pairs])
    return np.max(np.abs(values[pairs] - truth)), np.max(np.abs(theirs[pairs] - truth))


def best(runs):
    return tuple(min(run[k] for run in runs) for k in range(2))


xyz, made = random_walks(options.frames, options.atoms), topology(options.atoms)
times = {"icestream": [], "mdtraj": [], "mdtraj, triangle": [], "floor": []}
with tempfile.TemporaryDirectory() as folder:
    xyz.tofile(f"{folder}/xyz")
    for _ in range(options.repeats):
        run, values, floor = ours(folder, options.frames, options.atoms)
        times["icestream"].append(run)
        times["floor"].append(floor)
        for name, triangle in ("mdtraj", False), ("mdtraj, triangle", True):
            run, theirs = of_mdtraj(xyz, made, triangle)
            times[name].append(run)
error, their_error = check(xyz, values, theirs)
print(
    f"{options.frames} x {options.atoms} atoms, {options.threads} threads, centring and all pairs, best of "
    f"{options.repeats}; off by {error:.1e} Å at most, mdtraj by {their_error:.1e} Å"
)
if not error <= ALLOWED:
    print(f"FAILED: {ALLOWED} Å are allowed")
    sys.exit(1)
us = best(times["icestream"])
for name, runs in times.items():
    wall, cpu = best(runs)
    print(f"{name:17s} {wall:.4f} s, CPU {cpu:.4f} s; {wall / us[0]:.2f} and {cpu / us[1]:.2f} times icestream's")
if best(times["mdtraj"])[1] < FASTER_LEAST * us[1]:
    print(f"FAILED: less than {FASTER_LEAST} x faster than mdtraj")
    sys.exit(1)
