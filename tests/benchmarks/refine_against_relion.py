#!/usr/bin/python3
"""Compares refinement and classification with RELION's programs, on the same particles, references, ranges and steps:
results and time.

  refine_against_relion.py WORK [--parts apoferritin,simulated,noise,classes,finer_classes,averages] [--threads 2]

apoferritin: 1,170 marked particles of ../shared/data/apoferritin (64², 3 Å/px, O), auto-refine from 30 Å.
simulated:   400 × 96² of make_particles (C1, SNR 0.1), auto-refine from 40 Å; poses are known.
noise:       300 × 48² without any signal: how far the halves agree beyond the 40 Å that they share.
classes:     200 particles each (SNR 0.3) of two structures, 3D classification from the mean of both, HEALPix order 1,
             ten iterations.
finer_classes: the same at order 2, 7.5° in steps of the second pass, five iterations.
averages:    the same particles, 2D classification.

All files are kept in WORK. Finished runs are not repeated (delete WORK/PART/relion or WORK/PART/icestream to run
again). Prints tables in Markdown. CPU time is user and system time of all processes. On a shared machine it says more
than the clock, which is printed too."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time

try:
    import mrcfile
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.abspath(os.environ.get("ICESTREAM_BIN", os.path.join(HERE, "../../build/cpu/bin")))
TESTS = os.path.join(BIN, "..", "tests")
DATA = os.path.abspath(os.environ.get("ICESTREAM_DATA", os.path.join(HERE, "../../../shared/data")))
sys.path[:0] = [os.path.join(HERE, "..", "common"), os.path.join(HERE, "..", "pipelines")]
from relion_files import matrix, read_star  # noqa: E402
from session import fsc, read_map, resolution  # noqa: E402

MPI = "mpirun --oversubscribe --mca mpi_yield_when_idle 1 -n 3 relion_refine_mpi --auto_refine --split_random_halves"
BOTH = (
    "--i particles.star --ctf --flatten_solvent --zero_mask --oversampling 1 --offset_range 5 --offset_step 2 --norm "
    "--scale --pool 30 --random_seed 1 --dont_combine_weights_via_disc"
)
HALVES = BOTH + " --pad 2 --healpix_order 2 --auto_local_healpix_order 4 --low_resol_join_halves 40"


def timed(folder, words):
    """Runs a program unless it has run. Returns {wall, cpu} in s."""
    kept = os.path.join(folder, "time.json")
    if not os.path.exists(kept):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        print("running", " ".join(words), flush=True)
        with open(os.path.join(folder, "log"), "w") as log:
            began = time.monotonic()
            child = subprocess.Popen(words, stdout=log, stderr=log, env=environment)
            _, code, used = os.wait4(child.pid, 0)
            wall = time.monotonic() - began
        if code != 0:
            sys.exit(f"{words[0]} failed: see {folder}/log")
        with open(kept, "w") as out:
            json.dump({"wall": wall, "cpu": used.ru_utime + used.ru_stime}, out)
    with open(kept) as text:
        return json.load(text)


def relion(words):
    return timed("relion", [*words.split(), "--o", "relion/run"])


def ours(stage, words, threads):
    return timed(
        "icestream",
        [
            f"{BIN}/icestream-{stage}",
            "--i",
            "particles.star",
            "--o",
            "icestream",
            "--threads",
            str(threads),
            *words.split(),
        ],
    )


def table(names, rows):
    print("\n| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    for row in rows:
        print("| " + " | ".join(str(value) for value in row) + " |")
    print(flush=True)


def last_iteration(folder):
    """Returns the number of a classification's last iteration."""
    return max(
        int(name[6:9]) for name in os.listdir(folder) if name.startswith("run_it") and name.endswith("_data.star")
    )


def iterations(folder):
    return last_iteration(folder) + os.path.exists(f"{folder}/run_half1_class001_unfil.mrc")


def times(folders, used):
    rows = [[f, iterations(f), f"{used[f]['cpu']:.0f} s", f"{used[f]['wall']:.0f} s"] for f in folders]
    ratio = used["relion"]["cpu"] / used["icestream"]["cpu"]
    return (
        rows,
        f"CPU time of relion over icestream: {ratio:.1f}, of an iteration "
        f"{ratio * iterations('icestream') / iterations('relion'):.1f}",
    )


def halves(folder):
    """Returns the resolutions at which the FSC of the unfiltered halves falls below 0.5 and 0.143."""
    a, pixel = read_map(f"{folder}/run_half1_class001_unfil.mrc")
    b, _ = read_map(f"{folder}/run_half2_class001_unfil.mrc")
    curve = fsc(a, b)
    return [f"{resolution(curve, len(a), pixel, t):.2f} Å" for t in (0.5, 0.143)]


def read_poses(path):
    """Returns {image: (matrix, origin in Å)}."""
    columns, rows = read_star(path, "particles")
    where = [
        columns.index("rln" + name)
        for name in ("ImageName", "AngleRot", "AngleTilt", "AnglePsi", "OriginXAngst", "OriginYAngst")
    ]
    found = {}
    for row in rows:
        values = [row[i] for i in where]
        found[values[0]] = matrix(*map(float, values[1:4])), np.array([float(v) for v in values[4:]])
    return found


