#!/usr/bin/env python3
"""Runs stages on files: what they show while they run, on a terminal and elsewhere, and what they print at the end.

on_files.py"""

import atexit
import os
import re
import shutil
import subprocess
import tempfile
import time

from terminal import LIMIT, Terminal, check

BIN = os.path.abspath(os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(__file__), "../../build/cpu/bin")))
RELAY = os.path.join(BIN, "../tests/relay")


def run(*command, expected=0):
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    check(done.returncode == expected, f"{command}: exit {done.returncode}: {done.stderr}")
    return done.stderr


def check_result(text, *paths):
    """The paths stand at the end, in this order, each below the other, and exist."""
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    check(lines[-len(paths) :] == [f"  {path}" for path in paths], text)
    missing = [path for path in paths if not os.path.exists(path)]
    check(not missing, f"missing: {missing}")
    check("slowest" not in text, f"the profile is printed only with --profile: {text}")


def make_particles():
    """From micrographs to particles, with what each stage prints at its end."""
    simulator = f"{BIN}/icestream-simulate --o . --micrographs 2 --size 384 --particles 16 --interval 0 --seed 3"
    run(*simulator.split(), "--map_box", "32", "--box", "64")
    table = "truth/micrographs_ctf.star"
    pick = [f"{BIN}/icestream-lowpass-picker", "--i", table, "--diameter", "150", "--lowpass", "20", "--templates",
            "truth/templates.mrcs", "--threads", "1", "--o"]  # fmt: skip
    text = run(*pick, "picks")
    picks = re.search(r"lowpass-picker: (\d+) picks of 2 items\n", text)
    check(picks and int(picks[1]) > 10, text)
    check_result(text, "picks/autopick.star")
    check("slowest: wall/slowest" in run(*pick, "again", "--profile"), "--profile prints what the parts did")
    text = run(f"{BIN}/icestream-extractor", "--i", f"picks/autopick.star,{table}", "--o", "cut", "--box", "64",
               "--downscale_to", "32")  # fmt: skip
    check(f"extractor: {picks[1]} particles of 2 items\n" in text, text)
    check_result(text, "cut/particles.star")
    return picks[1]


def classify(particles):
    text = run(f"{BIN}/icestream-classifier", "--i", "cut/particles.star", "--o", "classes", "--classes", "2",
               "--diameter", "150", "--minimum_particles", "10", "--threads", "1")  # fmt: skip
    check(re.search(rf"classifier: \d of \d classes kept, with \d+ of {particles} particles \(\d+ %\)\n", text), text)
    check_result(text, *(f"classes/latest_{name}" for name in ("selected.star", "classes.mrcs", "classes.png")))


def refine(particles):
    """On a terminal of 80 columns."""
    command = [f"{BIN}/icestream-refiner", "--i", "cut/particles.star", "--o", "map", "--reference",
               "truth/reference.mrc", "--diameter", "150", "--max_iterations", "1", "--healpix_order", "1", "--threads",
               "1"]  # fmt: skip
    terminal = Terminal(command, 80, LC_ALL="C.UTF-8")
    check(terminal.finish() == 0, terminal.output)
    text = terminal.output.replace("\r\n", "\n")
    quality = r"[\d.]+ Å masked, [\d.]+ Å unmasked, directions [\d.]+"
    check(re.search(rf"refiner: {quality}, {particles} particles, iteration 2\n", text), text)
    names = (
        "postprocess.mrc",
        "postprocess.star",
        "locres.mrc",
        "locres_filtered.mrc",
        "latest_map.mrc",
        "latest_map.png",
    )
    check_result(text, *(f"map/{name}" for name in names))
    check("computing iteration 3" not in text, text)


def watch_bar():
    """The bar of a run over items, at 80 columns, with a failure that is logged above it; then its locale of ASCII."""
    for i in range(4):
        with open(f"image_{i}.mrc", "w"):
            pass
    with open("images.csv", "w") as table:
        table.write("".join(f"image_{i}.mrc\n" for i in range(4)))
    relay = [RELAY, "relay", "--i", "images.csv", "--work", "0.9", "--fail_at", "-2", "--o"]
    bars = {"C.UTF-8": r"[█░]{20}", "C": r"[#.]{20}"}
    terminals = {locale: Terminal([*relay, f"bar-{locale}"], 80, LC_ALL=locale) for locale in bars}
    for locale, bar in bars.items():
        terminal = terminals[locale]
        check(terminal.finish() == 3, terminal.output)
        lines = re.split(r"\r?\n|\r|\x1b\[\d*[AJ]", terminal.output)
        drawn = [line for line in lines if re.search(r"[123] of 4 ", line)]
        pattern = rf"{bar}  [123] of 4  [123] failed  [\d.]+ per minute  0:0\d:\d\d left"
        check(any(re.fullmatch(pattern, line) for line in drawn), f"{locale}: {terminal.output}")
        check(all(len(line) < 80 for line in drawn), f"{locale}: {drawn}")
        check(sum("WARN failed image_" in line for line in lines) == 4, f"{locale}: {terminal.output}")


def watch_lines():
    """Work of the stage's own: what it computes is shown on a terminal; elsewhere in lines."""
    for name in ("lines", "drawn"):
        os.makedirs(name)
    command = [RELAY, "thinker", "--i", "images.csv", "--o"]
    elsewhere = subprocess.Popen([*command, "lines"], stderr=subprocess.PIPE, text=True)
    atexit.register(elsewhere.terminate)
    terminal = Terminal([*command, "drawn"], 80, LC_ALL="C.UTF-8")
    end = time.time() + LIMIT
    whole = re.compile(r"4 of 4  0:0\d:\d\d  computing iteration 17  \(iteration 16, 1234 particles, 8.4 Å,\n")
    while not whole.search(terminal.output.replace("\r\n", "\n")):
        check(time.time() < end and terminal.read(), terminal.output[-2000:])
    with open("drawn/enough", "w"):
        pass
    check(terminal.finish() == 0, terminal.output[-2000:])
    check_result(terminal.output, "drawn/enough")
    line = elsewhere.stderr.readline()
    check(re.match(r"icestream-thinker: 4 of 4  0:0\d:\d\d  computing iteration 17  \(.*123456.789\)\n", line), line)
    with open("lines/enough", "w"):
        pass
    text = elsewhere.stderr.read()
    check(elsewhere.wait(timeout=LIMIT) == 0 and "icestream-thinker: 42 thoughts\n" in text, text)
    check_result(text, "lines/enough")


work = tempfile.mkdtemp(prefix="icestream-on-files-")
print(f"in {work}")
os.chdir(work)
count = make_particles()
classify(count)
refine(count)
watch_bar()
watch_lines()
os.chdir("/")
shutil.rmtree(work)
