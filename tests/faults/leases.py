"""Leases of a session in PostgreSQL: one launcher at a time, on whichever host. Another host is a namespace of its own.
Runs beside private_postgresql.sh."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from faults import SKIP, Run, Work, calm, check, counts, finish, graph, outcome, program, same, wait_until, whole

TCP = os.environ["ICESTREAM_TEST_POSTGRESQL_TCP"]
UNSHARE = ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
AS_ANOTHER = [*UNSHARE, "sh", "-c", 'hostname elsewhere && exec "$@"', "sh"]


def need_namespaces():
    if shutil.which("unshare") is None or subprocess.run([*AS_ANOTHER, "true"], capture_output=True).returncode != 0:
        print("skipped: this user can make no namespaces, which stand for other hosts")
        sys.exit(SKIP)


class RunElsewhere(Run):
    """Runs `icestream run` as on another host."""

    def __init__(self, graph_path, session, *options):
        self.session, self.log, self.at = session, f"{session}.elsewhere.out", 0
        with open(self.log, "wb") as log:
            words = [*AS_ANOTHER, program("icestream"), "run", graph_path, "--session", session, *map(str, options)]
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        self.pid = self.process.pid


def extracted(session, count):
    return lambda: counts(session).get("extractor", {}).get("done", 0) >= count


def running(session, number):
    return lambda: f"run {number}, process" in open(f"{session}/log/icestream.log").read()


def moves(work):
    """A launcher on another host is refused while this one lives, and takes over from one that stands still."""
    session, path = work("session"), graph(work.path, session=f'ledger: "{TCP}"', watcher="poll: 1")
    with Run(path, session, "--until-idle", "4") as first:
        wait_until(extracted(session, 20), 60, "20 extracted", first)
        with RunElsewhere(path, session) as second:
            told = second.finish(1, 30)
        who = f"another icestream is running this session: process {first.pid} on the host {socket.gethostname()}"
        check(who in told, f"a second launcher learns who runs the session: {told[-400:]}")
        first.signal(signal.SIGSTOP)
        since = time.time()
        with RunElsewhere(path, session, "--until-idle", "2") as second:
            wait_until(running(session, 2), 30, "another host has taken over", second)
            print(f"taken over after {time.time() - since:.1f} s")
            first.signal(signal.SIGCONT)
            told = first.finish(1, 60)
            check("has taken this session over" in told, f"the first launcher learns it, and ends: {told[-600:]}")
            second.finish(0)
    same(calm(), outcome(session))
    whole(session)


def main():
    need_namespaces()
    with Work("leases") as work:
        moves(work)
    finish()


main()
