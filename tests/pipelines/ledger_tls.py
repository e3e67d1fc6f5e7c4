#!/usr/bin/env python3
"""A server of ledgers beyond this machine: it must prove its name by a certificate, and nothing that icestream writes
holds the password. Runs beside private_postgresql.sh. The name `db.test` leads to this machine by PGHOSTADDR."""

import os
import shutil
import subprocess

from session import Work, check, finish, need_program, program, wait_until, write

URL, HOME = os.environ["ICESTREAM_TEST_POSTGRESQL"], os.environ["ICESTREAM_TEST_POSTGRESQL_HOME"]
PORT = os.environ["ICESTREAM_TEST_POSTGRESQL_TCP"].rsplit(":", 1)[1].split("/")[0]
PASSWORD = open(os.environ["PGPASSFILE"]).read().strip().rsplit(":", 1)[1]
FAR = {"PGHOSTADDR": "127.0.0.1", "HOME": "/nonexistent"}


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def make_ca(folder, name):
    key, certificate = f"{folder}/{name}.key", f"{folder}/{name}.pem"
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", key,
            "-out", certificate)
    return certificate


def make_certificate(folder, ca, host):
    """Puts key and certificate of a host into the server's data folder."""
    key, request, certificate = f"{HOME}/data/server.key", f"{folder}/server.csr", f"{HOME}/data/server.crt"
    names = write(f"{folder}/names", f"subjectAltName=DNS:{host}\n")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={host}", "-keyout", key, "-out", request)
    openssl("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca.replace(".pem", ".key"), "-CAcreateserial", "-days", "2",
            "-extfile", names, "-out", certificate)
    owner = os.stat(f"{HOME}/data/PG_VERSION")
    for path in (key, certificate):
        os.chmod(path, 0o600)
        if os.geteuid() == 0:
            os.chown(path, owner.st_uid, owner.st_gid)


def psql(command):
    return subprocess.run(["psql", "-qAt", URL, "-c", command], capture_output=True, text=True, check=True).stdout.strip()


def set_tls(on):
    psql(f"ALTER SYSTEM SET ssl = {'on' if on else 'off'}")
    psql("SELECT pg_reload_conf()")
    wait_until(lambda: psql("SHOW ssl") == ("on" if on else "off"), 20, "the server has its new settings")


def holding(folder, word):
    found = []
    for root, _, files in os.walk(folder):
        for name in files:
            with open(os.path.join(root, name), "rb") as file:
                if word.encode() in file.read():
                    found.append(name)
    return found


class Trial:
    def __init__(self, work):
        self.work, self.count = work, 0
        os.makedirs(work("empty"))

    def run(self, host, root, **environment):
        """Runs an empty session whose ledgers are at `host`. Returns its exit code and what it said."""
        self.count += 1
        option = f"?sslrootcert={root}" if root else ""
        graph = write(
            self.work(f"graph{self.count}.yaml"),
            f'session: {{pixel_size: 6.0, ledger: "postgresql://secret@{host}:{PORT}/postgres{option}"}}\n'
            f'stages: {{watcher: {{directory: "{self.work("empty")}"}}}}\n',
        )
        words = [program("icestream"), "run", graph, "--session", self.work(f"session{self.count}"), "--until-idle", "0.2"]
        result = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **FAR, **environment})
        text = result.stdout + result.stderr
        check(PASSWORD not in text, "nothing says the password")
        return result.returncode, text

    def refused(self, what, word, host, root, **environment):
        code, text = self.run(host, root, **environment)
        told = code != 0 and word in text and "the server of the ledgers cannot be reached" in text
        told = told and ("password" in word or "it must prove the name in its address" in text)
        check(told, f"{what}: {text.strip()[-400:]}")


def main():
    need_program("openssl")
    with Work("ledger-tls") as work:
        trial = Trial(work)
        ca, stranger = make_ca(work.path, "ca"), make_ca(work.path, "stranger")
        trial.refused("a server without encryption is refused", "does not support SSL", "db.test", ca)
        trial.refused("whatever the environment says", "does not support SSL", "db.test", ca, PGSSLMODE="disable")
        make_certificate(work.path, ca, "db.test")
        set_tls(True)
        code, text = trial.run("db.test", ca)
        check(code == 0, f"the right name under the right authority: {text.strip()[-400:]}")
        trial.refused("another name is refused", 'does not match host name "db.other"', "db.other", ca)
        trial.refused("an unknown authority is refused", "certificate verify failed", "db.test", stranger)
        failed = "certificate verify failed"
        trial.refused("so is one that the environment waives", failed, "db.test", stranger, PGSSLMODE="require")
        trial.refused("without a certificate of an authority, nothing is believed", "root certificate file", "db.test", "")
        trial.refused("a wrong password is refused", "no password supplied", "db.test", ca, PGPASSFILE="/nonexistent")
        service = os.path.join(HOME, "service")
        write(service, f"[ledgers]\npassword={PASSWORD}\n")
        of_service = {"PGPASSFILE": "/nonexistent", "PGSERVICEFILE": service, "PGSERVICE": "ledgers"}
        code, text = trial.run("db.test", ca, **of_service)
        check(code == 0, f"the password comes from a service file: {text.strip()[-400:]}")
        check(holding(work.path, PASSWORD) == [], "no file holds the password")
        shutil.rmtree(work("empty"))
    finish()


main()
