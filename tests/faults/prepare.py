#!/usr/bin/env python3
"""Makes the micrographs of the fault tests and the undisturbed session. They are made once, and again when the program
changes."""

import os
import shutil
import time

from faults import COUNT, DATA, GRAPH, MICROGRAPHS, calm, check, finish, graph, run, simulate, whole
from session import BIN, program, write

begin = time.time()
os.makedirs(DATA, exist_ok=True)
stamp = f"{COUNT} {GRAPH} {os.path.getmtime(program('icestream-simulate'))}"
kept = os.path.join(DATA, "stamp")
if not os.path.exists(kept) or open(kept).read() != stamp:
    shutil.rmtree(os.path.join(DATA, "sim"), ignore_errors=True)
    simulate(
        os.path.join(DATA, "sim"),
        micrographs=COUNT,
        size=160,
        pixel_size=6.0,
        particles=6,
        box=32,
        diameter=130,
        snr=0.5,
        templates=1,
        contamination=0,
        carbon=0,
        interval=0,
        seed=3,
    )
    write(kept, stamp)
print(f"{len(os.listdir(MICROGRAPHS))} micrographs, {time.time() - begin:.1f} s")

begin = time.time()
shutil.rmtree(os.path.join(DATA, "calm"), ignore_errors=True)
run("run", graph(DATA), "--session", os.path.join(DATA, "calm"), "--until-idle", "0.5", timeout=100)
print(f"undisturbed run with {BIN}: {time.time() - begin:.1f} s")
undisturbed = calm()
check(
    all(c["done"] == COUNT and c["seen"] == COUNT for c in undisturbed["counts"].values()), f"{undisturbed['counts']}"
)
check(len(undisturbed["particles"]) > 2 * COUNT, f"{len(undisturbed['particles'])} particles")
whole(os.path.join(DATA, "calm"))
finish()
