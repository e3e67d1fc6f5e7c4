#!/usr/bin/python3
"""Tests that RELION continues from files of the refiner and the classifier, and reconstructs the refiner's map from its
particles.

relion_refine --continue: one more iteration, whose references and noise are close to those it began from.
relion_reconstruct on run_data.star: the map of each half. Exits with 77 if RELION or the Python modules are missing."""

import os
import re
import shutil
import select
import signal
import subprocess
import sys
import tempfile
import time

try:
    import mrcfile
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
for program in ("relion_refine", "relion_refine_mpi", "relion_reconstruct", "mpirun"):
    if shutil.which(program) is None:
        print(f"skipped: no {program}")
        sys.exit(77)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from relion_files import matrix, read_star  # noqa: E402

BIN = os.environ["ICESTREAM_BIN"]
SEED, BOX, PIXEL, COUNT, DIAMETER = 5, 32, 4.0, 240, 80
failures = []


def check(what, ok, value):
    print(f"{'ok  ' if ok else 'FAIL'} {what}: {value}")
    if not ok:
        failures.append(what)


def simulate(random):
    """Makes particles of a dozen blobs, with CTF and noise. There are two optics groups; the second comes first."""
    c = np.arange(BOX) - BOX // 2
    z, y, x = np.meshgrid(c, c, c, indexing="ij")
    blobs = [(random.normal(size=3) * 3, random.uniform(0.5, 1.5)) for _ in range(12)]
    volume = sum(w * np.exp(-((x - p[0]) ** 2 + (y - p[1]) ** 2 + (z - p[2]) ** 2) / 2.5) for p, w in blobs)
    k2 = sum(k * k for k in np.meshgrid(*2 * [np.fft.fftfreq(BOX, PIXEL)], indexing="ij"))
    images, rows = [], []
    for i in range(COUNT):
        turn = matrix(
            random.uniform(-180, 180), np.degrees(np.arccos(random.uniform(-1, 1))), random.uniform(-180, 180)
        )
        shift, defocus = random.uniform(-1, 1, 2), random.uniform(8000, 16000)
        clean = 0
        for p, w in blobs:
            q = turn @ p
            clean = clean + w * np.exp(-((x[0] - q[0] - shift[0]) ** 2 + (y[0] - q[1] - shift[1]) ** 2) / 2.5)
        wave = 0.019687  # Å at 300 kV
        phase = np.pi * wave * defocus * k2 - np.pi / 2 * 2.7e7 * wave**3 * k2**2
        ctf = np.sqrt(1 - 0.01) * np.sin(phase) + 0.1 * np.cos(phase)
        images.append(np.fft.ifft2(np.fft.fft2(clean) * ctf).real)
        rows.append(f"{i + 1:06d}@p.mrcs m{i // 40}.mrc {2 - (i % 3 > 0)} {defocus:.1f} {defocus:.1f} 0\n")
    images = np.array(images)
    images = images / images.std() + 0.7 * random.normal(size=images.shape)
    rim = np.hypot(x[0], y[0]) > DIAMETER / PIXEL / 2
    images = np.array([(g - g[rim].mean()) / g[rim].std() for g in images])
    for name, data in (("p.mrcs", images), ("reference.mrc", volume)):
        with mrcfile.new(name) as file:
            file.set_data(data.astype(np.float32))
            file.voxel_size = PIXEL
    with open("particles.star", "w") as out:
        optics = [
            "OpticsGroup",
            "OpticsGroupName",
            "Voltage",
            "SphericalAberration",
            "AmplitudeContrast",
            "ImagePixelSize",
            "ImageSize",
            "ImageDimensionality",
        ]
        particles = ["ImageName", "MicrographName", "OpticsGroup", "DefocusU", "DefocusV", "DefocusAngle"]
        out.write(
            "# version 30001\n\ndata_optics\n\nloop_\n"
            + "".join(f"_rln{name}\n" for name in optics)
            + "".join(f"{i} og{i} 300 2.7 0.1 {PIXEL} {BOX} 2\n" for i in (1, 2))
            + "\n# version 30001\n\ndata_particles\n\nloop_\n"
            + "".join(f"_rln{name}\n" for name in particles)
            + "".join(rows)
            + "\n"
        )


