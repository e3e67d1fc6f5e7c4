#!/usr/bin/env python3
"""facility.py: `icestream serve --sessions`: several sessions with their states and alarms, among them broken ones, one
that may not be read, and links that lead elsewhere; and the server among strangers."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import make_session
from server import BIN, Server, wait_for

SCRATCH = tempfile.mkdtemp(prefix="icestream-facility-")
FOLDER = os.path.join(SCRATCH, "sessions")
DATA = {"Content-Type": "application/json", "X-Icestream": "1"}
OTHER = 41001  # a user that no system has by default


def begin(name, exposures, **options):
    session = make_session.Session(os.path.join(FOLDER, name), exposures, pictures=0, iterations=0, special=False, **options)
    shutil.rmtree(session.data, ignore_errors=True)  # it lies beside the session
    return session


def of_status(folder):
    out = subprocess.run([os.path.join(BIN, "icestream"), "status", "--session", folder, "--json"], capture_output=True,
                         text=True, check=True)
    return json.loads(out.stdout)


def ask(server, path, code=200, **words):
    seen, _, body = server.ask(path, **words)
    assert seen == code, (path, seen, body[:300])
    return json.loads(body)


def listed(server):
    answer = ask(server, "/api/sessions")
    assert answer["v"] == 1 and answer["folder"] == "sessions"
    names = [one["name"] for one in answer["sessions"]]
    assert names == sorted(names, key=str.encode)
    return {one["name"]: one for one in answer["sessions"]}


def counts_as_in_status(server, session):
    name = os.path.basename(session.folder)
    stages = of_status(session.folder)["stages"]
    keys = ["in_flight", "done", "rejected", "failed"]
    wanted = {stage: [stages[stage][key] for key in keys] for stage in stages}
    seen = {it["stage"]: [it[key] for key in keys] for it in listed(server)[name]["stages"]}
    return seen == wanted


def states(server, ended, running):
    """Each session that can be read has its state and the counts of `status`; others say why not; links are none."""
    wait_for(lambda: all(one["state"] != "reading" for one in listed(server).values()), "all are read")
    seen = listed(server)
    assert set(seen) == {"grid <1> & \"2\"", "grid_running", "latest", "plan broken", "ledger broken"}, set(seen)
    for session, state in [(ended, "finished"), (running, "running")]:
        wait_for(lambda session=session: counts_as_in_status(server, session), "the counts of status")
        wait_for(lambda session=session: listed(server)[os.path.basename(session.folder)]["adds_up"], "counts that add up")
        seen = listed(server)
        one = seen[os.path.basename(session.folder)]
        assert (one["state"], one["run"], one["adds_up"], one["message"]) == (state, 1, True, None), one
        assert one["alarms"] == [] and abs(one["changed"] - (session.end or time.time())) < 60, one
    wait_for(lambda: listed(server)["latest"]["stages"] == listed(server)["grid_running"]["stages"], "a link within the folder")
    for name, word in [("plan broken", "plan.json"), ("ledger broken", "ctf-estimator")]:
        assert seen[name]["state"] == "unreadable" and word in seen[name]["message"], seen[name]
    running.add(3)
    wait_for(lambda: counts_as_in_status(server, running), "the counts of a session that goes on")
    late = begin("late", 5)
    wait_for(lambda: listed(server).get("late", {}).get("state") == "finished", "a session that has come")
    assert len(ask(server, "/s/late/api/items")["n"]) == 5
    # Another session under the same name is another session.
    late.close()
    shutil.rmtree(late.folder)
    shutil.rmtree(late.data, ignore_errors=True)
    again = begin("late", 7, end=1795300500.0)
    wait_for(lambda: counts_as_in_status(server, again), "the other session")
    assert len(ask(server, "/s/late/api/items")["n"]) == 7
    again.close()
    shutil.rmtree(again.folder)
    wait_for(lambda: "late" not in listed(server), "the end of a session that is gone")
    ask(server, "/s/late/api/items", 404)


def ways_in(server, ended, running):
    """Each session has its own page, with events and controls, below its name."""
    code, headers, body = server.ask("/s/grid%20%3C1%3E%20%26%20%222%22/")
    assert code == 200 and b"<title>" in body and "text/html" in headers["Content-Type"]
    assert len(ask(server, "/s/grid%20%3C1%3E%20%26%20%222%22/api/items")["n"]) == 12
    first = ask(server, "/s/grid_running/api/items")
    body = json.dumps({"do": "mark", "n": [first["n"][2]], "mark": "reject", "why": "ice"}).encode()
    assert ask(server, "/s/grid_running/api/control", method="POST", body=body, headers=DATA)["changed"] == 1
    wait_for(lambda: "reject" in ask(server, "/s/grid_running/api/items")["mark"], "the mark")
    ask(server, "/s/grid%20%3C1%3E%20%26%20%222%22/api/items", 200)
    with server.connect(120) as wire:
        wire.sendall(b"GET /s/grid_running/api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " +
                     server.token.encode() + b"\r\n\r\n")
        running.add(1)
        text = b""
        while b"event: rows" not in text:
            piece = wire.recv(65536)
            assert piece, text
            text += piece
    # A session that cannot be read says so to the one who opens it, and the server goes on.
    code, _, body = server.ask("/s/plan%20broken/")
    assert code >= 400 and b"plan.json" in body, (code, body)
    assert server.ask("/s/ledger%20broken/")[0] == 200
    for path in ["/api/items", "/api/status", "/api/events", "/api/control", "/metrics"]:
        ask(server, path, 404)


def alarms(server, running):
    """Alarms of the run's own server stand in the list until they are over."""
    graph = running.path("graph.yaml")
    with open(graph, encoding="utf-8") as file:
        text = file.read()
    with open(graph, "w", encoding="utf-8") as file:
        file.write(text.replace("session:\n", "session:\n  alarms: [no_exposure=60, disk=off, disk_hours=off, "
                                "stage_silent=off, failing=off, rejecting=off, least=1000]\n", 1))
    os.utime(running.path("log", "plan.json"), (time.time() - 1000,) * 2)
    with open(running.path("web", "alarms.jsonl"), "w", encoding="utf-8"):
        pass
    with Server(running.folder, "--socket", os.path.join(SCRATCH, "own.sock")):
        found = wait_for(lambda: listed(server)["grid_running"]["alarms"], "the alarm in the list")
        assert [one["alarm"] for one in found] == ["no_exposure"] and "microscope" in found[0]["text"], found
        assert found[0]["severity"] in ("warning", "critical")
        page = "/s/grid_running/api/alarms"
        wait_for(lambda: [one["alarm"] for one in ask(server, page)["alarms"]] == ["no_exposure"], "its own page has it")
        running.end = 0
        running.add(2)
        wait_for(lambda: not listed(server)["grid_running"]["alarms"], "the end of the alarm")


