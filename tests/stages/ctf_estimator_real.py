#!/usr/bin/env python3
"""Estimates the CTF of real micrographs and compares it with independent fits: ten of apoferritin, one of which drifted, and
one with an FEI header. The nine tiles of an apoferritin micrograph show no tilt."""

import json
import os
import subprocess
import sys
import tempfile

DATA = os.environ["ICESTREAM_DATA"]
PROGRAM = os.path.join(os.environ["ICESTREAM_BIN"], "icestream-ctf-estimator")
if not os.path.isdir(f"{DATA}/apoferritin"):
    print(f"skipped: no {DATA}/apoferritin")
    sys.exit(77)
DRIFTED = "May08_06_09_02"


def rows(path):
    """The rows of the table of micrographs, by the micrograph's name, as dictionaries of texts."""
    columns, found, inside = [], {}, False
    for line in open(path):
        words = line.split()
        if words and words[0].startswith("data_"):
            inside, columns = words[0] == "data_micrographs", []
        elif inside and words and words[0].startswith("_"):
            columns.append(words[0][1:])
        elif inside and columns and len(words) == len(columns):
            row = dict(zip(columns, words))
            found[os.path.basename(row["rlnMicrographName"]).rsplit(".", 1)[0]] = row
    return found


def mean(row):
    return (float(row["rlnDefocusU"]) + float(row["rlnDefocusV"])) / 2


def estimate(micrographs, folder, *arguments):
    subprocess.run([PROGRAM, "--i", micrographs, "--o", folder, *arguments], check=True, stderr=subprocess.DEVNULL)
    return rows(f"{folder}/micrographs_ctf.star")


with tempfile.TemporaryDirectory(prefix="icestream-ctf-") as folder:
    found = estimate(
        f"{DATA}/apoferritin/micrographs", f"{folder}/apo", "--pixel_size", "1.5", "--amplitude_contrast", "0.07"
    )
    known = rows(f"{DATA}/apoferritin/micrographs_ctf.star")
    assert sorted(found) == sorted(known) and len(found) == 10, sorted(found)
    for name, row in sorted(found.items()):
        resolution, score = float(row["rlnCtfMaxResolution"]), float(row["rlnCtfFigureOfMerit"])
        off = mean(row) - mean(known[name])
        angle = abs(float(row["rlnDefocusAngle"]) - float(known[name]["rlnDefocusAngle"])) % 180
        angle = min(angle, 180 - angle)
        print(f"{name}: {mean(row):.0f} Å, off by {off:.0f} Å, angle by {angle:.0f}°, score {score}, to {resolution} Å")
        if name == DRIFTED:
            assert resolution == 25 and score < 0.1, row
            with open(f"{folder}/apo/{name}_ctf.json") as file:
                assert "did the sample drift" in json.load(file)["reason"]
            continue
        assert abs(off) < max(300, 0.03 * mean(known[name])), row
        assert resolution < 8 and score > 0.1, row
        with open(f"{folder}/apo/{name}_ctf.json") as file:
            tilt = json.load(file)["tilt"]
        print(f"    tilt: {tilt}")
        assert not tilt["significant"] and tilt["angle"] == 0 and tilt["chance"] > 0.003, tilt
        assert float(row["icestreamTiltAngle"]) == 0 and float(row["icestreamTiltAxis"]) == 0, row
        astigmatism = float(known[name]["rlnDefocusU"]) - float(known[name]["rlnDefocusV"])
        assert astigmatism < 300 or angle < 20, row
        for ending in ("_ctf.png", "_ctf.json"):
            assert os.path.getsize(f"{folder}/apo/{name}{ending}") > 1000
    row = estimate(f"{DATA}/mrcfile/fei-extended.mrc", f"{folder}/fei")["fei-extended"]
    print(f"fei-extended: {mean(row):.0f} Å, to {row['rlnCtfMaxResolution']} Å")
    assert 10300 < mean(row) < 11300, row
