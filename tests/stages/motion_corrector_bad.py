#!/usr/bin/env python3
"""Bad movies fail alone, each with its reason: cut short, of one frame, with an empty frame or NaN, with frames of unequal
size, with fewer frames than asked for, with values that overflow. A gain reference of the wrong size or that lies the
wrong way is named, and how it should lie. Bad pixels must lie in the frame, and leave half of it. Wrong parameters are
refused at the start. A gain reference and a sum in the folder are no movies."""

import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from motion_movies import camera, movie, read_mrc, write_mrc, write_tiff

PROGRAM = os.path.join(os.environ["ICESTREAM_BIN"], "icestream-motion-corrector")
SIZE = 256


def run(*arguments):
    done = subprocess.run([PROGRAM, *arguments], stderr=subprocess.PIPE, text=True)
    print(done.stderr)
    return done.returncode, done.stderr


with tempfile.TemporaryDirectory(prefix="icestream-motion-") as folder:
    os.mkdir(f"{folder}/in")
    gain = camera(SIZE, 9)
    good, _ = movie(SIZE, 5, gain=gain)
    write_mrc(f"{folder}/in/good.mrc", good)
    write_mrc(f"{folder}/in/sum.mrc", good.sum(axis=0).astype(np.float32))
    write_mrc(f"{folder}/in/cut.mrc", good)
    os.truncate(f"{folder}/in/cut.mrc", os.path.getsize(f"{folder}/in/cut.mrc") - 1000)
    empty = good.copy()
    empty[3] = 0
    write_mrc(f"{folder}/in/empty.mrc", empty)
    nan = good.astype(np.float32)
    nan[1, 20, 30] = np.nan
    write_mrc(f"{folder}/in/nan.mrc", nan)
    write_tiff(f"{folder}/in/unequal.tif", [good[0], good[1], good[2, :200]])
    write_mrc(f"{folder}/in/short.mrc", good[:3])
    open(f"{folder}/in/text.eer", "w").write("no movie\n" * 200)
    write_mrc(f"{folder}/in/huge.mrc", good.astype(np.float32) * np.float32(1e30))
    write_mrc(f"{folder}/flat.mrc", np.full((5, SIZE, SIZE), 3, np.uint8))
    below = good.astype(np.int16)
    below[3, 5, 6] = -1
    write_mrc(f"{folder}/below.mrc", below)
    write_mrc(f"{folder}/gain.mrc", gain)
    base = ["--patches", "1,1", "--dose_per_frame", "1", "--pixel_size", "1.2"]
    code, text = run("--i", f"{folder}/in", "--o", f"{folder}/o", "--gain", f"{folder}/gain.mrc", *base,
                     "--last_frame", "5")  # fmt: skip
    assert code == 3, code
    assert "1 done, 0 rejected, 7 failed" in text
    for name, reason in (
        ("cut", "cut.mrc"),
        ("empty", "frame 4 of 5 is all zero"),
        ("nan", "pixel (30, 20) of frame 2 is NaN"),
        ("unequal", "unequal.tif"),
        ("short", "holds 3 frames, and last_frame is 5"),
        ("text", "text.eer"),
        ("huge", "huge.mrc: the power of the frames is inf"),
    ):
        lines = [line for line in text.splitlines() if f" failed {name}: " in line]
        assert len(lines) == 1 and reason in lines[0], (name, lines)
    assert " failed sum" not in text and not os.path.exists(f"{folder}/o/sum.mrc")
    assert sorted(os.listdir(f"{folder}/o")) == sorted(
        ["corrected_micrographs.star", "gain.mrc", "good.mrc", "good.star", "good_PS.mrc", "good_motion.json",
         "good_motion.png", "good_noDW.mrc"])  # fmt: skip

    # Given by its name, a movie of one frame fails with the reason.
    code, text = run("--i", f"{folder}/in/sum.mrc", "--o", f"{folder}/o1", *base)
    assert code == 3 and "holds 1 frame: a movie has at least 2" in text, (code, text)

    write_mrc(f"{folder}/wide.mrc", camera(SIZE, 9)[:200])
    write_mrc(f"{folder}/turned.mrc", np.rot90(gain).copy())
    write_mrc(f"{folder}/inverse.mrc", np.where(gain > 0, 1 / np.where(gain > 0, gain, 1), 0).astype(np.float32))
    one = f"{folder}/in/good.mrc"
    code, text = run("--i", one, "--o", f"{folder}/o2", "--gain", f"{folder}/wide.mrc", *base)
    assert code == 3 and "256 × 200" in text and "256 × 256" in text, (code, text)
    code, text = run("--i", one, "--o", f"{folder}/o3", "--gain", f"{folder}/turned.mrc", *base)
    assert code == 3 and "does not lie as the frames do" in text, (code, text)
    code, other = run("--i", one, "--o", f"{folder}/o3", "--gain", f"{folder}/turned.mrc", *base, "--hot_pixels", "0")
    assert code == 3 and "does not lie as the frames do" in other, (code, other)
    # The turn that the message names is the one that fits.
    said = text.split("gain_rotate ")[1].split(",")[0], text.split("gain_flip ")[1].split(" ")[0]
    code, text = run("--i", one, "--o", f"{folder}/o4", "--gain", f"{folder}/turned.mrc", *base,
                     "--gain_rotate", said[0], "--gain_flip", said[1])  # fmt: skip
    assert code == 0, (said, text)
    code, text = run("--i", one, "--o", f"{folder}/o5", "--gain", f"{folder}/inverse.mrc", *base)
    assert code == 3 and "gain_divide true" in text, (code, text)
    code, text = run("--i", one, "--o", f"{folder}/o6", "--gain", f"{folder}/inverse.mrc", *base, "--gain_divide")
    assert code == 0, text
    code, text = run("--i", one, "--o", f"{folder}/o7", *base)
    assert code == 0 and "no-gain" in text, text

    # A frame after the first that holds a value below 0: all are read as floats.
    code, text = run("--i", f"{folder}/below.mrc", "--o", f"{folder}/below", *base)
    assert code == 0, (code, text)
    a, b = (read_mrc(f"{folder}/{name}_noDW.mrc")[0] for name in ("below/below", "o7/good"))
    assert abs(a - b).max() < b.mean() and np.median(abs(a - b)) < 0.01 * b.std(), abs(a - b).max()
    code, text = run("--i", f"{folder}/flat.mrc", "--o", f"{folder}/flat", *base)
    assert code == 3 and "flat.mrc: the movie has no variance" in text, (code, text)

    # At 120 kV no dose weights are known, and without them the movie goes through.
    code, text = run("--i", one, "--o", f"{folder}/o11", *base, "--voltage", "120")
    assert code == 3 and "dose weights at 120 kV" in text and "dose_per_frame 0" in text, (code, text)
    code, text = run("--i", one, "--o", f"{folder}/o11", *base, "--voltage", "120", "--dose_per_frame", "0")
    assert code == 0 and "no-dose" not in text and not os.path.exists(f"{folder}/o11/good_noDW.mrc"), (code, text)

    # Bad pixels outside the frames, or more than can be repaired, are those of another camera.
    for lines, reason in (("0 0 9 9\n300 0 5 5\n", "bad.txt:2: "), (f"0 0 {SIZE} 200\n", "at most half of them")):
        open(f"{folder}/bad.txt", "w").write(lines)
        code, text = run("--i", one, "--o", f"{folder}/o9", "--defects", f"{folder}/bad.txt", *base)
        assert code == 3 and reason in text and "bad.txt" in text, (lines, code, text)
    code, text = run("--i", one, "--o", f"{folder}/o10", "--pixel_size", "0.01", "--patches", "1,1")
    assert code == 3 and "a pixel size of 0.05 to 50 Å is needed (it is 0.01)" in text, (code, text)

    for arguments, reason in (
        (["--patches", "1.5,2"], "whole numbers"),
        (["--eer_upsampling", "3"], "1, 2 or 4"),
        (["--first_frame", "5", "--last_frame", "5"], "at least two frames"),
        (["--gain", f"{folder}/none.mrc"], "none.mrc"),
        (["--gain_flip", "left"], "gain_flip"),
    ):
        code, text = run("--i", one, "--o", f"{folder}/o8", *arguments)
        assert code in (1, 2) and reason in text, (arguments, code, text)
