#!/usr/bin/python3
"""motion_corrector_truth.py SIMULATOR CORRECTOR: simulated movies of each format, whose gain reference is stored turned,
with broken pixels, drift and doming, are corrected as the simulator's truth says: path of the frames, local motion,
signal that the sums keep by resolution."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SCORE = Path(__file__).resolve().parents[1] / 'benchmarks' / 'score_movies.py'
TURNS = ['none', 'rows', 'columns']
# Format, rotation and flip of the gain reference, words for the simulator, words for the corrector. Ice of ten times the
# usual contrast stands for the signal of a larger frame.
CASES = [
    ('mrc', 0, 0, ['--doming', '6'], ['--patches', '4,4']),
    ('tiff', 1, 2, ['--doming', '0'], []),
    ('eer', 3, 1, ['--doming', '0', '--eer_group', '12'], ['--eer_grouping', '12']),
    ('tiff', 2, 0, ['--doming', '0', '--pixel_size', '0.5', '--dose', '64'], ['--bin', '2', '--patches', '1,1']),
]


def run(*words):
    done = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def corrected(folder, case):
    """Simulates and corrects one movie. Returns its scores."""
    movie_format, rotation, flip, simulator_words, corrector_words = case
    pixel_size = '0.5' if '0.5' in simulator_words else '1'
    run(sys.argv[1], '--movies', '--o', folder, '--micrographs', 1, '--interval', 0, '--size', 640, '--height', 512,
        '--frames', 16, '--dose', 16, '--ice_noise', 2, '--diameter', 90, '--box', 120, '--format', movie_format,
        '--gain_rotation', rotation, '--gain_flip', flip, '--defects', 50, '--seed', 5, *simulator_words)
    run(sys.argv[2], '--i', folder / 'movies', '--o', folder / 'out', '--gain', folder / 'gain.mrc', '--gain_rotate',
        rotation, '--gain_flip', TURNS[flip], '--dose_per_frame', 64 / 16 if pixel_size == '0.5' else 1,
        '--pixel_size', pixel_size, '--voltage', 300, '--device', 'cpu', *corrector_words)
    print(movie_format, rotation, flip, run(sys.executable, SCORE, '--truth', folder, '--i', folder / 'out', '--json',
                                            folder / 'scores.json'))
    return json.loads((folder / 'scores.json').read_text(encoding='utf-8'))[0]


def main():
    with tempfile.TemporaryDirectory() as scratch:
        for number, case in enumerate(CASES):
            scores = corrected(Path(scratch) / str(number), case)
            motion, images = scores['motion'], scores['images']
            half = '--bin' in case[4]
            # Without correction the path is off by some 3 px (6 px of half the size), and the shells keep nothing.
            assert motion['whole'] < (0.7 if half else 0.25), scores
            assert motion['has_model'] == ('--patches' in case[4] and not half), scores
            assert motion['local'] < (0.7 if half else 0.4), scores
            assert set(images) == {'plain', 'weighted'}, scores
            for kind in images:
                for shell in ['20-10', '10-6', '6-4']:
                    assert 0.8 < images[kind][shell] < 1.2, (kind, shell, scores)


if __name__ == '__main__':
    main()
