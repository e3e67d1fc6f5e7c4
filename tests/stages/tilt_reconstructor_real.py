#!/usr/bin/env python3
"""Runs icestream-tilt-reconstructor on files of other programs and microscopes: stacks of each mode, extended headers,
angles, transforms and .mdoc files; a tooth at a synchrotron, a microtubule. Prints a line for data that is not there.
"""

import json
import os
import shutil
import struct
import tempfile

from tilt_series_files import (
    DATA,
    SKIP,
    check,
    end,
    likeness,
    mrcfile,
    np,
    reconstruct,
    said,
    volume,
    write,
    write_stack,
)


def data(*parts):
    path = os.path.join(DATA, *parts)
    if not os.path.exists(path):
        print(f"skipped: no {path}")
        return None
    return path


def filtered_back_projection(images, angles, side):
    """Reconstructs row by row, linear between rays, independently of the program. images[tilt][x], about the middle."""
    padded = 2 * side
    ramp = np.abs(np.fft.rfftfreq(padded)) * np.cos(np.pi * np.fft.rfftfreq(padded))
    filtered = np.fft.irfft(np.fft.rfft(images, padded, axis=1) * ramp, padded, axis=1)[:, :side]
    z, x = np.mgrid[:side, :side] - (side - 1) / 2
    total = np.zeros((side, side))
    for row, angle in zip(filtered, np.radians(angles)):
        total += np.interp(x * np.cos(angle) + z * np.sin(angle) + (side - 1) / 2, np.arange(side), row)
    return total


def tooth(work):
    """Absorption of a tooth, 181 angles over 180°; its axis lies at column 296 of 640 (TomoPy's documentation), as
    .xf says."""
    path = data("tomopy", "tooth.h5")
    if path is None:
        return
    images, flat, dark = (
        np.fromfile(path, "<f4", 2 * 640 * n, offset=at).reshape(n, 2, 640).astype(float)
        for n, at in ((181, 8304), (10, 987672), (10, 936472))
    )
    angles = np.fromfile(path, "<f8", 181, offset=935024) - 89.5
    check(abs(angles[-1] - 89.5055) < 1e-3 and flat.mean() > 10 * dark.mean(), "the file is laid out as it was")
    seen = -np.log(np.maximum((images - dark.mean(0)) / (flat.mean(0) - dark.mean(0)), 1e-4))
    stack = write_stack(f"{work}/tooth/tooth.st", seen.astype(np.float32).repeat(2, axis=1), 1)
    write(f"{work}/tooth/tooth.rawtlt", "".join(f"{a:.4f}\n" for a in angles))
    write(f"{work}/tooth/tooth.xf", f"1 0 0 1 {319.5 - 296} 0\n" * len(angles))
    options = ["--thickness", 640, "--bin", 4, "--normalise", "none"]
    centred = np.roll(seen[:, 0], 24, axis=1).reshape(181, 160, 4).mean(2)
    expected = filtered_back_projection(centred, angles, 160)
    z, x = np.mgrid[:160, :160] - 79.5
    inside = np.hypot(z, x) < 65  # beyond it not all images show the object
    found = {}
    for way, more in {"wbp": ["--method", "wbp"], "sirt": ["--iterations", 10]}.items():
        reconstruct("--i", stack, "--o", f"{work}/tooth/{way}", "--transforms", "beside", *options, *more)
        found[way] = likeness(volume(f"{work}/tooth/{way}/tooth.mrc")[:, 0][inside], expected[inside])
    reconstruct("--i", stack, "--o", f"{work}/tooth/off", *options, "--method", "wbp")
    off = likeness(volume(f"{work}/tooth/off/tooth.mrc")[:, 0][inside], expected[inside])
    check(
        found["wbp"] > 0.97 and found["sirt"] > 0.9 and off < 0.9,
        f"like a back-projection made with NumPy: {found}; its axis elsewhere: {off:.3f}",
    )


def project(density, angles):
    """Projects density[z][y][x], linear between rays."""
    nz, ny, nx = density.shape
    z, x = np.mgrid[:nz, :nx]
    images = np.zeros((len(angles), ny, nx + 2))
    for image, angle in zip(images, np.radians(angles)):
        u = (x - (nx - 1) / 2) * np.cos(angle) + (z - (nz - 1) / 2) * np.sin(angle) + (nx - 1) / 2
        left = np.floor(u).astype(int)
        for shift in (0, 1):
            weight, at = 1 - np.abs(u - left - shift), np.clip(left + shift + 1, 0, nx + 1)
            for y in range(ny):
                image[y] += np.bincount(at.ravel(), (weight * density[:, y]).ravel(), nx + 2)
    return images[:, :, 1:-1]


