#!/usr/bin/env python3
"""Compares picks with and without the mask of contamination. At least 90 % of the picks on contaminated places must go,
and at least 97 % of the others must stay. The data are a real micrograph with a large ice crystal, and simulated
sessions with ice lumps, carbon, and facetted crystals, where the true particles are known too. Picks of another program
on the real micrograph are looked up in the mask, as far as a picture of it shows."""

import array
import glob
import math
import os
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image

data = os.path.join(os.environ["ICESTREAM_DATA"], "micrograph_cleaner")
bin_folder = os.environ["ICESTREAM_BIN"]
if not os.path.isdir(data):
    print(f"skipped: no {data}")
    sys.exit(77)
failed = []


def rows(path, names):
    columns, found = [], []
    for line in open(path):
        words = line.split()
        if words and words[0].startswith("_"):
            columns.append(words[0][1:])
        elif len(words) >= 2 and columns and len(words) >= len(columns):
            found.append([words[columns.index(name)] for name in names])
    return found


def points(path):
    return [(float(x), float(y)) for x, y in rows(path, ["rlnCoordinateX", "rlnCoordinateY"])]


def pick(folder, name, arguments):
    method = "template" if "--templates" in arguments else "log"
    subprocess.run(
        [
            f"{bin_folder}/icestream-lowpass-picker",
            "--o",
            f"{folder}/{name}",
            "--method",
            method,
            *([] if "--write_png" in arguments else ["--write_png", "false"]),
            *arguments,
        ],
        check=True,
        capture_output=True,
    )
    picks = {}
    for path in glob.glob(f"{folder}/{name}/**/*_autopick.star", recursive=True):
        picks[os.path.basename(path)[: -len("_autopick.star")]] = points(path)
    return picks


def kept(before, after, distance):
    return [any(math.dist(p, q) <= distance for q in after) for p in before]


def check(case, contaminated, clean, clean_least=0.97):
    """Both lists are of bool: is the pick still there?"""
    gone = 1 - sum(contaminated) / max(len(contaminated), 1)
    stay = sum(clean) / max(len(clean), 1)
    print(
        f"{case}: of {len(contaminated)} picks on contamination {gone:.3f} are gone, of {len(clean)} others {stay:.3f} "
        f"stay",
        flush=True,
    )
    if contaminated and gone < 0.9:
        failed.append(f"{case}: 0.9 of the picks on contamination should go")
    if clean and stay < clean_least:
        failed.append(f"{case}: {clean_least} of the other picks should stay")


