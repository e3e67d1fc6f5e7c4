#!/usr/bin/env python3
"""A bad tilt series fails with its reason (file, place, what was found and expected); the others go on."""

import os
import shutil
import tempfile

from tilt_series_files import check, end, mrcfile, np, reconstruct, said, simulate, volume, write, write_stack

SIDE, DEPTH = 32, 12
T = ["--thickness", DEPTH, "--iterations", 2]


def angles(work, stem):
    st, out = f"{stem}.st", f"{work}/out"
    lines = open(f"{stem}.rawtlt").read().splitlines()

    def refused(name, text, *words, ending="tlt"):
        path = write(f"{work}/{name}.{ending}", text)
        said(reconstruct("--i", st, "--tilts", path, "--o", out, *T, expect=3), *words)

    few = "\n".join(lines[:-1]) + "\n"
    refused("few", few, "few.tlt holds 8 angles, but", "ts.st holds 9 images: one angle for each image")
    refused("many", few + "57\n60\n", "many.tlt holds 10 angles")
    refused(
        "nan", few + "nan\n", "nan.tlt: line 9: the value 'nan' is not a finite number: an angle in degrees is expected"
    )
    refused("far", few + "120\n", "far.tlt: line 9: a tilt of 120° lies beyond ±90°")
    refused("same", "12\n" * 9, "ts.st: all 9 tilts are at 12.00°: angles that differ are needed")
    refused("words", few + "sixty\n", "words.tlt: line 9: 'sixty' stands where an angle")
    refused("empty", "", "empty.tlt: there is no angle in it")
    refused("binary", "\x01\x00\x02", "binary.tlt: line 1")
    lonely = f"{work}/lonely/none.st"
    os.mkdir(f"{work}/lonely")
    shutil.copy(st, lonely)
    said(
        reconstruct("--i", lonely, "--o", out, *T, expect=3),
        "none.st: its tilt angles are unknown: there is neither none.tlt nor "
        "none.rawtlt nor an .mdoc beside it; name the file with tilts",
    )
    said(reconstruct("--i", st, "--tilts", f"{work}/absent.tlt", "--o", out, *T, expect=2), "absent.tlt")


def mdocs(work, stem):
    st, out = f"{stem}.st", f"{work}/out"
    sections = [f"[ZValue = {z}]\nTiltAngle = {3 * z - 12}\n" for z in range(9)]

    def refused(name, text, *words):
        said(reconstruct("--i", st, "--tilts", write(f"{work}/{name}.mdoc", text), "--o", out, *T, expect=3), *words)

    refused(
        "short",
        "a = 1\n" + "".join(sections[:4] + sections[5:]),
        "short.mdoc: there is no section for image 5 (ZValue 4) of the 9",
    )
    refused(
        "long",
        "a = 1\n" + "".join(sections) + "[ZValue = 9]\nTiltAngle = 1\n",
        "has a section for image 10 (ZValue 9), but",
        "holds 9 images",
    )
    refused(
        "mute",
        "a = 1\n" + "".join(sections[:-1]) + "[ZValue = 8]\nDefocus = 1\n",
        "mute.mdoc: section ZValue 8 has no TiltAngle",
    )
    refused("montage", "Montage = 1\n" + "".join(sections), "this is the .mdoc of a montage")
    names = "".join(s + f"SubFramePath = D:\\x\\absent_{z}.tif\n" for z, s in enumerate(sections))
    absent = write(f"{work}/names/absent.mdoc", "a = 1\n" + names)
    said(
        reconstruct("--i", absent, "--o", out, *T, expect=3),
        "absent.mdoc names absent_0.tif, which is not in",
        "put it there, or name the " "folder with images",
    )
    none = write(f"{work}/names/none.mdoc", "a = 1\n")
    said(reconstruct("--i", none, "--o", out, *T, expect=3), "none.mdoc: there is no [ZValue = …] section")
    other = write(f"{work}/names/other.mdoc", "ImageFile = elsewhere.st\n" + "".join(sections))
    said(
        reconstruct("--i", other, "--o", out, *T, expect=3),
        "other.mdoc names the stack elsewhere.st, which is not beside it",
    )


