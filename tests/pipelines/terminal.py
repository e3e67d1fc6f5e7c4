"""A program on a terminal of its own, for tests of what it shows there."""

import atexit
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

LIMIT = float(os.environ.get("LIMIT", 120))  # s to wait for anything
CURSOR = re.compile(r"\r?\x1b\[\d*[AJ]")


def check(condition, text):
    if not condition:
        raise AssertionError(text)


class Terminal:
    """A program on a terminal of its own. `output` is all that it has printed."""

    def __init__(self, command, columns, rows=40, **environment):
        self.ours, theirs = pty.openpty()
        self.resize(columns, rows)
        self.output = ""
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, **environment}, close_fds=True
        )
        os.close(theirs)
        atexit.register(self.process.terminate)

    def resize(self, columns, rows=40):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds=1):
        """Returns False once nobody has the terminal open any more."""
        if not select.select([self.ours], [], [], seconds)[0]:
            return True
        try:
            self.output += os.read(self.ours, 65536).decode("utf-8", "surrogateescape")
        except OSError:
            return False
        return True

    def tables(self, begin=0):
        """Returns the whole tables that were drawn after this much of the output, each as a list of rows. Messages above
        a table stay where they are, and the terminal may break them."""
        parts = CURSOR.split(self.output[begin:].replace("\r\n", "\n"))
        tables = [
            [row for row in part.split("\n")[:-1] if not row.startswith("icestream: ")]
            for part in parts
            if re.search(r"^stage ", part, re.M)
        ]
        return tables if self.process.poll() is not None else tables[:-1]

    def wait_table(self, fits, what, begin=0):
        """Waits for a table that fits; checks on the way that no row is wider than the terminal."""
        end = time.time() + LIMIT
        while time.time() < end:
            going = self.read()
            for table in self.tables(begin):
                if fits("\n".join(table)):
                    return table
            check(going, f"the run ended before {what}:\n{self.output[-3000:]}")
        raise AssertionError(f"not within {LIMIT} s: {what}:\n{self.output[-3000:]}")

    def finish(self):
        while self.read():
            pass
        return self.process.wait(timeout=LIMIT)
