#!/usr/bin/env python3
"""Runs a session whose hosts are started through ssh: one sshd on each, with keys of the test. A connection that is ended
is made again, and the session ends like an undisturbed one."""

import os
import shutil
import signal
import subprocess

import rig
from faults_hosts import batch
from hosts_session import Session, World, check, finish, write

SSHD = """\
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
AcceptEnv *
"""
CLIENT = """\
Host *
IdentityFile {folder}/key
UserKnownHostsFile /dev/null
StrictHostKeyChecking no
LogLevel ERROR
SendEnv *
"""


class Ssh:
    """ssh of the launcher's host finds the configuration of the test through a script of its name."""

    def __init__(self, world):
        sshd = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
        if sshd is None or shutil.which("ssh") is None:
            rig.skip("ssh or sshd is not installed (packages openssh-client, openssh-server)")
        folder = os.path.join(world.folder, "ssh")
        os.makedirs(f"{folder}/bin")
        for name in ("key", "host_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{name}"], check=True)
        write(f"{folder}/sshd.conf", SSHD.format(folder=folder))
        write(f"{folder}/ssh.conf", CLIENT.format(folder=folder))
        script = write(f"{folder}/bin/ssh", f"#!/bin/sh\nexec {shutil.which('ssh')} -F {folder}/ssh.conf \"$@\"\n")
        os.chmod(script, 0o755)
        self.path = {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
        for host in world.hosts[1:]:
            host.run("mount", "-t", "tmpfs", "none", "/run")  # sshd wants an empty folder there
            host.run("mkdir", "-p", "/run/sshd")
            host.start(sshd, "-D", "-e", "-f", f"{folder}/sshd.conf")


def clients(host):
    """Returns the pids of ssh on a host."""
    found = []
    for pid in host.processes():
        if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "ssh":
            found.append(pid)
    return found


def main():
    with World("hosts-ssh") as world:
        ssh = Ssh(world)
        with Session(world, spread="engine: ssh, hosts: [beta, gamma]") as session:
            session.launch(env=ssh.path)
            session.until_spread()
            batch(session)
            for pid in clients(session.launcher_host):
                os.kill(pid, signal.SIGKILL)
            session.until(lambda: len(clients(session.launcher_host)) == 2, 60, "ssh is there again")
            batch(session)
            session.finish()
            check(clients(session.launcher_host) == [], "no ssh is left")
            left = [session.instances(host) for host in session.agent_hosts]
            check(left == [{}, {}], f"no instance is left {left}")
        session.compare()
    finish()


main()
