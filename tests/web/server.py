"""Runs `icestream serve` for tests, and asks it over its socket or port."""
import http.client
import os
import re
import signal
import socket
import subprocess
import time

BIN = os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/cpu/bin"))
PATIENCE = 120  # s


def wait_for(condition, what):
    """Waits until the condition holds, and returns what it returned."""
    end = time.monotonic() + PATIENCE
    while True:
        seen = condition()
        if seen:
            return seen
        assert time.monotonic() < end, what
        time.sleep(0.05)


class Wire(http.client.HTTPConnection):
    """An HTTP connection over the server's socket."""

    def __init__(self, server):
        super().__init__("localhost", timeout=PATIENCE)
        self.server = server

    def connect(self):
        self.sock = self.server.connect(PATIENCE)


class Server:
    """A server of one session (or, with sessions=True, of a folder of sessions) until the block ends."""

    def __init__(self, folder, *options, sessions=False, environment=None):
        self.folder = folder
        self.process = subprocess.Popen(
            [os.path.join(BIN, "icestream"), "serve", "--sessions" if sessions else "--session", folder, *options],
            stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
        line = self.process.stdout.readline()
        found = re.search(r"http://([^/]+)/\?token=([0-9a-f]{64})$", line.strip())
        assert found, line
        self.address, self.token, self.socket = found[1], found[2], None
        line = self.process.stdout.readline()
        tunnel = re.search(r"ssh -L 8080:(/.*) \S+$", line.strip())
        if tunnel:
            self.socket = tunnel[1]
        self.url = "http://" + self.address + "/?token=" + self.token

    def connect(self, timeout):
        """Returns a connected socket."""
        if self.socket:
            wire = socket.socket(socket.AF_UNIX)
            wire.settimeout(timeout)
            end = time.monotonic() + timeout
            while True:
                try:
                    wire.connect(self.socket)
                    return wire
                except BlockingIOError:  # its queue is full
                    assert time.monotonic() < end
                    time.sleep(0.01)
        host, port = self.address.rsplit(":", 1)
        return socket.create_connection((host.strip("[]"), int(port)), timeout)

    def ask(self, path, token="", method="GET", body=None, headers=None):
        """Returns code, headers and body of an answer. token None: none; "": that of the server."""
        wire = Wire(self)
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = "Bearer " + (token or self.token)
        try:
            wire.putrequest(method, path, skip_host="Host" in sent, skip_accept_encoding=True)
            for name, value in sent.items():
                wire.putheader(name, value)
            if body is not None:
                wire.putheader("Content-Length", str(len(body)))
            wire.endheaders(body)
            answer = wire.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            wire.close()

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) in (0, -signal.SIGKILL)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
