#!/usr/bin/env python3
"""Files follow the umask, and a session that one user has begun is taken on by another of the same group, as the service
does. The second part needs root, to become two users."""

import os
import stat
import subprocess

from faults import BIN, Work, arrive, check, finish, names, program, status, wait_until, write

GRAPH = """\
session: {pixel_size: 6}
stages:
  watcher:    {directory: DIR, settle: 0.2, poll: 0.2}
  brightness: {from: watcher}
"""
GROUP, FIRST, SECOND = 41000, 41001, 41002  # numbers that no system gives to its users by default


def modes(session):
    """Returns {path: mode} of all in the session, without keys and sockets."""
    found = {}
    for folder, folders, files in os.walk(session):
        for name in folders + files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, session)] = stat.S_IMODE(os.lstat(path).st_mode)
    return found


def run(graph, session, umask, expect=0, kill=False, **who):
    """Runs a session to its end, or kills it in the middle."""
    words = [program("icestream"), "run", graph, "--session", session]
    if not kill:
        words += ["--until-idle", "0.5"]
    live = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, umask=umask, cwd="/", **who
    )
    if kill:
        wait_until(lambda: status(session)["stages"]["brightness"]["done"] >= 1, 120, "an item is done", live)
        modes_now = modes(session)
        live.kill()
        live.communicate()
        return modes_now
    output = live.communicate(timeout=120)[0]
    check(live.returncode == expect, f"exit {live.returncode}, expected {expect}")
    if live.returncode != expect:
        print(output[-3000:])
    return output


def check_modes(session, found, umask):
    for path, mode in sorted(found.items()):
        is_folder = os.path.isdir(os.path.join(session, path))
        if path.endswith(".instance.json"):
            expected = 0o600
        elif path.startswith("log/sockets"):
            continue
        else:
            expected = (0o777 if is_folder else 0o666) & ~umask
        if mode & 0o777 != expected:
            check(False, f"umask {umask:03o}: {path} has mode {mode:03o}, expected {expected:03o}")
    check(found["log/sockets"] & 0o777 == 0o700, f"umask {umask:03o}: the folder of sockets has mode {found['log/sockets']:o}")
    check(len(found) > 15, f"umask {umask:03o}: {len(found)} files and folders follow it")


def umasks(work):
    arrive(names()[:1], work("in"))
    graph = write(work("graph.yaml"), GRAPH.replace("DIR", work("in")))
    for umask in (0o022, 0o027, 0o002):
        session = work(f"umask-{umask:o}")
        check_modes(session, run(graph, session, umask, kill=True), umask)


def takes_on(work):
    """The first user is killed in the middle, with sockets and partial files left behind; the second goes on."""
    os.chmod(work.path, 0o755)
    os.chmod(work("in"), 0o755)
    graph = write(work("graph.yaml"), GRAPH.replace("DIR", work("in")))
    first, second = ({"user": user, "group": GROUP, "extra_groups": [GROUP]} for user in (FIRST, SECOND))
    for umask, name in ((0o002, "shared"), (0o022, "closed")):
        session = work(name, "session")
        os.makedirs(work(name))
        os.chown(work(name), FIRST, GROUP)
        os.chmod(work(name), 0o2775)
        found = run(graph, session, umask, kill=True, **first)
        lost = [path for path, mode in found.items() if os.path.isdir(f"{session}/{path}") and not mode & stat.S_ISGID]
        lost = [path for path in lost if not path.startswith("log/sockets")]
        check(not lost, f"{name}: folders keep setgid: {lost}")
        if name == "shared":
            arrive(names()[1:2], work("in"))
            run(graph, session, umask, **second)
            counts = status(session)["stages"]["brightness"]
            check((counts["done"], counts["failed"]) == (2, 0), f"the second user goes on: {counts['done']} done")
            run(graph, session, umask, **first)
        else:
            output = run(graph, session, umask, expect=1, **second)
            check(
                "belongs to the user 41001 and may not be written by the user 41002" in output
                and "chmod -R g+rwX" in output,
                f"the second user is told what to do: {output.strip()}",
            )
            subprocess.run(["chmod", "-R", "g+rwX", session], check=True)
            run(graph, session, 0o002, **second)


def is_reachable():
    """Returns whether another user can run the programs."""
    words = [program("icestream"), "--version"]
    try:
        return subprocess.run(words, user=FIRST, group=GROUP, extra_groups=[], capture_output=True).returncode == 0
    except OSError:
        return False


with Work("owners") as work:
    umasks(work)
    if os.getuid() != 0:
        print("not root: no other user takes a session on")
    elif not is_reachable():
        print(f"{BIN} is closed to other users: none takes a session on")
    else:
        takes_on(work)
    finish()
