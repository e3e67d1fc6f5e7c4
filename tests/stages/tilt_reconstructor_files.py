#!/usr/bin/env python3
"""Runs icestream-tilt-reconstructor on files: the tomogram lies the right way round for any source and order of angles;
headers, tables and pictures are as other programs expect."""

import glob
import json
import os
import shutil
import tempfile

from tilt_series_files import check, end, likeness, mrcfile, np, reconstruct, said, simulate, volume, write, write_stack

SEED = 11
SIDE, DEPTH = 64, 24
ANGLES = np.arange(-60, 61, 6.0)
FEW = ["--iterations", 8, "--thickness", DEPTH]


def bump_series(points):
    """Draws Gaussians at (x, y, z) from the centre, seen at u = x cos θ + z sin θ, independently of the program."""
    rows, columns = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    images = []
    for angle in np.radians(ANGLES):
        image = np.zeros((SIDE, SIDE))
        for x, y, z, height in points:
            u = x * np.cos(angle) + z * np.sin(angle)
            image += height * np.exp(-((columns - u) ** 2 + (rows - y) ** 2) / 8)
        images.append(image)
    return np.array(images)


def handedness(work):
    """A bump appears where it was put, in x, y and z, for both methods and each basis."""
    points = [(14, -9, 6, 1.0), (-11, 17, -4, 2.0)]
    stack = write_stack(f"{work}/hand/ts.st", bump_series(points))
    write(f"{work}/hand/ts.tlt", "".join(f"{a:.2f}\n" for a in ANGLES))
    for how in (["--basis", "blob"], ["--basis", "linear"], ["--basis", "voxel"], ["--method", "wbp"]):
        out = f"{work}/hand/{how[1]}"
        reconstruct("--i", stack, "--o", out, *FEW, *how)
        found = volume(f"{out}/ts.mrc")
        check(found.shape == (DEPTH, SIDE, SIDE), f"{how[1]}: z, y, x is {found.shape}")
        for x, y, z, _ in points:
            i, j, k = (int(round(c + (n - 1) / 2)) for c, n in ((x, SIDE), (y, SIDE), (z, DEPTH)))
            box = found[k - 4 : k + 5, j - 6 : j + 7, i - 6 : i + 7].clip(0)
            w = np.array([(g * box**2).sum() / (box**2).sum() for g in np.mgrid[-4:5, -6:7, -6:7]])
            w += [k - z - (DEPTH - 1) / 2, j - y - (SIDE - 1) / 2, i - x - (SIDE - 1) / 2]
            check(
                np.abs(w[1:]).max() < 0.1 and abs(w[0]) < 0.6,
                f"{how[1]}: the bump at ({x}, {y}, {z}) is off by {w[2]:.2f}, {w[1]:.2f}, {w[0]:.2f} px",
            )
            mirror = found[DEPTH - 1 - k, j, i]
            check(found[k, j, i] > 2 * abs(mirror), f"{how[1]}: and not where a mirror would put it")


