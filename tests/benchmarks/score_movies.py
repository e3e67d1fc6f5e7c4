#!/usr/bin/python3
"""score_movies.py --truth DIR --i FOLDER: compares corrected movies with the truth of icestream-simulate --movies.

DIR is what the simulator filled. Anywhere in FOLDER lie MOVIE.star (icestream's or RELION's: global_shift,
local_motion_model) and, if there are, MOVIE_noDW.mrc or MOVIE.mrc; MOVIE.mrc counts as weighted by dose with --weighted
or where MOVIE_noDW.mrc lies beside it.

Motion: RMS over frames of the 2-D distance between found and true shift (px of the movie), of the whole frame and, with
the local model, at the centres of 5 x 5 patches (--patches). A shift that is the same for all frames moves the image and
blurs nothing, so its mean over the frames is taken away at each place; `offset` is the RMS of what was taken away.
`raw` keeps it. The residual of the best third-order model, which is RELION's, stands in brackets.

Image: the sum of Re(F F0*) over that of |F0|² by resolution, F0 the noise-free sum at the true motion, after F has been
moved back by the mean offset. F0 of a weighted image has the weights of its dose. An image that was binned is compared
with F0 cut to its frequencies, on the scale of its own mean: programs differ in the scale of binned pixels."""
import argparse
import json
import sys
from pathlib import Path

import mrcfile
import numpy as np

from movie_truth import MovieTruth, fidelity, read_star

SHELLS = [(50, 20), (20, 10), (10, 6), (6, 4), (4, 3)]


def spatial_terms(u, v):
    return np.array([np.ones_like(u), u, u * u, v, v * v, u * v])


class FoundMotion:
    """The motion in MOVIE.star: shift() as MovieTruth's."""

    def __init__(self, path):
        tables = read_star(path)
        general, shifts = tables['general'], tables['global_shift']
        self.nx, self.ny = (int(general[f'rlnImageSize{axis}'][0]) for axis in 'XY')
        order = np.argsort([int(number) for number in shifts['rlnMicrographFrameNumber']])
        self.whole = np.array([shifts[f'rlnMicrographShift{axis}'] for axis in 'XY'], float)[:, order]
        self.frames = self.whole.shape[1]
        self.coefficients = None
        model = tables.get('local_motion_model')
        if model and int(general.get('rlnMotionModelVersion', ['0'])[0]) == 1:
            values = np.zeros(36)
            for index, value in zip(model['rlnMotionModelCoeffsIdx'], model['rlnMotionModelCoeff']):
                values[int(index)] = float(value)
            self.coefficients = values.reshape(2, 6, 3)

    def shift(self, frame, x, y):
        """Returns the shift (px) that corrects a frame (from 0) at pixel (x, y)."""
        found = self.whole[:, frame]
        if self.coefficients is None:
            return found
        terms = spatial_terms(np.float64(x / self.nx - 0.5), np.float64(y / self.ny - 0.5))
        return found + np.einsum('aij,i,j->a', self.coefficients, terms, float(frame) ** np.array([1, 2, 3]))


def rms(errors):
    """Returns the RMS of 2-D distances: errors[..., 2]."""
    return float(np.sqrt((errors ** 2).sum(-1).mean()))


def cubic_residual(truth, places):
    """Returns how far the best third-order model of the local motion stays from the truth (px)."""
    z = np.arange(truth.frames)
    powers = np.stack([z, z ** 2, z ** 3], 1).astype(float)
    time = truth.local.reshape(12, -1).T
    fitted = powers @ np.linalg.lstsq(powers, time, rcond=None)[0]
    left = (time - fitted).T.reshape(2, 6, -1)
    terms = np.stack([spatial_terms(np.float64(x / truth.nx - 0.5), np.float64(y / truth.ny - 0.5))
                      for x, y in places])
    errors = np.einsum('aij,pi->pja', left, terms)
    return rms(errors - errors.mean(1, keepdims=True))


def score_motion(truth, found, patches):
    """Returns the errors of the shifts (px) and the mean offset of all places."""
    whole = (found.whole - truth.whole).T
    places = [((i + 0.5) * truth.nx / patches, (j + 0.5) * truth.ny / patches)
              for j in range(patches) for i in range(patches)]
    errors = np.array([[found.shift(j, x, y) - truth.shift(j, x, y) for j in range(truth.frames)]
                       for x, y in places])
    offsets = errors.mean(1, keepdims=True)
    return {'whole': rms(whole - whole.mean(0)), 'whole_raw': rms(whole), 'local': rms(errors - offsets),
            'local_raw': rms(errors), 'offset': rms(offsets), 'cubic': cubic_residual(truth, places),
            'has_model': found.coefficients is not None}, offsets.mean((0, 1))


