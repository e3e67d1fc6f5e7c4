#!/usr/bin/env python3
"""control.py: POST /api/control over the server's socket: what the page does stands in the history of the session with who
asked for it, in a session that does not run; who may only look may do nothing."""
import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

from server import BIN, Server

SCRATCH = tempfile.mkdtemp(prefix="icestream-control-")
SESSION = os.path.join(SCRATCH, "session")
F_OFD_SETLK = 37  # of Linux; Python 3.11 does not know it
HEADERS = {"Content-Type": "application/json", "X-Icestream": "1", "Host": "localhost:80"}


def post(server, token="", **body):
    code, _, text = server.ask("/api/control", token=token, method="POST", body=json.dumps(body).encode(), headers=HEADERS)
    return code, json.loads(text)


def status():
    words = [os.path.join(BIN, "icestream"), "status", "--session", SESSION, "--json"]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def changes():
    return status()["changes"]


def write_members(sheet):
    """Writes the table of particles of a snapshot, which made sessions lack, with as many members as the model says."""
    rows = [f"{k:06d}@extractor/mic_{one['number']}.mrcs {one['number']}" for one in sheet["classes"]
            for k in range(1, one["members"] + 1)]
    with open(os.path.join(SESSION, "classifier", f"run_it{sheet['iteration']:03d}_data.star"), "w") as star:
        star.write("data_particles\n\nloop_\n_rlnImageName #1\n_rlnClassNumber #2\n" + "\n".join(rows) + "\n")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    subprocess.run([sys.executable, os.path.join(here, "make_session.py"), SESSION, "--exposures", "20"], check=True)
    assert changes() == []
    with Server(SESSION, "--token-view") as server:
        items = json.loads(server.ask("/api/items")[2])
        first, second = items["n"][:2]
        code, answer = post(server, do="mark", n=[first, second], mark="reject", why="crack <b>\"in\"</b> the ice")
        assert code == 200 and answer["ok"] and answer["changed"] == 2 and answer["change"] == 1, answer
        change = changes()[0]
        assert change["by"] == "mark" and change["peer"] == f"uid {os.getuid()}", change
        assert [one["mark"] for one in change["marks"]] == ["reject", "reject"], change
        assert change["marks"][0]["why"] == "crack <b>\"in\"</b> the ice", change
        marks = {one["id"]: one["mark"] for one in status()["marks"]}
        assert len(marks) == 2 and set(marks.values()) == {"reject"}, marks
        code, answer = post(server, do="mark", n=[second], mark=None)
        assert code == 200 and answer["changed"] == 1 and len(status()["marks"]) == 1, answer

        # A mark brings nothing back that a rule has rejected: the page and the command line say so, and what would.
        lost = items["state"].index(2)
        code, answer = post(server, do="mark", n=[items["n"][lost]], mark="keep")
        assert code == 200 and "a mark brings nothing back: set another rule, and redo" in answer["message"], answer
        words = [os.path.join(BIN, "icestream"), "mark", "--session", SESSION, "--keep"]
        out = subprocess.run([*words, items["name"][lost]], capture_output=True, text=True, check=True).stdout
        assert "nothing has changed" in out and "a mark brings nothing back" in out, out
        assert "brings" not in post(server, do="mark", n=[second], mark="keep")[1]["message"]
        assert json.loads(server.ask("/api/items")[2])["state"][lost] == 2

        sheet = json.loads(server.ask("/api/classes")[2])
        code, answer = post(server, do="classes", iteration=sheet["iteration"], keep=[1, 2])
        assert code == 404 and "_data.star is missing" in answer["message"], answer
        write_members(sheet)
        code, answer = post(server, do="classes", iteration=sheet["iteration"], keep=[1, 2])
        assert code == 200 and answer["ok"], answer
        entries = changes()[-1]["choices"]
        assert [one["choice"] for one in entries] == ["keep", "reject"] and entries[0]["classes"] == [1, 2], entries
        assert len(entries[1]["classes"]) == len(sheet["classes"]) - 2, entries
        members = sum(one["members"] for one in sheet["classes"] if one["number"] in (1, 2))
        assert entries[0]["particles"] == members, (entries, sheet["classes"])
        code, answer = post(server, do="classes", iteration=sheet["iteration"], keep=None)
        assert code == 200 and answer["changed"] == len(sheet["classes"]), answer

        failed = status()["stages"]
        stage = next((name for name, one in failed.items() if one["failed"]), None)
        if stage is not None:
            code, answer = post(server, do="retry", stage=stage)
            assert code == 200 and answer["changed"] == failed[stage]["failed"], answer
            assert changes()[-1]["by"] == "retry" and "through again" in changes()[-1]["note"], changes()[-1]

        # Somebody else holds the history: the page does not wait for long, and nobody else waits for it.
        before = len(changes())
        with open(os.path.join(SESSION, "changes", ".lock"), "r+b") as lock:
            # struct flock of 64-bit Linux: type, start, length, process.
            whole = struct.pack("hhlli4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            fcntl.fcntl(lock, F_OFD_SETLK, whole)
            code, answer = post(server, do="mark", n=[first], mark="keep")
            assert code == 503 and "somebody else" in answer["message"], (code, answer)
        assert post(server, do="mark", n=[first], mark="keep")[1]["changed"] == 1
        assert len(changes()) == before + 1

        before = len(changes())
        for code, body in ((409, {"do": "drain"}), (409, {"do": "stop"}), (400, {"do": "dance"}),
                           (404, {"do": "mark", "n": [10**9], "mark": "keep"}),
                           (400, {"do": "mark", "n": ["x"], "mark": "keep"}),
                           (400, {"do": "mark", "n": [first], "mark": "drop"})):
            seen, answer = post(server, **body)
            assert seen == code and answer["ok"] is False and answer["message"], (body, seen, answer)
        view = open(os.path.join(SESSION, "web", "token.view")).read().strip()
        assert post(server, token=view, do="mark", n=[first], mark="keep")[0] == 403
        assert "mark" in json.loads(server.ask("/api/session")[2])["may"]
        assert json.loads(server.ask("/api/session", token=view)[2])["may"] == []
        assert len(changes()) == before, "what was refused is not in the history"

        # A choice for no class changes none; only one that takes choices back may mean all.
        newest = max(name for name in os.listdir(os.path.join(SESSION, "changes")) if name.endswith(".json"))
        with open(os.path.join(SESSION, "changes", newest), encoding="utf-8") as file:
            last = json.load(file)
        number = last["number"] + 1
        none = {"stage": "classifier", "iteration": sheet["iteration"], "classes": [], "choice": "keep", "particles": 0}
        with open(os.path.join(SESSION, "changes", "%04d.json" % number), "w", encoding="utf-8") as file:
            json.dump({**last, "number": number, "by": "mark", "marks": [], "choices": [none]}, file)
        assert changes()[-1]["choices"] == [none], changes()[-1]
        assert {one["hand"] for one in json.loads(server.ask("/api/classes")[2])["classes"]} == {None}
    shutil.rmtree(SCRATCH)


main()
