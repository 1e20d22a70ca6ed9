#!/usr/bin/env python3
"""Sends large data from Onrush to redis-server and back, and from redis-server to Onrush and back, as files.

A server is filled and saves; the other one starts on the file, and must have the same keys and the same DEBUG DIGEST; it
saves, and the first one starts on that. Each of this with an RDB file and with an append-only file after a rewrite, whose
base is an RDB file or commands. Digests of data that never leaves one server prove nothing, so a digest is compared with
the one taken before the first save, on the server that was filled.

    shapes.py                          20,000,000 small keys, and few huge ones: files of some GB, 10 GB of memory
    shapes.py --scale 0.001 --no-record    the same shapes in seconds
    shapes.py --shapes many --formats rdb  only some of them
"""

import argparse
import datetime
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

from harness.load import command as encode  # noqa: E402
from harness.report import path_of_record  # noqa: E402
from harness.servers import free_port  # noqa: E402

LAST = "the last reply"
LAST_REPLY = f"${len(LAST)}\r\n{LAST}\r\n".encode()
FORMATS = ("rdb", "aof", "aof-commands")


class Server:
    """A server on a folder, which outlives it."""

    def __init__(self, kind, folder, form):
        self.kind, self.port = kind, free_port()
        command = [kind.binary, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        command += ["--enable-debug-command", "yes", "--rdbcompression", "yes"]
        if form != "rdb":
            command += ["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"]
        if form == "aof-commands":
            command += ["--aof-use-rdb-preamble", "no"]
        self.log = open(os.path.join(folder, f"{kind.name}.log"), "ab")
        started = time.monotonic()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, cwd=folder)
        self.conn = None
        while self.conn is None:
            if self.process.poll() is not None:
                raise SystemExit(f"{kind.name} ends at once: {open(self.log.name).read()[-2000:]}")
            try:
                self.conn = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                time.sleep(0.01)
        self.conn.settimeout(3600)
        self.replies = self.conn.makefile("rb")
        while self.call("PING").startswith(b"-LOADING"):
            time.sleep(0.05)
        self.start_s = time.monotonic() - started

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.conn.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.log.close()

    def reply(self):
        line = self.replies.readline()
        if not line:
            raise SystemExit(f"{self.kind.name} has closed the connection: {open(self.log.name).read()[-2000:]}")
        if line[:1] == b"$" and line[1:2] != b"-":
            return self.replies.read(int(line[1:]) + 2)[:-2]
        if line[:1] in b"*%":
            for _ in range(int(line[1:]) * (2 if line[:1] == b"%" else 1)):
                self.reply()
        return line.rstrip()

    def call(self, *args):
        self.conn.sendall(encode(*args))
        return self.reply()

    def ok(self, *args):
        reply = self.call(*args)
        if reply.startswith(b"-"):
            raise SystemExit(f"{self.kind.name}: {args[:2]}: {reply.decode()}")
        return reply

    def fill(self, path):
        """Sends the commands in a file while it reads the replies."""
        sending = threading.Thread(target=self.send, args=(path,))
        sending.start()
        tail = b"\n"
        while not tail.endswith(LAST_REPLY):
            part = self.replies.read1(1 << 20)
            error = b"" if b"\n-" not in tail + part else (tail + part).split(b"\n-", 1)[1]
            if not part or error:
                raise SystemExit(f"{self.kind.name}: {error[:200].decode(errors='replace') or 'has closed the connection'}")
            tail = (tail + part)[-len(LAST_REPLY) :]
        sending.join()

    def send(self, path):
        with open(path, "rb") as commands:
            self.conn.sendfile(commands)
        self.conn.sendall(encode("ECHO", LAST))

    def info(self, section, field):
        text = self.ok("INFO", section).decode()
        return next(line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith(field + ":"))

    def save(self, form):
        """Saves everything; returns how long it took."""
        started = time.monotonic()
        if form == "rdb":
            self.ok("SAVE")
            return time.monotonic() - started
        self.ok("BGREWRITEAOF")
        while [self.info("persistence", f"aof_rewrite_{state}") for state in ("scheduled", "in_progress")] != ["0", "0"]:
            time.sleep(0.02)
        if self.info("persistence", "aof_last_bgrewrite_status") != "ok":
            raise SystemExit(f"{self.kind.name}: the rewrite has failed")
        return time.monotonic() - started

    def state(self):
        return self.ok("DBSIZE"), self.ok("DEBUG", "DIGEST")

    def rss_mb(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


class Kind:
    def __init__(self, name, binary):
        self.name, self.binary = name, binary


def many_small(scale):
    """Small keys of all types."""
    for n in range(int(20_000_000 * scale)):
        kind = n % 20
        if kind < 12:
            yield ("SET", f"string:{n}", f"value:{n}")
        elif kind < 14:
            yield ("SET", f"integer:{n}", n, "PX", 10**12 + n)
        elif kind == 14:
            yield ("RPUSH", f"list:{n}", "a", n, f"element:{n}")
        elif kind == 15:
            yield ("SADD", f"set:{n}", "a", "b", f"member:{n}")
        elif kind == 16:
            yield ("SADD", f"intset:{n}", 1, n, -n)
        elif kind == 17:
            # Digests of redis-server 7.0 are others where a score has 17 digits.
            yield ("ZADD", f"zset:{n}", n, "a", n / 8, f"member:{n}")
        elif kind == 18:
            yield ("HSET", f"hash:{n}", "field", f"value:{n}", "number", n)
        else:
            yield ("XADD", f"stream:{n}", f"{n + 1}-1", "field", f"value:{n}")


def few_huge(scale):
    """One huge key of each type."""
    members, step = int(10_000_000 * scale), 100
    for n in range(0, members, step):
        some = range(n, min(n + step, members))
        yield ("RPUSH", "list", *(f"element:{m}" for m in some))
        yield ("SADD", "set", *(f"member:{m}" for m in some))
        yield ("ZADD", "zset", *(part for m in some for part in (m * 0.25, f"member:{m}")))
        yield ("HSET", "hash", *(part for m in some for part in (f"field:{m}", f"value:{m}")))
    for n in range(members // 2):
        yield ("XADD", "stream", f"{n + 1}-0", "sensor", n % 100, "value", n)
    yield ("XGROUP", "CREATE", "stream", "group", 0)
    yield ("XREADGROUP", "GROUP", "group", "consumer", "COUNT", members // 100, "STREAMS", "stream", ">")
    # 512 MB, built piece by piece; half of it can be compressed.
    piece = (b"text that repeats " * 60_000)[: 1 << 20]
    length = int((512 << 20) * scale)
    for at in range(0, length, 2 * len(piece)):
        yield ("SETRANGE", "string", at, piece)
        yield ("SETRANGE", "string", min(at + len(piece), length - 1), os.urandom(min(len(piece), 1 + length // 2)))


SHAPES = {"many": many_small, "few": few_huge}


def size_mb(folder):
    files = (os.path.join(path, name) for path, _, names in os.walk(folder) for name in names if not name.endswith(".log"))
    return sum(map(os.path.getsize, files)) / 1e6


def write_commands(shape, scale, path):
    """Writes the commands that make a shape into a file, and says how long that took."""
    started = time.monotonic()
    with open(path, "wb", buffering=1 << 20) as out:
        for command in SHAPES[shape](scale):
            out.write(encode(*command))
    print(f"{shape}: {os.path.getsize(path) / 1e6:.0f} MB of commands in {time.monotonic() - started:.0f} s", flush=True)


def round_trip(first, second, shape, form, commands, folder, rows):
    """Fills `first`, then goes over to `second` and back."""
    state = None
    for step, kind in enumerate((first, second, first)):
        with Server(kind, folder, form) as server:
            row = {"shape": shape, "form": form, "way": f"{first.name} → {second.name} → {first.name}", "on": kind.name}
            if step == 0:
                server.fill(commands)
                state = server.state()
            else:
                row["load s"] = server.start_s
                if server.state() != state:
                    raise SystemExit(f"{row}: {server.state()} is not {state}")
            row["keys"] = int(state[0][1:])
            row["RSS MB"] = server.rss_mb()
            if step < 2:
                row["save s"] = server.save(form)
                row["file MB"] = size_mb(folder)
        rows.append(row)
        print(table([row], len(rows) == 1), flush=True)


COLUMNS = ("shape", "form", "way", "on", "keys", "load s", "save s", "file MB", "RSS MB")


def table(rows, has_head=True):
    def cell(row, name):
        value = row.get(name, "")
        return f"{value:.1f}" if isinstance(value, float) else str(value)

    head = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)] if has_head else []
    return "\n".join(head + ["| " + " | ".join(cell(row, name) for name in COLUMNS) + " |" for row in rows])


def record(rows, arguments):
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    path = path_of_record(os.path.join(HERE, "runs"), f"{commit}-shapes.md")
    with open(path, "w") as out:
        out.write(f"# Large data there and back, {datetime.date.today()}, {commit}\n\n")
        out.write(f"`{' '.join(['shapes.py', *arguments])}`; {os.cpu_count()} processors. Each row is one server: it loaded the file that the\n")
        out.write("row before has saved (the first one of a way was filled), had as many keys and the same DEBUG DIGEST, and saved.\n\n")
        out.write(table(rows) + "\n")
    print(path)


def main():
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    onrush = os.environ.get("ONRUSH_SERVER_BIN", os.path.join(target, "release", "onrush-server"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the keys and members (default 1)")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="many, few")
    parser.add_argument("--formats", default=",".join(FORMATS), help=", ".join(FORMATS))
    parser.add_argument("--onrush", default=onrush, help="path of onrush-server")
    parser.add_argument("--redis", default=os.environ.get("REDIS_SERVER_BIN", "redis-server"), help="path of redis-server")
    parser.add_argument("--dir", default=None, help="where the files are made; they are deleted at the end")
    parser.add_argument("--no-record", action="store_true", help="print only, write nothing to runs/")
    options = parser.parse_args()
    ours, theirs = Kind("onrush", options.onrush), Kind("redis-server", options.redis)
    rows = []
    for shape in options.shapes.split(","):
        with tempfile.TemporaryDirectory(prefix="onrush-shapes-", dir=options.dir) as root:
            commands = os.path.join(root, "commands")
            write_commands(shape, options.scale, commands)
            for form in options.formats.split(","):
                for first, second in ((ours, theirs), (theirs, ours)):
                    with tempfile.TemporaryDirectory(dir=root) as folder:
                        round_trip(first, second, shape, form, commands, folder, rows)
    if not options.no_record:
        record(rows, sys.argv[1:])


if __name__ == "__main__":
    main()
