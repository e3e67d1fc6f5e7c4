#!/usr/bin/env python3
"""Cells of tables that are no numbers: each is said with its file, row and column, and no value takes its place."""

import subprocess

import mrcfile
import numpy as np
from alone import logs
from faults import MICROGRAPHS, Run, Work, arrive, check, finish, graph, names, program, star, write

BAD = {"nan 14800 0": "rlnDefocusU", "15000 abc 0": "rlnDefocusV", "15000 14800 inf": "rlnDefocusAngle"}
GOOD = "15000 14800 0"


def stream():
    """From the CTF file through picker and extractor."""
    with Work("cells") as work:
        some, session, table = names()[: len(BAD) + 1], work("session"), work("ctf.star")
        arrive(some, work("in"))
        rows = "".join(f"{name} {cells}\n" for name, cells in zip(some, [*BAD, GOOD]))
        write(
            table,
            "data_optics\n\nloop_\n_rlnOpticsGroup\n_rlnOpticsGroupName\n_rlnVoltage\n1 first nan\n\n"
            f"data_micrographs\n\nloop_\n_rlnMicrographName\n_rlnDefocusU\n_rlnDefocusV\n_rlnDefocusAngle\n{rows}",
        )
        with Run(graph(work.path, micrographs=work("in"), watcher=f"ctf: {table}"), session, "--until-idle", "2") as live:
            live.finish(0)
        said = [line for line in logs(session, "watcher.0") if " WARN ctf-cell " in line]
        check(len(said) == len(BAD) + 1, f"one line for each broken cell: {said}")
        check(any('row 1 of data_optics: rlnVoltage is "nan"' in line for line in said), "the voltage is said")
        for number, (cells, column) in enumerate(BAD.items(), 1):
            wanted = f"{table}: row {number} of data_micrographs: {column} is "
            check(any(wanted in line for line in said), f"{cells}: {wanted}")
        for path, key in (("watcher/micrographs.star", "micrographs"), ("extractor/particles.star", "particles")):
            rows = star(f"{session}/{path}")[key]
            for number, name in enumerate(some):
                own = [row for row in rows if row["rlnMicrographName"].endswith(name)]
                values = {row[column] for row in own for column in ("rlnDefocusU", "rlnDefocusV", "rlnDefocusAngle")}
                wanted = {"nan"} if number < len(BAD) else {"15000.000000", "14800.000000", "0.000000"}
                check(own and values == wanted, f"{path}: {len(own)} rows of {name} with {values}")


def on_files():
    with Work("cells-files") as work:
        some = names()[:2]
        table = write(
            work("mics.star"),
            "data_micrographs\n\nloop_\n_rlnMicrographName\n_rlnDefocusU\n_rlnVoltage\n"
            f"{MICROGRAPHS}/{some[0]} nan 300\n{MICROGRAPHS}/{some[1]} 15000 abc\n",
        )
        words = [program("icestream-lowpass-picker"), "--i", table, "--o", work("out"), "--diameter", "130"]
        ended = subprocess.run([*words, "--pixel_size", "6"], capture_output=True, text=True, timeout=120)
        check(ended.returncode == 0, f"the picker ends with {ended.returncode}: {ended.stderr[-300:]}")
        for row, cell in ((1, 'rlnDefocusU is "nan"'), (2, 'rlnVoltage is "abc"')):
            check(f"{table}: row {row} of data_micrographs: {cell}" in ended.stderr, f"{cell} is said: {ended.stderr}")


def cut():
    """A table of particles that is cut in its header or before its first row."""
    with Work("cells-cut") as work:
        whole = "data_particles\n\nloop_\n_rlnImageName #1\n_rlnDefocusU #2\n000001@a.mrcs 15000\n"
        reference = work("reference.mrc")
        mrcfile.write(reference, np.ones((32, 32, 32), np.float32), voxel_size=2)
        for kept in range(whole.index("loop_"), whole.index("000001") + 1):
            table = write(work("particles.star"), whole[:kept])
            words = [program("icestream-refiner"), "--i", table, "--o", work("out"), "--reference", reference]
            ended = subprocess.run([*words, "--diameter", "40"], capture_output=True, text=True, timeout=120)
            if ended.returncode not in (1, 2) or "particles.star: " not in ended.stderr:
                check(False, f"cut after {kept} bytes: exit {ended.returncode}: {ended.stdout} {ended.stderr}")
        check(True, "every cut before the first row is refused with the file's name")


stream()
on_files()
cut()
finish()