def ours(stage, folder, *options):
    run = subprocess.run(
        [
            f"{BIN}/icestream-{stage}",
            "--i",
            "particles.star",
            "--o",
            folder,
            "--threads",
            "1",
            "--diameter",
            str(DIAMETER),
            *options,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        sys.exit(f"icestream-{stage} came back with {run.returncode}: {run.stderr[-2000:]}")


def refine(folder, *options):
    ours("refiner", folder, "--reference", "reference.mrc", "--initial_lowpass", "40", "--offset_range", "3", *options)


def read_map(path):
    with mrcfile.open(path, permissive=True) as file:
        return file.data.astype(float)


def alike(a, b):
    return np.corrcoef(a.ravel(), b.ravel())[0, 1]


def listen(run, until):
    """Collects RELION's output. Once the file `until` exists, waits for the next comparison of particles: by then the
    files of the iteration are written."""
    text, written, end = "", None, time.monotonic() + 240
    while select.select([run.stdout], [], [], max(0, end - time.monotonic()))[0]:
        piece = os.read(run.stdout.fileno(), 65536).decode(errors="replace")
        if not piece:
            break
        text += piece
        if written is None and os.path.exists(until):
            written = len(text) - len(piece)
        if written is not None and "Expectation iteration" in text[written:]:
            break
    return text


def continue_halves(optimiser, out, until):
    """RELION's auto-refinement cannot stop after an iteration, so this runs it until it has written a file."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    with subprocess.Popen(
        ["mpirun", "--oversubscribe", "-n", "3", "relion_refine_mpi", "--continue", optimiser, "--o", out],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    ) as run:
        text = listen(run, until)
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGTERM)
    check(
        f"relion_refine_mpi --continue {optimiser}",
        os.path.exists(until),
        "" if os.path.exists(until) else text[text.find("ERROR") :][:600],
    )
    return os.path.exists(until)


def noise(path, group):
    columns, found = read_star(path, f"model_group_{group}")
    return np.array([float(row[columns.index("rlnSigma2Noise")]) for row in found])


def general(path, label):
    with open(path) as text:
        return float(re.search(rf"_{label}\s+(\S+)", text.read()).group(1))


def of_class(path, label):
    columns, found = read_star(path, "model_classes")
    return float(found[0][columns.index(label)])


def compare_what_is_told():
    """RELION estimates accuracies in half 1 alone, with the map that the iteration begins from; so does the refiner's
    iteration of the same number. Its completeness follows its own prior."""
    mine, its = (f"{folder}/run_it004_half1_model.star" for folder in ("refiner", "theirs"))
    for label, most in (("rlnAccuracyRotations", 0.1), ("rlnAccuracyTranslationsAngst", 0.1)):
        a, b = of_class(mine, label), of_class(its, label)
        check(f"{label} is RELION's", abs(a / b - 1) < most, (a, b))
    a, b = (of_class(path, "rlnOverallFourierCompleteness") for path in (mine, its))
    check("rlnOverallFourierCompleteness is near RELION's", abs(a - b) < 0.2 and a <= 1, (a, b))


def compare_halves():
    refine("refiner", "--healpix_order", "1", "--live_order", "1", "--max_iterations", "6", "--keep_iterations", "20")
    if not continue_halves("refiner/run_it003_optimiser.star", "theirs/run", "theirs/run_it004_optimiser.star"):
        return
    for half in (1, 2):
        before, after = (f"{stem}_half{half}" for stem in ("refiner/run_it003", "theirs/run_it004"))
        likeness = alike(read_map(before + "_class001.mrc"), read_map(after + "_class001.mrc"))
        check(f"half {half} goes on from its map", likeness > 0.9, likeness)
        for group in (1, 2):
            ratio = (noise(before + "_model.star", group) / noise(after + "_model.star", group))[6:].mean()
            check(f"half {half}, group {group} has its noise", 0.85 < ratio < 1.18, ratio)
        pmax = [general(stem + "_model.star", "rlnAveragePmax") for stem in (before, after)]
        check(f"half {half}: poses are as certain", 0.5 * pmax[0] < pmax[1], pmax)
    compare_what_is_told()
    columns, rows = read_star("theirs/run_it004_data.star", "particles")
    group, optics = columns.index("rlnGroupName"), columns.index("rlnOpticsGroup")
    check(
        "groups are the optics groups",
        len(rows) == COUNT and all(row[group] == "group_" + row[optics] for row in rows),
        rows[0][group],
    )


def compare_symmetry():
    """The list of directions is as long as RELION's."""
    refine("octahedral", "--max_iterations", "1", "--symmetry", "O", "--healpix_order", "2", "--live_order", "2")
    continue_halves("octahedral/run_it001_optimiser.star", "theirs/o", "theirs/o_it001_half1_class001_angdist.bild")


def shells():
    k = np.fft.fftfreq(BOX) * BOX
    return np.rint(np.sqrt(sum(g * g for g in np.meshgrid(k, k, k, indexing="ij")))).astype(int)


def low_pass(volume, last):
    return np.fft.ifftn(np.fft.fftn(volume) * (shells() <= last)).real


def correlation_of_shells(a, b):
    fa, fb = np.fft.fftn(a), np.fft.fftn(b)
    products = (fa * fb.conj(), fa * fa.conj(), fb * fb.conj())
    cross, one, two = (np.bincount(shells().ravel(), product.real.ravel()) for product in products)
    return (cross / np.sqrt(one * two))[: BOX // 2]


def compare_reconstruction():
    """Compares maps of the best poses only, while the refiner weights all poses that fit. They are as alike as the
    poses are certain."""
    for half in (1, 2):
        run = subprocess.run(
            [
                "relion_reconstruct",
                "--i",
                "refiner/run_data.star",
                "--o",
                "theirs/map.mrc",
                "--ctf",
                "--subset",
                str(half),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode != 0:
            sys.exit(f"relion_reconstruct came back with {run.returncode}: {run.stdout[-1000:]}{run.stderr[-1000:]}")
        mine, its = (read_map(p) for p in (f"refiner/run_half{half}_class001_unfil.mrc", "theirs/map.mrc"))
        curve = correlation_of_shells(mine, its)
        print("FSC by shell:", " ".join(f"{v:.3f}" for v in curve[1:]))
        last = int(BOX * PIXEL / general("refiner/run_model.star", "rlnCurrentResolution"))
        likeness = alike(low_pass(mine, last), low_pass(its, last))
        check(f"map of half {half} correlates with relion_reconstruct's", likeness > 0.96, likeness)
        check(
            f"its FSC up to the resolution (shell {last})", curve[1 : last + 1].min() > 0.8, curve[1 : last + 1].min()
        )


def compare_classes():
    ours(
        "classifier",
        "classifier",
        "--classes",
        "4",
        "--minimum_particles",
        "50",
        "--visits",
        "2",
        "--final_passes",
        "1",
        "--psi_step",
        "24",
        "--offset_range",
        "3",
        "--off_centre",
        "100",
    )
    last = max(int(name[6:9]) for name in os.listdir("classifier") if name.endswith("_optimiser.star"))
    stem = f"classifier/run_it{last:03d}"
    run = subprocess.run(
        ["relion_refine", "--continue", stem + "_optimiser.star", "--o", "theirs/classes", "--iter", str(last + 1)],
        capture_output=True,
        text=True,
        check=False,
    )
    check("relion_refine --continue of classes", run.returncode == 0, run.stderr[-300:] if run.returncode != 0 else "")
    if run.returncode != 0:
        return
    before, after = read_map(stem + "_classes.mrcs"), read_map(f"theirs/classes_it{last + 1:03d}_classes.mrcs")
    columns, rows = read_star(stem + "_model.star", "model_classes")
    share = [float(row[columns.index("rlnClassDistribution")]) for row in rows]
    large = [k for k in range(len(before)) if share[k] > 0.15 and before[k].std() > 0]
    likeness = [alike(before[k], after[k]) for k in large]
    check("averages go on from ours", len(large) > 0 and min(likeness) > 0.8, likeness)
    _, rows = read_star(f"theirs/classes_it{last + 1:03d}_data.star", "particles")
    check("all particles are there", len(rows) == COUNT, len(rows))


def compare_references():
    """3D classification has no halves, so RELION's program without MPI can continue it."""
    refine("references", "--classes", "2", "--iterations", "2", "--healpix_order", "1", "--min_particles", "100000")
    run = subprocess.run(
        [
            "relion_refine",
            "--continue",
            "references/run_it002_optimiser.star",
            "--o",
            "theirs/references",
            "--iter",
            "3",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    check(
        "relion_refine --continue of 3D classes", run.returncode == 0, run.stderr[-300:] if run.returncode != 0 else ""
    )
    for k in (1, 2):
        before, after = (f"{stem}_class{k:03d}.mrc" for stem in ("references/run_it002", "theirs/references_it003"))
        likeness = alike(read_map(before), read_map(after)) if os.path.exists(after) else 0
        check(f"class {k} goes on from its map", likeness > 0.8, likeness)


def main():
    print("seed", SEED)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.mkdir("theirs")
        simulate(np.random.default_rng(SEED))
        compare_halves()
        compare_reconstruction()
        compare_symmetry()
        compare_classes()
        compare_references()
        os.chdir("/")
    return 1 if failures else 0


sys.exit(main())
