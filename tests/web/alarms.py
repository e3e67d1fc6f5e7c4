#!/usr/bin/env python3
"""alarms.py: a server judges the alarms of a session, keeps and tells them, and one that starts anew tells nothing twice."""
import email
import email.policy
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import make_session
import synthetic
from server import BIN, Server, wait_for

SCRATCH = tempfile.mkdtemp(prefix="icestream-alarms-")
PROGRAM = """#!/bin/sh
[ -e %(told)s.tried ] || { touch %(told)s.tried; exit %(first)d; }
cat >>%(told)s; echo >>%(told)s
"""


def begin(name, alarms, exposures=60, fails=False, **options):
    """Makes a session that runs. fails: the program fails the first time, so that a second try must follow, 5 s later."""
    session = make_session.Session(os.path.join(SCRATCH, name), exposures, running=True, interval=0.2, pictures=0,
                                   iterations=0, end=time.time() - 100, **options)  # the last one came 100 s ago
    session.told_file = os.path.join(SCRATCH, name + ".told")
    program = os.path.join(SCRATCH, name + ".sh")
    with open(program, "w", encoding="utf-8") as file:
        file.write(PROGRAM % {"told": session.told_file, "first": fails})
    if not fails:
        open(session.told_file + ".tried", "w").close()
    os.chmod(program, 0o700)
    with open(session.path("graph.yaml"), encoding="utf-8") as file:
        graph = file.read()
    graph = graph.replace("session:\n", "session:\n  notify: \"%s\"\n  alarms: [%s]\n" % (program, ", ".join(alarms)), 1)
    with open(session.path("graph.yaml"), "w", encoding="utf-8") as file:
        file.write(graph)
    os.utime(session.path("log", "plan.json"), (time.time() - 1000,) * 2)  # when the run began
    return session


def expose(session, count):
    """Adds exposures that come now."""
    session.end = 0
    session.add(count)


