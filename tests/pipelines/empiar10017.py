#!/usr/bin/env python3
"""Denoised β-galactosidase pictures (JPEG, no CTF) through LoG and template picking, extraction, 2D and 3D.

  empiar10017.py [random]

random: instead, the same pictures with random phases beyond 30 Å. They show no particle there: a map that claims detail
finer than that is overfitted."""

import os
import sys

import numpy as np
from session import Work, check, finish, fsc, match, need_data, points, put, read_map, run, star, status, write

TOLERANCE = 40
RANDOM_BEYOND = 30  # Å
PIXEL_SIZE = 1.77
data, maps = need_data("empiar10017"), need_data("maps")
names = sorted(n[:-4] for n in os.listdir(f"{data}/micrographs"))

GRAPH = """\
session: {pixel_size: PIXEL_SIZE, voltage: 300, spherical_aberration: 2.7, amplitude_contrast: 0.1}
stages:
  watcher:        {directory: INCOMING, pattern: "PATTERN"}
  lowpass-picker: {from: watcher, METHOD, lowpass: 20, diameter: 180}
  extractor:      {from: lowpass-picker, box: 192, downscale_to: 48}
"""
CLASSIFY = "  classifier: {from: extractor, classes: 10, diameter: 220}\n"
REFINE = f"  refiner: {{from: SOURCE, reference: {maps}/betaGal.mrc, symmetry: D2, diameter: 220}}\n"


def make_templates(path, pixel_size=4.0, box=64, count=10):
    """Returns projections of the β-galactosidase map along evenly spread directions, by rotating the volume; standard
    deviation 1 over the box."""
    import mrcfile
    from scipy.ndimage import affine_transform, zoom

    volume, px = read_map(f"{maps}/betaGal.mrc")
    volume = zoom(volume, px / pixel_size, order=1)
    n = volume.shape[0]
    stack = []
    for i in range(count):
        z = 1 - (i + 0.5) / count  # half a sphere is enough: projections from opposite directions are mirror images
        phi = i * np.pi * (3 - 5**0.5)
        direction = np.array([np.sqrt(1 - z * z) * np.cos(phi), np.sqrt(1 - z * z) * np.sin(phi), z])
        x = np.cross([0.0, 0, 1] if abs(z) < 0.9 else [1.0, 0, 0], direction)
        x /= np.linalg.norm(x)
        axes = np.array([direction, np.cross(direction, x), x])[:, ::-1].T  # columns: z, y, x of the view, in (z, y, x)
        centre = (np.array(volume.shape) - 1) / 2
        turned = affine_transform(volume, axes, offset=centre - axes @ centre, order=1)
        view = turned.sum(axis=0)
        out = np.zeros((box, box), np.float32)
        m = min(n, box)
        a, b = (box - m) // 2, (n - m) // 2
        out[a : a + m, a : a + m] = view[b : b + m, b : b + m]
        stack.append((out - out.mean()) / out.std())
    with mrcfile.new(path, overwrite=True) as file:
        file.set_data(np.array(stack, np.float32))
        file.set_image_stack()
        file.voxel_size = pixel_size


def randomise(name, folder, random):
    """Writes a micrograph whose Fourier coefficients beyond RANDOM_BEYOND have random phases."""
    import mrcfile
    from PIL import Image

    pixels = np.asarray(Image.open(f"{data}/micrographs/{name}.jpg").convert("L"), np.float32)[::-1]
    spectrum = np.fft.rfft2(pixels - pixels.mean())
    noise = np.fft.rfft2(random.standard_normal(pixels.shape, np.float32))
    frequency = np.hypot(np.fft.fftfreq(pixels.shape[0])[:, None], np.fft.rfftfreq(pixels.shape[1])) / PIXEL_SIZE
    spectrum = np.where(frequency > 1 / RANDOM_BEYOND, np.abs(spectrum) * noise / np.abs(noise), spectrum)
    with mrcfile.new(f"{folder}/{name}.mrc") as file:
        file.set_data(np.fft.irfft2(spectrum, pixels.shape).astype(np.float32))
        file.voxel_size = PIXEL_SIZE


def claimed(session):
    """Returns the resolution that the final map claims, in Å. Prints how its halves agree."""
    half1, px = read_map(f"{session}/refiner/run_half1_class001_unfil.mrc")
    half2, _ = read_map(f"{session}/refiner/run_half2_class001_unfil.mrc")
    curve = fsc(half1, half2)
    print("FSC:", " ".join(f"{half1.shape[0] * px / i:.1f}:{curve[i]:.2f}" for i in range(1, len(curve))))
    return float(star(f"{session}/refiner/run_model.star")["model_general"][0]["rlnCurrentResolution"])


def scores(session):
    hits = found = wanted = 0
    for name in names:
        picks, truth = points(f"{session}/lowpass-picker/{name}_autopick.star"), points(f"{data}/gt/{name}.star")
        hits, found, wanted = hits + len(match(picks, truth, TOLERANCE)), found + len(picks), wanted + len(truth)
    recall, precision = hits / max(wanted, 1), hits / max(found, 1)
    return recall, precision, 2 * recall * precision / max(recall + precision, 1e-9)


def run_session(work, name, incoming, method, rest):
    session = work(name)
    words = {"PIXEL_SIZE": str(PIXEL_SIZE), "INCOMING": incoming, "METHOD": method}
    words["PATTERN"] = "*" + os.path.splitext(os.listdir(incoming)[0])[1]
    text = GRAPH + rest
    for word, value in words.items():
        text = text.replace(word, value)
    run("run", write(work(f"{name}.yaml"), text), "--session", session, "--until-idle", "2", timeout=1500)
    state = status(session)
    check(state["stages"]["extractor"]["done"] == len(names), f"{name}: extractor {state['stages']['extractor']}")
    return session


def pictures(work):
    incoming = work("incoming")
    for name in names:
        put(f"{data}/micrographs/{name}.jpg", incoming)
    all_stages = CLASSIFY + REFINE.replace("SOURCE", "classifier")
    for method, text, rest in (("log", "method: log", ""), ("template", templates(work), all_stages)):
        session = run_session(work, method, incoming, text, rest)
        recall, precision, f1 = scores(session)
        check(
            f1 >= 0.6, f"{method}: recall {recall:.3f} precision {precision:.3f} F1 {f1:.3f} (floor of this test 0.6)"
        )
    resolution = claimed(session)
    check(resolution <= 45, f"the map claims {resolution:.1f} Å: 45 Å or finer was expected")


def random_phases(work):
    randomised = work("randomised")
    os.mkdir(randomised)
    random = np.random.default_rng(20261121)
    for name in names:
        randomise(name, randomised, random)
    session = run_session(work, "random", randomised, templates(work), REFINE.replace("SOURCE", "extractor"))
    resolution = claimed(session)
    check(
        resolution >= RANDOM_BEYOND,
        f"with random phases beyond {RANDOM_BEYOND} Å, the map claims {resolution:.1f} Å: finer would be overfitting",
    )


def templates(work):
    make_templates(work("templates.mrcs"))
    return f"templates: {work('templates.mrcs')}"


with Work("empiar10017") as work:
    (random_phases if sys.argv[1:] == ["random"] else pictures)(work)
    finish()
