#!/usr/bin/env python3
"""same_run.py: a run without a page, and one whose page three readers follow, have the same ledgers and the same products.
tests/benchmarks/bench_serve_run.py measures what the page costs."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../benchmarks"))
import bench_serve_run as bench  # noqa: E402
import web  # noqa: E402


def main():
    with tempfile.TemporaryDirectory(prefix="icestream-same-") as folder:
        subprocess.run([os.path.join(web.BIN, "icestream-simulate"), "--o", folder + "/in", "--micrographs", "4", "--interval",
                        "0", "--seed", "5", "--size", "512"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        graph = folder + "/graph.yaml"
        with open(graph, "w", encoding="utf-8") as file:
            file.write(bench.GRAPH % (folder + "/in", folder + "/in"))
        made = []
        for readers in (0, 3):
            session = "%s/s%d" % (folder, readers)
            bench.once(graph, session, readers)
            made.append(bench.products(session))
        keys = set(made[0]) | set(made[1])
        differing = sorted(str(key) for key in keys if not bench.alike(made[0].get(key), made[1].get(key)))
        assert not differing, differing
        assert len(made[0]["extractor"]) == 4 and len(keys) > 12, sorted(map(str, keys))
    print("ok")


main()
sys.exit(0)
