#!/usr/bin/python3
"""Tests refinements that begin with the poses of a table, with RELION 3.1.3 as referee.

Particles of D2 blobs, with CTF and noise, from a printed seed: refiner_given_poses.py [SEED].
 - True poses that are kept (--skip_align) make the map of relion_reconstruct, in one iteration and the final one, and
   the table's poses and halves are those of run_data.star.
 - Poses that are 5° and 2 px off come back (--poses table), in no more iterations than a search of all poses needs, and
   as near the truth.
 - The poses of relion_refine_mpi, after four iterations, are continued within the range, with RELION's halves.
Exits with 77 if RELION or the Python modules are missing."""

import json
import os
import shutil
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
for program in ("relion_refine_mpi", "relion_reconstruct", "mpirun"):
    if shutil.which(program) is None:
        print(f"skipped: no {program}")
        sys.exit(77)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from relion_files import matrix, read_star  # noqa: E402

BIN = os.environ["ICESTREAM_BIN"]
BOX, PIXEL, COUNT, DIAMETER, SYMMETRY, NOISE = 40, 4.0, 300, 110, "D2", 1.6
ANGLES = ["rlnAngleRot", "rlnAngleTilt", "rlnAnglePsi"]
ORIGINS = ["rlnOriginXAngst", "rlnOriginYAngst"]
FLIPS = [np.diag(d) for d in ((1, 1, 1), (-1, -1, 1), (-1, 1, -1), (1, -1, -1))]
failures = []


def check(what, ok, value):
    print(f"{'ok  ' if ok else 'FAIL'} {what}: {value}", flush=True)
    if not ok:
        failures.append(what)


def angles_of(m):
    tilt = np.degrees(np.arccos(np.clip(m[2, 2], -1, 1)))
    return [np.degrees(np.arctan2(m[2, 1], m[2, 0])), tilt, np.degrees(np.arctan2(m[1, 2], -m[0, 2]))]


def turned(random, degrees):
    """Returns a rotation by `degrees` about a random axis."""
    axis = random.normal(size=3)
    x, y, z = axis / np.linalg.norm(axis)
    k, t = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]), np.radians(degrees)
    return np.eye(3) + np.sin(t) * k + (1 - np.cos(t)) * k @ k


def off(a, b):
    """Returns the angle (°) between two poses, the smallest over the copies of the point group."""
    trace = max(np.trace(matrix(*a) @ g @ matrix(*b).T) for g in FLIPS)
    return np.degrees(np.arccos(np.clip((trace - 1) / 2, -1, 1)))


def simulate(random):
    c = np.arange(BOX) - BOX // 2
    z, y, x = np.meshgrid(c, c, c, indexing="ij")
    blobs = [(g @ (random.normal(size=3) * 4), w) for w in random.uniform(0.5, 1.5, 7) for g in [FLIPS[0]]]
    blobs = [(g @ p, w) for p, w in blobs for g in FLIPS]
    volume = sum(w * np.exp(-((x - p[0]) ** 2 + (y - p[1]) ** 2 + (z - p[2]) ** 2) / 2.5) for p, w in blobs)
    k2 = sum(k * k for k in np.meshgrid(*2 * [np.fft.fftfreq(BOX, PIXEL)], indexing="ij"))
    images, truth, defoci = [], [], random.uniform(8000, 16000, COUNT)
    for defocus in defoci:
        pose = angles_of(turned(random, random.uniform(0, 180)) @ matrix(*random.uniform(-180, 180, 3)))
        origin, clean = random.uniform(-2, 2, 2), 0
        for p, w in blobs:
            q = matrix(*pose) @ p
            clean = clean + w * np.exp(-((x[0] - q[0] + origin[0]) ** 2 + (y[0] - q[1] + origin[1]) ** 2) / 2.5)
        phase = np.pi * 0.019687 * defocus * k2 - np.pi / 2 * 2.7e7 * 0.019687**3 * k2**2
        ctf = np.sqrt(1 - 0.01) * np.sin(phase) + 0.1 * np.cos(phase)
        images.append(np.fft.ifft2(np.fft.fft2(clean) * ctf).real)
        truth.append([*pose, *(origin * PIXEL)])
    images = np.array(images)
    images = images / images.std() + NOISE * random.normal(size=images.shape)
    rim = np.hypot(x[0], y[0]) > DIAMETER / PIXEL / 2
    images = np.array([(g - g[rim].mean()) / g[rim].std() for g in images])
    for name, data in (("p.mrcs", images), ("truth.mrc", volume)):
        with mrcfile.new(name, overwrite=True) as file:
            file.set_data(data.astype(np.float32))
            file.voxel_size = PIXEL
    return np.array(truth), defoci


