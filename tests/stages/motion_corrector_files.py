#!/usr/bin/env python3
"""The motion-corrector on files: it finds the drift of simulated movies, through a gain with dead pixels and a hot one;
its sums are sharper than the sum of the frames as they are; half sets add up; sizes, pixel sizes, tables and columns are
right; a STAR file, a TIFF, binning and a part of the frames work. Its table goes into the ctf-estimator."""

import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from motion_movies import camera, movie, read_mrc, shifts, star, write_mrc, write_tiff

BIN = os.environ["ICESTREAM_BIN"]
SIZE, FRAMES, PIXEL = 384, 12, 1.2
seed = int(sys.argv[1]) if len(sys.argv) > 1 else 20
print(f"seed {seed}")

OPTICS = """
data_optics

loop_
_rlnOpticsGroupName #1
_rlnOpticsGroup #2
_rlnMicrographOriginalPixelSize #3
_rlnVoltage #4
_rlnSphericalAberration #5
_rlnAmplitudeContrast #6
opticsGroup1 1 1.2 300 2.7 0.1
grid2 2 1.2 200 1.4 0.07

data_movies

loop_
_rlnMicrographMovieName #1
_rlnOpticsGroup #2
_rlnMicrographPreExposure #3
"""


def correct(folder, given, out, *arguments):
    done = subprocess.run(
        [f"{BIN}/icestream-motion-corrector", "--i", given, "--o", out, *arguments], cwd=folder, stderr=subprocess.PIPE,
        text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


def off(path, positions):
    """The distance of the frames' positions from the truth, px RMS."""
    found = -shifts(path)
    wrong = found - (positions - positions[0])
    return np.sqrt((wrong**2).sum(axis=1).mean())


def power(image):
    """Power of an image from 1/20 to 1/6 of a cycle a pixel, where the specimen is, over that of its noise beyond."""
    centre = image[40:-40, 40:-40]
    spectrum = np.abs(np.fft.fft2((centre - centre.mean()) * np.outer(*[np.hanning(centre.shape[0])] * 2))) ** 2
    k = np.hypot(np.fft.fftfreq(centre.shape[0])[:, None], np.fft.fftfreq(centre.shape[0])[None, :])
    return spectrum[(k > 0.12) & (k < 0.2)].mean() / spectrum[k > 0.4].mean()


with tempfile.TemporaryDirectory(prefix="icestream-motion-") as folder:
    os.mkdir(f"{folder}/in")
    gain = camera(SIZE, seed)
    write_mrc(f"{folder}/gain.mrc", gain)
    movies = [movie(SIZE, FRAMES, seed=seed + i, gain=gain) for i in range(2)]
    for counts, _ in movies:
        counts[:, 200, 300] = 200  # hot
    write_mrc(f"{folder}/in/a.mrc", movies[0][0], PIXEL)
    write_tiff(f"{folder}/in/b.tif", [frame[::-1] for frame in movies[1][0]])  # the top line first
    base = ["--gain", "gain.mrc", "--patches", "1,1", "--dose_per_frame", "1.5", "--pixel_size", str(PIXEL)]
    correct(folder, "in", "mc", *base, "--half_sets")
    for name, (counts, positions) in zip("ab", movies):
        error = off(f"{folder}/mc/{name}.star", positions)
        print(f"{name}: {error:.3f} px off")
        assert error < 0.2, error
        image, pixel = read_mrc(f"{folder}/mc/{name}.mrc")
        plain, _ = read_mrc(f"{folder}/mc/{name}_noDW.mrc")
        even, _ = read_mrc(f"{folder}/mc/{name}_EVN.mrc")
        odd, _ = read_mrc(f"{folder}/mc/{name}_ODD.mrc")
        assert image.shape == plain.shape == even.shape == odd.shape == (SIZE, SIZE) and abs(pixel - PIXEL) < 1e-5
        unmoved = (counts * gain).sum(axis=0)
        unmoved[gain == 0] = np.median(unmoved)
        unmoved[200, 300] = np.median(unmoved)
        print(f"power {power(plain):.2f}, without correction {power(unmoved):.2f}")
        assert power(plain) > 1.5 * power(unmoved)
        assert abs(plain.mean() / unmoved.mean() - 1) < 0.01 and plain.max() < 2 * np.percentile(plain, 99.9)
        assert np.corrcoef(even.ravel(), odd.ravel())[0, 1] > 0.5
        assert not np.allclose(image, plain)

        spectrum, effective = read_mrc(f"{folder}/mc/{name}_PS.mrc")
        side = spectrum.shape[0]
        assert spectrum.shape == (side, side) and side % 2 == 0 and 1.4 <= effective < 1.42, (side, effective)
        inside = spectrum[side // 2 - 20 : side // 2 + 20, side // 2 - 20 : side // 2 + 20]
        assert inside.mean() > 1.3 * spectrum[:20, :20].mean(), "zero frequency is not in the middle"

        tables = star(f"{folder}/mc/{name}.star")
        general = tables["general"][0]
        assert (general["rlnImageSizeX"], general["rlnImageSizeZ"]) == (str(SIZE), str(FRAMES))
        assert general["rlnMicrographMovieName"] == f"in/{name}." + ("mrc" if name == "a" else "tif")
        assert general["rlnMicrographGainName"] == "mc/gain.mrc" and float(general["rlnMicrographDoseRate"]) == 1.5
        assert {(float(r["rlnCoordinateX"]), float(r["rlnCoordinateY"])) for r in tables["hot_pixels"]} == {(300, 200)}
        record = json.load(open(f"{folder}/mc/{name}_motion.json"))
        assert len(record["x"]) == FRAMES and record["bad_pixels"] == 1
        assert os.path.getsize(f"{folder}/mc/{name}_motion.png") > 100
    assert np.allclose(read_mrc(f"{folder}/mc/gain.mrc")[0], gain)

    tables = star(f"{folder}/mc/corrected_micrographs.star")
    assert float(tables["optics"][0]["rlnMicrographPixelSize"]) == PIXEL
    for row, (_, positions) in zip(tables["micrographs"], movies):
        name = os.path.basename(row["rlnMicrographName"])[0]
        assert row["rlnMicrographName"] == f"mc/{name}.mrc" and row["rlnMicrographMetadata"] == f"mc/{name}.star"
        assert row["rlnCtfPowerSpectrum"] == f"mc/{name}_PS.mrc"
        length = PIXEL * np.hypot(*np.diff(shifts(f"{folder}/mc/{name}.star"), axis=0).T).sum()
        total, early, late = (float(row[f"icestreamMotion{part}"]) for part in ("Total", "Early", "Late"))
        assert abs(total - length) < 1e-3 and abs(early + late - total) < 1e-3 and early > 0 and late > 0
        assert abs(float(row["rlnAccumMotionTotal"]) * PIXEL - total) < 1e-3

    # Without doses there are no weights; half sets then add up to the sum.
    said = correct(folder, "in/a.mrc", "plain", "--gain", "gain.mrc", "--patches", "1,1", "--half_sets", "--bin", "2")
    assert "no-dose" in said and not os.path.exists(f"{folder}/plain/a_noDW.mrc")
    image, pixel = read_mrc(f"{folder}/plain/a.mrc")
    halves = read_mrc(f"{folder}/plain/a_EVN.mrc")[0] + read_mrc(f"{folder}/plain/a_ODD.mrc")[0]
    assert image.shape == (SIZE // 2, SIZE // 2) and abs(pixel - 2 * PIXEL) < 1e-5
    assert np.allclose(image, halves, atol=1e-3 * image.std()), np.abs(image - halves).max()

    # A STAR file says which optics a movie has; the weights of 200 kV differ, and so does what came before.
    open(f"{folder}/movies.star", "w").write(OPTICS + "in/a.mrc 2 7.5\n")
    correct(folder, "movies.star", "table", "--gain", "gain.mrc", "--patches", "1,1", "--dose_per_frame", "1.5",
            "--first_frame", "3", "--last_frame", "10")  # fmt: skip
    tables = star(f"{folder}/table/in/a.star")
    assert float(tables["general"][0]["rlnVoltage"]) == 200
    assert float(tables["general"][0]["rlnMicrographPreExposure"]) == 7.5
    assert [row["rlnMicrographFrameNumber"] for row in tables["global_shift"]] == [str(i) for i in range(3, 11)]
    assert off(f"{folder}/table/in/a.star", movies[0][1][2:10]) < 0.2
    optics = star(f"{folder}/table/corrected_micrographs.star")["optics"]
    assert [row["rlnOpticsGroupName"] for row in optics] == ["grid2"] and float(optics[0]["rlnVoltage"]) == 200

    done = subprocess.run([f"{BIN}/icestream-ctf-estimator", "--i", "mc/corrected_micrographs.star", "--o", "ctf"],
                          cwd=folder, stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = star(f"{folder}/ctf/micrographs_ctf.star")["micrographs"]
    assert all(row["rlnMicrographMetadata"].startswith("mc/") and "rlnDefocusU" in row for row in rows), rows
