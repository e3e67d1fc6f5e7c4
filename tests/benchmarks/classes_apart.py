#!/usr/bin/env python3
"""Sorts particles of a molecule and of the same without one domain into classes, from one reference.

  classes_apart.py WORK --refiner PROGRAM [--shared ../shared] [--kinds missing,alike,noise] [--seeds 10] [--jobs 2]
                   [--share 0.21] [--particles 400] [--snr 0.6] [--orders 2] [--classes 2] [-- OPTION...]

missing: half of the particles (--lacking) lack a domain: `share` of the molecule's mass, the ball that grows from its far end.
alike:   all particles are the whole molecule.
noise:   no particle is there.
Each seed is a set of its own, and the seed of its classification. The reference is the whole molecule, low-passed
to 50 Å by the refiner. --relion 2 runs relion_refine on the first two sets as well. OPTIONs go to the refiner.
Prints for each run the share put right under the best naming of the classes (the mean over both kinds of particles), the
classes' shares, what the classes have in common (FSC between the first two maps, mean to 25 Å), how like the reference they
are (likewise, the mean over classes) and seconds.
Needs numpy and scipy, and `shared/data/maps` with `shared/tools`.
"""
import argparse
import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pool

import numpy as np

BOX = 84
SIM = None


def load_simulator(path):
    spec = importlib.util.spec_from_file_location("simulate_particles", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def crop(volume, box):
    """Makes the map coarser by cutting its transform."""
    n, half = volume.shape[0], box // 2
    f = np.fft.fftshift(np.fft.fftn(np.fft.ifftshift(volume)))
    f = f[(slice(n // 2 - half, n // 2 + half),) * 3]
    k = np.arange(box) - half
    f[np.sqrt(k[:, None, None] ** 2 + k[:, None] ** 2 + k**2) > half - 1] = 0
    return (np.fft.fftshift(np.fft.ifftn(np.fft.ifftshift(f))).real * (box / n) ** 3).astype(np.float32)


def without_domain(volume, share):
    """Removes the ball around the far end of the map that holds this share of its mass, with an edge of 3 px."""
    mass = np.where(volume > 0.1 * volume.max(), volume, 0).astype(np.float64)
    places = np.indices(volume.shape).astype(np.float64)
    centre = (places * mass).sum((1, 2, 3)) / mass.sum()
    from_centre = np.sqrt(((places - centre[:, None, None, None]) ** 2).sum(0))
    far = np.unravel_index(np.argmax(np.where(mass > 0, from_centre, 0)), volume.shape)
    distance = np.sqrt(((places - np.array(far)[:, None, None, None]) ** 2).sum(0))
    order = np.argsort(distance.ravel())
    held = np.cumsum(mass.ravel()[order]) / mass.sum()
    radius = distance.ravel()[order[np.searchsorted(held, share)]]
    edge = np.clip((distance - radius) / 3 + 0.5, 0, 1)
    return (volume * edge).astype(np.float32)


def particle(index):
    return SIM.particle(index)


def make_set(folder, maps, pixel, a, seed, kind):
    """Writes particles.star, truth.txt (the map of each particle) and the stack; returns nothing."""
    if os.path.exists(folder + "/truth.txt"):
        return
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(seed)
    options = argparse.Namespace(
        seed=seed, shift=2.0, diameter=a.diameter, snr=a.snr, defocus=(10000, 25000), astig=300, kv=300, cs=2.7,
        ac=0.1, bfac=60, ice=0.3, sigma=0)  # fmt: skip
    projectors = [SIM.Projector(m) for m in maps]
    inside = np.hypot(*np.meshgrid(*[np.arange(BOX) - BOX // 2] * 2)) < a.diameter / pixel / 2
    options.sigma = float(np.sqrt(np.mean([projectors[0].project(*SIM.view(rng))[inside].var() for _ in range(50)])))
    if kind == "noise":
        options.sigma = 1e9
    lacks = [int((i + 1) * a.lacking) > int(i * a.lacking) for i in range(a.particles)]
    which = [int(kind == "missing" and lack) for lack in lacks]
    images, rows = [None] * a.particles, [None] * a.particles
    for k, projector in enumerate(projectors):
        SIM.G = (options, projector, pixel)
        mine = [i for i in range(a.particles) if which[i] == k]
        with Pool(a.cores) as pool:
            for i, (image, row) in zip(mine, pool.map(particle, mine, chunksize=25)):
                images[i], rows[i] = image, row
    SIM.write_mrc(folder + "/particles.mrcs", np.stack(images), pixel, True)
    optics = dict(
        OpticsGroupName="opticsGroup1", OpticsGroup=1, MicrographPixelSize=pixel, MicrographOriginalPixelSize=pixel,
        Voltage=300, SphericalAberration=2.7, AmplitudeContrast=0.1, ImagePixelSize=pixel, ImageSize=BOX,
        ImageDimensionality=2, CtfDataAreCtfPremultiplied=0)  # fmt: skip
    columns = ["ImageName", "MicrographName", "DefocusU", "DefocusV", "DefocusAngle", "OpticsGroup"]
    keep = [0, 1, 7, 8, 9, 11]
    SIM.star(folder + "/particles.star", optics, "particles", columns, [[r[k] for k in keep] for r in rows])
    np.savetxt(folder + "/truth.txt", which, "%d")


def read_classes(path, count):
    """Returns the class number, from 0, of each image of a particle table."""
    columns, classes, inside = {}, np.full(count, -1), False
    for line in open(path):
        words = line.split()
        if line.startswith("data_"):
            inside, columns = line.startswith("data_particles"), {}
        elif inside and line.startswith("_rln"):
            columns[words[0][4:]] = len(columns)
        elif inside and len(words) >= len(columns) > 0:
            classes[int(words[columns["ImageName"]].split("@")[0]) - 1] = int(words[columns["ClassNumber"]]) - 1
    return classes


def put_right(truth, classes, count):
    names = max(2, count)
    kinds = [classes[truth == t] for t in (0, 1)]
    return max(
        np.mean([np.mean([naming[c] == t for c in kinds[t]]) for t in (0, 1) if len(kinds[t])])
        for naming in itertools.product(range(2), repeat=names)
    )


def in_common(paths, pixel):
    """Mean FSC of two maps from shell 2 to 25 Å."""
    f = [np.fft.fftshift(np.fft.fftn(SIM.read_mrc(p)[0])) for p in paths]
    k = np.arange(BOX) - BOX // 2
    shells = np.rint(np.sqrt(k[:, None, None] ** 2 + k[:, None] ** 2 + k**2)).astype(int)
    values = []
    for s in range(2, int(BOX * pixel / 25) + 1):
        x, y = f[0][shells == s], f[1][shells == s]
        values.append((x * y.conj()).real.sum() / np.sqrt((abs(x) ** 2).sum() * (abs(y) ** 2).sum() + 1e-30))
    return np.mean(values)


def run_one(job):
    a, kind, seed, order, pixel, folder, program = job
    out = f"{folder}/{a.name}_{program}_o{order}_k{a.classes}"
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    begun = time.time()
    environment = dict(os.environ, OMP_NUM_THREADS=str(a.threads))
    if program == "icestream":
        command = [a.refiner, "--i", folder + "/particles.star", "--o", out, "--reference", a.work + "/whole.mrc",
                   "--diameter", str(a.diameter), "--initial_lowpass", "50", "--classes", str(a.classes),
                   "--healpix_order", str(order), "--iterations", str(a.iterations), "--seed", str(seed),
                   "--threads", str(a.threads), "--memory", str(a.memory), "--keep_iterations", "1"] + a.options  # fmt: skip
        cwd = None
    else:
        command = ["relion_refine", "--i", "particles.star", "--o", out + "/run", "--ref", a.work + "/whole.mrc",
                   "--particle_diameter", str(a.diameter), "--ini_high", "50", "--K", str(a.classes),
                   "--healpix_order", str(order), "--iter", str(a.iterations), "--random_seed", str(seed), "--ctf",
                   "--firstiter_cc", "--flatten_solvent", "--zero_mask", "--oversampling", "1", "--offset_range", "5",
                   "--offset_step", "2", "--norm", "--scale", "--tau2_fudge", "4", "--pad", "2", "--j",
                   str(a.threads), "--dont_check_norm"]  # fmt: skip
        cwd = folder
    with open(out + ".log", "w") as log:
        code = subprocess.run(command, stdout=log, stderr=log, env=environment, cwd=cwd).returncode
    if code != 0:
        return (kind, seed, order, program, None, open(out + ".log").read()[-300:], 0, 0, 0)
    last = f"run_it{a.iterations:03d}_"
    table = out + "/run_data.star" if program == "icestream" else f"{out}/{last}data.star"
    truth = np.loadtxt(folder + "/truth.txt", dtype=int)
    classes = read_classes(table, len(truth))
    shares = [np.mean(classes == k) for k in range(a.classes)]
    stem = out + ("/run_" if program == "icestream" else f"/{last}")
    maps = [f"{stem}class{k:03d}.mrc" for k in range(1, a.classes + 1)]
    like = np.mean([in_common([m, a.work + "/whole.mrc"], pixel) for m in maps])
    return (kind, seed, order, program, put_right(truth, classes, a.classes), shares, in_common(maps[:2], pixel), like,
            time.time() - begun)  # fmt: skip


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    p.add_argument("work")
    p.add_argument("--refiner", required=True)
    p.add_argument("--shared", default=os.path.join(here, "../../../shared"))
    p.add_argument("--map", default="cand1_1u6g_128")
    p.add_argument("--diameter", type=float, default=170, help="Å")
    p.add_argument("--kinds", default="missing")
    p.add_argument("--first_seed", type=int, default=1)
    p.add_argument("--seeds", type=int, default=10)
    p.add_argument("--share", type=float, default=0.21)
    p.add_argument("--lacking", type=float, default=0.5, help="share of the particles that lack the domain")
    p.add_argument("--particles", type=int, default=400)
    p.add_argument("--snr", type=float, default=0.6)
    p.add_argument("--orders", default="2")
    p.add_argument("--classes", type=int, default=2)
    p.add_argument("--iterations", type=int, default=25)
    p.add_argument("--jobs", type=int, default=1, help="classifications at once")
    p.add_argument("--threads", type=int, default=1, help="of each")
    p.add_argument("--cores", type=int, default=2, help="for making particles")
    p.add_argument("--memory", type=float, default=4)
    p.add_argument("--relion", type=int, default=0, help="sets that RELION sorts as well")
    p.add_argument("--only_relion", action="store_true")
    p.add_argument("--name", default="run")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    a = p.parse_args(sys.argv[1:split])
    a.options = sys.argv[split + 1 :]
    return a


def main():
    global SIM
    a = parse()
    a.work = os.path.abspath(a.work)
    SIM = load_simulator(a.shared + "/tools/simulate_particles.py")
    sys.modules["simulate_particles"] = SIM
    whole, pixel = SIM.read_mrc(f"{a.shared}/data/maps/{a.map}.mrc")
    pixel *= whole.shape[0] / BOX
    whole = crop(whole - np.median(whole), BOX)
    lacking = without_domain(whole, a.share)
    os.makedirs(a.work, exist_ok=True)
    SIM.write_mrc(a.work + "/whole.mrc", whole, pixel)
    SIM.write_mrc(a.work + "/lacking.mrc", lacking, pixel)
    jobs, found = [], {}
    for kind in a.kinds.split(","):
        for seed in range(a.first_seed, a.first_seed + a.seeds):
            folder = f"{a.work}/{a.map}_{kind}_{a.share:g}_{a.lacking:g}_{a.particles}_{a.snr:g}_{seed}"
            make_set(folder, [whole, lacking], pixel, a, seed, kind)
            for order in [int(o) for o in a.orders.split(",")]:
                if not a.only_relion:
                    jobs.append((a, kind, seed, order, pixel, folder, "icestream"))
                if seed < a.first_seed + a.relion:
                    jobs.append((a, kind, seed, order, pixel, folder, "relion"))
    with ThreadPoolExecutor(a.jobs) as pool:
        for kind, seed, order, program, right, shares, common, like, seconds in pool.map(run_one, jobs):
            if right is None:
                print(f"{kind} seed {seed} order {order} {program}: failed: {shares}", flush=True)
                continue
            parts = " : ".join(f"{s:.2f}" for s in sorted(shares, reverse=True))
            print(f"{kind} seed {seed} order {order} {program}: {right:.3f} right, classes {parts}, common {common:.3f}, "
                  f"like {like:.3f}, {seconds:.0f} s", flush=True)  # fmt: skip
            found.setdefault((kind, order, program), []).append((right, max(shares), common, like))
    for (kind, order, program), rows in found.items():
        mean = np.mean(rows, 0)
        print(f"{kind}, order {order}, {program}, {len(rows)} sets: {mean[0]:.3f} right (least {min(r[0] for r in rows):.3f}), "
              f"largest class {mean[1]:.2f}, common {mean[2]:.3f}, like {mean[3]:.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