def write_table(name, poses, defoci, halves):
    optics = "OpticsGroup OpticsGroupName Voltage SphericalAberration AmplitudeContrast ImagePixelSize ImageSize"
    columns = ["rlnImageName", "rlnOpticsGroup", "rlnDefocusU", "rlnDefocusV", "rlnDefocusAngle", "rlnRandomSubset"]
    with open(name, "w") as out:
        out.write("# version 30001\n\ndata_optics\n\nloop_\n" + "".join(f"_rln{o}\n" for o in optics.split()))
        out.write(f"_rlnImageDimensionality\n1 og1 300 2.7 0.1 {PIXEL} {BOX} 2\n\n# version 30001\n\n")
        out.write("data_particles\n\nloop_\n" + "".join(f"_{c}\n" for c in columns + ANGLES + ORIGINS))
        for i, (pose, defocus, half) in enumerate(zip(poses, defoci, halves)):
            numbers = " ".join(f"{v:.6f}" for v in pose)
            out.write(f"{i + 1:06d}@p.mrcs 1 {defocus:.1f} {defocus:.1f} 0 {half} {numbers}\n")
        out.write("\n")


def read_table(name):
    """Returns poses, halves and numbers of images."""
    columns, rows = read_star(name, "particles")
    at = [columns.index(c) for c in ANGLES + ORIGINS]
    order = np.argsort([int(row[columns.index("rlnImageName")].split("@")[0]) for row in rows])
    poses = np.array([[float(row[i]) for i in at] for row in rows])[order]
    return poses, np.array([int(row[columns.index("rlnRandomSubset")]) for row in rows])[order]