def images(work, stem):
    out, whole = f"{work}/out", open(f"{stem}.st", "rb").read()
    shutil.copy(f"{stem}.rawtlt", f"{work}/cut.tlt")
    with open(f"{work}/cut.st", "wb") as file:
        file.write(whole[: -SIDE * SIDE * 2])
    said(reconstruct("--i", f"{work}/cut.st", "--o", out, *T, expect=3), "cut.st")
    data = volume(f"{stem}.st")
    for name, value in (("nan", np.nan), ("inf", np.inf)):
        broken = data.copy()
        broken[4, 10, 20] = value
        stack = write_stack(f"{work}/pixels-{name}.st", broken)
        shutil.copy(f"{stem}.rawtlt", f"{work}/pixels-{name}.tlt")
        said(
            reconstruct("--i", stack, "--o", out, *T, expect=3),
            f"pixels-{name}.st: view 5 (0.00°) holds {name} at column 21, row 11",
            "leave it out with exclude",
        )
        check(not os.path.exists(f"{out}/pixels-{name}.mrc"), "and there is no tomogram of it")
        reconstruct("--i", stack, "--o", out, *T, "--exclude", 5)
    write(f"{work}/text.st", "this is no stack\n")
    write(f"{work}/text.tlt", "1\n2\n")
    said(reconstruct("--i", f"{work}/text.st", "--o", out, *T, expect=3), "text.st")
    one = write_stack(f"{work}/one.st", data[:1])
    write(f"{work}/one.tlt", "0\n")
    said(
        reconstruct("--i", one, "--o", out, *T, expect=3),
        "one.st holds 1 images: a stack of two or more tilts is expected",
    )
    # A bad stack fails alone; the others go on.
    text = reconstruct("--i", f"{work}/cut.st,{stem}.st", "--o", f"{work}/both", *T, expect=3)
    check("1 done" in text and os.path.exists(f"{work}/both/ts.mrc"), "the whole one of two is done")


def left_out(work, stem):
    """The message names what a tilt lacks and how to go on without it; exclude needs neither image nor angle."""
    out, images = f"{work}/lo", volume(f"{stem}.st")
    sections = [f"[ZValue = {z}]\nTiltAngle = {12 * z - 48}\nSubFramePath = D:\\t{z}.tif\n" for z in range(9)]
    folder = f"{work}/leave"

    def mdoc(name, changed):
        return write(f"{folder}/{name}.mdoc", "a = 1\n" + "".join(changed))

    whole = mdoc("whole", sections)
    for z in range(9):
        write_stack(f"{folder}/t{z}.mrc", images[z : z + 1])
    reconstruct("--i", whole, "--exclude", "4,9", "--o", out, *T)
    expected = volume(f"{out}/whole.mrc")
    os.remove(f"{folder}/t3.mrc")
    os.remove(f"{folder}/t8.mrc")
    said(
        reconstruct("--i", whole, "--o", out, *T),
        "view 4 at -12.00°: t3.tif is not there: it is left out",
        "view 9 at 48.00°: t8.tif is not there",
        "1 done",
    )
    check(np.array_equal(volume(f"{out}/whole.mrc"), expected), "whole.mdoc: a tomogram of the other seven")
    text = reconstruct("--i", whole, "--exclude", "4,9", "--o", f"{out}-x", *T)
    said(text, "2 of 9 tilts are left out, as exclude says")
    check(
        "is not there" not in text and np.array_equal(volume(f"{out}-x/whole.mrc"), expected),
        "excluded: nothing is missed",
    )
    for name, changed, words in (
        ("angle", sections[3].replace("TiltAngle", "Angle"), "section ZValue 3 has no TiltAngle"),
        (
            "path",
            sections[3].replace("SubFramePath", "Path"),
            "section ZValue 3 has no SubFramePath, which others have",
        ),
    ):
        path = mdoc(name, sections[:3] + [changed] + sections[4:8])
        said(reconstruct("--i", path, "--o", out, *T, expect=3), words, "or leave the view out with exclude: 4")
        reconstruct("--i", path, "--exclude", 4, "--o", out, *T)
        check(np.array_equal(volume(f"{out}/{name}.mrc"), expected), f"{name}.mdoc without view 4: the same tomogram")
    write_stack(f"{folder}/t3.mrc", images[3:4, :-1])
    said(
        reconstruct("--i", whole, "--o", out, *T, expect=3),
        f"t3.mrc has {SIDE} × {SIDE - 1} px",
        "leave view 4 out with exclude",
    )
    reconstruct("--i", whole, "--exclude", 4, "--o", out, *T)
    short = write(f"{work}/without.mdoc", "a = 1\n" + "".join(sections[:3] + sections[4:]))
    said(
        reconstruct("--i", f"{stem}.st", "--tilts", short, "--o", out, *T, expect=3),
        "there is no section for image 4 (ZValue 3) of the 9 in",
        "leave the image out with exclude: 4",
    )
    reconstruct("--i", f"{stem}.st", "--tilts", short, "--exclude", "4,9", "--o", f"{out}-s", *T)
    check(np.array_equal(volume(f"{out}-s/ts.mrc"), expected), "without.mdoc with exclude: the same tomogram")


