#!/usr/bin/env python3
"""same_numbers.py SESSION…: checks that every way to see a session shows the same counts: `status --json`, the page's
/api/status, /metrics in its file, and the report with what lies beside it. The fault tests call same_numbers(session)
when the session is at rest."""
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import serve_client  # noqa: E402

KEYS = ("seen", "done", "rejected", "failed", "in_flight")
ICESTREAM = os.path.join(serve_client.BIN, "icestream")


def ask(*words):
    done = subprocess.run([ICESTREAM, *words], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return done.stdout


def counts(stages):
    return {name: {key: stage[key] for key in KEYS} for name, stage in stages.items() if not stage.get("left_out")}


def from_metrics(text):
    found = {}
    for line in text.splitlines():
        match = re.match(r'icestream_items\{.*stage="([^"]*)",state="([^"]*)"\} (\d+)$', line)
        if match:
            found.setdefault(match[1], {})[match[2]] = int(match[3])
    return {name: {**states, "seen": sum(states.values())} for name, states in found.items()}


def from_page(page):
    """Reads the table of stages in the report's page."""
    table = re.search(r"<table id=stages>(.*?)</table>", page, re.S)[1]
    rows = [re.findall(r"<td[^>]*>([^<\n]*)", row) for row in table.split("<tr>")[2:]]
    return {row[0]: dict(zip(KEYS, map(int, row[1:]))) for row in rows if "(left out)" not in row[0]}


def compare(what, found, expected):
    assert found == expected, "%s differs from status: %s, not %s" % (what, found, expected)


def same_numbers(session):
    place = tempfile.mkdtemp(prefix="icestream-same-numbers-")
    try:
        status = json.loads(ask("status", "--session", session, "--json"))
        expected = counts(status["stages"])
        assert expected, "status shows no stages"
        ask("metrics", "--session", session, "--o", os.path.join(place, "m.prom"))
        with open(os.path.join(place, "m.prom"), encoding="utf-8") as text:
            metrics = text.read()
        compare("the metrics", from_metrics(metrics), expected)
        assert ("icestream_reconciled" in metrics) and (re.search(r"icestream_reconciled\S* (\d)", metrics)[1] == "1") \
            == status["adds_up"], "the metrics and status disagree on whether the counts add up"
        ask("report", "--session", session, "--o", os.path.join(place, "report.html"))
        with open(os.path.join(place, "report.json"), encoding="utf-8") as text:
            report = json.load(text)
        compare("report.json", counts({stage["stage"]: stage for stage in report["stages"]}), expected)
        assert report["adds_up"] == status["adds_up"]
        with open(os.path.join(place, "report.html"), encoding="utf-8") as text:
            compare("the report", from_page(text.read()), expected)
        with open(os.path.join(place, "exposures.csv"), encoding="utf-8", newline="") as text:
            states = [row["state"] for row in csv.DictReader(text)]
        exposures = report["exposures"]
        compare("exposures.csv", {name: states.count(name.replace("_", " ")) + states.count(name) * ("_" in name)
                                  for name in KEYS[1:]}, {name: exposures[name] for name in KEYS[1:]})
        assert exposures["seen"] == len(states) == sum(exposures[name] for name in KEYS[1:])
        lost = sum(loss["count"] for loss in report["losses"])
        assert lost == exposures["rejected"] + exposures["failed"], "the table of reasons sums to %d" % lost
        if "without libmicrohttpd" in subprocess.run([ICESTREAM, "serve", "--session", "/nowhere"], capture_output=True,
                                                     text=True).stderr:
            return
        server = serve_client.Server(session)
        try:
            compare("the page", counts(server.ask("/api/status")["stages"]), expected)
            compare("/metrics", from_metrics(server.get("/metrics").body.decode()), expected)
        finally:
            server.close()
            shutil.rmtree(server.place, ignore_errors=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        same_numbers(folder)
