#!/usr/bin/env python3
"""same_run.py: a run without a page, and one whose page three readers follow, have the same items and the same products.
tests/benchmarks/bench_serve_run.py measures what the page costs.

Images and thumbnails are compared byte by byte. FFTW chooses the plan of the CTF estimator's spectra by measuring: numbers
that follow from them differ in later digits from run to run, without a page too, and a pick at the threshold comes or goes
with them. So the picker does not get them here: the CTF estimator is a branch of its own. Its curves and pictures need only
be there, CTF values are left out of tables, and other numbers may differ by a thousandth. Rows of joined tables come as
micrographs are done, in any order."""
import hashlib
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../benchmarks"))
import bench_serve_run as bench  # noqa: E402
import web  # noqa: E402


def number(word):
    try:
        return float(word)
    except ValueError:
        return None


def table(path, session):
    """Returns the rows of a STAR file as lists without CTF values, those of joined tables in order of their names."""
    labels, rows = [], []
    with open(path, encoding="utf-8") as file:
        for line in file.read().replace(session + "/", "").splitlines():
            words, label = line.split(), re.fullmatch(r"_(\w+) #\d+\s*", line)
            labels = labels + [label.group(1)] if label else [] if line.startswith("data_") else labels
            if words and not label and len(words) == len(labels):
                words = [word for name, word in zip(labels, words) if not re.search("Defocus|Ctf", name)]
            rows.append(words)
    return sorted(rows, key=lambda row: [word for word in row if number(word) is None])


def alike(a, b):
    """Tells whether two products are the same, apart from later digits."""
    if not isinstance(a, list) or not isinstance(b, list):
        return a == b or (number(a) is not None and number(b) is not None
                          and abs(number(a) - number(b)) <= 1e-3 * max(1, abs(number(a))))
    return len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b))


def product(path, session):
    """Returns what two runs must have in common."""
    if path.endswith((".json", ".png")):
        return "there"
    if path.endswith(".star"):
        return table(path, session)
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def products(session):
    """Returns of each stage the states of its items with the names of its products, and what each of these holds."""
    outcomes, found = bench.outcomes(session), {}
    for stage in bench.STAGES:
        found[stage] = repr(outcomes[stage])
        for name in outcomes[stage][1]:
            path = os.path.join(session, stage, name)
            if os.path.isfile(path) and name not in ("history.jsonl", "left_out.json"):
                found[stage, name] = product(path, session)
    return found


def main():
    with tempfile.TemporaryDirectory(prefix="icestream-same-") as folder:
        subprocess.run([os.path.join(web.BIN, "icestream-simulate"), "--o", folder + "/in", "--micrographs", "4", "--interval",
                        "0", "--seed", "5", "--size", "512"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        graph = folder + "/graph.yaml"
        with open(graph, "w", encoding="utf-8") as file:
            file.write((bench.GRAPH % (folder + "/in", folder + "/in")).replace("from: ctf-estimator", "from: watcher"))
        made = []
        for readers in (0, 3):
            session = "%s/s%d" % (folder, readers)
            bench.once(graph, session, readers)
            made.append(products(session))
        keys = set(made[0]) | set(made[1])
        differing = [key for key in keys if key not in made[0] or key not in made[1] or not alike(made[0][key], made[1][key])]
        assert not differing, sorted(map(str, differing))
        assert sum(name.endswith(".mrcs") for _, name in (key for key in keys if isinstance(key, tuple))) == 4, keys
        assert len(made[0]["extractor", "particles.star"]) > 60, made[0]["extractor", "particles.star"]
    print("ok")


main()
sys.exit(0)
