#!/usr/bin/env python3
"""`icestream invert-hand` while a refinement runs: its next iteration has the other hand, also after the session was
killed, and the final map is the mirror image. Asked for again when all is done, the next run makes the final map once
more, in the first hand."""

import glob
import os

import numpy as np
from session import (
    REFINING,
    Work,
    check,
    finish,
    history,
    launch,
    pids_of,
    read_map,
    run,
    simulate,
    star,
    status,
    stop,
    wait_until,
    write,
)

GRAPH = REFINING.format(more="max_iterations: 100, min_particles: 1000, keep_iterations: 100, local_resolution: false")


def agreement(a, b):
    """Returns the correlation of two maps inside a sphere."""
    n = a.shape[0]
    z, y, x = np.mgrid[:n, :n, :n] - n // 2
    inside = x**2 + y**2 + z**2 < (n // 2 - 2) ** 2
    return np.corrcoef(a[inside], b[inside])[0, 1]


def inverted(a):
    """Returns the map about voxel n/2: that at n - i along each axis."""
    return np.roll(a[::-1, ::-1, ::-1], 1, (0, 1, 2))


def is_inverted(session, name, first_map):
    volume = read_map(f"{session}/refiner/{name}")[0]
    same, other = agreement(volume, first_map), agreement(volume, inverted(first_map))
    check(abs(same - other) > 0.05, f"{name}: like the first map by {same:.3f}, inverted by {other:.3f}")
    return other > same


def hands(session):
    return [event["inverted"] for event in history(session, "refiner")]


def asked(session):
    """Returns the session's changes of the hand."""
    return [change for change in status(session)["changes"] if change["by"] == "invert-hand"]


with Work("invert-hand") as work:
    simulate(work("sim"), micrographs=6, size=512, pixel_size=4.0, particles=30, interval=0, seed=4)
    text = GRAPH.replace("INCOMING", work("sim", "micrographs")).replace("TRUTH", work("sim", "truth"))
    graph, session = write(work("graph.yaml"), text), work("session")
    live = launch("run", graph, "--session", session, "--until-idle", "1")
    try:
        # No iteration is made before the stream has ended: changes come while the end is refined.
        wait_until(lambda: hands(session), 120, "a first iteration", live)
        refiner = pids_of("refiner", session)
        said = run("invert-hand", "--session", session).stdout
        check("refiner.invert_hand: not set → true (live)" in said and "next iteration" in said, said)
        wait_until(lambda: any(hands(session)), 120, "an inverted iteration", live)
        check(pids_of("refiner", session) == refiner, "the refiner was not started again")
        live.kill()
        live.wait()
        wait_until(lambda: not pids_of("refiner", session), 30, "the refiner ends with the launcher")
    finally:
        stop(live)
    before = hands(session)
    check(before == sorted(before) and not before[0], f"once inverted, it stays so: {before}")
    change = asked(session)[0]
    check(len(asked(session)) == 1 and change["changes"][0]["new"] is True, f"the history has it: {change}")
    run("set", "--session", session, "refiner.max_iterations=2")  # the end needs no more
    live = launch("run", graph, "--session", session, "--until-idle", "1")
    try:
        check(live.wait(timeout=240) == 0, "run again: ended well")
    finally:
        stop(live)
    events = history(session, "refiner")
    check(all(hands(session)[len(before) :]) and events[-1]["final"], f"a restart keeps the hand: {hands(session)}")
    files = sorted(os.path.basename(path) for path in glob.glob(f"{session}/refiner/run_it[0-9][0-9][0-9]_class001.mrc"))
    numbers = [event["iteration"] for event in events if not event["final"]]
    first = min(event["iteration"] for event in events if event["inverted"])
    check(len(files) == max(numbers), f"the maps of all iterations are there: {files}")
    first_map = read_map(f"{session}/refiner/run_it001_class001.mrc")[0]
    check(not is_inverted(session, files[first - 2], first_map), "the files of before are in the old hand")
    check(is_inverted(session, files[-1], first_map), "the later ones are inverted")
    check(is_inverted(session, "run_class001.mrc", first_map), "so is the final map")
    check(is_inverted(session, "postprocess.mrc", first_map), "and the post-processed one")
    note = status(session)["stages"]["refiner"].get("note", "")
    check("hand inverted" in note, f"status says so: {note}")
    optimiser = star(f"{session}/refiner/run_optimiser.star")["optimiser_general"][0]
    check(optimiser["icestreamInverted"] == "1", "the STAR file says so")
    log = "".join(open(path).read() for path in glob.glob(f"{session}/log/refiner.0.log*"))
    check("have the other hand than the reference" in log, "the log says so")

    final = read_map(f"{session}/refiner/run_class001.mrc")[0]
    said = run("invert-hand", "--session", session).stdout
    check("next run" in said and "makes final ones anew" in said, said)
    for _ in range(2):
        live = launch("run", graph, "--session", session, "--until-idle", "1")
        try:
            check(live.wait(timeout=240) == 0, "run once more: ended well")
        finally:
            stop(live)
    again = history(session, "refiner")
    added = again[len(events) :]
    check([e["inverted"] for e in added] == [False] * len(added), f"in the first hand: {hands(session)}")
    check([e["final"] for e in added].count(True) == 1 and added[-1]["final"], "one final iteration more, in two runs")
    check(not is_inverted(session, "run_class001.mrc", first_map), "the final map is in the first hand")
    likeness = agreement(inverted(final), read_map(f"{session}/refiner/run_class001.mrc")[0])
    check(likeness > 0.9, f"and the mirror image of the one before: {likeness:.3f}")
    check(len(asked(session)) == 2, "both changes are in the history")
    check(status(session)["stages"]["refiner"]["failed"] == 0, "nothing failed")
    finish()
