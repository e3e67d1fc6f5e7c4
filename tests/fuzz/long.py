#!/usr/bin/env python3
"""Fuzzes for a given processor time, one target after the other, and keeps new inputs.

  tests/fuzz/long.py --build build/cpu --work DIR [--minutes 20] [--at-once 1] [--until HH:MM] [TARGET...]
  tests/fuzz/long.py --build build/cpu --work DIR --merge [TARGET...]

Programs are copied to DIR first, so that builds can continue meanwhile. A turn lasts two minutes of processor time.
DIR/turns.tsv has a line for each turn: target, seconds, executions, edges covered, files in the corpus, exit status. A
second start continues there.
--at-once N is read again between turns from DIR/at-once, if this file exists. A crash keeps its input in DIR/TARGET/
and ends the turns of its target, and the exit status is 1. --merge writes the smallest set of inputs that covers as many edges to
tests/fuzz/corpus/TARGET: the shortest first, up to 150 files and 200 KB."""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
TURN = 120  # seconds of processor time
MOST_FILES, MOST_BYTES = 150, 200_000


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=Path, required=True)
    parser.add_argument('--work', type=Path, required=True)
    parser.add_argument('--minutes', type=float, default=20, help='of processor time, for each target')
    parser.add_argument('--at-once', type=int, default=1)
    parser.add_argument('--until', help='no new turn after this time of day')
    parser.add_argument('--merge', action='store_true')
    parser.add_argument('targets', nargs='*')
    given = parser.parse_args()
    programs = given.build / 'tests/fuzz'
    if not given.targets:
        given.targets = sorted(p.name[5:] for p in programs.glob('fuzz-*') if os.access(p, os.X_OK) and p.is_file())
    return given


def seeds(given, target):
    folders = [
        SOURCE / 'tests/fuzz/corpus' / target,
        given.build / 'tests/fuzz/seeds' / target,
    ]
    return [str(folder) for folder in folders if folder.is_dir()]


def spent(given):
    """Returns the processor time (s) that each target has had. Targets that crashed get no more turns."""
    times, table = {}, given.work / 'turns.tsv'
    for line in table.read_text().splitlines() if table.exists() else []:
        target, seconds, _, _, _, status = line.split('\t')
        times[target] = times.get(target, 0) + float(seconds)
        if status != '0':
            times[target] = float('inf')
    return times


class Turn:
    """Runs one process of one target until its share of processor time is used up."""

    def __init__(self, given, target, seconds):
        self.target, self.seconds, self.work = target, seconds, given.work
        folder = given.work / target
        (folder / 'corpus').mkdir(parents=True, exist_ok=True)
        program = folder / f'fuzz-{target}'
        if not program.exists():
            shutil.copy2(given.build / 'tests/fuzz' / f'fuzz-{target}', program)
        self.log = open(folder / 'log', 'ab')
        self.start = self.log.tell()
        self.process = subprocess.Popen(
            [
                'nice',
                '-n',
                '19',
                str(program),
                '-error_exitcode=1',
                '-timeout=25',
                '-rss_limit_mb=3072',
                '-max_len=65536',
                '-print_final_stats=1',
                f'-artifact_prefix={folder}/',
                str(folder / 'corpus'),
                *seeds(given, target),
            ],
            stdout=self.log,
            stderr=self.log,
            cwd=folder,
        )

    def over(self):
        """Returns True once the process has ended. Asks it to end when its time is up."""
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if pid == 0:
            fields = Path(f'/proc/{self.process.pid}/stat').read_text().rsplit(') ', 1)[1].split()
            used = (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
            if used > self.seconds:
                self.process.send_signal(signal.SIGUSR1)
            return False
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.log.close()
        with open(self.work / self.target / 'log', 'rb') as log:
            log.seek(self.start)
            text = log.read().decode(errors='replace')
        executions = re.findall(r'stat::number_of_executed_units:\s*(\d+)', text)
        edges = re.findall(r' cov: (\d+)', text)
        corpus = len(os.listdir(self.work / self.target / 'corpus'))
        with open(self.work / 'turns.tsv', 'a') as table:
            print(
                self.target,
                f'{usage.ru_utime + usage.ru_stime:.1f}',
                executions[-1] if executions else 0,
                edges[-1] if edges else 0,
                corpus,
                self.process.returncode,
                sep='\t',
                file=table,
            )
        return True


def run(given):
    given.work.mkdir(parents=True, exist_ok=True)
    wanted, turns = 60 * given.minutes, []
    while True:
        turns = [turn for turn in turns if not turn.over()]
        hint = given.work / 'at-once'
        at_once = int(hint.read_text()) if hint.exists() else given.at_once
        times = spent(given)
        left = [t for t in given.targets if times.get(t, 0) < wanted and t not in [turn.target for turn in turns]]
        if given.until and time.strftime('%H:%M') >= given.until:
            left = []
        if left and len(turns) < at_once:
            target = min(left, key=lambda t: times.get(t, 0))
            turns.append(Turn(given, target, min(TURN, wanted - times.get(target, 0) + 1)))
        elif not turns and not left:
            return
        time.sleep(1)


def merge(given):
    for target in given.targets:
        program, least = given.build / 'tests/fuzz' / f'fuzz-{target}', given.work / target / 'least'
        found = given.work / target / 'corpus'
        shutil.rmtree(least, ignore_errors=True)
        least.mkdir(parents=True)
        folders = seeds(given, target) + ([str(found)] if found.is_dir() else [])
        # Compares edges only, not how often each is passed: otherwise the set is too large for a repository.
        subprocess.run(
            [
                str(program),
                '-merge=1',
                '-use_counters=0',
                '-timeout=25',
                '-rss_limit_mb=3072',
                '-max_len=65536',
                str(least),
                *folders,
            ],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        files = sorted(least.iterdir(), key=lambda p: (p.stat().st_size, p.name))
        keep, size = [], 0
        for path in files[:MOST_FILES]:
            size += path.stat().st_size
            if size > MOST_BYTES:
                break
            keep.append(path)
        folder = SOURCE / 'tests/fuzz/corpus' / target
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if re.fullmatch('[0-9a-f]{40}', old.name):  # left by an earlier merge; seeds with names stay
                old.unlink()
        for path in keep:
            shutil.copy(path, folder / path.name)
        print(f'{target}: {len(keep)} of {len(files)} files, {sum(p.stat().st_size for p in keep)} bytes')


def main():
    given = options()
    given.build, given.work = given.build.resolve(), given.work.resolve()
    if given.merge:
        merge(given)
        return 0
    run(given)
    times = spent(given)
    return int(any(times.get(target) == float('inf') for target in given.targets))


if __name__ == '__main__':
    sys.exit(main())
