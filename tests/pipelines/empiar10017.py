#!/usr/bin/env python3
"""Denoised β-galactosidase pictures (JPEG, no CTF) through LoG and template picking, extraction, 2D and 3D.

They hold almost no signal beyond 29 Å: a map that claims better than 20 Å would be overfitted."""

import os

import numpy as np
from session import Work, check, finish, fsc, match, need_data, points, put, read_map, run, star, status, write

TOLERANCE = 40
data, maps = need_data("empiar10017"), need_data("maps")
names = sorted(n[:-4] for n in os.listdir(f"{data}/micrographs"))

GRAPH = """\
session: {pixel_size: 1.77, voltage: 300, spherical_aberration: 2.7, amplitude_contrast: 0.1}
stages:
  watcher:        {directory: INCOMING, pattern: "*.jpg"}
  lowpass-picker: {from: watcher, METHOD, lowpass: 20, diameter: 180}
  extractor:      {from: lowpass-picker, box: 192, downscale_to: 48}
"""
AND_3D = f"""\
  classifier:     {{from: extractor, classes: 10, diameter: 220}}
  refiner:        {{from: classifier, reference: {maps}/betaGal.mrc, symmetry: D2, diameter: 220}}
"""


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


def scores(session):
    hits = found = wanted = 0
    for name in names:
        picks, truth = points(f"{session}/lowpass-picker/{name}_autopick.star"), points(f"{data}/gt/{name}.star")
        hits, found, wanted = hits + len(match(picks, truth, TOLERANCE)), found + len(picks), wanted + len(truth)
    recall, precision = hits / max(wanted, 1), hits / max(found, 1)
    return recall, precision, 2 * recall * precision / max(recall + precision, 1e-9)


with Work("empiar10017") as work:
    incoming = work("incoming")
    for name in names:
        put(f"{data}/micrographs/{name}.jpg", incoming)
    make_templates(work("templates.mrcs"))
    for method, text, rest in (
        ("log", "method: log", ""),
        ("template", f"templates: {work('templates.mrcs')}", AND_3D),
    ):
        session = work(method)
        graph = write(work(f"{method}.yaml"), GRAPH.replace("INCOMING", incoming).replace("METHOD", text) + rest)
        run("run", graph, "--session", session, "--until-idle", "2", timeout=1500)
        state = status(session)
        check(state["stages"]["extractor"]["done"] == len(names), f"{method}: extractor {state['stages']['extractor']}")
        recall, precision, f1 = scores(session)
        check(
            f1 >= 0.6, f"{method}: recall {recall:.3f} precision {precision:.3f} F1 {f1:.3f} (floor of this test 0.6)"
        )
    half1, px = read_map(f"{session}/refiner/run_half1_class001_unfil.mrc")
    half2, _ = read_map(f"{session}/refiner/run_half2_class001_unfil.mrc")
    curve = fsc(half1, half2)
    claimed = float(star(f"{session}/refiner/run_model.star")["model_general"][0]["rlnCurrentResolution"])
    print("FSC:", " ".join(f"{half1.shape[0] * px / i:.1f}:{curve[i]:.2f}" for i in range(1, len(curve))))
    check(claimed >= 20, f"the map claims {claimed:.1f} Å; better than 20 would be overfitting")
    finish()
