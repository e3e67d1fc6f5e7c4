#!/usr/bin/env python3
"""report.py CASE: what `icestream report` writes.

  whole      the page is readable without a script, complete, small and escaped; its numbers are those of status, and
             what lies beside it has the same ones
  happened   it has alarms, restarts, changes, marks and the machine, in UTC
  large      it is at most 10 MB for 10,000 exposures
  selected   the selection beside it is RELION's, and obeys marks
  again      an unchanged session that has ended gives the same bytes but for the time made, also from a copy that
             nobody can write to, and from a session without maps, and without exposures
  anonymous  no path, host or user is in it
  kept       the page's server writes it when a session ends
  pdf        Chromium prints it, and shows it without script, and --pdf says so where there is none"""
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
    for section in ("summary", "losses", "quality", "squares", "classes", "map", "throughput", "machine", "incidents",
                    "parameters", "versions", "methods", "table1"):
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
    # The table of losses and their reasons sums to what was seen.
    losses = page.tables[2][1:]
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
    # The sheet of a facility: the session in a table, pictures of good and bad exposures, surfaces and slices.
    facts = {row["label"]: row["value"] for row in data["facts"]}
    assert facts["Voltage"] == "300 kV" and facts["Size"] == "512 × 512 px" and facts["Picks"] > 0, facts
    assert facts["CTF resolution: best, median, worst"].endswith(" Å") and facts["Classes kept"].endswith(" of 16")
    alts = re.findall(r'<img alt="([^"]*)"', text)
    assert [alt for alt in alts if alt.startswith("surface")] == ["surface, seen along " + axis for axis in "xyz"], alts
    assert sum(alt.startswith("slice") for alt in alts) == 3 and text.count("<figure class=example>") == 27 + 3, alts
    for title in ("Guinier", "Directions of view", "Resolution over particles", "Places of the exposures"):
        assert ('aria-label="%s' % title in text) == (title != "Guinier"), title  # no map was sharpened
    assert len(data["directions"]["counts"]) == 768 and 0 < data["directions"]["efficiency"] <= 1
    # In another place; a name that is no page is refused.
    icestream("report", "--session", folder, "--o", os.path.join(SCRATCH, "x/there.html"))
    assert os.path.exists(os.path.join(SCRATCH, "x/report.json"))
    wrong = icestream("report", "--session", folder, "--o", "there.pdf", expect=2)
    assert ".html" in wrong.stderr
    assert "is not a session" in icestream("report", "--session", SCRATCH, expect=2).stderr


def noise():
    """A map of noise has no resolution, in the report, beside it and in the methods."""
    folder = made_session("noise", 30, noise_from=6)
    icestream("report", "--session", folder)
    text, data = read(folder + "/report/report.html"), json.loads(read(folder + "/report/report.json"))
    assert data["map"]["noise"] is True and not data["map"].get("resolution"), data["map"]
    assert not data["map"].get("corrected_resolution") and not data["map"].get("b_factor"), data["map"]
    assert "noise, no resolution" in text and "<b>noise</b>map" in text
    assert "the map has no resolution" in data["methods"] and "Fourier shell correlation" not in data["methods"]
    assert not {"at_0.143", "at_0.5"} & set(data.get("fsc") or {}), data["fsc"].keys()


def unresolved():
    """A map whose halves agree no further than they share has no resolution either, and no number stands for it."""
    folder = made_session("unresolved", 30, unresolved="shared")
    icestream("report", "--session", folder)
    text, data = read(folder + "/report/report.html"), json.loads(read(folder + "/report/report.json"))
    assert data["map"]["unresolved"] == "shared" and not data["map"].get("resolution"), data["map"]
    assert not data["map"].get("corrected_resolution") and not data["map"].get("b_factor"), data["map"]
    assert "no resolution (the halves agree no further" in text and "<b>no resolution</b>map" in text
    assert "it has no resolution" in data["methods"] and "Fourier shell correlation" not in data["methods"]
    assert not {"at_0.143", "at_0.5"} & set(data.get("fsc") or {}), data["fsc"].keys()


