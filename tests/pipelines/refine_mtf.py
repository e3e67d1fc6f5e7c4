#!/usr/bin/env python3
"""The final map is divided by the MTF of the refiner's section, else by that of the session, else by that which the optics
table of the micrographs names: rlnMtfFileName goes through the extractor into the particles."""

import mrcfile
import numpy as np
from session import Work, check, finish, run, simulate, star, write

SIZE, BOX, PIXEL = 512, 32, 6.0
GRAPH = """\
session: {pixel_size: 6.0, SESSION}
stages:
  watcher:   {directory: INCOMING, ctf: TABLE}
  extractor: {from: watcher, coordinates: PLACES, box: 32}
  refiner:   {from: extractor, reference: REFERENCE, diameter: 170, healpix_order: 1, max_iterations: 1, iterations: 1,
              initial_lowpass: 50, local_resolution: false, STAGE}
"""
# What each file's MTF is at 0.5/px.
ENDS = {"optics": 0.5, "session": 0.3, "stage": 0.8}


def name_mtf(path, to, mtf):
    """Copies a table of micrographs, with a column that names the MTF of its only optics group."""
    text = open(path).read()
    text = text.replace("_rlnAmplitudeContrast #7 \n", "_rlnAmplitudeContrast #7 \n_rlnMtfFileName #8 \n")
    row = next(line for line in text.splitlines() if " opticsGroup1 " in line)
    return write(to, text.replace(row, f"{row} {mtf}"))


def corrected(session):
    """Returns the logarithms of the final map's amplitudes, divided by the MTF, at all shells within Nyquist."""
    rows = star(f"{session}/refiner/postprocess.star")["guinier"]
    return np.array([float(row.get("rlnLogAmplitudesMTFCorrected", 0)) for row in rows])[: BOX // 2 - 1]


def expected(session, end):
    """Returns the same of the half maps. end: the MTF at 0.5/px."""
    halves = [mrcfile.read(f"{session}/refiner/run_half{half}_class001_unfil.mrc") for half in (1, 2)]
    amplitudes = abs(np.fft.rfftn((halves[0] + halves[1]) / 2)).ravel() / BOX**3
    k = np.fft.fftfreq(BOX) * BOX
    radius = np.sqrt(k[:, None, None] ** 2 + k[:, None] ** 2 + k[: BOX // 2 + 1] ** 2).ravel()
    mtf = np.maximum(1 - (1 - end) * 2 * radius / BOX, end)
    shell = (radius + 0.5).astype(int)
    return np.log(np.bincount(shell, amplitudes / mtf) / np.bincount(shell))[: BOX // 2 - 1]


with Work("refine-mtf") as work:
    simulate(work("sim"), micrographs=2, size=SIZE, pixel_size=PIXEL, particles=5, interval=0, seed=3)
    files = {
        name: write(work(f"{name}.star"), f"data_\n\nloop_\n_rlnResolutionInversePixel\n_rlnMtfValue\n0 1\n0.5 {end}\n")
        for name, end in ENDS.items()
    }
    table = name_mtf(work("sim", "truth", "micrographs_ctf.star"), work("ctf.star"), files["optics"])
    at = range(BOX, SIZE - BOX, 2 * BOX)
    rows = "\n".join(f"mic_{m:05d}.mrc {x} {y}" for m in (1, 2) for x in at for y in at)
    places = "data_\n\nloop_\n_rlnMicrographName\n_rlnCoordinateX\n_rlnCoordinateY\n" + rows + "\n"
    text = GRAPH.replace("INCOMING", work("sim", "micrographs")).replace("TABLE", table)
    text = text.replace("PLACES", write(work("places.star"), places))
    text = text.replace("REFERENCE", work("sim", "truth", "reference.mrc"))
    for winner, named in (("optics", ()), ("session", ("session",)), ("stage", ("session", "stage"))):
        graph = text
        for name in ("session", "stage"):
            graph = graph.replace(name.upper(), f"mtf: {files[name]}" if name in named else "")
        run("run", write(work(f"{winner}.yaml"), graph), "--session", work(winner), "--until-idle", "1", timeout=200)
        found = corrected(work(winner))
        away = {name: np.abs(found - expected(work(winner), end)).max() for name, end in ENDS.items()}
        check(away[winner] < 1e-3 and min(away, key=away.get) == winner, f"the MTF is that of the {winner}: {away}")
    finish()
