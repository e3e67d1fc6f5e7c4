#!/usr/bin/python3
"""How often the refiner makes a right first map, a wrong one, or none, and how long that takes.

  first_maps.py [--device auto] [--threads 16] [--memory GiB] [--at-once 1] [--work FOLDER] SET...

A SET is name=NAME,star=PARTICLES.star,diameter=Å[,symmetry=C1][,seeds=1-20][,truth=MAP.mrc][,reference=MAP.mrc].
A mixture is name=NAME,mix=A.star+B.star[+...],truths=A.mrc+B.mrc[+...],diameter=Å[,classes=K][,symmetry=C1][,seeds=1]
[,most=PARTICLES of each]: particles of several molecules, sorted into as many classes without a reference. Two classes of one
set (mix=A.star,classes=2) should have no maps of their own.
Each seed is a refinement without a reference. A first refinement of the set, from `reference` (default: the truth), tells
what can be reached. `right`: the refinement from the first map comes within one shell of that. `wrong`: worse than twice
its resolution. Where only a reference is given, the map that is refined from it stands for the truth, and `right` goes by
the agreement of half maps too. A set with neither should give no map.
For a mixture it tells whether classes have first maps of their own, and for each molecule the class most like it, its share of
the particles that are in the class after one iteration, and the first map against the truth.
Prints a line for each run and a table at the end: resolutions in Å, against the truth at FSC 0.5 in the better hand
(score_map), and between halves at 0.143; seconds of the first map, and of the whole program."""

import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.abspath(os.environ.get("ICESTREAM_BIN", os.path.join(HERE, "../../build/cpu/bin")))
TESTS = os.path.abspath(os.environ.get("ICESTREAM_TESTS", os.path.join(BIN, "../tests")))
NO_MAP = 3  # exit code