def happened():
    """The report tells of alarms as serve writes them, of processes that were started again, changes, marks, the machine."""
    folder = made_session("happened", 40)
    os.makedirs(folder + "/changes")
    os.makedirs(folder + "/web")
    alarm = {"alarm": "disk", "subject": "session", "severity": "warning", "text": "9 % free", "value": 0.09}
    with open(folder + "/web/alarms.jsonl", "w") as out:
        for when, event in ((1795299000.5, "fires"), (1795299000.5, "told"), (1795299060.0, "worse"),
                            (1795299120.0, "clears")):
            out.write(json.dumps({"time": when, "event": event, **alarm}) + "\n")
        out.write(json.dumps({"time": 1795299200.0, "event": "silence", "alarm": "disk", "subject": "session",
                              "until": 1795299900.0}) + "\n")
        out.write(json.dumps({"time": 1795299300.0, "event": "fires", **alarm, "alarm": "picks"}) + "\n{\"time\": 1")
    with open(folder + "/changes/0001.json", "w") as out:
        json.dump({"v": 1, "number": 1, "time": 1795298000.0, "user": "ada", "host": "scope", "by": "set", "whole": False,
                   "changes": [{"stage": "extractor", "key": "box", "old": 96, "new": 98, "changes": "live"}]}, out)
    with open(folder + "/log/icestream.log", "a") as out:
        out.write("2026-11-22T00:00:00.000 icestream INFO machine scope-1; 32 cores; GPUs: Aye, Bee\n")
    with open(folder + "/log/extractor.0.log", "a") as out:
        out.write("2026-11-22T10:11:12.000 extractor.0 INFO start run 1, process 2, 3 lanes, 1 threads\n")
    icestream("mark", "--session", folder, "--reject", "it's \"quoted\" & more", "--why", "crystals <b>")
    icestream("mark", "--session", folder, "--keep", "données_日本_µm")
    icestream("report", "--session", folder)
    text = read(folder + "/report/report.html")
    page = Page(text)
    data = json.loads(read(folder + "/report/report.json"))
    alarms = [(one["stage"], one["time"], one["ended"]) for one in data["incidents"] if one["kind"] == "alarm"]
    assert alarms == [("disk session", "2026-11-21 22:10:00", "2026-11-21 22:12:00"),
                      ("picks session", "2026-11-21 22:15:00", None)], alarms
    kinds = [one["kind"] for one in data["incidents"]]
    assert sorted(kinds) == ["alarm", "alarm", "change", "restart"], kinds
    times = [one["time"] for one in data["incidents"]]
    assert times == sorted(times), times
    restart = next(one for one in data["incidents"] if one["kind"] == "restart")
    assert restart["stage"] == "extractor.0" and restart["time"] == "2026-11-22 10:11:12", restart
    assert data["machines"] == [{"run": 1, "host": "scope-1", "has": "32 cores; GPUs: Aye, Bee"}], data["machines"]
    by_hand = {one["name"]: (one["mark"], one["why"]) for one in data["by_hand"]}
    assert by_hand == {"it's \"quoted\" & more": ("rejected", "crystals <b>"), "données_日本_µm": ("kept", "")}, by_hand
    assert "<h2 id=hand>" in text and "crystals &lt;b&gt;" in text and "b" not in page.tags - {"b"}
    # Other clocks than those of the microscope: logs are in local time, the report in UTC.
    with open(folder + "/log/plan.json") as file:
        plan = json.load(file)
    with open(folder + "/log/plan.json", "w") as file:
        json.dump({**plan, "utc_offset": 7200}, file)
    icestream("report", "--session", folder)
    data = json.loads(read(folder + "/report/report.json"))
    restart = next(one for one in data["incidents"] if one["kind"] == "restart")
    assert restart["time"] == "2026-11-22 08:11:12" and data["session"]["offset"] == "UTC+02:00", restart
    assert "the clocks beside the microscope showed UTC+02:00" in read(folder + "/report/report.html")


def large():
    """A long session stays a page that can be sent."""
    folder = made_session("large", 10_000)
    icestream("report", "--session", folder)
    text = read(folder + "/report/report.html")
    assert len(text.encode()) <= 10_000_000, len(text)
    assert text.count("<figure class=example>") == 27 + 3, text.count("<figure class=example>")
    data = json.loads(read(folder + "/report/report.json"))
    assert data["exposures"]["seen"] == 10_000 == read(folder + "/report/exposures.csv").count("\n") - 1


