#!/usr/bin/env python3
"""Structures arrive one by one. RMSDs and clusters grow with them, and in the end equal those of all files at once.
This also holds when the superposer or the whole session is killed in the middle. A file that is broken or has other
atoms is set aside."""

import os
import signal
import sys

from session import SOURCE, Work, check, finish, launch, pids_of, put, run, status, stop, wait_until
import numpy as np

sys.path.insert(0, os.path.join(SOURCE, "tests", "stages"))
from superposer_ensembles import Ensemble, clusters_of, names_of, superposer, write  # noqa: E402

SEED, COUNT = 7, 40
GRAPH = os.path.join(SOURCE, "pipelines", "ensemble.yaml")
SETTINGS = {
    "watcher.settle": 0.3,
    "watcher.stall": 60,
    "watcher.poll": 0.2,
    "superposer.snapshot_interval": 0.1,
    "superposer.cutoff": 2.5,
}
EACH = ("seen", "done", "rejected", "failed", "in_flight")


def arguments(session, folder):
    sets = [f"--set={key}={value}" for key, value in {**SETTINGS, "watcher.directory": folder}.items()]
    return ["run", GRAPH, "--session", session, *sets, "--until-idle", "2"]


def compared(session):
    """Returns the number of structures in the matrix now. The three files are written one after the other."""
    return len(clusters_of(f"{session}/superposer"))


def outcome(session):
    """Returns RMSDs by sorted names, bit for bit, and the clusters."""
    folder = f"{session}/superposer"
    names = names_of(folder)
    order = np.argsort(names)
    matrix = np.zeros((len(names), len(names)), np.float32)
    matrix[np.triu_indices(len(names), 1)] = np.load(f"{folder}/rmsd.npy")
    matrix = (matrix + matrix.T)[np.ix_(order, order)]
    groups = {}
    for name, (cluster, _) in clusters_of(folder).items():
        groups.setdefault(cluster, set()).add(name)
    return [names[i] for i in order], matrix, sorted(sorted(g) for g in groups.values())


def counts(session):
    stages = status(session)["stages"]
    return {s: {k: stages[s][k] for k in EACH} for s in ("watcher", "superposer")}


def check_same(found, expected, what):
    check(found[0] == expected[0], f"{what}: {len(found[0])} structures")
    if found[0] == expected[0]:
        check(np.abs(found[1] - expected[1]).max() < 1e-5, f"{what}: their RMSDs")
    check(found[2] == expected[2], f"{what}: {len(found[2])} clusters")


def arrive(work, made, folder, session):
    """Feeds half of the structures to a running superposer, one of them in pieces; then the rest."""
    live = launch(*arguments(session, folder))
    try:
        for i in range(0, COUNT // 2):
            put(work("files", f"m{i:03d}.pdb"), folder)
        wait_until(
            lambda: compared(session) == COUNT // 2, 60, f"{COUNT // 2} structures compared while more may come", live
        )
        check(True, "clusters while structures arrive")
        whole = open(work("files", f"m{COUNT // 2:03d}.pdb")).read()
        with open(f"{folder}/m{COUNT // 2:03d}.pdb", "w") as growing:
            growing.write(whole[:1000])
            growing.flush()
            put(work("files", f"m{COUNT // 2 + 1:03d}.pdb"), folder)
            wait_until(lambda: f"m{COUNT // 2 + 1:03d}" in names_of(f"{session}/superposer"), 60, "the next one", live)
            growing.write(whole[1000:])
        write(f"{folder}/broken.pdb", "ATOM      1  CA  ALA A   1\nEND\n")
        write(f"{folder}/other.pdb", made.pdb_rows(0).replace("ALA A  -2", "TRP A  -2") + "END\n")
        for i in range(COUNT // 2 + 2, COUNT):
            put(work("files", f"m{i:03d}.pdb"), folder)
        check(live.wait(timeout=120) == 3, "the run ended, and says that some failed")
    finally:
        stop(live)


def check_failed(session):
    state = status(session)
    reasons = {i["id"]: i["reason"] for i in state["items"] if i["state"] == "failed"}
    check(sorted(reasons) == ["broken", "other"], f"failed: {sorted(reasons)}")
    check(
        "broken.pdb: line 1" in reasons.get("broken", "") and "TRP -2" in reasons.get("other", ""),
        f"with reasons: {reasons}",
    )
    found = counts(session)
    check(found["superposer"]["done"] == COUNT and found["superposer"]["in_flight"] == 0, f"counts: {found}")


def disturb(work, folder, name, victims):
    """Kills the superposer after some comparisons. The rest of the run must be as if nothing had happened."""
    session = work(name)
    live = launch(*arguments(session, folder))
    try:
        for i in range(COUNT // 2):
            put(work("files", f"m{i:03d}.pdb"), folder)
        wait_until(lambda: compared(session) >= 4, 60, "some compared", live)
        for pid in victims(session, live):
            os.kill(pid, signal.SIGKILL)
        for i in range(COUNT // 2, COUNT):
            put(work("files", f"m{i:03d}.pdb"), folder)
        code = live.wait(timeout=120)
    finally:
        stop(live)
    if code != 0:
        wait_until(
            lambda: not any(pids_of(s, session) for s in ("watcher", "superposer")), 30, "nothing outlives the launcher"
        )
        run(*arguments(session, folder), timeout=120)
    return outcome(session)


with Work("ensemble") as work:
    print(f"seed {SEED}")
    made = Ensemble(SEED, count=COUNT)
    for i in range(COUNT):
        made.write_pdb(work("files", f"m{i:03d}.pdb"), i)
    superposer("--i", work("files"), "--o", work("all", "superposer"), "--cutoff", 2.5)
    expected = outcome(work("all"))
    os.makedirs(work("live"))
    arrive(work, made, work("live"), work("session"))
    check_same(outcome(work("session")), expected, "live")
    check_failed(work("session"))
    centres = [f for f in os.listdir(work("session", "superposer")) if f.startswith("centre_")]
    check(len(centres) == len(expected[2]), f"{len(centres)} centres")
    for name, victims in (
        ("killed", lambda session, live: pids_of("superposer", session)),
        ("gone", lambda session, live: [live.pid]),
    ):
        folder = work(f"incoming-{name}")
        os.makedirs(folder)
        check_same(disturb(work, folder, name, victims), expected, name)
        check(counts(work(name))["superposer"]["done"] == COUNT, f"{name}: every structure is done once")
    finish()