def seeds_of(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def set_of(text):
    given = dict(word.split("=", 1) for word in text.split(","))
    given.setdefault("symmetry", "C1")
    given.setdefault("seeds", "1")
    given["diameter"] = float(given["diameter"])
    return given


def refine(given, out, seed, options, reference=None, more=()):
    """Returns the decision about the first map, how long the program took, and what halves agree to."""
    words = [f"{BIN}/icestream-refiner", "--i", given["star"], "--o", out, "--diameter", given["diameter"]]
    words += ["--symmetry", given["symmetry"], "--seed", seed, "--device", options.device, "--threads", options.threads]
    words += ["--local_resolution", "false"] if "--classes" not in more else []
    words += ["--memory", options.memory]
    words += list(more)
    if reference is not None:
        words += ["--reference", reference, "--initial_lowpass", min(max(given["diameter"] / 5, 20), 40)]
    before = time.monotonic()
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    seconds = time.monotonic() - before
    if done.returncode not in (0, NO_MAP):
        return {"failed": f"exit code {done.returncode}: {done.stderr[-300:]}"}, seconds, None
    decision, halves = {"failed": None}, None
    classifies = "--classes" in more
    if reference is None:
        with open(f"{out}/initial_model.json") as text:
            decision = json.load(text)
    if done.returncode == 0 and not classifies:
        with open(f"{out}/history.jsonl") as text:
            halves = [json.loads(line) for line in text][-1]["resolution"]
    return decision, seconds, halves


def score(map_path, truth, diameter):
    words = [f"{TESTS}/score_map", map_path, truth, str(diameter)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return float(done.stdout.split()[0])


def extent_of(path):
    with open(path, "rb") as file:
        header = file.read(64)
    return float(memoryview(header)[40:44].cast("f")[0])


def verdict(run, best, extent):
    """best: what a refinement from the reference reaches."""
    if run["failed"]:
        return "no map"
    if best is None:
        return "wrong"
    shells = [extent / best[key] - extent / run[key] for key in best]
    if max(shells) <= 1:
        return "right"
    return "wrong" if run["truth"] > 2 * best.get("truth", best.get("halves")) else "poor"


class Set:
    def __init__(self, given, options, folder):
        self.given, self.options, self.folder = given, options, folder
        self.truth, self.best, self.extent = given.get("truth"), None, 1.0
        reference = given.get("reference", self.truth)
        if reference is not None:
            self.reach(reference)

    def reach(self, reference):
        out = f"{self.folder}/{self.given['name']}_reference"
        decision, seconds, halves = refine(self.given, out, 1, self.options, reference)
        if decision["failed"]:
            sys.exit(decision["failed"])
        final = f"{out}/run_class001.mrc"
        self.extent = extent_of(final)
        if self.truth is None:
            self.truth, self.best = final, {"halves": halves}
        else:
            self.best = {"truth": score(final, self.truth, self.given["diameter"])}
        print(f"{self.given['name']} from the reference: {self.best}, halves {halves:.1f}, {seconds:.1f} s", flush=True)

    def run(self, seed):
        out = f"{self.folder}/{self.given['name']}_{seed:03d}"
        decision, seconds, halves = refine(self.given, out, seed, self.options)
        run = {"seed": seed, "failed": decision["failed"], "seconds": decision.get("seconds", float("nan"))}
        run.update(whole=seconds, halves=halves, first=None, truth=None, text=decision.get("text", ""))
        if not run["failed"] and self.truth is not None:
            run["first"] = score(f"{out}/initial_model.mrc", self.truth, self.given["diameter"])
            run["truth"] = score(f"{out}/run_class001.mrc", self.truth, self.given["diameter"])
        run["verdict"] = verdict(run, self.best, self.extent)
        starts = decision.get("starts", [])
        run["alike"] = f"{sum(s['alike'] for s in starts)}/{len(starts)}"
        return run


def table_of(path, block):
    """Returns the lines before the rows of a block, the names of its columns, and its rows."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    at = lines.index(f"data_{block}")
    while not lines[at].startswith("_"):
        at += 1
    first = at
    while lines[at].startswith("_"):
        at += 1
    rows = [line.split() for line in lines[at:] if line.strip()]
    return lines[:at], [line.split()[0].lstrip("_") for line in lines[first:at]], rows


def write_mixture(stars, most, path):
    """Writes a table of the particles of several tables in turn. Images get absolute paths."""
    tables = []
    for star in stars:
        head, names, rows = table_of(star, "particles")
        column = names.index("rlnImageName")
        for row in rows:
            index, _, stack = row[column].partition("@")
            row[column] = f"{index}@{os.path.abspath(os.path.join(os.path.dirname(star), stack))}"
        tables.append(rows[:most])
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(head) + "\n")
        for i in range(max(map(len, tables))):
            file.writelines(" ".join(rows[i]) + "\n" for rows in tables if i < len(rows))


class Mixture:
    """Particles of several molecules, sorted into classes without a reference."""

    def __init__(self, given, options, folder):
        self.given, self.options, self.folder = given, options, folder
        self.stars, self.truths = given["mix"].split("+"), given["truths"].split("+")
        self.stacks = [os.path.dirname(os.path.abspath(star)) + "/" for star in self.stars]
        self.classes = int(given.get("classes", len(self.stars)))
        given["star"] = f"{folder}/{given['name']}.star"
        write_mixture(self.stars, int(given.get("most", 10**9)), given["star"])

    def counts(self, out):
        """Returns how many particles of each molecule are in each class."""
        _, names, rows = table_of(f"{out}/run_data.star", "particles")
        image, number_of = names.index("rlnImageName"), names.index("rlnClassNumber")
        counts = [[0] * self.classes for _ in self.stars]
        for row in rows:
            path = os.path.abspath(row[image].partition("@")[2])
            molecule = next(i for i, stack in enumerate(self.stacks) if path.startswith(stack))
            counts[molecule][int(row[number_of]) - 1] += 1
        return counts

    def run(self, seed):
        out = f"{self.folder}/{self.given['name']}_{seed:03d}"
        more = ["--classes", self.classes, "--iterations", 1]
        decision, seconds, _ = refine(self.given, out, seed, self.options, more=more)
        found = decision.get("classes") or {}
        run = {"seed": seed, "own": found.get("own", False), "whole": seconds, "molecules": [], "text": ""}
        run.update(one=decision["failed"] or "accepted", refused=found.get("refused") or "—", text=found.get("found", ""))
        run.update(seconds=decision.get("seconds", 0.0))
        if not run["own"]:
            return run
        for counts, truth in zip(self.counts(out), self.truths):
            best = max(range(self.classes), key=lambda k: counts[k])
            resolution = score(f"{out}/initial_model_class{best + 1:03d}.mrc", truth, self.given["diameter"])
            run["molecules"].append(f"class {best + 1}: {counts[best] / sum(counts):.3f}, {resolution:.1f} Å")
        return run

    def line(self, run):
        words = [self.given["name"], run["seed"], run["one"], "own maps" if run["own"] else run["refused"]]
        words += ["; ".join(run["molecules"]) or run["text"], number(run["seconds"]), number(run["whole"])]
        return "| " + " | ".join(str(word) for word in words) + " |"


def run_mixtures(mixtures, options, folder, pool):
    print("| mixture | seed | one map | classes | molecules | first maps (s) | all (s) |\n|---|---|---|---|---|---|---|")
    for given in mixtures:
        mixture = Mixture(given, options, folder)
        for run in pool.map(mixture.run, seeds_of(given["seeds"])):
            print(mixture.line(run), flush=True)


def number(value):
    return "—" if value is None else f"{value:.1f}"


def line(name, run):
    words = [name, run["seed"], run["failed"] or "accepted", run["verdict"], run["alike"], number(run["first"])]
    words += [number(run["truth"]), number(run["halves"]), number(run["seconds"]), number(run["whole"])]
    return "| " + " | ".join(str(word) for word in words) + " |"


def summary(name, runs):
    tests = sorted({run["failed"] for run in runs if run["failed"]})
    refused = ", ".join(f"{test} {sum(run['failed'] == test for run in runs)}" for test in tests) or "—"
    counts = [sum(run["verdict"] == word for run in runs) for word in ("right", "poor", "wrong")]
    seconds = [run["seconds"] for run in runs]
    times = f"{statistics.median(seconds):.1f} | {max(seconds):.1f}"
    return f"| {name} | {len(runs)} | {' | '.join(map(str, counts))} | {refused} | {times} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--memory", default="auto")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--work")
    parser.add_argument("sets", nargs="+", type=set_of)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as own, concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        summaries = []
        mixtures = [given for given in options.sets if "mix" in given]
        if mixtures:
            run_mixtures(mixtures, options, options.work or own, pool)
        singles = [given for given in options.sets if "mix" not in given]
        if not singles:
            return
        print("| set | seed | decision | map | starts alike | first map | refined | halves | first map (s) | all (s) |")
        for given in singles:
            particles = Set(given, options, options.work or own)
            runs = []
            for run in pool.map(particles.run, seeds_of(given["seeds"])):
                print(line(given["name"], run), flush=True)
                runs.append(run)
            summaries.append(summary(given["name"], runs))
        print("\n| set | seeds | right | poor | wrong | no map | median s | most s |\n|---|---|---|---|---|---|---|---|")
        print("\n".join(summaries))


main()