def headers(work, stem, truth):
    out = f"{work}/headers"
    reconstruct("--i", f"{stem}.st", "--tilts", f"{stem}.rawtlt", "--thickness", DEPTH, "--o", out, "--iterations", 12)
    check(mrcfile.validate(f"{out}/ts.mrc", print_file=open(os.devnull, "w")), "mrcfile finds nothing wrong")
    with mrcfile.open(f"{out}/ts.mrc") as file:
        h, data = file.header, file.data
        check(
            (h.nx, h.ny, h.nz) == (SIDE, SIDE, DEPTH) and (h.mx, h.my, h.mz) == (SIDE, SIDE, DEPTH), "size and sampling"
        )
        check(
            np.allclose([file.voxel_size.x, file.voxel_size.y, file.voxel_size.z], 10) and h.mode == 2, "10 Å, mode 2"
        )
        check((h.mapc, h.mapr, h.maps) == (1, 2, 3) and h.ispg == 1 and h.origin.x == 0, "axes, volume, origin")
        check(
            np.isclose(h.dmin, data.min())
            and np.isclose(h.dmax, data.max())
            and np.isclose(h.dmean, data.mean(), atol=1e-6),
            "minimum, maximum, mean",
        )
        check(
            h.nlabl == 3 and b"icestream" in bytes(h.label[0]) and b"SIRT, blob basis, 12" in bytes(h.label[2]),
            "labels",
        )
        whole = likeness(data, truth)
        turned = max(
            likeness(data[s], truth)
            for s in [
                (slice(None, None, z), slice(None, None, y), slice(None, None, x))
                for z in (1, -1)
                for y in (1, -1)
                for x in (1, -1)
            ][1:]
        )
    check(whole > 0.8 and turned < 0.4, f"like the phantom: {whole:.3f}, its mirrors and turns at most {turned:.3f}")
    names = sorted(os.listdir(out))
    check(names == ["tomograms.star", "ts.json", "ts.mrc", "ts_residuals.csv", "ts_slices.png"], f"products: {names}")
    curve = np.loadtxt(f"{out}/ts_residuals.csv", delimiter=",", skiprows=1)
    check(
        curve.shape == (12, 2) and (np.diff(curve[:, 1]) < 0).all(),
        f"residuals fall: {curve[0, 1]:.3f} to {curve[-1, 1]:.3f}",
    )
    record = json.load(open(f"{out}/ts.json"))
    check(
        record["iterations"] == 12 and record["method"] == "sirt" and len(record["tilts"]) == len(ANGLES), "the record"
    )
    check(
        record["notes"] == [] and [t["view"] for t in record["tilts"]] == list(range(1, len(ANGLES) + 1)), "its tilts"
    )
    check(open(f"{out}/ts_slices.png", "rb").read(8) == b"\x89PNG\r\n\x1a\n", "a picture")
    row = [line.split() for line in open(f"{out}/tomograms.star") if line.strip().startswith("ts ")]
    check(
        len(row) == 1 and row[0][6] == "headers/ts.mrc" and row[0][3:6] == [str(SIDE), str(SIDE), str(DEPTH)], f"{row}"
    )
    return out


def lines_down(folder, named):
    """Writes TIFF files as IMOD and SerialEM do: the top line first, where MRC has the bottom line."""
    from PIL import Image

    os.mkdir(folder)
    for name, image in named:
        Image.fromarray(np.ascontiguousarray(image[::-1], np.float32)).save(f"{folder}/{name}")


def orders(work, stem):
    """A sorted stack, a shuffled one, single files and each source of angles give the same tomogram, bit for bit."""
    out, images = f"{work}/orders", volume(f"{stem}.st")
    reconstruct("--i", f"{stem}.st", "--o", f"{out}/beside", *FEW)
    expected = open(f"{out}/beside/ts.mrc", "rb").read()
    shuffled = np.random.default_rng(SEED).permutation(len(ANGLES))
    folder = f"{work}/shuffled"
    write_stack(f"{folder}/ts.st", images[shuffled])
    tlt = write(f"{folder}/ts.tlt", "".join(f"{ANGLES[i]:.2f}\n" for i in shuffled))
    mdoc = "PixelSpacing = 10\nImageFile = ts.st\n\n" + "".join(
        f"[ZValue = {z}]\nTiltAngle = {ANGLES[i]:.3f}\n\n" for z, i in sorted(enumerate(shuffled), key=lambda p: -p[1])
    )
    write(f"{folder}/sections.mdoc", mdoc)
    single = f"{work}/single"
    names = "".join(
        f"[ZValue = {z}]\nTiltAngle = {ANGLES[i]:.3f}\nSubFramePath = X:\\frames\\tilt_{z:03d}_{ANGLES[i]:.1f}.tif\n\n"
        for z, i in enumerate(shuffled)
    )
    write(f"{single}/ts.mdoc", "PixelSpacing = 10\n\n" + names)
    for z, i in enumerate(shuffled):
        text = f"{ANGLES[i]:.1f}".replace(".", "_") if z % 2 else f"{ANGLES[i]:.1f}"
        with mrcfile.new(f"{single}/tilt_{z:03d}_{text}.mrc") as file:
            file.set_data(images[i])
            file.voxel_size = 10
    shutil.copy(f"{single}/ts.mdoc", f"{work}/away.mdoc")
    plain = f"{work}/plain"
    os.mkdir(plain)
    for z, i in enumerate(shuffled):
        with mrcfile.new(f"{plain}/tilt_{z:03d}_{ANGLES[i]:.1f}.mrc") as file:
            file.set_data(images[i])
            file.voxel_size = 10
    lines_down(f"{work}/tiff", [(f"tilt_{z:03d}_{ANGLES[i]:.1f}.tif", images[i]) for z, i in enumerate(shuffled)])
    shutil.copy(f"{single}/ts.mdoc", f"{work}/tiff/ts.mdoc")
    ways = {
        "tlt": [f"{folder}/ts.st", "--tilts", tlt],
        "sections": [f"{folder}/ts.st", "--tilts", f"{folder}/sections.mdoc"],
        "mdoc": [f"{single}/ts.mdoc"],
        "images": [f"{work}/away.mdoc", "--images", single],
        "folder": [plain, "--tilts", f"{work}/away.mdoc"],
        "tiff": [f"{work}/tiff/ts.mdoc"],
    }
    for way, arguments in ways.items():
        reconstruct("--i", *arguments, "--o", f"{out}/{way}", *FEW)
        name = f"{out}/{way}/{'away' if way in ('images', 'folder') else 'ts'}.mrc"
        check(os.path.exists(name) and open(name, "rb").read() == expected, f"{way}: the same bytes")
    numbers = json.load(open(f"{out}/tlt/ts.json"))["tilts"]
    check([t["view"] - 1 for t in numbers] == list(np.argsort(shuffled)), "views keep their numbers")


