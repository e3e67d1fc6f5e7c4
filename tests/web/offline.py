#!/usr/bin/env python3
"""offline.py: the page without a network: in a network namespace of its own that has the loopback device alone, a run begins
with its page, the server answers at its socket and at a port, and a browser shows everything."""
import errno
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
INSIDE = "ICESTREAM_OFFLINE"


def enter():
    """Goes on in a namespace without a network; skips where the system allows none."""
    for words in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        try:
            allowed = subprocess.run([*words, "ip", "link", "set", "lo", "up"], capture_output=True).returncode == 0
        except OSError:
            allowed = False
        if allowed:
            script = 'ip link set lo up && exec "$@"'
            command = [*words, "sh", "-c", script, "sh", sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
            os.execvpe(words[0], command, {**os.environ, INSIDE: "1"})
    print("skipped: this system allows no network namespace (unshare, ip)")
    sys.exit(77)


def no_way_out():
    with socket.socket() as probe:
        found = probe.connect_ex(("192.0.2.1", 80))
        assert found in (errno.ENETUNREACH, errno.EHOSTUNREACH), os.strerror(found)


def server_answers():
    import make_session
    from server import Server
    scratch = tempfile.mkdtemp(prefix="icestream-offline-")
    session = make_session.Session(os.path.join(scratch, "session"), 20)
    try:
        for options in ([], ["--listen", "127.0.0.1:0"], ["--listen", "localhost:0"]):
            with Server(session.folder, *options) as server:
                code, _, page = server.ask("/")
                assert code == 200
                names = re.findall(rb'(?:src|href)="([^"#]+)"', page)
                assert {b"app.js", b"app.css"} <= set(names), names
                for name in names:
                    assert b"//" not in name or name.startswith(b"data:"), name
                    if not name.startswith(b"data:"):
                        assert server.ask("/" + name.decode())[0] == 200, name
                assert len(json.loads(server.ask("/api/items")[2])["n"]) == 20
                assert server.ask("/metrics")[0] == 200
        out = os.path.join(scratch, "report.html")
        subprocess.run([os.path.join(os.environ.get("ICESTREAM_BIN", os.path.join(HERE, "../../build/cpu/bin")), "icestream"),
                        "report", "--session", session.folder, "--o", out], check=True, stdout=subprocess.DEVNULL)
        with open(out, encoding="utf-8") as file:
            assert "<svg" in file.read()
    finally:
        session.close()
        shutil.rmtree(scratch)


def main():
    if INSIDE not in os.environ:
        enter()
    no_way_out()
    server_answers()
    print("the server answers")
    os.execv(sys.executable, [sys.executable, os.path.join(HERE, "page.py"), "page_offline"])


main()