def masks(work, stem, st):
    """These errors are found before an image is read: here no image could be read."""
    broken = shutil.copy(f"{stem}.st", f"{work}/broken.st")
    shutil.copy(f"{stem}.rawtlt", f"{work}/broken.rawtlt")
    with mrcfile.mmap(broken, "r+") as file:
        file.data[:] = np.nan
    broken = ["--i", broken, *st[2:]]
    wide = write_stack(f"{work}/wide.mrc", np.ones((DEPTH, SIDE, SIDE + 1)))
    said(
        reconstruct(*broken, *T, "--mask", wide, expect=3),
        f"wide.mrc has {SIDE + 1} × {SIDE} × {DEPTH} voxels, the tomogram of",
        f"{SIDE} × {SIDE} × {DEPTH}: they must be the same",
    )
    thick = write_stack(f"{work}/thick.mrc", np.ones((DEPTH + 1, SIDE, SIDE)))
    said(
        reconstruct(*broken, *T, "--mask", thick, expect=2),
        f"thick.mrc has {SIDE} × {SIDE} × {DEPTH + 1} voxels: along z it must have "
        f"{DEPTH}, as tomograms have with thickness {DEPTH} and bin 1",
    )
    words = write(f"{work}/words.mrc", "not a mask\n" * 200)
    said(reconstruct(*broken, *T, "--mask", words, expect=2), "mask", "words.mrc: not an MRC file")
    fits = write_stack(f"{work}/fits.mrc", np.ones((DEPTH, SIDE, SIDE)))
    said(reconstruct(*broken, *T, "--mask", fits, expect=3), "view 1 (-48.00°) holds nan")
    reconstruct(*st, *T, "--mask", fits)
    said(
        reconstruct(*st, *T, "--mask", fits, "--method", "wbp", expect=2),
        "fits.mrc: weighted back-projection takes none",
    )
    said(reconstruct("--help"), "INPUT: a stack (.st, .mrc; several with commas), an .mdoc")


