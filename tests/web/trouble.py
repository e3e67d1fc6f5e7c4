#!/usr/bin/env python3
"""trouble.py CASE: a server whose session is in trouble.
  gone: somebody moves the session's folder away, then removes it. The server goes on, makes no new one, and ends when it
    is told to.
  torn: files are half written, or hold what they should not.
  held: somebody holds a ledger for himself. The server answers at once all the same, and shows the rest later.
  name: the folder's name is no UTF-8, as that of a copy may be."""
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

import make_session
from serve_client import BIN, Server, wait_for

SCRATCH = tempfile.mkdtemp(prefix="icestream-trouble-")


def time_of(server):
    return server.ask("/api/status")["time"]


def is_away(server):
    return b"cannot be read now" in server.get("/readyz").body


def gone():
    folder = os.path.join(SCRATCH, "gone")
    made = make_session.Session(folder, 12)
    first = Server(folder)
    second = Server(folder)  # the first one keeps the alarms
    rows = len(first.ask("/api/items")["n"])
    assert rows == 12 and len(second.ask("/api/items")["n"]) == rows
    made.close()
    os.rename(folder, folder + ".away")  # at one stroke: until then, the servers write into its web/
    for server in (first, second):
        wait_for(lambda: is_away(server), "the server notices that the session is gone")
    begin = time_of(second)
    wait_for(lambda: time_of(second) > begin + 3, "each server has looked for alarms since")
    for server in (first, second):
        assert len(server.ask("/api/items")["n"]) == rows
        for path in ["/api/session", "/api/alarms", "/api/grid", "/metrics", "/api/log", "/api/classes", "/api/map/latest",
                     "/api/item/1", "/pic/watcher/1/thumb.jpg"]:
            assert server.get(path).code in (200, 404, 503), path
    shutil.rmtree(folder + ".away")
    begin = time_of(second)
    wait_for(lambda: time_of(second) > begin + 3, "each server goes on")
    first.close()
    second.close()
    assert not os.path.exists(folder), os.listdir(folder)


def put(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
        out.write(text)


def torn():
    folder = os.path.join(SCRATCH, "torn")
    made = make_session.Session(folder, 12)
    with open(os.path.join(folder, "log/plan.json"), encoding="utf-8") as plan:
        whole = plan.read()
    server = Server(folder)
    assert server.ask("/api/session")["run"] == 1
    put(folder, "log/plan.json", whole[:len(whole) // 2])
    wait_for(lambda: is_away(server), "the server notices a half plan")
    assert len(server.ask("/api/items")["n"]) == 12
    other = json.loads(whole)
    other["run"] = 2
    other["stages"][1]["instances"] = [7, None]
    put(folder, "log/plan.json", json.dumps(other))
    server.refused("/api/log?instance=nobody", 404)
    assert server.ask("/api/session")["run"] == 1
    with open(os.path.join(folder, server.ask("/api/history/refiner")[-1]["files"][0]), "r+b") as volume:
        size = volume.seek(0, os.SEEK_END)
        volume.seek(1024)
        volume.write(b"\x00\x00\xc0\x7f" * ((size - 1024) // 4))
    assert "NaN" in server.refused("/api/map/latest", 501)
    # Nothing that lies beside the ledgers keeps the page from the rest.
    put(folder, "log/ctf-estimator.0.heartbeat.json", "{\"pid\": 1, \"ti")
    put(folder, "graph.yaml", "session: {\n\x01")
    os.makedirs(os.path.join(folder, "changes"), exist_ok=True)
    put(folder, "changes/0001.json", "{\"number\": 1, \"mar")
    put(folder, "refiner/history.jsonl", "{\"iteration\": 1, \"files\": [7, null, \"../../etc/passwd\"]}\nnull\n[]\n{\"it")
    put(folder, "web/alarms.jsonl", "{\"event\": \"fires\", \"alarm\": 7}\n\n{\"time\"\n")
    other["run"] = 3
    other["stages"][1]["instances"] = ["motion-corrector.0"]
    put(folder, "log/plan.json", json.dumps(other))
    wait_for(lambda: server.ask("/api/session")["run"] == 3, "the server takes the whole plan")
    for path in ["/api/status", "/api/items", "/api/item/1", "/api/alarms", "/api/grid", "/api/history/refiner"]:
        server.ask(path)
    for path in ["/api/fsc", "/api/map/latest", "/api/directions", "/api/classes?it=1", "/metrics", "/api/log"]:
        assert server.get(path).code in (200, 404), path
    server.close()
    made.close()


def held():
    folder = os.path.join(SCRATCH, "held")
    made = make_session.Session(folder, 6)
    made.close()
    ledger = sqlite3.connect(os.path.join(folder, "ledger/extractor.sqlite"), isolation_level=None)
    ledger.execute("PRAGMA locking_mode = EXCLUSIVE")
    ledger.execute("BEGIN EXCLUSIVE")
    server = Server(folder)
    wait_for(lambda: is_away(server), "the server cannot read a ledger")
    begin = time.monotonic()
    for _ in range(8):
        server.ask("/api/status")
    assert time.monotonic() - begin < 100, "a server that waits as stages do needs 20 s for each"
    ledger.execute("COMMIT")
    ledger.close()
    wait_for(lambda: len(server.ask("/api/items")["n"]) == 6 and not is_away(server), "the ledger is read again")
    server.close()


def name():
    plain, folder = os.path.join(SCRATCH, "plain"), os.path.join(SCRATCH, os.fsdecode(b"s\xe4ure"))
    made = make_session.Session(plain, 6)
    made.close()
    os.rename(plain, folder)
    server = Server(folder)
    assert server.ask("/api/session")["name"] == "s\ufffdure"
    assert server.ask("/api/status")["session"].endswith("/s\ufffdure")
    server.ask("/api/alarms")
    assert "s\ufffdure" in server.get("/metrics").body.decode("utf-8")
    server.close()
    told = subprocess.run([os.path.join(BIN, "icestream"), "report", "--session", folder, "--o",
                           os.path.join(SCRATCH, "r/report.html")], capture_output=True)
    assert told.returncode == 0, told.stderr
    with open(os.path.join(SCRATCH, "r/report.json"), encoding="utf-8") as report:
        assert json.load(report)["session"]["state"] == "finished"
    with open(os.path.join(SCRATCH, "r/report.html"), encoding="utf-8") as report:
        assert "ure" in report.read()


try:
    {"gone": gone, "torn": torn, "held": held, "name": name}[sys.argv[1]]()
finally:
    shutil.rmtree(SCRATCH, ignore_errors=True)
print("ok")
