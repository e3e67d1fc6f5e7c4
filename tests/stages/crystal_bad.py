#!/usr/bin/env python3
"""Gives broken images, labels and models to the crystal-scorer. Each error names the file, the value and what was
expected. The other images are scored all the same."""

import os
import shutil
import sys
import tempfile

from crystal_drops import check, end, need_forest, rows, said, scorer, simulate, write
import numpy as np
from PIL import Image

SEED = 5


def labels_of(work, name, *lines):
    return write(f"{work}/drops/{name}.csv", "".join(line + "\n" for line in lines))


def labels(work):
    def refused(name, *lines, extra=()):
        return scorer(
            "--train",
            labels_of(work, name, *lines),
            "--o",
            f"{work}/no",
            "--features",
            "simple",
            "--trees",
            5,
            *extra,
            expect=2,
        )

    good = ["clear_0001.png,clear", "clear_0002.png,clear", "skin_0001.png,skin", "skin_0002.png,skin"]
    said(
        refused("missing", *good, "gone.png,skin"),
        "missing.csv: line 5: there is no file",
        "gone.png",
        "paths count from the table's folder",
    )
    said(
        refused("unknown", *good, "junk_0001.png,junks"),
        "unknown.csv: line 5: 'junks' is no outcome (did you mean 'junk'?)",
    )
    said(
        refused("foreign", *good, "junk_0001.png,17"),
        "foreign.csv: line 5: '17' is no outcome: clear, precipitate, crystal",
    )
    said(refused("single", *good, "junk_0001.png,junk"), "single.csv: 'junk' has one example only")
    said(refused("same", *good[:2]), "same.csv: all labels are the same")
    said(refused("twice", *good, "./clear_0001.png,skin"), "twice.csv: lines 1 and 5 both label", "clear_0001.png")
    said(refused("empty"), "empty.csv: names no image")
    said(refused("heading", "path,label"), "heading.csv: names no image")
    said(refused("comma", *good, "junk_0001.png"), "comma.csv: line 5: path,label is expected, and there is no comma")
    said(
        refused("semicolons", "clear_0001.png;clear"), "semicolons.csv: line 1: cells end with a comma, not a semicolon"
    )
    said(refused("tabs", "clear_0001.png\tclear"), "tabs.csv: line 1: cells end with a comma, not a tab")
    said(
        refused("headings", "file,outcome", *good),
        "headings.csv: line 1: there is no file",
        "headings begin with path or image",
    )
    said(refused("folder", *good, ".,skin"), "folder.csv: line 5:", "is a folder, an image is expected")
    said(refused("no_label", *good, "junk_0001.png,"), "no_label.csv: line 5: '' is no outcome")
    with open(f"{work}/drops/wide.csv", "wb") as file:
        file.write("clear_0001.png,clear\n".encode("utf-16"))
    said(
        scorer("--train", f"{work}/drops/wide.csv", "--o", f"{work}/no", expect=2),
        "wide.csv: a byte 0 at 3",
        "not UTF-16",
    )
    # A file as spreadsheets save it: a byte order mark of UTF-8, quotes, empty lines, CRLF line ends, a third column.
    with open(f"{work}/drops/excel.csv", "wb") as file:
        file.write(
            b'\xef\xbb\xbfPath,Label\r\n"clear_0001.png","clear"\r\n\r\n clear_0002.png , CLEAR \r\n'
            b'skin_0001.png,skin,"a comment, and more"\r\nskin_0002.png,"Skin"\r\n\r\n'
        )
    text = scorer(
        "--train", f"{work}/drops/excel.csv", "--o", f"{work}/excel", "--features", "statistics", "--trees", 5
    )
    said(text, "4 done, 0 rejected, 0 failed")
    shutil.copy(f"{work}/drops/labels.csv", f"{work}/drops/labels.txt")
    said(
        scorer("--train", f"{work}/drops/labels.txt", "--o", f"{work}/no", expect=2),
        "labels.txt: the name of a table of path,label ends in .csv",
    )
    said(
        refused("quote", *good, '"junk_0001.png,junk'),
        "quote.csv: line 5: the quote that begins on this line is not closed",
    )
    said(
        scorer(
            "--train",
            f"{work}/drops/clear_0001.png",
            "--o",
            f"{work}/no",
            "--i",
            f"{work}/drops/clear_0001.png",
            expect=2,
        ),
        "ends in .csv",
    )
    shutil.copy(f"{work}/drops/clear_0001.png", f"{work}/drops/picture.csv")
    said(scorer("--train", f"{work}/drops/picture.csv", "--o", f"{work}/no", expect=2), "picture.csv: a byte 0")
    said(scorer("--train", f"{work}/absent.csv", "--o", f"{work}/no", expect=2), "absent.csv")
    # Images without a label are left out. A broken image with a label does not count, so only one example may remain.
    shutil.copy(f"{work}/drops/skin_0002.png", f"{work}/drops/cut.png")
    os.truncate(f"{work}/drops/cut.png", 3000)
    text = scorer(
        "--train",
        labels_of(work, "cut", *good[:3], "cut.png,skin"),
        "--o",
        f"{work}/no",
        "--features",
        "simple",
        expect=1,
    )
    said(text, "cut.png", "only one image of 'skin' could be read")
    text = scorer(
        "--train",
        labels_of(work, "few", *good),
        "--i",
        f"{work}/drops",
        "--o",
        f"{work}/made",
        "--features",
        "statistics",
        "--trees",
        20,
    )
    said(text, "4 done, 30 rejected, 0 failed")
    shutil.copy(f"{work}/drops/skin_0001.png", f"{work}/drops/skin_0001.tiff")
    said(
        refused("names", *good, "skin_0001.tiff,skin"),
        "names.csv: line 5:",
        "skin_0001.png and",
        "skin_0001.tiff would give files of the same name (skin_0001…)",
    )
    said(
        scorer("--i", f"{work}/drops", "--o", f"{work}/no", "--keep-features", expect=2),
        "skin_0001.tiff would give files of the same name",
    )
    os.remove(f"{work}/drops/skin_0001.tiff")
    os.remove(f"{work}/drops/cut.png")


