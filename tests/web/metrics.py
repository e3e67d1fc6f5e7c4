#!/usr/bin/env python3
"""metrics.py: `icestream metrics` passes promtool, agrees with `icestream status`, and replaces its file as a whole."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import make_session

BIN = os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(__file__), "../../build/cpu/bin"))
SCRATCH = tempfile.mkdtemp(prefix="icestream-metrics-")
SAMPLE = re.compile(r'^([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} ([-+0-9.eInf]+)$')
SCRAPED = set()  # names of all metrics that were seen
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def run(*arguments, code=0, **environment):
    out = subprocess.run([os.path.join(BIN, "icestream"), *arguments], capture_output=True, text=True,
                         env={**os.environ, **environment})
    assert out.returncode == code, (arguments, out.returncode, out.stderr)
    return out.stdout if code == 0 else out.stderr


def read(text):
    """{(name, frozenset of labels): value}; each sample carries the session, and each family stands in one block."""
    samples, families, session = {}, [], None
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            families.append(line.split()[2])
        if line.startswith("#"):
            continue
        found = SAMPLE.match(line)
        assert found, line
        name, labels, value = found.groups()
        labels = dict(LABEL.findall(labels))
        own = labels.pop("session")
        assert session in (None, own), (session, own)
        session = own
        key = (name, frozenset(labels.items()))
        assert key not in samples, key
        samples[key] = float(value)
        assert name.startswith(families[-1]), (name, families[-1])
    assert len(families) == len(set(families)), families
    return samples


def get(samples, name, **labels):
    return samples[name, frozenset(labels.items())]


def promtool(text):
    if shutil.which("promtool") is None:
        return False
    out = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert out.returncode == 0 and not out.stderr and not out.stdout, out.stdout + out.stderr
    return True


def rules():
    """The rules that are installed are sound; each of them fires and clears on recorded series."""
    here = os.path.dirname(os.path.abspath(__file__))
    shipped = os.path.join(here, "../../pipelines/monitoring/prometheus-rules.yml")
    if shutil.which("promtool") is None:
        return False
    for source in (shipped, os.path.join(here, "prometheus-rules.test.yml")):
        shutil.copy(source, SCRATCH)
    for command, name in (("check", "prometheus-rules.yml"), ("test", "prometheus-rules.test.yml")):
        out = subprocess.run(["promtool", command, "rules", name], cwd=SCRATCH, capture_output=True, text=True)
        assert out.returncode == 0, out.stdout + out.stderr
    # A file that is broken is found: the checks above are no empty ones.
    with open(shipped, encoding="utf-8") as file:
        text = file.read()
    for name, broken in (("prometheus-rules.yml", text.replace("== 1", "== = 1", 1)),
                         ("prometheus-rules.yml", text.replace("< 0.1", "< 0.01", 1))):
        with open(os.path.join(SCRATCH, name), "w", encoding="utf-8") as file:
            file.write(broken)
        assert broken != text and subprocess.run(["promtool", "test", "rules", "prometheus-rules.test.yml"], cwd=SCRATCH,
                                                 capture_output=True).returncode != 0, "a broken rule passes"
    # A rule that names a metric that nobody writes never fires.
    return names_of(line for line in text.splitlines() if "expr:" in line)


def names_of(lines):
    return set(re.findall(r"\bicestream_[a-z_]+", "".join(lines)))


def dashboard():
    """Each expression of the dashboard is sound; its rows and variables are there. Returns the metrics that it names."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../../pipelines/monitoring/grafana.json"), encoding="utf-8") as file:
        board = json.load(file)
    panels = board["panels"]
    assert [panel["title"] for panel in panels if panel["type"] == "row"] == ["Session", "Stages", "Quality", "Machine"]
    assert [one["name"] for one in board["templating"]["list"]] == ["datasource", "session"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    assert all(a["y"] < b["y"] or a["x"] + a["w"] <= b["x"] for a, b in zip(places, places[1:])), "panels lie on each other"
    targets = [target for panel in panels if panel["type"] != "row" for target in panel["targets"]]
    expressions = [target["expr"] for target in targets]
    assert all('session=~"$session"' in one for one in expressions) and len(expressions) > 30
    assert all(target["datasource"]["uid"] == "$datasource" for target in targets)
    rules = [{"record": "panel:%d" % i, "expr": one.replace("$session", "s").replace("$__rate_interval", "5m")}
             for i, one in enumerate(expressions)]
    path = os.path.join(SCRATCH, "dashboard.yml")
    if shutil.which("promtool") is not None:
        for broken in (False, True):
            if broken:
                rules[0]["expr"] += ")"
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
            out = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True)
            assert (out.returncode != 0) == broken, out.stdout + out.stderr
    return {re.sub("_bucket$", "", name) for name in names_of(expressions)}


