#!/usr/bin/python3
"""Draws the top of a device's memory as text, operation by operation (paper 001, Figure 9).

memory_trace.py FILE.csv [COLUMNS] [ROWS]

The refiner writes FILE.csv when memory_trace is set (run_itNNN_memory.csv)."""

import csv
import sys


def main():
    path = sys.argv[1]
    columns, rows = (int(a) for a in (sys.argv[2:4] + ['96', '12'][len(sys.argv) - 2 :])[:2])
    with open(path, newline='') as f:
        steps = list(csv.DictReader(f))
    tops = [int(s['top']) for s in steps]
    most = max(tops)
    # Each column covers several operations: their highest and lowest top.
    width = max(1, -(-len(tops) // columns))
    high = [max(tops[i : i + width]) for i in range(0, len(tops), width)]
    low = [min(tops[i : i + width]) for i in range(0, len(tops), width)]
    for row in range(rows, 0, -1):
        level, below = most * row / rows, most * (row - 1) / rows
        line = ''.join('#' if l > below else '|' if h > below else ' ' for h, l in zip(high, low))
        print(f'{level / 2**20:8.0f} MiB {line}'.rstrip())
    batches = sum(s['operation'] == 'open' and s['scope'] == 'particles' for s in steps)
    print(f'{len(steps)} operations, {batches} batches of particles')
    scopes = {}
    for s in steps:
        scopes[s['scope']] = max(scopes.get(s['scope'], 0), int(s['top']))
    print('highest: ' + ', '.join(f'{k} {v / 2**20:.0f} MiB' for k, v in scopes.items()))


main()
