#!/usr/bin/env python3
"""alarms_run.py: faults are put into a real run, and its alarms fire and clear: in web/alarms.jsonl, /api/alarms, /metrics, and at
the program that is told."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../stages"))
try:
    import numpy
    from motion_movies import write_mrc
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
from server import BIN, PATIENCE, Server, wait_for  # noqa: E402

SCRATCH = tempfile.mkdtemp(prefix="icestream-alarms-run-")
TESTS = os.path.realpath(os.path.join(BIN, "../tests"))
SPACE, GPUS, TOLD = (os.path.join(SCRATCH, name) for name in ("space", "gpus", "told"))
GPU = "RTX-A5000 %d 6000000000 24000000000 %d 190500\n"  # utilisation, temperature
GRAPH = """\
session:
  pixel_size: 2.5
  voltage: 300
  spherical_aberration: 2.7
  amplitude_contrast: 0.1
  notify: "{told}.sh"
  defocus: [0.8, 2.2]
  alarms: [no_exposure=3, stage_silent=2, defocus_target.for=0, picks.for=0, failing=50, least=10, gpu_hot.for=0, gpu_idle.for=0,
           disk_hours=off, launcher_gone.for=1]
programs: ["{folder}/icestream-picker-on-gpu"]
stages:
  watcher:        {{directory: "{folder}/in", settle: 0.1, poll: 0.2, min_free: 0}}
  ctf-estimator:  {{from: watcher, write_png: false}}
  lowpass-picker: {{program: "{folder}/icestream-picker-on-gpu", from: ctf-estimator, diameter: 130, lowpass: 40, write_png: false}}
"""
DIES = """\
session:
  notify: "{told}.sh"
  alarms: [no_exposure=off]
programs: [{folder}/source.sh, {folder}/relay.sh]
stages:
  source: {{program: {folder}/source.sh, count: 5}}
  one:    {{program: {folder}/relay.sh, from: source, abort_at: 2, abort_times: 100}}
