"""The end of a refinement with a mask of the user: of particles of noise, in a hard mask, no resolution is told, and the
edge of the mask is; a soft mask is taken, with the B-factor and the MTF of the user, or else that which the optics table
names."""

import os
import subprocess
import sys
import tempfile

try:
    import mrcfile
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

PROGRAM = os.path.join(os.environ["ICESTREAM_BIN"], "icestream-refiner")
BOX, PIXEL, COUNT, SEED = 32, 6.0, 120, 5
failures = []


def check(what, ok, value=""):
    print(f"{'ok  ' if ok else 'FAIL'} {what}: {value}")
    if not ok:
        failures.append(what)


def write(path, data):
    with mrcfile.new(path, overwrite=True) as m:
        m.set_data(np.ascontiguousarray(data, np.float32))
        m.voxel_size = PIXEL


def ball(size, edge):
    c = np.arange(BOX) - BOX // 2
    r = np.sqrt(sum(g * g for g in np.meshgrid(c, c, c, indexing="ij"))) - size
    return np.where(r <= 0, 1, 0) if edge == 0 else 0.5 + 0.5 * np.cos(np.pi * np.clip(r / edge, 0, 1))


def write_table(path, columns, values):
    """Writes a table of the particles; columns and values are added to its optics group."""
    with open(path, "w") as f:
        f.write("data_optics\n\nloop_\n_rlnOpticsGroup\n_rlnVoltage\n_rlnSphericalAberration\n_rlnAmplitudeContrast\n")
        f.write(f"_rlnImagePixelSize\n_rlnImageSize\n_rlnImageDimensionality\n{columns}")
        f.write(f"1 300 2.7 0.1 {PIXEL} {BOX} 2 {values}\n\n")
        f.write(
            "data_particles\n\nloop_\n_rlnImageName\n_rlnOpticsGroup\n_rlnDefocusU\n_rlnDefocusV\n_rlnDefocusAngle\n"
        )
        f.writelines(f"{i + 1:06d}@particles.mrcs 1 15000 15000 0\n" for i in range(COUNT))


def prepare(rng):
    write("particles.mrcs", rng.normal(size=(COUNT, BOX, BOX)))
    write_table("particles.star", "", "")
    # The detector's pixels are half as large as those of the particles.
    write_table("detector.star", "_rlnMtfFileName\n_rlnMicrographOriginalPixelSize\n", f"named.star {PIXEL / 2}")
    write("reference.mrc", ball(5, 6) + 0.3 * np.roll(ball(3, 4), 4, axis=1))
    write("hard.mrc", ball(7, 0))
    write("soft.mrc", ball(9, 6))
    for name, end in (("mtf", 0.5), ("named", 0.2)):
        with open(f"{name}.star", "w") as f:
            f.write(f"data_\n\nloop_\n_rlnResolutionInversePixel\n_rlnMtfValue\n0 1\n0.5 {end}\n")


def refine(folder, *more, table="particles.star"):
    """Returns what was printed and logged, and the values of data_general of postprocess.star."""
    words = f"--i {table} --reference reference.mrc --diameter 110 --healpix_order 1 --offset_range 2 --verbose"
    words = words.split() + ["--o", folder, "--max_iterations", "2", "--threads", "2", *map(str, more)]
    done = subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    check(f"{folder}: it ends well", done.returncode == 0, done.returncode or "")
    if done.returncode != 0:
        sys.exit(done.stdout[-3000:])
    general = {}
    for line in open(f"{folder}/postprocess.star"):
        words = line.split()
        if line.startswith("data_fsc"):
            break
        if line.startswith("_") and len(words) == 2:
            general[words[0]] = words[1]
    return done.stdout, general


def doubted():
    told, general = refine("hard", "--mask", "hard.mrc")
    check("the table says that the mask is doubted", int(general.get("_icestreamMaskDoubted", 0)) & 2 == 2, general)
    check("the edge is told before it begins", "the edge of the mask hard.mrc is 0.0 px wide" in told)
    resolution = float(general["_rlnFinalResolution"])
    check("noise has no resolution", resolution == 999 and "noise, no resolution" in told, resolution)
    check("the result names no masked number", " masked," not in told)
    check("the map is not sharpened", float(general["_rlnBfactorUsedForSharpening"]) == 0)


def taken():
    told, general = refine(
        "soft", "--mask", "soft.mrc", "--bfactor", -50, "--mtf", "mtf.star", "--local_resolution=false"
    )
    check("a soft edge is no fault", "the edge of the mask" not in told)
    check("B is the user's", float(general["_rlnBfactorUsedForSharpening"]) == -50)
    check_divided("soft", PIXEL, 0.5)


def check_divided(folder, detector, end):
    """Checks that the final map is divided by an MTF: 1 at the origin, `end` at 0.5/px of a detector with such pixels (Å)."""
    names, rows = [], []
    for line in open(f"{folder}/postprocess.star").read().partition("data_guinier")[2].splitlines():
        if line.startswith("_rln"):
            names.append(line.split()[0])
        elif len(line.split()) == len(names) > 0:
            rows.append(dict(zip(names, map(float, line.split()))))
    found = [row.get("_rlnLogAmplitudesMTFCorrected", 0) for row in rows]
    halves = [mrcfile.read(f"{folder}/run_half{half}_class001_unfil.mrc") for half in (1, 2)]
    amplitudes = abs(np.fft.rfftn((halves[0] + halves[1]) / 2)).ravel() / BOX**3
    k = np.fft.fftfreq(BOX) * BOX
    radius = np.sqrt(k[:, None, None] ** 2 + k[:, None] ** 2 + k[: BOX // 2 + 1] ** 2).ravel()
    mtf = np.maximum(1 - (1 - end) * 2 * radius * detector / (BOX * PIXEL), end)
    sums = [np.bincount((radius + 0.5).astype(int), weights) for weights in (amplitudes / mtf, np.ones(len(mtf)))]
    # No more is known beyond Nyquist.
    expected = np.log(sums[0] / sums[1])[: BOX // 2 - 1]
    right = len(rows) == BOX // 2 + 1 and np.abs(found[: BOX // 2 - 1] - expected).max() < 1e-3
    check(f"{folder}: the map is divided by the MTF", right, np.round(found, 3))


def named():
    """The optics table names an MTF, which counts unless the user gives one."""
    few = ("--mask", "soft.mrc", "--local_resolution=false")
    told, _ = refine("named", *few, table="detector.star")
    check("the MTF is found", "(refine-mtf)" not in told)
    check_divided("named", PIXEL / 2, 0.2)
    refine("given", *few, "--mtf", "mtf.star", table="detector.star")
    check_divided("given", PIXEL, 0.5)


def main():
    print(f"seed {SEED}")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        prepare(np.random.default_rng(SEED))
        doubted()
        taken()
        named()
        os.chdir("/")
    print(f"{len(failures)} failures: {failures}" if failures else "all right")
    return 1 if failures else 0


sys.exit(main())