def same_counts(session, samples):
    status = json.loads(run("status", "--session", session.folder, "--json"))
    for stage, counts in status["stages"].items():
        for state in ("in_flight", "done", "rejected", "failed"):
            assert get(samples, "icestream_items", stage=stage, state=state) == counts[state], (stage, state)
    assert get(samples, "icestream_reconciled") == status["adds_up"]
    assert get(samples, "icestream_session_running") == status["running"]


def ended():
    # A folder whose name must be escaped.
    session = make_session.Session(os.path.join(SCRATCH, 'a "quoted" \\ name'), 120)
    try:
        text = run("metrics", "--session", session.folder)
        samples = read(text)
        SCRAPED.update(name for name, _ in samples)
        same_counts(session, samples)
        assert get(samples, "icestream_rejected_reason_items", stage="lowpass-picker",
                   rule="rlnCtfMaxResolution > 10") == 7
        # The last 25 with a value: the median is that of these, in metres.
        defocus = []
        for i in range(119, -1, -1):
            row = session.ledgers["ctf-estimator"].execute("SELECT item FROM items WHERE id = ? AND state IN (1, 2)",
                                                           (session.name(i),)).fetchone()
            if row and len(defocus) < 25:
                columns = json.loads(row[0])["columns"]
                defocus.append((columns["rlnDefocusU"] + columns["rlnDefocusV"]) / 2)
        median = sorted(defocus)[12] * 1e-10
        assert abs(get(samples, "icestream_defocus_meters", q=".5") / median - 1) < 1e-6
        # In Å: of the fixture at least 8, and 2.5 times as much as in RELION's columns, which are in pixels.
        assert get(samples, "icestream_motion_angstroms", q=".5") >= 8
        assert get(samples, "icestream_map_iteration", stage="refiner") == 6
        assert get(samples, "icestream_disk_free_bytes", place="session") > 0
        latency = [get(samples, "icestream_pipeline_latency_seconds_bucket", to="picked", le=le)
                   for le in "0.01 0.03 0.1 0.3 1 3 10 30 100 300 1000 +Inf".split()]
        assert latency == sorted(latency) and latency[-1] == get(samples, "icestream_pipeline_latency_seconds_count",
                                                                 to="picked")
        # In a file, as a whole.
        path = os.path.join(SCRATCH, "icestream.prom")
        run("metrics", "--session", session.folder, "--o", path)
        with open(path, encoding="utf-8") as file:
            assert read(file.read()).keys() == samples.keys()
        assert not [name for name in os.listdir(SCRATCH) if "partial" in name]
        message = run("metrics", "--session", session.folder, "--o", "/nowhere/file.prom", code=1)
        assert "/nowhere" in message, message
        return promtool(text)
    finally:
        session.close()


