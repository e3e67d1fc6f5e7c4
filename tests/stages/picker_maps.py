#!/usr/bin/python3
"""Picks again from kept maps of an earlier search. The picks equal those of a new search with the same threshold, byte
for byte, and need neither micrographs nor templates. Parameters that maps cannot serve are an error with the reason."""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

BIN = os.environ["ICESTREAM_BIN"]
NAMES = ["mic_00001", "mic_00002"]
failures = []


def check(condition, message):
    if not condition:
        print("FAILED:", message, flush=True)
        failures.append(message)


def pick(*arguments, fails=False):
    done = subprocess.run(
        [f"{BIN}/icestream-lowpass-picker", "--i", "micrographs.star", "--threads", "1", *arguments],
        capture_output=True,
        text=True,
    )
    if not fails and done.returncode:
        sys.exit(f"{arguments}: exit {done.returncode}\n{done.stderr}")
    return done


def stars(folder):
    out = []
    for name in NAMES:
        with open(f"{folder}/micrographs/{name}_autopick.star") as text:
            out.append([line for line in text if line.strip()[:1].isdigit() or line.strip()[:1] == "-"])
    return out


def refused(case, words, *arguments):
    """Checks the reason in the output. Either the stage refuses (its exit code is not 0), or each item fails."""
    done = pick("--o", f"refused-{case}", "--from_maps", "kept-template", *arguments, fails=True)
    text = done.stderr + done.stdout
    for word in words:
        check(word in text, f"{case}: \"{word}\" is not in the output: {text[-600:]}")
    check(not os.path.exists(f"refused-{case}/micrographs/{NAMES[0]}_autopick.star"), f"{case}: there are picks")


def searches():
    """Searches in each mode: once to keep the maps, once for each choice of picks, and then again from the maps."""
    # Kept maps are always whitened, so the other searches are whitened too.
    modes = {
        "template": [
            "--templates",
            "truth/templates.mrcs",
            "--diameter",
            "130",
            "--angle_step",
            "30",
            "--whiten",
            "on",
        ],
        "log": ["--method", "log", "--diameter", "130"],
    }
    choices = [
        ["--threshold", "auto"],
        ["--threshold", "0.2"],
        ["--threshold", "3"],
        ["--threshold", "auto", "--prune", "relion"],
        ["--threshold", "0.2", "--prune", "relion"],
        ["--threshold", "auto", "--min_distance", "200", "--max_stddev_noise", "1.05"],
    ]
    fresh = {}
    for mode, arguments in modes.items():
        pick("--o", f"kept-{mode}", "--keep_maps", "true", *arguments)
        for i, choice in enumerate(choices):
            pick("--o", f"fresh-{mode}-{i}", "--write_png", "false", *arguments, *choice)
            fresh[mode, i] = stars(f"fresh-{mode}-{i}")
        check(stars(f"kept-{mode}") == fresh[mode, 0], f"{mode}: keeping the maps changes the picks")
        check(not os.path.exists(f"fresh-{mode}-0/micrographs/{NAMES[0]}_maps.mrcs"), f"{mode}: maps nobody asked for")
    check(len({str(stars) for stars in fresh.values()}) >= 8, "the choices hardly differ, so the test says little")
    check(all(len(found) > 5 for found in fresh["template", 0] + fresh["log", 0]), f"few picks: {fresh['template', 0]}")

    shutil.move("micrographs", "gone")
    shutil.move("truth", "gone-too")
    for mode in modes:
        for i, choice in enumerate(choices):
            pick("--o", f"again-{mode}-{i}", "--from_maps", f"kept-{mode}", *choice)
            check(stars(f"again-{mode}-{i}") == fresh[mode, i], f"{mode} {choice}: other picks than a new search's")
        check(
            os.path.getsize(f"again-{mode}-0/micrographs/{NAMES[0]}.png")
            == os.path.getsize(f"kept-{mode}/micrographs/{NAMES[0]}.png"),
            f"{mode}: another picture from the maps",
        )
    shutil.move("gone", "micrographs")
    shutil.move("gone-too", "truth")


