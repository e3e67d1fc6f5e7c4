#!/usr/bin/env python3
"""strangers.py [--patient]: the server of the page among strangers: without a token, under another name, from another
page, with addresses that lead out of the session, with too much, too little and too many. --patient: also waits until
the server closes what is idle (half a minute)."""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import make_session
from server import BIN, Server, wait_for

SCRATCH = tempfile.mkdtemp(prefix="icestream-strangers-")


def raw(server, data, timeout=120):
    """Sends bytes; returns all that comes back until the server closes."""
    with server.connect(timeout) as wire:
        answer = b""
        try:
            wire.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has heard enough; what it said may still be there
        while True:
            try:
                piece = wire.recv(65536)
            except ConnectionResetError:
                return answer
            if not piece:
                return answer
            answer += piece


def who_may_enter(server):
    for path in ["/", "/app.js", "/api/events", "/api/nothing", "/readyz", "/s/x/"]:
        code, headers, body = server.ask(path, token=None)
        assert code == 401, (path, code)
        assert json.loads(body)["ok"] is False and b"session" not in headers.get("Set-Cookie", "").encode()
    assert server.ask("/healthz", token=None)[0] == 200
    assert server.ask("/", token="0" * 64)[0] == 401
    assert server.ask("/?token=" + server.token, token=None)[0] == 303
    code, headers, _ = server.ask("/?token=" + server.token, token=None)
    cookie = headers["Set-Cookie"]
    assert headers["Location"] == "/" and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert server.ask("/", token=None, headers={"Cookie": cookie.split(";")[0]})[0] == 200
    code, headers, body = server.ask("/")
    assert code == 200 and b"<title>" in body
    for name, value in [("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
                        ("Cross-Origin-Resource-Policy", "same-origin")]:
        assert headers[name] == value
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "Access-Control-Allow-Origin" not in headers
    assert server.ask("/", headers={"If-None-Match": headers["ETag"]})[0] == 304


def names_and_origins(server):
    for host in ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "a b", ""]:
        assert server.ask("/", headers={"Host": host})[0] in (400, 403), host
    for host in ["localhost", "localhost:1", "127.0.0.1:65535", "[::1]:8080", "LOCALHOST:80"]:
        assert server.ask("/", headers={"Host": host})[0] == 200, host
    if server.ask("/api/control")[0] == 404:
        return
    body, good = b'{"do":"nothing"}', {"Content-Type": "application/json", "X-Icestream": "1", "Host": "localhost:80"}
    for change, code in [({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
                         ({"Origin": "http://localhost:81"}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403),
                         ({"Sec-Fetch-Site": "same-site"}, 403), ({"X-Icestream": ""}, 403),
                         ({"Content-Type": "text/plain"}, 415)]:
        seen = server.ask("/api/control", method="POST", body=body, headers={**good, **change})[0]
        assert seen == code, (change, seen)
    for text in [b"", b"{", b"[]", b"1", b'{"do":"x","do":"y"}', b"\xff", b'{"do":"' + b"[" * 5000, b"[" * 60000]:
        seen = server.ask("/api/control", method="POST", body=text, headers=good)[0]
        assert seen == 400, (text[:20], seen)
    assert server.ask("/api/control")[0] == 405
    assert server.ask("/api/control", token=None)[0] == 401
    assert server.ask("/", method="POST", body=b"{}", headers=good)[0] == 405
    for method in ["PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "FOO"]:
        assert server.ask("/", method=method)[0] in (400, 401, 404, 405), method


def no_way_out(server, session):
    os.symlink("/etc", os.path.join(session.folder, "out"))
    os.symlink("/etc/passwd", os.path.join(session.folder, "refiner", "run_it099_class001.mrc"))
    for path in ["/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "/out/passwd",
                 "/pic/../../etc/passwd/thumb.jpg", "/pic/%2e%2e/1/thumb.jpg", "/pic/out/1/passwd", "/web/token",
                 "/graph.yaml", "/log/plan.json", "//etc/passwd", "/./web/token", "/api/history/..%2fweb", "/%00",
                 "/api/history/out", "/api/map/..%2f..%2fetc%2fpasswd", "/api/map/it099",
                 "/api/log?instance=../web/token", "/app.js/../web/token", "/\\..\\..\\etc"]:
        code, _, body = server.ask(path)
        assert code in (400, 404, 415, 500, 501) and b"root:" not in body and server.token.encode() not in body, (path, code)


def too_much(server):
    authorization = b"Authorization: Bearer " + server.token.encode() + b"\r\n"
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
    assert raw(server, head + b"X-Long: " + b"a" * (1 << 20) + b"\r\n\r\n").split(b" ")[1:2] in ([b"431"], [])
    assert raw(server, head + b"Cookie: " + b"a" * 12000 + b"\r\n\r\n").split(b" ")[1] == b"431"
    assert raw(server, head + authorization + b"X: y\r\n" * 20000 + b"\r\n").split(b" ")[1:2] in ([b"431"], [])
    assert raw(server, b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n").split(b" ")[1:2] in (
        [b"414"], [b"431"], [])
    assert raw(server, b"GET /" + b"a" * 4000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").split(
        b" ")[1] == b"414"
    post = b"POST /api/control HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Icestream: 1\r\n"
    answer = raw(server, post + authorization + b"Content-Length: 1048576\r\nConnection: close\r\n\r\n" + b" " * 4096)
    assert answer.split(b" ")[1] == b"413", answer[:100]
    pieces = (b"%x\r\n" % 4096 + b" " * 4096 + b"\r\n") * 20 + b"0\r\n\r\n"
    answer = raw(server, post + authorization + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + pieces)
    assert answer.split(b" ")[1] == b"413", answer[:100]
    with server.connect(120) as wire:  # what is no request at all may wait for the rest of one
        wire.sendall(b"\x00\xff\x80garbage\r\n\r\n")
    assert server.ask("/")[0] == 200


def idle(server):
    """200 connections that say nothing, others that stop half way: the server goes on. Returns them."""
    wires = []
    for i in range(200):
        wire = server.connect(120)
        try:
            if i % 3 == 0:
                wire.sendall(b"GET / HT")
            if i % 3 == 1:
                wire.sendall(b"POST /api/control HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        except OSError:
            pass
        wires.append(wire)
        if i % 50 == 49:
            assert server.ask("/healthz", token=None)[0] == 200
    assert server.ask("/")[0] == 200
    return wires


def closed_in_time(server):
    """All of them are closed, each within the 30 s that a whole request may take."""
    wires = idle(server)
    for wire in wires:
        try:
            while wire.recv(4096):
                pass
        except ConnectionResetError:
            pass
        wire.close()
    assert server.ask("/")[0] == 200


def streams(server):
    """More listeners than there is room for: the others are told so, and requests go on."""
    wires, codes = [], []
    for _ in range(20):
        wire = server.connect(120)
        wire.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + server.token.encode() +
                     b"\r\n\r\n")
        wires.append(wire)
        codes.append(int(wire.recv(12, socket.MSG_WAITALL).split(b" ")[1]))
    assert codes.count(200) == 16 and codes.count(503) == 4, codes
    assert server.ask("/")[0] == 200
    for wire in wires:
        wire.close()


def listeners_are_noticed(server):
    """Listeners who are gone leave their room to others once something was sent to them."""
    streams(server)
    wait_for(lambda: listens(server), "room for a listener")


def listens(server):
    wire = server.connect(120)
    wire.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + server.token.encode() +
                 b"\r\n\r\n")
    code = wire.recv(12, socket.MSG_WAITALL).split(b" ")[1]
    wire.close()
    return code == b"200"


def guessing(server):
    """Bad tokens: from the sixth within a minute on, each waits a second, and nobody else does."""
    for _ in range(6):
        server.ask("/", token="1" * 64)
    begun = time.monotonic()
    slow = [threading.Thread(target=server.ask, args=("/",), kwargs={"token": "2" * 64}) for _ in range(4)]
    for thread in slow:
        thread.start()
    assert server.ask("/")[0] == 200
    for thread in slow:
        thread.join()
    assert time.monotonic() - begun >= 1


def beyond_this_machine(session):
    """Others reach the server only where somebody says so; /metrics is open only where it was asked for, and here."""
    words = [os.path.join(BIN, "icestream"), "serve", "--session", session.folder, "--listen", "0.0.0.0:0"]
    refused = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert refused.returncode == 2 and "--behind-proxy" in refused.stderr, refused
    for options, code in ((["127.0.0.1:0"], 401), (["127.0.0.1:0", "--metrics-open"], 200),
                          (["0.0.0.0:0", "--behind-proxy", "--metrics-open"], 401)):
        with Server(session.folder, "--listen", *options) as server:
            seen, headers, _ = server.ask("/metrics", token=None, headers={"Host": "localhost"})
            assert seen == code, (options, seen)
            assert server.ask("/api/items", token=None, headers={"Host": "localhost"})[0] == 401, options
            if code == 200:
                assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", headers


def main():
    session = make_session.Session(os.path.join(SCRATCH, "session"), 20)
    try:
        with Server(session.folder) as server:
            assert os.stat(server.socket).st_mode & 0o777 == 0o600
            assert os.stat(os.path.join(session.folder, "web", "token")).st_mode & 0o777 == 0o600
            for test in [who_may_enter, names_and_origins]:
                test(server)
            no_way_out(server, session)
            for test in [too_much, guessing, idle, streams]:
                test(server)
            if "--patient" in sys.argv:
                with Server(session.folder, "--listen", "127.0.0.1:0") as other:
                    for test in [listeners_are_noticed, closed_in_time]:
                        test(other)
            assert server.process.poll() is None
        assert not os.path.exists(server.socket)
        beyond_this_machine(session)
        before = server.token
        with Server(session.folder, "--new-token", "--token-view") as server:
            assert server.token != before and server.ask("/", token=before)[0] == 401
            with open(os.path.join(session.folder, "web", "token.view"), encoding="ascii") as file:
                view = file.read().strip()
            assert server.ask("/", token=view)[0] == 200
            good = {"Content-Type": "application/json", "X-Icestream": "1"}
            assert server.ask("/api/control", token=view, method="POST", body=b"{}", headers=good)[0] in (403, 404)
    finally:
        session.close()
    print("ok")


try:
    main()
finally:
    shutil.rmtree(SCRATCH)
sys.exit(0)
