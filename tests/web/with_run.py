#!/usr/bin/env python3
"""with_run.py: the page beside a run: its address comes first; it may be killed; it outlives a launcher that is killed, and
ends with a run that ends."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from server import BIN, PATIENCE, Wire, wait_for

RELAY = os.path.join(BIN, "../tests/relay")
SCRATCH = tempfile.mkdtemp(prefix="icestream-with-run-")
COUNT = 30


class Page:
    """The page at an address that a run has printed."""

    def __init__(self, line, tunnel):
        self.address, self.token = re.search(r"http://([^/]+)/\?token=([0-9a-f]{64})", line).groups()
        found = re.search(r"ssh -L 8080:(/.*) \S+$", tunnel.strip())
        self.socket = found[1] if found else None

    def connect(self, timeout):
        if self.socket:
            wire = socket.socket(socket.AF_UNIX)
            wire.settimeout(timeout)
            wire.connect(self.socket)
            return wire
        host, port = self.address.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout)

    def get(self, path):
        """Returns code and body; (0, "") while nobody answers."""
        wire = Wire(self)
        try:
            wire.request("GET", path, headers={"Authorization": "Bearer " + self.token})
            answer = wire.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            wire.close()


def write_graph(folder, session="", waits=", hang_at: 20, hang_times: 1"):
    """A graph of stages that only pass items on; the second one waits at an item until the file `go` is there."""
    os.makedirs(folder)
    for name in ("source", "relay"):
        with open(f"{folder}/{name}.sh", "w", encoding="utf-8") as script:
            script.write(f"#!/bin/sh\nexec '{RELAY}' {name} \"$@\"\n")
        os.chmod(f"{folder}/{name}.sh", 0o755)
    graph = f"{folder}/graph.yaml"
    with open(graph, "w", encoding="utf-8") as file:
        file.write(f"{session}programs: [{folder}/source.sh, {folder}/relay.sh]\nstages:\n"
                   f"  source: {{program: {folder}/source.sh, count: {COUNT}}}\n"
                   f"  one: {{program: {folder}/relay.sh, from: source{waits}}}\n")
    return graph


def start(graph, folder, *options):
    return subprocess.Popen([f"{BIN}/icestream", "run", graph, "--session", f"{folder}/session", *options],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def server_of(launcher):
    """Returns the process number of the launcher's server, or None."""
    for task in os.listdir(f"/proc/{launcher.pid}/task"):
        with open(f"/proc/{launcher.pid}/task/{task}/children", encoding="ascii") as file:
            for child in file.read().split():
                try:
                    with open(f"/proc/{child}/cmdline", "rb") as words:
                        if b"\0serve\0" in words.read():
                            return int(child)
                except OSError:
                    pass
    return None


def finish(process, expected):
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == expected, (process.returncode, output)
    return output


def killed_server():
    folder = f"{SCRATCH}/port"
    graph = write_graph(folder)
    run = start(graph, folder, "--serve", "--listen", "127.0.0.1:0", "--hang-report", "100000")
    page = Page(run.stdout.readline(), run.stdout.readline())
    wait_for(lambda: os.path.exists(f"{folder}/session/one/hung_0"), "the item at which the stage waits")
    assert page.get("/healthz") == (200, "ok\n")
    wait_for(lambda: page.get("/readyz")[0] == 200, "a run that is all right")
    first = server_of(run)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: server_of(run) not in (None, first), "another server")
    wait_for(lambda: page.get("/readyz")[0] == 200, "the same address")
    assert run.poll() is None
    second = server_of(run)
    # The stage that waits is stopped and done: SIGTERM to the launcher, and then the rest of the run.
    run.send_signal(signal.SIGTERM)
    finish(run, 1)
    assert not os.path.exists(f"/proc/{second}") and page.get("/healthz") == (0, "")
    run = start(graph, folder, "--serve", "--listen", "127.0.0.1:0")
    assert Page(run.stdout.readline(), run.stdout.readline()).address == page.address
    output = finish(run, 0)
    assert re.search(rf"^one +{COUNT} +{COUNT} ", output, re.M), output
    assert page.get("/healthz") == (0, "")


