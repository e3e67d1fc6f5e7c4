#!/usr/bin/env python3
"""report.py CASE: what `icestream report` writes.

  whole      the page is readable without a script, complete, small and escaped; its numbers are those of status, and
             what lies beside it has the same ones
  again      an unchanged session that has ended gives the same bytes but for the time made, also from a copy that
             nobody can write to, and from a session without maps, and without exposures
  anonymous  no path, host or user is in it
  kept       the page's server writes it when a session ends
  pdf        Chromium prints it, and --pdf says so where there is none"""
import csv
import getpass
import html.parser
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import make_session
import serve_client

BIN = os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(__file__), "../../build/cpu/bin"))
SCRATCH = tempfile.mkdtemp(prefix="icestream-report-test-")
VOID = {"meta", "img", "br", "tr", "td", "th", "li", "path", "circle", "rect", "p", "html"}


def icestream(*arguments, expect=0, **more):
    done = subprocess.run([os.path.join(BIN, "icestream"), *arguments], capture_output=True, text=True, **more)
    assert done.returncode == expect, (arguments, done.returncode, done.stderr)
    return done


def read(path):
    with open(path, encoding="utf-8", newline="") as text:
        return text.read()


class Page(html.parser.HTMLParser):
    """Collects the text of a page, its tables and its tags, and checks that elements end in their order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.cells, self.tables, self.text, self.sources = set(), [], None, [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        values = dict(attributes)
        self.sources += [values[key] for key in ("src", "href") if key in values]
        assert not any(key.startswith("on") for key in values), attributes
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open and self.open[-1] == tag, (tag, self.open)
            self.open.pop()

    def handle_data(self, data):
        self.text.append(data)
        if "table" in self.open and self.tables[-1] and self.tables[-1][-1]:
            self.tables[-1][-1][-1] += data.strip()


def made_session(name, exposures=60, **more):
    session = make_session.Session(os.path.join(SCRATCH, name), exposures, **more)
    session.close()
    return session.folder


def whole():
    folder = made_session("whole", 120)
    out = icestream("report", "--session", folder).stdout
    assert out == folder + "/report/report.html\n", out
    text = read(folder + "/report/report.html")
    page = Page(text)
    assert len(text.encode()) <= 10_000_000, len(text)
    assert "script" not in page.tags and "<script" not in text
    assert all(source.startswith("data:image/") for source in page.sources), page.sources
    assert "svg" in page.tags and "img" in page.tags
    for section in ("summary", "losses", "quality", "squares", "classes", "map", "throughput", "incidents", "parameters",
                    "versions", "methods", "table1"):
        assert "<h2 id=%s>" % section in text, section
    # The numbers are those of `status`, on the page and beside it.
    status = json.loads(icestream("status", "--session", folder, "--json").stdout)
    data = json.loads(read(folder + "/report/report.json"))
    stages = {row[0]: [int(cell) for cell in row[1:]] for row in page.tables[0][1:]}
    for name, counts in status["stages"].items():
        expected = [counts[key] for key in ("seen", "done", "rejected", "failed", "in_flight")]
        assert stages[name] == expected, (name, stages[name], expected)
    assert [s["stage"] for s in data["stages"]] == list(status["stages"])
    assert data["adds_up"] is status["adds_up"] is True
    # What was lost and why: the table sums to what was seen.
    losses = page.tables[1][1:]
    assert sum(int(row[3]) for row in losses[:-1]) == int(losses[-1][3]) == 120, losses
    assert any("rlnCtfMaxResolution" in row[2] and row[0] == "rejected" for row in losses), losses
    assert any("the spectrum has no rings to fit" in row[2] and row[0] == "failed" for row in losses), losses
    assert sum(loss["count"] for loss in data["losses"]) == data["exposures"]["rejected"] + data["exposures"]["failed"]
    rows = list(csv.DictReader(read(folder + "/report/exposures.csv").splitlines()))
    assert len(rows) == 120 and rows[3]["name"] == "a<script>alert(1)</script>"
    assert sum(row["state"] == "done" for row in rows) == data["exposures"]["done"]
    assert rows[0]["square"] == "1000" and float(rows[0]["rlnDefocusU"]) > 0
    # The methods paragraph has the numbers, and names what it cites; table 1 marks what is not known.
    assert "120 movies" in data["methods"] and "300 kV" in data["methods"] and "[2]" in data["methods"]
    assert "%d particles were refined" % data["map"]["particles"] in data["methods"]
    table = {row["label"]: row["value"] for row in data["table1"]}
    assert table["Voltage (kV)"] == 300 and table["Microscope"] is None and "to be filled in" in text
    assert table["Electron exposure (e⁻/Å²)"] == 12
    differ = {(p["stage"], p["key"]): p["differs"] for p in data["parameters"]}
    assert differ[("extractor", "box")] is True and differ[("session", "voltage")] is None, differ
    assert data["versions"]["icestream"] == "0.1.0"
    curve = xml.etree.ElementTree.parse(folder + "/report/fsc.xml").getroot()
    assert curve.tag == "fsc" and len(curve) > 5
    # In another place; a name that is no page is refused.
    icestream("report", "--session", folder, "--o", os.path.join(SCRATCH, "x/there.html"))
    assert os.path.exists(os.path.join(SCRATCH, "x/report.json"))
    wrong = icestream("report", "--session", folder, "--o", "there.pdf", expect=2)
    assert ".html" in wrong.stderr
    assert "is not a session" in icestream("report", "--session", SCRATCH, expect=2).stderr


def without_time(text):
    text, page = re.subn(r"Made <time>[^<]*</time>", "", text)
    text, data = re.subn(r'"made": "[^"]*"', "", text)
    assert page + data == 1
    return text


def again():
    folder = made_session("again")
    first = os.path.join(SCRATCH, "first/report.html")
    icestream("report", "--session", folder, "--o", first)
    copy = os.path.join(SCRATCH, "copy/again")
    shutil.copytree(folder, copy)
    subprocess.run(["chmod", "-R", "a-w", copy], check=True)
    second = os.path.join(SCRATCH, "second/report.html")
    icestream("report", "--session", copy, "--o", second)
    subprocess.run(["chmod", "-R", "u+w", copy], check=True)
    for name in sorted(os.listdir(os.path.dirname(first))):
        one, two = read(os.path.join(os.path.dirname(first), name)), read(os.path.join(os.path.dirname(second), name))
        two = two.replace(copy, folder)
        if name in ("report.html", "report.json"):
            one, two = without_time(one), without_time(two)
        assert one == two, name
    for name, more in (("bare", {"without": ["classifier", "refiner"]}), ("none", {"exposures": 0, "iterations": 0}),
                       ("raw", {"without": ["motion-corrector", "ctf-estimator"], "pictures": 0})):
        folder = made_session(name, **more)
        icestream("report", "--session", folder)
        text = read(folder + "/report/report.html")
        Page(text)
        assert ("<h2 id=map>" in text) == (name == "raw"), name


def anonymous():
    folder = made_session("secret-place")
    os.makedirs(folder + "/changes")
    with open(folder + "/changes/0001.json", "w") as out:
        json.dump({"v": 1, "number": 1, "time": 1795300000.0, "user": "ada-of-icestream", "host": "scope-of-icestream",
                   "by": "set", "whole": False,
                   "changes": [{"stage": "extractor", "key": "box", "old": 96, "new": 98, "changes": "live"}]}, out)
    icestream("report", "--session", folder)
    assert "secret-place" in read(folder + "/report/report.html")
    told = read(folder + "/report/report.json")
    assert '"box = 98"' in told
    page = os.path.join(SCRATCH, "anonymous/report.html")
    icestream("report", "--session", folder, "--o", page, "--anonymous")
    for name in os.listdir(os.path.dirname(page)):
        text = read(os.path.join(os.path.dirname(page), name))
        for secret in ("secret-place", SCRATCH, "ada-of-icestream", "scope-of-icestream", "/nowhere", "/tmp/"):
            assert secret not in text, (name, secret)
        # Names of one or two letters occur in any picture.
        for secret in (socket.gethostname(), getpass.getuser()):
            assert len(secret) < 8 or secret not in text, (name, secret)
    assert not os.path.exists(os.path.join(os.path.dirname(page), "selected.star"))


def kept():
    session = make_session.Session(os.path.join(SCRATCH, "kept"), 20, running=True)
    server = serve_client.Server(session.folder)
    page = session.folder + "/web/report.html"
    try:
        serve_client.wait_for(lambda: server.get("/api/status").json()["running"], "the page knows of the run")
        session.close()
        serve_client.wait_for(lambda: os.path.exists(page), "the report of the end")
        Page(read(page))
        serve_client.wait_for(lambda: os.path.exists(session.folder + "/web/exposures.csv"), "what lies beside it")
    finally:
        server.close()
        session.close()


def pdf():
    folder = made_session("pdf", 20)
    nothing = os.path.join(SCRATCH, "no-programs")
    os.makedirs(nothing)
    wrong = icestream("report", "--session", folder, "--pdf", expect=2, env={**os.environ, "PATH": nothing})
    assert "needs Chromium" in wrong.stderr and os.path.exists(folder + "/report/report.html")
    if not any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")):
        print("chromium is not installed: the PDF itself was not tested")
        return 77
    out = icestream("report", "--session", folder, "--pdf").stdout
    assert out.endswith("/report/report.pdf\n"), out
    with open(folder + "/report/report.pdf", "rb") as text:
        assert text.read(5) == b"%PDF-"
    return 0


try:
    result = {"whole": whole, "again": again, "anonymous": anonymous, "kept": kept, "pdf": pdf}[sys.argv[1]]()
finally:
    shutil.rmtree(SCRATCH, ignore_errors=True)
sys.exit(result or 0)
