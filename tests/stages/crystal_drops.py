"""Helpers of the crystal scorer's tests: simulated drops, the programs, and tables."""

import csv
import os
import subprocess
import sys

SKIP = 77
try:
    import numpy as np  # noqa: F401
    from PIL import Image  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(SKIP)

BIN = os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(__file__), "../../build/cpu/bin"))
DATA = os.environ.get("ICESTREAM_DATA", os.path.join(os.path.dirname(__file__), "../../../shared/data"))
OUTCOMES = [
    "clear",
    "precipitate",
    "crystal",
    "phase separation",
    "precip & crystal",
    "precip & skin",
    "phase & crystal",
    "phase & precip",
    "skin",
    "junk",
    "other",
]
CRYSTALS = [name for name in OUTCOMES if "crystal" in name]
failures = []


def check(condition, text):
    print("ok  " if condition else "FAIL", text, flush=True)
    if not condition:
        failures.append(text)


def end():
    print(f"{len(failures)} checks failed")
    sys.exit(1 if failures else 0)


def simulate(folder, **options):
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    subprocess.run([f"{BIN}/icestream-simulate-drops", "--o", folder, *words], check=True)


def scorer(*words, expect=0):
    """Runs the stage and returns what it printed."""
    done = subprocess.run([f"{BIN}/icestream-crystal-scorer", *map(str, words)], text=True, capture_output=True)
    text = done.stdout + done.stderr
    check(
        done.returncode == expect,
        f"exit code {done.returncode}, expected {expect}" + (f": {text[-2000:]}" if done.returncode != expect else ""),
    )
    return text


def need_forest():
    # The stage reports this before it opens a file, so any input will do.
    done = subprocess.run(
        [
            f"{BIN}/icestream-crystal-scorer",
            "--i",
            os.path.abspath(__file__),
            "--o",
            "/tmp/none",
            "--model",
            os.path.abspath(__file__),
        ],
        text=True,
        capture_output=True,
    )
    if "no random forest" in done.stderr:
        check(
            done.returncode == 1 and "install the package libxgboost-dev and build again" in done.stderr,
            "says what is missing: " + done.stderr,
        )
        print("skipped: this build has no XGBoost")
        sys.exit(1 if failures else SKIP)


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def said(text, *words):
    missing = [w for w in words if w not in text]
    check(not missing, f"says: {words[0]}" + (f"; not {missing}, but: {text[-2500:]}" if missing else ""))


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path
