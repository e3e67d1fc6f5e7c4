#!/usr/bin/env python3
"""run.py rules | id_alone | mutants | long | show FLAG...: searches all states of the model with SPIN.

rules     the protocol as it is, with a few faults of each kind: nothing may be wrong
id_alone  items known by their id alone: SPIN must find the item that is lost
mutants   one rule left out at a time: SPIN must find what goes wrong without it
long      as rules, with more faults at once (some minutes, some GB)
show      one search with these flags (-DTWO_SOURCES -DID_ALONE), and the shortest way to what is wrong
"""
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SKIP = 77
SECONDS = 1500  # a single search

RULES = [
    'TWO_SOURCES REPLICAS=1 CRASHES=1',
    'TWO_SOURCES REPLICAS=1 CRASHES=0 SENDER_CRASHES=1',
    'TWO_ITEMS REPLICAS=1 CRASHES=1 SENDER_CRASHES=1',
    'ONE_ITEM CRASHES=1 SENDER_CRASHES=1',
    'ONE_ITEM CRASHES=1 HANGS=1',
    'ONE_ITEM CRASHES=1 LOSSES=1 EARLY=1',
    'REVISIONS REPLICAS=1 CRASHES=1 EARLY=1',
    'REVISIONS REPLICAS=1 CRASHES=0 HANGS=1',
    'RETRY REPLICAS=1 CRASHES=1 FAILURES=1',
    'RETRY REPLICAS=2 CRASHES=0 FAILURES=1',
]
LONG = [
    'TWO_SOURCES CRASHES=0',
    'TWO_SOURCES REPLICAS=1 CRASHES=1 SENDER_CRASHES=1 LOSSES=1',
    'TWO_ITEMS CRASHES=1',
    'ONE_ITEM CRASHES=2 SENDER_CRASHES=1',
    'ONE_ITEM CRASHES=1 HANGS=1 LOSSES=1',
    'REVISIONS CRASHES=0 HANGS=1',
    'REVISIONS CRASHES=1',
    'REVISIONS REPLICAS=1 CRASHES=1 SENDER_CRASHES=1 HANGS=1',
    'RETRY CRASHES=1 FAILURES=1',
    'RETRY REPLICAS=1 CRASHES=1 HANGS=1 FAILURES=1 LOSSES=1',
]
# The rule that is left out, the sizes with which it shows, and what is then wrong.
MUTANTS = [
    ('NO_HELLO', 'ONE_ITEM REPLICAS=1', 'timer_was_needed'),
    ('OLD_GOT', 'ONE_ITEM REPLICAS=1', 'timer_was_needed'),
    ('DEAD_CLAIMS', 'ONE_ITEM', 'timer_was_needed'),
    ('NO_SECOND_ACK', 'ONE_ITEM REPLICAS=1 CRASHES=0 LOSSES=1', 'stuck'),
    ('KEEP_CLAIMS', 'ONE_ITEM CRASHES=0 HANGS=1', 'stuck'),
    ('ACK_FIRST', 'ONE_ITEM REPLICAS=1', 'item_lost'),
    ('GOT_IS_ENOUGH', 'ONE_ITEM REPLICAS=1', 'item_lost'),
    ('TWO_COMMITS', 'ONE_ITEM REPLICAS=1', 'item_lost'),
    ('END_FIRST', 'ONE_ITEM REPLICAS=1', 'ended_early'),
    ('NO_TOKEN', 'ONE_ITEM CRASHES=0 HANGS=1', 'stale_outcome'),
    ('NO_REVISION', 'REVISIONS REPLICAS=1 CRASHES=0 HANGS=1', 'stale_outcome'),
    ('ANY_REVISION', 'REVISIONS REPLICAS=1 CRASHES=0', 'item_lost'),
    ('RETRY_BACKWARDS', 'RETRY REPLICAS=1 CRASHES=0 FAILURES=1', 'item_lost'),
    ('SAME_NUMBER', 'RETRY REPLICAS=1 CRASHES=0 FAILURES=1', 'item_lost'),
]


def run(command, folder, seconds=600):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds)
    return done.returncode, done.stdout + done.stderr


