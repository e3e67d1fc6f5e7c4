#!/usr/bin/python3
"""simulate_movies.py PROGRAM: frames of a simulated movie, moved back by the shifts in the truth, sum to the truth's
noise-free image, in each resolution shell and with the signs that the documents give."""
import subprocess
import sys
import tempfile
from pathlib import Path

import mrcfile
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'benchmarks'))
from movie_truth import MovieTruth, fidelity  # noqa: E402


def moved(frame, shift):
    """Returns corrected(X) = frame(X − d) for one shift d, by its Fourier transform."""
    ny, nx = frame.shape
    phase = np.fft.fftfreq(ny)[:, None] * shift[1] + np.fft.rfftfreq(nx)[None] * shift[0]
    return np.fft.irfft2(np.fft.rfft2(frame) * np.exp(-2j * np.pi * phase), frame.shape)


def corrected_sum(folder, truth):
    """Sums the frames under the gain reference, each moved by the truth's shift: the movie does not dome."""
    with mrcfile.open(folder / 'movies' / f'{truth.name}.mrc') as file:
        frames = file.data.astype(np.float32)
    with mrcfile.open(folder / 'gain.mrc') as file:
        gain = file.data
    ny, nx = gain.shape
    return sum(moved(frame * gain, truth.shift(j, nx / 2, ny / 2)) for j, frame in enumerate(frames))


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        subprocess.run([program, '--movies', '--o', folder, '--size', '384', '--height', '320', '--micrographs', '1',
                        '--interval', '0', '--frames', '8', '--dose', '400', '--b_factor', '0', '--ice_noise', '4',
                        '--doming', '0', '--defects', '0', '--mode', 'uint16', '--diameter', '80', '--box', '100',
                        '--seed', '3'], check=True, stdout=subprocess.DEVNULL)
        truth = MovieTruth(folder, 'mov_00001')
        total = corrected_sum(folder, truth)
        shells = [(50, 10), (10, 5), (5, 4), (4, 3), (3, 2.5)]
        values = [fidelity(total, truth.sum, truth.pixel_size, *shell) for shell in shells]
        plain = fidelity(mrcfile.read(folder / 'movies' / 'mov_00001.mrc').sum(axis=0), truth.sum, truth.pixel_size, 4,
                         3)
        print('Re(F F0*) / |F0|² at', ', '.join(f'{a}–{b} Å: {v:.3f}' for (a, b), v in zip(shells, values)),
              f'; 4–3 Å without correction: {plain:.3f}')
        # The noise of 400 electrons a pixel over that of the ice, and the edges that a Fourier shift wraps.
        assert all(abs(value - 1) < 0.05 for value in values), values
        assert plain < 0.5, plain


if __name__ == '__main__':
    main()
