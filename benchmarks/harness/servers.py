"""Servers as child processes, and what the kernel knows about them."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

SERVER_CORE = 0
CLIENT_CORE = 1


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One running server, pinned to SERVER_CORE; ends with the `with` block."""

    def __init__(self, name, binary, args=(), pinned=True):
        self.name = name
        # The case whose data is loaded, if its commands only read.
        self.prepared = None
        self.port = free_port()
        self.dir = tempfile.mkdtemp(prefix="onrush-bench-")
        self.command = ["taskset", "-c", str(SERVER_CORE)] if pinned else []
        self.command += [binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self.command += ["--dir", self.dir, *args]
        self.log = open(os.path.join(self.dir, "output"), "wb")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log, cwd=self.dir)

    def __enter__(self):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                with self.connect() as conn:
                    conn.sendall(b"PING\r\n")
                    if conn.recv(7) == b"+PONG\r\n":
                        return self
            except OSError:
                pass
            time.sleep(0.005)
        with open(os.path.join(self.dir, "output"), errors="replace") as log:
            text = log.read()
        self.__exit__()
        raise SystemExit(f"{' '.join(self.command)} does not answer:\n{text}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def connect(self):
        conn = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return conn

    def cpu_ns(self):
        """CPU time of all its threads so far, in nanoseconds."""
        tasks = f"/proc/{self.process.pid}/task"
        total = 0
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/schedstat") as stat:
                total += int(stat.read().split()[0])
        return total

    def rss_bytes(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        raise SystemExit(f"{self.name} has ended")


class Kinds:
    """How to start the two servers that are held against each other."""

    def __init__(self, onrush, redis):
        # A redis-server may stand in for Onrush, to try the harness itself.
        stand_in = os.path.basename(onrush).startswith("redis-server")
        self.binaries = {"redis": redis, "onrush": onrush}
        self.args = {"redis": [], "onrush": [] if stand_in else ["--workers", "1"]}

    def start(self, name, pinned=True, args=()):
        return Server(name, self.binaries[name], [*self.args[name], *args], pinned)


def add_binaries(parser, root):
    """The options that say which servers are measured, and what sends the load."""
    target = os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(root, "target")))
    onrush = os.environ.get("ONRUSH_SERVER_BIN", os.path.join(target, "release/onrush-server"))
    newer = os.environ.get("REDIS_NEWER_SERVER_BIN", os.path.join(target, "oracle/redis-server"))
    parser.add_argument("--onrush", default=onrush)
    parser.add_argument("--redis", default="redis-server")
    parser.add_argument("--redis-newer", default=newer)
    parser.add_argument("--redis-benchmark", default="redis-benchmark")


def chosen_binaries(args):
    """The servers of these options by their names in tables."""
    return {"onrush": args.onrush, "redis": args.redis, "redis-newer": args.redis_newer}