def usage(work):
    image = f"{work}/drops/clear_0001.png"
    said(scorer("--i", image, "--o", f"{work}/no", expect=2), "there is nothing to do: give --model")
    said(scorer("--o", f"{work}/no", expect=2), "--i is missing")
    said(scorer("--i", image, "--o", f"{work}/no", "--keep-features", "--window", 30, expect=2), "window: 30 is even")
    said(
        scorer("--i", image, "--o", f"{work}/no", "--keep-features", "--diameter", 40, "--window", 41, expect=2),
        "no window of 41 px has room in a circle of 40 px",
    )
    # The stage refuses these values when it starts, before it reads an image.
    for name, value in (("stride", 2000), ("diameter", 1500)):
        said(
            scorer("--i", image, "--o", f"{work}/no", "--keep-features", f"--{name}", value, expect=2),
            f"{name}: texture is evaluated up to 1024 px, not {value}",
        )
    said(scorer("--i", image, "--o", f"{work}/no", "--keep-features", "--centre", "1", expect=2), "centre")
    said(
        scorer("--i", image, "--o", f"{work}/no", "--keep-features", "--series", "{drop}", expect=2),
        "series: '{drop}' is no pattern",
    )
    said(
        scorer("--i", image, "--o", f"{work}/no", "--keep-features", "--centre", "10,10", expect=3),
        "the circle of 200 px around centre 10,10 leaves the image of 320 × 320 px",
    )


def models(work):
    image, model = f"{work}/drops/clear_0001.png", f"{work}/made/crystals.model"
    whole = open(model, "rb").read()

    def refused(name, content, *words):
        with open(f"{work}/{name}.model", "wb") as file:
            file.write(content)
        said(
            scorer("--i", image, "--o", f"{work}/no", "--model", f"{work}/{name}.model", expect=2),
            f"{name}.model",
            *words,
        )

    refused(
        "older",
        whole.replace(b"model 2\n", b"model 1\n", 1),
        "is a model of version 1, and this program reads version 2",
        "train it again",
    )
    refused(
        "other",
        whole.replace(b'"version":1', b'"version":2', 1),
        "version 2 of the features, and this program computes version 1: train it again",
    )
    refused("cut", whole[:-10], "the model ends after")
    flipped = bytearray(whole)
    flipped[-100] ^= 1
    refused("flipped", bytes(flipped), "the model is not what was written")
    # The checksum covers the header too: another circle would give features that the forest has never seen.
    refused("circle", whole.replace(b'"diameter":200', b'"diameter":190', 1), "the model is not what was written")
    refused("unnamed", whole.replace(b'"outcome":"skin"', b'"outcome":"junk"', 1), "the model is not what was written")
    first, header, _, forest = whole.split(b"\n", 3)
    broken = b"\1\0\0\0\0\0\0\0x" + forest[9:]
    value = 0xCBF29CE484222325
    for byte in first + b"\n" + header + b"\n" + broken:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    refused(
        "foreign",
        b"\n".join((first, header, b"%016x" % value, broken)),
        "its forest, which XGBoost",
        "wrote and",
        "train it again",
    )
    refused("picture", open(image, "rb").read(), "is no model of crystal-scorer")
    refused("empty", b"", "is no model of crystal-scorer")


