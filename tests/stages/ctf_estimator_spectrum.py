#!/usr/bin/env python3
"""The ctf-estimator takes the spectrum of a movie where a table names one, not the micrograph: the two were made with
different defoci. Broken spectra fail alone, with their reasons. A spectrum at a pixel size of its own gives the CTF that
its frames have. With `local` the micrograph is read as well. More noise
in the frames makes the fit's resolution coarser."""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np

PROGRAM = os.path.join(os.environ["ICESTREAM_BIN"], "icestream-ctf-estimator")
SIZE, PIXEL, BOX = 1024, 1.3, 512
seed = int(sys.argv[1]) if len(sys.argv) > 1 else 20
random = np.random.default_rng(seed)
print(f"seed {seed}")


def write(path, image, pixel_size):
    header = np.zeros(256, "<i4")
    header[:4] = image.shape[1], image.shape[0], 1, 2
    header[7:10] = image.shape[1], image.shape[0], 1
    header[10:13] = np.array([image.shape[1] * pixel_size, image.shape[0] * pixel_size, pixel_size], "<f4").view("<i4")
    header[52] = int.from_bytes(b"MAP ", "little")
    header[53] = 0x4444
    with open(path, "wb") as file:
        file.write(header.tobytes())
        file.write(image.astype("<f4").tobytes())


def ctf(size, u, v, angle):
    wavelength, aberration = 0.019687, 2.7e7
    k = np.fft.fftfreq(size, PIXEL)
    kx, ky = np.meshgrid(k, k)
    k2 = kx**2 + ky**2
    defocus = (u + v) / 2 + (u - v) / 2 * np.cos(2 * (np.arctan2(ky, kx) - np.radians(angle)))
    phase = np.pi * wavelength * defocus * k2 - np.pi / 2 * aberration * wavelength**3 * k2**2 + np.arcsin(0.1)
    return np.sin(phase) * np.exp(-25 * k2)


def image(u, v, angle):
    specimen = np.fft.fft2(random.standard_normal((SIZE, SIZE)))
    return np.fft.ifft2(specimen * ctf(SIZE, u, v, angle)).real