def mark_as_imod(path, signed):
    with open(path, "r+b") as file:
        file.seek(152)
        file.write(struct.pack("<ii", 1146047817, signed))


def microtubule(work):
    """Projections of a subtomogram in each mode, with extended headers and in both byte orders, give one series."""
    path = data("cylindra", "tests", "13pf_MT.tif")
    if path is None:
        return
    try:
        from PIL import Image, ImageSequence
    except ImportError as missing:
        print(f"skipped: {missing}")
        return
    density = np.array([np.array(page, float) for page in ImageSequence.Iterator(Image.open(path))])[:, 40:120]
    angles = np.arange(-60, 61, 4.0)
    seen = project(density - density.mean(), angles)
    whole = np.rint((seen - seen.min()) / (seen.max() - seen.min()) * 127)
    ways = {
        "float32": np.float32,
        "int16": np.int16,
        "uint16": np.uint16,
        "float16": np.float16,
        "int8": np.int8,
        "bytes": np.uint8,
        "extended": np.float32,
        "big_endian": ">i2",
        "volume": np.float32,
    }
    folder, expected = f"{work}/modes", None
    os.makedirs(folder)
    for name, kind in ways.items():
        stack = f"{folder}/{name}.st"
        with mrcfile.new(stack) as file:
            file.set_data((whole + 128).astype(np.uint8).view(np.int8) if name == "bytes" else whole.astype(kind))
            file.set_volume() if name == "volume" else file.set_image_stack()
            file.voxel_size = 10.52
            if name == "extended":
                file.set_extended_header(np.frombuffer(np.random.default_rng(3).bytes(1024 * len(angles)), "V1"))
                file.header.exttyp = b"SERI"
        if name in ("bytes", "int8"):
            mark_as_imod(stack, name == "int8")
        write(f"{folder}/{name}.tlt", "".join(f"{a}\n" for a in angles))
        more = ["--normalise", "mean"]  # so that values that are 128 higher are the same
        reconstruct("--i", stack, "--o", f"{folder}/o", "--thickness", density.shape[0], "--iterations", 15, *more)
        found = volume(f"{folder}/o/{name}.mrc")
        expected = found if expected is None else expected
        check(
            np.abs(found - expected).max() < 1e-4 * expected.std()
            and json.load(open(f"{folder}/o/{name}.json"))["pixel_size"] > 10.5,
            f"{name}: the same tomogram",
        )
    like, mirrored = likeness(expected, density), likeness(expected[::-1], density)
    check(
        like > 0.5 and mirrored < 0.8 * like,
        f"like the microtubule, but for the missing wedge: {like:.3f}; mirrored in z {mirrored:.3f}",
    )


def etomo(work):
    path = data("etomofiles", "test_data", "TS_001", "TS_001.st")
    if path is None:
        return
    reconstruct("--i", path, "--o", f"{work}/etomo", "--thickness", 4, "--transforms", "beside")
    record = json.load(open(f"{work}/etomo/TS_001.json"))
    check(len(record["tilts"]) == 40 and record["tilts"][0]["angle"] == -57.12, "etomo's .tlt before its .rawtlt")


def float16_images(work):
    folder = data("tiltstack", "tests", "test_data")
    if folder is None:
        return
    reconstruct(
        "--i",
        f"{folder}/mdoc/TS_01.mrc.mdoc",
        "--images",
        f"{folder}/tilt_images",
        "--o",
        f"{work}/warp",
        "--thickness",
        6,
    )
    record = json.load(open(f"{work}/warp/TS_01.json"))
    views = [t["view"] for t in record["tilts"]]
    check(
        len(views) == 41 and views[:3] == [40, 39, 36] and record["pixel_size"] == 5.4,
        f"dose-symmetric, sorted: {views[:3]}",
    )


def aretomo(work):
    """Reads 53 transforms that turn by 11°, and refined angles, with images of noise."""
    folder = data("cryoet_alignment", "tests", "data", "convert", "imod_1")
    if folder is None:
        return
    count = len(open(f"{folder}/tilt_1.tlt").read().split())
    stack = write_stack(
        f"{work}/aretomo/ts.st", np.random.default_rng(1).normal(100, 5, (count, 48, 64)).astype(np.float32)
    )
    reconstruct(
        "--i",
        stack,
        "--tilts",
        f"{folder}/tilt_1.tlt",
        "--transforms",
        f"{folder}/tilt_1.xf",
        "--o",
        f"{work}/aretomo/o",
        "--thickness",
        16,
        "--iterations",
        3,
    )
    record = json.load(open(f"{work}/aretomo/o/ts.json"))
    check(len(record["tilts"]) == count and len(record["tilts"][0]["transform"]) == 6, f"{count} tilts of AreTomo's")