def search(flags, folder, shortest=False, large=False):
    """Searches all states. Returns what is wrong (None: nothing), the number of states and the seconds."""
    begin = time.monotonic()
    if shortest:
        flags = [*flags, '-DBREADTH_FIRST']
    code, text = run(['spin', '-a', *flags, str(HERE / 'edges.pml')], folder)
    if code != 0 or 'rror' in text:
        sys.exit(f'spin -a {" ".join(flags)}: {text}')
    # A counterexample is found soon, so that the compiler's time counts; breadth first it is the shortest. COLLAPSE
    # takes a third of the memory and more time.
    options = ['-O0', '-DBFS'] if shortest else ['-O2', '-DCOLLAPSE'] if large else ['-O1']
    code, text = run(['gcc', '-w', '-DSAFETY', '-DMEMLIM=8000', *options, '-o', 'pan', 'pan.c'], folder)
    if code != 0:
        sys.exit(f'pan.c of {" ".join(flags)} does not compile: {text[-2000:]}')
    _, text = run(['./pan', '-m100000', '-w22'], folder, SECONDS)
    states = re.search(r'(\d+) states, stored', text)
    errors = re.search(r'errors: (\d+)', text)
    if states is None or errors is None or 'out of memory' in text or 'max search depth too small' in text \
            or 'Search not completed' in text and errors[1] == '0':
        sys.exit(f'the search with {" ".join(flags)} was cut short: {text[-2000:]}')
    wrong = re.search(r'pan:\d+: (?:assertion violated +!\((\w+)\)|(.*?) \(at depth)', text)
    found = None if errors[1] == '0' else wrong[1] or wrong[2] if wrong else text
    return found, int(states[1]), time.monotonic() - begin


def flags_of(sizes):
    return ['-D' + word for word in sizes.split()]


def must_be_sound(cases, large=False):
    failed = 0
    for sizes in cases:
        with tempfile.TemporaryDirectory() as folder:
            found, states, seconds = search(flags_of(sizes), folder, large=large)
        print(f'{sizes}: {states} states, {seconds:.1f} s: {found or "nothing is wrong"}', flush=True)
        failed += found is not None
    return failed


def must_find(cases):
    failed = 0
    for sizes, wanted in cases:
        with tempfile.TemporaryDirectory() as folder:
            found, states, seconds = search(flags_of(sizes), folder, shortest=True)
        print(f'{sizes}: {states} states, {seconds:.1f} s: {found}' +
              ('' if found == wanted else f', and {wanted} was expected'), flush=True)
        failed += found != wanted
    return failed


def story(text):
    """Yields each step of a trail with the variables that it changes."""
    values, now, changes = {}, ('', 'init'), []
    for line in text.splitlines():
        step = re.match(r'\s*(\d+):\s+proc\s+\d+ \((\w+)', line)
        value = re.match(r'\s+(\w+(?:\[\d+\])?) = (-?\d+)', line)
        if step and step.groups() != now:
            if changes:
                yield f'{now[1]:8} {" ".join(changes)}'
            now, changes = step.groups(), []
        elif value and value[1] not in ('i', 'j') and values.get(value[1], '0') != value[2]:
            values[value[1]] = value[2]
            changes.append(f'{value[1]}={value[2]}')
    if changes:
        yield f'{now[1]:8} {" ".join(changes)}'


def show(flags):
    with tempfile.TemporaryDirectory() as folder:
        found, states, seconds = search(flags, folder, shortest=True)
        print(f'{states} states, {seconds:.1f} s: {found or "nothing is wrong"}')
        if found:
            trail = str(Path(folder) / 'edges.pml.trail')
            replay = ['spin', '-k', trail, '-t', '-p', '-g', '-DBREADTH_FIRST', *flags, str(HERE / 'edges.pml')]
            print(*story(run(replay, folder)[1]), sep='\n')
    return found is not None


def main():
    what = sys.argv[1] if len(sys.argv) > 1 else ''
    for program in ('spin', 'gcc'):
        if shutil.which(program) is None:
            print(f'SKIP: no {program} here (scripts/packages.sh --tests installs it)')
            sys.exit(SKIP)
    if what == 'rules':
        failed = must_be_sound(RULES)
    elif what == 'long':
        failed = must_be_sound(LONG, large=True)
    elif what == 'id_alone':
        failed = must_find([('TWO_SOURCES ID_ALONE REPLICAS=1 CRASHES=0', 'item_lost'),
                            ('TWO_SOURCES ID_ALONE CRASHES=0', 'item_lost')])
    elif what == 'mutants':
        failed = must_find([(f'{sizes} MUTANT_{rule}', wanted) for rule, sizes, wanted in MUTANTS])
    elif what == 'show':
        failed = show(sys.argv[2:])
    else:
        sys.exit(__doc__)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
