#!/usr/bin/python3
"""score_movies.py PROGRAM: tests/benchmarks/score_movies.py finds known errors that are put into the truth."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import mrcfile
import numpy as np

BENCHMARKS = Path(__file__).resolve().parents[1] / 'benchmarks'
sys.path.insert(0, str(BENCHMARKS))
from movie_truth import MovieTruth  # noqa: E402

FRAMES = 12


def write_star(path, truth, whole, coefficients):
    """Writes MOVIE.star as RELION does. coefficients: [2][6][3]."""
    lines = ['data_general', f'_rlnImageSizeX {truth.nx}', f'_rlnImageSizeY {truth.ny}', f'_rlnImageSizeZ {FRAMES}',
             '_rlnMotionModelVersion 1', '', 'data_global_shift', 'loop_', '_rlnMicrographFrameNumber #1',
             '_rlnMicrographShiftX #2', '_rlnMicrographShiftY #3']
    lines += [f'{j + 1} {x:.6f} {y:.6f}' for j, (x, y) in enumerate(whole.T)]
    lines += ['', 'data_local_motion_model', 'loop_', '_rlnMotionModelCoeffsIdx #1', '_rlnMotionModelCoeff #2']
    lines += [f'{i} {value:.9g}' for i, value in enumerate(coefficients.ravel())]
    path.write_text('\n'.join(lines) + '\n', encoding='utf-8')


def best_model(truth):
    """Returns the third-order model of the truth's local motion by least squares."""
    z = np.arange(FRAMES)
    powers = np.stack([z, z ** 2, z ** 3], 1).astype(float)
    return np.linalg.lstsq(powers, truth.local.reshape(12, -1).T, rcond=None)[0].T.reshape(2, 6, 3)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder, out = Path(scratch) / 'truth', Path(scratch) / 'found'
        out.mkdir()
        subprocess.run([sys.argv[1], '--movies', '--o', folder, '--size', '256', '--micrographs', '1', '--interval',
                        '0', '--frames', str(FRAMES), '--diameter', '80', '--box', '100', '--doming', '4'],
                       check=True, stdout=subprocess.DEVNULL)
        truth = MovieTruth(folder, 'mov_00001')

        def score(whole, coefficients):
            write_star(out / 'mov_00001.star', truth, whole, coefficients)
            subprocess.run([sys.executable, BENCHMARKS / 'score_movies.py', '--truth', folder, '--i', out, '--json',
                            out / 'scores.json'], check=True)
            return json.loads((out / 'scores.json').read_text(encoding='utf-8'))[0]

        model = best_model(truth)
        motion = score(truth.whole, model)['motion']
        assert motion['whole'] < 1e-5 and abs(motion['local'] - motion['cubic']) < 1e-3, motion
        assert 0 < motion['cubic'] < 0.2, motion

        swing = np.zeros_like(truth.whole)
        swing[0] = np.where(np.arange(FRAMES) % 2 == 0, 0.3, -0.3)
        motion = score(truth.whole + swing + np.array([[1.0], [2.0]]), model)['motion']
        assert abs(motion['whole'] - 0.3) < 1e-5, motion
        assert abs(motion['local'] - np.hypot(0.3, motion['cubic'])) < 0.02, motion
        assert abs(motion['offset'] - np.hypot(1, 2)) < 0.1, motion

        motion = score(truth.whole, -model)['motion']
        assert motion['whole'] < 1e-5 and motion['local'] > 0.4, motion

        # An image that is moved by what the table is off by: nothing is lost.
        with mrcfile.new(out / 'mov_00001.mrc') as file:
            file.set_data(np.roll(truth.sum, (-3, 5), (0, 1)).astype(np.float32))
        image = score(truth.whole + np.array([[5.0], [-3.0]]), model)['images']['plain']
        assert all(abs(value - 1) < 0.01 for value in image.values()), image
        image = score(truth.whole, model)['images']['plain']
        assert image['4-3'] < 0.5, image

        # The same, binned by 2, on another scale.
        half = np.fft.rfft2(np.roll(truth.sum, (-3, 5), (0, 1)))
        rows = np.r_[0:truth.ny // 4, -truth.ny // 4:0]
        with mrcfile.new(out / 'mov_00001.mrc', overwrite=True) as file:
            file.set_data(np.fft.irfft2(half[rows, :truth.nx // 4 + 1]).astype(np.float32) * 7)
        image = score(truth.whole + np.array([[5.0], [-3.0]]), model)['images']['plain']
        assert set(image) == {'50-20', '20-10', '10-6'}, image
        assert all(abs(value - 1) < 0.02 for value in image.values()), image


if __name__ == '__main__':
    main()
