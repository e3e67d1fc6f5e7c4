"""Ledgers in PostgreSQL: a session gives the same as with files, through a kill of stages and of the server. Runs
beside private_postgresql.sh."""

import glob
import json
import os
import shutil
import signal
import subprocess
import time

from faults import (
    STAGES,
    Run,
    Work,
    calm,
    check,
    counts,
    finish,
    graph,
    outcome,
    pids,
    program,
    run,
    same,
    same_numbers,
    wait_until,
    whole,
    write,
)

URL, HOME = os.environ["ICESTREAM_TEST_POSTGRESQL"], os.environ["ICESTREAM_TEST_POSTGRESQL_HOME"]
TCP = os.environ["ICESTREAM_TEST_POSTGRESQL_TCP"]
PASSWORD = open(os.environ["PGPASSFILE"]).read().strip().rsplit(":", 1)[1]


def extracted(session, count):
    return lambda: counts(session).get("extractor", {}).get("done", 0) >= count


def end_server():
    """Ends the server at once, as a crash does; it stays away until come_back()."""
    open(f"{HOME}/away", "w").close()
    os.kill(int(open(f"{HOME}/data/postmaster.pid").readline()), signal.SIGQUIT)
    wait_until(lambda: not os.path.exists(f"{HOME}/data/postmaster.pid") or not answers(), 20, "the server is away")


def come_back():
    os.unlink(f"{HOME}/away")
    wait_until(answers, 30, "the server is back")


def answers():
    return subprocess.run(["psql", "-q", URL, "-c", "SELECT 1"], capture_output=True).returncode == 0


def psql(command):
    return subprocess.run(["psql", "-qAt", URL, "-c", command], capture_output=True, text=True, check=True).stdout


def beats(session):
    """Returns the times of all heartbeats."""
    found = []
    for name in glob.glob(f"{session}/log/*.heartbeat.json"):
        with open(name) as beat:
            found.append(json.load(beat)["time"])
    return found


def ask(*words):
    return subprocess.run([program("icestream"), *words], capture_output=True, text=True)


def holding(folder, word):
    """Returns the files below a folder that hold a word."""
    found = []
    for root, _, files in os.walk(folder):
        for name in files:
            with open(os.path.join(root, name), "rb") as file:
                if word.encode() in file.read():
                    found.append(name)
    return found


def disturbed(session, path):
    """Stages are killed, the server crashes and is away, the launcher is killed; a later run goes on."""
    with Run(path, session, "--until-idle", "4") as live:
        wait_until(extracted(session, 20), 60, "20 extracted", live)
        os.kill(pids(session)["lowpass-picker.0"], signal.SIGKILL)
        wait_until(extracted(session, 50), 60, "50 extracted", live)
        check(ask("report", "--session", session).returncode == 0, "a report is made of a session that runs")
        end_server()
        late = time.time() + 12
        wait_until(lambda: min(beats(session)) > late, 40, "hearts beat while the server is away", live)
        check(live.poll() is None, "the run waits for the server")
        come_back()
        wait_until(extracted(session, 80), 60, "80 extracted", live)
        os.kill(pids(session)["extractor.0"], signal.SIGKILL)
        wait_until(extracted(session, 100), 60, "100 extracted", live)
        check(not os.path.exists(f"{session}/ledger/extractor.sqlite"), "while it runs, no ledger is a file")
        live.kill()
    with Run(path, session, "--until-idle", "2") as live:
        live.finish(0)


def away(work):
    """Afterwards all who only read need no server."""
    session, path = work("session"), graph(work.path, session=f'ledger: "{TCP}"', picker="replicas: 2")
    disturbed(session, path)
    same(calm(), outcome(session))
    whole(session)
    same_numbers(session)
    check(holding(work.path, PASSWORD) == [], "nothing holds the password")
    end_server()
    shutil.copytree(session, work("copy"), ignore=shutil.ignore_patterns("sockets"))
    equal = counts(work("copy")) == counts(session) == calm()["counts"]
    check(equal, "status of the session and of a copy need no server")
    answer = ask("retry", "--session", session)
    check(answer.returncode != 0 and "cannot be reached" in answer.stderr, f"retry says what it needs: {answer.stderr}")
    come_back()
    rest(work, session, path)


