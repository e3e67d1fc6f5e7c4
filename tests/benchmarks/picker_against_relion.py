#!/usr/bin/python3
"""Times template picking of a micrograph on the CPU, against relion_autopick 3.1.3 and against two copies of itself.

picker_against_relion.py [--size 4096] [--pixel-size 1.62] [--templates 8] [--angle-step 5] [--relion-micrographs 1]

One thread: N and 2N micrographs are timed with each program, and the difference is divided by N. So work that is done
once (reading templates, plans, rotated transforms) is left out on both sides. Runs of the two programs alternate, and
the best of --repeats counts. CPU seconds decide, because other work on a shared machine disturbs them least; wall times
are printed too.
Two threads: micrographs a second of one process with two threads, against two processes of one thread at the same time,
again by differences.
Fails below 12 x and 0.9 x. icestream draws no pictures here, because RELION draws none."""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

try:
    import mrcfile
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.environ.get("ICESTREAM_BIN", os.path.join(HERE, "../../build/cpu/bin"))
FASTER_LEAST, THREADS_LEAST, DIAMETER = 12, 0.9, 200
OPTICS = """
# version 30001

data_optics

loop_
_rlnOpticsGroup
_rlnOpticsGroupName
_rlnMicrographOriginalPixelSize
_rlnMicrographPixelSize
_rlnVoltage
_rlnSphericalAberration
_rlnAmplitudeContrast
1 og1 {0} {0} 300 2.7 0.1

# version 30001

data_micrographs

loop_
_rlnMicrographName
_rlnOpticsGroup
_rlnDefocusU
_rlnDefocusV
_rlnDefocusAngle
"""


