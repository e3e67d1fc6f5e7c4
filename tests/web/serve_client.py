"""Starts `icestream serve` for a session and asks it over its Unix socket, as tests of endpoints do."""
import gzip
import http.client
import json
import os
import socket
import subprocess
import tempfile
import time

BIN = os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/cpu/bin"))
PATIENCE = 120.0


def wait_for(condition, what):
    """Waits until the condition returns something true, and returns that."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError("not in %d s: %s" % (PATIENCE, what))


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response):
        self.code, self.headers, self.body = response.status, response.headers, response.read()
        self.sent = len(self.body)
        if self.headers.get("Content-Encoding") == "gzip":
            self.body = gzip.decompress(self.body)

    def json(self):
        return json.loads(self.body)


class Events:
    """Server-sent events. `last`: the number of the last one that was seen; `seen`: the kinds of all."""

    def __init__(self, server, last=None):
        self.connection = UnixConnection(server.socket)
        headers = {"Authorization": "Bearer " + server.token}
        if last:
            headers["Last-Event-ID"] = last
        self.connection.request("GET", "/api/events", headers=headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200 and self.response.headers["Content-Type"].startswith("text/event-stream")
        self.last, self.seen = last, []

    def next(self, kind):
        """Waits for the next event of a kind, and returns its data; passes over others."""
        end = time.monotonic() + PATIENCE
        event, data = None, []
        while time.monotonic() < end:
            line = self.response.readline().decode().rstrip("\r\n")
            name, _, value = line.partition(": ")
            if name == "id":
                self.last = value
            elif name == "event":
                event = value
                self.seen.append(value)
            elif name == "data":
                data.append(value)
            elif not line and event == kind:
                return json.loads("\n".join(data))
            elif not line:
                event, data = None, []
        raise AssertionError("no event '%s' in %d s" % (kind, PATIENCE))

    def close(self):
        self.connection.close()


class Server:
    """A server of one session. The socket lies in a short folder of its own: a path of a socket has at most 107 bytes."""

    def __init__(self, folder, *options, environment=None):
        self.place = tempfile.mkdtemp(prefix="icestream-serve-")
        self.socket = os.path.join(self.place, "s")
        self.log = open(os.path.join(self.place, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen([os.path.join(BIN, "icestream"), "serve", "--session", folder, "--socket",
                                         self.socket, *options], stdout=self.log, stderr=subprocess.STDOUT,
                                        env=dict(os.environ, **(environment or {})))
        self.token_file = os.path.join(folder, "web", "token")
        wait_for(self.is_there, "the server's socket")
        with open(self.token_file, encoding="ascii") as file:
            self.token = file.read().split()[0]

    def is_there(self):
        if self.process.poll() is not None:
            self.log.seek(0)
            raise AssertionError("the server has ended: " + self.log.read())
        if not os.path.exists(self.socket) or not os.path.exists(self.token_file):
            return False
        try:
            UnixConnection(self.socket).connect()
        except OSError:
            return False
        return True

    def get(self, path, zipped=False, **headers):
        connection = UnixConnection(self.socket)
        given = {"Authorization": "Bearer " + self.token, "Accept-Encoding": "gzip" if zipped else "identity"}
        given.update(headers)
        connection.request("GET", path, headers=given)
        answer = Answer(connection.getresponse())
        connection.close()
        return answer

    def ask(self, path):
        """Returns the JSON of an answer that must be good."""
        answer = self.get(path)
        assert answer.code == 200, (path, answer.code, answer.body[:300])
        assert answer.headers["Content-Type"].startswith("application/json"), answer.headers["Content-Type"]
        return answer.json()

    def refused(self, path, code):
        """Asks for what must be refused with this code, with a message in JSON."""
        answer = self.get(path)
        assert answer.code == code, (path, answer.code, answer.body[:300])
        said = answer.json()
        assert said["ok"] is False and said["message"], said
        return said["message"]

    def events(self, last=None):
        return Events(self, last)

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()