def spectrum(clean, noise=1.5):
    """The root of the mean power of tiles of eight noisy frames, zero frequency in the middle."""
    power = np.zeros((BOX, BOX))
    window = np.outer(np.hanning(BOX), np.hanning(BOX))
    for _ in range(8):
        frame = clean + noise * random.standard_normal(clean.shape)
        for y in range(0, SIZE - BOX + 1, BOX // 2):
            for x in range(0, SIZE - BOX + 1, BOX // 2):
                power += np.abs(np.fft.fft2(frame[y : y + BOX, x : x + BOX] * window)) ** 2
    return np.fft.fftshift(np.sqrt(power))


def crop(centred, side):
    first = (BOX - side) // 2
    return centred[first : first + side, first : first + side]


def rows(path):
    columns, found, inside = [], {}, False
    for line in open(path):
        words = line.split()
        if words and words[0].startswith("data_"):
            inside, columns = words[0] == "data_micrographs", []
        elif inside and words and words[0].startswith("_"):
            columns.append(words[0][1:])
        elif inside and columns and len(words) == len(columns):
            row = dict(zip(columns, words))
            found[os.path.basename(row["rlnMicrographName"])[:-4]] = row
    return found


with tempfile.TemporaryDirectory(prefix="icestream-ctf-") as folder:
    write(f"{folder}/other.mrc", image(9000, 9000, 0) + 1.5 * random.standard_normal((SIZE, SIZE)), PIXEL)
    clean = image(16000, 15400, 35)
    whole = spectrum(clean)
    write(f"{folder}/whole_PS.mrc", whole, PIXEL)
    # Cropped as motion correction does: the central part has its Nyquist frequency at larger pixels.
    write(f"{folder}/cropped_PS.mrc", crop(whole, 400), PIXEL * BOX / 400)
    write(f"{folder}/oblong_PS.mrc", whole[:400], PIXEL)
    write(f"{folder}/unscaled_PS.mrc", whole, 0)
    broken = whole.copy()
    broken[7, 5] = np.nan
    write(f"{folder}/broken_PS.mrc", broken, PIXEL)
    write(f"{folder}/same.mrc", clean + 1.5 * random.standard_normal((SIZE, SIZE)), PIXEL)
    names = ["whole", "cropped", "oblong", "unscaled", "broken", "missing", "none"]
    with open(f"{folder}/corrected_micrographs.star", "w") as file:
        file.write("data_optics\n\nloop_\n_rlnOpticsGroupName\n_rlnOpticsGroup\n_rlnMicrographPixelSize\n_rlnVoltage\n")
        file.write(f"_rlnSphericalAberration\n_rlnAmplitudeContrast\nopticsGroup1 1 {PIXEL} 300 2.7 0.1\n\n")
        file.write("data_micrographs\n\nloop_\n_rlnCtfPowerSpectrum\n_rlnMicrographName\n_rlnOpticsGroup\n")
        for name in names:
            os.link(f"{folder}/other.mrc", f"{folder}/{name}.mrc")
            file.write(f"{'None' if name == 'none' else name + '_PS.mrc'} {name}.mrc 1\n")
    run = subprocess.run(
        [PROGRAM, "--i", f"{folder}/corrected_micrographs.star", "--o", f"{folder}/o"], stderr=subprocess.PIPE, text=True
    )
    print(run.stderr)
    assert run.returncode == 3, run.returncode
    for text in ("oblong_PS.mrc: the spectrum of a movie has 512 × 400", "unscaled_PS.mrc: the header",
                 "broken_PS.mrc: pixel (5, 7)", "missing_PS.mrc"):  # fmt: skip
        assert text in run.stderr, text
    found = rows(f"{folder}/o/micrographs_ctf.star")
    assert sorted(found) == ["cropped", "none", "whole"], sorted(found)
    for name, row in sorted(found.items()):
        u, v, angle = (float(row[column]) for column in ("rlnDefocusU", "rlnDefocusV", "rlnDefocusAngle"))
        print(f"{name}: {u:.0f} {v:.0f} {angle:.1f}, to {row['rlnCtfMaxResolution']} Å")
        if name == "none":
            assert abs((u + v) / 2 - 9000) < 200, row
            continue
        assert abs((u + v) / 2 - 15700) < 80 and abs(u - v - 600) < 150 and abs(angle - 35) < 5, row
        assert float(row["rlnCtfMaxResolution"]) < 6, row
    fit = json.load(open(f"{folder}/o/cropped_ctf.json"))
    assert abs(fit["k"][-1] - 0.5 / (PIXEL * BOX / 400)) < 0.001, fit["k"][-1]
    with open(f"{folder}/corrected_micrographs.star") as file:
        head = file.read().split("whole_PS")[0]
    with open(f"{folder}/one.star", "w") as file:
        file.write(f"{head}cropped_PS.mrc same.mrc 1\n")
    run = [PROGRAM, "--i", f"{folder}/one.star", "--o", f"{folder}/local", "--local", "true"]
    subprocess.run(run, check=True, stderr=subprocess.DEVNULL)
    row = rows(f"{folder}/local/micrographs_ctf.star")["same"]
    assert row["rlnDefocusU"] == found["cropped"]["rlnDefocusU"], row
    assert float(row["icestreamTiltAngle"]) < 15, row
    points = [line.split() for line in open(f"{folder}/local/same_local.star") if len(line.split()) == 5]
    offsets = [float(p[2]) - float(row["rlnDefocusU"]) for p in points]
    print(f"local: {len(points)} points, {min(offsets):.0f} to {max(offsets):.0f} Å, tilt {row['icestreamTiltAngle']}°")
    assert len(points) == 16 and max(abs(offset) for offset in offsets) < 150, offsets
    assert abs(float(points[7][2]) - float(points[7][3]) - float(row["rlnCtfAstigmatism"])) < 0.01, points[7]
    with open(f"{folder}/noisy.star", "w") as file:
        file.write(head)
        for noise in (1, 2.5, 5):
            write(f"{folder}/noise{noise}_PS.mrc", spectrum(clean, noise), PIXEL)
            os.link(f"{folder}/other.mrc", f"{folder}/noise{noise}.mrc")
            file.write(f"noise{noise}_PS.mrc noise{noise}.mrc 1\n")
    run = [PROGRAM, "--i", f"{folder}/noisy.star", "--o", f"{folder}/noisy"]
    subprocess.run(run, check=True, stderr=subprocess.DEVNULL)
    resolutions = [float(row["rlnCtfMaxResolution"]) for _, row in sorted(rows(f"{folder}/noisy/micrographs_ctf.star").items())]
    print("resolution with noise 1, 2.5, 5:", *resolutions)
    assert len(resolutions) == 3 and resolutions[0] < resolutions[1] < resolutions[2], resolutions