def strangers(server, view):
    names = ["/", "/app.js", "/api/sessions", "/s/grid_running/", "/s/grid_running/api/items", "/s/none/", "/s/", "/x"]
    for path in names:
        code, headers, body = server.ask(path, token=None)
        assert code == 401 and b"grid" not in body and "Set-Cookie" not in headers, (path, code, body)
        assert server.ask(path, headers={"Host": "evil.example"})[0] == 403, path
    with open(os.path.join(FOLDER, "grid_running", "web", "token"), encoding="ascii") as file:
        own = file.read().strip()
    assert own != server.token and server.ask("/api/sessions", token=own)[0] == 401, "a session's token opens no other"
    code, headers, _ = server.ask("/?token=" + server.token, token=None)
    assert code == 303 and headers["Location"] == "/"
    cookie = {"Cookie": headers["Set-Cookie"].split(";")[0]}
    assert server.ask("/s/grid_running/", token=None, headers=cookie)[0] == 200
    code, headers, _ = server.ask("/s/grid_running/?token=" + server.token, token=None)
    assert code == 303 and headers["Location"] == "/s/grid_running/"
    for path in ["/s/../", "/s/%2e%2e/", "/s/%2e%2e%2fsessions%2fgrid_running/", "/s/.icestream-web/token", "/s/./",
                 "/s/outside/", "/s/outside/api/items", "/s/plain/", "/s/grid_running", "/s/grid_running/../latest/",
                 "/s//", "/s/grid_running/web/token", "/.icestream-web/token"]:
        code, _, body = server.ask(path)
        assert code == 404 and server.token.encode() not in body, (path, code, body)
    # A token that may only look.
    assert server.ask("/s/grid_running/api/items", token=view)[0] == 200
    body = json.dumps({"do": "stop"}).encode()
    assert server.ask("/s/grid_running/api/control", token=view, method="POST", body=body, headers=DATA)[0] == 403
    evil = {**DATA, "Host": "localhost:80", "Origin": "http://evil.example"}
    assert server.ask("/s/grid_running/api/control", method="POST", body=body, headers=evil)[0] == 403
    assert server.ask("/s/grid_running/api/control")[0] == 405


