#!/usr/bin/env python3
"""Tilts that are movies: motion-corrector aligns and sums their frames, and keeps angle, series and the dose of the series
before each. The tilt-reconstructor makes the tomogram that the frames without motion would give."""

import glob
import os
import shutil
import subprocess

import mrcfile
import numpy as np
from session import SOURCE, Work, check, finish, program, read_map, run, star, status

SEED, SIDE, DEPTH, FRAMES, DOSE, PIXEL = 5, 256, 32, 4, 3.0, 10.0
DRIFT = [(0, 0), (5, -3), (8, -5), (9, -6)]  # px of each frame, against the first
GRAPH = os.path.join(SOURCE, "pipelines", "tomography-movies.yaml")


def simulate(folder):
    settings = {"name": "a", "size": SIDE, "thickness": DEPTH, "files": "single", "order": "dose-symmetric", "step": 10,
                "shift": 0, "snr": 20, "pixel_size": PIXEL, "seed": SEED}  # fmt: skip
    words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    subprocess.run([program("icestream-simulate-tilts"), "--o", folder, *words], check=True, stdout=subprocess.DEVNULL)
    return sorted(glob.glob(f"{folder}/tilts/a_*.mrc"))


def write_stack(path, data):
    with mrcfile.new(path) as file:
        file.set_data(data)
        file.set_image_stack() if data.ndim == 3 else None
        file.voxel_size = PIXEL


def make_movies(tilts, movies, still):
    """Turns each image into the counts of frames that drift, and into their sum without drift."""
    random = np.random.default_rng(SEED)
    for path in tilts:
        image, _ = read_map(path)
        image = image.reshape(SIDE, SIDE)
        rate = np.clip(12 + 4 * (image - image.mean()) / image.std(), 0.5, 60)
        frames = random.poisson(rate, (FRAMES, SIDE, SIDE)).astype(np.int16)
        name = os.path.basename(path)
        write_stack(f"{still}/{name}", frames.sum(0).astype(np.float32))
        moved = [np.roll(frame, (dy, dx), (0, 1)) for frame, (dx, dy) in zip(frames, DRIFT)]
        write_stack(f"{movies}/{name}", np.stack(moved))


def central(volume):
    """The part that no drift reaches."""
    part = volume[:, 24:-24, 24:-24]
    return (part - part.mean()).ravel()


with Work("tomography-movies") as work:
    print(f"seed {SEED}")
    tilts = simulate(work("sim"))
    for folder in ("movies", "still"):
        os.makedirs(work(folder))
        shutil.copy(work("sim", "tilts", "a.mdoc"), work(folder, "a.mdoc"))
    make_movies(tilts, work("movies"), work("still"))
    sets = {"watcher.directory": work("movies"), "watcher.frames": FRAMES, "watcher.poll": 0.2,
            "tilt-reconstructor.thickness": DEPTH, "tilt-reconstructor.bin": 1, "tilt-reconstructor.iterations": 6,
            "tilt-reconstructor.align": "none", "tilt-reconstructor.preview": "false"}  # fmt: skip
    run("run", GRAPH, "--session", work("session"), *[f"--set={key}={value}" for key, value in sets.items()],
        "--until-idle", "2", timeout=240)  # fmt: skip
    stages = status(work("session"))["stages"]
    check(all(s["done"] == len(tilts) and s["failed"] == 0 for s in stages.values()), f"{len(tilts)} tilts are done")
    seen, worst = 0, 0
    for taken, path in enumerate(tilts):
        name = os.path.basename(path).removesuffix(".mrc")
        shifts = star(work("session", "motion-corrector", f"{name}.star"))["global_shift"]
        found = np.array([[float(row["rlnMicrographShiftX"]), float(row["rlnMicrographShiftY"])] for row in shifts])
        worst = max(worst, np.abs(found + np.array(DRIFT)).max())
        general = {w[0]: w[1] for line in open(work("session", "motion-corrector", f"{name}.star"))
                   if len(w := line.split()) == 2 and w[0].startswith("_rln")}  # fmt: skip
        seen += (abs(float(general["_rlnMicrographPreExposure"]) - taken * DOSE) < 1e-3
                 and abs(float(general["_rlnMicrographDoseRate"]) - DOSE / FRAMES) < 1e-3)  # fmt: skip
    check(worst < 0.3, f"the frames' shifts are found, within {worst:.2f} px")
    check(seen == len(tilts), f"each has its dose, and that of the series before it: {seen}")
    subprocess.run([program("icestream-tilt-reconstructor"), "--i", work("still"), "--tilts", work("still", "a.mdoc"),
                    "--o", work("expected"), "--thickness", str(DEPTH), "--iterations", "6"],
                   check=True, capture_output=True)  # fmt: skip
    expected, _ = read_map(work("expected", "a.mrc"))
    found, pixel = read_map(work("session", "tilt-reconstructor", "a.mrc"))
    correlation = np.corrcoef(central(expected), central(found))[0, 1]
    check(found.shape == expected.shape and abs(pixel - PIXEL) < 1e-3, f"a tomogram of {found.shape}, {pixel} Å")
    check(correlation > 0.9, f"it is that of frames without motion: correlation {correlation:.3f}")
    finish()
