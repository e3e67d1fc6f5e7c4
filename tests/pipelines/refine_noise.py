#!/usr/bin/env python3
"""Micrographs of noise, cut at places that nobody chose: refinement and classification say that the images are noise, and
no number is shown as the resolution, in `run`, `status`, the history, tables, the report and what the page asks for."""

import json
import os
import re
import subprocess

import mrcfile
import numpy as np
from session import Work, check, finish, history, program, run, simulate, star, status, write

SIZE, BOX, PIXEL, COUNT, SEED = 512, 32, 6.0, 3, 5
GRAPH = """\
session: {pixel_size: 6.0}
stages:
  watcher:   {directory: INCOMING, ctf: TRUTH/micrographs_ctf.star}
  extractor: {from: watcher, coordinates: PLACES, box: 32}
  refiner:   {from: extractor, reference: TRUTH/reference.mrc, diameter: 170, healpix_order: 1, max_iterations: 2,
              initial_lowpass: 50, iterations: 3, CLASSES}
"""
print(f"seed {SEED}")
ANGSTROMS = re.compile(r"[\d.]+ Å")


def make_noise(folder, path):
    """Overwrites the micrographs with noise, and writes places on a grid of boxes that do not meet."""
    random = np.random.default_rng(SEED)
    rows = []
    for name in sorted(os.listdir(folder)):
        with mrcfile.open(f"{folder}/{name}", "r+") as file:
            file.data[...] = random.normal(10, 3, file.data.shape).astype(file.data.dtype)
        at = range(BOX, SIZE - BOX, 2 * BOX)
        rows += [f"{name} {x} {y}" for x in at for y in at]
    table = "data_\n\nloop_\n_rlnMicrographName\n_rlnCoordinateX\n_rlnCoordinateY\n" + "\n".join(rows) + "\n"
    return write(path, table), len(rows)


def extracted(session):
    """Returns a table of the extractor."""
    folder = f"{session}/extractor"
    return sorted(f"{folder}/{name}" for name in os.listdir(folder) if name.endswith("_extract.star"))[0]


with Work("refine-noise") as work:
    simulate(work("sim"), micrographs=COUNT, size=SIZE, pixel_size=PIXEL, particles=5, interval=0, seed=3)
    places, particles = make_noise(work("sim", "micrographs"), work("places.star"))
    for classes in (1, 2):
        session = work(f"session{classes}")
        text = GRAPH.replace("INCOMING", work("sim", "micrographs")).replace("TRUTH", work("sim", "truth"))
        text = text.replace("PLACES", places).replace("CLASSES", f"classes: {classes}")
        graph = write(work(f"graph{classes}.yaml"), text)
        shown = run("run", graph, "--session", session, "--until-idle", "1", timeout=200).stdout
        check("(refine-noise)" in shown, f"{classes}: `run` warns of noise: {shown[-1500:]}")
        told = [line for line in shown.splitlines() if "Å" in line and "refine-shared" not in line]
        check(not told, f"{classes}: and of no resolution: {told}")
        asked = run("status", "--session", session).stdout
        said = [line for line in asked.splitlines() if "noise, no resolution" in line]
        check(said and not any(map(ANGSTROMS.search, said)), f"{classes}: nor does `status` tell one: {said}")
        check("(refine-noise)" in asked, f"{classes}: `status` shows the warning")
        lines = history(session, "refiner")
        check(lines and all(line["noise"] and line["resolution"] is None for line in lines), f"{classes}: {lines[-1:]}")
        beats = status(session)["stages"]["refiner"]["instances"]
        check(beats and "resolution" not in json.dumps(beats).replace("no resolution", ""), f"{classes}: {beats}")
        run("report", "--session", session)
        report = json.load(open(f"{session}/report/report.json"))
        check(
            report["map"]["noise"] is True and not {"resolution", "corrected_resolution"} & set(report["map"]),
            f"{classes}: the report's map: {report['map']}",
        )
        page = open(f"{session}/report/report.html").read()
        check("noise, no resolution" in page and "<b>noise</b>map" in page, f"{classes}: the report says so")
        if classes == 1:
            general = star(f"{session}/refiner/postprocess.star")["general"][0]
            check(float(general["rlnFinalResolution"]) == 999, f"postprocess.star: {general}")
            check(not os.path.exists(f"{session}/refiner/locres.mrc"), "noise has no local resolution")
    words = ["--reference", work("sim", "truth", "reference.mrc"), "--diameter", "170", "--healpix_order", "1"]
    command = [program("icestream-refiner"), "--i", extracted(work("session1")), "--o", work("files"), *words]
    ended = subprocess.run([*command, "--max_iterations", "1"], cwd=work("session1"), capture_output=True, text=True, timeout=200)
    said = [line for line in (ended.stdout + ended.stderr).splitlines() if "noise, no resolution" in line]
    check(ended.returncode == 0 and said, f"on files, the last words are: {(ended.stdout + ended.stderr)[-1500:]}")
    check(not any(map(ANGSTROMS.search, said)), f"without a resolution: {said}")
    finish()
