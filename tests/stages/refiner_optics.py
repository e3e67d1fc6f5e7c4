#!/usr/bin/python3
"""Tests refinements of particles with aberrations and of two grids, from start to end: each must agree with the true map
as particles of one grid without aberrations do; ignored aberrations must not. RELION reads what is written. Exits with
77 if the Python modules are missing; what RELION reads is left out where it is missing."""

import os
import shutil
import subprocess
import sys
import tempfile

try:
    import mrcfile
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from relion_files import matrix  # noqa: E402

BIN = os.environ["ICESTREAM_BIN"]
SEED, COUNT, FINE, COARSE, EXTENT, DIAMETER = 11, 240, 48, 36, 144.0, 100
WAVE = 0.0196876  # Å at 300 kV
failures = []


def check(what, ok, value):
    print(f"{'ok  ' if ok else 'FAIL'} {what}: {value}")
    if not ok:
        failures.append(what)


class World:
    """Blobs, whose projections are known at any frequency, and the views of all particles."""

    def __init__(self):
        random = self.random = np.random.default_rng(SEED)
        self.places = random.normal(size=(24, 3)) * [17, 14, 11]
        self.weights = random.uniform(0.5, 1.5, 24)
        self.width = 3.2
        self.turns = [
            matrix(
                random.uniform(0, 360),
                np.degrees(np.arccos(random.uniform(-1, 1))),
                random.uniform(0, 360),
            )
            for _ in range(COUNT)
        ]
        self.shifts = random.uniform(-4, 4, (COUNT, 2))
        self.defoci = random.uniform(8000, 16000, COUNT)

    def projection(self, i, x, y):
        """Returns the transform of the view at frequencies in 1/Å."""
        spots = self.places @ self.turns[i].T
        total = 0
        for spot, weight in zip(spots, self.weights):
            total = total + weight * np.exp(-2j * np.pi * (x * spot[0] + y * spot[1]))
        return total * np.exp(-2 * (np.pi * self.width) ** 2 * (x * x + y * y))

    def volume(self, box):
        c = (np.arange(box) - box // 2) * EXTENT / box
        z, y, x = np.meshgrid(c, c, c, indexing="ij")
        return sum(
            w * np.exp(-((x - p[0]) ** 2 + (y - p[1]) ** 2 + (z - p[2]) ** 2) / (2 * self.width**2))
            for p, w in zip(self.places, self.weights)
        )

    def image(self, i, box, m=((1, 0), (0, 1)), tilt=(0, 0), odd=0, even=0):
        """X(k) = exp(iφ(Mk)) CTF(Mk) P(Mk), shifted. odd: coefficient of Z(3, 3); even: of Z(4, 2)."""
        pixel, wave2 = EXTENT / box, WAVE * WAVE
        ky, kx = np.meshgrid(np.fft.fftfreq(box, pixel), np.fft.fftfreq(box, pixel), indexing="ij")
        x, y = m[0][0] * kx + m[0][1] * ky, m[1][0] * kx + m[1][1] * ky
        r2, angle = x * x + y * y, np.arctan2(y, x)
        phase = -2 * np.pi * 2.7e7 * wave2 * r2 * (x * tilt[0] + y * tilt[1]) * 1e-3 + odd * r2**1.5 * np.cos(
            3 * angle
        )
        gamma = -np.pi * WAVE * self.defoci[i] * r2 + np.pi / 2 * 2.7e7 * WAVE**3 * r2**2 - np.arcsin(0.1)
        gamma = gamma + even * (4 * r2 - 3) * r2 * np.cos(2 * angle)
        shift = np.exp(-2j * np.pi * (kx * self.shifts[i][0] + ky * self.shifts[i][1]))
        image = np.fft.ifft2(self.projection(i, x, y) * -np.sin(gamma) * np.exp(1j * phase) * shift)
        # The density of the signal is the same on any grid; the noise of a detector's pixel is not.
        return np.fft.fftshift(image.real) * (box / FINE) ** 2


def write_stack(name, images, box):
    with mrcfile.new(name, overwrite=True) as file:
        file.set_data(np.array(images, np.float32))
        file.voxel_size = EXTENT / box


def noisy(world, image, box):
    """Adds noise, and normalises as an extraction does."""
    image = image + 0.06 * box / FINE * world.random.normal(size=image.shape)
    c = np.arange(box) - box // 2
    rim = np.hypot(*np.meshgrid(c, c)) > DIAMETER / 2 / (EXTENT / box)
    return (image - image[rim].mean()) / image[rim].std()


def write_table(name, columns, groups, rows):
    fixed = [
        "OpticsGroup",
        "OpticsGroupName",
        "Voltage",
        "SphericalAberration",
        "AmplitudeContrast",
    ]
    fixed += ["ImagePixelSize", "ImageSize", "ImageDimensionality"]
    with open(name, "w") as out:
        out.write("# version 30001\n\ndata_optics\n\nloop_\n" + "".join(f"_rln{c}\n" for c in fixed + columns))
        for number, (box, values) in enumerate(groups, 1):
            out.write(f"{number} og{number} 300 2.7 0.1 {EXTENT / box} {box} 2 {' '.join(values)}\n")
        names = [
            "ImageName",
            "MicrographName",
            "OpticsGroup",
            "DefocusU",
            "DefocusV",
            "DefocusAngle",
        ]
        out.write("\n# version 30001\n\ndata_particles\n\nloop_\n" + "".join(f"_rln{c}\n" for c in names))
        out.write("".join(rows) + "\n")


def row(world, i, stack, group):
    return f"{i + 1:06d}@{stack} m{i // 40}.mrc {group} {world.defoci[i]:.1f} {world.defoci[i]:.1f} 0\n"


def refine(table, folder, *options):
    command = [
        f"{BIN}/icestream-refiner",
        "--i",
        table,
        "--o",
        folder,
        "--threads",
        "1",
        "--diameter",
        str(DIAMETER),
    ]
    command += [
        "--reference",
        "reference.mrc",
        "--initial_lowpass",
        "30",
        "--offset_range",
        "4",
        *options,
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"icestream-refiner came back with {run.returncode}: {run.stderr[-2000:]}")
    return run.stderr


def agreement(world, folder):
    """Returns the mean FSC with the true map from 12 Å to 8.2 Å."""
    with mrcfile.open(f"{folder}/run_class001.mrc", permissive=True) as file:
        found = np.fft.fftn(file.data.astype(float))
    box = found.shape[0]
    true = np.fft.fftn(world.volume(box))
    k = np.fft.fftfreq(box, 1 / box)
    shell = np.rint(np.sqrt(sum(g * g for g in np.meshgrid(k, k, k, indexing="ij")))).astype(int)
    curve = []
    for s in range(int(EXTENT / 12), int(EXTENT / 8.2) + 1):
        at = shell == s
        cross = (found[at] * true[at].conj()).sum().real
        curve.append(cross / np.sqrt((abs(found[at]) ** 2).sum() * (abs(true[at]) ** 2).sum()))
    return float(np.mean(curve))


def map_at_our_poses(table, folder):
    """Lets relion_refine make a map from the poses of a table, which may have images of several grids."""
    os.makedirs(folder, exist_ok=True)
    command = [
        "relion_refine",
        "--i",
        table,
        "--o",
        f"{folder}/run",
        "--ref",
        "reference.mrc",
        "--ini_high",
        "7",
    ]
    command += [
        "--iter",
        "1",
        "--K",
        "1",
        "--tau2_fudge",
        "4",
        "--particle_diameter",
        str(DIAMETER),
        "--skip_align",
    ]
    command += [
        "--ctf",
        "--zero_mask",
        "--flatten_solvent",
        "--angpix",
        str(EXTENT / FINE),
    ]
    subprocess.run(command, capture_output=True, check=True)
    os.replace(f"{folder}/run_it001_class001.mrc", f"{folder}/run_class001.mrc")


def main():
    world = World()
    with mrcfile.new("reference.mrc") as file:
        file.set_data(world.volume(FINE).astype(np.float32))
        file.voxel_size = EXTENT / FINE
    write_stack(
        "fine.mrcs",
        [noisy(world, world.image(i, FINE), FINE) for i in range(COUNT)],
        FINE,
    )
    write_stack(
        "coarse.mrcs",
        [noisy(world, world.image(i, COARSE), COARSE) for i in range(COUNT)],
        COARSE,
    )
    seen = {
        "m": ((1.03, 0.01), (0.02, 0.97)),
        "tilt": (30, -20),
        "odd": 500,
        "even": 60,
    }
    write_stack(
        "seen.mrcs",
        [noisy(world, world.image(i, FINE, **seen), FINE) for i in range(COUNT)],
        FINE,
    )
    write_table(
        "one.star",
        [],
        [(FINE, [])],
        [row(world, i, "fine.mrcs", 1) for i in range(COUNT)],
    )
    mixed = [row(world, i, *(("fine.mrcs", 1) if i % 2 else ("coarse.mrcs", 2))) for i in range(COUNT)]
    write_table("two.star", [], [(FINE, []), (COARSE, [])], mixed)
    columns = [
        "BeamTiltX",
        "BeamTiltY",
        "MagMat00",
        "MagMat01",
        "MagMat10",
        "MagMat11",
        "OddZernike",
        "EvenZernike",
    ]
    values = [
        "30",
        "-20",
        "1.03",
        "0.01",
        "0.02",
        "0.97",
        "[0,0,0,0,0,500]",
        "[0,0,0,0,0,0,0,60]",
    ]
    write_table(
        "seen.star",
        columns,
        [(FINE, values)],
        [row(world, i, "seen.mrcs", 1) for i in range(COUNT)],
    )
    refine("one.star", "one")
    plain = agreement(world, "one")
    check("one grid, no aberrations", plain > 0.5, f"FSC {plain:.3f}")
    told = refine("two.star", "two")
    both = agreement(world, "two")
    check("two grids reach what one does", both > plain - 0.05, f"FSC {both:.3f}")
    check("resampling is told", "are resampled to the 48 px of 3 Å" in told, told[:200])
    refine("seen.star", "seen")
    corrected = agreement(world, "seen")
    check("aberrations are corrected", corrected > plain - 0.05, f"FSC {corrected:.3f}")
    refine("seen.star", "ignored", "--ignore_optics")
    ignored = agreement(world, "ignored")
    check("ignored aberrations are not", ignored < corrected - 0.1, f"FSC {ignored:.3f}")
    if shutil.which("relion_reconstruct") is None:
        print("left out: no RELION")
        return
    for table in ("seen/run_data.star", "one/run_data.star"):
        command = [
            "relion_reconstruct",
            "--i",
            table,
            "--o",
            "relion/run_class001.mrc",
            "--ctf",
        ]
        os.makedirs("relion", exist_ok=True)
        subprocess.run(command, capture_output=True, check=True)
        found = agreement(world, "relion")
        check(f"RELION reconstructs {table}", found > plain - 0.1, f"FSC {found:.3f}")
    if shutil.which("relion_refine") is None:
        print("left out: no relion_refine")
        return
    map_at_our_poses("two/run_data.star", "relion_two")
    found = agreement(world, "relion_two")
    check(
        "RELION makes a map of two grids from our poses",
        found > plain - 0.1,
        f"FSC {found:.3f}",
    )


if __name__ == "__main__":
    folder = tempfile.mkdtemp(prefix="icestream-optics-")
    os.chdir(folder)
    main()
    if failures:
        sys.exit(f"{len(failures)} failed; files kept in {folder}")
    shutil.rmtree(folder)