def retaken(work, stem):
    """When a tilt was recorded again, the later one counts. Excluded tilts do not count. Both are logged."""
    images, out = volume(f"{stem}.st"), f"{work}/retaken"
    keep = [i for i in range(len(ANGLES)) if i != 9]
    stack = write_stack(f"{out}/ts.st", np.concatenate([images[keep], images[5:6] * 0.3, images[5:6]]))
    angles = [ANGLES[i] for i in keep] + [ANGLES[5], ANGLES[5]]
    write(
        f"{out}/ts.st.mdoc",
        "PixelSpacing = 10\n" + "".join(f"[ZValue = {z}]\nTiltAngle = {a:.3f}\n" for z, a in enumerate(angles)),
    )
    text = reconstruct("--i", stack, "--o", f"{out}/o", *FEW)
    record = json.load(open(f"{out}/o/ts.json"))
    check(len(record["tilts"]) == 20 and record["tilts"][5]["view"] == 22, "the last of three counts")
    check(
        any("no tilt between -12.00° and 0.00°" in n for n in record["notes"]),
        f"the record names the gap: {record['notes']}",
    )
    check("was taken again as view 22" in text and "there is no tilt between" in text, "on the terminal too")
    reconstruct("--i", stack, "--o", f"{out}/x", *FEW, "--exclude", "21,22,1-3")
    record = json.load(open(f"{out}/x/ts.json"))
    check(
        [t["view"] for t in record["tilts"]] == list(range(4, 21)), "exclude counts from 1, in the order of the stack"
    )


def sorted_file(work, stem):
    """A file sorted by angle may have a retaken tilt before the one that it replaces: times decide."""
    images, out = volume(f"{stem}.st"), f"{work}/times"
    stack = write_stack(f"{out}/ts.st", np.concatenate([images[:6], images[5:6] * 0.3, images[6:]]))
    angles = [*ANGLES[:6], ANGLES[5] + 0.01, *ANGLES[6:]]
    times = ["08-Oct-21  10:59:00" if z == 5 else f"08-Oct-2021  10:{z:02d}:00" for z in range(len(angles))]
    write(
        f"{out}/ts.st.mdoc",
        "PixelSpacing = 10\n"
        + "".join(
            f"[ZValue = {z}]\nTiltAngle = {a:.3f}\nDateTime = {t}\n" for z, (a, t) in enumerate(zip(angles, times))
        ),
    )
    text = reconstruct("--i", stack, "--o", f"{out}/o", *FEW)
    views = [t["view"] for t in json.load(open(f"{out}/o/ts.json"))["tilts"]]
    check(views == [v for v in range(1, 23) if v != 7], f"the tilt that was recorded last counts: {views}")
    check("view 7 at -29.99° was taken again as view 6" in text, "the terminal names the tilt that was recorded again")