def elsewhere(name, centres, least, distance, arguments):
    """Checks that marked particles found without the mask stay, on micrographs with little contamination."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = (pick(folder, mask, [*arguments, "--mask_contamination", mask]) for mask in ("false", "true"))
        stay = []
        for micrograph, truth in centres.items():
            found = kept(truth, before[micrograph], distance)
            stay += [s for s, f in zip(kept(truth, after[micrograph], distance), found) if f]
        check(name, [], stay)
        if len(stay) < least:
            failed.append(f"{name}: only {len(stay)} particles were found at all")


def truth_of_cleaner():
    content = open(f"{data}/mask.mrc", "rb").read()
    header = array.array("i", content[:1024])
    nx, ny, extended = header[0], header[1], header[23]
    values = array.array("f", content[1024 + extended : 1024 + extended + 4 * nx * ny])
    return lambda x, y: values[min(max(round(y), 0), ny - 1) * nx + min(max(round(x), 0), nx - 1)] > 0.5


def picks_of_relion():
    """Of the picks of RELION in the data set, 12 lie where the reference says contaminated. Two are on round spots that it
    calls so by a hair (0.51 and 0.68), while it calls other such spots clean: a mask that has them takes clean picks too."""
    star = f"{data}/Ucsf_stack_1142_DW_autopick.star"
    if not os.path.isfile(star):
        print(f"picks of RELION: skipped: no {star}")
        return
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--i", f"{data}/mic.mrc", "--pixel_size", "1", "--diameter", "30", "--threshold", "999"]
        arguments += ["--write_png", "true"]
        assert pick(folder, "on", arguments) == {"mic": []}, "circles of picks hide the mask"
        with Image.open(f"{folder}/on/mic.png") as picture:
            assert picture.mode == "P", picture.mode
            lines = np.asarray(picture)
    # The greys end at 126; 127 to 253 are the same, tinted.
    masked = [127 <= lines[int(y)][int(x)] < 254 for x, y in points(star)]
    on = [contaminated_at(*p) for p in points(star)]
    bad, good = [m for m, o in zip(masked, on) if o], [m for m, o in zip(masked, on) if not o]
    print(f"picks of RELION: {sum(bad)} of {len(bad)} on contamination are masked, of {len(good)} others {sum(good)} are")
    if (len(bad), len(good)) != (12, 33) or sum(bad) < 10 or any(good):
        failed.append("picks of RELION: 10 of 12 should be masked, and none of the 33 others")


contaminated_at = truth_of_cleaner()
picks_of_relion()
# The runs count together: a dozen picks on the crystal is too few for a percentage, and two faint round spots, which
# the reference calls contaminated by a hair, keep their picks in each.
crystal, ice = [], []
# An automatic threshold depends on the remaining picks, and this micrograph has no clear particles. So both runs use
# one fixed threshold.
for pixel_size, diameter in [(1, 30), (3.3, 100), (3.3, 150)]:
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            "--i",
            f"{data}/mic.mrc",
            "--pixel_size",
            str(pixel_size),
            "--diameter",
            str(diameter),
            "--threshold",
            "0.2",
        ]
        before, after = pick(folder, "off", [*arguments, "--mask_contamination", "false"]), pick(
            folder, "on", arguments
        )
        still = kept(before["mic"], after["mic"], diameter / pixel_size / 4)
        on = [contaminated_at(*p) for p in before["mic"]]
        print(f"{pixel_size} A/px, {diameter} A: {sum(on)} picks on contamination", flush=True)
        crystal += [s for s, o in zip(still, on) if o]
        ice += [s for s, o in zip(still, on) if not o]
check("ice crystal, three diameters", crystal, ice)


def simulated(case, picks_with, clean_least, **options):
    """Simulates a session with ice, and checks the picks on its lumps and those of its particles."""
    with tempfile.TemporaryDirectory() as folder:
        session = f"{folder}/session"
        made = ["--o", session, "--interval", "0", "--snr", "0.2"]
        for name, value in options.items():
            made += [f"--{name}", str(value)]
        subprocess.run([f"{bin_folder}/icestream-simulate", *made], check=True, capture_output=True)
        lumps = {}
        for name, *lump in rows(
            f"{session}/truth/contamination.star",
            ["rlnMicrographName", "rlnCoordinateX", "rlnCoordinateY", "rlnParticleDiameter"],
        ):
            lumps.setdefault(os.path.basename(name)[: -len(".mrc")], []).append([float(v) for v in lump])
        arguments = [a.format(session=session) for a in picks_with]
        before, after = (pick(folder, mask, [*arguments, "--mask_contamination", mask]) for mask in ("false", "true"))
        on_lumps, particles, reach = [], [], 0.4 if not options.get("facetted") else 0.65
        for name, picks in before.items():
            truth = points(f"{session}/truth/{name}.star")
            found = kept(truth, picks, 20)
            particles += [s for s, f in zip(kept(truth, after[name], 20), found) if f]
            false = [p for p in picks if not any(math.dist(p, t) <= 20 for t in truth)]
            inside = [
                any(math.dist(p, lump[:2]) < reach * lump[2] / 2.5 for lump in lumps.get(name, [])) for p in false
            ]
            on_lumps += [s for s, i in zip(kept(false, after[name], 10), inside) if i]
        check(case, on_lumps, particles, clean_least)
        if len(on_lumps) < 20:
            failed.append(f"{case}: only {len(on_lumps)} picks lie on lumps: nothing is tested")


session = ["--i", "{session}/micrographs", "--pixel_size", "2.5", "--diameter", "130"]
simulated("simulated", session, 0.97, micrographs=6, carbon=0.5, contamination=6, seed=11)
# Pickers take the corners of crystals for particles.
templates = [*session, "--templates", "{session}/truth/templates.mrcs"]
for seed in (11, 12):
    crystals = {"micrographs": 4, "carbon": 0, "contamination": 8, "facetted": "true", "seed": seed}
    simulated(f"facetted, seed {seed}", templates, 0.98, **crystals)
    simulated(f"facetted, seed {seed}, no particles", templates, 0.98, particles=0, **crystals)
shared = os.environ["ICESTREAM_DATA"]
if os.path.isdir(f"{shared}/apoferritin"):
    marked = {
        os.path.basename(p)[: -len(".star")]: points(p) for p in glob.glob(f"{shared}/apoferritin/centres/*.star")
    }
    elsewhere(
        "apoferritin",
        marked,
        1000,
        15,
        ["--i", f"{shared}/apoferritin/micrographs", "--pixel_size", "1.5", "--diameter", "120"],
    )
    elsewhere(
        "apoferritin, its templates",
        marked,
        1000,
        15,
        [
            "--i",
            f"{shared}/apoferritin/micrographs_ctf.star",
            "--diameter",
            "130",
            "--templates",
            f"{shared}/apoferritin/templates.mrcs",
        ],
    )
assert not failed, "\n".join(failed)