def running():
    session = make_session.Session(os.path.join(SCRATCH, "runs"), 30, running=True, in_flight=4,
                                   without=["motion-corrector"])
    try:
        text = run("metrics", "--session", session.folder)
        samples = read(text)
        same_counts(session, samples)
        assert get(samples, "icestream_session_running") == 1
        assert get(samples, "icestream_exposures_per_hour") > 0
        assert not [key for key in samples if key[0].startswith("icestream_motion")], "no stage measures motion"
        assert get(samples, "icestream_items_finished_total", stage="watcher", instance="watcher.0", outcome="done") >= 0
        bucket = get(samples, "icestream_item_duration_seconds_bucket", stage="ctf-estimator", le="+Inf")
        assert bucket == get(samples, "icestream_item_duration_seconds_count", stage="ctf-estimator")
        # An exposure that fails later lowers no counter: ledger counts are gauges.
        before = get(samples, "icestream_items", stage="extractor", state="done")
        session.set_state("extractor", 1, make_session.FAILED, "gone")
        samples = read(run("metrics", "--session", session.folder))
        assert get(samples, "icestream_items", stage="extractor", state="done") == before - 1
        assert "# TYPE icestream_items gauge" in text
        # GPUs, one of which is lost.
        gpus = os.path.join(SCRATCH, "gpus")
        with open(gpus, "w", encoding="utf-8") as file:
            file.write("RTX-A5000 80 6000000000 24000000000 71 190500\nlost\n")
        text = run("metrics", "--session", session.folder, FAKE_NVML=gpus,
                   ICESTREAM_NVML=os.path.join(BIN, "../tests/fake_nvml.so"))
        gpus = {(name, dict(labels)["gpu"]): value for (name, labels), value in read(text).items() if "_gpu_" in name}
        assert {name[len("icestream_gpu_"):]: value for (name, gpu), value in gpus.items() if gpu == "0"} == {
            "utilization_ratio": 0.8, "memory_used_bytes": 6e9, "memory_size_bytes": 24e9, "temperature_celsius": 71,
            "power_watts": 190.5, "up": 1}
        assert {name: value for (name, gpu), value in gpus.items() if gpu == "1"} == {"icestream_gpu_up": 0}
        SCRAPED.update(name for name, _ in read(text))
        promtool(text)
        # Alarms as a server has judged them last.
        os.makedirs(session.path("web"), exist_ok=True)
        with open(session.path("web", "alarms.jsonl"), "w", encoding="utf-8") as file:
            for event, severity in (("fires", "warning"), ("clears", "warning"), ("fires", "critical")):
                alarm = {"clears": "disk"}.get(event, "disk" if severity == "warning" else "failing")
                file.write(json.dumps({"time": 1.8e9, "event": event, "alarm": alarm, "subject": "",
                                       "severity": severity, "text": "…"}) + "\n")
            file.write('{"time": 18')
        text = run("metrics", "--session", session.folder)
        samples = read(text)
        SCRAPED.update(name for name, _ in samples)
        assert not named or not named - {name for name, _ in samples}, "the rules name what nobody writes"
        assert get(samples, "icestream_alarm", alarm="disk", severity="warning", subject="") == 0
        assert get(samples, "icestream_alarm", alarm="failing", severity="critical", subject="") == 1
        return promtool(text)
    finally:
        session.close()


def empty():
    session = make_session.Session(os.path.join(SCRATCH, "empty"), 0, iterations=0)
    try:
        text = run("metrics", "--session", session.folder)
        same_counts(session, read(text))
        promtool(text)
    finally:
        session.close()
    run("metrics", "--session", os.path.join(SCRATCH, "nothing"), code=2)


try:
    named = rules()
    checked = [named, ended(), running()]
    missing = dashboard() - {re.sub("_bucket$", "", name) for name in SCRAPED}
    assert not missing, "the dashboard names what nobody writes: %s" % sorted(missing)
    empty()
finally:
    shutil.rmtree(SCRATCH)
if not all(checked):
    print("promtool is not installed: the format was not checked")
    sys.exit(77)
print("ok")