def selected():
    """The selection beside the report: RELION reads it, and marks made since hold in it and in all counts."""
    session = make_session.Session(os.path.join(SCRATCH, "selected"), 60)
    folder = session.folder
    names = [session.name(i) for i in range(10, 40)]
    particles = ["rlnCoordinateX", "rlnCoordinateY", "rlnImageName", "rlnMicrographName", "rlnOpticsGroup", "rlnClassNumber"]
    optics = {"rlnOpticsGroupName": "opticsGroup1", "rlnOpticsGroup": 1, "rlnMicrographOriginalPixelSize": 2.5,
              "rlnVoltage": 300, "rlnSphericalAberration": 2.7, "rlnAmplitudeContrast": 0.1, "rlnImagePixelSize": 3.75,
              "rlnImageSize": 64, "rlnImageDimensionality": 2}
    rows = [(10 * k, 20 * k, "%06d@extractor/%s.mrcs" % (k + 1, name), "motion-corrector/%s.mrc" % name, 1, k)
            for name in names for k in range(4)]
    make_session.synthetic.star(session.path("classifier", "latest_selected.star"),
                                [("optics", list(optics), [list(optics.values())]), ("particles", particles, rows)])
    session.close()
    icestream("mark", "--session", folder, "--reject", names[0], names[1])
    icestream("report", "--session", folder)
    data = json.loads(read(folder + "/report/report.json"))
    assert data["particles"]["left_out"] == 8, data["particles"]
    with open(folder + "/report/exposures.csv", encoding="utf-8", newline="") as text:
        counts = {row["name"]: int(row["particles_selected"]) for row in csv.DictReader(text)}
    assert [counts[name] for name in names] == [0, 0] + [4] * 28 and sum(counts.values()) == 112, counts
    assert sum(square["selected"] for square in data["squares"]) == 112, data["squares"]
    assert "They took 8 particles out of the selection" in read(folder + "/report/report.html")
    # An anonymous one counts the same, and leaves no table behind.
    nameless = os.path.join(SCRATCH, "nameless")
    icestream("report", "--session", folder, "--o", nameless + "/report.html", "--anonymous")
    others = json.loads(read(nameless + "/report.json"))
    assert others["particles"] == data["particles"], (others["particles"], data["particles"])
    assert sum(square["selected"] for square in others["squares"]) == 112, others["squares"]
    assert not [name for name in os.listdir(nameless) if "star" in name], os.listdir(nameless)
    if not shutil.which("relion_star_handler"):
        print("relion is not installed: that RELION reads selected.star was not tested")
        return 77
    out = os.path.join(SCRATCH, "relion.star")
    done = subprocess.run(["relion_star_handler", "--i", folder + "/report/selected.star", "--o", out, "--select",
                           "rlnClassNumber", "--minval", "1", "--maxval", "2"], capture_output=True, text=True)
    assert done.returncode == 0 and os.path.exists(out), done
    assert read(out).count("@extractor/") == 56, read(out)
    return 0


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
    session = make_session.Session(os.path.join(SCRATCH, "secret-place"), 60)
    folder = session.folder
    session.set_state("motion-corrector", 12, make_session.FAILED,
                      "/secret-disk/movies/a.tif: scope-of-icestream cannot be reached (ada-of-icestream:/secret-disk/x)")
    session.close()
    with open(folder + "/log/icestream.log", "a") as out:
        out.write("2026-11-22T00:00:00.000 icestream INFO machine gpu-of-icestream.example; 32 cores; GPUs: Aye\n")
    os.makedirs(folder + "/web")
    with open(folder + "/web/alarms.jsonl", "w") as out:
        out.write(json.dumps({"time": 1795299000.5, "event": "fires", "alarm": "disk", "subject": "session",
                              "severity": "warning", "text": "gpu-of-icestream has 1 % of /secret-disk left"}) + "\n")
    os.makedirs(folder + "/changes")
    with open(folder + "/changes/0001.json", "w") as out:
        json.dump({"v": 1, "number": 1, "time": 1795300000.0, "user": "ada-of-icestream", "host": "scope-of-icestream",
                   "by": "set", "whole": False,
                   "changes": [{"stage": "extractor", "key": "box", "old": 96, "new": 98, "changes": "live"}]}, out)
    icestream("mark", "--session", folder, "--reject", "données_日本_µm", "--why", "ask secret-person")
    icestream("report", "--session", folder)
    assert "secret-place" in read(folder + "/report/report.html")
    told = read(folder + "/report/report.json")
    assert '"box = 98"' in told
    for secret in ("secret-disk", "gpu-of-icestream.example", "secret-person"):
        assert secret in told, secret
    page = os.path.join(SCRATCH, "anonymous/report.html")
    icestream("report", "--session", folder, "--o", page, "--anonymous")
    for name in os.listdir(os.path.dirname(page)):
        text = read(os.path.join(os.path.dirname(page), name))
        for secret in ("secret", SCRATCH, "of-icestream", "/nowhere", "/tmp/"):
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
    return without_script(folder + "/report/report.html")


def without_script(page):
    """A browser that runs no script shows all of the page."""
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        print("selenium is not installed: the page was not shown without script")
        return 77
    if not shutil.which("chromedriver"):
        print("chromedriver is not installed: the page was not shown without script")
        return 77
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,900"):
        options.add_argument(argument)
    driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
    try:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        driver.get("file://" + page)
        assert driver.find_element("id", "methods").text == "Methods"
        assert len(driver.find_elements("css selector", "table")) > 8
        widths = [image.get_property("naturalWidth") for image in driver.find_elements("css selector", "img")]
        assert len(widths) > 20 and all(width > 0 for width in widths), widths
        charts = [chart.size["height"] for chart in driver.find_elements("css selector", "svg")]
        assert len(charts) > 10 and all(height > 100 for height in charts), charts
    finally:
        driver.quit()
    return 0


try:
    result = {"whole": whole, "noise": noise, "unresolved": unresolved, "happened": happened, "large": large, "selected": selected,
              "again": again, "anonymous": anonymous, "kept": kept, "pdf": pdf}[sys.argv[1]]()
finally:
    shutil.rmtree(SCRATCH, ignore_errors=True)
sys.exit(result or 0)
