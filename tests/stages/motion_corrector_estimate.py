#!/usr/bin/env python3
"""--estimate-gain makes a gain reference of a folder of movies: it evens out the camera, knows the dead pixels, and the
motion-corrector takes it. Of EER movies it is the response, as RELION takes it; a file of factors must end in .gain. Too
few movies, contradicting parameters and a movie of another size are named."""

import os
import subprocess
import sys
import tempfile

try:
    import numpy as np

    from motion_movies import camera, movie, read_mrc, write_mrc
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SIMULATE = os.path.join(os.environ["ICESTREAM_BIN"], "icestream-simulate")
PROGRAM = os.path.join(os.environ["ICESTREAM_BIN"], "icestream-motion-corrector")
SIZE = 256
MOVIES = 12


def run(*arguments):
    done = subprocess.run([PROGRAM, *arguments], stderr=subprocess.PIPE, text=True)
    print(done.stderr)
    return done.returncode, done.stderr


def unevenness(sensitivity):
    return sensitivity.std() / sensitivity.mean()


with tempfile.TemporaryDirectory(prefix="icestream-gain-") as folder:
    os.mkdir(f"{folder}/in")
    truth = camera(SIZE, 9)
    for i in range(MOVIES):
        frames, _ = movie(SIZE, 4, seed=i, gain=truth)
        write_mrc(f"{folder}/in/m{i:02}.mrc", frames)
    code, text = run("--verbose", "--estimate-gain", "--i", f"{folder}/in", "--o", f"{folder}/o")
    assert code == 0 and "gain-estimated" in text and "no-gain" not in text, (code, text)
    assert f"from {MOVIES} movies" in text and "3 bad pixels" in text, text
    assert os.listdir(f"{folder}/o") == ["gain.mrc"]
    gain, _ = read_mrc(f"{folder}/o/gain.mrc")
    assert ((gain == 0) == (truth == 0)).all()
    good = truth > 0
    before, after = unevenness(1 / truth[good]), unevenness(gain[good] / truth[good])
    print(f"pixels differ by {before:.3f}, with the estimate by {after:.3f}")
    # 384 counts a pixel are 5 % of noise, and twelve specimens with a contrast of 30 % leave 9 %.
    assert before > 0.14 and after < 0.1

    one = f"{folder}/in/m00.mrc"
    base = ["--patches", "1,1", "--dose_per_frame", "1", "--pixel_size", "1.2"]
    code, text = run("--i", one, "--o", f"{folder}/o1", "--gain", f"{folder}/o/gain.mrc", *base)
    assert code == 0 and "no-gain" not in text, (code, text)
    code, text = run("--i", one, "--o", f"{folder}/o2", "--gain", f"{folder}/o/gain.mrc", "--gain_rotate", "1", *base)
    assert code == 3 and "with gain_rotate 0, gain_flip none and gain_divide false" in text, (code, text)

    code, text = run("--estimate-gain", "--i", one, "--o", f"{folder}/o3")
    assert code == 1 and "1 movie: a gain reference is made of 2 movies at least" in text, (code, text)
    assert not os.path.exists(f"{folder}/o3/gain.mrc")
    code, text = run("--estimate-gain", "--i", one, "--o", f"{folder}/o4", "--gain", f"{folder}/o/gain.mrc")
    assert code == 2 and "give one of the two" in text, (code, text)
    write_mrc(f"{folder}/in/z.mrc", frames[:, :200])
    code, text = run("--estimate-gain", "--i", f"{folder}/in", "--o", f"{folder}/o5")
    assert code == 3 and "z.mrc: its frames have 256 × 200 px, those of the movies before 256 × 256" in text, (code, text)
    assert os.path.exists(f"{folder}/o5/gain.mrc")

    eer = ["--format", "eer", "--size", str(SIZE), "--frames", "4", "--eer_group", "12", "--dose", "40", "--interval", "0"]
    subprocess.run([SIMULATE, "--movies", "--micrographs", "2", "--o", f"{folder}/eer", *eer], check=True)
    eer = ["--i", f"{folder}/eer/movies", "--eer_grouping", "12"]
    code, text = run("--estimate-gain", *eer, "--o", f"{folder}/o6")
    assert code == 0 and os.listdir(f"{folder}/o6") == ["gain_eer.mrc"], (code, text)
    response, _ = read_mrc(f"{folder}/eer/gain.mrc")
    estimate, _ = read_mrc(f"{folder}/o6/gain_eer.mrc")
    good = (response > 0) & (estimate > 0)
    likeness = np.corrcoef(response[good], estimate[good])[0, 1]
    print(f"correlation with the true response: {likeness:.2f}")
    assert likeness > 0.1
    write_mrc(f"{folder}/factors.mrc", np.where(response > 0, 1 / np.where(response > 0, response, 1), 0).astype("f4"))
    os.link(f"{folder}/factors.mrc", f"{folder}/factors.gain")
    for name, reason in (("eer/gain.mrc", None), ("factors.gain", None), ("factors.mrc", "factors.mrc holds factors")):
        code, text = run(*eer, "--o", f"{folder}/o7", "--gain", f"{folder}/{name}", *base)
        assert code == (0 if reason is None else 3) and (reason is None or reason in text), (name, code, text)
