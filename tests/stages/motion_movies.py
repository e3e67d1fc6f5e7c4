"""Little movies for the tests of the motion-corrector: a smooth random specimen that drifts, counted by a camera whose
pixels are not alike. And readers for what the stage writes."""

import struct

import numpy as np


def write_mrc(path, frames, pixel_size=1.2):
    frames = np.asarray(frames)
    frames = frames[None] if frames.ndim == 2 else frames
    mode = {"uint8": 0, "int16": 1, "float32": 2, "uint16": 6}[frames.dtype.name]
    nz, ny, nx = frames.shape
    header = bytearray(1024)
    struct.pack_into("<4i", header, 0, nx, ny, nz, mode)
    struct.pack_into("<3i3f", header, 28, nx, ny, nz, pixel_size * nx, pixel_size * ny, pixel_size * nz)
    header[208:216] = b"MAP \x44\x44\0\0"
    if mode == 0:  # IMOD's mark of unsigned bytes
        struct.pack_into("<2i", header, 152, 1146047817, 0)
    with open(path, "wb") as file:
        file.write(header)
        file.write(np.ascontiguousarray(frames).tobytes())


def read_mrc(path):
    """Returns the first image and its pixel size."""
    with open(path, "rb") as file:
        bytes_ = file.read()
    nx, ny, _, mode = struct.unpack_from("<4i", bytes_, 0)
    mx, cell = struct.unpack_from("<i", bytes_, 28)[0], struct.unpack_from("<f", bytes_, 40)[0]
    start = 1024 + struct.unpack_from("<i", bytes_, 92)[0]
    kind = {2: "<f4", 12: "<f2"}[mode]
    return np.frombuffer(bytes_, kind, nx * ny, start).reshape(ny, nx).astype(float), cell / mx


def write_tiff(path, frames):
    """Writes pages of uint8 without compression, one strip each. Pages may differ in size."""
    with open(path, "wb") as file:
        file.write(b"II*\0\0\0\0\0")
        link = 4
        for page in frames:
            ny, nx = page.shape
            data = file.tell()
            file.write(np.ascontiguousarray(page, "u1").tobytes())
            file.write(b"\0" * (file.tell() % 2))
            place = file.tell()
            tags = [(256, nx), (257, ny), (258, 8), (259, 1), (262, 1), (273, data), (277, 1), (278, ny), (279, nx * ny)]
            file.write(struct.pack("<H", len(tags)))
            for tag, value in tags:
                file.write(struct.pack("<HHII", tag, 4, 1, value))
            file.write(b"\0\0\0\0")
            end = file.tell()
            file.seek(link)
            file.write(struct.pack("<I", place))
            file.seek(end)
            link = end - 4


def camera(n, seed):
    """Returns the gain of a camera; three pixels of it are dead."""
    gain = (1 + 0.15 * np.random.default_rng(seed).normal(size=(n, n))).clip(0.5, 2).astype(np.float32)
    gain[100:103, 50] = 0
    return gain


def movie(n=384, frames=12, dose=8.0, seed=1, gain=None):
    """Returns frames of uint8 and the positions (x, y) of the specimen in them, px."""
    random = np.random.default_rng(seed)
    fx, fy = np.fft.fftfreq(n)[None, :], np.fft.fftfreq(n)[:, None]
    specimen = np.fft.fft2(random.normal(size=(n, n))) * np.exp(-(np.hypot(fx, fy) / 0.12) ** 2)
    specimen[0, 0] = 0
    specimen /= np.fft.ifft2(specimen).real.std()
    counts, positions = [], []
    for j in range(frames):
        way = 6 * (1 - np.exp(-j / 4))
        x, y = 0.8 * way, -0.6 * way
        positions.append((x, y))
        image = np.fft.ifft2(specimen * np.exp(-2j * np.pi * (fx * x + fy * y))).real
        expected = dose * (1 + 0.3 * image).clip(0.05)
        if gain is not None:
            expected = np.where(gain > 0, expected / np.where(gain > 0, gain, 1), 0)
        counts.append(random.poisson(expected).clip(0, 255).astype(np.uint8))
    return np.stack(counts), np.array(positions)


def star(path):
    """Returns {table: [rows as dicts]}; label-value pairs are one row."""
    tables, name, columns, pairs = {}, None, [], False
    for line in open(path):
        words = line.split()
        if not words or words[0][0] == "#":
            continue
        if words[0].startswith("data_"):
            name, columns, pairs = words[0][5:], [], True
            tables[name] = []
        elif words[0] == "loop_":
            pairs = False
        elif words[0][0] == "_" and pairs:
            if not tables[name]:
                tables[name].append({})
            tables[name][0][words[0][1:]] = words[1]
        elif words[0][0] == "_":
            columns.append(words[0][1:])
        else:
            tables[name].append(dict(zip(columns, words)))
    return tables


def shifts(path):
    """Returns the shifts (x, y) of the frames in MIC.star, which correct the motion."""
    rows = star(path)["global_shift"]
    return np.array([(float(row["rlnMicrographShiftX"]), float(row["rlnMicrographShiftY"])) for row in rows])
