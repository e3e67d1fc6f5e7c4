#!/usr/bin/env python3
"""Sends kill -9 in the middle of the last refinement, to the refiner and then to the whole session. The refinement must
continue from the last whole iteration and end with the final map."""

import json
import os
import re
import signal

from session import (
    REFINING,
    Work,
    check,
    finish,
    history,
    launch,
    pids_of,
    run,
    simulate,
    star,
    status,
    stop,
    wait_until,
    write,
)

GRAPH = REFINING.format(more="max_iterations: 8, min_particles: 1000")


def iterations(session):
    path = f"{session}/refiner/history.jsonl"
    return (
        [e["iteration"] for e in history(session, "refiner")]
        if os.path.exists(path)
        else []
    )


def advises(text, event):
    """Returns whether text ends with the efficiency of the directions of view, and the advice."""
    found = re.search(r"directions (\d\.\d\d)(: .*)?$", text)
    if found is None or abs(float(found[1]) - event["efficiency"]) > 0.0056:
        return False
    tilt, advice = event["advised_tilt"], found[2] or ""
    return (advice != "") == (event["efficiency"] < 0.8) and (
        "tilt" not in advice if tilt is None else f"tilt by {tilt}°" in advice
    )


with Work("refine-restart") as work:
    simulate(
        work("sim"),
        micrographs=6,
        size=512,
        pixel_size=4.0,
        particles=30,
        interval=0,
        seed=4,
    )
    graph = write(
        work("graph.yaml"),
        GRAPH.replace("INCOMING", work("sim", "micrographs")).replace(
            "TRUTH", work("sim", "truth")
        ),
    )
    session = work("session")
    live = launch("run", graph, "--session", session, "--until-idle", "1")
    try:
        # No iteration is made before the stream has ended, so these belong to the flush.
        wait_until(lambda: iterations(session), 60, "a first iteration", live)
        victims = pids_of("refiner", session)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        check(len(victims) == 1, "the refiner killed in the middle of its flush")
        before = iterations(session)
        wait_until(
            lambda: len(iterations(session)) > len(before),
            60,
            "an iteration after the restart",
            live,
        )
        after = iterations(session)[len(before)]
        check(
            after in (before[-1] + 1, before[-1]),
            f"goes on after iteration {before[-1]}: {after} follows",
        )
        live.kill()
        live.wait()
        wait_until(
            lambda: not pids_of("refiner", session),
            30,
            "the refiner ends with the launcher",
        )
        check(
            not os.path.exists(f"{session}/refiner/run_class001.mrc"),
            "killed before the final map",
        )
    finally:
        stop(live)
    before = iterations(session)
    live = launch("run", graph, "--session", session, "--until-idle", "1")
    try:
        check(live.wait(timeout=240) == 0, "run again: ended well")
    finally:
        stop(live)
    events = history(session, "refiner")
    check(
        events[len(before)]["iteration"] in (before[-1] + 1, before[-1]),
        f"goes on after iteration {before[-1]}",
    )
    check(events[-1]["final"], f"the last map is final: {json.dumps(events[-1])}")
    extracted = {
        r["rlnImageName"]
        for r in star(f"{session}/extractor/particles.star")["particles"]
    }
    refined = [
        r["rlnImageName"] for r in star(f"{session}/refiner/run_data.star")["particles"]
    ]
    check(
        len(refined) == len(extracted) == events[-1]["particles"],
        f"{len(refined)} of {len(extracted)} particles, each once",
    )
    for name in (
        "run_class001.mrc",
        "postprocess.mrc",
        "postprocess.star",
        "locres.mrc",
        "locres_filtered.mrc",
    ):
        check(os.path.exists(f"{session}/refiner/{name}"), name)
    check(
        all(0 <= e["efficiency"] <= 1 for e in events),
        f"efficiency of the directions: {events[-1]['efficiency']}",
    )
    check(
        all("advised_tilt" in e for e in events if e["final"] or e["efficiency"] > 0.8),
        "the advice is known of even views, and at the end",
    )
    note = status(session)["stages"]["refiner"].get("note", "")
    check(advises(note, events[-1]), f"status --json tells efficiency and advice: {note}")
    lines = run("status", "--session", session).stdout.splitlines()
    check(
        any(line.startswith("refiner.0:") and advises(line, events[-1]) for line in lines),
        "so does status as text",
    )
    with open(f"{session}/refiner/locres.mrc", "rb") as file:
        local = file.read()
    os.remove(f"{session}/refiner/locres.mrc")
    live = launch("run", graph, "--session", session, "--until-idle", "1")
    try:
        check(
            live.wait(timeout=120) == 0,
            "run again without the local resolution: ended well",
        )
    finally:
        stop(live)
    check(history(session, "refiner") == events, "no iteration more")
    with open(f"{session}/refiner/locres.mrc", "rb") as file:
        check(
            file.read()[1024:] == local[1024:],
            "the local resolution is made again, the same",
        )
    check(status(session)["stages"]["refiner"]["failed"] == 0, "nothing failed")
    finish()