def there_before_the_first_exposure():
    """The address is printed, and the page answers, before any stage has begun to look for exposures."""
    folder = f"{SCRATCH}/first"
    graph = write_graph(folder, waits="")
    with open(f"{folder}/source.sh", encoding="utf-8") as file:
        begin, program = file.read().split("\n", 1)
    with open(f"{folder}/source.sh", "w", encoding="utf-8") as file:
        file.write(f"{begin}\ncase \"$*\" in *instance*) until [ -e '{folder}/go' ]; do sleep 0.1; done ;; esac\n{program}")
    run = start(graph, folder, "--serve", "--listen", "127.0.0.1:0", "--hang-report", "100000")
    page = Page(run.stdout.readline(), run.stdout.readline())
    code, text = page.get("/")
    assert code == 200 and "<title>" in text, (code, text[:200])
    assert json.loads(page.get("/api/items")[1])["n"] == []
    with open(f"{folder}/go", "w", encoding="ascii"):
        pass
    output = finish(run, 0)
    assert re.search(rf"^one +{COUNT} +{COUNT} ", output, re.M), output
    # The report of the end is there when the run has exited.
    with open(f"{folder}/session/web/report.json", encoding="utf-8") as file:
        report = json.load(file)
    assert report["exposures"]["done"] == COUNT and report["session"]["state"] == "finished", report["session"]
    assert os.path.exists(f"{folder}/session/web/report.html")


def killed_launcher():
    folder = f"{SCRATCH}/socket"
    graph = write_graph(folder, "session: {web: true}\n")
    run = start(graph, folder, "--hang-report", "100000")
    page = Page(run.stdout.readline(), run.stdout.readline())
    assert page.socket == f"{folder}/session/web/ui.sock"
    wait_for(lambda: os.path.exists(f"{folder}/session/one/hung_0"), "the item at which the stage waits")
    wait_for(lambda: page.get("/readyz")[0] == 200, "a run that is all right")
    server = server_of(run)
    try:
        run.kill()
        run.communicate()
        begun = time.monotonic()
        wait_for(lambda: "no launcher runs this session" in page.get("/readyz")[1], "the page to say so")
        print(f"seen after {time.monotonic() - begun:.2f} s")
        # The next run finds the page where it was.
        run = start(graph, folder)
        assert Page(run.stdout.readline(), run.stdout.readline()).token == page.token
        output = finish(run, 0)
        assert re.search(rf"^one +{COUNT} +{COUNT} ", output, re.M), output
        assert page.get("/healthz") == (200, "ok\n")
        # Programs of others keep ledgers too, which came after the page.
        wait_for(lambda: json.loads(page.get("/api/items")[1])["state"] == [1] * COUNT, "all items, done")
    finally:
        os.kill(server, signal.SIGTERM)
    wait_for(lambda: page.get("/healthz") == (0, ""), "the end of the server")


def no_page_no_harm():
    """A run goes on where its page cannot begin."""
    folder = f"{SCRATCH}/none"
    graph = write_graph(folder, waits="")
    run = start(graph, folder, "--socket", f"{folder}/{'long' * 40}.sock")
    output = finish(run, 0)
    assert "no page yet" in output and re.search(rf"^one +{COUNT} +{COUNT} ", output, re.M), output
    with open(f"{folder}/session/log/serve.log", encoding="utf-8") as file:
        assert "--socket" in file.read()


try:
    for test in (there_before_the_first_exposure, killed_server, killed_launcher, no_page_no_harm):
        test()
    print("ok")
finally:
    shutil.rmtree(SCRATCH, ignore_errors=True)
sys.exit(0)