def pixel_sizes(work, stem):
    """The headers of images that were binned later count, for each way of input, and the difference is logged."""
    images, folder, out = volume(f"{stem}.st"), f"{work}/sizes", f"{work}/sizes-out"
    sections = "".join(
        f"[ZValue = {i}]\nTiltAngle = {a:.2f}\nSubFramePath = D:\\t{i}.tif\n" for i, a in enumerate(ANGLES)
    )
    mdoc = write(f"{folder}/ts.mdoc", "PixelSpacing = 10\n" + sections)
    for i, image in enumerate(images):
        with mrcfile.new(f"{folder}/t{i}.mrc") as file:
            file.set_data(image)
            file.voxel_size = 20
    stack = write_stack(f"{work}/sizes-stack/ts.st", images, 20)
    whole = write(f"{work}/sizes-stack/ts.st.mdoc", open(mdoc).read())
    for way, arguments in {
        "mdoc": [mdoc],
        "folder": [folder, "--tilts", mdoc],
        "stack": [stack],
        "its mdoc": [whole],
    }.items():
        text = reconstruct("--i", *arguments, "--o", f"{out}/{way}", "--thickness", 8, "--iterations", 1)
        with mrcfile.open(f"{out}/{way}/ts.mrc", header_only=True) as file:
            check(np.isclose(file.voxel_size.x, 20), f"{way}: {file.voxel_size.x} Å, as the images' headers say")
        said(text, "the pixel size is taken as 20 Å, where PixelSpacing of the .mdoc is 10 Å")


def names(work, stem):
    """Images whose names other programs changed are found in a folder and by the .mdoc; images of another series are
    refused."""
    images, folder = volume(f"{stem}.st"), f"{work}/names"
    sections = "".join(
        f"[ZValue = {i}]\nTiltAngle = {a:.2f}\nSubFramePath = D:\\ts_{i:03d}_{a:.1f}.tif\n"
        for i, a in enumerate(ANGLES)
    )
    mdoc = write(f"{work}/names-mdoc/ts.mdoc", "PixelSpacing = 10\n" + sections)
    os.mkdir(folder)
    for i, (a, image) in enumerate(zip(ANGLES, images)):
        write_stack(f"{folder}/ts_{i:03d}_{a:.1f}".replace(".", "_") + ".mrc", image[None])
    reconstruct("--i", folder, "--tilts", mdoc, "--o", f"{work}/n-folder", *FEW)
    reconstruct("--i", mdoc, "--images", folder, "--o", f"{work}/n-mdoc", *FEW)
    check(
        open(f"{work}/n-folder/ts.mrc", "rb").read() == open(f"{work}/n-mdoc/ts.mrc", "rb").read(), "the same tomogram"
    )
    write_stack(f"{folder}/other_001.mrc", images[:1])
    text = reconstruct("--i", folder, "--tilts", mdoc, "--o", f"{work}/n-other", *FEW, expect=3)
    said(
        text, "ts.mdoc names no other_001.mrc (its first tilt is ts_000_-60.0.tif): it is not of that series", "21 done"
    )


