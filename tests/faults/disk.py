#!/usr/bin/env python3
"""A disk that is full, read-only, failing or gone, too few descriptors, too little memory: said clearly, nothing
half-written is taken for whole, and once the cause is gone the run ends as one that nothing disturbed.

disk.py CASE [ROUNDS]"""
import errno
import os
import resource
import shutil
import subprocess
import sys
import time

from faults import (BIN, COUNT, SKIP, STAGES, Run, Work, arrive, calm, check, counts, done, finish, graph, names, outcome,
                    pids, program, run, same, seeded, status, wait_until, whole)

PRELOAD = os.path.join(BIN, "../tests/preload_disk.so")


class Fault:
    """Writing below a folder fails for the programs that were started with .environment, while it is on."""

    def __init__(self, path):
        self.path = path
        self.environment = {**os.environ, "LD_PRELOAD": PRELOAD, "ICESTREAM_DISK_FAULT": path}

    def on(self, folder, number):
        with open(self.path + ".new", "w") as control:
            control.write(f"{os.path.realpath(folder)}\n{number}\n")
        os.rename(self.path + ".new", self.path)

    def off(self):
        os.unlink(self.path)


def notes(session):
    """What the stages say of themselves now."""
    return " ".join(s["note"] for s in status(session)["stages"].values())


def logs(session):
    return "".join(open(f"{session}/log/{n}", errors="replace").read() for n in os.listdir(f"{session}/log") if n.endswith(".log"))


def half_written(session):
    """Products that are there under their own name, yet are not whole."""
    wrong = []
    for folder, _, files in os.walk(os.path.join(session, "extractor")):
        for name in files:
            path = os.path.join(folder, name)
            if name.endswith(".mrcs") and not name.startswith("."):
                header = open(path, "rb").read(16)
                nx, ny, nz, mode = (int.from_bytes(header[i:i + 4], "little") for i in (0, 4, 8, 12))
                if len(header) < 16 or mode != 2 or os.path.getsize(path) != 1024 + 4 * nx * ny * nz:
                    wrong.append(path)
    return wrong


def session_under(work, name, live_options=(), **keys):
    return graph(work.path, f"{name}.yaml", **keys), work(name)


def ends_calmly(session, live, what):
    live.finish(0)
    same(calm(), outcome(session), what)
    whole(session, what)


def case_refused(rounds):
    """Each folder of a session in turn refuses to be written to, with each of several errors, at random times."""
    chosen = seeded()
    errors = (errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO, errno.EMFILE)
    with Work("disk") as work:
        fault, session = Fault(work("fault")), work("session")
        path = graph(work.path)
        with Run(path, session, "--until-idle", "4", env=fault.environment) as live:
            for i in range(rounds):
                folder = ("log", "", "extractor", "lowpass-picker", "ledger", "watcher")[i % 6]
                number = chosen.choice(errors)
                name = f"{errno.errorcode[number]} in {folder or 'the session'}"
                target = 1 + (COUNT - 20) * i // rounds + chosen.randrange(10)
                wait_until(lambda: done(session, "extractor") >= target, 60, f"{target} are done", live)
                fault.on(os.path.join(session, folder), number)
                try:
                    if folder in ("extractor", "lowpass-picker", "ledger"):
                        wait_until(lambda: os.strerror(number) in notes(session) or "ledger" in notes(session), 30,
                                   f"{name} is said", live)
                        check(True, f"{name}: {notes(session)[:160]}")
                    else:
                        time.sleep(1.5)  # so long it lasts: where nothing can be written, nothing can be seen to happen
                    check(live.poll() is None, f"{name}: the launcher goes on")
                    check(not half_written(session), f"{name}: nothing half-written {half_written(session)[:2]}")
                finally:
                    fault.off()
            ends_calmly(session, live, "refused")
            said = logs(session)
            check(" WARN waits " in said and " INFO goes-on " in said, "the log says that it waits, and goes on")
            check(not [i for i in status(session)["items"] if i["state"] == "failed"], "no item is blamed")
        finish()


