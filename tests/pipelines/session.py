"""Helpers of the pipeline tests: programs of the build, graphs, live feeding, STAR reading, scores. Needs numpy,
mrcfile."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

SKIP = 77
try:
    import mrcfile
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(SKIP)

BIN = os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(__file__), "../../build/cpu/bin"))
SOURCE = os.environ.get("ICESTREAM_SOURCE", os.path.join(os.path.dirname(__file__), "../.."))
DATA = os.environ.get("ICESTREAM_DATA", os.path.join(SOURCE, "../shared/data"))

# A session that refines from a reference while its folder fills. REFINING.format(more=...): further parameters of the refiner.
REFINING = """\
session: {{pixel_size: 4.0}}
stages:
  watcher:        {{directory: INCOMING, ctf: TRUTH/micrographs_ctf.star}}
  lowpass-picker: {{from: watcher, templates: TRUTH/templates.mrcs, diameter: 150, lowpass: 20}}
  extractor:      {{from: lowpass-picker, box: 48}}
  refiner:        {{from: extractor, reference: TRUTH/reference.mrc, diameter: 170, healpix_order: 1, live_order: 1, {more}}}
"""


def program(name):
    return os.path.join(BIN, name)


def need_data(folder):
    path = os.path.join(DATA, folder)
    if not os.path.isdir(path):
        print(f"skipped: no {path}")
        sys.exit(SKIP)
    return os.path.abspath(path)


def need_program(name):
    if shutil.which(name) is None:
        print(f"skipped: {name} is not installed")
        sys.exit(SKIP)


def scratch():
    """Returns the folder where tests work: in memory, where there is room (a container may have only a few MB). The
    tests do not test the disk, and a sync on a shared disk may take a second."""
    shared = "/dev/shm"
    roomy = os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > 4e9
    return os.environ.get("TMPDIR") or (shared if roomy else "/tmp")


class Work:
    """A temporary folder. It is kept when ICESTREAM_KEEP is set or the test fails."""

    def __init__(self, name):
        self.path = tempfile.mkdtemp(prefix=f"icestream-{name}-", dir=scratch())
        print(f"in {self.path}", flush=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None and not os.environ.get("ICESTREAM_KEEP"):
            shutil.rmtree(self.path, ignore_errors=True)

    def __call__(self, *parts):
        return os.path.join(self.path, *parts)


def put(source, folder, name=None):
    """Copies a file into a watched folder like an acquisition program: under another name, then renamed."""
    name = name or os.path.basename(source)
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{name}.part")
    shutil.copyfile(source, temporary)
    os.rename(temporary, os.path.join(folder, name))


def feed(sources, folder, interval, after_last=None):
    """Starts a thread that puts one file every `interval` seconds. Its .finished is the time when the last one arrived."""

    def work():
        for path in sources:
            put(path, folder)
            thread.arrived.append(time.time())
            if thread.cancel.wait(interval):
                return
        thread.finished = time.time()
        if after_last:
            after_last()

    thread = threading.Thread(target=work, daemon=True)
    thread.cancel, thread.arrived, thread.finished = threading.Event(), [], None
    thread.start()
    return thread


def write(path, text):
    """Writes a file. Beside private_postgresql.sh, with ICESTREAM_TEST_LEDGERS=postgresql, graphs keep their ledgers there."""
    if os.environ.get("ICESTREAM_TEST_LEDGERS") == "postgresql" and "ledger:" not in text:
        text = text.replace("session: {", f'session: {{ledger: "{os.environ["ICESTREAM_TEST_POSTGRESQL_TCP"]}", ', 1)
    with open(path, "w") as file:
        file.write(text)
    return path


def launch(*arguments, **options):
    return subprocess.Popen([program("icestream"), *map(str, arguments)], **options)


def run(*arguments, expect=0, **options):
    result = subprocess.run([program("icestream"), *map(str, arguments)], capture_output=True, text=True, **options)
    if result.returncode != expect:
        print(result.stdout[-4000:], result.stderr[-4000:], sep="\n")
        raise AssertionError(f"icestream {' '.join(map(str, arguments))}: exit {result.returncode}, expected {expect}")
    return result


def status(session):
    return json.loads(run("status", "--session", session, "--json").stdout)


def history(session, stage):
    """Returns the lines of SESSION/STAGE/history.jsonl: results of a cumulative stage, with times."""
    path = os.path.join(session, stage, "history.jsonl")
    if not os.path.exists(path):
        return []
    return [json.loads(line) for line in open(path) if line.strip()]


def keeps_first_picks(name):
    """Returns whether the picker goes on picking this item as at the beginning (again_spares, one in 20)."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return (value ^ value >> 29) % 20 == 0


