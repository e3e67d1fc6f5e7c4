"""icestream-postprocess on two half maps: against relion_postprocess with the user's mask, MTF and B-factor; masks that
are to be doubted; a mask that is made, and its shape; the local resolution; the picture; what is refused.

postprocess_program.py PROGRAM. Skips the comparison if RELION is missing, and all (77) without the Python modules."""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

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


def low_passed(values, limit):
    """Returns a map up to a limit in Å."""
    return np.fft.ifftn(np.fft.fftn(values) * (radius() <= BOX * PIXEL / limit)).real


def make_halves(rng, b, noise, size=14):
    """A molecule with amplitudes that fall by B, in two halves with white noise of their own."""
    signal = damped(rng.normal(size=(BOX,) * 3) * ball(size, 4) + ball(size, 4), b)
    for i in (1, 2):
        write(f"run_half{i}_unfil.mrc", signal + noise * rng.normal(size=signal.shape))
    return signal


def relion(name, *words, mask="mask.mrc"):
    """Runs relion_postprocess, whose plots lie in the folder NAME; returns its tables."""
    os.makedirs(name, exist_ok=True)
    halves = ["--i", "run_half1_unfil.mrc", "--i2", "run_half2_unfil.mrc"] + (["--mask", mask] if mask else [])
    command = ["relion_postprocess", *halves, "--o", name, "--angpix", PIXEL, *words]
    subprocess.run([str(w) for w in command], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, check=False)
    if not os.path.exists(f"{name}.star"):  # it ends with 1 where ghostscript is missing for its plots
        sys.exit(f"relion_postprocess wrote no {name}.star")
    return tables(f"{name}.star")


def number(star, name):
    return float(star["general"][name])


def bfactor(star):
    return number(star, "rlnBfactorUsedForSharpening")


def agree_without_mask(rng):
    """No phases are random: B is RELION's up to its counting of the plane kx = 0."""
    for b, noise in ((150, 0.12), (150, 0.02), (300, 0.05)):
        make_halves(rng, b, noise)
        postprocess("run_half1_unfil.mrc", "--o", "bare", "--auto_mask=false", "--local_resolution=false")
        ours = tables("bare/postprocess.star")
        fit = ["--autob_lowres", 10, "--autob_highres", number(ours, "rlnFinalResolution") - 1e-4]
        theirs = relion("theirs_bare", "--auto_bfac", *fit, mask=None)
        values = bfactor(ours), bfactor(theirs)
        check("without a mask, B is its to 1 %", abs(values[0] / values[1] - 1) < 0.01, values)


