#!/usr/bin/env python3
"""docs/images/quickstart.py WORK: draws quickstart.png beside this script, from what examples/quickstart.sh --work WORK
has left: a micrograph with picks, class averages, and surface and slices of the map. Needs python3-numpy, -scipy and
-pil."""

import pathlib
import re
import struct
import sys

import numpy
from PIL import Image, ImageDraw, ImageFont
from scipy import ndimage

TOP, SIDE, EDGE, GAP = 34, 290, 14, 26  # px: below the titles, side of the square pictures, border, between pictures
VIEW, SLICE, TILE = 176, 110, 97  # px: surfaces, slices, class averages
COLOUR = numpy.array([112, 158, 206])
SHOWN = 0.0165  # fraction of the box that the surface encloses


def read_mrc(path):
    data = path.read_bytes()
    nx, ny, nz, mode = struct.unpack("<4i", data[:16])
    begin = 1024 + struct.unpack("<i", data[92:96])[0]
    return numpy.frombuffer(data[begin:], {2: "<f4", 12: "<f2"}[mode]).reshape(nz, ny, nx).astype("f4")


def grey(plane, size):
    """A picture of a plane, whose first row is at the bottom; mean − 2.5 to + 4.5 standard deviations."""
    low = plane.mean() - 2.5 * plane.std()
    values = numpy.clip((plane[::-1] - low) / (7 * plane.std()) * 255, 0, 255)
    return Image.fromarray(values.astype("u1")).resize((size, size), Image.BICUBIC)


def surface(volume, level, size):
    """The surface at a level, seen along the first axis, shaded by its normal."""
    fine = ndimage.zoom(volume, 4, order=3)
    n = len(fine)
    seen = (fine > level).any(0)
    rows, columns = numpy.indices(seen.shape)
    first = numpy.clip((fine > level).argmax(0), 1, n - 1)
    inward = [ndimage.gaussian_filter(fine, 2, order=order)[first, rows, columns] for order in numpy.eye(3, dtype=int)]
    length = numpy.sqrt(sum(part**2 for part in inward)) + 1e-9
    light = numpy.array([0.7, 0.55, 0.45])  # from the viewer, from above and from the left
    shade = numpy.clip(sum(a * b for a, b in zip(light, inward)) / length, 0, 1)
    fog = 1 - 0.35 * numpy.clip((first - 0.15 * n) / (0.7 * n), 0, 1)
    picture = numpy.full(seen.shape + (3,), 255.0)
    picture[seen] = (((0.3 + 0.75 * shade) * fog)[..., None] * COLOUR)[seen]
    cut = n // 5
    whole = Image.fromarray(numpy.clip(picture, 0, 255).astype("u1"))
    return whole.crop((cut, cut, n - cut, n - cut)).resize((size, size), Image.LANCZOS)


def largest_classes(model, count):
    """Numbers from 0 of the classes with the most particles, from the table model_classes."""
    table = model.read_text().split("data_model_classes")[1]
    share = re.findall(r"^_(\S+)", table, re.M).index("rlnClassDistribution")
    rows = [line.split() for line in table.splitlines() if "@" in line]
    return sorted(range(len(rows)), key=lambda row: -float(rows[row][share]))[:count]


def draw(session):
    model = max((session / "classifier").glob("run_it*_model.star"))
    averages = read_mrc(model.with_name(model.name.replace("model.star", "classes.mrcs")))
    volume = read_mrc(session / "refiner/run_class001.mrc")
    left = [EDGE, EDGE + SIDE + GAP, EDGE + 2 * (SIDE + GAP)]
    canvas = Image.new("RGB", (left[2] + 3 * VIEW + EDGE, TOP + SIDE + EDGE), "white")
    font = ImageFont.truetype("DejaVuSans.ttf", 17)
    for x, title in zip(
        left, ("micrograph and picks", "class averages (2D)", "map (3D): surface and slices from three sides")
    ):
        ImageDraw.Draw(canvas).text((x, 8), title, fill=(30, 30, 30), font=font)

    picks = Image.open(session / "lowpass-picker/mic_00003.png").convert("RGB")
    canvas.paste(picks.crop((150, 150, 650, 650)).resize((SIDE, SIDE), Image.LANCZOS), (left[0], TOP))
    for place, number in enumerate(largest_classes(model, 9)):
        at = (left[1] + place % 3 * TILE, TOP + place // 3 * TILE)
        canvas.paste(grey(averages[number], TILE - 1), at)
    level, middle = numpy.quantile(volume, 1 - SHOWN), len(volume) // 2
    sides = (volume, volume.transpose(1, 0, 2)[:, ::-1], volume.transpose(2, 1, 0))
    slices = (volume[middle], volume[:, middle], volume[:, :, middle])
    for place, (side, plane) in enumerate(zip(sides, slices)):
        x = left[2] + place * VIEW
        canvas.paste(surface(side, level, VIEW - 4), (x, TOP))
        canvas.paste(grey(plane, SLICE), (x + (VIEW - SLICE) // 2 - 2, TOP + VIEW + 2))
    return canvas.quantize(128, dither=Image.Dither.NONE)


if len(sys.argv) != 2:
    sys.exit(__doc__)
draw(pathlib.Path(sys.argv[1]) / "session").save(pathlib.Path(__file__).with_suffix(".png"), optimize=True)