def alignment(work):
    stem, truth = simulate(f"{work}/shifted", size=SIDE, thickness=DEPTH, step=6, shift=5, snr=20, seed=SEED)
    phantom = volume(f"{truth}.mrc")
    reconstruct("--i", f"{stem}.st", "--o", f"{work}/a-none", *FEW)
    reconstruct("--i", f"{stem}.st", "--o", f"{work}/a-xf", *FEW, "--transforms", f"{truth}.xf")
    shutil.copy(f"{truth}.xf", f"{stem}.xf")
    reconstruct("--i", f"{stem}.st", "--o", f"{work}/a-beside", *FEW, "--transforms", "beside")
    reconstruct("--i", f"{stem}.st", "--o", f"{work}/a-coarse", *FEW, "--align", "coarse")
    none, xf = (likeness(volume(f"{work}/a-{n}/ts.mrc"), phantom) for n in ("none", "xf"))
    check(xf > 0.75 and none < 0.75 * xf, f"like the phantom: {xf:.3f} with .xf, {none:.3f} without")
    check(
        open(f"{work}/a-xf/ts.mrc", "rb").read() == open(f"{work}/a-beside/ts.mrc", "rb").read(), "transforms: beside"
    )
    # A volume that is aligned on its own may be shifted as a whole.
    found = volume(f"{work}/a-coarse/ts.mrc")
    peak = np.fft.irfftn(np.fft.rfftn(found) * np.conj(np.fft.rfftn(phantom - phantom.mean())), s=phantom.shape)
    best = float(peak.max() / (found.std() * phantom.std() * phantom.size))
    check(best > 0.85 * xf, f"coarse: {best:.3f} once moved into place")
    record = json.load(open(f"{work}/a-coarse/ts.json"))
    check(
        "aligned by cross-correlation" in record["alignment"] and len(record["tilts"][0]["transform"]) == 6,
        "as the record says",
    )


def turned_axis(work, stem):
    """Images of a microscope whose tilt axis is 90° off give the same images after they are turned."""
    images, folder = volume(f"{stem}.st"), f"{work}/turned"
    # The axis lies along −x: 90° anticlockwise of y. (x, y) of the upright image is at (−y, x) of this one.
    raw = np.ascontiguousarray(np.rot90(images, k=-1, axes=(1, 2)))
    stack = write_stack(f"{folder}/ts.st", raw)
    shutil.copy(f"{stem}.rawtlt", f"{folder}/ts.rawtlt")
    reconstruct("--i", stack, "--o", f"{folder}/o", *FEW, "--tilt_axis", 90)
    reconstruct("--i", f"{stem}.st", "--o", f"{folder}/e", *FEW)
    check(
        likeness(volume(f"{folder}/o/ts.mrc"), volume(f"{folder}/e/ts.mrc")) > 0.999,
        "tilt_axis: 90 turns images upright",
    )


def binning(work):
    """If bin does not divide the sides, a tilt without a transform gives the same image as with a transform that
    changes almost nothing."""
    folder, rows, columns = f"{work}/rest", *(np.mgrid[:66, :66] - 32.5)
    images = [
        np.exp(-((columns - 9 * np.cos(np.radians(a)) + 5 * np.sin(np.radians(a))) ** 2 + (rows - 7) ** 2) / 60)
        for a in ANGLES
    ]
    stack = write_stack(f"{folder}/ts.st", images)
    write(f"{folder}/ts.tlt", "".join(f"{a:.2f}\n" for a in ANGLES))
    found = []
    for name, least in (("none", 0), ("nearly", 1e-5)):
        xf = write(f"{folder}/{name}.xf", "".join(f"1 0 0 1 {least if n == 10 else 1} 0\n" for n in range(len(ANGLES))))
        reconstruct(
            "--i",
            stack,
            "--transforms",
            xf,
            "--bin",
            4,
            "--thickness",
            40,
            "--iterations",
            8,
            "--o",
            f"{folder}/{name}",
        )
        found.append(volume(f"{folder}/{name}/ts.mrc"))
    apart = float(np.linalg.norm(found[0] - found[1]) / np.linalg.norm(found[1]))
    check(
        apart < 1e-4, f"bin 4 of 66 px: 1e-5 px in one transform of {len(ANGLES)} changes the tomogram by {apart:.1e}"
    )


