#!/usr/bin/env python3
"""Particles that are not normalised, or whose contrast, defocus or diameter is wrong: refiner and classifier say so. Those
that are not normalised give what the normalised set gives; a set that is right is left as it is, bit for bit, in
silence. A mask that makes the halves of good particles agree is doubted; views of one side are told of."""

import os
import re
import subprocess
import sys
import tempfile

import mrcfile
import numpy as np

BIN = os.environ["ICESTREAM_BIN"]
BOX, PIXEL, COUNT, SEED = 32, 6.0, 120, 4
DIAMETER = 130
BLOBS = 14
failed = 0


def check(right, what):
    global failed
    failed += not right
    print(("ok: " if right else "FAILED: ") + what, flush=True)


def ctf(defocus):
    """Returns the CTF of 300 kV, Cs 2.7 mm and amplitude contrast 0.1: positive after the origin for underfocus."""
    k = np.fft.fftfreq(BOX, PIXEL)
    k2 = k[:, None] ** 2 + k[None, :] ** 2
    wave = 0.019687
    phase = np.pi * wave * defocus * k2 - np.pi / 2 * 2.7e7 * wave**3 * k2**2 + np.arcsin(0.1)
    return np.sin(phase)


def rotation(rng, cone=180):
    """Returns the x and y axes of an image whose view lies within a cone (°) about z."""
    while True:
        axes = any_rotation(rng)
        if np.cross(*axes)[2] >= np.cos(np.radians(cone)):
            return axes


def any_rotation(rng):
    q = rng.normal(size=4)
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        ]
    )


def angles(axes):
    """Returns rlnAngleRot, rlnAngleTilt and rlnAnglePsi (°) of the image's x and y axes."""
    x, y, z = *axes, np.cross(*axes)
    return np.degrees([np.arctan2(z[1], z[0]), np.arccos(z[2]), np.arctan2(y[2], -x[2])])


def ball(centre, radius, edge):
    """Returns 1 up to a radius (px) from a voxel, and beyond it a raised cosine of that width."""
    r = np.sqrt(sum((a - c) ** 2 for a, c in zip(np.indices(3 * [BOX]), centre)))
    return (0.5 + 0.5 * np.cos(np.pi * np.clip((r - radius) / edge, 0, 1))).astype(np.float32)


def density(points, weights, dimensions, sigma):
    """Returns Gaussians at points [n][dimensions], the last axis first in the array's order of indices."""
    at = np.arange(BOX) - BOX // 2
    axes = [np.exp(-((at[None, :] - p[:, None]) ** 2) / (2 * sigma**2)) for p in points.T]
    letters = "zyx"[-dimensions:]
    return np.einsum(",".join(["n"] + ["n" + c for c in letters]) + "->" + letters, weights, *axes[::-1])


