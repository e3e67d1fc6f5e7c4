"""Stages of icestream in Python. A stage is a class; this module speaks the protocol (docs/protocol.md) for it.

    from icestream import Reject, Stage

    class Sparse(Stage):
        \"""Rejects micrographs with few particles.\"""          # the first line is the summary
        takes, gives = "micrograph picks", "micrograph picks"   # members that an item must have; that the stage adds
        parameters = {"least": {"default": 10, "minimum": 0, "help": "Fewest particles of a micrograph."}}

        def process(self, item):
            if item["picks"]["count"] < self.params.least:
                raise Reject(f"{item['picks']['count']} particles")
            return item

    if __name__ == "__main__":
        Sparse.main()

process(item) gets a dict (docs/protocol.md lists its members), may change it, and returns it: it then goes on.
    raise Reject("why")     sets the item aside; this is no error
    any other exception     fails the item, with its last line as the reason; the log has all of it; the stream goes on
    a full disk             (OSError with ENOSPC, EDQUOT, EROFS, EMFILE, ENFILE) is waited out: process is called again
self.params                 the parameters, as self.params.least or self.params["least"]
self.session_params         those of the session: {"pixel_size": 1.06, …}
self.product(item, suffix)  the path of a product, to be written in process and named in the item
self.resolve(path)          checks that a file which an item names lies where this stage may read; returns its path
self.warn(id, text)         a warning, which `run` and `status` show once for each id; self.log(id, text) a line of the log;
                            self.note(text) one line for `icestream status`
setup()                     may be defined: called once, before the first item
A parameter with "changes": "live" takes another value between two items (`icestream set`); with "restart", when the launcher
has started the stage again; without, never in a session.

The working directory is the session's folder: paths of items open as they are. process runs on the main thread, one item
after the other. `replicas` in the graph starts several processes.

An item is acknowledged when all stages behind have acknowledged the result. So nothing is lost when this process is
killed: the item comes again, and process runs again. Needs pyzmq alone."""

import collections
import errno
import json
import os
import queue
import secrets
import signal
import sqlite3
import sys
import threading
import time
import traceback

try:
    import zmq
    import zmq.auth.thread
    import zmq.utils.z85
except ImportError:  # --describe works without
    zmq = None

__all__ = ["Reject", "Stage"]

IN_FLIGHT, DONE, REJECTED, FAILED = range(4)
VERDICTS = {DONE: "done", REJECTED: "rejected", FAILED: "failed"}
WAITED_OUT = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE}
MESSAGE_MAX, ITEM_MAX = 1 << 20, (1 << 20) - 1024
TYPES = {bool: "bool", int: "int", float: "float", str: "string", list: "floats", tuple: "floats"}
TABLES = """PRAGMA journal_mode = WAL; PRAGMA user_version = 2;
CREATE TABLE IF NOT EXISTS items (number INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL DEFAULT '',
  id TEXT NOT NULL, revision INTEGER NOT NULL DEFAULT 0, state INTEGER NOT NULL, reason TEXT, attempts INTEGER NOT NULL,
  crashes INTEGER NOT NULL, instance INTEGER NOT NULL, token TEXT, item TEXT NOT NULL, time_seen REAL NOT NULL,
  time_changed REAL NOT NULL, UNIQUE (id, source));
CREATE INDEX IF NOT EXISTS items_state ON items (state);
CREATE TABLE IF NOT EXISTS outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, edge TEXT NOT NULL,
  source TEXT NOT NULL DEFAULT '', id TEXT NOT NULL, item TEXT NOT NULL, time_sent REAL NOT NULL, acknowledged REAL,
  verdict TEXT);
CREATE TABLE IF NOT EXISTS ends (edge TEXT NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (edge, run));
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS warnings (stage TEXT, id TEXT, message TEXT, count INTEGER, first REAL, last REAL,
  PRIMARY KEY (stage, id));"""


class Reject(Exception):
    """Raised by process: the item is set aside, with the text as its reason."""