def simulate(options, folder):
    """Makes two simulated micrographs under as many names as needed, and their templates. The time to pick does not
    depend on the content."""
    box = 2 * round(0.5 * 1.6 * DIAMETER / options.pixel_size)
    subprocess.run(
        [
            f"{BIN}/icestream-simulate",
            "--o",
            f"{folder}/simulated",
            "--micrographs",
            "2",
            "--size",
            str(options.size),
            "--pixel_size",
            str(options.pixel_size),
            "--particles",
            "150",
            "--snr",
            "0.05",
            "--templates",
            str(options.templates),
            "--box",
            str(box),
            "--diameter",
            str(DIAMETER),
            "--interval",
            "0",
            "--contamination",
            "0",
            "--carbon",
            "0",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    os.makedirs(f"{folder}/micrographs")
    most = 2 * max(options.relion_micrographs, options.micrographs)
    for i in range(most):
        os.link(f"{folder}/simulated/micrographs/mic_{i % 2 + 1:05d}.mrc", f"{folder}/micrographs/m{i:03d}.mrc")
    for count in range(1, most + 1):
        with open(f"{folder}/first{count}.star", "w") as out:
            out.write(OPTICS.format(options.pixel_size))
            out.writelines(f"micrographs/m{i:03d}.mrc 1 {15000 + 20 * i} {14500 + 20 * i} 30\n" for i in range(count))
            out.write("\n")
    return f"{folder}/simulated/truth/templates.mrcs"


def icestream_command(options, folder, count, threads, output):
    shutil.rmtree(f"{folder}/{output}", ignore_errors=True)
    return [
        f"{BIN}/icestream-lowpass-picker",
        "--i",
        f"{folder}/first{count}.star",
        "--o",
        f"{folder}/{output}",
        "--templates",
        f"{folder}/simulated/truth/templates.mrcs",
        "--diameter",
        str(DIAMETER),
        "--lowpass",
        str(options.lowpass),
        "--angle_step",
        str(options.angle_step),
        "--threshold",
        "0.3",
        "--write_png",
        "false",
        "--threads",
        str(threads),
    ]


def relion_command(options, folder, count):
    command = [
        "relion_autopick",
        "--i",
        f"first{count}.star",
        "--odir",
        "relion/",
        "--pickname",
        "relion",
        "--ref",
        f"{folder}/simulated/truth/templates.mrcs",
        "--angpix",
        str(options.pixel_size),
        "--angpix_ref",
        str(options.pixel_size),
        "--particle_diameter",
        str(DIAMETER),
        "--ang",
        str(options.angle_step),
        "--threshold",
        "0.3",
        "--min_distance",
        str(0.7 * DIAMETER),
        "--shrink",
        "0",
        "--invert",
        "--ctf",
    ]
    return command + (["--lowpass", str(options.lowpass)] if options.lowpass > 0 else [])


def timed(folder, *commands):
    """Starts commands at once. Returns wall seconds until all are done, and seconds of CPU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    running = [subprocess.Popen(c, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in commands]
    for process in running:
        if process.wait():
            sys.exit(f"{' '.join(process.args)}: exit {process.returncode}")
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


WALL, CPU = 0, 1


def best(times, kind):
    return min(time[kind] for time in times)


def each(short, long, count, kind):
    """Returns seconds per micrograph from the best times of N and 2N."""
    return (best(long, kind) - best(short, kind)) / count


def against_relion(options, folder):
    n, m = options.micrographs, options.relion_micrographs
    ours, theirs = ([], []), ([], [])
    for _ in range(options.repeats):
        for i, factor in enumerate((1, 2)):
            theirs[i].append(timed(folder, relion_command(options, folder, factor * m)))
            ours[i].append(timed(folder, icestream_command(options, folder, factor * n, 1, "one")))
    own, other = each(*ours, n, CPU), each(*theirs, m, CPU)
    print(
        f"one thread: relion_autopick {other:.2f} s of CPU a micrograph ({m} and {2 * m}: {best(theirs[0], CPU):.1f} and "
        f"{best(theirs[1], CPU):.1f} s), icestream {own:.3f} s ({n} and {2 * n}: {best(ours[0], CPU):.2f} and "
        f"{best(ours[1], CPU):.2f} s): {other / own:.1f} x; on the wall {each(*theirs, m, WALL):.2f} and "
        f"{each(*ours, n, WALL):.3f} s",
        flush=True,
    )
    return other / own >= FASTER_LEAST


def two_threads(options, folder):
    n = options.micrographs
    two, copies = ([], []), ([], [])
    for _ in range(options.repeats):
        for i, factor in enumerate((1, 2)):
            two[i].append(timed(folder, icestream_command(options, folder, factor * n, 2, "two")))
            copies[i].append(
                timed(
                    folder,
                    icestream_command(options, folder, factor * n, 1, "a"),
                    icestream_command(options, folder, factor * n, 1, "b"),
                )
            )
    own, other = 1 / each(*two, n, WALL), 2 / each(*copies, n, WALL)
    print(
        f"two threads: {own:.2f} micrographs a second, two copies of one thread {other:.2f}: {own / other:.2f} of theirs"
    )
    return own / other >= THREADS_LEAST


def main():
    parser = argparse.ArgumentParser(description="Times icestream-lowpass-picker against relion_autopick.")
    parser.add_argument("--size", type=int, default=4096, help="px")
    parser.add_argument("--pixel-size", type=float, default=1.62, help="A")
    parser.add_argument("--templates", type=int, default=8)
    parser.add_argument("--angle-step", type=float, default=5)
    parser.add_argument("--lowpass", type=float, default=20, help="A; 0: none")
    parser.add_argument("--micrographs", type=int, default=4, help="N, for icestream")
    parser.add_argument("--relion-micrographs", type=int, default=1, help="N, for relion_autopick")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-relion", action="store_true")
    parser.add_argument("--no-threads", action="store_true")
    options = parser.parse_args()
    if not options.no_relion and shutil.which("relion_autopick") is None:
        print("skipped: relion_autopick is not installed (Debian: apt-get install relion)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        with mrcfile.open(simulate(options, folder)) as stack:
            print(
                f"{options.size}² at {options.pixel_size} Å/px, {len(stack.data)} templates of {stack.data.shape[1]} px "
                f"every {options.angle_step:g}°, low-pass {options.lowpass:g} Å; load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
        good = [
            options.no_relion or against_relion(options, folder),
            options.no_threads or two_threads(options, folder),
        ]
    print(f"load {os.getloadavg()[0]:.1f}; {'passed' if all(good) else 'failed'}")
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
