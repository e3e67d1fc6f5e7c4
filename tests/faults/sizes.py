#!/usr/bin/env python3
"""Gives stages images that are far larger than they look, or than the memory they may use.

sizes.py huge:  a few bytes that unpack to gigabytes, and a sparse file of 14 GB, beside good micrographs. They fail at
                once, by their headers: no process ever holds their pixels. The good ones are done.
sizes.py waits: with a small memory_limit, large micrographs are picked one after the other; the log says why.
                One that can never fit fails."""

import json
import os
import shutil
import struct
import subprocess
import sys
import zlib

import numpy as np
from broken_images import mrc
from faults import Run, Work, check, finish, program, write

MB = 1 << 20
GRAPH = """\
session: {pixel_size: 6.0}
stages:
  watcher:        {directory: in, settle: 0.2, stall: 1, poll: 0.2}
  lowpass-picker: {from: watcher, diameter: 130, lowpass: 40, write_png: falsePICKER}
  extractor:      {from: lowpass-picker, box: 32}
"""


def micrograph(path, side, seed):
    pixels = (100 + 10 * np.random.default_rng(seed).standard_normal((side, side))).astype("<f4")
    with open(path, "wb") as file:
        file.write(mrc(pixels))


def packed(rows, width):
    """Returns rows of zeros as zlib writes them. Blocks of 100 rows do not depend on each other, so one is packed."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(100 * width)) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum = (rows * width % 65521) << 16 | 1  # Adler-32 of zeros
    return b"\x78\xda" + rows // 100 * block + b"\x03\0" + struct.pack(">I", checksum)


def blank_tiff(path, side):
    """Writes an image of 16 bits in one strip."""
    data = packed(side, 2 * side)
    long, short = 4, 3
    entries = [(256, long, side), (257, long, side), (258, short, 16), (259, short, 8), (262, short, 1), (273, long, 8)]
    entries += [(277, short, 1), (278, long, side), (279, long, len(data))]
    with open(path, "wb") as file:
        file.write(b"II*\0" + struct.pack("<I", 8 + len(data)) + data + struct.pack("<H", len(entries)))
        for tag, kind, value in entries:
            file.write(struct.pack("<HHI", tag, kind, 1) + struct.pack("<HH" if kind == short else "<I",
                                                                       *((value, 0) if kind == short else (value,))))
        file.write(bytes(4))


def blank_png(path, side):
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)))
        file.write(chunk(b"IDAT", packed(side, side + 1)) + chunk(b"IEND", b""))


def sparse_mrc(path, side):
    with open(path, "wb") as file:
        file.write(mrc(np.ones((2, 2), "<f4"), shape=(side, side, 1), cut=1024))
        file.truncate(1024 + 4 * side * side)


def measure(words, **options):
    """Runs a program. Returns its exit code and the largest resident memory, in bytes, of it and of all its children
    that have ended."""
    process = subprocess.Popen(words, **options)
    _, code, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    return process.returncode, usage.ru_maxrss * 1024


def ends(session):
    """Returns {id: [(stage, state, reason)]}."""
    found = {}
    words = [program("icestream"), "status", "--session", session, "--json"]
    for item in json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout)["items"]:
        found.setdefault(item["id"], []).append((item["stage"], item["state"], item["reason"]))
    return found


def case_huge():
    with Work("sizes") as work:
        os.mkdir(work("in"))
        for i in range(3):
            micrograph(work(f"in/good{i}.mrc"), 256, i)
        blank_tiff(work("in/bomb.tif"), 30000)
        sparse_mrc(work("in/sparse.mrc"), 60000)
        check(os.path.getsize(work("in/bomb.tif")) < 2 * MB, "the TIFF is small")
        path = write(work("graph.yaml"), GRAPH.replace("PICKER", ""))
        words = [program("icestream"), "run", path, "--session", work("session"), "--until-idle", "1"]
        code, resident = measure(words, stdout=subprocess.DEVNULL)
        check(code == 3, f"a session ends with 3, some failed: {code}")
        check(resident < 400 * MB, f"no process held their pixels: {resident // MB} MB at most")
        items = ends(work("session"))
        good = [items[f"good{i}"] for i in range(3)]
        check(all(len(g) == 3 and all(state == "done" for _, state, _ in g) for g in good), f"the good ones: {good}")
        for name, says in (("bomb", "cannot hold the 30000 × 30000"), ("sparse", "from 16 to 32000 can be picked")):
            failed = [reason for _, state, reason in items.get(name, []) if state == "failed"]
            check(len(failed) == 1 and says in failed[0], f'{name} fails with "{says}": {items.get(name)}')
        os.mkdir(work("drops"))
        blank_png(work("drops/bomb.png"), 29000)
        check(os.path.getsize(work("drops/bomb.png")) < MB, "the PNG is small")
        words = [program("icestream-crystal-scorer"), "--i", work("drops"), "--o", work("scores"), "--keep_features"]
        code, resident = measure(words, stderr=open(work("said"), "w"))
        said = open(work("said")).read()
        check(code == 3 and "cannot hold the 29000 × 29000" in said, f"the PNG fails, {code}: {said}")
        check(resident < 400 * MB, f"nobody held its pixels: {resident // MB} MB at most")


def pick(work, name, *options):
    words = [program("icestream-lowpass-picker"), "--i", work("in"), "--o", work(name), "--pixel_size", "6"]
    words += ["--diameter", "130", "--lowpass", "40", "--write_png", "no", "--threads", "1", "--verbose", *options]
    with open(work(f"{name}.said"), "w") as said:
        code, resident = measure(words, stderr=said)
    return code, resident, open(work(f"{name}.said")).read()


def case_waits():
    """Each of the micrographs takes 38 MB, and the search of their shape 120 MB."""
    with Work("sizes_waits") as work:
        os.mkdir(work("in"))
        for i in range(4):
            micrograph(work(f"in/large{i}.mrc"), 2048, i)
        code, free, said = pick(work, "free")
        check(code == 0 and " memory " not in said, f"without a limit nobody waits: {code} {said[-300:]}")
        code, bound, said = pick(work, "bound", "--memory_limit", "0.19")
        check(code == 0, f"with a limit all are picked: {code} {said[-500:]}")
        check("items before it hold the memory" in said, "the log says why one waits")
        check(bound < free - 30 * MB, f"and less memory is taken: {bound // MB} of {free // MB} MB")
        for i in range(4):
            name = f"large{i}_autopick.star"
            check(open(work(f"free/{name}")).read() == open(work(f"bound/{name}")).read(), f"{name} is the same")
        code, _, said = pick(work, "never", "--memory_limit", "0.1")
        check(code == 3 and said.count("may use 0.1 GB (memory_limit)") >= 4, f"none can ever fit, {code}: {said[-500:]}")
        path = write(work("graph.yaml"), GRAPH.replace("PICKER", ", memory_limit: 0.19, lanes: 3, threads: 1"))
        for i in range(4, 16):
            shutil.copy(work(f"in/large{i % 4}.mrc"), work(f"in/large{i}.mrc"))
        with Run(path, work("session"), "--until-idle", "2", cwd=work.path) as live:
            live.finish(0, 200)
        log = open(work("session/log/lowpass-picker.0.log")).read()
        told = [line for line in log.splitlines() if "INFO memory" in line]
        check(len(told) == 1 and "items before it hold the memory" in told[0], f"the log says it once: {told}")
        done = [name for name, stages in ends(work("session")).items() if all(state == "done" for _, state, _ in stages)]
        check(len(done) == 16, f"all are done in a session: {len(done)}")


if __name__ == "__main__":
    {"huge": case_huge, "waits": case_waits}[sys.argv[1]]()
    finish()
