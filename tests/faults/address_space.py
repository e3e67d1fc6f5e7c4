#!/usr/bin/env python3
"""Runs a session whose processes have little address space (ulimit -v). An image that does not fit fails with the reason;
no process dies of a library that ends it, and the images that fit are done."""

import os
import resource
import subprocess


from faults import Work, check, finish, program, write
from sizes import ends, micrograph

GRAPH = """\
session: {pixel_size: 6.0}
stages:
  watcher:        {directory: in, settle: 0.2, stall: 1, poll: 0.2}
  lowpass-picker: {from: watcher, diameter: 130, lowpass: 40, write_png: false, threads: 1, device: cpu}
  extractor:      {from: lowpass-picker, box: 32, threads: 1}
"""
SMALL, LARGE = 3, 3


def limited(megabytes):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))


def session(work, name, megabytes):
    """Returns the ends of items and the launcher's log."""
    words = [program("icestream"), "run", work("graph.yaml"), "--session", work(name), "--until-idle", "2"]
    process = subprocess.run(
        words + ["--backoff", "0.05"], preexec_fn=limited(megabytes), cwd=work.path, capture_output=True, text=True,
        timeout=240,
    )
    log = open(work(f"{name}/log/icestream.log"), errors="replace").read()
    return process.returncode, process.stdout + process.stderr, ends(work(name)), log


with Work("address_space") as work:
    os.mkdir(work("in"))
    for i in range(SMALL):
        micrograph(work(f"in/small{i}.mrc"), 512, i)
    for i in range(LARGE):
        micrograph(work(f"in/large{i}.mrc"), 4096, i)
    write(work("graph.yaml"), GRAPH)
    for megabytes in (400, 600, 800):
        code, said, items, log = session(work, f"session{megabytes}", megabytes)
        what = f"{megabytes} MB"
        # The last limit is near what a large image takes: it may be done or not.
        near = megabytes == 800
        check(code == 3 or (near and code == 0), f"{what}: exit {code} {said[-500:] if code != 3 else ''}")
        check("signal" not in log and "died" not in log, f"{what}: no process dies: {log[-500:] if 'signal' in log else ''}")
        small = [items.get(f"small{i}", []) for i in range(SMALL)]
        check(all(len(s) == 3 and {state for _, state, _ in s} == {"done"} for s in small), f"{what}: small ones: {small}")
        for i in range(LARGE):
            reasons = [reason for _, state, reason in items.get(f"large{i}", []) if state == "failed"]
            done = near and {state for _, state, _ in items.get(f"large{i}", [])} == {"done"}
            check(done or (len(reasons) == 1 and "memory" in reasons[0]), f"{what}: large{i} fails for memory: {reasons}")
    finish()
