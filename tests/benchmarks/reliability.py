#!/usr/bin/python3
"""Whether weighing particles by how their fit changes (`reliability`, Figure 8 of paper 001) sharpens the map: the same
simulated particles, of which a fifth are junk, refined without it and with either norm.

  reliability.py [--particles 500] [--box 40] [--pixel-size 5] [--snr 0.1] [--iterations 12] [--junk 0.2] [--seed 1]
                 [--threads 1]

Half of the junk is noise alone, half is of another structure of the same size, of the same contrast. Prints a table in
Markdown: after each iteration where the map's Fourier shell correlation with the truth falls below 0.5 and that of the
halves below 0.143 (Å, between shells), and at the end the mean weight of good particles and of either junk."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

try:
    import mrcfile
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.environ.get("ICESTREAM_BIN", os.path.join(HERE, "../../build/cpu/bin"))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
from relion_files import read_star  # noqa: E402

VARIANTS = {"off": [], "l2": ["--reliability"], "l2sq": ["--reliability", "--reliability_norm", "l2sq"]}
WIDTH = 1.1  # px: of a blob


def rotation(rot, tilt, psi):
    a, b, c = np.radians([rot, tilt, psi])
    first, last = (np.array([[np.cos(t), np.sin(t), 0], [-np.sin(t), np.cos(t), 0], [0, 0, 1]]) for t in (a, c))
    return last @ np.array([[np.cos(b), 0, -np.sin(b)], [0, 1, 0], [np.sin(b), 0, np.cos(b)]]) @ first


class Simulation:
    def __init__(self, options):
        self.o, self.random = options, np.random.default_rng(options.seed)
        self.axis = np.arange(options.box) - options.box // 2
        self.k2 = sum(k * k for k in np.meshgrid(*2 * [np.fft.fftfreq(options.box, options.pixel_size)], indexing="ij"))

    def structure(self):
        """A chain of blobs inside a ball of 0.3 of the box: positions (px) and weights."""
        points, radius = [np.zeros(3)], 0.3 * self.o.box
        while len(points) < 60:
            step = self.random.normal(size=3)
            after = points[-1] + 2.2 * step / np.linalg.norm(step)
            if np.linalg.norm(after) < radius:
                points.append(after)
        return np.array(points), self.random.uniform(0.5, 1.5, len(points))

    def blobs(self, along):
        return np.exp(-(self.axis[None] - along[:, None]) ** 2 / (2 * WIDTH ** 2))

    def volume(self, structure):
        points, weights = structure
        x, y, z = (self.blobs(points[:, i]) for i in range(3))
        return np.einsum("p,pz,py,px->zyx", weights, z, y, x)

    def image(self, structure, defocus):
        points, weights = structure
        turned = points @ rotation(self.random.uniform(-180, 180), np.degrees(np.arccos(self.random.uniform(-1, 1))),
                                   self.random.uniform(-180, 180)).T
        shift = self.random.uniform(-2, 2, 2)
        x, y = (self.blobs(turned[:, i] + shift[i]) for i in range(2))
        clean = np.einsum("p,py,px->yx", weights, y, x)
        wave = 0.019687  # Å at 300 kV
        phase = np.pi * wave * defocus * self.k2 - np.pi / 2 * 2.7e7 * wave ** 3 * self.k2 ** 2
        ctf = np.sqrt(1 - 0.01) * np.sin(phase) + 0.1 * np.cos(phase)
        return np.fft.ifft2(np.fft.fft2(clean) * ctf).real

    def write(self):
        """p.mrcs, particles.star, truth.mrc; what each particle is: 0 good, 1 noise, 2 of another structure."""
        right, wrong, n = self.structure(), self.structure(), self.o.particles
        kinds = np.zeros(n, int)
        junk = self.random.permutation(n)[: int(self.o.junk * n)]
        kinds[junk[::2]], kinds[junk[1::2]] = 1, 2
        defoci = self.random.uniform(10000, 20000, n)
        images = np.array([self.image(wrong if kind == 2 else right, d) for kind, d in zip(kinds, defoci)])
        scale = images[kinds == 0].std()
        images[kinds == 1] = 0
        images = images / scale + self.random.normal(size=images.shape) / np.sqrt(self.o.snr)
        rim = np.hypot(*np.meshgrid(self.axis, self.axis)) > 0.4 * self.o.box
        images = np.array([(g - g[rim].mean()) / g[rim].std() for g in images])
        truth = self.volume(right)
        for name, data in (("p.mrcs", images), ("truth.mrc", truth)):
            with mrcfile.new(name) as file:
                file.set_data(data.astype(np.float32))
                file.voxel_size = self.o.pixel_size
        optics = ["OpticsGroup", "OpticsGroupName", "Voltage", "SphericalAberration", "AmplitudeContrast",
                  "ImagePixelSize"]
        columns = ["ImageName", "OpticsGroup", "DefocusU", "DefocusV", "DefocusAngle"]
        with open("particles.star", "w") as out:
            out.write("data_optics\n\nloop_\n" + "".join(f"_rln{c}\n" for c in optics) +
                      f"1 og 300 2.7 0.1 {self.o.pixel_size}\n\ndata_particles\n\nloop_\n" +
                      "".join(f"_rln{c}\n" for c in columns) +
                      "".join(f"{i + 1:06d}@p.mrcs 1 {d:.1f} {d:.1f} 0\n" for i, d in enumerate(defoci)) + "\n")
        return truth, kinds


def crossing(curve, limit, extent):
    """Å where a curve first falls below the limit."""
    for shell in range(1, len(curve)):
        if curve[shell] < limit:
            part = (curve[shell - 1] - limit) / (curve[shell - 1] - curve[shell])
            return extent / max(shell - 1 + part, 0.5)
    return extent / (len(curve) - 1)


def correlation(a, b):
    k = np.fft.fftfreq(len(a)) * len(a)
    shell = np.rint(np.sqrt(sum(g * g for g in np.meshgrid(k, k, k, indexing="ij")))).astype(int).ravel()
    fa, fb = np.fft.fftn(a), np.fft.fftn(b)
    cross, one, two = (np.bincount(shell, v.real.ravel()) for v in (fa * fb.conj(), fa * fa.conj(), fb * fb.conj()))
    return (cross / np.sqrt(np.maximum(one * two, 1e-30)))[: len(a) // 2 + 1]


def read_map(path):
    with mrcfile.open(path, permissive=True) as file:
        return file.data.astype(float)


def refine(options, name, truth, ball):
    """Of each iteration: Å with the truth, Å of the halves; and the weights at the end."""
    run = subprocess.run([f"{BIN}/icestream-refiner", "--i", "particles.star", "--o", name, "--reference", "truth.mrc",
                          "--diameter", str(0.75 * options.box * options.pixel_size), "--initial_lowpass", "50",
                          "--healpix_order", "1", "--offset_range", "3", "--min_particles", "1000000",
                          "--max_iterations", str(options.iterations), "--keep_iterations", "1000", "--threads",
                          str(options.threads), *VARIANTS[name]], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"icestream-refiner came back with {run.returncode}: {run.stderr[-2000:]}")
    extent, found = options.box * options.pixel_size, []
    with open(f"{name}/history.jsonl") as history:
        iterations = [json.loads(line)["iteration"] for line in history]
    for i in iterations[:-1]:
        own = crossing(correlation(read_map(f"{name}/run_it{i:03d}_class001.mrc") * ball, truth * ball), 0.5, extent)
        columns, rows = read_star(f"{name}/run_it{i:03d}_half1_model.star", "model_class_1")
        halves = np.array([float(row[columns.index("rlnGoldStandardFsc")]) for row in rows])
        found.append((own, crossing(np.concatenate([[1], halves[1:]]), 0.143, extent)))
    columns, rows = read_star(f"{name}/run_it{iterations[-2]:03d}_data.star", "particles")
    weights = np.ones(options.particles)
    if "rlnParticleReliability" in columns:
        for row in rows:
            index = int(row[columns.index("rlnImageName")].split("@")[0]) - 1
            weights[index] = float(row[columns.index("rlnParticleReliability")])
    return found, weights


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, kind, value in (("particles", int, 500), ("box", int, 40), ("pixel-size", float, 5.0), ("snr", float, 0.1),
                              ("iterations", int, 12), ("junk", float, 0.2), ("seed", int, 1), ("threads", int, 1)):
        parser.add_argument("--" + name, type=kind, default=value)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        truth, kinds = Simulation(options).write()
        axis = np.arange(options.box) - options.box // 2
        ball = sum(g * g for g in np.meshgrid(axis, axis, axis)) < (0.4 * options.box) ** 2
        results = {name: refine(options, name, truth, ball) for name in VARIANTS}
        os.chdir("/")
    print(f"{options.particles} particles of {options.box}², {options.pixel_size:g} Å/px, SNR {options.snr:g}, "
          f"{100 * options.junk:g} % junk, seed {options.seed}; Å with the truth (0.5), of the halves (0.143)\n")
    print("| iteration | " + " | ".join(VARIANTS) + " |\n|---|" + "---|" * len(VARIANTS))
    for i in range(max(len(found) for found, _ in results.values())):
        cells = [f"{found[i][0]:.2f}, {found[i][1]:.2f}" if i < len(found) else "" for found, _ in results.values()]
        print(f"| {i + 1} | " + " | ".join(cells) + " |")
    print("\n| mean weight of | " + " | ".join(VARIANTS) + " |\n|---|" + "---|" * len(VARIANTS))
    for kind, what in enumerate(("good particles", "noise", "another structure")):
        means = [weights[kinds == kind].mean() for _, weights in results.values()]
        print(f"| {what} | " + " | ".join(f"{mean:.4f}" for mean in means) + " |")
    return 0


sys.exit(main())
