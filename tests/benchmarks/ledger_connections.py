#!/usr/bin/env python3
"""Counts the connections to PostgreSQL of a session of five stages, one of which has 32 replicas. Runs beside
tests/common/private_postgresql.sh, with ICESTREAM_BIN of a build that has its tests."""

import collections
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../pipelines"))
from session import BIN, Work, launch, write  # noqa: E402

URL, TCP = os.environ["ICESTREAM_TEST_POSTGRESQL"], os.environ["ICESTREAM_TEST_POSTGRESQL_TCP"]
GRAPH = """\
programs: [SOURCE, STAGE]
session: {ledger: "LEDGER"}
stages:
  source: {program: SOURCE, count: 6000, meet: 32}
  wide: {from: source, program: STAGE, replicas: 32, meet: 32, work: 0.005}
  two: {from: wide, program: STAGE}
  three: {from: two, program: STAGE}
  four: {from: three, program: STAGE}
"""


def connections():
    """Returns the processes that have a connection, one for each."""
    query = "SELECT application_name FROM pg_stat_activity WHERE usename = 'secret'"
    names = subprocess.run(["psql", "-qAt", URL, "-c", query], capture_output=True, text=True).stdout.split("\n")
    return [name.split()[1] for name in names if name.startswith("icestream")]


with Work("connections") as work:
    text = GRAPH.replace("LEDGER", TCP)
    os.makedirs(work("bin"))
    for word, name in (("SOURCE", "null-source"), ("STAGE", "null-stage")):
        program = work("bin", f"icestream-{name}")  # by this name, it keeps its ledger where the session does
        shutil.copy(os.path.join(BIN, "../tests", name), program)
        text = text.replace(word, program)
    live = launch("run", write(work("graph.yaml"), text), "--session", work("session"))
    looks = []
    while live.poll() is None:
        found = connections()
        looks.append((len(found), found.count(str(live.pid))))
        time.sleep(0.1)
    counted = collections.Counter(all_of_them for all_of_them, _ in looks)
    print(f"exit {live.returncode}; {len(looks)} looks; at most {max(looks)[0]} connections (number: looks) {dict(counted)}")
    print(f"the launcher's own {dict(collections.Counter(own for _, own in looks))}")
