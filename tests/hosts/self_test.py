#!/usr/bin/env python3
"""Tests the rig itself: hosts hear each other until a fault stands between them, and again after it."""

import json
import os
import signal
import sys
import tempfile
import time

import rig
from database import Database
from relay import Relay
from rig import Rig, until

# Sends its name once in 10 ms to the others, and writes down the last time at which each of them was heard.
BEACON = """
import json, os, socket, sys, time
own, path, others = sys.argv[1], sys.argv[2], sys.argv[3:]
ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ear.bind(("", 4000))
ear.settimeout(0.01)
heard = {}
while True:
    for other in others:
        try:
            ear.sendto(own.encode(), (other, 4000))
        except OSError:
            pass
    try:
        while True:
            name, _ = ear.recvfrom(99)
            heard[name.decode()] = time.monotonic()
    except TimeoutError:
        pass
    with open(path + ".new", "w") as file:
        json.dump(heard, file)
    os.rename(path + ".new", path)
"""


def check(good, what):
    print(("ok: " if good else "WRONG: ") + what, flush=True)
    if not good:
        sys.exit(1)


def heard(host, by, seconds=10):
    """Returns whether one host hears another from now on."""
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        try:
            if json.load(open(os.path.join(by.local, "heard"))).get(host.name, 0) > begin:
                return True
        except FileNotFoundError:
            pass
        time.sleep(0.01)
    return False


def silent(host, by):
    return not heard(host, by, 0.3)


def beacon(host, hosts):
    others = [one.name for one in hosts if one is not host]
    return host.start(sys.executable, "-c", BEACON, host.name, os.path.join(host.local, "heard"), *others)


def links(world):
    a, b, c = world.hosts
    for host in world.hosts:
        beacon(host, world.hosts)
    check(heard(a, by=b) and heard(b, by=a) and heard(c, by=a), "hosts hear each other by name")
    b.cut()
    check(silent(b, by=a) and silent(a, by=b) and heard(c, by=a), "a cut host neither hears nor is heard")
    b.join()
    check(heard(b, by=a) and heard(a, by=b), "it is back")
    b.mute()
    check(silent(b, by=a) and heard(a, by=b), "a mute host hears and is not heard")
    b.heal()
    check(heard(b, by=a), "it is heard again")
    b.stop()
    check(silent(b, by=a) and heard(c, by=a), "a stopped host says nothing")
    b.wake()
    check(heard(b, by=a) and heard(a, by=b), "it goes on when it wakes")


def power(world):
    a, b, _ = world.hosts
    last = b.processes()
    b.kill()
    check(not any(os.path.exists(f"/proc/{pid}") for pid in last) and silent(b, by=a), "no process outlives its host")
    b.boot()
    check(b.run("hostname").stdout.strip() == b.name and not b.processes(), "the host is up again, and empty")
    beacon(b, world.hosts)
    check(heard(b, by=a) and heard(a, by=b), "and hears and is heard")


def programs(world):
    a, b, _ = world.hosts
    live = a.start("sh", "-c", "echo hello; sleep 100; echo never")
    until(lambda: live.says("hello"), 10, "the output of a program")
    check(live.pid in a.processes() and live.pid not in b.processes(), "a program belongs to its host")
    check(a.run("sh", "-c", f"kill -0 {live.pid}", check=False).returncode != 0, "its number means nothing on a host")
    check(live.kill() == -signal.SIGKILL, "and ends as it was ended")


def files(world):
    a, b, _ = world.hosts
    path = os.path.join(world.shared, "product")
    a.run("sh", "-c", f"echo one > {path}")
    check(b.run("cat", path).stdout == "one\n", "hosts share a folder")
    b.hide()
    check(b.run("cat", path, check=False).returncode != 0, "it is away on one of them")
    check(b.run("touch", path + "2", check=False).returncode != 0, "and cannot be written")
    check(a.run("cat", path).stdout == "one\n", "and is there on the other")
    b.show()
    check(b.run("cat", path).stdout == "one\n", "it is back")


def ask(host, url, command):
    return host.run("psql", "-qAt", url + "?sslmode=verify-full", "-c", command, check=False)


def database(world, server):
    _, b, _ = world.hosts
    answer = ask(b, server.url, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    check(answer.stdout == "t\n", f"a host reaches the server with TLS: {answer.stdout}{answer.stderr}")
    check(ask(b, server.url.replace("rig", world.address), "SELECT 1").returncode != 0, "another name is refused")
    before = server.pid()
    server.restart()
    check(server.pid() != before and ask(b, server.url, "SELECT 1").stdout == "1\n", "it is there again after a crash")
    relay = Relay(world, server)
    check(ask(b, relay.url, "SELECT 2").stdout == "2\n", "a relay passes all on")
    relay.swallow(1)
    answer = ask(b, relay.url, "BEGIN; CREATE SCHEMA told; COMMIT")
    check(answer.returncode != 0 and relay.lost == 1, f"the answer of a COMMIT is lost: {answer.stderr.strip()}")
    found = server.psql("SELECT count(*) FROM pg_namespace WHERE nspname = 'told'")
    check(found == "1\n", "what it committed is there")


def main():
    rig.enter()
    with tempfile.TemporaryDirectory(prefix="icestream-rig-") as folder, Rig(folder) as world:
        links(world)
        power(world)
        programs(world)
        files(world)
        with Database(world) as server:
            database(world, server)


main()