def degrees_between(a, b):
    return np.degrees(np.arccos(np.clip((np.einsum("nij,nij->n", a, b) - 1) / 2, -1, 1)))


def pose_errors(path, truth):
    """Returns errors of angles (°) and origins (Å) after the map's own turn and shift are removed, and the turn (°)."""
    found = read_poses(path)
    names = sorted(found)
    a, b = (np.array([poses[n][0] for n in names]) for poses in (truth, found))
    turn, near = np.eye(3), np.ones(len(names), bool)
    for _ in range(5):  # found = truth · turn, from particles that are not far off
        u, _, v = np.linalg.svd(np.einsum("nij,nik->jk", a[near], b[near]))
        turn = u @ np.diag([1, 1, np.linalg.det(u @ v)]) @ v
        angles = degrees_between(a @ turn, b)
        near = angles < max(15, np.median(angles))
    off = np.array([found[n][1] - truth[n][1] for n in names])
    shift = np.linalg.lstsq(b[near][:, :2].reshape(-1, 3), off[near].ravel(), rcond=None)[0]
    off -= np.einsum("nij,j->ni", b[:, :2], shift)
    return angles, np.hypot(off[:, 0], off[:, 1]), np.degrees(np.arccos(min(1, (np.trace(turn) - 1) / 2)))


def extract():
    data = f"{DATA}/apoferritin"
    marked = sorted(name[:-5] for name in os.listdir(f"{data}/centres"))
    with open(f"{data}/micrographs_ctf.star") as text, open("micrographs.star", "w") as out:
        for line in text:
            if not line.startswith("micrographs/") or any(name in line for name in marked):
                out.write(line.replace("micrographs/", f"{data}/micrographs/", 1))
    with open("picks.star", "w") as out:
        out.write(
            "\n# version 30001\n\ndata_coordinate_files\n\nloop_\n_rlnMicrographName #1\n"
            "_rlnMicrographCoordinates #2\n"
        )
        out.writelines(f"{data}/micrographs/{name}.mrc {data}/centres/{name}.star\n" for name in marked)
    subprocess.run(
        [
            f"{BIN}/icestream-extractor",
            "--i",
            "micrographs.star,picks.star",
            "--o",
            "extractor",
            "--box",
            "128",
            "--downscale-to",
            "64",
        ],
        check=True,
        capture_output=True,
    )
    shutil.copy("extractor/particles.star", "particles.star")


def apoferritin(threads):
    if not os.path.exists("particles.star"):
        extract()
    reference = f"{DATA}/apoferritin/reference.mrc"
    used = {
        "relion": relion(f"{MPI} {HALVES} --ref {reference} --ini_high 30 --sym O --particle_diameter 150"),
        "icestream": ours(
            "refiner", f"--reference {reference} --initial_lowpass 30 --symmetry O --diameter 150", threads
        ),
    }
    rows, ratio = times(("relion", "icestream"), used)
    table(
        ["apoferritin, 1,170 × 64², O", "iterations", "CPU", "wall", "halves, 0.5", "0.143"],
        [row + halves(row[0]) for row in rows],
    )
    print(ratio + f"; bar: 168 s of CPU, 84 s of two quiet cores; icestream took {used['icestream']['cpu']:.0f} s")


def make(folder, *words):
    if not os.path.exists(f"{folder}/truth.star"):
        os.makedirs(folder, exist_ok=True)
        made = subprocess.run([f"{TESTS}/make_particles", folder, *words], check=True, capture_output=True, text=True)
        with open(f"{folder}/made", "w") as out:
            out.write(made.stdout)


def simulated(threads):
    make(".", "400", "96", "2.2", "0.1", "5")
    used = {
        "relion": relion(
            f"{MPI} {HALVES} --firstiter_cc --ref truth.mrc --ini_high 40 --sym C1 " "--particle_diameter 190"
        ),
        "icestream": ours("refiner", "--reference truth.mrc --initial_lowpass 40 --diameter 190", threads),
    }
    truth, (volume, pixel) = read_poses("truth.star"), read_map("truth.mrc")
    rows, ratio = times(("relion", "icestream"), used)
    for row in rows:
        curve = fsc(read_map(f"{row[0]}/run_class001.mrc")[0], volume)
        angles, origins, turn = pose_errors(f"{row[0]}/run_data.star", truth)
        row += halves(row[0]) + [
            f"{resolution(curve, len(volume), pixel, 0.5):.2f} Å",
            f"{np.median(angles):.2f}°",
            f"{np.mean(angles > 15) * 100:.0f} %",
            f"{np.median(origins):.2f} Å",
            f"{turn:.2f}°",
        ]
    table(
        [
            "simulated, 400 × 96², C1",
            "iterations",
            "CPU",
            "wall",
            "halves, 0.5",
            "0.143",
            "truth, 0.5",
            "median angle",
            "off by > 15°",
            "median origin",
            "map turned",
        ],
        rows,
    )
    print(ratio)
    with open("made") as text:
        print(text.readline())


