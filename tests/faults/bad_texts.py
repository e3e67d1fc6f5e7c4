#!/usr/bin/env python3
"""Gives broken STAR, YAML and JSON files, and broken files of tilt series, to the programs that read them. Exit codes
and messages must be those in broken_texts.py and broken_tilts.py. No program may take longer than a minute on a busy
machine, whatever the file holds."""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import broken_images
import broken_texts
import broken_tilts

BIN = Path(os.environ['ICESTREAM_BIN'])
SECONDS = 60

# A map of 16 voxels along each side: the refiner reads its header before any table.
CUBE = struct.pack('<10i3f', 16, 16, 16, 2, 0, 0, 0, 16, 16, 16, 16, 16, 16).ljust(208, b'\0') + b'MAP DD\0\0'
CUBE = CUBE.ljust(1024, b'\0') + bytes(4 * 16**3)


def star_beside(folder):
    """Makes the good files, so that the broken file is the only defect."""
    (folder / 'good.mrc').write_bytes(broken_images.mrc())
    (folder / 'cube.mrc').write_bytes(CUBE)
    (folder / 'no_cell.mrc').write_bytes(broken_images.mrc(cell=(0, 0, 0)))
    columns = ['rlnCoordinateX', 'rlnCoordinateY']
    for name, text in {
        'without_x.star': broken_texts.star(columns[1:], '30', table=''),
        'words.star': broken_texts.star(columns, '30 40', '50 twelve', table=''),
        'nan.star': broken_texts.star(columns, 'nan 40', table=''),
    }.items():
        (folder / name).write_text(text)


def on_files(stage, *arguments):
    def command(path, folder):
        star_beside(folder)
        return [BIN / f'icestream-{stage}', '--i', path, '--o', folder / 'out', *arguments]

    return command


NO_WAIT = ', ctf_wait: 0, ctf_missing: without'


def ctf(path, folder, more=''):
    """Runs a session of one micrograph whose CTF values are in the file."""
    graph = folder / 'graph.yaml'
    (folder / 'in').mkdir()
    (folder / 'in' / 'good.mrc').write_bytes(broken_images.mrc())
    graph.write_text(f'session: {{pixel_size: 2.5}}\nstages:\n  watcher: {{directory: in, ctf: {path}{NO_WAIT}}}\n{more}')
    return [BIN / 'icestream', 'run', graph, '--session', folder / 'session', '--until-idle', '0.2', '--restarts', '2']


def ctf_picked(path, folder):
    return ctf(path, folder, '  lowpass-picker: {from: watcher, diameter: 60}\n')


def ctf_again(path, folder):
    """Runs a session again with one more image after its CTF file has broken. Only this file gives the pixel size."""
    graph, images, table = folder / 'graph.yaml', folder / 'in', folder / 'ctf.star'
    images.mkdir()
    (images / 'good.mrc').write_bytes(broken_images.mrc())
    table.write_text(broken_texts.optics() + broken_texts.star(['rlnMicrographName', 'rlnOpticsGroup'], 'good.mrc 1'))
    graph.write_text(f'stages:\n  watcher: {{directory: {images}, ctf: {table}{NO_WAIT}}}\n')
    run = [BIN / 'icestream', 'run', graph, '--session', folder / 'session', '--until-idle', '0.2', '--restarts', '1']
    subprocess.run(run, check=True, capture_output=True, timeout=60)
    shutil.copy(path, table)
    (images / 'late.mrc').write_bytes(broken_images.mrc())
    run[2] = folder / 'session' / 'graph.yaml'
    return run


def check(path, folder):
    return [BIN / 'icestream', 'check', path]


def instance(path, folder):
    path.write_bytes(path.read_bytes().replace(b'@', str(folder).encode()))
    return [BIN / 'icestream-watcher', '--instance', path]


def describe(path, folder):
    """Writes a program that prints the content of the file."""
    program = folder / f'says_{path.name}'
    program.write_text(f'#!/bin/sh\ncat {path}\n')
    program.chmod(0o755)
    graph = folder / 'graph.yaml'
    graph.write_text(
        f'programs: [{program}]\nsession: {{pixel_size: 2.5}}\nstages:\n  watcher: {{directory: .}}\n'
        f'  stranger: {{from: watcher, program: {program}}}\n'
    )
    return [BIN / 'icestream', 'check', graph]


def in_session(place, keep=0):
    """Prints the status of a session in which the broken file, or its first `keep` bytes, has replaced a good file."""

    def command(path, folder):
        graph, images = folder / 'graph.yaml', folder / 'in'
        images.mkdir()
        (images / 'good.mrc').write_bytes(broken_images.mrc())
        graph.write_text(f'session: {{pixel_size: 2.5}}\nstages:\n  watcher: {{directory: {images}}}\n')
        subprocess.run(
            [BIN / 'icestream', 'run', graph, '--session', folder / 'session', '--until-idle', '0.2'],
            check=True,
            capture_output=True,
            timeout=60,
        )
        if keep:
            os.truncate(folder / 'session' / place, keep)
        else:
            shutil.copy(path, folder / 'session' / place)
        return [BIN / 'icestream', 'status', '--session', folder / 'session']

    return command


