"""Makes synthetic sessions of tilt series, of drops and of ensembles, as make_session.py makes those of single
particles. Few items, few files."""
import json
import os

import numpy

import make_session
import synthetic

OUTCOMES = ["clear", "crystals", "precipitate", "phase separation"]


class Other(make_session.Session):
    """A session of a watcher and one more stage, all of whose items are done."""

    def __init__(self, folder, stage, kind, names, ending, cumulative=True):
        self.folder, self.running, self.stages = os.path.abspath(folder), False, ["watcher", stage]
        self.data, self.begin, self.end = self.folder + ".data", 1795300000.0, 1795300600.0
        self.holder, self.ledgers, self.iteration, self.count = None, {}, 0, len(names)
        self.numbers = numpy.random.default_rng(3)
        self.kind, self.cumulative = stage, cumulative
        for name in ("log", "ledger", "watcher", stage):
            os.makedirs(self.path(name))
        os.makedirs(os.path.join(self.data, "images"))
        for name in self.stages:
            self.ledgers[name] = self.ledger(name)
        self.write_graph()
        self.write_plan(1)
        self.log("icestream", self.begin, "INFO start run 1, process 1")
        edge, when = "watcher.0>" + stage, self.begin
        for i, name in enumerate(names):
            item = {"v": 1, "id": name, "kind": kind, "time": when + i, "source": "watcher",
                    "micrograph": {"path": os.path.join(self.data, "images", name + ending), "nx": 64, "ny": 64}}
            for at in self.stages:
                if at == stage:
                    self.more(i, item)
                self.ledgers[at].execute(
                    "INSERT INTO items (source, id, state, attempts, crashes, instance, token, item, time_seen,"
                    " time_changed) VALUES ('watcher', ?, 1, 1, 0, ?, ?, ?, ?, ?)",
                    (name, 0 if at == stage else -2, "t" if at == stage else None, json.dumps(item), when + i, when + i + 1))
            self.ledgers["watcher"].execute(
                "INSERT INTO outbox (edge, source, id, item, time_sent, acknowledged, verdict)"
                " VALUES (?, 'watcher', ?, '{}', ?, ?, 'done')", (edge, name, when + i, when + i + 1))
        self.finish()
        self.heartbeats()

    def more(self, i, item):
        """Adds what the stage adds to an item."""

    def write_graph(self):
        lines = ["icestream:", "  version: \"0.1.0\"", "stages:", "  watcher:",
                 "    directory: \"%s\"" % os.path.join(self.data, "images"), "  %s:" % self.kind, "    from: \"watcher\"",
                 *["    " + key for key in self.keys()]]
        with open(self.path("graph.yaml"), "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")

    def keys(self):
        return []


class Tomograms(Other):
    """Two series of 5 tilts: of one the tomogram and a preview, of the other a preview alone."""

    def __init__(self, folder):
        super().__init__(folder, "tilt-reconstructor", "micrograph", ["TS_%d_%02d" % (s, k) for s in (1, 2) for k in range(5)],
                         ".mrc")
        self.volume = self.numbers.normal(0, 1, (12, 40, 48)).astype("<f4")
        self.volume[:, :8] -= 3
        self.volume[3] += numpy.linspace(-3, 3, 48).astype("<f4")
        synthetic.write_mrc(self.path("tilt-reconstructor", "TS_1.mrc"), self.volume, 8.0)
        synthetic.write_mrc(self.path("tilt-reconstructor", "TS_1_preview.mrc"), self.volume[:4], 16.0)
        synthetic.write_mrc(self.path("tilt-reconstructor", "TS_2_preview.mrc"), self.volume[:6], 16.0)

    def more(self, i, item):
        item["tilt"] = {"series": "TS_%d" % (1 + i // 5), "angle": 3.0 * i, "number": i % 5}


class Drops(Other):
    """Photographs of drops, one after the other clear, with crystals, and so on."""

    def __init__(self, folder, count=30):
        self.scores = [round((0.9 if i % 4 == 1 else 0.05) + i / 1000, 4) for i in range(count)]
        super().__init__(folder, "crystal-scorer", "micrograph", ["plate7/A%02d, drop \"1\"" % i for i in range(count)], ".jpg",
                         cumulative=False)
        folder = os.path.join(self.data, "images", "plate7")
        os.makedirs(folder)
        with open(self.path("crystal-scorer", "scores.csv"), "w", encoding="utf-8") as out:
            out.write("image,outcome," + ",".join(OUTCOMES) + "\n")
            for i in range(count - 1):  # the table lags one image behind
                path = os.path.join(folder, "A%02d, drop \"1\".jpg" % i).replace('"', '""')
                out.write('"%s",%s,0.25,0.25,0.25,0.25\n' % (path, OUTCOMES[i % 4]))

    def more(self, i, item):
        item["score"] = {"csv": "crystal-scorer/%d_score.csv" % i, "outcome": OUTCOMES[i % 4], "crystal": self.scores[i]}


class Ensemble(Other):
    """Structures in three clusters."""

    def __init__(self, folder, count=60):
        names = ["model, %03d" % i for i in range(count)]
        self.positions = numpy.array([(i % 3) * 10 + (i * 7 % 11) / 10 for i in range(count)])
        super().__init__(folder, "superposer", "structure", names, ".pdb")
        matrix = abs(self.positions[:, None] - self.positions[None, :]).astype("<f4")
        self.matrix = matrix
        numpy.save(self.path("superposer", "rmsd.npy"), matrix[numpy.triu_indices(count, 1)])
        with open(self.path("superposer", "structures.txt"), "w", encoding="utf-8") as out:
            out.write("".join(name + "\n" for name in names))
        with open(self.path("superposer", "clusters.csv"), "w", encoding="utf-8") as out:
            out.write("structure,cluster,is_centre\n")
            out.write("".join('"%s",%d,%d\n' % (name, 1 + i % 3, i in (3, 4, 5)) for i, name in enumerate(names)))

    def keys(self):
        return ["cutoff: 2.5"]