"""
STARTED = []


def write(path, text, mode=0o644):
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path + ".tmp", mode)
    os.rename(path + ".tmp", path)
    return path


class Run(Server):
    """A run that shows itself, since its graph names a program to tell."""

    def __init__(self, graph, session, *options):
        self.session = session
        environment = {**os.environ, "ICESTREAM_NVML": f"{TESTS}/fake_nvml.so", "FAKE_NVML": GPUS,
                       "ICESTREAM_FAULT_SPACE": SPACE, "LD_PRELOAD": f"{TESTS}/preload_space.so",
                       "ASAN_OPTIONS": "verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", "")}
        self.process = subprocess.Popen([f"{BIN}/icestream", "run", graph, "--session", session, *options],
                                        stdout=subprocess.PIPE, text=True, env=environment)
        STARTED.append(self)
        found = re.search(r"http://([^/]+)/\?token=([0-9a-f]{64})", self.process.stdout.readline())
        self.address, self.token = found.groups()
        self.socket = f"{session}/web/ui.sock"
        self.process.stdout.readline()

    def finish(self, code):
        output, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == code, (self.process.returncode, output)

    def states(self):
        code, _, body = self.ask("/api/alarms")
        assert code == 200, (code, body)
        return {one["alarm"]: one for one in json.loads(body)["alarms"]}


def lines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def events(run, alarm):
    return [line["event"] for line in lines(run.session + "/web/alarms.jsonl") if line.get("alarm") == alarm]


def told(alarm, status):
    alerts = [alert for group in lines(TOLD) for alert in group["alerts"]]
    return [alert for alert in alerts if alert["labels"]["alertname"] == alarm and alert["status"] == status]


def metric(run, alarm):
    code, _, body = run.ask("/metrics")
    assert code == 200
    found = [line for line in body.decode().splitlines() if line.startswith("icestream_alarm{") and f'alarm="{alarm}"' in line]
    return max(float(line.rsplit(" ", 1)[1]) for line in found)


def fires(run, alarm, words, severity="warning"):
    """Waits until an alarm fires, and looks for it in all places."""
    one = wait_for(lambda: (found := run.states().get(alarm)) and found["state"] == "firing" and found, f"{alarm} fires")
    assert words in one["text"] and (severity == "any" or one["severity"] == severity), one
    assert events(run, alarm)[0] == "fires", events(run, alarm)
    wait_for(lambda: metric(run, alarm) == 1, f"{alarm} in the metrics")
    alert = wait_for(lambda: told(alarm, "firing"), f"somebody is told of {alarm}")[-1]
    assert severity in ("any", alert["labels"]["severity"]), alert
    assert alert["labels"]["session"] == os.path.basename(run.session), alert
    print(f"  {alarm}: {one['text']}", flush=True)


def clears(run, alarm):
    wait_for(lambda: run.states()[alarm]["state"] == "cleared", f"{alarm} clears")
    assert "clears" in events(run, alarm)
    wait_for(lambda: metric(run, alarm) == 0, f"{alarm} is over in the metrics")
    wait_for(lambda: told(alarm, "resolved"), f"somebody is told that {alarm} is over")


def images():
    """Micrographs with particles at the wrong and at the right defocus, some of empty holes, and some without a beam."""
    sets = {"wrong": ["--defocus_min", "32000", "--defocus_max", "36000"], "right": ["--seed", "2"],
            "empty": ["--seed", "3", "--particles", "0"]}
    for name, options in sets.items():
        focus = [] if name == "wrong" else ["--defocus_min", "12000", "--defocus_max", "18000"]
        subprocess.run([f"{BIN}/icestream-simulate", "--o", f"{SCRATCH}/{name}", "--micrographs", "14", "--size", "512", "--snr",
                        "0.3", "--carbon", "0", "--contamination", "0", "--interval", "0", *focus, *options],
                       check=True, stdout=subprocess.DEVNULL)
    os.makedirs(f"{SCRATCH}/dark/micrographs")
    for i in range(5):
        write_mrc(f"{SCRATCH}/dark/micrographs/{i}.mrc", numpy.ones((512, 512), numpy.float32), 2.5)


def expose(name, count=14, times=[0]):
    """The microscope delivers images."""
    times[0] += 1
    for path in sorted(glob.glob(f"{SCRATCH}/{name}/micrographs/*.mrc"))[:count]:
        target = f"{SCRATCH}/in/{times[0]:02d}_{os.path.basename(path)}"
        shutil.copyfile(path, target + ".part")
        os.rename(target + ".part", target)


def servers():
    """Returns the process numbers of servers of these sessions: a launcher that was killed leaves one."""
    found = []
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            with open(folder + "/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if b"serve" in words and any(word.startswith(SCRATCH.encode()) for word in words):
            found.append(int(os.path.basename(folder)))
    return found


def pid_of(run, instance):
    with open(f"{run.session}/log/{instance}.heartbeat.json", encoding="utf-8") as file:
        return json.load(file)["pid"]


def microscope(run):
    """Defocus off target, empty holes, no beam, and no exposure at all."""
    expose("wrong")
    fires(run, "defocus_target", "images miss the defocus target of 0.8 to 2.2 µm")
    assert re.match("1[0-4] of the last 1[0-4] ", run.states()["defocus_target"]["text"])
    expose("right")
    clears(run, "defocus_target")
    expose("empty")
    fires(run, "picks", "empty holes")
    expose("dark")
    fires(run, "failing", "the last 5 exposures have failed, most of them at ctf-estimator: the micrograph has no variance",
          "critical")
    expose("right")
    clears(run, "failing")
    clears(run, "picks")


def machine(run):
    """While nothing comes: a full disk, a GPU that is hot, lost and idle, a stage that hangs."""
    size = os.statvfs(SCRATCH)
    write(SPACE, str(0.05 * size.f_blocks * size.f_frsize))
    write(GPUS, GPU % (80, 95))
    fires(run, "no_exposure", "Does the microscope still collect", "any")  # it becomes critical after 18 s
    fires(run, "disk", "% of the disk of the session is free")
    fires(run, "gpu_hot", "GPU 0 has 95 °C")
    os.unlink(SPACE)
    write(GPUS, "lost\n")
    fires(run, "gpu_lost", "GPU 0 no longer answers", "critical")
    clears(run, "disk")
    clears(run, "gpu_hot")
    write(GPUS, GPU % (1, 60))
    os.kill(pid_of(run, "lowpass-picker.0"), signal.SIGSTOP)
    expose("right", 4)
    clears(run, "no_exposure")
    fires(run, "gpu_idle", "GPU 0 works at 1 %")
    fires(run, "stage_silent", "lowpass-picker.0 has given no sign of life", "critical")
    os.kill(pid_of(run, "lowpass-picker.0"), signal.SIGCONT)
    for alarm in ("stage_silent", "gpu_idle", "gpu_lost"):
        clears(run, alarm)


def whole_run():
    graph = write(f"{SCRATCH}/graph.yaml", GRAPH.format(told=TOLD, folder=SCRATCH))
    # The stage believes that it computes on the first GPU.
    program = f"#!/bin/sh\nCUDA_VISIBLE_DEVICES=0 exec '{BIN}/icestream-lowpass-picker' \"$@\"\n"
    write(f"{SCRATCH}/icestream-picker-on-gpu", program, 0o755)
    write(GPUS, GPU % (80, 60))
    os.mkdir(f"{SCRATCH}/in")
    run = Run(graph, f"{SCRATCH}/session", "--hang-report", "1000")
    begun = time.monotonic()
    microscope(run)
    print(f"microscope: ok ({time.monotonic() - begun:.1f} s)", flush=True)
    begun = time.monotonic()
    machine(run)
    print(f"machine: ok ({time.monotonic() - begun:.1f} s)", flush=True)
    begun = time.monotonic()
    run.process.kill()
    run.process.communicate()
    fires(run, "launcher_gone", "its launcher was killed", "critical")
    # The next run finds the server where it was.
    run = Run(graph, f"{SCRATCH}/session", "--hang-report", "1000", "--until-idle", "1")
    clears(run, "launcher_gone")
    run.finish(3)  # the images without a beam have failed
    print(f"launcher: ok ({time.monotonic() - begun:.1f} s)", flush=True)


def gives_up():
    """The run ends with its alarm; the server tells of it before it ends too."""
    for name in ("source", "relay"):
        write(f"{SCRATCH}/{name}.sh", f"#!/bin/sh\nexec '{TESTS}/relay' {name} \"$@\"\n", 0o755)
    graph = write(f"{SCRATCH}/dies.yaml", DIES.format(told=TOLD, folder=SCRATCH))
    run = Run(graph, f"{SCRATCH}/dies", "--restarts", "1", "--backoff", "0")
    run.finish(1)
    wait_for(lambda: events(run, "stage_gave_up") == ["fires", "told"], "the end of the run is told")
    alert = wait_for(lambda: told("stage_gave_up", "firing"), "somebody is told")[0]
    assert alert["labels"] == {"alertname": "stage_gave_up", "severity": "critical", "session": "dies", "subject": "one"}, alert


for library in ("preload_space.so", "fake_nvml.so", "relay"):
    if not os.path.exists(f"{TESTS}/{library}"):
        print(f"skipped: {TESTS}/{library} was not built")
        sys.exit(77)
try:
    images()
    write(TOLD + ".sh", f"#!/bin/sh\ncat >>{TOLD}; echo >>{TOLD}\n", 0o755)
    whole_run()
    gives_up()
    print("ok")
finally:
    for one in STARTED:
        one.process.kill()
    for server in servers():
        os.kill(server, signal.SIGTERM)
    shutil.rmtree(SCRATCH, ignore_errors=True)
