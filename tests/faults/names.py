#!/usr/bin/env python3
"""Passes micrographs with odd names from the watcher to the extractor. The names are quoted so that other programs can
read them. Names that no STAR file can hold fail with a reason. Nothing delays the other files."""

import os
import re
import shutil
import subprocess

import mrcfile
from alone import put
from faults import MICROGRAPHS, Run, Work, check, counts, finish, names, status, write

GRAPH = """\
session: {pixel_size: 6.0}
stages:
  watcher:        {directory: "RAW", settle: 0.5, poll: 0.2}
  lowpass-picker: {from: watcher, diameter: 130, lowpass: 40, write_png: false}
  extractor:      {from: lowpass-picker, box: 32}
"""
LONGEST = 255 - len(".mrc")
GOOD = [
    "plain",
    "with space",
    " before",
    "after ",
    "two  spaces",
    "#hash",
    "_loop",
    "loop_",
    "data_x",
    "-dash",
    "--option",
    "it's",
    "'quoted'",
    'say "x"',
    '"',
    "semi;colon",
    ";first",
    "$dollar",
    "[brackets]",
    "back\\slash",
    "a@b",
    "000001@stack",
    "per%cent",
    "pipe|and&",
    "{brace}",
    "star*",
    "q?",
    "ünïcödé Å",
    "冷冻电镜",
    "🧊" * 20,
    "é́combining",
    "dots.in.name",
    "~",
    "x" * LONGEST,
    "y" * (LONGEST - 1) + "1",
    "y" * (LONGEST - 1) + "2",
    "Å" * (LONGEST // 2),
    "🧊" * (LONGEST // 4),
    "f" * 200 + "/" + "g" * 200 + "/deep",
    "Å" * 100 + "/" + "é" * 100,
    "a folder's name/_x y",
]
BAD = {
    b"line\nbreak": "line break",
    b"tab\tin": "control character",
    b"return\r": "control character",
    b"escape\x1b[31m": "control character",
    b"del\x7f": "control character",
    b"bad\xff": "not UTF-8",
    b"bad\xfe": "not UTF-8",
    b"half\xe2\x84": "not UTF-8",
    b'it\'s "both" kinds': "both kinds of quotation mark",
    b"/".join([b"z" * 250] * 5): "too long",
}


def micrograph():
    """Returns the bytes of a simulated micrograph."""
    with open(os.path.join(MICROGRAPHS, names()[0]), "rb") as file:
        return file.read()


def words(line):
    """Splits a row of a STAR file: words with blanks between them, or in quotes that end at the first quote of their
    kind."""
    return [a or b or c for a, b, c in re.findall(r'"([^"]*)"|\'([^\']*)\'|(\S+)', line)]


def column(path, table, label):
    """Returns one column of a loop."""
    found, columns, inside = [], [], False
    for line in open(path, newline="\n").read().split("\n"):
        if line.startswith("data_"):
            inside, columns = line.strip() == f"data_{table}", []
        elif inside and line.startswith("_"):
            columns.append(line.split()[0][1:])
        elif inside and columns and line.strip():
            row = words(line)
            found.append(row[columns.index(label)] if len(row) == len(columns) else None)
    return found


with Work("names") as work:
    session = work("session")
    for name in GOOD:
        put(work("raw"), name + ".mrc", micrograph())
    for name in BAD:
        if len(name) < 1000:
            put(work("raw"), name + b".mrc", micrograph())
    deep = os.fsencode(work("raw"))
    for part in [b"z" * 250] * 4:  # in steps: the whole path is longer than most tools can make at once
        deep = os.path.join(deep, part)
        os.mkdir(deep)
    put(deep, b"z" * 250 + b".mrc", micrograph())
    graph = write(work("graph.yaml"), GRAPH.replace("RAW", work("raw")))
    with Run(graph, session, "--until-idle", 1) as live:
        live.finish(3, 200)

    total, items = counts(session), status(session)["items"]
    check(
        total["watcher"]["done"] == len(GOOD) and total["watcher"]["failed"] == len(BAD), f"watcher: {total['watcher']}"
    )
    for stage in ("lowpass-picker", "extractor"):
        check(total[stage]["done"] == len(GOOD) == total[stage]["seen"], f"{stage}: {total[stage]}")
    check({i["id"] for i in items if i["stage"] == "extractor"} == set(GOOD), "each has its own id")
    reasons = [i["reason"] for i in items if i["state"] == "failed"]
    for text in set(BAD.values()):
        wanted = sum(t == text for t in BAD.values())
        told = sum(text in r and "rename it" in r for r in reasons)
        check(told >= wanted, f"{told} failed for '{text}', and their reasons name the remedy")
    check(len({i["id"] for i in items if i["state"] == "failed"}) == len(BAD), "failed items have different ids")

    micrographs = column(f"{session}/extractor/particles.star", "particles", "rlnMicrographName")
    expected = {os.path.join(work("raw"), name + ".mrc") for name in GOOD}
    check(
        set(micrographs) == expected,
        f"particles.star names each micrograph as it is: {len(set(micrographs))} of {len(GOOD)}",
    )
    images = column(f"{session}/extractor/particles.star", "particles", "rlnImageName")
    sections = {}
    for image in images:
        number, path = image.split("@", 1)
        sections.setdefault(path, []).append(int(number))
    check(len(sections) == len(GOOD), f"{len(sections)} stacks, one for each")
    check(max(len(os.path.basename(os.fsencode(path))) for path in sections) <= 255, "no name is too long")
    whole = 0
    for path, numbers in sections.items():
        with mrcfile.open(os.path.join(session, path)) as file:
            whole += file.data.reshape(-1, 32, 32).shape[0] == len(numbers) == max(numbers)
    check(whole == len(GOOD), f"mrcfile reads {whole} stacks with as many particles as rows")
    picks = set(column(f"{session}/lowpass-picker/autopick.star", "coordinate_files", "rlnMicrographCoordinates"))
    check(
        sum(os.path.exists(os.path.join(session, p)) for p in picks) == len(GOOD), "autopick.star names a file for each"
    )

    if shutil.which("relion_star_handler"):
        subprocess.run(
            ["relion_star_handler", "--i", "extractor/particles.star", "--o", "handled.star"],
            cwd=session,
            check=True,
            capture_output=True,
        )
        handled = column(f"{session}/handled.star", "particles", "rlnImageName")
        # relion_star_handler has two limits: it makes one blank of two, and puts double quotation marks around words
        # with blanks.
        lost = {a for a, b in zip(images, handled) if a != b and not ("  " in a or (" " in a and '"' in a))}
        check(len(handled) == len(images) and not lost, f"relion_star_handler reads and writes each name but {lost}")
    else:
        print("relion_star_handler is not installed: not compared with it")
    finish()