class World:
    """A phantom, its reference, and a normalised set of its images. mates: rotations that the phantom has. defoci: range.
    cone: of the views (°)."""

    def __init__(self, work, mates=((1, 1, 1),), count=COUNT, seed=SEED, defoci=(12000, 22000), cone=180):
        rng = np.random.default_rng(seed)
        self.work, self.runs = work, 0
        points = rng.normal(size=(BLOBS // len(mates), 3))
        points *= (9 * rng.uniform(0.2, 1, len(points)) ** (1 / 3) / np.linalg.norm(points, axis=1))[:, None]
        points = np.concatenate([points * mate for mate in np.array(mates)])
        points -= points.mean(0)
        weights = np.tile(0.5 + rng.uniform(size=len(points) // len(mates)), len(mates))
        self.map = density(points, weights, 3, 1.3).astype(np.float32)
        mrcfile.write(f"{work}/reference.mrc", density(points, weights, 3, 2.5).astype(np.float32), voxel_size=PIXEL)
        self.defocus = rng.uniform(*defoci, count)
        self.images, self.poses = np.empty((count, BOX, BOX), np.float32), np.empty((count, 3))
        for i in range(count):
            axes = rotation(rng, cone)
            self.poses[i] = angles(axes)
            clean = density(points @ axes.T, weights, 2, 1.3)
            clean = np.fft.ifft2(np.fft.fft2(clean) * ctf(self.defocus[i])).real
            self.images[i] = clean + 0.5 * rng.normal(size=(BOX, BOX))
        y, x = np.indices((BOX, BOX)) - BOX // 2
        self.outside = np.hypot(x, y) > DIAMETER / PIXEL / 2
        for image in self.images:
            image -= image[self.outside].mean()
            image /= image[self.outside].std()

    def write(self, name, images, defocus, poses=None):
        with mrcfile.new(f"{self.work}/{name}.mrcs", overwrite=True) as f:
            f.set_data(images.astype(np.float32))
            f.voxel_size = PIXEL
            f.set_image_stack()
        columns = (
            "ImageName DefocusU DefocusV DefocusAngle ImagePixelSize Voltage SphericalAberration AmplitudeContrast"
        )
        columns += " AngleRot AngleTilt AnglePsi" if poses is not None else ""
        with open(f"{self.work}/{name}.star", "w", encoding="ascii") as f:
            f.write("data_particles\n\nloop_\n" + "".join(f"_rln{c}\n" for c in columns.split()))
            for i, value in enumerate(defocus):
                pose = "".join(f" {angle:.6f}" for angle in poses[i]) if poses is not None else ""
                f.write(f"{i + 1}@{name}.mrcs {value:.6f} {value:.6f} 0 {PIXEL} 300 2.7 0.1{pose}\n")

    def run(self, program, name, *words, code=0):
        """Runs a program on a set. Returns its folder and its warnings {id: text}."""
        self.runs += 1
        out = f"{self.work}/{program}-{name}-{self.runs}"
        command = [
            f"{BIN}/icestream-{program}",
            "--i",
            f"{self.work}/{name}.star",
            "--o",
            out,
            "--threads",
            "2",
            *words,
        ]
        if "--diameter" not in words:
            command += ["--diameter", str(DIAMETER)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if ended.returncode != code:
            check(False, f"{program} of {name} ends with {ended.returncode}, not {code}: {ended.stderr[-900:]}")
        found = re.findall(r"^icestream-\S+ warning: (.*) \((\S+?)(?:, \d+ times)?\)$", ended.stderr, re.MULTILINE)
        return out, {kind: text for text, kind in found}, ended.stderr

    def refine(self, name, *words, code=0):
        few = ["--reference", f"{self.work}/reference.mrc", "--initial_lowpass", "40", "--healpix_order", "1"]
        return self.run(
            "refiner", name, *few, "--max_iterations", "1", "--local_resolution", "false", *words, code=code
        )

    def likeness(self, out):
        """Returns the correlation of a run's map with the truth, inside the sphere."""
        z, y, x = np.indices((BOX, BOX, BOX)) - BOX // 2
        inside = z * z + y * y + x * x < (DIAMETER / PIXEL / 2) ** 2
        found = mrcfile.read(f"{out}/run_class001.mrc")
        return np.corrcoef(found[inside], self.map[inside])[0, 1]


def backgrounds(world):
    rng = np.random.default_rng(SEED + 1)
    scale, offset = rng.uniform(0.5, 2, (COUNT, 1, 1)), 0.5 * rng.normal(size=(COUNT, 1, 1))
    usual, words, _ = world.refine("normalised")
    off, _, _ = world.refine("normalised", "--normalise", "off")
    check(not words, f"a normalised set is taken in silence: {words}")
    same = open(f"{usual}/run_class001.mrc", "rb").read()[1024:] == open(f"{off}/run_class001.mrc", "rb").read()[1024:]
    check(same, "its map is bit for bit that of images that are taken as they are")
    best = world.likeness(usual)
    check(best > 0.8, f"the normalised set gives {best:.4f}")
    cases = {
        "offset": world.images * 37 + 1000,
        "one": world.images + 1,
        "strong": world.images * 37,
        "uneven": world.images * scale + offset,
    }
    for name, images in cases.items():
        world.write(name, images, world.defocus)
        out, words, _ = world.refine(name)
        here = world.likeness(out)
        check(here > best - 0.005, f"{name}: {here:.4f}, of the normalised set {best:.4f}")
        check(list(words) == ["refine-background"], f"{name}: told, and nothing else: {words}")
    out, _, _ = world.refine("offset", "--normalise", "off")
    check(world.likeness(out) < best - 0.1, f"the first case, as it is, gives {world.likeness(out):.4f}")
    world.write("masked", np.where(world.outside, 500, world.images + 500), world.defocus)
    _, _, text = world.refine("masked", code=1)
    check("most of 120 images are constant, at 500" in text, f"a constant background is refused: {text[-600:]}")
    _, _, text = world.refine("offset", "--diameter", "280", code=1)
    check("leaves no background in the box of 192 Å" in text, f"no background is refused: {text[-600:]}")
    _, words, _ = world.refine("normalised", "--diameter", "280")
    check("refine-background" not in words, f"a normalised set without background goes on: {words}")


def signs(world):
    world.write("inverted", -world.images, world.defocus)
    _, words, _ = world.refine("inverted")
    check("with inverted contrast: protein" in words.get("refine-contrast", ""), f"inverted particles: {words}")
    world.write("overfocus", world.images, -world.defocus)
    _, words, _ = world.refine("overfocus")
    check("negative defocus" in words.get("refine-defocus", ""), f"a defocus of the wrong sign: {words}")
    # Amplitude contrast keeps its sign. Near focus it outweighs phase contrast in the lowest shells: the poses that are
    # found fit there, the reference fits better than its inverse, and the sign of the defocus alone tells.
    os.mkdir(f"{world.work}/far")
    far = World(f"{world.work}/far", defoci=(30000, 50000))
    far.write("overfocus", far.images, -far.defocus)
    _, words, _ = far.refine("overfocus")
    check("negative defocus" in words.get("refine-defocus", ""), f"the same far from focus: {words}")
    check("better with inverted contrast" in words.get("refine-contrast", ""), "where the contrast tells it, too")
    world.write("micrometres", world.images, world.defocus * 1e-4)
    _, words, _ = world.refine("micrometres")
    check("120 of 120 particles have a defocus of less than 1000" in words.get("refine-defocus", ""), f"µm: {words}")


def diameters(world):
    _, _, text = world.refine("normalised", "--diameter", "60")
    told = re.findall(r"WARN refine-diameter (.*)", text)
    for what in ("reference", "map"):
        start = rf"\d+ % of the {what}'s density \(squared, to 30 Å\) lies outside the diameter of 60 Å"
        check(sum(bool(re.match(start, line)) for line in told) == 1, f"a diameter that cuts the {what}: {told}")
    check(len(told) == 2, "of each there is one text")


def final(out):
    """Returns the values and the curves of postprocess.star."""
    general, names, rows, table = {}, [], [], ""
    for words in map(str.split, open(f"{out}/postprocess.star", encoding="utf-8")):
        if words and words[0].startswith("data_"):
            table = words[0]
        elif table == "data_general" and len(words) == 2:
            general[words[0][1:]] = words[1]
        elif table == "data_fsc" and words and words[0].startswith("_"):
            names.append(words[0][1:])
        elif table == "data_fsc" and len(words) == len(names) > 0:
            rows.append([float(word) for word in words])
    return general, dict(zip(names, np.array(rows).T))


def masks(folder):
    """The poses of the particles are right and stay: a mask changes the end alone."""
    world = World(folder, count=400, seed=8)
    world.write("posed", world.images, world.defocus, world.poses)
    reference = mrcfile.read(f"{world.work}/reference.mrc")
    densest = np.unravel_index(reference.argmax(), reference.shape)
    found = {}
    for name, mask in (("tight", ball(densest, 4, 1)), ("wide", ball(3 * [BOX // 2], 11, 5))):
        mrcfile.write(f"{world.work}/{name}.mrc", mask, voxel_size=PIXEL)
        found[name] = world.refine("posed", "--skip_align", "true", "--mask", f"{world.work}/{name}.mrc")
    out, words, text = found["tight"]
    general, curves = final(out)
    unmasked, inside = (float(general.get(name, 0)) for name in ("rlnFinalResolution", "icestreamResolutionInMask"))
    end = np.argmax(curves["rlnFourierShellCorrelationUnmaskedMaps"] < 0.143)
    check(abs(unmasked - curves["rlnAngstromResolution"][end - 1]) < 0.01, f"a tight mask leaves {unmasked} Å")
    check(0 < inside < unmasked, f"where inside it {inside} Å were told")
    told = words.get("refine-mask-doubted", "")
    check(f"the resolution is that of the unmasked maps, {unmasked:.2f} Å" in told, f"the mask is doubted: {words}")
    check(f"(inside the mask it would be {inside:.2f} Å)" in told, "with both numbers")
    check(f"{unmasked:.1f} Å unmasked (the mask is doubted)" in text, f"so says the result: {text[-600:]}")
    check(" masked," not in text, "which does not tell the other number")
    out, words, text = found["wide"]
    general, _ = final(out)
    check(not words, f"of a wide and soft mask nothing is told: {words}")
    check(not {"icestreamMaskDoubted", "icestreamResolutionInMask"} & set(general), f"nor in the table: {general}")
    check(f"{float(general['rlnFinalResolution']):.1f} Å masked" in text, f"the result tells its number: {text[-600:]}")


def views(folder):
    """The views are those of the table: searches would spread them."""
    complete = {}
    for name, cone in (("even", 180), ("narrow", 20)):
        os.mkdir(f"{folder}/{name}")
        world = World(f"{folder}/{name}", count=400, seed=8, cone=cone)
        world.write("posed", world.images, world.defocus, world.poses)
        out, words, _ = world.refine("posed", "--skip_align", "true")
        told = words.get("refine-orientations", "")
        if name == "narrow":
            check(re.search(r"0\.[0-4]\d of 1: some directions are hardly seen.*tilt the stage by \d+°", told), f"views: {words}")
        else:
            check(not told, f"nothing is told of views from all sides: {words}")
        model = open(f"{out}/run_half1_model.star", encoding="utf-8").read().partition("data_model_classes")[2].splitlines()
        names = [line.split()[0] for line in model if line.startswith("_rln")]
        row = next(line.split() for line in model if ".mrc" in line)
        complete[name] = float(row[names.index("_rlnOverallFourierCompleteness")])
    check(complete["narrow"] < complete["even"] - 0.1, f"they leave the map incomplete: {complete}")


def classes(world):
    few = ("--classes", "3", "--final_passes", "1", "--visits", "2")
    world.write("offset", world.images * 37 + 1000, world.defocus)
    world.write("masked", np.where(world.outside, 500, world.images + 500), world.defocus)
    _, words, _ = world.run("classifier", "normalised", *few)
    check(not {"background", "defocus", "none"} & set(words), f"nothing of a set that is right: {words}")
    _, words, text = world.run("classifier", "offset", *few)
    check("background" in words and "none" not in words, f"classes of a set that is not normalised: {words}")
    kept = re.search(r"with (\d+) of 120 particles", text)
    check(kept and int(kept[1]) > 100, f"most of them are kept: {text[-300:]}")
    _, words, _ = world.run("classifier", "normalised", *few, "--keep", "quality > 2")
    check("`keep` asks for quality > 2; the best class has" in words.get("none", ""), f"why none is kept: {words}")
    _, words, _ = world.run("classifier", "micrometres", *few)
    check("defocus" in words, f"µm at the classifier: {words}")
    _, _, text = world.run("classifier", "masked", *few, code=1)
    check("are constant, at 500" in text, f"a constant background is refused: {text[-600:]}")


def symmetries(folder):
    """A map is refined in a symmetry that it has, and in one that it has not."""
    twofold = ((1, 1, 1), (-1, -1, 1), (-1, 1, -1), (1, -1, -1))
    for name, mates, groups in (("D2", twofold, {"D2": False, "C4": True}), ("C1", ((1, 1, 1),), {"D2": True})):
        os.mkdir(f"{folder}/{name}")
        world = World(f"{folder}/{name}", mates, count=400, seed=7)
        world.write("particles", world.images, world.defocus)
        few = ["--reference", f"{world.work}/reference.mrc", "--initial_lowpass", "40", "--local_resolution", "false"]
        for group, told in groups.items():
            _, words, _ = world.run("refiner", "particles", *few, "--symmetry", group, "--healpix_order", "2")
            check(("refine-symmetry" in words) == told, f"a map of {name}, refined in {group}: {words}")


print(f"seed {SEED}")
with tempfile.TemporaryDirectory(prefix="icestream-doubtful-") as folder:
    alone = {"masks": masks, "symmetries": symmetries, "views": views}
    if sys.argv[1] in alone:
        alone[sys.argv[1]](folder)
    else:
        made = World(folder)
        made.write("normalised", made.images, made.defocus)
        for part in (backgrounds,) if sys.argv[1] == "backgrounds" else (signs, diameters, classes):
            part(made)
sys.exit(failed > 0)