def agree_with_relion(rng):
    make_halves(rng, 150, 0.12)
    write("mask.mrc", ball(17, 6))
    with open("mtf.star", "w") as f:
        f.write("data_\n\nloop_\n_rlnResolutionInversePixel #1\n_rlnMtfValue #2\n")
        f.writelines(f"{x:.4f} {np.sinc(x) * (1 - 0.4 * x):.6f}\n" for x in np.linspace(0, 0.5, 1001))
    words = ["--o", "ours", "--mask", "mask.mrc", "--mtf", "mtf.star", "--bfactor_low", 10]
    postprocess("run_half1_unfil.mrc", *words)
    ours = tables("ours/postprocess.star")
    resolution = number(ours, "rlnFinalResolution")
    check("the resolution lies between Nyquist and 10 Å", 2.2 * PIXEL < resolution < 10, resolution)
    if shutil.which("relion_postprocess") is None:
        print("no relion_postprocess: not compared")
        return
    # The weights of the last shells depend on the random phases: B of one seed scatters by 2 % in either program.
    fitted, its = [bfactor(ours)], []
    for seed in (2, 3, 4):
        postprocess("run_half1_unfil.mrc", *words, "--seed", seed, "--local_resolution=false")
        fitted.append(bfactor(tables("ours/postprocess.star")))
    postprocess("run_half1_unfil.mrc", *words)
    for seed in (1, 2, 3, 4):
        fit = ["--auto_bfac", "--autob_lowres", 10, "--autob_highres", resolution - 1e-4]
        theirs = relion("theirs", "--mtf", "mtf.star", "--mtf_angpix", PIXEL, *fit, "--random_seed", seed)
        its.append(bfactor(theirs))
        found = number(theirs, "rlnFinalResolution")
        check(f"resolution is relion_postprocess's, seed {seed}", abs(found - resolution) < 1e-3, (resolution, found))
    off = np.mean(fitted) / np.mean(its) - 1
    check("B is its to 4 %, in the mean of four seeds", abs(off) < 0.04, (off, fitted, its))
    for name, likeness in (("Original", 1e-4), ("MTFCorrected", 1e-3)):
        column = f"rlnLogAmplitudes{name}"
        difference = np.abs(np.subtract(ours["guinier"][column], theirs["guinier"][column]))[1:].max()
        check(f"{column} is its", difference < likeness, difference)
    for name in ("Unmasked", "Masked"):
        column = f"rlnFourierShellCorrelation{name}Maps"
        difference = np.abs(np.subtract(ours["fsc"][column], theirs["fsc"][column])).max()
        check(f"{column} is its", difference < 0.01, difference)
    for name, map_name in (("postprocess.mrc", "theirs.mrc"), ("postprocess_masked.mrc", "theirs_masked.mrc")):
        a, b = (low_passed(read(path), resolution) for path in (f"ours/{name}", map_name))
        likeness = np.corrcoef(a.ravel(), b.ravel())[0, 1]
        check(f"{name} is its, up to the resolution", likeness > 0.99, likeness)
        check(f"{name} has its grey scale", abs(a.std() / b.std() - 1) < 0.05, a.std() / b.std())
    postprocess("run_half1_unfil.mrc", "run_half2_unfil.mrc", "--o", "given", "--mask", "mask.mrc", "--bfactor", -60)
    relion("theirs_given", "--adhoc_bfac", -60)
    a, b = read("given/postprocess.mrc"), read("theirs_given.mrc")
    check(
        "the map of a given B is its",
        np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.99 and abs(a.std() / b.std() - 1) < 0.05,
    )
    agree_without_mask(np.random.default_rng(SEED + 1))


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
    shape_masks()
    see_picture("made/postprocess.png")
    out, _ = postprocess(
        "run_half1_unfil.mrc", "--o", "none", "--auto_mask", "false", "--angpix", 3, "--local_resolution", "false"
    )
    check("the pixel size is taken", "3 Å" in out and not os.path.exists("none/postprocess_mask.mrc"))
    make_halves(rng, 4000, 0.01)
    out, _ = postprocess("run_half1_unfil.mrc", "--o", "coarse", "--local_resolution", "false")
    check("a coarse map is not sharpened", "filtered and not sharpened" in out)
    check("nor in the table", float(tables("coarse/postprocess.star")["general"]["rlnBfactorUsedForSharpening"]) == 0)


