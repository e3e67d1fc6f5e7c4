#!/usr/bin/env python3
"""colours.py CSS: the colours of states stay apart for those who do not see all colours, and stand out from the page, in the
light and in the dark theme. Sight without red, green or blue as Machado, Oliveira and Fernandes (2009) model it; differences
in CIELAB."""
import re
import sys

# Linear RGB as seen; severity 1.
SIGHT = {"all": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
         "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
         "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
         "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]}
STATES = ("done", "rejected", "failed")  # what is in flight is a lighter "done", as a ring
XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
WHITE = (0.9505, 1.0, 1.089)


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def linear(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]


def lab(light):
    x, y, z = (v / white for v, white in zip(times(XYZ, [min(1, max(0, v)) for v in light]), WHITE))
    f = [v ** (1 / 3) if v > 216 / 24389 else (24389 / 27 * v + 16) / 116 for v in (x, y, z)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def contrast(a, b):
    high, low = sorted((times(XYZ, linear(c))[1] for c in (a, b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        blocks = [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r"\{([^{}]*)\}", file.read())]
    themes = [block for block in blocks if "done" in block and "panel" in block]
    assert len(themes) >= 2, "the themes of the page are not found in %s" % sys.argv[1]
    wrong = []
    for colours in themes:
        for sight, matrix in SIGHT.items():
            seen = {state: lab(times(matrix, linear(colours[state]))) for state in STATES}
            for i, one in enumerate(STATES):
                for other in STATES[i + 1:]:
                    apart = sum((a - b) ** 2 for a, b in zip(seen[one], seen[other])) ** 0.5
                    print("%s and %s on %s, %s: %.0f" % (one, other, colours["panel"], sight, apart))
                    if apart < LEAST[one, other]:
                        wrong.append("%s and %s, %s: %.1f apart, wanted %d" % (one, other, sight, apart, LEAST[one, other]))
        for state in STATES + ("in-flight",):
            if contrast(colours[state], colours["panel"]) < 3:
                wrong.append("%s on %s: a contrast below 3" % (state, colours["panel"]))
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


# Done and what is lost differ in colour; rejected and failed by their shapes and words, and somewhat in colour.
LEAST = {("done", "rejected"): 25, ("done", "failed"): 25, ("rejected", "failed"): 10}

sys.exit(main())