def micrographs(work):
    """Reads single images: a tilt pair in negative stain by an .mdoc alone; three times one of 16-bit counts behind
    FEI's extended header."""
    pair, fei = data("leginon", "tilt1.mrc"), data("mrcfile", "fei-extended.mrc")
    if pair is not None:
        mdoc = "".join(
            f"[ZValue = {z}]\nTiltAngle = {a}\nSubFramePath = X:\\tilt{z + 1}.tif\n" for z, a in enumerate((0, 50))
        )
        reconstruct(
            "--i",
            write(f"{work}/pair/pair.mdoc", mdoc),
            "--images",
            os.path.dirname(pair),
            "--o",
            f"{work}/pair/o",
            "--thickness",
            32,
            "--iterations",
            2,
        )
        check(volume(f"{work}/pair/o/pair.mrc").shape == (32, 512, 512), "a tilt pair")
        text = reconstruct("--i", pair, "--o", f"{work}/pair/o", "--thickness", 8, expect=3)
        said(
            text,
            "tilt1.mrc: its tilt angles are unknown: there is neither tilt1.tlt nor tilt1.rawtlt nor an .mdoc beside it",
        )
    if fei is not None:
        os.makedirs(f"{work}/fei")
        for z in range(3):
            os.symlink(fei, f"{work}/fei/fei_{z}.mrc")
        mdoc = "".join(
            f"[ZValue = {z}]\nTiltAngle = {a}\nSubFramePath = fei_{z}.mrc\n" for z, a in enumerate((-3, 0, 3))
        )
        reconstruct(
            "--i",
            write(f"{work}/fei/fei.mdoc", mdoc),
            "--o",
            f"{work}/fei/o",
            "--thickness",
            160,
            "--bin",
            16,
            "--method",
            "wbp",
        )
        found = volume(f"{work}/fei/o/fei.mrc")
        check(
            found.shape == (10, 239, 231)
            and np.isfinite(found).all()
            and abs(json.load(open(f"{work}/fei/o/fei.json"))["pixel_size"] - 16 * 0.85378) < 0.01,
            "16-bit counts, and the pixel size of their header",
        )


def foreign_mdocs(work):
    """Files that name missing files, or are of another kind, are refused with a remedy."""
    for name, words in {
        ("mdocfile", "tests", "test_data", "tilt_series.mdoc"): (
            "tilt_series.mdoc names TS_01_000_0.0.mrc, which is not in",
        ),
        ("mdocfile", "tests", "test_data", "montage_section.mdoc"): (
            "montage_section.mdoc: this is the .mdoc of a montage",
        ),
        ("mdocfile", "tests", "test_data", "frame_set_single.mdoc"): (
            "frame_set_single.mdoc: this is the .mdoc of one file of frames, not of a tilt series",
        ),
        ("cylindra", "tests", "dummy.mrc.mdoc"): (
            "names no files: neither SubFramePath in its sections nor an ImageFile",
        ),
    }.items():
        path = data(*name)
        if path is not None:
            said(reconstruct("--i", path, "--o", f"{work}/foreign", "--thickness", 8, expect=3), *words)
    path = data("cylindra", "tests", "dummy.mrc.mdoc")
    if path is not None:
        folder = f"{work}/beside"
        write_stack(f"{folder}/dummy.mrc", np.random.default_rng(2).normal(100, 5, (3, 32, 32)).astype(np.float32), 0)
        shutil.copyfile(path, f"{folder}/dummy.mrc.mdoc")
        reconstruct("--i", f"{folder}/dummy.mrc.mdoc", "--o", f"{folder}/o", "--thickness", 8, "--align", "coarse")
        record = json.load(open(f"{folder}/o/dummy.json"))
        check(
            [t["angle"] for t in record["tilts"]] == [-59.99, 0.01, 59.99]
            and record["pixel_size"] == 5.34
            and record["tilt_axis"] == 177,
            "the stack beside an .mdoc that names none, with its angles, axis and pixel size",
        )


if not os.path.isdir(DATA):
    print(f"skipped: no {DATA}")
    raise SystemExit(SKIP)
with tempfile.TemporaryDirectory(prefix="icestream-realtilts-") as work:
    for part in (tooth, microtubule, etomo, float16_images, aretomo, micrographs, foreign_mdocs):
        part(work)
end()
