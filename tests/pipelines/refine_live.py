#!/usr/bin/env python3
"""A session with a reference refines while its folder fills: two maps, the second from more particles than the first, exist
before the last micrograph has arrived, and the final one is made from all."""

import os
import signal

from session import REFINING, Work, check, finish, history, launch, put, simulate, star, status, stop, wait_until, write

GRAPH = REFINING.format(more="max_iterations: 4, min_particles: 50")


def maps(session):
    return [e for e in history(session, "refiner") if e["event"] == "map"]


def most(session):
    return max((e["particles"] for e in maps(session)), default=0)


with Work("refine-live") as work:
    names = simulate(
        work("sim"), micrographs=7, size=512, pixel_size=4.0, particles=30, interval=0, seed=4, carbon=0
    )  # fmt: skip
    os.makedirs(work("incoming"))
    graph = write(work("graph.yaml"), GRAPH.replace("INCOMING", work("incoming")).replace("TRUTH", work("sim", "truth")))
    session = work("session")
    live = launch("run", graph, "--session", session)
    try:
        # The next micrographs arrive when there is a map of those before, however slow the machine is.
        before = []
        for first, last in ((0, 3), (3, 6)):
            known = most(session)
            for name in names[first:last]:
                put(work("sim", "micrographs", name), work("incoming"))
            wait_until(lambda: most(session) > known, 120, f"a map of more than {known} particles", live)
            before.append(most(session))
        put(work("sim", "micrographs", names[-1]), work("incoming"))
        wait_until(lambda: status(session)["stages"]["watcher"]["done"] == len(names), 60, "the last is taken in", live)
        live.send_signal(signal.SIGINT)  # the stream ends
        check(live.wait(timeout=240) == 0, "the run ended well")
    finally:
        stop(live)
    check(before[0] < before[1], f"two maps, each from more particles, before the last micrograph: {before}")
    events = maps(session)
    extracted = star(f"{session}/extractor/particles.star")["particles"]
    check(events[-1]["final"], "the last map is final")
    check(
        events[-1]["particles"] == len(extracted) > before[1],
        f"the final map is of all {len(extracted)} particles: {[e['particles'] for e in events]}",
    )
    finish()