def refine(table, folder, *options):
    began = time.monotonic()
    run = subprocess.run(
        [f"{BIN}/icestream-refiner", "--i", table, "--o", folder, "--threads", "1", "--diameter", str(DIAMETER)]
        + ["--reference", "truth.mrc", "--initial_lowpass", "40", "--symmetry", SYMMETRY, "--keep_iterations", "40"]
        + ["--offset_range", "3", "--local_resolution", "false", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        sys.exit(f"icestream-refiner {folder} came back with {run.returncode}: {run.stderr[-2000:]}")
    with open(f"{folder}/history.jsonl") as lines:
        return [json.loads(line) for line in lines], time.monotonic() - began


def read_map(path):
    with mrcfile.open(path, permissive=True) as file:
        return file.data.astype(float)


def shell_correlations(a, b):
    k = np.fft.fftfreq(BOX) * BOX
    radius = np.rint(np.sqrt(sum(g * g for g in np.meshgrid(k, k, k, indexing="ij")))).astype(int).ravel()
    f, g = (np.fft.fftn(m).ravel() for m in (a, b))
    sums = [np.bincount(radius, v)[1 : BOX // 2] for v in ((f * g.conj()).real, abs(f) ** 2, abs(g) ** 2)]
    return sums[0] / np.sqrt(sums[1] * sums[2])


def errors(poses, truth):
    angles = [off(p[:3], t[:3]) for p, t in zip(poses, truth)]
    return np.median(angles), np.median(np.hypot(*(poses - truth)[:, 3:].T)) / PIXEL


def kept_poses(truth, defoci, halves):
    write_table("true.star", truth, defoci, halves)
    history, _ = refine("true.star", "kept", "--skip_align", "true")
    check("iterations with poses that are kept", len(history) == 2 and history[-1]["final"], len(history))
    poses, found = read_table("kept/run_data.star")
    check("kept poses differ by", abs(poses - truth).max() < 2e-3, abs(poses - truth).max())
    check("halves of the table are kept", (found == halves).all(), (found == halves).mean())
    subprocess.run(
        ["relion_reconstruct", "--i", "true.star", "--o", "reconstruct.mrc", "--ctf", "--sym", SYMMETRY],
        check=True,
        capture_output=True,
    )
    whole = shell_correlations(
        read_map("kept/run_half1_class001_unfil.mrc") + read_map("kept/run_half2_class001_unfil.mrc"),
        read_map("reconstruct.mrc"),
    )
    truth_map = read_map("truth.mrc")
    theirs = shell_correlations(read_map("reconstruct.mrc"), truth_map)
    ours = shell_correlations(
        read_map("kept/run_half1_class001_unfil.mrc") + read_map("kept/run_half2_class001_unfil.mrc"), truth_map
    )
    reach = int(np.argmax(theirs < 0.5)) if (theirs < 0.5).any() else len(theirs)
    check("relion_reconstruct makes the same map, FSC", whole[:reach].min() > 0.95, whole[:reach].round(3))
    check("and is no nearer the truth by", (theirs - ours)[:reach].max() < 0.03, (theirs - ours)[:reach].max().round(3))


def perturbed_poses(random, truth, defoci, halves):
    poses = truth.copy()
    for p in poses:
        direction = random.uniform(0, 2 * np.pi)
        p[:3] = angles_of(turned(random, 5) @ matrix(*p[:3]))
        p[3:] += 2 * PIXEL * np.array([np.cos(direction), np.sin(direction)])
    write_table("perturbed.star", poses, defoci, halves)
    near, near_seconds = refine("perturbed.star", "near", "--poses", "table")
    far, far_seconds = refine("perturbed.star", "far")
    before, found, searched = (
        errors(p, truth) for p in (poses, read_table("near/run_data.star")[0], read_table("far/run_data.star")[0])
    )
    print(f"given {before}, near them {found} in {len(near)}, searched {searched} in {len(far)} iterations")
    work = [sum(h["steps"]["compare"] for h in history) for history in (near, far)]
    check("poses come back, ° and px", found[0] < before[0] / 2 and found[1] < before[1] / 2, found)
    check(
        "as near as a search of all",
        found[0] < 1.1 * searched[0] + 0.1 and found[1] < 1.1 * searched[1] + 0.05,
        searched,
    )
    seconds = [round(w, 1) for w in work + [near_seconds, far_seconds]]
    check(
        "in no more iterations", len(near) <= len(far), f"{len(near)}, {len(far)}; s of comparisons and in all: {seconds}"
    )
    check("halves of the table are kept", (read_table("near/run_data.star")[1] == halves).all(), "run_data.star")


def run_relion(until):
    """RELION's auto-refinement cannot stop after an iteration, so this runs it until it has written a file."""
    command = ["mpirun", "--oversubscribe", "-n", "3", "relion_refine_mpi", "--o", "relion/run", "--i", "plain.star"]
    command += ["--auto_refine", "--split_random_halves", "--ref", "truth.mrc", "--ini_high", "40", "--ctf", "--sym"]
    command += [SYMMETRY, "--particle_diameter", str(DIAMETER), "--zero_mask", "--flatten_solvent", "--norm", "--scale"]
    command += ["--healpix_order", "2", "--offset_range", "3", "--offset_step", "2", "--oversampling", "1", "--j", "1"]
    command += ["--low_resol_join_halves", "40", "--skip_gridding", "--pad", "1", "--random_seed", "1"]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    os.makedirs("relion", exist_ok=True)
    with open("relion.log", "w") as log:
        run = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + 900
        while run.poll() is None and not os.path.exists(until) and time.monotonic() < end:
            time.sleep(0.5)
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGTERM)
        run.wait()
    if not os.path.exists(until):
        check("relion_refine_mpi writes its iterations", False, open("relion.log").read()[-800:])
    return os.path.exists(until)


def relions_poses(truth, defoci):
    """Continues a refinement of RELION: its first iteration that searches stays within the range of RELION's poses."""
    if not run_relion("relion/run_it005_sampling.star"):
        return
    shutil.copy("relion/run_it004_data.star", "relion.star")
    given, halves = read_table("relion.star")
    refine("relion.star", "continued", "--poses", "table", "--local_range", "6")
    first, kept = read_table("continued/run_it001_data.star")
    second, _ = read_table("continued/run_it002_data.star")
    last, last_halves = read_table("continued/run_data.star")
    moved = np.array([off(a[:3], b[:3]) for a, b in zip(second, given)])
    # The direction and the in-plane angle may each be 6° off, and no child is farther away.
    check("the first maps are those of RELION's poses", abs(first - given).max() < 2e-3, abs(first - given).max())
    check("the first search stays within the range, °", moved.max() < 2**0.5 * 6, moved.max().round(2))
    check("RELION's halves are kept", (kept == halves).all() and (last_halves == halves).all(), (kept == halves).mean())
    theirs, ours = errors(given, truth), errors(last, truth)
    check("poses are as near the truth as RELION's", ours[0] < theirs[0] + 0.5, (theirs, ours))


def main():
    seed = int(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ICESTREAM_SEED") or time.time_ns() % 100000)
    print(f"seed {seed}")
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        truth, defoci = simulate(random)
        halves = random.permutation(np.arange(COUNT) % 2 + 1)
        kept_poses(truth, defoci, halves)
        perturbed_poses(random, truth, defoci, halves)
        write_table("plain.star", truth * 0, defoci, halves)
        relions_poses(truth, defoci)
        os.chdir("/")
    sys.exit(len(failures) > 0)


main()
