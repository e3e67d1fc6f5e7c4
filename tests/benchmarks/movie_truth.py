"""Reads the truth that icestream-simulate --movies writes (examples/simulate/movie_truth.h), and compares images."""
from pathlib import Path

import mrcfile
import numpy as np


def read_star(path):
    """Reads all tables of a STAR file: {name: {column: [text]}}."""
    tables, columns, loop = {}, [], False
    for line in Path(path).read_text(encoding='utf-8').splitlines():
        words = line.split()
        if not words or words[0].startswith('#'):
            continue
        if words[0].startswith('data_'):
            table, columns, loop = tables.setdefault(words[0][5:], {}), [], False
        elif words[0] == 'loop_':
            loop = True
        elif words[0].startswith('_'):
            columns.append(words[0][1:])
            table[words[0][1:]] = [] if loop else [words[1]]
        else:
            for column, word in zip(columns, words):
                table[column].append(word)
    return tables


class MovieTruth:
    """The truth about one movie: size, pixel size (Å), frames, dose a frame (e⁻/Å²), voltage (kV),
    shift(), sum."""

    def __init__(self, folder, name):
        tables = read_star(Path(folder) / 'truth' / f'{name}_motion.star')
        general = tables['general']
        self.name = name
        self.nx, self.ny, self.frames = (int(general[f'rlnImageSize{axis}'][0]) for axis in 'XYZ')
        self.pixel_size = float(general['rlnMicrographOriginalPixelSize'][0])
        self.dose = float(general['rlnMicrographDoseRate'][0])
        self.voltage = float(general['rlnVoltage'][0])
        self.whole = np.array([tables['global_shift'][f'rlnMicrographShift{axis}'] for axis in 'XY'], float)
        self.local = np.array([[tables['local_shift'][f'icestreamLocal{axis}{i}'] for i in range(6)] for axis in 'XY'],
                              float)
        self.path = Path(folder) / 'truth' / f'{name}_sum.mrc'

    @property
    def sum(self):
        """The electrons expected in all frames, without noise."""
        return mrcfile.read(self.path)

    def shift(self, frame, x, y):
        """Returns the shift (px) that corrects a frame (from 0) at pixel (x, y)."""
        u, v = x / self.nx - 0.5, y / self.ny - 0.5
        return self.whole[:, frame] + self.local[:, :, frame] @ np.array([1, u, u * u, v, v * v, u * v])


def fidelity(image, truth, pixel_size, low, high):
    """Returns the sum of Re(F F0*) over that of |F0|² between two resolutions (Å, low > high)."""
    ny, nx = truth.shape
    window = np.hanning(ny)[:, None] * np.hanning(nx)[None]
    f, f0 = (np.fft.rfft2((data - data.mean()) * window) for data in (np.asarray(image, float), truth))
    k = np.hypot(np.fft.fftfreq(ny)[:, None], np.fft.rfftfreq(nx)[None]) / pixel_size
    shell = (k >= 1 / low) & (k < 1 / high)
    return float((f * f0.conj()).real[shell].sum() / (np.abs(f0[shell]) ** 2).sum())