def tilt_series(option, *more):
    """Runs the reconstructor with a stack. option None: the file is the series itself."""

    def command(path, folder):
        stack = np.stack([broken_images.noise()[:32, :32] + i for i in range(broken_tilts.IMAGES)])
        star_beside(folder)
        (folder / 'series.st').write_bytes(broken_images.mrc(stack))
        where = ['--i', path] if option is None else ['--i', folder / 'series.st', option, path]
        return [
            BIN / 'icestream-tilt-reconstructor',
            *where,
            '--o',
            folder / 'out',
            '--thickness',
            '8',
            '--iterations',
            '1',
            *more,
        ]

    return command


def transformed(path, folder):
    (folder / 'series.tlt').write_text(broken_tilts.lines(*broken_tilts.ANGLES))
    return tilt_series('--transforms')(path, folder)


READERS = {
    'micrographs': on_files('lowpass-picker', '--diameter', '60'),
    'picks': on_files('extractor', '--box', '32'),
    'particles': on_files('classifier', '--classes', '2', '--diameter', '100'),
    'refined': on_files('refiner', '--diameter', '60', '--reference', 'cube.mrc'),
    'ctf': ctf,
    'ctf_picked': ctf_picked,
    'ctf_again': ctf_again,
    'tilts': tilt_series('--tilts'),
    'transforms': transformed,
    'mdoc': tilt_series(None),
    'check': check,
    'instance': instance,
    'describe': describe,
    'heartbeat': in_session('log/watcher.0.heartbeat.json'),
    'plan': in_session('log/plan.json'),
    'ledger': in_session('ledger/watcher.sqlite'),
    'cut_ledger': in_session('ledger/watcher.sqlite', keep=5000),
}


def run(case, work):
    """Returns what is wrong with the answer to one file: '' for nothing."""
    name, broken = case
    folder = work / name
    folder.mkdir()
    path = folder / name
    path.write_bytes(broken.content)
    command = [str(word) for word in READERS[broken.reader](path, folder)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors='replace', timeout=SECONDS, cwd=folder)
    except subprocess.TimeoutExpired:
        return f'{name}: not done in {SECONDS} s: {" ".join(command)}'
    printed = result.stdout + result.stderr
    wanted = [broken.says] if isinstance(broken.says, str) else list(broken.says)
    if broken.named:
        wanted.append(name)
    missing = [word for word in wanted if word not in printed]
    # A table that is refused before the stage has begun is a wrong value: 2 in place of 1.
    expected = (1, 2) if broken.exit == 1 else (broken.exit,)
    if result.returncode not in expected or missing:
        return (
            f'{name}: exit code {result.returncode}, {broken.exit} is expected; not said: {missing}; said:\n'
            f'{printed[:1500]}'
        )
    return ''


def odd(source, work):
    """Returns what is wrong with the answer to a real STAR file. The file may be read or refused, but in time and by
    name."""
    folder = work / f'odd_{source.stem}'
    folder.mkdir()
    command = [BIN / 'icestream-lowpass-picker', '--i', source, '--o', folder / 'out', '--diameter', '60']
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors='replace', timeout=SECONDS, cwd=folder)
    except subprocess.TimeoutExpired:
        return f'{source}: not done in {SECONDS} s'
    if result.returncode not in (0, 1, 2, 3) or (result.returncode in (1, 2) and source.name not in result.stderr):
        return f'{source}: exit code {result.returncode}: {result.stderr[:500]}'
    return ''


def unreadable(work):
    """Returns what is wrong with the answer to an image without read permission. Root may read everything, so it asks
    as nobody."""
    folder = work / 'unreadable'
    folder.mkdir()
    star_beside(folder)
    (folder / 'good.mrc').chmod(0)
    work.chmod(0o755)
    folder.chmod(0o777)
    other = {'user': 65534, 'group': 65534, 'extra_groups': []} if os.geteuid() == 0 else {}
    command = [BIN / 'icestream-lowpass-picker', '--i', folder / 'good.mrc', '--o', folder / 'out', '--diameter', '60']
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=folder, **other)
    except PermissionError as error:
        print(f'an unreadable image is left out: nobody cannot start the programs ({error})')
        return ''
    if result.returncode != 3 or 'good.mrc: cannot be opened: Permission denied' not in result.stderr:
        return f'an unreadable image: exit code {result.returncode}: {result.stderr[:500]}'
    return ''


def main():
    cases = {**broken_texts.texts(), **broken_tilts.tilts()}
    chosen = sys.argv[1:] or list(cases)
    work = Path(tempfile.mkdtemp(prefix='icestream-bad_texts-'))
    with ThreadPoolExecutor(2) as pool:
        wrong = [answer for answer in pool.map(lambda name: run((name, cases[name]), work), chosen) if answer]
    real = (
        sorted(Path(os.environ.get('ICESTREAM_DATA', '/nowhere')).glob('starfile/**/*.star'))
        if not sys.argv[1:]
        else []
    )
    wrong += [answer for answer in (odd(source, work) for source in real) if answer]
    wrong += [answer for answer in [unreadable(work)] if answer]
    print(*wrong, sep='\n')
    print(f'{len(chosen)} broken and {len(real)} real odd texts, {len(wrong)} not answered as expected')
    if not wrong and not os.environ.get('ICESTREAM_KEEP'):
        shutil.rmtree(work)
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
