#!/usr/bin/env python3
"""Makes a whole synthetic session without running a stage, for tests of what reads sessions.

make_session.py DIR --exposures N [--running] [--live RATE] makes graph.yaml, ledgers, plan, heartbeats, logs, STAR
files, pictures, class averages and a map. With --running a child process holds the launcher's lock, and the program
stays until its input ends; with --live it also adds RATE exposures a second. Tests import Session instead."""
import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import numpy

import synthetic

STAGES = ["watcher", "motion-corrector", "ctf-estimator", "lowpass-picker", "extractor", "classifier", "refiner"]
ID = "5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c"
SPECIAL = {3: "a<script>alert(1)</script>", 5: "it's \"quoted\" & more", 7: "données_日本_µm",
           9: "n" * 251}  # with its ending .tif: the longest name that a file may have
IN_FLIGHT, DONE, REJECTED, FAILED = 0, 1, 2, 3
HOLDER = """import fcntl, os, signal, struct, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o666)
fcntl.fcntl(lock, 37, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
print("held", flush=True)
sys.stdin.read()
"""
SCHEMA = """
CREATE TABLE items (number INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL DEFAULT '', id TEXT NOT NULL,
  revision INTEGER NOT NULL DEFAULT 0, state INTEGER NOT NULL, reason TEXT, attempts INTEGER NOT NULL,
  crashes INTEGER NOT NULL, instance INTEGER NOT NULL, token TEXT, item TEXT NOT NULL, time_seen REAL NOT NULL,
  time_changed REAL NOT NULL, UNIQUE (id, source));
CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, edge TEXT NOT NULL, source TEXT NOT NULL DEFAULT '',
  id TEXT NOT NULL, item TEXT NOT NULL, time_sent REAL NOT NULL, acknowledged REAL, verdict TEXT);
CREATE INDEX outbox_waiting ON outbox (edge, seq) WHERE acknowledged IS NULL;
CREATE TABLE ends (edge TEXT NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (edge, run));
CREATE INDEX items_state ON items (state);
CREATE INDEX outbox_key ON outbox (id, source);
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE files (source TEXT, id TEXT, product INTEGER, path TEXT, revision INTEGER, size INTEGER,
  mtime_ns INTEGER, digest TEXT, PRIMARY KEY (source, id, product, path));
CREATE TABLE warnings (stage TEXT, id TEXT, message TEXT, count INTEGER, first REAL, last REAL,
  PRIMARY KEY (stage, id));
PRAGMA user_version = 2;
"""
SECONDS = {"watcher": 0.0, "motion-corrector": 2.0, "ctf-estimator": 0.5, "lowpass-picker": 1.5, "extractor": 0.3,
           "classifier": 0.1, "refiner": 0.1}
BOUNDS = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000]


