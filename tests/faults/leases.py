"""Leases of a session in PostgreSQL: one launcher at a time, on whichever host. Another host is a namespace of its own.
Runs beside private_postgresql.sh."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from faults import (
    SKIP,
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
    simulate,
    wait_until,
    whole,
    write,
)
from session import REFINING, history, star

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../web"))
import serve_client  # noqa: E402

URL, TCP = os.environ["ICESTREAM_TEST_POSTGRESQL"], os.environ["ICESTREAM_TEST_POSTGRESQL_TCP"]
HOME = os.environ["ICESTREAM_TEST_POSTGRESQL_HOME"]
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


def psql(command):
    return subprocess.run(["psql", "-qAt", URL, "-c", command], capture_output=True, text=True, check=True).stdout


def leads(session):
    return os.readlink(f"{session}/refiner")


def tree(folder):
    return {name: os.stat(f"{folder}/{name}").st_mtime_ns for name in os.listdir(folder)}


def take_as_another(session, number):
    """Takes the lease of the refiner as a process of another host does, up to the point where it works."""
    schema = psql("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'icestream_%'").strip()
    new, before = f"leases/refiner.{number}/refiner", f"{session}/{leads(session)}"
    shutil.copytree(before, f"{session}/{new}", symlinks=True)
    psql(
        f'UPDATE "{schema}".leases SET number = {number}, counts = {number}, token = \'another\', host = \'elsewhere\','
        f" process = '', renewed = clock_timestamp() WHERE name = 'refiner'"
    )
    os.symlink(new, f"{session}/.refiner.another")
    os.rename(f"{session}/.refiner.another", f"{session}/refiner")
    return f"{session}/{new}"


def refining(work):
    """Writes the graph of a session that refines simulated particles."""
    simulate(work("sim"), micrographs=6, size=512, pixel_size=4.0, particles=30, interval=0, seed=4)
    text = REFINING.format(more="max_iterations: 8, min_particles: 1000").replace("pixel_size", f'ledger: "{TCP}", pixel_size')
    text = text.replace("INCOMING", work("sim", "micrographs")).replace("TRUTH", work("sim", "truth"))
    return write(work("graph.yaml"), text)


def stands_still(work):
    """A refiner stands still while another takes its lease: when it wakes, it leaves the other's folder alone and ends.
    The other one dies at once, and after its lease the refiner goes on from what that one had."""
    session, path = work("session"), refining(work)
    with Run(path, session, "--until-idle", "1") as live:
        wait_until(lambda: history(session, "refiner"), 60, "a first iteration", live)
        refiner = pids(session)["refiner.0"]
        os.kill(refiner, signal.SIGSTOP)
        check(leads(session) == "leases/refiner.1/refiner", f"the first lease counts: {leads(session)}")
        folder = take_as_another(session, 5)
        before = tree(folder)
        os.kill(refiner, signal.SIGCONT)
        wait_until(lambda: pids(session).get("refiner.0") not in (refiner, None), 30, "the refiner begins again", live)
        check(tree(folder) == before, "the one that was late wrote nothing into the folder of the other")
        check(leads(session) == "leases/refiner.5/refiner", f"the other's lease counts: {leads(session)}")
        told = open(f"{session}/log/refiner.0.log").read()
        check("another process has taken the lease of refiner" in told, "and it knows why it ended")
        wait_until(lambda: leads(session) == "leases/refiner.6/refiner", 30, "the refiner has a lease again", live)
        live.finish(0, 240)
    refined = [row["rlnImageName"] for row in star(f"{session}/refiner/run_data.star")["particles"]]
    extracted = {row["rlnImageName"] for row in star(f"{session}/extractor/particles.star")["particles"]}
    check(len(refined) == len(extracted) == len(set(refined)), f"{len(refined)} of {len(extracted)} particles, each once")
    check(history(session, "refiner")[-1]["final"], "the last map is final")
    iterations = [event["iteration"] for event in history(session, "refiner")]
    check(len(set(iterations)) == len(iterations), f"it went on from the other's iterations: {iterations}")
    for name in ("refiner/run_class001.mrc", "refiner/run_data.star"):
        check("leases/" not in open(f"{session}/{name}", "rb").read().decode(errors="replace"), f"{name} names no lease")
    answer = subprocess.run([program("icestream"), "verify", "--session", session], capture_output=True, text=True)
    check(answer.returncode == 0, f"all files are as the ledgers say: {answer.stdout}{answer.stderr}")
    rest(work, session)
    folders = sorted(os.listdir(f"{session}/leases"))
    check([name for name in folders if "refiner" in name] == ["refiner.5", "refiner.6"], f"the last two stay: {folders}")


def rest(work, session):
    """Those who look find the products under their promised names."""
    server = serve_client.Server(session)
    try:
        sizes = [len(server.get(path).body) for path in ("/api/map/latest?n=32", "/api/fsc", "/api/history/refiner")]
        check(min(sizes) > 100, f"the page shows map, resolution and history: {sizes} bytes")
    finally:
        server.close()
    check(run("report", "--session", session).returncode == 0, "a report is made")
    run("backup", "--session", session, "--to", work("backup"), "--products")
    maps = [open(f"{folder}/refiner/run_class001.mrc", "rb").read() for folder in (session, work("backup"))]
    check(maps[0] == maps[1], "a backup holds the map")


def end_server():
    """Ends the server at once, as a crash does; it stays away until the file `away` is removed."""
    open(f"{HOME}/away", "w").close()
    os.kill(int(open(f"{HOME}/data/postmaster.pid").readline()), signal.SIGQUIT)


def server_away(work):
    """A refiner that cannot renew its lease puts no file in its place, and goes on when the server is back."""
    session, path = work("session"), refining(work)
    with Run(path, session, "--until-idle", "1") as live:
        wait_until(lambda: history(session, "refiner"), 60, "a first iteration", live)
        refiner, log = pids(session)["refiner.0"], f"{session}/log/refiner.0.log"
        os.kill(refiner, signal.SIGSTOP)  # or it would be done before its lease ends, on a quick machine
        end_server()
        ended = time.time() + 7
        wait_until(lambda: time.time() > ended, 30, "its lease has not been renewed for 6 s", live)
        os.kill(refiner, signal.SIGCONT)
        wait_until(lambda: "could not be renewed for 6 s" in open(log).read(), 60, "the refiner waits for its lease", live)
        before = tree(f"{session}/refiner")
        # The launcher and the stages try once a second: three times, nothing happens.
        heard = time.time() + 3
        wait_until(lambda: os.stat(f"{session}/log/refiner.0.heartbeat.json").st_mtime > heard, 30, "its heart beats", live)
        after = {name: at for name, at in tree(f"{session}/refiner").items() if not name.endswith(".partial")}
        check(after == {name: before[name] for name in after if name in before}, "nothing was put in its place meanwhile")
        os.unlink(f"{HOME}/away")
        live.finish(0, 240)
    check(history(session, "refiner")[-1]["final"], "the last map is final")
    number = int(leads(session).split("/")[1].split(".")[1])
    check(number == 1, f"it is the same lease, since nobody has taken it: {number}")


def main():
    need_namespaces()
    cases = {"moves": moves, "stands_still": stands_still, "server_away": server_away}
    with Work("leases") as work:
        cases[sys.argv[1]](work)
    finish()


main()