def star(path):
    """Returns {table: [row, …]} of a STAR file; a row is a dict of text. Reads plain files only: no quoted spaces."""
    tables, columns, rows, in_loop = {}, [], [], False
    for line in open(path):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0].startswith("data_"):
            columns, rows, in_loop = [], [], False
            tables[words[0][5:]] = rows
        elif words[0] == "loop_":
            columns, in_loop = [], True
        elif words[0].startswith("_") and in_loop:
            columns.append(words[0][1:])
        elif words[0].startswith("_"):
            if not rows:
                rows.append({})
            rows[0][words[0][1:]] = words[1]
        else:
            rows.append(dict(zip(columns, words)))
    return tables


def points(path):
    for rows in star(path).values():
        if rows and "rlnCoordinateX" in rows[0]:
            return np.array([(float(r["rlnCoordinateX"]), float(r["rlnCoordinateY"])) for r in rows])
    return np.zeros((0, 2))


def match(picks, truth, tolerance):
    """Returns one-to-one pairs (pick, truth), nearest first."""
    if not len(picks) or not len(truth):
        return []
    distance = np.hypot(picks[:, None, 0] - truth[None, :, 0], picks[:, None, 1] - truth[None, :, 1])
    pairs, used_picks, used_truth = [], set(), set()
    for flat in np.argsort(distance, axis=None):
        i, j = divmod(int(flat), len(truth))
        if distance[i, j] > tolerance:
            break
        if i not in used_picks and j not in used_truth:
            used_picks.add(i)
            used_truth.add(j)
            pairs.append((i, j))
    return pairs


def read_map(path):
    with mrcfile.open(path, permissive=True) as file:
        return file.data.astype(np.float64), float(file.voxel_size.x)


def fsc(a, b):
    """Returns the Fourier shell correlation of two maps in memory, shells 0 .. n/2-1."""
    n = a.shape[0]
    a, b = np.fft.fftn(a), np.fft.fftn(b)
    k = np.fft.fftfreq(n) * n
    shell = np.round(np.sqrt(k[:, None, None] ** 2 + k[None, :, None] ** 2 + k[None, None, :] ** 2)).astype(int).ravel()
    power = np.bincount(shell, (abs(a) ** 2).ravel()) * np.bincount(shell, (abs(b) ** 2).ravel())
    return (np.bincount(shell, (a * b.conj()).real.ravel()) / np.sqrt(power + 1e-30))[: n // 2]


def resolution(curve, box, pixel_size, threshold):
    """Returns Å at the last shell before the curve first falls below the threshold."""
    below = next((i for i in range(1, len(curve)) if curve[i] < threshold), len(curve))
    return box * pixel_size / max(below - 1, 1)


def stop(process, seconds=20):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()


def check(condition, message):
    print(("ok    " if condition else "FAIL  ") + message, flush=True)
    check.failed += not condition


check.failed = 0


def finish():
    if check.failed:
        raise AssertionError(f"{check.failed} checks failed")


def simulate(folder, **parameters):
    """Makes a simulated session at once: micrographs/ and truth/ below folder."""
    words = [program("icestream-simulate"), "--o", folder]
    for name, value in parameters.items():
        words += [f"--{name}", str(value)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return sorted(os.listdir(f"{folder}/micrographs"))


def pids_of(stage, session):
    """Returns the processes of a stage that belong to this session."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            words = open(f"/proc/{entry}/cmdline", "rb").read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if os.path.basename(words[0]) == f"icestream-{stage}" and any(session in w for w in words[1:]):
            found.append(int(entry))
    return found


def resident_kib(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def wait_until(condition, seconds, what, process=None):
    """Polls until a condition holds. A condition that raises because a file does not exist yet counts as false."""
    end = time.time() + seconds
    while time.time() < end:
        try:
            if condition():
                return
        except (OSError, AssertionError, KeyError, ValueError):
            pass
        if process is not None and process.poll() is not None:
            raise AssertionError(f"the run ended (exit {process.returncode}) before: {what}")
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


def products(session, stage, endings):
    """Returns {relative path: bytes} of a stage's products."""
    found = {}
    root = os.path.join(session, stage)
    for folder, _, files in os.walk(root):
        for name in files:
            if name.endswith(endings):
                path = os.path.join(folder, name)
                found[os.path.relpath(path, root)] = open(path, "rb").read()
    return found