class Session:
    """A session of `exposures` exposures, one every `interval` seconds up to `end` (now, for one that runs).

    Every 17th exposure is rejected by the picker's rule, every 23rd fails in the ctf-estimator. `pictures`: how many
    exposures have files beside their records (all). `without`: stages that the graph lacks. `special`: names with
    markup, quotes, UTF-8 and 255 bytes are among the others. `in_flight`: so many of the last exposures stay where
    they are, each at another stage. `display`: items name the small pictures and data that the page shows."""

    def __init__(self, folder, exposures=40, running=False, pictures=None, without=(), special=True, end=None,
                 interval=6.0, iterations=6, in_flight=0, seed=1, display=True, noise_from=None, unresolved=None):
        self.folder, self.running = os.path.abspath(folder), running
        self.stages = [stage for stage in STAGES if stage not in without]
        self.pictures = exposures if pictures is None else pictures
        self.special, self.interval, self.count, self.display = special, interval, 0, display
        self.unresolved = unresolved  # why the last iterations have no resolution, from the fourth on
        self.noise_from = noise_from  # the iteration from which the refiner says that its images are noise
        self.random, self.numbers = random.Random(seed), numpy.random.default_rng(seed)
        self.end = end or (time.time() if running else 1795300000.0)
        self.begin = self.end - interval * exposures - 20
        self.holder, self.ledgers, self.iteration, self.particles = None, {}, 0, 0
        os.makedirs(self.path("log"))
        os.makedirs(self.path("ledger"))
        for stage in self.stages:
            os.makedirs(self.path(stage))
            self.ledgers[stage] = self.ledger(stage)
        self.data = self.folder + ".data"
        self.micrographs = synthetic.Micrographs(os.path.join(self.data, "micrographs"), 4, self.numbers)
        self.write_graph()
        self.write_plan(self.hold() if running else os.getpid())
        self.log("icestream", self.begin, "INFO start run 1, process 1")
        for stage in self.stages:
            self.log(stage + ".0", self.begin, "INFO start run 1, process 1, 3 lanes, 1 threads")
        self.add(exposures - in_flight)
        for place in range(in_flight):
            self.add(1, stop=1 + place % (len(self.stages) - 2))
        for _ in range(iterations):
            self.iterate()
        if not running:
            self.finish()
        self.heartbeats()

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    # ---- what the launcher writes ----

    def hold(self):
        """Starts a process that holds the launcher's lock as long as this one lives; returns its number."""
        self.holder = subprocess.Popen([sys.executable, "-c", HOLDER, self.path("log", "lock")], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"held\n"
        return self.holder.pid

    def release(self):
        """Ends the process that holds the lock, as if the launcher had died."""
        if self.holder:
            self.holder.stdin.close()
            self.holder.stdout.close()
            self.holder.wait()
            self.holder = None

    def write_graph(self):
        keys = {"watcher": ["directory: \"%s\"" % os.path.join(self.data, "movies"), "frames: 8", "movies: true"],
                "motion-corrector": ["dose_per_frame: 1.5"], "ctf-estimator": [],
                "lowpass-picker": ["diameter: 150", "reject_if: \"rlnCtfMaxResolution > 10\""],
                "extractor": ["box: 96", "downscale_to: 64"], "classifier": ["classes: 16", "diameter: 170"],
                "refiner": ["reference: \"%s\"" % os.path.join(self.data, "reference.mrc"), "diameter: 170"]}
        os.makedirs(os.path.join(self.data, "movies"), exist_ok=True)
        lines = ["# The graph of this session, resolved.", "icestream:", "  version: \"0.1.0\"", "  programs:"]
        lines += ["    %s: \"0.1.0\"" % stage for stage in self.stages]
        lines += ["session:", "  pixel_size: 2.5", "  voltage: 300", "  spherical_aberration: 2.7",
                  "  amplitude_contrast: 0.1", "stages:"]
        for i, stage in enumerate(self.stages):
            lines.append("  %s:" % stage)
            lines += (["    from: \"%s\"" % self.stages[i - 1]] if i else []) + ["    " + key for key in keys[stage]]
        with open(self.path("graph.yaml"), "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")

    def write_plan(self, pid):
        stages = [{"name": stage, "program": "/nowhere/icestream-" + stage, "kind": stage,
                   "from": [self.stages[i - 1]] if i else [], "instances": [stage + ".0"],
                   "cumulative": stage in ("watcher", "classifier", "refiner"), "revisions": True}
                  for i, stage in enumerate(self.stages)]
        self.write_whole("log/plan.json", {"v": 1, "id": ID, "run": 1, "pid": pid, "separate": False, "stages": stages})
        for stage in self.stages:
            self.write_whole("log/%s.0.instance.json" % stage, {"v": 1, "name": stage, "instance": 0, "device": "cpu"})

    def write_whole(self, name, value):
        path = self.path(name)
        with open(path + ".tmp", "w", encoding="utf-8") as out:
            json.dump(value, out)
        os.rename(path + ".tmp", path)

    def append(self, name, text):
        with open(self.path(name), "a", encoding="utf-8") as out:
            out.write(text + "\n")

    def log(self, instance, when, text):
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(when)) + ".%03d" % (when % 1 * 1000)
        self.append("log/%s.log" % instance, "%s %s %s" % (stamp, instance, text))

    # ---- what stages write ----

    def ledger(self, stage):
        ledger = sqlite3.connect(self.path("ledger", stage + ".sqlite"), isolation_level=None)
        ledger.execute("PRAGMA journal_mode = WAL")
        ledger.execute("PRAGMA synchronous = OFF")
        ledger.executescript(SCHEMA)
        ledger.executemany("INSERT INTO about VALUES (?, ?)", [("stage", stage), ("session", ID)])
        return ledger

    def name(self, i):
        if self.special and i in SPECIAL:
            return SPECIAL[i]
        square, hole = 1000 + i // 25, 20000 + i // 2
        return "Images-Disc1/GridSquare_%d/Data/FoilHole_%d_Data_%d_%d_20261122_%02d%02d%02d_Fractions" % (
            square, hole, 30000 + i, i % 7, i // 3600 % 24, i // 60 % 60, i % 60)

    def stage(self, i):
        """Returns where the stage was (µm): squares on a grid of 90 µm, holes on one of 2.5 µm. Square 1002 lacks it."""
        square, hole = i // 25, i // 2 % 13
        if square == 2 or self.special and i in SPECIAL:
            return {}
        return {"stage_x": 90.0 * (square % 6) + 2.5 * (hole % 4), "stage_y": -90.0 * (square // 6) - 2.5 * (hole // 4)}

    def columns(self, i):
        wave = numpy.sin(i / 40.0)
        defocus = 14000 + 6000 * wave + self.random.gauss(0, 500)
        resolution = 12.5 if i % 17 == 16 else 3.4 + abs(self.random.gauss(0, 0.6))
        motion = {"Total": 8 + abs(self.random.gauss(0, 4)), "Early": 3.0, "Late": 5.0}  # Å; RELION's are in pixels
        return {"motion-corrector": {**{"rlnAccumMotion" + part: value / 2.5 for part, value in motion.items()},
                                     **{"icestreamMotion" + part: value for part, value in motion.items()},
                                     "icestreamGainResidualSd": 0.01},
                "ctf-estimator": {"rlnDefocusU": defocus, "rlnDefocusV": defocus - 150 - 50 * wave,
                                  "rlnDefocusAngle": 30.0, "rlnCtfAstigmatism": 150 + 50 * wave,
                                  "rlnCtfFigureOfMerit": 0.2, "rlnCtfMaxResolution": resolution,
                                  "rlnCtfIceRingDensity": abs(self.random.gauss(0.3, 0.1))},
                "lowpass-picker": {"icestreamPickCount": 30 + i % 20, "icestreamPickThreshold": 0.35}}

    def outcome(self, i, stage):
        if stage == "ctf-estimator" and i % 23 == 22:
            return FAILED, "%s.mrc: the spectrum has no rings to fit" % self.name(i)
        if stage == "lowpass-picker" and i % 17 == 16 and "ctf-estimator" in self.stages:
            return REJECTED, "rlnCtfMaxResolution 12.5 > 10 (reject_if)"
        return DONE, None

    def files_of(self, i, stage, item):
        """Adds a stage's members to the item, and puts the files there."""
        put = i < self.pictures
        stem = self.name(i) if len(self.name(i)) < 200 else "n" * 100 + "_%d" % i
        base = "%s/%s" % (stage, stem)
        if put:
            os.makedirs(os.path.dirname(self.path(base)), exist_ok=True)

        def file(suffix, of=None):
            if put:
                self.micrographs.link(i, of or suffix, self.path(base + suffix))
            return base + suffix

        display = item.setdefault("display", {}) if self.display else {}
        size = self.micrographs.SIZE
        if stage == "motion-corrector":
            item["micrograph"] = {"path": file(".mrc"), "nx": size, "ny": size}
            display["motion"] = file("_motion.json")
        if stage in ("motion-corrector", "ctf-estimator") and "thumb" not in display:
            display["thumb"] = file("_thumb.jpg")
        if stage == "ctf-estimator":
            display.update(spectrum=file("_spectrum.png"), ctf=file("_ctf.json"))
        if stage == "lowpass-picker":
            item["picks"] = {"star": file("_autopick.star"), "count": 30 + i % 20, "diameter": 150}
        if stage == "extractor":
            item["particles"] = {"count": 30 + i % 20, "box": 64, "stack": base + ".mrcs", "star": base + "_extract.star"}

    def add(self, count, stop=None):
        """Adds exposures. With `stop` they are in flight at the stage of this place."""
        items = {stage: [] for stage in self.stages}
        sent = {stage: [] for stage in self.stages}
        line = [stage for stage in self.stages if stage != "refiner"]
        for i in range(self.count, self.count + count):
            when = self.begin + self.interval * i
            self.exposure(i, line, when if when < self.end or not self.running else time.time(), items, sent, stop)
        for stage in line:
            ledger = self.ledgers[stage]
            ledger.execute("BEGIN")
            ledger.executemany("INSERT INTO items (source, id, state, reason, attempts, crashes, instance, token, item,"
                               " time_seen, time_changed) VALUES ('watcher', ?, ?, ?, 1, 0, ?, ?, ?, ?, ?)", items[stage])
            ledger.executemany("INSERT INTO outbox (edge, source, id, item, time_sent, acknowledged, verdict)"
                               " VALUES (?, 'watcher', ?, ?, ?, ?, ?)", sent[stage])
            ledger.execute("COMMIT")
        self.count += count

    def exposure(self, i, line, when, items, sent, stop):
        name, columns = self.name(i), self.columns(i)
        path = os.path.join(self.data, "movies", name + ".tif")
        item = {"v": 1, "id": name, "kind": "movie", "time": when, "source": "watcher",
                "movie": {"path": path, "nx": 512, "ny": 512, "frames": 8, **self.stage(i)},
                "optics": {"group": "opticsGroup1", "pixel_size": 2.5, "voltage": 300, "spherical_aberration": 2.7,
                           "amplitude_contrast": 0.1}}
        if "motion-corrector" not in line:
            item["kind"] = "micrograph"
            item["micrograph"] = {"path": self.raw(i), "nx": 512, "ny": 512}
        for place, stage in enumerate(line):
            state, reason = (IN_FLIGHT, None) if place == stop else self.outcome(i, stage)
            if state == DONE:
                item.setdefault("columns", {}).update(columns.get(stage, {}))
                self.files_of(i, stage, item)
            text = json.dumps(item)
            seen, when = when, when + SECONDS[stage]
            source = stage == "watcher"
            items[stage].append((name, state, reason, -2 if source else 0, None if source else "t", text, seen, when))
            if state == IN_FLIGHT:
                return
            if place:
                self.acknowledge(sent[line[place - 1]], name, when, state)
            if state in (REJECTED, FAILED):
                level, word = ("WARN", "rejected") if state == REJECTED else ("ERROR", "failed")
                self.log(stage + ".0", when, "%s %s %s: %s" % (level, word, name, reason))
                return
            if stage == "lowpass-picker" and i < self.pictures:
                self.log(stage + ".0", when, "INFO picked %s: %d picks at threshold 0.35" % (name, 30 + i % 20))
            if stage == "extractor":
                self.particles += 30 + i % 20
            if place + 1 < len(line):
                edge = "%s.0>%s" % (stage, line[place + 1])
                sent[stage].append((edge, name, text, when, None, None))

    def raw(self, i):
        """Puts a micrograph where the watcher finds it."""
        path = os.path.join(self.data, "movies", "%d.mrc" % i)
        if i < self.pictures:
            self.micrographs.link(i, ".mrc", path)
        return path

    @staticmethod
    def acknowledge(parcels, name, when, state):
        edge, sent_name, _, time_sent, _, _ = parcels[-1]
        assert sent_name == name
        parcels[-1] = (edge, name, "{}", time_sent, when, ["", "done", "rejected", "failed"][state])

    def set_state(self, stage, i, state, reason=None):
        """Changes the state of an exposure in the ledger of one stage, as a retry or a later failure does."""
        self.ledgers[stage].execute("UPDATE items SET state = ?, reason = ?, attempts = attempts + 1, time_changed = ?"
                                    " WHERE source = 'watcher' AND id = ?", (state, reason, time.time(), self.name(i)))

    def iterate(self):
        """Makes one more snapshot of the classes and one more iteration of the map."""
        self.iteration += 1
        now = time.time() if self.running else self.end - 60 + self.iteration
        n = self.iteration
        particles = max(100, self.particles * min(n, 6) // 6)
        if "classifier" in self.stages:
            kept, classes = synthetic.class_files(self.path("classifier"), n, 16, particles, self.numbers)
            star = "classifier/selected_it%03d.star" % n
            synthetic.star(self.path(star), [("particles", ["rlnImageName"], [])])
            self.append("classifier/history.jsonl", json.dumps(
                {"time": now, "event": "classes", "iteration": n, "particles": particles, "kept": kept, "classes": 16,
                 "kept_classes": classes, "resolution": 14.0, "kept_resolution": 15.0 + 1 / n, "final": False,
                 "files": ["classifier/run_it%03d_classes.mrcs" % n, "classifier/run_it%03d_model.star" % n, star]}))
            if "refiner" in self.stages:
                self.select(n, kept, star, now)
        if "refiner" in self.stages:
            resolution, noise = 9 + 16 / n, self.is_noise()
            why = {"unresolved": "noise" if noise else self.unresolved} if self.has_none() else {}
            synthetic.map_files(self.path("refiner"), n, resolution, self.numbers)
            self.append("refiner/history.jsonl", json.dumps(
                {"time": now, "event": "map", "iteration": n, "particles": particles,
                 "resolution": None if why else resolution, "noise": noise, **why, "seconds": 3.0,
                 "order": 3, "size": 64, "accuracy": 3.6, "pmax": 0.3, "final": False,
                 "files": ["refiner/run_it%03d_class001.mrc" % n]}))

    def has_none(self):
        return self.is_noise() or (self.unresolved is not None and self.iteration >= 4)

    def is_noise(self):
        return self.noise_from is not None and self.iteration >= self.noise_from

    def select(self, n, count, star, now):
        name = "it%03d" % n
        text = json.dumps({"v": 1, "id": name, "kind": "selection", "time": now, "source": "classifier",
                           "selection": {"star": star, "count": count, "iteration": n}})
        self.ledgers["classifier"].execute(
            "INSERT INTO outbox (edge, source, id, item, time_sent, acknowledged, verdict)"
            " VALUES ('classifier.0>refiner', 'classifier', ?, ?, ?, ?, 'done')", (name, text, now, now + 0.1))
        self.ledgers["refiner"].execute(
            "INSERT INTO items (source, id, state, attempts, crashes, instance, token, item, time_seen, time_changed)"
            " VALUES ('classifier', ?, 1, 1, 0, 0, 't', ?, ?, ?)", (name, text, now, now + 0.1))

    def finish(self):
        """Records the end of the stream in every ledger."""
        for i, stage in enumerate(self.stages):
            if i:
                self.ledgers[stage].execute("INSERT INTO ends VALUES (?, 1)", ("%s.0>%s" % (self.stages[i - 1], stage),))
            self.ledgers[stage].execute("INSERT INTO ends VALUES ('out 0', 1)")
        self.log("icestream", self.end, "INFO end all stages have ended")

    def heartbeats(self):
        """Writes the heartbeat of every stage anew."""
        for stage in self.stages:
            counts = dict(self.ledgers[stage].execute("SELECT state, COUNT(*) FROM items GROUP BY state"))
            done, rejected, failed = (counts.get(state, 0) for state in (DONE, REJECTED, FAILED))
            total = done + rejected + failed
            seconds = SECONDS.get(stage, 1.0)
            wall = max(1.0, self.end - self.begin)
            part = {"threads": 1, "busy": total * seconds / 4, "waiting": max(0.0, wall - total * seconds / 4)}
            beat = {"time": time.time() if self.running else self.end, "pid": 1, "state": "waiting", "item": "", "in": total,
                    "out": done, "rejected": rejected, "failed": failed, "dropped": 0, "warnings": 0, "bytes": total << 20,
                    "latency": seconds, "queue": 0, "note": "", "change": 0,
                    "parts": {"wall": wall, "setup": 0.0, "slowest": "process", "load": part, "process": part,
                              "store": part, "ledger": part},
                    "outcomes": {"done": done, "rejected": rejected, "failed": failed}, "resident": 100 << 20}
            if stage != "watcher":
                beat["latencies"] = {"le": BOUNDS, "counts": [total if seconds <= bound else 0 for bound in BOUNDS] + [total],
                                     "sum": total * seconds}
            if stage == "refiner" and self.iteration:
                beat.update(note="iteration %d" % self.iteration)
                if not self.has_none():
                    beat["resolution"] = 9 + 16 / self.iteration
            self.write_whole("log/%s.0.heartbeat.json" % stage, beat)

    def close(self):
        self.release()
        for ledger in self.ledgers.values():
            ledger.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--exposures", type=int, default=40)
    parser.add_argument("--pictures", type=int, help="exposures with files (all)")
    parser.add_argument("--without", default="", help="stages that the graph lacks, with commas")
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--in-flight", type=int, default=0, help="exposures that stay on their way")
    parser.add_argument("--running", action="store_true")
    parser.add_argument("--live", type=float, default=0, help="exposures a second, until the input ends")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    session = Session(given.folder, given.exposures, given.running or given.live > 0, given.pictures,
                      [stage for stage in given.without.split(",") if stage], iterations=given.iterations,
                      in_flight=given.in_flight, seed=given.seed)
    print("made", flush=True)
    while given.live > 0:
        time.sleep(1 / given.live)
        session.add(1)
        session.heartbeats()
    if given.running:
        sys.stdin.read()
    session.close()


if __name__ == "__main__":
    main()
