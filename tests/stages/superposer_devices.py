#!/usr/bin/env python3
"""Runs icestream-superposer on the CPU and on a CUDA device. RMSDs agree within 0.005 Å, and clusters and neighbours
are the same. Each run gives the same bytes. Skips if there is no device."""

import os
import subprocess
import sys
import tempfile

from superposer_ensembles import BIN, Ensemble, check, clusters_of, end, superposer
import numpy as np

SEED, CUTOFF = 11, 2.5


def compare(work, made, arguments, what):
    common = ["--i", f"{work}/models.pdb", "--cutoff", CUTOFF, "--results", "both", *arguments]
    for name, device in (("cpu", "cpu"), ("one", "cuda:0"), ("two", "cuda:0")):
        superposer(*common, "--o", f"{work}/{name}", "--device", device)
    cpu, one, two = (np.load(f"{work}/{name}/rmsd.npy") for name in ("cpu", "one", "two"))
    check(np.abs(cpu - one).max() <= 0.005, f"{what}: RMSDs differ by {np.abs(cpu - one).max():.1e} Å at most")
    check(one.tobytes() == two.tobytes(), f"{what}: the same bytes twice")
    check(clusters_of(f"{work}/cpu") == clusters_of(f"{work}/one"), f"{what}: clusters")
    index = [np.load(f"{work}/{name}/neighbours_index.npy") for name in ("cpu", "one")]
    check(np.array_equal(*index), f"{what}: {len(index[0])} neighbours")


probe = subprocess.run(
    [os.path.join(BIN, "icestream-superposer"), "--i", "/nowhere", "--o", tempfile.mkdtemp(), "--device", "cuda:0"],
    capture_output=True,
    text=True,
)
if "cuda:0" in probe.stderr:
    print(f"skipped: {probe.stderr.strip()}")
    sys.exit(77)
with tempfile.TemporaryDirectory(prefix="icestream-superposer-") as work:
    print(f"seed {SEED}, in {work}")
    made = Ensemble(SEED, count=300, residues=60)
    made.write_models(f"{work}/models.pdb")
    compare(work, made, [], "alpha carbons")
    compare(work, made, ["--select", "all", "--weights", "mass", "--method", "jacobi"], "all atoms, by mass")
    compare(work, made, ["--residues", "1-3", "--method", "kabsch"], "three atoms")
end()
