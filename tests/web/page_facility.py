"""The list of `icestream serve --sessions` in a real browser: sessions with state and counts, and the way into each."""
import os
import re
import shutil
import signal
import subprocess
import tempfile

import make_session
import web


class Facility:
    """A folder of two sessions, one of which runs, and the server that shows them."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="icestream-facility-")
        self.sessions = [make_session.Session(os.path.join(self.folder, "grid <1> & 2"), exposures=25),
                         make_session.Session(os.path.join(self.folder, "grid_running"), exposures=30, running=True)]
        for session in self.sessions:  # what the maker keeps beside a session is none
            os.makedirs(session.data, exist_ok=True)
        self.server = subprocess.Popen([web.ICESTREAM, "serve", "--sessions", self.folder, "--listen", "127.0.0.1:0"],
                                       stdout=subprocess.PIPE, text=True)
        self.url = None
        for line in self.server.stdout:
            match = re.search(r"http://\S+", line)
            if match:
                self.url = match.group(0)
                break

    def close(self):
        self.server.send_signal(signal.SIGTERM)
        self.server.wait()
        self.server.stdout.close()
        for session in self.sessions:
            session.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def test_the_list_of_sessions(page):
    """Running sessions come first; a name is text; a link leads to the session's own page, and back."""
    facility = Facility()
    try:
        assert facility.url, "icestream serve --sessions printed no address"
        page.driver.get(facility.url)
        page.wait("document.querySelectorAll('.sessions tbody tr').length === 2", "two sessions")
        # The server lists a session before it has found out that it runs.
        page.wait("document.querySelector('.sessions tbody th').textContent === 'grid_running'", "the running session first")
        names = page.texts(".sessions tbody th")
        assert names == ["grid_running", "grid <1> & 2"], names
        rows = page.get("[...document.querySelectorAll('.sessions tbody tr')]"
                        ".map((row) => [...row.children].map((it) => it.textContent))")
        assert "running" in rows[0][1] and "finished" in rows[1][1], rows
        assert rows[0][3:7] == ["30", "28", "✕ 1", "▲ 1"] and rows[1][3:7] == ["25", "23", "✕ 1", "▲ 1"], rows
        page.write(".tools input", "no such")
        page.wait("document.querySelector('.sessions tbody').textContent.includes('No session')", "none is found")
        page.write(".tools input", "<1>")
        page.wait("document.querySelectorAll('.sessions tbody th').length === 1", "one is found")
        page.click(".sessions tbody a")
        page.wait("window.ice && ice.store.session && ice.store.rows.length === 25", "the page of that session")
        page.wait("document.getElementById('all-sessions')", "the way back")
        page.click("#all-sessions")
        page.wait("document.querySelectorAll('.sessions tbody tr').length === 2", "the list again")
    finally:
        page.driver.get("about:blank")
        page.shown = None
        facility.close()
        # The browser asks a closed server for the last time.
        page.complaints()