def settings(work, stem, truth):
    st, out = ["--i", f"{stem}.st", "--o", f"{work}/out"], f"{work}/out"
    del out
    said(reconstruct(*st, expect=2), "thickness is not set, and it must be", "px of the images before bin")
    said(reconstruct(*st, *T, "--exclude", "1-8", expect=3), "exclude leaves 1 of 9 tilts: two or more are needed")
    said(reconstruct(*st, *T, "--exclude", "12", expect=3), "exclude names view 12, but the last of the series is 9")
    said(reconstruct(*st, *T, "--exclude", "0", expect=2), "exclude: '0' is not a list of views: numbers from 1")
    said(reconstruct(*st, *T, "--relaxation", "2.5", expect=2), "relaxation")
    said(reconstruct(*st, *T[:2], "--iterations", 10001, expect=2), "iterations", "0 to 10000")
    reconstruct(*st, *T, "--stop", 1)
    said(reconstruct(*st, *T, "--stop", 1.1, expect=2), "stop", "0 to 1")
    said(reconstruct(*st, *T, "--method", "art", expect=2), "method", "it must be sirt or wbp")
    said(reconstruct(*st, *T, "--thicknes", "3", expect=2), "thickness")
    said(reconstruct(*st, "--thickness", 2, "--bin", 3, expect=2), "a thickness of 2 px leaves nothing after bin 3")
    xf = open(f"{truth}.xf").read().splitlines()
    far = write(f"{work}/far.xf", "\n".join(xf[:-1] + [f"1 0 0 1 {-2 * SIDE} 3"]) + "\n")
    said(
        reconstruct(*st, *T, "--transforms", far),
        f"far.xf moves 1 of 9 images out of sight, view 9 by {-2 * SIDE}, 3 px where it has "
        f"{SIDE} × {SIDE}: are its shifts in px of larger images?",
    )
    check(
        "out of sight" not in reconstruct(*st, *T, "--transforms", far, "--exclude", 9),
        "nor is one that is left out missed",
    )
    short = write(f"{work}/short.xf", "\n".join(xf[:-2]) + "\n")
    said(
        reconstruct(*st, *T, "--transforms", short, expect=3),
        "short.xf holds 7 transforms, but",
        "holds 9 images: a line for each image",
    )
    odd = write(f"{work}/odd.xf", "\n".join(xf[:-1] + ["1 0 0"]) + "\n")
    said(reconstruct(*st, *T, "--transforms", odd, expect=3), "odd.xf: line 9 holds 3 numbers: six are expected")
    said(reconstruct(*st, *T, "--transforms", "beside", expect=3), "there is no ts.xf beside it")
    said(reconstruct(*st, *T, "--transforms", f"{work}/no.xf", expect=2), "transforms: there is no file")
    said(reconstruct(*st, *T, "--transforms", short, "--align", "coarse", expect=2), "align must be none")
    masks(work, stem, st)
    text = reconstruct(*st, "--thickness", 4096, "--memory", 1, expect=3)
    said(
        text,
        f"a tomogram of {SIDE} x {SIDE} x 4096 voxels from 9 tilts needs",
        "MiB on the CPU, and memory allows 1 MiB",
    )
    check(text.count("there was not enough memory for it") == 1, "and that there was not enough memory it says once")
    said(reconstruct(*st, *T, "--bin", 64, "--thickness", 128, expect=3), "bin leaves nothing of the images")


def singles(work):
    """In a folder of single tilts broken ones fail; the rest makes the tomogram."""
    stem, _ = simulate(
        f"{work}/singles", size=SIDE, thickness=DEPTH, step=12, **{"from": -48, "to": 48}, files="single"
    )
    folder = os.path.dirname(stem)
    names = sorted(f for f in os.listdir(folder) if f.endswith(".mrc"))
    with mrcfile.open(f"{folder}/{names[2]}", "r+") as file:
        file.data[3, 4] = np.nan
    with open(f"{folder}/{names[3]}", "r+b") as file:
        file.truncate(2000)
    text = reconstruct(
        "--i",
        folder,
        "--tilts",
        f"{stem}.mdoc",
        "--transforms",
        write(f"{work}/x.xf", "1 0 0 1 3 0\n" * 9),
        "--o",
        f"{work}/moved",
        *T,
        expect=3,
    )
    said(text, f"{names[0]}: transforms {work}/x.xf go with the images of a stack", "9 failed")
    check(not os.path.exists(f"{work}/moved/ts.mrc"), "no tomogram of images that should have been moved and were not")
    text = reconstruct("--i", folder, "--tilts", f"{stem}.mdoc", "--o", f"{work}/rest", *T, expect=3)
    said(
        text,
        f"{names[2]}: view 3 (-24.00°) holds nan at column 5, row 4",
        f"{names[3]}",
        "no tilt between -36.00° and 0.00°",
        "7 done",
    )
    check(os.path.exists(f"{work}/rest/ts.mrc"), "the other seven make a tomogram")
    one = "".join(
        "TiltAngle = 3\n" if line.startswith("TiltAngle") else line for line in open(f"{stem}.mdoc").readlines()
    )
    text = reconstruct("--i", folder, "--tilts", write(f"{work}/one/ts.mdoc", one), "--o", f"{work}/none", *T, expect=3)
    said(
        text,
        "no tomogram of ts, 7 tilts: all 7 tilts are at 3.00°: angles that differ are needed",
        "0 done",
        "9 failed",
    )


with tempfile.TemporaryDirectory(prefix="icestream-badtilts-") as work:
    stem, truth = simulate(f"{work}/sim", size=SIDE, thickness=DEPTH, step=12, **{"from": -48, "to": 48}, balls=5)
    os.remove(f"{stem}.st.mdoc")
    angles(work, stem)
    mdocs(work, stem)
    images(work, stem)
    left_out(work, stem)
    settings(work, stem, truth)
    singles(work)
end()