class Params(dict):
    """Parameters by name: params["least"] is params.least."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no parameter {name}") from None


class Stage:
    """The base of a stage: see the text at the top of this module."""

    name = None  # as --describe says it; by default the name of the class in small letters
    version = "1"
    takes = gives = "micrograph"
    parameters = {}  # name: default, or a dict with members of --describe (type, default, unit, minimum, changes, help …)

    def process(self, item):
        raise NotImplementedError(f"{type(self).__name__} has no process(self, item)")

    def setup(self):
        pass

    @classmethod
    def describe(cls):
        """Returns what --describe prints."""
        words = (cls.__doc__ or cls.__name__).strip().splitlines()
        rows = [_row(name, given) for name, given in cls.parameters.items()]
        return {
            "name": cls.name or cls.__name__.lower(),
            "summary": words[0] if words else "",
            "version": cls.version,
            "in": cls.takes,
            "out": cls.gives,
            "cumulative": False,
            "source": False,
            "revisions": True,
            "params": rows,
        }

    @classmethod
    def main(cls):
        """Runs the program: a whole stage needs no other line."""
        words = sys.argv[1:]
        if words == ["--describe"]:
            print(json.dumps(cls.describe()))
        elif words == ["--version"]:
            print(cls.version)
        elif len(words) == 2 and words[0] == "--instance":
            if zmq is None:
                sys.exit(_say(f"{sys.executable} has no pyzmq, which stages need: apt install python3-zmq", 2))
            orders = os.path.abspath(words[1])
            try:
                with open(orders) as file:
                    me = json.load(file)
                stage = cls()
                stage._begin(me)
            except (OSError, ValueError, KeyError, TypeError) as error:
                sys.exit(_say(f"{words[1]}: {_last_line(error)}", 2))
            _run(stage, me, orders)
        else:
            usage = f"Usage: {os.path.basename(sys.argv[0])} --instance FILE | --describe | --version"
            for row in cls.describe()["params"]:
                unit, default = (f" {text}" if text else "" for text in (row.get("unit"), row.get("default")))
                usage += f"\n  {row['name']}: {row['type']}{unit}, by default{default or ' not set'}. {row.get('help', '')}"
            print(usage, file=sys.stdout if words == ["--help"] else sys.stderr)
            sys.exit(0 if words == ["--help"] else 2)

    def product(self, item, suffix):
        """Returns the path of a product of the item, such as NAME/grid1/mic_1_sparse.txt, from the session's folder, and
        makes the folders on the way. A file of this name from an earlier attempt is removed. The stage waits until the
        disk holds the file before it sends the item on."""
        folder, name = os.path.split(item["id"])
        if len(name.encode()) > 200:  # as path_stem of common/files.c
            name = name.encode()[:183].decode(errors="ignore") + f"~{_hash(item['id']):016x}"
        parts = (self._name, item.get("source", "") if self._me.get("separate") else "", folder)
        folder = os.path.join(*(part for part in parts if part))
        os.makedirs(folder, exist_ok=True)
        if not _is_below(os.path.realpath(folder), os.path.realpath(self._name)):
            raise ValueError(f"{folder} leads out of the stage's folder by a link: remove it")
        path = os.path.join(folder, name + suffix)
        if os.path.lexists(path):
            os.remove(path)
        self._products.append(path)
        return path

    def resolve(self, path):
        """Returns the path of a file that an item names; raises ValueError if the file lies neither in the session nor in
        an input folder, so that an item of others cannot name any file of this machine."""
        real = os.path.realpath(path)
        if self._places and not any(_is_below(real, place) for place in self._places):
            raise ValueError(f"{path} is neither in the session nor in an input folder (session: {{inputs: [FOLDER]}})")
        return path

    def log(self, id, text):
        self._write("INFO", id, text)

    def warn(self, id, text):
        self._write("WARN", id, text)
        self._warnings.append((id, _utf8(" ".join(str(text).split())), time.time()))

    def note(self, text):
        self._note = _utf8(str(text))

    # ---- What main and the service need ----

    def _begin(self, me):
        if me["v"] != 1:
            raise ValueError(f"the instance file has version {me['v']}, and this module reads version 1")
        self._me, self._name, self._products, self._note = me, me["name"], [], ""
        self._warnings, self._change = collections.deque(), me.get("change", 0)
        os.chdir(me["session"])
        os.makedirs(self._name, exist_ok=True)
        # Without folders in the instance file, any file may be named.
        places = [me["session"], *me["folders"]] if "folders" in me else []
        self._places = [os.path.realpath(place) for place in places]
        self.session_params = Params(me.get("session_params") or {})
        self.params = self._read_params(me)

    def _read_params(self, me):
        params, given = Params(), dict(me.get("params") or {})
        for row in self.describe()["params"]:
            params[row["name"]] = _value(row, given.pop(row["name"], row.get("default")))
        if given:
            raise ValueError(f"{self._name} has no parameter {', '.join(given)}")
        return params

    def _take_change(self, me):
        """Takes other parameters over if all that has changed is live; else the launcher starts the stage again."""
        params, live = self._read_params(me), {row["name"] for row in self.describe()["params"] if row.get("changes") == "live"}
        if all(name in live or params[name] == self.params[name] for name in params):
            self.params, self._change = params, me.get("change", 0)
            self.log("change", f"works with change {self._change} of its parameters")

    def _write_trace(self):
        for line in traceback.format_exc().splitlines():
            self._write("INFO", "traceback", line)

    def _write(self, level, id, text):
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03d}"
        line = f"{stamp} {self._name}.{self._me['instance']} {level} {id} {_utf8(' '.join(str(text).split()))}\n"
        try:
            with open(self._me["log"], "a") as file:
                file.write(line)
        except OSError:  # there is nowhere left to say so, and the work goes on
            pass


# ---- Parameters ----


def _row(name, given):
    """Returns a row of --describe. Defaults of --describe are texts."""
    row = dict(given) if isinstance(given, dict) else {"default": given}
    default = row.pop("default", None)
    row.setdefault("type", TYPES.get(type(default), "string"))
    if default is not None:
        if isinstance(default, (list, tuple)):
            default = ",".join(map(str, default))
        row["default"] = str(default).lower() if isinstance(default, bool) else str(default)
    return {"name": name, **row}


def _value(row, given):
    """Returns the value of a parameter: None if it is not set."""
    name, kind = row["name"], row["type"]
    if given is None or given == "auto":
        if row.get("required"):
            raise ValueError(f"{name} is required")
        return None
    try:
        if kind == "bool":
            text = str(given).lower()
            value = {"true": 1, "yes": 1, "on": 1, "1": 1, "false": 0, "no": 0, "off": 0, "0": 0}[text] == 1
        elif kind == "floats":
            value = [float(part) for part in (given.split(",") if isinstance(given, str) else given)]
        else:
            value = {"int": int, "float": float}.get(kind, str)(given)
    except (ValueError, TypeError, KeyError):
        raise ValueError(f"{name} is {given}: expected {kind}") from None
    if kind in ("int", "float"):
        least, most = row.get("minimum"), row.get("maximum")
        if (least is not None and not value >= least) or (most is not None and not value <= most):
            raise ValueError(f"{name} is {given}: expected {least} to {most}")
    if kind == "choice" and value not in _choices(row):
        raise ValueError(f"{name} is {given}: expected one of {', '.join(_choices(row))}")
    return value


def _choices(row):
    choices = row.get("choices", [])
    return choices.split("|") if isinstance(choices, str) else choices


# ---- Small helpers ----


def _say(text, code):
    print(text, file=sys.stderr, flush=True)
    return code


def _last_line(error):
    """Returns the last line of an exception as Python prints it: "ValueError: no such column"."""
    lines = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()
    return _utf8(lines[-1].strip() if lines else type(error).__name__)


def _utf8(text):
    """Replaces what UTF-8 cannot hold: Python names a file of another encoding with such characters."""
    return text.encode(errors="replace").decode()


def _is_below(path, folder):
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _hash(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value ^ (value >> 29)


def _plain(value):
    """Lets numbers and arrays of numpy stand in an item."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot stand in an item")