def errors():
    refused("no-folder", ["from_maps", "nowhere"], "--from_maps", "nowhere")
    refused("templates", ["templates"], "--templates", "truth/templates.mrcs")
    refused("diameter", ["diameter"], "--diameter", "150")
    refused("lowpass", ["lowpass", "20", "30"], "--lowpass", "30")
    refused("angle-step", ["angle_step", "30", "10"], "--angle_step", "10")
    refused("method", ["method", "log"], "--method", "log")
    refused("whiten", ["whiten"], "--whiten", "off")
    refused("size-rule", ["size_rule"], "--size_rule", "relion")
    refused("invert", ["invert"], "--invert", "false")
    refused("ctf", ["ctf"], "--ctf", "false")
    refused("keep", ["keep_maps"], "--keep_maps", "true")
    # Values that equal those of the search are no contradiction.
    pick("--o", "same", "--from_maps", "kept-template", "--lowpass", "20", "--angle_step", "30", "--method", "template")
    check(stars("same") == stars("kept-template"), "parameters that repeat the search's change the picks")

    base = f"kept-template/micrographs/{NAMES[0]}_maps"

    def damaged(case, words, change):
        shutil.copytree("kept-template", "whole", symlinks=True)
        change()
        done = pick("--o", f"damaged-{case}", "--from_maps", "kept-template", fails=True)
        for word in words:
            check(word in done.stderr, f"{case}: \"{word}\" is not in the output: {done.stderr[-600:]}")
        check(not os.path.exists(f"damaged-{case}/micrographs/{NAMES[0]}_autopick.star"), f"{case}: there are picks")
        check(os.path.exists(f"damaged-{case}/micrographs/{NAMES[1]}_autopick.star"), f"{case}: the other one has none")
        shutil.rmtree("kept-template")
        shutil.move("whole", "kept-template")

    def edit(**values):
        with open(base + ".json") as text:
            known = json.load(text)
        known.update(values)
        with open(base + ".json", "w") as text:
            json.dump(known, text)

    def write(path, content):
        with open(path, "wb") as file:
            file.write(content)

    damaged("no-maps", [f"{NAMES[0]}_maps.mrcs", "keep_maps"], lambda: os.remove(base + ".mrcs"))
    damaged("no-description", [f"{NAMES[0]}_maps.mrcs"], lambda: os.remove(base + ".json"))
    damaged("no-json", [f"{NAMES[0]}_maps.json"], lambda: write(base + ".json", b"nonsense"))
    damaged("other-json", [f"{NAMES[0]}_maps.json"], lambda: write(base + ".json", b"{\"v\": 1}"))
    damaged("version", ["version 99"], lambda: edit(v=99))
    damaged("sizes", [f"{NAMES[0]}_maps"], lambda: edit(work=1000000))
    damaged("other-size", [f"{NAMES[0]}_maps.mrcs"], lambda: edit(work=96))
    damaged("negative", [f"{NAMES[0]}_maps.json"], lambda: edit(border=-3))
    damaged("cut", [f"{NAMES[0]}_maps.mrcs"], lambda: os.truncate(base + ".mrcs", 5000))
    damaged("no-mrc", [f"{NAMES[0]}_maps.mrcs"], lambda: write(base + ".mrcs", struct.pack("<256i", *([7] * 256))))
    damaged(
        "other-micrograph",
        [NAMES[1], NAMES[0]],
        lambda: [
            shutil.copy(f"kept-template/micrographs/{NAMES[1]}_maps.{end}", f"{base}.{end}") for end in ("mrcs", "json")
        ],
    )


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    subprocess.run(
        [
            f"{BIN}/icestream-simulate",
            "--o",
            ".",
            "--micrographs",
            "2",
            "--size",
            "512",
            "--particles",
            "20",
            "--interval",
            "0",
            "--templates",
            "3",
            "--contamination",
            "1",
            "--seed",
            "5",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    shutil.copy("truth/micrographs_ctf.star", "micrographs.star")
    searches()
    errors()
print("failed" if failures else "passed")
sys.exit(1 if failures else 0)