def told(session):
    if not os.path.exists(session.told_file):
        return []
    with open(session.told_file, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def kept(session):
    with open(session.path("web", "alarms.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def alarms(server):
    code, _, body = server.ask("/api/alarms")
    assert code == 200, (code, body)
    return json.loads(body)


def states(server):
    return {(one["alarm"], one["subject"]): one["state"] for one in alarms(server)["alarms"]}


def metric(server, alarm):
    code, headers, body = server.ask("/metrics")
    assert code == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4"), (code, headers)
    lines = [line for line in body.decode().splitlines()
             if line.startswith("icestream_alarm{") and 'alarm="%s"' % alarm in line]
    return max(float(line.rsplit(" ", 1)[1]) for line in lines)


def fires_and_clears():
    session = begin("stops", ["no_exposure=60", "disk=off", "disk_hours=off", "stage_silent=off"], fails=True)
    try:
        with Server(session.folder) as server:
            answer = alarms(server)
            assert len(answer["rules"]) == 27 and answer["v"] == 1
            rule = {one["alarm"]: one for one in answer["rules"]}
            assert rule["no_exposure"]["threshold"] == 60 and rule["disk"]["off"] and not rule["picks"]["off"]
            # The microscope stands still.
            wait_for(lambda: states(server).get(("no_exposure", "")) == "firing", "no exposure comes")
            assert metric(server, "no_exposure") == 1 and metric(server, "failing") == 0
            first = wait_for(lambda: told(session), "somebody is told")[0]
            assert first["version"] == "4" and first["status"] == "firing" and first["receiver"] == "icestream"
            alert = first["alerts"][0]
            assert len(first["alerts"]) == 1 and alert["status"] == "firing", first
            assert alert["labels"]["alertname"] == "no_exposure" and alert["labels"]["session"] == "stops"
            assert "microscope" in alert["annotations"]["description"] and alert["endsAt"].startswith("0001-")
            wait_for(lambda: alarms(server)["notify"]["sent"] == 1, "the server knows that")
            assert os.path.exists(session.told_file + ".tried"), "the first try failed, and a second one followed"
            # It works again.
            expose(session, 3)
            over = wait_for(lambda: len(told(session)) == 2 and told(session)[1], "somebody is told that it is over")
            assert over["status"] == "resolved" and over["alerts"][0]["fingerprint"] == alert["fingerprint"], over
            assert over["alerts"][0]["endsAt"] >= alert["startsAt"]
            wait_for(lambda: states(server)[("no_exposure", "")] == "cleared", "the page sees it")
            assert metric(server, "no_exposure") == 0
        events = [line["event"] for line in kept(session)]
        assert events[:4] == ["fires", "told", "clears", "told"], events
        # The report tells of it from this very file.
        page = os.path.join(SCRATCH, "report", "report.html")
        subprocess.run([os.path.join(BIN, "icestream"), "report", "--session", session.folder, "--o", page], check=True,
                       stdout=subprocess.DEVNULL)
        with open(os.path.join(SCRATCH, "report", "report.json"), encoding="utf-8") as file:
            incidents = [one for one in json.load(file)["incidents"] if one["kind"] == "alarm"]
        assert [one["stage"] for one in incidents] == ["no_exposure"], incidents
        assert incidents[0]["time"] < incidents[0]["ended"] and "microscope" in incidents[0]["text"], incidents
    finally:
        session.close()


def a_new_server_goes_on():
    """kill -9 of the server: the next one knows what fires, who was told, and what is silenced."""
    session = begin("killed", ["no_exposure=60", "disk=off", "disk_hours=off", "stage_silent=off"])
    try:
        with Server(session.folder) as server:
            wait_for(lambda: told(session), "somebody is told")
            since = alarms(server)["alarms"][0]["since"]
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
        with Server(session.folder) as server:
            assert states(server) == {("no_exposure", ""): "firing"}
            assert abs(alarms(server)["alarms"][0]["since"] - since) < 0.001
            # A second server of the same session shows all, and tells nobody.
            with Server(session.folder, "--socket", os.path.join(SCRATCH, "second.sock")) as second:
                wait_for(lambda: states(second).get(("no_exposure", "")) == "firing", "the second one sees it")
                expose(session, 1)
                wait_for(lambda: states(server)[("no_exposure", "")] == "cleared", "it is over")
                wait_for(lambda: states(second)[("no_exposure", "")] == "cleared", "the second one knows")
                wait_for(lambda: len(told(session)) >= 2, "somebody is told that it is over")
        assert [group["status"] for group in told(session)] == ["firing", "resolved"], told(session)
        assert [line["event"] for line in kept(session)] == ["fires", "told", "clears", "told"], kept(session)
    finally:
        session.close()


def what_exposures_tell():
    """Failures, rejections, astigmatism, orientations and beam tilt: by name and reason, in one call for all."""
    session = begin("bad", ["no_exposure=off", "disk=off", "disk_hours=off", "stage_silent=off", "failing=3", "rejecting=4",
                            "astigmatism=10", "astigmatism.for=0", "least=20", "orientation.for=0", "beam_tilt.for=0"],
                    exposures=120)
    try:
        # A map of particles that all lie on one side, made by a refinement that knows the beam's tilt.
        session.particles = 60000
        session.iterate()
        synthetic.star(session.path("refiner", "run_it001_data.star"),
                       [("optics", ["rlnOpticsGroup", "rlnBeamTiltX", "rlnImagePixelSize", "rlnBeamTiltY"],
                         [(1, 0.1, 2.5, 0.0), (2, -0.6, 2.5, 0.8)]),
                        ("particles", ["rlnImageName", "rlnAngleRot", "rlnAngleTilt", "rlnAnglePsi"],
                         [("%06d@x.mrcs" % i, i % 360, i % 7, 0) for i in range(6000)])])
        with Server(session.folder) as server:
            wait_for(lambda: len(told(session)) > 0, "somebody is told")
            seen = {one["alarm"]: one for one in alarms(server)["alarms"]}
            assert set(seen) == {"failing", "rejecting", "astigmatism", "orientation", "beam_tilt"}, seen
            assert "ctf-estimator" in seen["failing"]["text"] and "rings" in seen["failing"]["text"], seen
            assert "rlnCtfMaxResolution > 10" in seen["rejecting"]["text"], seen
            assert "stigmator" in seen["astigmatism"]["text"] and seen["astigmatism"]["severity"] == "warning"
            assert "1.00 mrad" in seen["beam_tilt"]["text"] and "coma-free" in seen["beam_tilt"]["text"], seen
            assert seen["orientation"]["value"] < 0.65 and "30°" in seen["orientation"]["text"], seen
            # Times keep their milliseconds on the way to the page.
            since = {line["alarm"]: line["since"] for line in kept(session) if line["event"] == "fires"}
            assert all(abs(seen[name]["since"] - since[name]) < 0.0015 for name in seen), (seen, since)
            assert len(told(session)) == 1 and len(told(session)[0]["alerts"]) == 5, "one call for a group"
            code, _, body = server.ask("/readyz")
            lines = body.decode().splitlines()
            critical = [line for line in lines if line.startswith("critical alarm failing: ")]
            assert code == 503 and len(critical) == 1 and "rings" in critical[0], lines
            assert not any("rejecting" in line or "astigmatism" in line for line in lines), "warnings do not count"
    finally:
        session.close()


def silenced():
    """The page silences an alarm: it is shown, nobody is told, and a new server knows."""
    session = begin("silenced", ["no_exposure=60", "disk=off", "disk_hours=off", "stage_silent=off"])
    try:
        def silence(server, **body):
            headers = {"Content-Type": "application/json", "X-Icestream": "1", "Host": "localhost:80"}
            body = json.dumps({"do": "silence", **body}).encode()
            code, _, answer = server.ask("/api/control", method="POST", body=body, headers=headers)
            return code, answer.decode()

        with Server(session.folder) as server:
            wait_for(lambda: told(session), "somebody is told")
            code, answer = silence(server, alarm="no_exposure", until=time.time() + 3600, why="lunch")
            assert code == 200, answer
            assert states(server) == {("no_exposure", ""): "silenced"}

            # From the command line, which writes the same file: it takes the silence back, and silences again.
            def command(*words, code=0):
                done = subprocess.run([os.path.join(BIN, "icestream"), "silence", "--session", session.folder, *words],
                                      capture_output=True, text=True)
                assert done.returncode == code, done
                return done.stdout + done.stderr

            assert "no longer silenced" in command("no_exposure", "--clear")
            wait_for(lambda: states(server) == {("no_exposure", ""): "firing"}, "the server reads it")
            assert "is silent until 2" in command("no_exposure", "--for", "3600", "--why", "lunch again")
            wait_for(lambda: states(server) == {("no_exposure", ""): "silenced"}, "and this")
            assert "no_exposur" in command("no_exposur", "--for", "3600", code=2)
            assert "--until" in command("no_exposure", "--until", "noon", code=2)
            assert "over already" in command("no_exposure", "--until", "2001-01-01T00:00Z", code=2)
            code, answer = silence(server, alarm="no_exposur", until=time.time() + 3600)
            assert code == 400 and "no_exposur" in answer, (code, answer)
            # Two silences hold; one that is taken back leaves the other.
            assert silence(server, alarm="all", until=time.time() + 3600, why="night")[0] == 200
            assert silence(server, alarm="no_exposure", until=0, why="back")[0] == 200
            assert states(server) == {("no_exposure", ""): "silenced"}
            assert silence(server, alarm="no_exposure", until=time.time() + 3600, why="lunch 3")[0] == 200
            assert silence(server, alarm="all", until=0, why="morning")[0] == 200
            assert states(server) == {("no_exposure", ""): "silenced"}
            # A silence that cannot be written is refused and holds nowhere; the answer says what the file lacks.
            assert alarms(server)["complaint"] is None
            file = session.path("web", "alarms.jsonl")
            os.rename(file, file + ".away")
            os.mkdir(file)
            code, answer = silence(server, alarm="disk", until=time.time() + 3600)
            assert code >= 500 and "alarms.jsonl" in answer, (code, answer)
            assert [one["alarm"] for one in alarms(server)["silences"]] == ["no_exposure"]
            expose(session, 1)
            wait_for(lambda: "alarms.jsonl" in (alarms(server)["complaint"] or ""), "what clears cannot be kept")
            os.rmdir(file)
            os.rename(file + ".away", file)
        with Server(session.folder) as server:
            wait_for(lambda: states(server).get(("no_exposure", "")), "the alarm is known")
            assert alarms(server)["silences"][0]["alarm"] == "no_exposure"
        line = [one for one in kept(session) if one["event"] == "silence"]
        assert [one["why"] for one in line] == ["lunch", "", "lunch again", "night", "back", "lunch 3", "morning"], line
        assert all(one["who"] for one in line), line
        assert [group["status"] for group in told(session)].count("firing") == 1, told(session)
    finally:
        session.close()


def all_at_once():
    """All exposures are found before the first one has values: the median of the session follows the values."""
    session = begin("at-once", ["no_exposure=off", "disk=off", "disk_hours=off", "stage_silent=off", "motion=3", "motion.for=0",
                                "least=20"], exposures=0)

    def move(exposures, motion):
        """The motion-corrector has measured these exposures."""
        ledger = session.ledgers["motion-corrector"]
        ledger.execute("BEGIN")
        for name in map(session.name, exposures):
            item = json.loads(ledger.execute("SELECT item FROM items WHERE id = ?", (name,)).fetchone()[0])
            item["columns"] = {"icestreamMotionTotal": motion}
            ledger.execute("UPDATE items SET state = 1, item = ?, time_changed = ? WHERE id = ?",
                           (json.dumps(item), time.time(), name))
        ledger.execute("COMMIT")

    def measured(server):
        columns = json.loads(server.ask("/api/items")[2])["columns"]
        return sum(value is not None for value in columns.get("motion", []))

    try:
        with Server(session.folder) as server:
            session.add(60, stop=1)
            move([0], 80.0)
            wait_for(lambda: measured(server) == 1, "60 exposures, one of them with a value")
            time.sleep(1.5)  # longer than a look: a lucky pass hides a fault, and no delay makes it fail
            move(range(1, 35), 8.0)
            move(range(35, 60), 80.0)
            wait_for(lambda: states(server).get(("motion", "")) == "firing", "the last images move more than the others")
    finally:
        session.close()


def last_words():
    """The end of a server: a GPU that was lost stays lost, and whoever is being told hears of the end too."""
    gpus, go = os.path.join(SCRATCH, "gpus"), os.path.join(SCRATCH, "go")
    library = os.path.realpath(os.path.join(BIN, "../tests/fake_nvml.so"))
    session = begin("last", ["no_exposure=60", "disk=off", "disk_hours=off", "stage_silent=off", "gpu_idle=off", "gpu_hot=off",
                             "gpu_lost.for=0"])
    with open(os.path.join(SCRATCH, "last.sh"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\ncat >>%s; echo >>%s\nuntil [ -e %s ]; do sleep 0.05; done\n" % (
            session.told_file, session.told_file, go))
    try:
        with open(gpus, "w", encoding="ascii") as file:
            file.write("RTX 10 6000000000 24000000000 50 190500\n")
        with Server(session.folder, environment={"ICESTREAM_NVML": library, "FAKE_NVML": gpus}) as server:
            wait_for(lambda: json.loads(server.ask("/api/status")[2])["gpus"], "a GPU")
            wait_for(lambda: told(session), "the program is told, and goes on working")
            with open(gpus, "w", encoding="ascii") as file:
                file.write("lost\n")
            wait_for(lambda: states(server).get(("gpu_lost", "GPU 0")) == "firing", "a GPU is lost")
            expose(session, 1)
            wait_for(lambda: states(server)[("no_exposure", "")] == "cleared", "the other alarm is over")
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)  # the server is at its end by then; earlier, this test would see less
            open(go, "w").close()
        assert [line["event"] for line in kept(session) if line["alarm"] == "gpu_lost"][:1] == ["fires"]
        assert not [line for line in kept(session) if line["event"] == "clears" and line["alarm"] == "gpu_lost"], kept(session)
        alerts = {(alert["labels"]["alertname"], alert["status"]) for group in told(session) for alert in group["alerts"]}
        assert {("no_exposure", "firing"), ("no_exposure", "resolved"), ("gpu_lost", "firing")} <= alerts, alerts
        assert ("gpu_lost", "resolved") not in alerts, alerts
    finally:
        session.close()


def examples():
    """The programs that are shipped: a mail whose headers no name can break, and what each kind of webhook gets."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../pipelines/monitoring/notify")
    got, tool = os.path.join(SCRATCH, "got"), os.path.join(SCRATCH, "tool")
    with open(tool, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho \"$@\" >%s.words; cat >%s\n" % (got, got))
    os.chmod(tool, 0o700)
    alert = {"status": "firing", "labels": {"alertname": "disk", "severity": "warning", "session": "s\nBcc: x@y", "subject": ""},
             "annotations": {"summary": "disk", "description": "8 µm \"quoted\""}, "startsAt": "A", "endsAt": "B"}
    group = {"version": "4", "status": "firing", "commonLabels": {"session": "s\nBcc: x@y"},
             "commonAnnotations": {"folder": "/data/s"}, "alerts": [alert]}

    def run(name, **environment):
        done = subprocess.run([os.path.join(folder, name)], input=json.dumps(group), text=True, capture_output=True,
                              env={**os.environ, **environment})
        assert done.returncode == 0, done.stderr
        with open(got, encoding="utf-8") as file:
            return file.read()

    text = run("mail.sh", ICESTREAM_SENDMAIL=tool, ICESTREAM_MAIL_TO="a@b")
    mail = email.message_from_bytes(text.encode(), policy=email.policy.default)
    assert mail["To"] == "a@b" and mail["Bcc"] is None and mail["Subject"].startswith("[icestream] s"), mail.items()
    assert "8 µm" in mail.get_content()
    assert json.loads(run("webhook.sh", ICESTREAM_CURL=tool)) == group
    assert "8 µm" in json.loads(run("webhook.sh", ICESTREAM_CURL=tool, ICESTREAM_WEBHOOK_KIND="slack"))["text"]
    assert "WARNING" in run("webhook.sh", ICESTREAM_CURL=tool, ICESTREAM_WEBHOOK_KIND="ntfy")


def an_ended_session():
    """Alarms of a session that nobody runs stand as its file has them; a broken last line hurts nobody."""
    session = make_session.Session(os.path.join(SCRATCH, "ended"), 30, pictures=0)
    try:
        os.makedirs(session.path("web"))
        with open(session.path("web", "alarms.jsonl"), "w", encoding="utf-8") as file:
            file.write(json.dumps({"time": 1.8e9, "event": "fires", "alarm": "disk", "subject": "session",
                                   "severity": "warning", "text": "full", "value": 5, "since": 1.8e9}) + "\n")
            file.write("what is this\n[]\n{\"event\": \"fires\", \"alarm\": \"unknown\", \"time\": 3}\n{\"time\": 18")
        with open(session.path("web", "alarms.jsonl"), "rb") as file:
            before = file.read()
        with Server(session.folder) as server:
            assert states(server) == {("disk", "session"): "firing"}
            time.sleep(1.5)  # longer than a look: a lucky pass hides a fault, and no delay makes it fail
            assert states(server) == {("disk", "session"): "firing"}
        with open(session.path("web", "alarms.jsonl"), "rb") as file:
            assert file.read() == before
    finally:
        session.close()


try:
    for test in (fires_and_clears, a_new_server_goes_on, what_exposures_tell, all_at_once, silenced, last_words, examples,
                 an_ended_session):
        begun = time.monotonic()
        test()
        print("%s: ok (%.1f s)" % (test.__name__, time.monotonic() - begun), flush=True)
finally:
    shutil.rmtree(SCRATCH)
sys.exit(0)