def _sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _id_is_good(item):
    """Returns whether id and source can name products."""
    id, source = item.get("id"), item.get("source", "")
    return (
        isinstance(id, str)
        and isinstance(source, str)
        and isinstance(item.get("revision", 0), int)
        and 0 < len(id.encode()) <= 1024
        and not any(part in ("", ".", "..") for part in id.split("/"))
        and not any(ord(letter) < 32 or ord(letter) == 127 for letter in id)
        and (source == "" or (len(source) <= 64 and source[0] != "-" and source.replace("-", "_").isidentifier()))
    )


# ---- The work, on the main thread ----


class _Work:
    """Calls process. The service, on a thread of its own, gives it items and takes outcomes."""

    def __init__(self, stage):
        self.stage, self.todo, self.done = stage, queue.SimpleQueue(), collections.deque()
        self.wakes, self.wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.current = os.open(stage._me["current"], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        os.pwrite(self.current, bytes(4096), 0)

    def loop(self):
        """Works until the service gives None."""
        while (item := self.todo.get()) is not None:
            if isinstance(item, _Orders):
                self.stage._take_change(item.me)
                continue
            # The launcher reads here which item killed a stage.
            mark = f"{item['source']}\t{item['id']}" if item["source"] else item["id"]
            os.pwrite(self.current, mark.encode() + b"\0", 0)
            outcome = self.one(item)
            os.pwrite(self.current, b"\0", 0)
            self.done.append((_key(item), item.get("revision", 0), *outcome))
            os.write(self.wake, b"\0")

    def one(self, item):
        """Returns state, reason and the text of the item that goes on."""
        text, pause = json.dumps(item), 1
        while True:
            self.stage._products.clear()
            try:
                result = self.stage.process(json.loads(text))
                return DONE, None, self.check(item, result)
            except Reject as rejected:
                self.stage.log("rejected", f"{item['id']}: {rejected}")
                return REJECTED, _utf8(str(rejected)) or "rejected", None
            except (Exception, SystemExit) as error:
                reason = _last_line(error)
                if not (isinstance(error, OSError) and error.errno in WAITED_OUT):
                    self.stage._write_trace()
                    self.stage._write("WARN", "failed", f"{item['id']}: {reason}")  # failures have a list of their own
                    return FAILED, reason, None
            self.stage.note(f"waiting: {reason}")
            if pause == 1:
                self.stage.warn("waits", f"{item['id']}: {reason}; will try again")
            time.sleep(pause)
            pause = min(2 * pause, 30)

    def check(self, item, result):
        """Returns the text of what process returned, once its products are on the disk."""
        if not isinstance(result, dict):
            raise TypeError(f"process returned {type(result).__name__}: it must return the item, or raise Reject")
        result.setdefault("source", item["source"])
        if self.stage._change > 0:
            result.setdefault("change", {})[self.stage._name] = self.stage._change
        if _key(result) != _key(item) or result.get("revision", 0) != item.get("revision", 0):
            raise ValueError("process changed the item's id, source or revision: they say which item it is")
        for path in self.stage._products:
            if isinstance(result.get("files"), dict):
                result["files"].pop(path, None)  # what another stage read there before is no more
            if os.path.exists(path):
                _sync(path)
                _sync(os.path.dirname(path))
        text = json.dumps(result, allow_nan=False, default=_plain, ensure_ascii=False)
        if len(text.encode()) > ITEM_MAX:
            raise ValueError(f"the item has {len(text.encode())} bytes: {ITEM_MAX} are the most; write a product")
        return text


class _Orders:
    """An instance file that was written anew."""

    def __init__(self, me):
        self.me = me


def _key(item):
    return item["source"], item["id"]


# ---- The service: sockets, ledger and heartbeat, on a thread of its own ----


class _Parcel:
    """A message on its way to one stage behind."""

    def __init__(self, key, edge, head, tail):
        self.key, self.edge, self.head, self.tail = key, edge, head, tail  # the number of the attempt stands between
        self.got = None  # (instance, token) of the receiver
        self.attempt, self.due = 0, 0


class _Service:
    def __init__(self, stage, work, orders):
        self.stage, self.me, self.work = stage, stage._me, work
        self.orders, self.orders_time, self.told = orders, None, self.me.get("change", 0)
        self.token, self.seq = secrets.token_hex(16), time.time_ns() // 1000  # above all numbers of an earlier process
        self.held = {}  # key: [edge and number of the item, revision, edges behind that have not acknowledged, verdict]
        self.parcels = {}  # (edge, number): _Parcel
        self.tokens = {}  # (edge, instance): the token of its last hello
        self.counts = collections.Counter()
        self.in_work, self.beat, self.looked = collections.deque(), 0, 0
        self.context, self.poller, self.guard = zmq.Context(), zmq.Poller(), None
        self.open_ledger()
        self.open_sockets()

    # -- The ledger --

    def open_ledger(self):
        self.ledger = sqlite3.connect(self.me["ledger"], isolation_level=None, timeout=20, check_same_thread=False)
        self.ledger.executescript(TABLES)
        for key, mine in (("stage", self.me["name"]), ("session", self.me.get("session_id", ""))):
            if mine:
                self.ledger.execute("INSERT OR IGNORE INTO about (key, value) VALUES (?, ?)", (key, mine))
                [found] = self.ledger.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
                if found != mine:
                    raise ValueError(f"{self.me['ledger']} belongs to the {key} {found}, and not to {mine}")
        self.ledger.execute(
            "UPDATE items SET instance = -1, token = NULL WHERE state = 0 AND instance = ?", (self.me["instance"],)
        )
        rows = self.ledger.execute("SELECT edge FROM ends WHERE run = ?", (self.me.get("run", 0),))
        inputs = {edge["edge"] for edge in self.me["inputs"]}
        self.ended = {edge for (edge,) in rows if edge in inputs}

    def claim(self, item):
        """Returns None if the item is to be processed now, a verdict if it is finished, and "" if nobody is to be
        answered: another instance has it, or an earlier revision of it is in work."""
        (source, id), revision, now = _key(item), item.get("revision", 0), time.time()
        row = self.ledger.execute(
            "SELECT number, revision, state, instance FROM items WHERE id = ?1 AND (source IN (?2, '') OR ?2 = '')"
            " ORDER BY source = ?2 DESC LIMIT 1",
            (id, source),
        ).fetchone()
        text = json.dumps(item, ensure_ascii=False)
        if row is None:
            made = self.ledger.execute(
                "INSERT OR IGNORE INTO items (source, id, revision, state, attempts, crashes, instance, token, item,"
                " time_seen, time_changed) VALUES (?, ?, ?, 0, 1, 0, ?, ?, ?, ?, ?)",
                (source, id, revision, self.me["instance"], self.token, text, now, now),
            )
            return None if made.rowcount else ""
        number, known, state, instance = row
        if revision < known:
            return "done"
        if state == IN_FLIGHT and instance not in (-1, self.me["instance"]):
            return ""
        if revision == known and state != IN_FLIGHT:
            return VERDICTS.get(state, "failed")
        self.ledger.execute(
            "UPDATE items SET attempts = CASE WHEN revision < ?1 THEN 1 ELSE attempts + 1 END, crashes = CASE WHEN"
            " revision < ?1 THEN 0 ELSE crashes END, revision = ?1, state = 0, reason = NULL, instance = ?3, token = ?4,"
            " source = CASE WHEN ?2 = '' THEN source ELSE ?2 END, item = ?5, time_changed = ?6 WHERE number = ?7",
            (revision, source, self.me["instance"], self.token, text, now, number),
        )
        return None

    def finish(self, key, revision, state, reason, text=None):
        """Writes an outcome; returns false if the claim is no longer ours."""
        return self.ledger.execute(
            "UPDATE items SET state = ?, reason = ?, item = COALESCE(?, item), time_changed = ? WHERE id = ? AND ? IN (source, '')"
            " AND state = 0 AND token = ? AND revision = ?",
            (state, reason, text, time.time(), key[1], key[0], self.token, revision),
        ).rowcount

    # -- Sockets --

    def open_sockets(self):
        if self.me.get("curve"):  # tcp:// sockets: the guard lets in only peers that have the secret key
            public = self.me["curve"]["public"].encode()

            class Ours:
                def callback(self, domain, key):  # versions of pyzmq differ in how they give the key
                    return public in (key, zmq.utils.z85.encode(key))

            self.guard = zmq.auth.thread.ThreadAuthenticator(self.context)
            self.guard.start()
            self.guard.configure_curve_callback("*", Ours())
        self.ins = {edge["edge"]: self.pair(edge, False) for edge in self.me["inputs"]}
        self.outs = {edge["edge"]: self.pair(edge, True) for edge in self.me["outputs"]}
        self.poller.register(self.work.wakes, zmq.POLLIN)
        self.listening = True
        windows = [edge.get("window", 8) for edge in self.me["outputs"]]
        self.room = 1 if self.me.get("one_by_one") else min(windows, default=8)
        for edge in self.ins:
            self.answer(edge, "hello", 0)

    def pair(self, edge, bind):
        push, pull = self.context.socket(zmq.PUSH), self.context.socket(zmq.PULL)
        pull.rcvhwm = 1000 if bind else 1  # items that this replica cannot take yet should go to another one
        pull.maxmsgsize = 2 * MESSAGE_MAX
        for socket, endpoint in zip((push, pull), (edge["data"], edge["ack"]) if bind else (edge["ack"], edge["data"])):
            self.endpoint(socket, endpoint, bind)
        self.poller.register(pull, zmq.POLLIN)
        return push, pull

    def endpoint(self, socket, endpoint, bind):
        if endpoint.startswith("tcp://"):
            public, secret = (self.me["curve"][key].encode() for key in ("public", "secret"))
            socket.curve_publickey, socket.curve_secretkey = public, secret
            if bind:
                socket.curve_server = True
            else:
                socket.curve_serverkey = public
        if endpoint.startswith("ipc://"):
            info = os.stat(os.path.dirname(endpoint[6:]))
            if info.st_uid != os.getuid() or info.st_mode & 0o777 != 0o700:
                raise ValueError(f"{os.path.dirname(endpoint[6:])} must belong to this user and have mode 0700")
        (socket.bind if bind else socket.connect)(endpoint)

    def bind_again(self):
        """Binds endpoints anew whose files a cleaner has deleted; connections that stand are not touched."""
        for edge in self.me["outputs"]:
            for socket, endpoint in zip(self.outs[edge["edge"]], (edge["data"], edge["ack"])):
                folder = os.path.dirname(endpoint[6:])
                if endpoint.startswith("ipc://") and os.path.isdir(folder) and not os.path.exists(endpoint[6:]):
                    try:
                        socket.unbind(endpoint)
                        socket.bind(endpoint)
                    except zmq.ZMQError as error:
                        self.stage.warn("socket-gone", f"{endpoint}: {error}")

    def answer(self, edge, kind, number, **more):
        frame = {"v": 1, "kind": kind, "edge": edge, "seq": number, "instance": self.me["instance"], "token": self.token}
        try:
            self.ins[edge][0].send_json({**frame, **more}, zmq.DONTWAIT)
        except zmq.Again:  # the sender repeats what it wants an answer to
            pass

    def listen(self, on):
        """Stops to read items while there is no room: they stay with their sender, or go to another replica."""
        if on != self.listening:
            for _, pull in self.ins.values():
                self.poller.register(pull, zmq.POLLIN) if on else self.poller.unregister(pull)
            self.listening = on

    # -- Items --

    def accept(self, edge, number, item):
        if not isinstance(item, dict) or not _id_is_good(item):
            return self.drop("the item has no good id")
        item.setdefault("source", edge.split(">")[0].rpartition(".")[0])
        item.setdefault("columns", {})  # where stages put numbers
        key, revision = _key(item), item.get("revision", 0)
        if key in self.held:
            if self.held[key][1] == revision:
                self.held[key][0] = edge, number
                self.answer(edge, "got", number)
            elif self.held[key][1] > revision:
                self.answer(edge, "ack", number, verdict="done")
            return None
        verdict = self.claim(item)
        if verdict:
            self.answer(edge, "ack", number, verdict=verdict)
        elif verdict is None:
            self.counts["in"] += 1
            self.held[key] = [(edge, number), revision, set(), None]
            self.answer(edge, "got", number)
            self.in_work.append(item["id"])
            self.work.todo.put(item)
        return None

    def settle(self):
        """Takes outcomes from the main thread."""
        while self.work.done:
            key, revision, state, reason, text = self.work.done.popleft()
            self.in_work.popleft()
            if state == DONE and self.outs:
                self.seq += 1
                self.held[key][2:] = set(self.outs), (state, reason, text)
                for edge in self.outs:
                    self.post(key, edge, "item", self.seq, f', "item": {text}')
            else:
                self.conclude(key, state, reason, text)

    def conclude(self, key, state, reason, text):
        (edge, number), revision = self.held.pop(key)[:2]
        if self.finish(key, revision, state, reason, text):
            self.counts[VERDICTS[state]] += 1
            self.answer(edge, "ack", number, verdict=VERDICTS[state])

    def post(self, key, edge, kind, number, more=""):
        head = f'{{"v": 1, "kind": "{kind}", "edge": {json.dumps(edge)}, "seq": {number}, "attempt": '
        self.parcels[edge, number] = _Parcel(key, edge, head, more + "}")
        self.send(self.parcels[edge, number])

    def send(self, parcel):
        now = time.monotonic()
        try:
            self.outs[parcel.edge][0].send(f"{parcel.head}{parcel.attempt + 1}{parcel.tail}".encode(), zmq.DONTWAIT)
        except zmq.Again:  # no receiver is there
            parcel.due = now + 1
            return
        parcel.attempt += 1
        parcel.due = now + (2 if parcel.key is None else min(10 * 2 ** (parcel.attempt - 1), 160) * (6 if parcel.got else 1))

    # -- Messages --

    def drop(self, why):
        self.counts["dropped"] += 1
        if self.counts["dropped"] == 1:
            self.stage.warn("stray", f"dropped a message: {why}")

    def receive(self, socket):
        frames = socket.recv_multipart()
        try:
            message = json.loads(frames[0]) if len(frames) == 1 else None
            edge, number, kind = message["edge"], message["seq"], message["kind"]
            if message["v"] != 1 or not isinstance(number, int) or edge not in {**self.ins, **self.outs}:
                raise ValueError(kind)
            comes_in = socket is self.ins.get(edge, (0, 0))[1]
            if kind == "item" and comes_in:
                self.accept(edge, number, message["item"])
            elif kind == "end" and comes_in:
                self.end_input(edge, number)
            elif kind in ("hello", "got", "ack") and edge in self.outs:
                self.answered(kind, edge, number, message["instance"], message["token"])
            else:
                raise ValueError(kind)
        except (ValueError, KeyError, TypeError) as error:
            self.drop(f"{_last_line(error)}")

    def answered(self, kind, edge, number, instance, token):
        if kind == "hello":
            self.tokens[instance, edge] = token
            for parcel in [parcel for parcel in self.parcels.values() if parcel.edge == edge]:
                if parcel.got is None or (parcel.got[0] == instance and parcel.got[1] != token):
                    parcel.got = None
                    self.send(parcel)
            return
        parcel = self.parcels.get((edge, number))
        if parcel is None:
            return
        if kind == "got":
            if self.tokens.get((instance, edge), token) == token:
                parcel.got = instance, token
                parcel.due = max(parcel.due, time.monotonic() + 60)
            return
        del self.parcels[edge, number]
        if parcel.key is None:
            self.out_ended.add(edge)
            return
        held = self.held[parcel.key]
        held[2].discard(edge)
        if not held[2]:
            self.conclude(parcel.key, *held[3])

    def end_input(self, edge, number):
        self.ledger.execute("INSERT OR IGNORE INTO ends (edge, run) VALUES (?, ?)", (edge, self.me.get("run", 0)))
        self.ended.add(edge)
        self.answer(edge, "ack", number, verdict="end")

    # -- The loop --

    def heartbeat(self):
        busy, counts = bool(self.in_work), self.counts
        state = "processing" if busy else "blocked" if self.held else "waiting"
        beat = {"time": time.time(), "pid": os.getpid(), "state": state, "queue": len(self.held)}
        beat.update({"in": counts["in"], "out": counts["done"], "note": self.stage._note})
        beat.update({name: counts[name] for name in ("rejected", "failed", "dropped", "warnings")})
        beat["change"] = self.stage._change
        if busy:
            beat["item"] = self.in_work[0]
        try:
            with open(self.me["heartbeat"] + ".tmp", "w") as file:
                json.dump(beat, file)
            os.replace(self.me["heartbeat"] + ".tmp", self.me["heartbeat"])
        except OSError:  # a full disk: the next beat comes in a second
            pass

    def keep_warnings(self):
        while self.stage._warnings:
            id, text, now = self.stage._warnings.popleft()
            self.ledger.execute(
                "INSERT INTO warnings (stage, id, message, count, first, last) VALUES (?, ?, ?, 1, ?, ?) ON CONFLICT (stage, id)"
                " DO UPDATE SET message = excluded.message, count = count + 1, last = excluded.last",
                (self.me["name"], id, text, now, now),
            )
            self.counts["warnings"] += 1

    def read_orders(self):
        """Gives a change of parameters to the main thread, which takes it over between two items."""
        try:
            found = os.stat(self.orders).st_mtime_ns
            if found == self.orders_time:
                return
            with open(self.orders) as file:
                me = json.load(file)
        except (OSError, ValueError):  # it is being replaced: the next look is in a second
            return
        self.orders_time = found
        if me.get("change", 0) != self.told:
            self.told = me["change"]
            self.work.todo.put(_Orders(me))

    def turn(self, milliseconds):
        self.listen(len(self.held) < self.room)
        for socket, _ in self.poller.poll(milliseconds):
            if socket == self.work.wakes:
                if signal.SIGTERM in os.read(self.work.wakes, 4096):
                    os._exit(143)
            elif self.listening or not any(socket is pull for _, pull in self.ins.values()):
                self.receive(socket)
            self.listen(len(self.held) < self.room)
        self.settle()
        now = time.monotonic()
        for parcel in [parcel for parcel in self.parcels.values() if parcel.due <= now]:
            self.send(parcel)
        if now - self.beat >= 1:
            self.beat = now
            self.keep_warnings()
            self.read_orders()
            self.heartbeat()
            self.bind_again()

    def loop(self):
        while not (len(self.ended) == len(self.ins) and not self.held):
            self.turn(200)
        self.out_ended = set()
        for edge in self.outs:
            self.post(None, edge, "end", 0)
        # Listens a little longer, in case the answer to an `end` was lost.
        while self.out_ended != set(self.outs):
            self.turn(200)
        if self.guard:
            self.guard.stop()
        self.keep_warnings()
        self.ledger.close()
        self.context.destroy(linger=1000)
        self.work.todo.put(None)


def _serve(service):
    """Runs the service. Whatever ends it ends the process: without it the main thread would wait for ever."""
    try:
        service.loop()
    except BaseException as error:
        os._exit(_fail(service.stage, error))


def _fail(stage, error):
    """Writes why the stage cannot go on. Returns its exit code: 75 if the machine lacks something that may come back."""
    stage._write_trace()
    stage._write("ERROR", "stage", _last_line(error))
    full = isinstance(error, sqlite3.OperationalError) and any(w in str(error) for w in ("full", "I/O", "locked", "readonly"))
    code = 75 if full or (isinstance(error, OSError) and error.errno in WAITED_OUT) else 1
    sys.stderr.flush()
    return code


def _run(stage, me, orders):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a source would end its stream; others go on until `end` comes
    try:
        work = _Work(stage)
        # The service ends the process at once, even while process is inside a library.
        signal.set_wakeup_fd(work.wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        stage._write("INFO", "start", f"{stage.describe()['name']} {stage.version}")
        service = _Service(stage, work, orders)
        service.heartbeat()
        thread = threading.Thread(target=_serve, args=(service,), daemon=True)
        thread.start()  # before setup, which may take long: the heart beats meanwhile
        stage.setup()
        work.loop()
        thread.join()
    except (Exception, SystemExit) as error:
        os._exit(_fail(stage, error))
