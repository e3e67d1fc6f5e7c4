"""icestream-postprocess on two half maps: against relion_postprocess with the user's mask, MTF and B-factor; masks that
are to be doubted; a mask that is made; what is refused.

postprocess_program.py PROGRAM. Skips the comparison if RELION is missing, and all (77) without the Python modules."""

import os
import shutil
import subprocess
import sys
import tempfile

try:
    import mrcfile
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

PROGRAM = os.path.abspath(sys.argv[1])
BOX, PIXEL, SEED = 64, 1.5, 11
failures = []


def check(what, ok, value=""):
    print(f"{'ok  ' if ok else 'FAIL'} {what}: {value}")
    if not ok:
        failures.append(what)


def write(path, data):
    with mrcfile.new(path, overwrite=True) as m:
        m.set_data(np.ascontiguousarray(data, np.float32))
        m.voxel_size = PIXEL


def read(path):
    with mrcfile.open(path, permissive=True) as m:
        return m.data.astype(np.float64)


def postprocess(*words, code=0):
    """Runs the program; returns its output and its warnings."""
    done = subprocess.run(
        [PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False
    )
    check(f"{' '.join(map(str, words))} ends with {code}", done.returncode == code, done.returncode)
    print(done.stdout + done.stderr, end="")
    return done.stdout, done.stderr


def tables(path):
    """Reads a STAR file as {table: {column: [numbers or texts]}}."""
    found, current, columns = {}, None, []
    for line in open(path):
        words = line.split()
        if line.startswith("data_"):
            current, columns = found.setdefault(line.strip()[5:], {}), []
        elif line.startswith("_") and len(words) > 1 and not words[1].startswith("#"):
            current[words[0][1:]] = words[1]
        elif line.startswith("_"):
            columns.append(words[0][1:])
            current[columns[-1]] = []
        elif columns and words and not line.startswith("#"):
            for column, word in zip(columns, words):
                current[column].append(float(word))
    return found


def radius():
    k = np.fft.fftfreq(BOX) * BOX
    return np.sqrt(sum(g * g for g in np.meshgrid(k, k, k, indexing="ij")))


def ball(size, edge):
    """Returns a ball that fades out over `edge` px."""
    c = np.arange(BOX) - BOX // 2
    r = np.sqrt(sum(g * g for g in np.meshgrid(c, c, c, indexing="ij"))) - size
    return np.where(r <= 0, 1, 0) if edge == 0 else 0.5 + 0.5 * np.cos(np.pi * np.clip(r / edge, 0, 1))


def damped(values, b):
    s2 = (radius() / (BOX * PIXEL)) ** 2
    return np.fft.ifftn(np.fft.fftn(values) * np.exp(-b / 4 * s2)).real


def make_halves(rng, b, noise, size=14):
    """A molecule with amplitudes that fall by B, in two halves with white noise of their own."""
    signal = damped(rng.normal(size=(BOX,) * 3) * ball(size, 4) + ball(size, 4), b)
    for i in (1, 2):
        write(f"run_half{i}_unfil.mrc", signal + noise * rng.normal(size=signal.shape))
    return signal


def relion(name, *words):
    """Runs relion_postprocess, whose plots lie in the folder NAME."""
    os.makedirs(name, exist_ok=True)
    halves = ["--i", "run_half1_unfil.mrc", "--i2", "run_half2_unfil.mrc", "--mask", "mask.mrc"]
    command = ["relion_postprocess", *halves, "--o", name, "--angpix", PIXEL, *words]
    subprocess.run([str(w) for w in command], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, check=False)
    if not os.path.exists(f"{name}.star"):  # it ends with 1 where ghostscript is missing for its plots
        sys.exit(f"relion_postprocess wrote no {name}.star")


def agree_with_relion(rng):
    make_halves(rng, 150, 0.12)
    write("mask.mrc", ball(17, 6))
    with open("mtf.star", "w") as f:
        f.write("data_\n\nloop_\n_rlnResolutionInversePixel #1\n_rlnMtfValue #2\n")
        f.writelines(f"{x:.4f} {np.sinc(x) * (1 - 0.4 * x):.6f}\n" for x in np.linspace(0, 0.5, 1001))
    postprocess("run_half1_unfil.mrc", "--o", "ours", "--mask", "mask.mrc", "--mtf", "mtf.star", "--bfactor_low", 10)
    ours = tables("ours/postprocess.star")
    resolution = float(ours["general"]["rlnFinalResolution"])
    fitted = float(ours["general"]["rlnBfactorUsedForSharpening"])
    check("the resolution lies between Nyquist and 10 Å", 2.2 * PIXEL < resolution < 10, resolution)
    if shutil.which("relion_postprocess") is None:
        print("no relion_postprocess: not compared")
        return
    scatter = []
    for seed in (1, 2, 3):
        words = ["--mtf", "mtf.star", "--mtf_angpix", PIXEL, "--auto_bfac", "--autob_lowres", 10]
        relion("theirs", *words, "--autob_highres", resolution, "--random_seed", seed)
        theirs = tables("theirs.star")
        scatter.append(float(theirs["general"]["rlnBfactorUsedForSharpening"]))
        its = float(theirs["general"]["rlnFinalResolution"])
        check(f"resolution is relion_postprocess's, seed {seed}", abs(its - resolution) < 1e-3, (resolution, its))
    spread = max(scatter) - min(scatter)
    off = max(min(scatter) - fitted, fitted - max(scatter), 0)
    check("B is within its scatter, or 5 %", off <= max(spread, 0.05 * abs(fitted)), (fitted, scatter))
    for name in ("Unmasked", "Masked"):
        column = f"rlnFourierShellCorrelation{name}Maps"
        difference = np.abs(np.subtract(ours["fsc"][column], theirs["fsc"][column])).max()
        check(f"{column} is its", difference < 0.01, difference)
    for name, map_name in (("postprocess.mrc", "theirs.mrc"), ("postprocess_masked.mrc", "theirs_masked.mrc")):
        a, b = read(f"ours/{name}"), read(map_name)
        likeness = np.corrcoef(a.ravel(), b.ravel())[0, 1]
        check(f"{name} is its", likeness > 0.98, likeness)
        check(f"{name} has its grey scale", abs(a.std() / b.std() - 1) < 0.05, a.std() / b.std())
    postprocess("run_half1_unfil.mrc", "run_half2_unfil.mrc", "--o", "given", "--mask", "mask.mrc", "--bfactor", -60)
    relion("theirs_given", "--adhoc_bfac", -60)
    a, b = read("given/postprocess.mrc"), read("theirs_given.mrc")
    check(
        "the map of a given B is its",
        np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.99 and abs(a.std() / b.std() - 1) < 0.05,
    )


def doubt_masks(rng):
    """Good particles in a tight mask, and noise in a hard one: told, and the unmasked number stays."""
    make_halves(rng, 300, 0.1)
    write("tight.mrc", ball(8, 3))
    for name, halves in (("tight", "particles"), ("hard", "noise")):
        if name == "hard":
            low = damped(rng.normal(size=(BOX,) * 3), 60000)
            for i in (1, 2):
                write(f"run_half{i}_unfil.mrc", 100 * low + 0.01 * rng.normal(size=low.shape))
            write("hard.mrc", ball(16, 0))
        out, told = postprocess(
            "run_half1_unfil.mrc", "--o", name, "--mask", f"{name}.mrc", "--local_resolution", "false"
        )
        general = tables(f"{name}/postprocess.star")["general"]
        unmasked = float(out.split("unmasked")[1].split()[0])
        check(f"{halves}, {name} mask: it is doubted", "doubted" in told and f"{name}.mrc" in told)
        check("the unmasked number stays", abs(float(general["rlnFinalResolution"]) - unmasked) < 0.01, unmasked)
        check("the masked one was finer", float(general["icestreamResolutionInMask"]) < unmasked - 0.1, general)


def name_directions(rng):
    """Halves that lack the signal within 60° of the y axis, as if all particles were seen along it: told with the axis."""
    signal = make_halves(rng, 100, 0)
    k = np.fft.fftfreq(BOX) * BOX
    off = np.degrees(np.arccos(np.abs(k[None, :, None]) / np.maximum(radius(), 1e-9)))
    seen = np.fft.ifftn(np.fft.fftn(signal) * (off >= 60)).real
    for i in (1, 2):
        write(f"run_half{i}_unfil.mrc", seen + 0.1 * rng.normal(size=signal.shape))
    _, told = postprocess("run_half1_unfil.mrc", "--o", "seen", "--auto_mask", "false", "--local_resolution", "false")
    check("missing views are told", "blurred along" in told)
    axis = np.array([float(told.split(f"{a} ")[1].split(",")[0]) for a in ("along x", ", y", ", z")])
    check("with the axis", abs(axis[1]) > np.cos(np.radians(15)), axis)
    found = tables("seen/postprocess.star")
    finest, coarsest = (np.array(found["directional_fsc"][f"icestreamFsc{c}Cone"]) for c in ("Finest", "Coarsest"))
    check("the finest cone goes on where the coarsest has ended", finest[12] > 0.5 and abs(coarsest[12]) < 0.5)
    rows = found["directions"]
    across = np.abs(rows["icestreamDirectionY"]) < 0.2
    along = np.abs(rows["icestreamDirectionY"]) > 0.9
    resolution = np.array(rows["icestreamDirectionResolution"])
    check("by axis", resolution[across].max() < 0.6 * resolution[along].min(), (resolution[across], resolution[along]))


def make_masks(rng):
    signal = make_halves(rng, 300, 0.03)
    out, told = postprocess("run_half1_unfil.mrc", "--o", "made")
    check("nothing is doubted", told == "" and "by direction" in out, told)
    for (
        name
    ) in "postprocess.mrc postprocess_masked.mrc postprocess_mask.mrc postprocess.png locres.mrc locres_filtered.mrc".split():
        check(f"{name} is there", os.path.getsize(f"made/{name}") > 1000)
    mask = read("made/postprocess_mask.mrc")
    check("the mask holds the molecule", mask[signal > 0.5 * signal.max()].min() > 0.99)
    postprocess("run_half1_unfil.mrc", "--o", "wide", "--extend", 7, "--soft", 3, "--local_resolution=false")
    wide = read("wide/postprocess_mask.mrc")
    check("a mask is extended", (wide > 0.5).sum() > 1.2 * (mask > 0.5).sum(), ((wide > 0.5).sum(), (mask > 0.5).sum()))
    postprocess("run_half1_unfil.mrc", "--o", "high", "--threshold", 1e6, code=1)
    out, _ = postprocess(
        "run_half1_unfil.mrc", "--o", "none", "--auto_mask", "false", "--angpix", 3, "--local_resolution", "false"
    )
    check("the pixel size is taken", "3 Å" in out and not os.path.exists("none/postprocess_mask.mrc"))
    make_halves(rng, 4000, 0.01)
    out, _ = postprocess("run_half1_unfil.mrc", "--o", "coarse", "--local_resolution", "false")
    check("a coarse map is not sharpened", "filtered and not sharpened" in out)
    check("nor in the table", float(tables("coarse/postprocess.star")["general"]["rlnBfactorUsedForSharpening"]) == 0)


def refuse(rng):
    shutil.copy("run_half1_unfil.mrc", "some.mrc")
    write("small_half1.mrc", rng.normal(size=(32,) * 3))
    write("flat_half1.mrc", rng.normal(size=(4, 32, 32)))
    shutil.copy("small_half1.mrc", "flat_half2.mrc")
    with open("bad.star", "w") as f:
        f.write("data_\n\nloop_\n_rlnResolutionInversePixel\n_rlnMtfValue\n0 1\n0.5 0\n")
    with open("sorted.star", "w") as f:
        f.write("data_\n\nloop_\n_rlnResolutionInversePixel\n_rlnMtfValue\n0 1\n0.5 0.3\n0.4 0.4\n")
    with open("other.star", "w") as f:
        f.write("data_\n\nloop_\n_rlnMicrographName\na.mrc\nb.mrc\n")
    for words, code, expected in [
        (("run_half1_unfil.mrc", "--mtf", "sorted.star"), 1, "does not rise in row 3"),
        (("run_half1_unfil.mrc", "--mtf", "other.star"), 1, "no column rlnMtfValue"),
        (("run_half1_unfil.mrc", "run_half2_unfil.mrc", "some.mrc"), 2, "third half map"),
        ((), 2, "no half map"),
        (("some.mrc",), 2, "does not say half1"),
        (("small_half1.mrc",), 1, "small_half2.mrc"),
        (("flat_half1.mrc",), 1, "cube"),
        (("run_half1_unfil.mrc", "some.mrc"), 1, "same map"),
        (("run_half1_unfil.mrc", "small_half1.mrc"), 1, "one of 32"),
        (("run_half1_unfil.mrc", "--mtf", "bad.star"), 1, "rlnMtfValue is 0 in row 2"),
        (("run_half1_unfil.mrc", "--sof", "3"), 2, "soft"),
        (("run_half1_unfil.mrc", "--soft", "300"), 2, "soft"),
        (("run_half1_unfil.mrc", "--mask"), 2, "lacks its value"),
    ]:
        _, told = postprocess(*words, code=code)
        check(f"and says '{expected}'", expected in told, told.strip())


def main():
    print(f"seed {SEED}")
    rng = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        agree_with_relion(rng)
        doubt_masks(rng)
        name_directions(rng)
        make_masks(rng)
        refuse(rng)
        os.chdir("/")
    print(f"{len(failures)} failures: {failures}" if failures else "all right")
    return 1 if failures else 0


sys.exit(main())