def options(work, stem, truth):
    out, st = f"{work}/options", f"{stem}.st"
    reconstruct("--i", st, "--o", f"{out}/bin", *FEW, "--bin", 2, "--precision", "float16")
    with mrcfile.open(f"{out}/bin/ts.mrc") as file:
        check(
            file.data.shape == (DEPTH // 2, SIDE // 2, SIDE // 2)
            and file.header.mode == 12
            and np.isclose(file.voxel_size.x, 20),
            "bin 2, float16",
        )
        small = truth.reshape(DEPTH // 2, 2, SIDE // 2, 2, SIDE // 2, 2).mean((1, 3, 5))
        check(likeness(file.data.astype(np.float32), small) > 0.8, "like the binned phantom")
    mask = np.zeros((DEPTH, SIDE, SIDE), np.float32)
    mask[4:-4, 8:-8, 8:-8] = 1
    write_stack(f"{out}/mask.mrc", mask)
    reconstruct(
        "--i", st, "--o", f"{out}/masked", *FEW, "--basis", "voxel", "--mask", f"{out}/mask.mrc", "--non-negative"
    )
    masked = volume(f"{out}/masked/ts.mrc")
    check((masked[mask == 0] == 0).all() and masked.min() >= 0 and masked.max() > 0, "mask, non_negative")
    reconstruct("--i", st, "--o", f"{out}/stopped", "--thickness", DEPTH, "--iterations", 500, "--stop", 0.01)
    rows = len(open(f"{out}/stopped/ts_residuals.csv").readlines()) - 1
    check(1 < rows < 400, f"stop: after {rows} iterations")
    reconstruct(
        "--i",
        st,
        "--o",
        f"{out}/wbp",
        "--thickness",
        DEPTH,
        "--method",
        "wbp",
        "--roll-off",
        "hamming",
        "--cutoff",
        0.8,
    )
    check(
        not os.path.exists(f"{out}/wbp/ts_residuals.csv") and json.load(open(f"{out}/wbp/ts.json"))["method"] == "wbp",
        "WBP",
    )
    scaled = volume(st) * np.linspace(0.5, 2, len(ANGLES))[:, None, None] + 0
    shutil.copy(f"{stem}.rawtlt", f"{out}/dim.rawtlt")
    write_stack(f"{out}/dim.st", scaled)
    for name, expected in (("mass", True), ("none", False)):
        reconstruct("--i", f"{out}/dim.st", "--o", f"{out}/dim-{name}", *FEW, "--normalise", name)
        reconstruct("--i", st, "--o", f"{out}/even-{name}", *FEW, "--normalise", name)
        same = likeness(volume(f"{out}/dim-{name}/dim.mrc"), volume(f"{out}/even-{name}/ts.mrc"))
        check((same > 0.999) == expected, f"normalise {name}: {same:.4f} like images of one exposure")
    # A beam of many times the contrast, as microscopes give it, does no harm. Without the mean the beam would be all
    # that the tomogram shows.
    beam = 20 * volume(st).std()
    write_stack(f"{out}/beam.st", volume(st) + beam)
    shutil.copy(f"{stem}.rawtlt", f"{out}/beam.rawtlt")
    for method in ("sirt", "wbp"):
        for name in ("mass", "none"):
            reconstruct(
                "--i", f"{out}/beam.st", "--o", f"{out}/beam-{name}", *FEW, "--method", method, "--normalise", name
            )
        reconstruct("--i", st, "--o", f"{out}/even-mean", *FEW, "--method", method, "--normalise", "mean")
        like = [
            likeness(volume(f"{out}/beam-{name}/beam.mrc"), volume(f"{out}/even-mean/ts.mrc"))
            for name in ("mass", "none")
        ]
        check(
            like[0] > 0.999 and like[1] < 0.5,
            f"images on a beam, {method}: {like[0]:.4f} like those without, {like[1]:.4f} as they are",
        )
    reconstruct("--i", f"{out}/beam.st", "--o", f"{out}/beam-positive", *FEW, "--non-negative")
    check(volume(f"{out}/beam-positive/beam.mrc").mean() > 0.5 * beam / DEPTH, "with non_negative the beam stays")


with tempfile.TemporaryDirectory(prefix="icestream-tilts-") as work:
    print(f"seed {SEED}")
    stem, truth = simulate(f"{work}/sim", size=SIDE, thickness=DEPTH, step=6, balls=30, seed=SEED)
    handedness(work)
    phantom = volume(f"{truth}.mrc")
    headers(work, stem, phantom)
    orders(work, stem)
    retaken(work, stem)
    sorted_file(work, stem)
    pixel_sizes(work, stem)
    names(work, stem)
    alignment(work)
    turned_axis(work, stem)
    binning(work)
    options(work, stem, phantom)
    check(not glob.glob(f"{work}/**/.*.partial", recursive=True), "nothing half-written is left")
end()