def case_folder(rounds):
    """A product folder is moved away and put back; closed to writing and opened; and deleted for good."""
    with Work("folder") as work:
        session, path = work("session"), graph(work.path)
        with Run(path, session, "--until-idle", "2") as live:
            for i, stage in enumerate(("extractor", "lowpass-picker")):
                wait_until(lambda: done(session, "extractor") >= 20 + 40 * i, 60, "some are done", live)
                os.rename(work("session", stage), work("away"))
                wait_until(lambda: f"{stage}: the folder" in notes(session), 30, f"{stage}: that its folder is gone is said", live)
                check(True, notes(session)[:160])
                os.rename(work("away"), work("session", stage))
            if os.geteuid() != 0:
                os.chmod(work("session", "extractor"), 0o500)
                wait_until(lambda: "denied" in notes(session), 30, "that the folder is closed is said", live)
                os.chmod(work("session", "extractor"), 0o755)
            ends_calmly(session, live, "moved away and put back")
        session = work("deleted")
        with Run(path, session, "--until-idle", "2") as live:
            wait_until(lambda: done(session, "extractor") >= 60, 60, "some are done", live)
            os.rename(work("deleted", "lowpass-picker"), work("dust"))  # or files come while it is emptied
            shutil.rmtree(work("dust"))
            wait_until(lambda: "gone" in notes(session), 30, "that the folder was deleted is said", live)
            live.signal(15)
            live.finish(1)
        print(run("retry", "--session", session, "--lost").stdout[-200:])
        with Run(path, session, "--until-idle", "2") as live:
            ends_calmly(session, live, "deleted and made again")
        finish()


def case_full(rounds):
    """A real file system of a few MB that is full, in a name space of its own."""
    if os.environ.get("ICESTREAM_IN_NAMESPACE") is None:
        probe = ["unshare", "-Urm", "sh", "-c", "mount -t tmpfs -o size=1m none /mnt"]
        if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True).returncode != 0:
            print("skipped: no file system can be mounted in a name space of one's own")
            sys.exit(SKIP)
        os.execvpe("unshare", ["unshare", "-Urm", sys.executable, *sys.argv], {**os.environ, "ICESTREAM_IN_NAMESPACE": "1"})
    calm_size = int(subprocess.run(["du", "-sk", os.path.join(os.path.dirname(calm.__globals__["MICROGRAPHS"]), "..", "calm")],
                                   capture_output=True, text=True, check=True).stdout.split()[0])
    with Work("full") as work:
        os.mkdir(work("disk"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={2 * calm_size + 8192}k,nr_inodes=20000", "none", work("disk")], check=True)
        session, ballast = work("disk", "session"), work("disk", "ballast")
        path = graph(work.path, watcher="min_free: 0")
        with Run(path, session, "--until-idle", "2") as live:
            for i in range(rounds):
                target = 10 + (COUNT - 30) * i // rounds
                wait_until(lambda: done(session, "extractor") >= target, 60, f"{target} are done", live)
                with open(ballast, "wb", buffering=0) as file:  # to the last byte
                    try:
                        while True:
                            file.write(bytes(4096))
                    except OSError as error:
                        assert error.errno == errno.ENOSPC, error
                wait_until(lambda: "No space" in notes(session) or "full" in notes(session), 30, "a full disk is said", live)
                check(True, notes(session)[:160])
                check(not half_written(session), "nothing half-written")
                if i == rounds - 1:  # a stage that dies meanwhile comes back
                    os.kill(pids(session)["extractor.0"], 9)
                    wait_until(lambda: live.says("starting it again") or live.says("tried again until that works"), 30,
                               "the launcher buries it, or says why it waits with that", live)
                os.unlink(ballast)
            ends_calmly(session, live, "full")
        check(not [i for i in status(session)["items"] if i["state"] == "failed"], "no item is blamed")
        subprocess.run(["umount", "-l", work("disk")], check=True)
        finish()


def case_memory(rounds):
    """Too little memory for the stages from the beginning, and later no more than they have: lifted, all goes on."""
    def limit(pid, size):
        resource.prlimit(pid, resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))

    def lift(live):
        for pid in (live.pid, *pids(live.session).values()):
            limit(pid, resource.RLIM_INFINITY)

    with Work("limit") as work:
        session, path = work("session"), graph(work.path)
        with Run(path, session, "--until-idle", "2", "--restarts", "30",
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (100 << 20, resource.RLIM_INFINITY))) as live:
            wait_until(lambda: live.says("temporarily unavailable") or live.says("no memory"), 30, "that memory is short is said", live)
            check(True, [line for line in live.output().splitlines() if "unavailable" in line or "no memory" in line][0][:160])
            lift(live)
            wait_until(lambda: lift(live) or done(session, "extractor") >= 30, 60, "it goes on", live)
            for name, pid in pids(session).items():
                size = int(open(f"/proc/{pid}/statm").read().split()[0]) * resource.getpagesize()
                limit(pid, size)
            wait_until(lambda: done(session, "extractor") >= 60, 30, "what is in its stride needs no more memory", live)
            lift(live)
            ends_calmly(session, live, "memory")
        finish()


cases = {name[5:]: function for name, function in globals().items() if name.startswith("case_")}
if len(sys.argv) < 2 or sys.argv[1] not in cases:
    sys.exit(f"usage: disk.py {'|'.join(cases)} [ROUNDS]")
cases[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 6)