def shape_masks():
    """--threshold, --extend and --soft give the mask that they say, voxel by voxel."""
    density = 0.5 * (read("run_half1_unfil.mrc") + read("run_half2_unfil.mrc"))
    over = radius() - (round(BOX * PIXEL / 15) - 1)
    keep = np.where(over <= 0, 1, np.where(over >= 2, 0, 0.5 + 0.5 * np.cos(np.pi * over / 2)))
    smooth = np.fft.ifftn(np.fft.fftn(density) * keep).real

    warned = []

    def made(*words):
        warned.append(postprocess("run_half1_unfil.mrc", "--o", "shaped", "--local_resolution=false", *words)[1])
        return read("shaped/postprocess_mask.mrc")

    limit = 0.6 * smooth.max()
    inside = smooth >= limit
    away = np.full(inside.shape, np.inf)  # px to the nearest voxel inside, up to 6
    steps = [(z, y, x) for z in range(-6, 7) for y in range(-6, 7) for x in range(-6, 7) if z * z + y * y + x * x <= 36]
    for step in steps:
        away[np.roll(inside, step, (0, 1, 2))] = np.minimum(
            away[np.roll(inside, step, (0, 1, 2))], np.linalg.norm(step)
        )
    cut = made("--threshold", limit, "--extend", 0, "--soft", 0)
    check("--threshold cuts the map at 15 Å", np.array_equal(cut == 1, inside) and inside.sum() > 500, inside.sum())
    wider = made("--threshold", limit, "--extend", 4, "--soft", 0)
    check("--extend adds 4 px", np.array_equal(wider == 1, away < 4), ((wider == 1).sum(), (away < 4).sum()))
    check("and how to mend a hard edge is told", "(extend)" in warned[-1] and "(soft)" in warned[-1], warned)
    faded = made("--threshold", limit, "--extend", 0, "--soft", 5)
    expected = np.where(away < 5, 0.5 + 0.5 * np.cos(np.pi * np.minimum(away, 5) / 5), 0)
    off = np.abs(faded - expected).max()
    check("--soft fades out over 5 px", off < 1e-5 and ((faded > 0) & (faded < 1)).sum() > 500, off)
    higher = made("--threshold", 1.3 * limit, "--extend", 0, "--soft", 0)
    check("a higher threshold makes a smaller mask", 0 < higher.sum() < cut.sum(), (higher.sum(), cut.sum()))
    _, told = postprocess("run_half1_unfil.mrc", "--o", "high", "--threshold", 1e6, code=1)
    check("one above all density is refused", "the threshold of 1e+06 nowhere" in told, told)


def see_picture(path):
    """The picture can be read, and holds sections of the map and curves."""
    data = open(path, "rb").read()
    check("the picture is a PNG", data[:8] == b"\x89PNG\r\n\x1a\n")
    at, pixels, size = 8, b"", (0, 0)
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        check(
            f"its {kind.decode()} is whole",
            zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + length :][:4])[0],
        )
        size = struct.unpack(">II", body[:8]) if kind == b"IHDR" else size
        pixels += body if kind == b"IDAT" else b""
        at += 12 + length
    values = zlib.decompress(pixels)
    check("it is large enough to be seen", min(size) >= 200 and len(set(values)) > 50, (size, len(set(values))))


def resolve_locally(rng):
    """One side of the molecule has fine detail, the other none beyond 12 Å: locres.mrc tells them apart."""
    signal = make_halves(rng, 50, 0, 20)
    coarse = low_passed(signal, 12)
    x = np.arange(BOX)[None, None, :] - BOX // 2
    mixed = np.where(x < 0, signal, coarse)
    for i in (1, 2):
        write(f"run_half{i}_unfil.mrc", mixed + 0.9 * rng.normal(size=signal.shape))
    write("wide.mrc", ball(21, 6))
    out, _ = postprocess("run_half1_unfil.mrc", "--o", "local", "--mask", "wide.mrc")
    local, sharp = read("local/locres.mrc"), read("local/locres_filtered.mrc")
    inside = ball(16, 0) > 0.5
    fine, rough = (np.median(local[inside & side]) for side in ((x < -6) & inside, (x > 6) & inside))
    check("locres.mrc is finer where detail is", fine < 0.6 * rough, (fine, rough))
    check("and names what is there", 2 * PIXEL <= fine < 5.5 and 8 < rough < 16, (fine, rough))
    told = float(out.split("inside the mask), median ")[1].split()[0])
    median = np.median(local[read("wide.mrc") > 0.5])
    check("the median that is told is the map's", abs(told / median - 1) < 0.02, (told, median))
    high = sharp - low_passed(sharp, 8)
    power = [np.square(high[inside & side]).mean() for side in ((x < -6) & inside, (x > 6) & inside)]
    check("locres_filtered.mrc holds fine detail there alone", power[0] > 20 * power[1], power)


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
        resolve_locally(rng)
        refuse(rng)
        os.chdir("/")
    print(f"{len(failures)} failures: {failures}" if failures else "all right")
    return 1 if failures else 0


sys.exit(main())