def rest(work, session, path):
    """What looks after a session at rest works in PostgreSQL."""
    lost = sorted(os.listdir(f"{session}/lowpass-picker"))
    lost = next(f"{session}/lowpass-picker/{name}" for name in lost if name.endswith("_autopick.star"))
    check(run("verify", "--session", session).returncode == 0, "all files are as the ledgers say")
    os.unlink(lost)
    answer = ask("retry", "--lost", "--session", session)
    check(answer.returncode == 0, f"retry takes back what lost a file: {answer.stdout}{answer.stderr}")
    answer = ask("repair", "--session", session)
    check(answer.returncode == 0, f"repair: {answer.stdout}{answer.stderr}")
    shutil.copytree(session, work("twin"), ignore=shutil.ignore_patterns("sockets"))
    for words in (("retry",), ("repair",)):
        answer = ask(*words, "--session", work("twin"))
        refused = answer.returncode != 0 and "of which this is a copy" in answer.stderr
        check(refused, f"{words[0]} leaves the ledgers of the original alone: {answer.stderr}")
    check(run("backup", "--session", session, "--to", work("backup")).returncode == 0, "a backup is made")
    check(counts(work("backup"))["lowpass-picker"]["done"] == 199, "the backup holds the ledgers as they are now")
    answer = ask("run", path, "--session", work("backup"), "--until-idle", "1")
    check("of which this is a copy" in answer.stderr, f"a copy cannot go on beside its session: {answer.stderr}")
    schema = schemas()[0]
    psql(f"UPDATE \"{schema}\".version SET folder = 'elsewhere:/other' || folder")
    answer = ask("run", path, "--session", session, "--until-idle", "1")
    check("of elsewhere:/" in answer.stderr, f"a session of another folder on another host is left alone: {answer.stderr}")
    psql(f"UPDATE \"{schema}\".version SET folder = current_user")
    check(ask("retry", "--session", session).returncode == 0, "until it is freed")
    # A server that was lost with all it had: nothing begins anew, and the session goes on from the files of its ledgers.
    psql(f'DROP SCHEMA "{schema}" CASCADE')
    answer = ask("run", path, "--session", session, "--until-idle", "1")
    told = answer.returncode != 0 and "restore the server from its backup" in answer.stderr
    check(told, f"lost ledgers are told: {answer.stderr}")
    shutil.copy(f"{work('backup')}/ledger/postgresql.json", f"{session}/ledger/postgresql.json")
    for name in STAGES:
        shutil.copy(f"{work('backup')}/ledger/{name}.sqlite", f"{session}/ledger/{name}.sqlite")
    with Run(path, session, "--until-idle", "2") as live:
        live.finish(0)
    same(calm(), outcome(session))
    check(os.path.exists(lost), "the lost file was made again")


def schemas():
    return psql("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'icestream_%'").split()


def begun_anew(work):
    """A session that has finished nothing takes another graph and drops its ledgers; its copy must not drop them."""
    session, twin, empty = work("session"), work("twin"), work("empty")
    os.makedirs(empty)
    path = graph(work.path, micrographs=empty, session=f'ledger: "{TCP}"')
    with Run(path, session, "--until-idle", "1") as live:
        live.finish(0)
    shutil.copytree(session, twin, ignore=shutil.ignore_patterns("sockets"))
    before = schemas()
    path = graph(work.path, micrographs=empty, session=f'ledger: "{TCP}"', picker="replicas: 2")
    path = write(path, open(path).read().replace("6.0,", "6.5,"))
    answer = ask("run", path, "--session", twin, "--until-idle", "1")
    check("of which this is a copy" in answer.stderr, f"a copy with another graph is refused: {answer.stderr}")
    check(schemas() == before, "the ledgers of the original are there")
    with Run(path, session, "--until-idle", "1") as live:
        live.finish(0)
    check("has finished nothing so far" in open(f"{session}.out").read(), "the original takes the other graph")
    check(psql(f'SELECT folder FROM "{before[0]}".version').strip() == session, "and has its ledgers")
    gone_on(work, path)


def gone_on(work, path):
    """A copy can go on after its session has ended, on any host; whatever was copied before its last run cannot."""
    session, twin, old = work("session"), work("moved"), work("old")
    for copy in (twin, old):
        shutil.copytree(session, copy, ignore=shutil.ignore_patterns("sockets"))
    shutil.rmtree(session)
    with Run(path, twin, "--until-idle", "1") as live:
        live.finish(0)
    shutil.rmtree(twin)
    answer = ask("run", path, "--session", old, "--until-idle", "1")
    told = answer.returncode != 0 and f"have gone on with {twin} since" in answer.stderr
    check(told, f"an older copy is refused, though the other folder is not to be seen: {answer.stderr}")


def main():
    with Work("postgresql_anew") as work:
        begun_anew(work)
    for schema in schemas():
        psql(f'DROP SCHEMA "{schema}" CASCADE')
    with Work("postgresql") as work:
        away(work)
    finish()


main()
