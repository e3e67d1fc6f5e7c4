#!/usr/bin/env python3
"""Measures what a page costs the run that it shows.

bench_serve_run.py [--micrographs 40] [--pairs 3]

Runs the same graph over the same micrographs by turns without a page, and with one that three readers follow, and prints the
times from the first exposure found to the last one picked, the processor time of the stages, and whether items and the names
of products are the same. With --twenty: how late twenty readers hear of an exposure, from the commit of its ledgers."""
import argparse
import json
import os
import re
import resource
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../web"))
import web  # noqa: E402
from bench_serve import Reader, percentile, say  # noqa: E402

STAGES = ("watcher", "ctf-estimator", "lowpass-picker", "extractor")
GRAPH = """session: {pixel_size: 2.5, voltage: 300, spherical_aberration: 2.7, amplitude_contrast: 0.1}
stages:
  watcher:        {directory: %s/micrographs}
  ctf-estimator:  {from: watcher}
  lowpass-picker: {from: ctf-estimator, templates: %s/truth/templates.mrcs, lowpass: 20, diameter: 150}
  extractor:      {from: lowpass-picker, box: 96}
"""


class Place:
    """The address of a page, as a Reader wants it."""

    def __init__(self, url):
        self.url = url


def once(graph, session, readers):
    """Runs the graph; returns the seconds from the first exposure found to the last picked, and of the processor."""
    page = ["--serve", "--listen", "127.0.0.1:0"] if readers else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen([web.ICESTREAM, "run", graph, "--session", session, "--until-idle", "2", *page],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        said, listening = [], []
        for line in run.stdout:
            said.append(line)
            found = re.search(r"http://\S+", line)
            if found and not listening:
                listening = [Reader(Place(found.group(0))) for _ in range(readers)]
    assert run.returncode == 0, "".join(said)
    assert len(listening) == readers and all(it.events for it in listening), "".join(said)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    first, last = [sqlite3.connect("file:%s/ledger/%s.sqlite?mode=ro" % (session, stage), uri=True).execute(
        "SELECT %s FROM items" % what).fetchone()[0] for stage, what in (
            ("watcher", "min(time_seen)"), ("extractor", "max(time_changed)"))]
    return last - first, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def outcomes(session):
    """Returns of each stage the state of each item in its ledger, and the names of its products. Their bytes vary from run
    to run without a page too: CTF values do in later digits (FFTW plans by measuring)."""
    found = {}
    for stage in STAGES:
        folder = os.path.join(session, stage)
        ledger = sqlite3.connect("file:%s/ledger/%s.sqlite?mode=ro" % (session, stage), uri=True)
        items = sorted(ledger.execute("SELECT id, state, reason, attempts FROM items"))
        ledger.close()
        found[stage] = items, sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return found


def beside(count, pairs):
    with tempfile.TemporaryDirectory(prefix="icestream-bench-") as folder:
        subprocess.run([os.path.join(web.BIN, "icestream-simulate"), "--o", folder + "/in", "--micrographs", str(count),
                        "--interval", "0", "--seed", "5"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        graph = folder + "/graph.yaml"
        with open(graph, "w", encoding="utf-8") as file:
            file.write(GRAPH % (folder + "/in", folder + "/in"))
        walls, works, same = ([], []), ([], []), True
        first = None
        for pair in range(pairs):
            for way in ((0, 1), (1, 0))[pair % 2]:
                session = "%s/s%d-%d" % (folder, pair, way)
                wall, work = once(graph, session, 3 * way)
                walls[way].append(wall)
                works[way].append(work)
                made = outcomes(session)
                first = first or made
                differing = sorted(stage for stage in STAGES if first[stage] != made[stage])
                same = same and not differing
                print("%s: %.1f s, %.1f s of the processor%s" % ("with a page" if way else "without", wall, work,
                      "; differs: " + ", ".join(differing[:5]) if differing else ""), flush=True)
        for what, times in (("time", walls), ("processor time", works)):
            ratio = statistics.median(times[1]) / statistics.median(times[0])
            say("%d micrographs, page and 3 readers: %s against none, medians of %d" % (count, what, pairs),
                "%+.1f %%" % (100 * (ratio - 1)), "within 1 %")
        say("states of items, names of products", "the same" if same else "differ", "the same")


class Listener(Reader):
    """Notes when each event with rows came."""

    def run(self):
        self.heard, rows = [], False
        try:
            for line in self.stream:
                if line.startswith(b"event:"):
                    rows = line.split()[1] == b"rows"
                elif line.startswith(b"data:") and rows:
                    self.heard.append((time.time(), max(json.loads(line[5:])["n"], default=0)))
        except (OSError, ValueError, AttributeError):
            pass  # the server has ended


def twenty(exposures, seconds, count=20):
    site = web.Site(exposures=exposures, running=True, pictures=0)
    try:
        readers = [Listener(Place(site.url)) for _ in range(min(count, 16))]
        askers = [threading.Thread(target=ask, args=(site, seconds), daemon=True) for _ in range(count - len(readers))]
        for thread in askers:
            thread.start()
        time.sleep(3)
        committed = []
        for _ in range(seconds):
            time.sleep(1)
            site.session.add(1)
            committed.append((time.time(), site.session.count))
        time.sleep(3)
        late = []
        for reader in readers:
            for at, number in committed:
                came = [when for when, n in reader.heard if n >= number]
                assert came, "exposure %d was not heard of" % number
                late.append(min(came) - at)
        say("%d exposures, %d pages that follow and %d that ask every 2 s: median, p99, most of %d" % (
            exposures, len(readers), len(askers), len(late)), "%.2f, %.2f, %.2f s" % (
            statistics.median(late), percentile(late, 0.99), max(late)), "p99 < 1 s")
    finally:
        site.stop(signal.SIGTERM)
        site.close()


def ask(site, seconds):
    """Asks for what is new every two seconds, as a page does to which no events come."""
    reader, end = Reader(site, follow=False), time.monotonic() + seconds + 3
    while time.monotonic() < end:
        try:
            reader.ask("/api/status").read()
        except OSError:
            return
        time.sleep(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--micrographs", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--twenty", action="store_true")
    parser.add_argument("--exposures", type=int, default=10000)
    parser.add_argument("--seconds", type=int, default=60)
    given = parser.parse_args()
    if given.twenty:
        twenty(given.exposures, given.seconds)
    else:
        beside(given.micrographs, given.pairs)


if __name__ == "__main__":
    main()
