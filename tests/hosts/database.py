"""PostgreSQL for a rig of hosts: on the bridge, with TLS, as a user of its own."""

import os
import shutil
import signal
import subprocess

from rig import SKIP, skip, until

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common/private_postgresql.sh")
LIST = "env | grep -E '^(ICESTREAM_TEST_POSTGRESQL|PGPASSFILE|PGSSLROOTCERT)'; echo; exec cat"


class Database:
    """url: what the hosts put into `session: {ledger: …}`; local: the same from the rig itself, where one may be
    everything. Programs on the hosts get what libpq needs in their environment."""

    def __init__(self, world):
        memory = os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 1e9
        env = dict(os.environ, ICESTREAM_TEST_POSTGRESQL_AT=f"rig {world.address}")
        env["TMPDIR"] = "/dev/shm" if memory else "/tmp"
        self.process = subprocess.Popen(
            [SCRIPT, "sh", "-c", LIST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        found, lines = {}, []
        for line in iter(self.process.stdout.readline, "\n"):
            if line == "":
                if self.process.wait() == SKIP:
                    skip(lines[-1].removeprefix("skipped: ").strip())
                raise AssertionError("".join(lines))
            lines.append(line)
            name, _, value = line.rstrip("\n").partition("=")
            found[name] = value
        self.home, self.local = found["ICESTREAM_TEST_POSTGRESQL_HOME"], found["ICESTREAM_TEST_POSTGRESQL"]
        self.url, self.loopback = found["ICESTREAM_TEST_POSTGRESQL_AT"], found["ICESTREAM_TEST_POSTGRESQL_TCP"]
        self.port = int(self.url.rsplit(":", 1)[1].split("/")[0])
        for name in ("PGPASSFILE", "PGSSLROOTCERT"):
            os.environ[name] = world.env[name] = found[name]

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.process.stdin.close()
        self.process.wait(20)

    def psql(self, command):
        return subprocess.run(
            ["psql", "-qAt", self.local, "-c", command], capture_output=True, text=True, check=True
        ).stdout

    def answers(self):
        return subprocess.run(["psql", "-q", self.local, "-c", "SELECT 1"], capture_output=True).returncode == 0

    def pid(self):
        with open(f"{self.home}/data/postmaster.pid") as file:
            return int(file.readline())

    def end(self):
        """Ends the server at once, as a crash does. It stays away until begin()."""
        open(f"{self.home}/away", "w").close()
        self.signal()
        until(lambda: not self.answers(), 20, "the server is away")

    def begin(self):
        os.unlink(f"{self.home}/away")
        until(self.answers, 30, "the server is back")

    def restart(self):
        """Ends the server at once; it starts again by itself."""
        self.end()
        self.begin()

    def signal(self):
        os.kill(self.pid(), signal.SIGQUIT)
