#!/usr/bin/python3
"""score_ctf.py TRUTH FOUND: compares the CTF of micrographs in two STAR files, by the names of the files."""
import sys
from pathlib import Path

from movie_truth import read_star


def micrographs(path):
    """Returns mean, difference (Å) and angle (°) of the defocus, and the resolution of the fit, by the file's name."""
    table = read_star(Path(path))['micrographs']
    found = {}
    for i, name in enumerate(table['rlnMicrographName']):
        u, v, angle = (float(table[f'rlnDefocus{column}'][i]) for column in ('U', 'V', 'Angle'))
        resolution = float(table['rlnCtfMaxResolution'][i]) if 'rlnCtfMaxResolution' in table else 0
        found[Path(name).stem] = ((u + v) / 2, u - v, angle, resolution)
    return found


truth, found = micrographs(sys.argv[1]), micrographs(sys.argv[2])
for name in sorted(found):
    mean, difference, angle, resolution = found[name]
    true_mean, true_difference, true_angle, _ = truth[name]
    turn = abs(angle - true_angle) % 180
    print(f'    {name}: defocus {true_mean:.0f} Å, off by {mean - true_mean:.0f} Å; astigmatism {true_difference:.0f} Å, '
          f'off by {difference - true_difference:.0f} Å and {min(turn, 180 - turn):.0f}°; fit to {resolution:.1f} Å')
