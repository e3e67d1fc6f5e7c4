#!/usr/bin/env python3
"""Tests a disk that is full, read-only, failing or gone, too few descriptors, and too little memory. The message must
be clear. No half-written file may count as whole. Once the cause is gone, the run must end like an undisturbed one.

disk.py CASE [ROUNDS]"""

import errno
import glob
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

from faults import (
    BIN,
    COUNT,
    DATA,
    SKIP,
    Run,
    Work,
    arrive,
    calm,
    check,
    done,
    finish,
    graph,
    names,
    outcome,
    pids,
    program,
    run,
    same,
    seeded,
    simulate,
    star,
    status,
    wait_until,
    whole,
    write,
)
from session import history

PRELOAD = os.path.join(BIN, "../tests/preload_disk.so")


class Fault:
    """Makes writing below a folder fail while the fault is on, for programs that were started with .environment."""

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
    """Returns the notes of the stages as they are now."""
    return " ".join(s["note"] for s in status(session)["stages"].values())


def logs(session):
    texts = glob.glob(f"{glob.escape(session)}/log/*.log")
    return "".join(open(text, errors="replace").read() for text in texts)


def half_written(session):
    """Returns products that exist under their final name but are not whole."""
    wrong = []
    for folder, _, files in os.walk(os.path.join(session, "extractor")):
        for name in files:
            path = os.path.join(folder, name)
            if name.endswith(".mrcs") and not name.startswith("."):
                header = open(path, "rb").read(16)
                nx, ny, nz, mode = (int.from_bytes(header[i : i + 4], "little") for i in (0, 4, 8, 12))
                if len(header) < 16 or mode != 2 or os.path.getsize(path) != 1024 + 4 * nx * ny * nz:
                    wrong.append(path)
    return wrong


