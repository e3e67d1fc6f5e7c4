#!/usr/bin/env python3
"""Prints eer_referee.inc: hashes of the counts that imagecodecs (PyPI) decodes from EER frames.

Draws the electrons of test_eer.c, encodes them, and decodes them with imagecodecs. Needs imagecodecs and NumPy:
    python3 tests/common/eer_referee.py > tests/common/eer_referee.inc
"""
import imagecodecs
import numpy

NX, NY = 160, 96
MASK = (1 << 64) - 1


def draw(seed, spread):
    electrons, pixel = [], 0
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) & MASK
        pixel += (seed >> 33) % spread
        if pixel >= NX * NY:
            return electrons
        electrons.append((pixel, seed >> 20 & 3, seed >> 22 & 3))
        pixel += 1


def encode(electrons, skip_bits):
    codes, position, longest = [], 0, (1 << skip_bits) - 1

    def skip_to(pixel):
        skip = pixel - position
        codes.extend([(longest, skip_bits)] * (skip // longest) + [(skip % longest, skip_bits)])

    for pixel, column, row in electrons:
        skip_to(pixel)
        codes.extend([(column ^ 2, 2), (row ^ 2, 2)])
        position = pixel + 1
    skip_to(NX * NY)
    number, bits = 0, 0
    for code, width in codes:
        number |= code << bits
        bits += width
    return number.to_bytes((bits + 7) // 8, "little")


def decode(codes, skip_bits, level):
    # imagecodecs refuses some frames for the number of bytes after their last code.
    for padding in (0, 1, 2, 4):
        try:
            shape = (NY << level, NX << level)
            return imagecodecs.eer_decode(codes + bytes(padding), shape, skip_bits, 2, 2, superres=level)
        except Exception:
            continue
    raise SystemExit(f"imagecodecs refuses a frame of {skip_bits} bits")


def fnv(counts):
    value = 14695981039346656037
    for byte in counts.astype("<u2").tobytes():
        value = (value ^ byte) * 1099511628211 & MASK
    return value


print(f"/* Printed by eer_referee.py with imagecodecs {imagecodecs.__version__}. */")
for skip_bits in (6, 7, 8, 9, 10):
    for level in (0, 1, 2):
        for seed, spread in ((11, 30), (12, 700)):
            electrons = draw(seed, spread)
            counts = decode(encode(electrons, skip_bits), skip_bits, level)
            print(f"{{{skip_bits}, {level}, {seed}, {spread}, {len(electrons)}, {fnv(numpy.asarray(counts))}u}},")
