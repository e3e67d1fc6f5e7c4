#!/usr/bin/env python3
"""Sends kill -9 to each stage in the middle of a run. Counts and products must equal those of an undisturbed run."""

import os
import signal

from session import Work, check, finish, launch, pids_of, products, run, simulate, star, status, stop, wait_until, write

GRAPH = """\
session: {pixel_size: 4.0}
stages:
  watcher:        {directory: INCOMING, ctf: TRUTH/micrographs_ctf.star}
  lowpass-picker: {from: watcher, templates: TRUTH/templates.mrcs, diameter: 150, lowpass: 20}
  extractor:      {from: lowpass-picker, box: 48}
  classifier:     {from: extractor, classes: 4, diameter: 170}
"""
COUNTS = ("seen", "done", "rejected", "failed", "in_flight")


def outcome(session):
    state = status(session)
    counts = {
        s: {k: state["stages"][s][k] for k in COUNTS} for s in ("watcher", "lowpass-picker", "extractor", "classifier")
    }
    rows = star(f"{session}/extractor/particles.star")["particles"]
    particles = sorted(r["rlnImageName"] for r in rows)
    in_classes = sorted(r["rlnImageName"] for r in star(newest_data(session))["particles"])
    return (
        counts,
        particles,
        in_classes,
        products(session, "lowpass-picker", "_autopick.star"),
        products(session, "extractor", ".mrcs"),
    )


def newest_data(session):
    folder = f"{session}/classifier"
    return os.path.join(
        folder, max(n for n in os.listdir(folder) if n.startswith("run_it") and n.endswith("_data.star"))
    )


with Work("kill") as work:
    count = 16
    simulate(work("sim"), micrographs=count, size=512, pixel_size=4.0, particles=12, interval=0, seed=9)
    graph = write(
        work("graph.yaml"), GRAPH.replace("INCOMING", work("sim", "micrographs")).replace("TRUTH", work("sim", "truth"))
    )
    run("run", graph, "--session", work("calm"), "--until-idle", "1", timeout=240)
    calm = outcome(work("calm"))
    check(calm[0]["extractor"]["done"] == count, f"undisturbed: {calm[0]}")

    for stage in ("watcher", "lowpass-picker", "extractor", "classifier"):
        session = work(f"kill-{stage}")
        live = launch("run", graph, "--session", session, "--until-idle", "1")
        try:
            wait_until(
                lambda: status(session)["stages"]["lowpass-picker"]["done"] >= 3, 60, "three micrographs picked", live
            )
            victims = pids_of(stage, session)
            for pid in victims:
                os.kill(pid, signal.SIGKILL)
            check(len(victims) == 1, f"{stage}: one process killed")
            check(live.wait(timeout=240) == 0, f"{stage}: the run ended well")
        finally:
            stop(live)
        disturbed = outcome(session)
        for name, a, b in zip(("counts", "particles.star", "particles in classes", "picks", "stacks"), calm, disturbed):
            check(
                a == b,
                f"{stage} killed: {name} as undisturbed" + (f": {a} became {b}" if a != b and name == "counts" else ""),
            )

    session = work("kill-launcher")
    live = launch("run", graph, "--session", session, "--until-idle", "1")
    try:
        wait_until(
            lambda: status(session)["stages"]["lowpass-picker"]["done"] >= 3, 60, "three micrographs picked", live
        )
        live.kill()
        live.wait()
        wait_until(lambda: not any(pids_of(s, session) for s in calm[0]), 30, "no stage outlives a killed launcher")
    finally:
        stop(live)
    run("run", graph, "--session", session, "--until-idle", "1", timeout=240)
    for name, a, b in zip(
        ("counts", "particles.star", "particles in classes", "picks", "stacks"), calm, outcome(session)
    ):
        check(a == b, f"launcher killed and run again: {name} as undisturbed")
    finish()