def dose_factor(truth, nx, ny, pixel_size, voltage):
    """Returns sum w / (n sqrt(sum w²)) at each frequency of the half plane (Grant & Grigorieff 2015): the weighted sum
    of equal frames over their plain sum."""
    k = np.hypot(np.fft.fftfreq(ny)[:, None], np.fft.rfftfreq(nx)[None]) / pixel_size
    scale = 0.8 if abs(voltage - 200) < 2 else 0.64 if abs(voltage - 100) < 2 else 1
    with np.errstate(divide='ignore'):
        critical = scale * (0.245 * k ** -1.665 + 2.81)
    dose = truth.dose * np.arange(1, truth.frames + 1)
    total, squares = np.zeros_like(k), np.zeros_like(k)
    for exposure in dose:
        weight = np.exp(-exposure / (2 * critical))
        total += weight
        squares += weight ** 2
    return total / (truth.frames * np.sqrt(squares))


def cropped(image, ny, nx):
    """Returns an image cut to the frequencies of ny x nx pixels, of the same mean."""
    half = np.fft.rfft2(image)
    rows = np.fft.fftfreq(ny, 1 / ny).astype(int)
    return np.fft.irfft2(half[rows, :nx // 2 + 1], (ny, nx)) * (ny * nx / image.size)


def score_image(truth, path, weighted, offset):
    """Returns the fidelity in each shell. offset: px of the movie that the content of the image is moved by."""
    image, true = mrcfile.read(path).astype(float), truth.sum.astype(float)
    bins = truth.nx / image.shape[1]
    pixel_size = truth.pixel_size * bins
    if abs(truth.ny / image.shape[0] - bins) > 0.01 or bins < 0.99:
        raise SystemExit(f'{path}: {image.shape[1]} x {image.shape[0]} px is no binning of the movie of {truth.nx} x '
                         f'{truth.ny} px')
    binned = image.shape != true.shape
    if binned:
        true = cropped(true, *image.shape)
    ny, nx = true.shape
    if weighted:
        true = np.fft.irfft2(np.fft.rfft2(true) * dose_factor(truth, nx, ny, pixel_size, truth.voltage), true.shape)
    if binned:
        image *= true.mean() / image.mean()
    kx, ky = np.fft.rfftfreq(nx)[None] / bins, np.fft.fftfreq(ny)[:, None] / bins
    image = np.fft.irfft2(np.fft.rfft2(image) * np.exp(2j * np.pi * (kx * offset[0] + ky * offset[1])), true.shape)
    return {f'{low}-{high}': round(fidelity(image, true, pixel_size, low, high), 4)
            for low, high in SHELLS if high > 2 * pixel_size}


def score(options, path):
    """Returns the scores of one movie."""
    truth = MovieTruth(options.truth, path.stem)
    motion, offset = score_motion(truth, FoundMotion(path), options.patches)
    images, plain = {}, path.with_name(f'{path.stem}_noDW.mrc')
    both = plain.exists()
    if both and not options.motion_only:
        images['plain'] = score_image(truth, plain, False, offset)
    image = path.with_suffix('.mrc')
    if image.exists() and not options.motion_only:
        weighted = both or options.weighted
        images['weighted' if weighted else 'plain'] = score_image(truth, image, weighted, offset)
    return {'movie': path.stem, 'motion': motion, 'images': images}


def show(result):
    motion = result['motion']
    print(f"{result['movie']}: whole {motion['whole']:.3f} px (raw {motion['whole_raw']:.3f}), at patches "
          f"{motion['local']:.3f} px (raw {motion['local_raw']:.3f}, third order at best {motion['cubic']:.3f}), "
          f"offset {motion['offset']:.3f} px{'' if motion['has_model'] else '; no local model'}")
    for kind, shells in result['images'].items():
        print(f'    Re(F F0*)/|F0|², {kind}: ' + ', '.join(f'{shell} Å {value:.3f}' for shell, value in shells.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--truth', type=Path, required=True, help='folder that icestream-simulate --movies filled')
    parser.add_argument('--i', type=Path, required=True, help='folder with MOVIE.star and images, at any depth')
    parser.add_argument('--patches', type=int, default=5, help='patches along each side')
    parser.add_argument('--weighted', action='store_true', help='MOVIE.mrc is weighted by dose')
    parser.add_argument('--motion-only', action='store_true', help='do not compare images')
    parser.add_argument('--json', type=Path, help='also write the scores here')
    options = parser.parse_args()
    names = {path.name[:-len('_motion.star')] for path in (options.truth / 'truth').glob('*_motion.star')}
    found = sorted(path for path in options.i.rglob('*.star') if path.stem in names)
    if not found:
        raise SystemExit(f'{options.i}: no MOVIE.star of the movies in {options.truth}/truth')
    results = [score(options, path) for path in found]
    for result in results:
        show(result)
    print(f"{len(results)} movies: whole {np.mean([r['motion']['whole'] for r in results]):.3f} px, at patches "
          f"{np.mean([r['motion']['local'] for r in results]):.3f} px")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + '\n', encoding='utf-8')
    return 0


if __name__ == '__main__':
    sys.exit(main())