def noise(threads):
    """RELION takes long to converge on noise: six iterations."""
    make(".", "300", "48", "4", "0", "7")
    ours("refiner", "--reference truth.mrc --initial_lowpass 40 --diameter 150 --max_iterations 6", threads)
    a, b = (read_map(f"icestream/run_half{h}_class001_unfil.mrc")[0] for h in (1, 2))
    curve = fsc(a, b)
    table(
        ["noise, 300 × 48²", *(f"{192 / s:.0f} Å" for s in range(3, 13))],
        [["icestream", *(f"{v:.2f}" for v in curve[3:13])]],
    )


def two_structures():
    for name, seed in (("A", "11"), ("B", "12")):
        make(f"../{name}", "200", "96", "2.6", "0.3", seed)
    texts = [open(f"../{name}/particles.star").read().splitlines(True) for name in "AB"]
    with open("particles.star", "w") as out:
        out.writelines(line for line in texts[0] if "@" not in line)
        for name, lines in zip("AB", texts):
            out.writelines(line.replace("@", f"@../{name}/") for line in lines if "@" in line)
    volumes = [read_map(f"../{name}/truth.mrc")[0] for name in "AB"]
    with mrcfile.new("mean.mrc", overwrite=True) as file:
        file.set_data(np.mean(volumes, axis=0).astype(np.float32))
        file.voxel_size = 2.6
    return volumes


def purity(path):
    """Returns the share of the particles that belong to the more frequent structure of their class."""
    columns, rows = read_star(path, "particles")
    members = {}
    for row in rows:
        count = members.setdefault(row[columns.index("rlnClassNumber")], [0, 0])
        count["/B/" in row[columns.index("rlnImageName")]] += 1
    return sum(max(count) for count in members.values()) / len(rows), len(members)


def classes(threads, order=1, count=10):
    volumes = two_structures()
    used = {
        "relion": relion(
            f"relion_refine --j {threads} {BOTH} --pad 2 --ref mean.mrc --firstiter_cc --ini_high 40 "
            f"--K 2 --tau2_fudge 4 --particle_diameter 190 --healpix_order {order} --sym C1 "
            f"--iter {count}"
        ),
        "icestream": ours(
            "refiner",
            f"--reference mean.mrc --initial_lowpass 40 --classes 2 --iterations {count} "
            f"--healpix_order {order} --diameter 190",
            threads,
        ),
    }
    rows, ratio = times(("relion", "icestream"), used)
    for row in rows:
        last = f"{row[0]}/run_it{last_iteration(row[0]):03d}"
        maps = [read_map(f"{last}_class{k:03d}.mrc")[0] for k in (1, 2)]
        crossings = [[resolution(fsc(m, v), len(v), 2.6, 0.5) for v in volumes] for m in maps]
        best = min(([crossings[i][k] for i, k in enumerate(order)] for order in ((0, 1), (1, 0))), key=sum)
        row += [f"{purity(last + '_data.star')[0] * 100:.1f} %", " and ".join(f"{c:.1f} Å" for c in best)]
    table(
        [f"3D classes, 400 × 96², K = 2, order {order}", "iterations", "CPU", "wall", "right class", "truths, 0.5"],
        rows,
    )
    print(ratio)


def finer_classes(threads):
    classes(threads, 2, 5)


def averages(threads):
    two_structures()
    used = {
        "relion": relion(
            f"relion_refine --j {threads} {BOTH} --K 8 --tau2_fudge 2 --particle_diameter 190 " "--psi_step 12 --iter 4"
        ),
        "icestream": ours(
            "classifier",
            "--classes 8 --diameter 190 --psi_step 12 --offset_range 5 --offset_step 2 "
            "--keep all --visits 4 --final_passes 5",
            threads,
        ),
    }
    rows, _ = times(("relion", "icestream"), used)
    for row in rows:
        share, count = purity(f"{row[0]}/run_it{last_iteration(row[0]):03d}_data.star")
        row[1] = last_iteration("relion") if row[0] == "relion" else "4 visits, 5 final passes at most"
        row += [f"{share * 100:.1f} %", count]
    table(["2D averages, 400 × 96², K = 8", "passes", "CPU", "wall", "of one structure", "classes"], rows)
    print(f"CPU time of relion over icestream: {used['relion']['cpu'] / used['icestream']['cpu']:.1f}")


def main():
    parts = {f.__name__: f for f in (apoferritin, simulated, noise, classes, finer_classes, averages)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("--parts", default=",".join(parts))
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    for program in ("relion_refine", "relion_refine_mpi", "mpirun"):
        if shutil.which(program) is None:
            print(f"skipped: no {program}")
            return 77
    root = os.path.abspath(options.work)
    for name in options.parts.split(","):
        os.makedirs(os.path.join(root, name), exist_ok=True)
        os.chdir(os.path.join(root, name))
        parts[name](options.threads)
    return 0


sys.exit(main())
