"""Ledgers in PostgreSQL: a session gives the same as with files, through a kill of stages and of the server. Runs beside
private_postgresql.sh.

    postgresql.py kill | away | rest"""

import os
import signal
import subprocess
import sys

from faults import (
    MICROGRAPHS,
    Run,
    Work,
    calm,
    check,
    counts,
    finish,
    graph,
    outcome,
    pids,
    run,
    same,
    same_numbers,
    wait_until,
    whole,
)

URL, HOME = os.environ["ICESTREAM_TEST_POSTGRESQL"], os.environ["ICESTREAM_TEST_POSTGRESQL_HOME"]
PASSWORD = open(os.environ["PGPASSFILE"]).read().strip().rsplit(":", 1)[1]


def extracted(session, count):
    return lambda: counts(session).get("extractor", {}).get("done", 0) >= count


def kill(work):
    """Stages are killed in the middle, then the launcher; a later run goes on."""
    session, path = work("session"), graph(work.path, session=f'ledger: "{URL}"', picker="replicas: 2")
    with Run(path, session, "--until-idle", "2") as live:
        wait_until(extracted(session, 20), 60, "20 extracted", live)
        os.kill(pids(session)["lowpass-picker.0"], signal.SIGKILL)
        wait_until(extracted(session, 60), 60, "60 extracted", live)
        os.kill(pids(session)["extractor.0"], signal.SIGKILL)
        wait_until(extracted(session, 90), 60, "90 extracted", live)
        check(not os.path.exists(f"{session}/ledger/extractor.sqlite"), "while it runs, no ledger is a file")
        live.kill()
    with Run(path, session, "--until-idle", "2") as live:
        live.finish(0)
    same(calm(), outcome(session))
    whole(session)
    same_numbers(session)


def main():
    with Work(f"postgresql-{sys.argv[1]}") as work:
        {"kill": kill}[sys.argv[1]](work)
    finish()


main()