class Fed(Run):
    """A run to which the micrographs come in parts, so that a fault meets work to disturb on a machine of any speed."""

    def __init__(self, work, session, parts, watcher="min_free: 0", **popen):
        self.folder = work(f"in-{os.path.basename(session)}")
        everything = names()
        self.parts = [everything[COUNT * i // parts : COUNT * (i + 1) // parts] for i in range(parts)]
        self.sent = 0
        os.mkdir(self.folder)
        super().__init__(graph(work.path, micrographs=self.folder, watcher=watcher), session, **popen)

    def send(self):
        part = self.parts.pop(0)
        arrive(part, self.folder)
        self.sent += len(part)

    def settle(self):
        """Waits until all micrographs that were sent are done."""
        wait_until(lambda: done(self.session, "extractor") >= self.sent, 60, f"{self.sent} are done", self)

    def end_calmly(self, what):
        while self.parts:
            self.send()
        wait_until(lambda: done(self.session, "watcher") >= COUNT, 60, "all are found", self)
        self.drain()
        same(calm(), outcome(self.session, self.folder), what)
        whole(self.session, what)


def case_refused(rounds):
    """Makes each folder of a session in turn refuse writes, with each of several errors."""
    chosen = seeded()
    errors = (errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO, errno.EMFILE)
    with Work("disk") as work:
        fault, session = Fault(work("fault")), work("session")
        with Fed(work, session, 2 * rounds, env=fault.environment) as live:
            for i in range(rounds):
                live.send()
                if chosen.random() < 0.5:  # sometimes with work in progress, sometimes without
                    live.settle()
                folder = ("extractor", "lowpass-picker", "ledger", "log", "watcher", "")[i % 6]
                number = (
                    errors[i] if i < 2 else chosen.choice(errors)
                )  # products always meet both a full and a read-only disk
                name = f"{errno.errorcode[number]} in {folder or 'the session'}"
                wait_until(lambda: done(session, "extractor") > 0, 60, "all stages have begun", live)
                fault.on(os.path.join(session, folder), number)
                live.send()
                if folder in ("extractor", "lowpass-picker", "ledger"):
                    told = "the ledger cannot" if folder == "ledger" else f"{session}/{folder}"
                    wait_until(
                        lambda: "waits: " in notes(session) and told in notes(session),
                        60,
                        f"the note reports {name}",
                        live,
                    )
                    check(True, f"{name}: {notes(session)[:160]}")
                else:
                    time.sleep(1.5)  # a fixed time: no event can be seen where nothing can be written
                check(live.poll() is None, f"{name}: the launcher goes on")
                check(not half_written(session), f"{name}: nothing half-written {half_written(session)[:2]}")
                fault.off()
            live.end_calmly("refused")
            said = logs(session)
            check(" WARN waits " in said and " INFO goes-on " in said, "the log reports the wait and its end")
            check(not [i for i in status(session)["items"] if i["state"] == "failed"], "no item is blamed")
        finish()


def case_folder(rounds):
    """Moves a product folder away and back, closes and opens it for writing, and deletes it for good."""
    with Work("folder") as work:
        session = work("session")
        with Fed(work, session, 4) as live:
            for stage in ("extractor", "lowpass-picker"):
                live.send()
                live.settle()
                os.rename(work("session", stage), work("away"))
                live.send()
                wait_until(
                    lambda: f"{stage}: the folder" in notes(session),
                    60,
                    f"{stage}: the note reports the missing folder",
                    live,
                )
                check(True, notes(session)[:160])
                os.rename(work("away"), work("session", stage))
                live.settle()
            live.end_calmly("moved away and put back")
        if os.geteuid() != 0:  # permissions do not stop root
            session = work("closed")
            with Fed(work, session, 2) as live:
                live.send()
                live.settle()
                os.chmod(work("closed", "extractor"), 0o500)
                live.send()
                wait_until(lambda: "denied" in notes(session), 60, "the note reports the closed folder", live)
                os.chmod(work("closed", "extractor"), 0o755)
                live.end_calmly("closed and opened")
        session = work("deleted")
        with Fed(work, session, 3) as live:
            live.send()
            live.settle()
            os.rename(work("deleted", "lowpass-picker"), work("dust"))  # or files appear while rmtree empties it
            shutil.rmtree(work("dust"))
            live.send()
            wait_until(lambda: "gone" in notes(session), 60, "the note reports the deleted folder", live)
            live.signal(signal.SIGTERM)
            live.finish(1)
            rest, folder = live.parts, live.folder
        again = run("retry", "--session", session, "--lost").stdout
        check(again.count("its products are gone") == len(names()) // 3, "what was lost goes through again")
        for part in rest:
            arrive(part, folder)
        with Run(os.path.join(work.path, "graph.yaml"), session, "--until-idle", "1") as live:
            live.finish(0)
        same(calm(), outcome(session, folder), "deleted and made again")
        whole(session, "deleted and made again")
        finish()


def fill(path):
    """Fills the disk to the last byte."""
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC, error


def case_full(rounds):
    """Fills a real file system of a few MB, in a separate mount namespace."""
    if os.environ.get("ICESTREAM_IN_NAMESPACE") is None:
        probe = ["unshare", "-Urm", "sh", "-c", "mount -t tmpfs -o size=1m none /mnt"]
        if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True).returncode != 0:
            print("skipped: no file system can be mounted in a name space of one's own")
            sys.exit(SKIP)
        os.execvpe(
            "unshare", ["unshare", "-Urm", sys.executable, *sys.argv], {**os.environ, "ICESTREAM_IN_NAMESPACE": "1"}
        )
    with Work("full") as work:
        os.mkdir(work("disk"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,nr_inodes=20000", "none", work("disk")], check=True)
        session, ballast = work("disk", "session"), work("disk", "ballast")
        with Fed(work, session, 2 * rounds) as live:
            for i in range(rounds):
                live.send()
                live.settle()
                fill(ballast)
                live.send()
                wait_until(
                    lambda: "No space" in notes(session) or "full" in notes(session),
                    60,
                    "the note reports the full disk",
                    live,
                )
                check(True, notes(session)[:160])
                check(not half_written(session), "nothing half-written")
                if i == rounds - 1:  # a stage that died meanwhile starts again
                    os.kill(pids(session)["extractor.0"], signal.SIGKILL)
                    wait_until(
                        lambda: live.says("starting it again") or live.says("trying again until it works"),
                        60,
                        "the launcher buries it, or says why it waits with that",
                        live,
                    )
                os.unlink(ballast)
            live.end_calmly("full")
        check(not [i for i in status(session)["items"] if i["state"] == "failed"], "no item is blamed")
        subprocess.run(["umount", "-l", work("disk")], check=True)
        finish()


def case_memory(rounds):
    """Gives the stages too little memory from the start, and later no more than they already have. The run must
    continue when the limit is lifted."""

    def limit(pid, size):
        resource.prlimit(pid, resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))

    def lift(live):
        for pid in (live.pid, *pids(live.session).values()):
            limit(pid, resource.RLIM_INFINITY)

    with Work("limit") as work:
        session, path = work("session"), graph(work.path)
        with Run(
            path,
            session,
            "--restarts",
            "30",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (100 << 20, resource.RLIM_INFINITY)),
        ) as live:
            wait_until(
                lambda: live.says("temporarily unavailable") or live.says("no memory"),
                60,
                "the launcher reports that memory is short",
                live,
            )
            check(True, next(line for line in live.output().splitlines() if re.search("unavailable|no memory", line)))
            lift(live)
            wait_until(lambda: lift(live) or done(session, "extractor") >= 30, 60, "it goes on", live)
            for name, pid in pids(session).items():
                size = int(open(f"/proc/{pid}/statm").read().split()[0]) * resource.getpagesize()
                limit(pid, size)
            wait_until(
                lambda: done(session, "extractor") >= 60, 100, "what is in its stride needs no more memory", live
            )
            lift(live)
            wait_until(lambda: done(session, "extractor") == COUNT, 100, "all are done", live)
            live.drain()
            same(calm(), outcome(session), "memory")
            whole(session, "memory")
        finish()


def case_snapshot(rounds):
    """A stage with its own state cannot write snapshots for a while: no snapshot may be missing or half."""
    with Work("snapshot") as work:
        fault, session = Fault(work("fault")), work("session")
        more = "  classifier: {from: extractor, classes: 3, diameter: 150, snapshot_interval: 0}\n"
        with Run(graph(work.path, more=more), session, "--until-idle", "1", env=fault.environment) as live:
            wait_until(lambda: done(session, "classifier") >= 1, 60, "the classifier has begun", live)
            fault.on(f"{session}/classifier", errno.ENOSPC)
            wait_until(lambda: "classifier/run_it" in notes(session), 60, "the classifier says that it waits", live)
            check(not glob.glob(f"{session}/classifier/*_model.star"), "no snapshot looks like a whole one")
            fault.off()
            live.finish(0)
        told = [(event["iteration"], event["final"]) for event in history(session, "classifier")]
        kept = glob.glob(f"{session}/classifier/run_it*_model.star")
        check(
            told == [(i + 1, i + 1 == len(told)) for i in range(len(told))] and len(told) >= len(kept) > 0,
            f"the history has each snapshot once, the last one is final: {told}",
        )
        check(done(session, "classifier") == COUNT, "every item is in it")
        finish()


def case_begin(rounds):
    """Resumes a session that cannot write, as after a reboot with a full disk: it must wait. A new session must print
    the reason and end."""
    with Work("begin") as work:
        fault, session = Fault(work("fault")), work("session")
        with Fed(work, session, 2) as live:
            live.send()
            live.settle()
            live.signal(signal.SIGTERM)
            live.finish(1)
            rest, folder = live.parts[0], live.folder
        arrive(rest, folder)
        path = os.path.join(work.path, "graph.yaml")
        fault.on(work("new"), errno.ENOSPC)
        with Run(path, work("new"), env=fault.environment) as live:
            live.finish(1)
            check(live.says("No space"), "a new session reports the full disk and ends")
        fault.on(session, errno.ENOSPC)
        with Run(path, session, "--until-idle", "1", env=fault.environment) as live:
            wait_until(lambda: live.says("trying again until it works"), 60, "it says what it waits for", live)
            fault.off()
            live.finish(0)
        same(calm(), outcome(session, folder), "a full disk at the beginning")
        whole(session, "a full disk at the beginning")
        finish()


def case_still(rounds):
    """A disk stops while a replica writes its ledger. Both replicas are silent, and neither may be killed for it."""
    with Work("still") as work:
        fault, session, folder = Fault(work("fault")), work("session"), work("in")
        everything = names()
        arrive(everything[: COUNT // 2], folder)
        path = graph(work.path, micrographs=folder, picker="replicas: 2")
        with Run(path, session, "--hang-report", "2", env=fault.environment) as live:
            wait_until(lambda: done(session, "lowpass-picker") >= 20, 60, "twenty items done", live)
            fault.on(f"{session}/ledger/lowpass-picker.sqlite-wal", -1)
            arrive(everything[COUNT // 2 :], folder)
            for replica in range(2):
                wait_until(lambda: live.says(f"lowpass-picker.{replica} has not answered"), 60, "it is silent", live)
            fault.off()
            for replica in range(2):
                wait_until(lambda: live.says(f"lowpass-picker.{replica} answers again"), 60, "it answers again", live)
            wait_until(lambda: done(session, "extractor") == COUNT, 100, "all is done", live)
            live.signal(signal.SIGINT)
            output = live.finish(0)
        check("killed" not in output.replace("it will be killed", ""), "nobody was killed")
        same(calm(), outcome(session, folder), "a disk that stood still")
        whole(session, "a disk that stood still")
        finish()


def first_particles(count):
    lines = open(f"{DATA}/calm/extractor/particles.star").read().splitlines(True)
    rows = [i for i, line in enumerate(lines) if ".mrcs" in line]
    return "".join(lines[: rows[count]]) + "\n"


class Classes:
    """Classifies 300 particles of the undisturbed session on files, without memory for images."""

    def __init__(self, folder, *words, **popen):
        self.out = os.path.join(folder, "out")
        os.makedirs(folder, exist_ok=True)
        self.log = os.path.join(folder, "log")
        table = write(os.path.join(folder, "some.star"), first_particles(300))
        given = f"--i {table} --o {self.out} --classes 3 --diameter 150 --image_memory 0"
        options = "--visits 1 --final_passes 1 --psi_step 24 --offset_range 2 --threads 1 --device cpu"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [program("icestream-classifier"), *given.split(), *options.split(), *words],
                cwd=f"{DATA}/calm",
                stdout=log,
                stderr=log,
                **popen,
            )

    def text(self):
        return open(self.log).read()

    def warnings(self):
        return [line for line in self.text().splitlines() if " classifier WARN scratch " in line]

    def files(self):
        """Waits for the end. Returns {name: content} of all results."""
        code = self.process.wait(100)
        if code != 0:
            raise AssertionError(f"the classifier ended with {code}:\n{self.text()[-4000:]}")
        found = glob.glob(f"{self.out}/*it*.star") + glob.glob(f"{self.out}/*.mrcs")
        return {os.path.basename(path): open(path, "rb").read() for path in found}


def case_scratch(rounds):
    """Copies of images on a local disk change no result: not with a disk that is full, nor after a kill. What a killed
    process leaves is used again, and a run that ends leaves nothing."""
    with Work("scratch") as work:
        fault, disk = Fault(work("fault")), work("disk")
        with_disk = ("--scratch", disk)
        plain = Classes(work("plain")).files()
        check(len(plain) > 3, f"{len(plain)} files of results")
        check(Classes(work("kept"), *with_disk).files() == plain, "the same results with scratch")
        check(os.listdir(disk) == [], "nothing is left in scratch after the end")
        killed = Classes(work("full"), *with_disk)
        whole_rows = 32 + 100 * 40  # the head and 100 rows of an index
        wait_until(lambda: any(os.path.getsize(i) > whole_rows for i in glob.glob(f"{disk}/*/*.index")), 60, "100 are kept")
        killed.process.kill()
        killed.process.wait()
        left = glob.glob(f"{disk}/*/*.index")
        check(len(left) == 1, f"a killed process leaves its shard: {left}")
        os.truncate(left[0], whole_rows)
        fault.on(disk, errno.ENOSPC)
        full = Classes(work("full"), *with_disk, env=fault.environment)
        check(full.files() == plain, "the same results on a full disk")
        told = full.warnings()
        check(len(told) == 1 and "No space" in told[0], f"the full disk is told once: {told}")
        found = re.search("which has ([0-9]+)", told[0])
        # Two threads may have been writing rows: one of the last may be missing.
        check(90 <= int(found[1]) <= 100, f"what the killed process left is used again: {found[1]} images")
        check(os.listdir(disk) == [], "nothing is left in scratch after the end")
        new = Classes(work("new"), *with_disk, env=fault.environment)
        check(new.files() == plain, "the same results where scratch cannot even begin")
        check(len(new.warnings()) == 1 and "are not kept" in new.warnings()[0], f"and that is told: {new.warnings()}")
        finish()


REFINED = """\
session: {pixel_size: 4.0}
stages:
  watcher:        {directory: "SIM/micrographs", ctf: "SIM/truth/micrographs_ctf.star"}
  lowpass-picker: {from: watcher, templates: "SIM/truth/templates.mrcs", diameter: 150, lowpass: 20}
  extractor:      {from: lowpass-picker, box: 48}
  refiner:        {from: extractor, reference: "SIM/truth/reference.mrc", diameter: 170, healpix_order: 1,
                   live_order: 1, max_iterations: 4, min_particles: 1000}
"""


def case_maps(rounds):
    """Fills the refiner's folder in the middle of a refinement. The next iteration is computed while the previous files
    wait for space. No file may be lost or half written."""
    with Work("maps") as work:
        simulate(work("sim"), micrographs=6, size=512, pixel_size=4.0, particles=30, interval=0, seed=4)
        fault, session = Fault(work("fault")), work("session")
        path = write(work("graph.yaml"), REFINED.replace("SIM", work("sim")))
        folder = f"{session}/refiner"
        with Run(path, session, "--until-idle", "1", env=fault.environment) as live:
            wait_until(lambda: len(history(session, "refiner")) > 0, 150, "a first iteration", live)
            fault.on(folder, errno.ENOSPC)
            wait_until(
                lambda: "waits: " in notes(session) and folder in notes(session),
                100,
                "the note reports the full disk",
                live,
            )
            before = history(session, "refiner")
            last = before[-1]["iteration"]
            time.sleep(3)  # a fixed time, in which the next iteration is done
            check(history(session, "refiner") == before, "history.jsonl names no iteration that is not written")
            optimisers = glob.glob(f"{folder}/run_it*_optimiser.star")
            check(len(optimisers) == min(last, 3), f"nor has an optimiser file: {len(optimisers)}")
            check(live.poll() is None, "the launcher goes on")
            fault.off()
            live.finish(0, 200)
        events = history(session, "refiner")
        check([e["iteration"] for e in events] == list(range(1, len(events) + 1)), "every iteration, in order")
        check(events[-1]["final"] and len(events) > last, "to the last")
        refined = star(f"{folder}/run_data.star")["particles"]
        check(len(refined) == events[-1]["particles"] > 10, f"{len(refined)} particles in the end")
        check(os.path.exists(f"{folder}/postprocess.star"), "post-processed")
        said = logs(session)
        check(" WARN waits " in said and " INFO goes-on " in said, "the log reports the wait and its end")
        finish()


cases = {name[5:]: function for name, function in globals().items() if name.startswith("case_")}
if len(sys.argv) < 2 or sys.argv[1] not in cases:
    sys.exit(f"usage: disk.py {'|'.join(cases)} [ROUNDS]")
cases[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 6)