def closed_to_this_user():
    """A session of somebody else that this user may not read, or may not read in part, is no reason to stop."""
    folder = os.path.join(SCRATCH, "shared")
    os.makedirs(folder)
    for name in ["closed", "ledgers closed", "open"]:
        shutil.copytree(os.path.join(FOLDER, "grid <1> & \"2\""), os.path.join(folder, name))
    os.chmod(os.path.join(folder, "closed"), 0)
    os.chmod(os.path.join(folder, "ledgers closed", "ledger", "ctf-estimator.sqlite"), 0)
    who = {}
    if os.getuid() == 0:
        who = {"user": OTHER, "group": OTHER, "extra_groups": []}
        os.chmod(SCRATCH, 0o755)
        try:
            subprocess.run([os.path.join(BIN, "icestream"), "--version"], check=True, capture_output=True, **who)
        except (OSError, subprocess.CalledProcessError):
            print("the programs are closed to other users: nothing is closed to root")
            return
    code = ("import sys, json; sys.path.insert(0, sys.argv[1]); sys.dont_write_bytecode = True\n"
            "from server import Server, wait_for\n"
            "with Server(sys.argv[2], '--listen', '127.0.0.1:0', sessions=True) as server:\n"
            "    def look():\n"
            "        code, _, body = server.ask('/api/sessions')\n"
            "        seen = {one['name']: one for one in json.loads(body)['sessions']}\n"
            "        return all(one['state'] != 'reading' for one in seen.values()) and seen\n"
            "    seen = wait_for(look, 'all are read')\n"
            "    assert set(seen) == {'ledgers closed', 'open'}, seen\n"
            "    assert seen['open']['state'] == 'finished', seen\n"
            "    one = seen['ledgers closed']\n"
            "    assert one['state'] == 'unreadable' and 'ctf-estimator' in one['message'], one\n"
            "    assert server.ask('/s/closed/')[0] == 404 and server.ask('/s/open/')[0] == 200\n")
    words = [sys.executable, "-c", code, os.path.dirname(os.path.abspath(__file__)), folder]
    subprocess.run(words, check=True, cwd="/", env={**os.environ, "ICESTREAM_BIN": os.path.abspath(BIN)}, **who)
    os.chmod(os.path.join(folder, "closed"), 0o755)


def main():
    ended = begin("grid <1> & \"2\"", 12)
    running = begin("grid_running", 20, running=True, end=time.time() - 100)
    for name in ["plan broken", "ledger broken"]:
        shutil.copytree(ended.folder, os.path.join(FOLDER, name))
    with open(os.path.join(FOLDER, "plan broken", "log", "plan.json"), "w", encoding="ascii") as file:
        file.write("{\"v\": 1, ")
    ledger = os.path.join(FOLDER, "ledger broken", "ledger", "ctf-estimator.sqlite")
    for ending in ["-wal", "-shm"]:
        if os.path.exists(ledger + ending):
            os.remove(ledger + ending)
    with open(ledger, "wb") as file:
        file.write(b"no ledger " * 1000)
    os.makedirs(os.path.join(SCRATCH, "elsewhere"))
    shutil.copytree(ended.folder, os.path.join(SCRATCH, "elsewhere", "session"))
    os.symlink(os.path.join(SCRATCH, "elsewhere", "session"), os.path.join(FOLDER, "outside"))
    os.symlink("grid_running", os.path.join(FOLDER, "latest"))
    os.symlink("loop", os.path.join(FOLDER, "loop"))
    os.makedirs(os.path.join(FOLDER, "plain"))
    os.makedirs(os.path.join(FOLDER, ".hidden", "log"))
    shutil.copy(running.path("log", "plan.json"), os.path.join(FOLDER, ".hidden", "log"))
    os.makedirs(os.path.join(FOLDER.encode(), b"\xff\xfe", b"log"))
    shutil.copy(running.path("log", "plan.json").encode(), os.path.join(FOLDER.encode(), b"\xff\xfe", b"log"))
    os.makedirs(running.path("web"))
    with open(running.path("web", "token"), "w", encoding="ascii") as file:
        file.write("1" * 64 + "\n")
    os.chmod(running.path("web", "token"), 0o600)
    try:
        with Server(FOLDER, "--listen", "127.0.0.1:0", "--token-view", sessions=True) as server:
            keys = os.path.join(FOLDER, ".icestream-web")
            assert os.stat(keys).st_mode & 0o777 == 0o700
            assert os.stat(os.path.join(keys, "token")).st_mode & 0o777 == 0o600
            with open(os.path.join(keys, "token.view"), encoding="ascii") as file:
                view = file.read().strip()
            alarms(server, running)
            states(server, ended, running)
            ways_in(server, ended, running)
            strangers(server, view)
            running.release()
            wait_for(lambda: listed(server)["grid_running"]["state"] != "running", "the end of the run")
            assert server.process.poll() is None
        closed_to_this_user()
    finally:
        ended.close()
        running.close()
    print("ok")


try:
    main()
finally:
    shutil.rmtree(SCRATCH, ignore_errors=True)
sys.exit(0)