def images(work):
    """Exit code 3: the log names each broken image with its reason, and the stage scores the others."""
    folder, model = f"{work}/mixed", f"{work}/made/crystals.model"
    os.mkdir(folder)
    good = Image.open(f"{work}/drops/clear_0002.png")
    grey = np.asarray(good)
    good.save(f"{folder}/grey.png")
    colour = np.stack([grey, grey, grey, np.full_like(grey, 40)], axis=-1)
    Image.fromarray(colour, "RGBA").save(f"{folder}/alpha.png")
    Image.fromarray(np.stack([grey, np.full_like(grey, 128)], axis=-1), "LA").save(f"{folder}/grey_alpha.png")
    Image.fromarray(grey.astype(np.uint16) * 257).save(f"{folder}/deep.png")
    Image.fromarray(colour[..., :3], "RGB").save(f"{folder}/colour.jpg", quality=97)
    Image.fromarray(grey.astype(np.uint16) * 257).save(f"{folder}/deeper.tif")
    good.crop((0, 0, 180, 320)).save(f"{folder}/narrow.png")
    Image.fromarray(np.full((320, 320), 90, np.uint8)).save(f"{folder}/flat.png")
    Image.fromarray(np.random.default_rng(SEED).integers(0, 255, (320, 320), np.uint8)).save(f"{folder}/noise.png")
    whole = open(f"{folder}/colour.jpg", "rb").read()
    with open(f"{folder}/cut.jpg", "wb") as file:
        file.write(whole[: len(whole) // 2])
    with open(f"{folder}/cut_marked.jpg", "wb") as file:  # its end marker is there, and half of its content is not
        file.write(whole[: len(whole) // 2] + b"\xff\xd9")
    write(f"{folder}/text.png", "no picture")
    Image.fromarray(np.concatenate([colour[..., :3]], axis=-1), "RGB").convert("CMYK").save(f"{folder}/cmyk.jpg")
    Image.fromarray(colour[..., :3], "RGB").save(f"{folder}/colours.png")
    Image.fromarray(colour, "RGBA").save(f"{folder}/alpha_tiff.tif")
    good.save(f"{folder}/pages.tif", save_all=True, append_images=[good])
    open(f"{folder}/nothing.png", "w").close()
    text = scorer("--i", folder, "--model", model, "--o", f"{work}/scores", expect=3)
    said(text, "pages.tif: holds 2 images: a file of one drop has one")
    said(text, "nothing.png: the file is empty")
    said(text, "narrow.png: 180 × 320 px are less than the circle of 200 px", "set diameter")
    said(text, "flat.png: no drop found", "say where it is with centre")
    said(text, "noise.png: no drop found")
    said(text, "cut.jpg: ends at byte", "without a JPEG's end marker")
    said(text, "text.png: ends at byte")
    said(text, "cmyk.jpg: a JPEG with 4 colour channels is not supported")
    said(text, "cut_marked.jpg")
    scores = {os.path.basename(r["image"]): r for r in rows(f"{work}/scores/scores.csv")}
    good = [
        "alpha.png",
        "alpha_tiff.tif",
        "colour.jpg",
        "colours.png",
        "deep.png",
        "deeper.tif",
        "grey.png",
        "grey_alpha.png",
    ]
    check(sorted(scores) == good, f"the others are scored: {sorted(scores)}")
    for name in ("alpha.png", "alpha_tiff.tif", "colours.png", "grey_alpha.png"):
        check(
            list(scores[name].values())[1:] == list(scores["grey.png"].values())[1:],
            f"{name}: neither an alpha channel nor colours that are grey change anything",
        )
    check(
        list(scores["deep.png"].values())[1:] == list(scores["deeper.tif"].values())[1:],
        "16 bits in a PNG and in a TIFF are the same",
    )


def borders(work):
    """A drop near any side is evaluated as close to the side as its circle allows, with texture too."""
    folder = f"{work}/borders"
    os.mkdir(folder)
    whole = Image.open(f"{work}/drops/clear_0001.png")
    for name, box in (
        ("left", (80, 30, 320, 320)),
        ("top", (30, 80, 320, 320)),
        ("right", (0, 30, 240, 320)),
        ("bottom", (30, 0, 320, 240)),
        ("all", (60, 60, 260, 260)),
    ):
        whole.crop(box).save(f"{folder}/{name}.png")
    said(
        scorer("--i", folder, "--o", f"{work}/at_borders", "--keep-features", "--stride", 40),
        "5 done, 0 rejected, 0 failed",
    )


need_forest()
work = tempfile.mkdtemp(prefix="icestream-crystals-bad-")
print(f"seed {SEED}, in {work}")
simulate(f"{work}/drops", count=3, seed=SEED)
usage(work)
labels(work)
models(work)
images(work)
borders(work)
if "--keep" not in sys.argv:
    shutil.rmtree(work)
end()
