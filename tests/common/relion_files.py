"""Reads and changes RELION's files for tests, and knows its angles: STAR tables, SPIDER images, rotations."""

import numpy as np

HEADER_FLOATS = 256  # header words that are used, counted from 0:
ROWS, IFORM, COLUMNS, HEADER_BYTES = 1, 4, 11, 21


def read_star(path, name):
    """Returns columns and rows of the looped table data_NAME."""
    columns, rows, inside = [], [], False
    with open(path) as text:
        for line in text:
            words = line.split()
            if line.startswith("data_"):
                inside = line.strip() == "data_" + name
            elif inside and words and words[0].startswith("_"):
                columns.append(words[0][1:])
            elif inside and words and words[0] != "loop_" and words[0][0] != "#":
                rows.append(words)
    return columns, rows


def spider_layout(path):
    """Returns byte order, offset of the pixels and shape of one SPIDER image."""
    raw = np.fromfile(path, "u1", 4 * HEADER_FLOATS).tobytes()
    for order in "<>":
        header = np.frombuffer(raw, order + "f4")
        if header[IFORM] == 1 and header[HEADER_BYTES] >= 4 * HEADER_FLOATS:
            return order + "f4", int(header[HEADER_BYTES]), (int(header[ROWS]), int(header[COLUMNS]))
    raise ValueError(f"{path}: not a SPIDER image")


def read_spider(path):
    kind, offset, shape = spider_layout(path)
    return np.fromfile(path, kind, shape[0] * shape[1], offset=offset).reshape(shape).astype(float)


def write_spider(path, image):
    """Replaces the values of an existing image."""
    kind, offset, shape = spider_layout(path)
    assert image.shape == shape, f"{path}: {shape}, not {image.shape}"
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(image.astype(kind).tobytes())


def matrix(rot, tilt, psi):
    """Returns the rotation of RELION's angles, in °. Its rows 1 and 2 are the axes of the image in the map."""
    a, b, c = np.radians([rot, tilt, psi])
    about_z = [np.array([[np.cos(t), np.sin(t), 0], [-np.sin(t), np.cos(t), 0], [0, 0, 1]]) for t in (a, c)]
    about_y = np.array([[np.cos(b), 0, -np.sin(b)], [0, 1, 0], [np.sin(b), 0, np.cos(b)]])
    return about_z[1] @ about_y @ about_z[0]
