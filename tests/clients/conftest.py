"""A server of its own for each test module, on a free port, ended with the module."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ports import free_port

BINARY = os.environ.get(
    "ONRUSH_SERVER_BIN", str(Path(__file__).resolve().parents[2] / "target" / "release" / "onrush-server")
)

# A test file may take what another one has, whichever of them pytest reads first.
sys.path += [str(Path(__file__).resolve().parent / room) for room in ("benchmark", "cli", "cluster", "project", "tls")]


def pytest_configure(config):
    config.addinivalue_line("markers", "nightly: needs what is too large to be installed for each run")
    config.addinivalue_line("markers", "slow: seldom fails and takes long; in the nightly run")


# A shell ignores Ctrl-C for what it runs in the background, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Server:
    binary = BINARY
    extra = ()

    def __init__(self, folder):
        self.port = free_port()
        self.log = folder / "output"
        command = [self.binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        command += self.extra
        if not os.path.basename(self.binary).startswith("redis-server"):
            command += ["--workers", "2"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait_ready()

    def wait_ready(self):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self.talk(b"PING\r\n", 7) == b"+PONG\r\n":
                    return
            except OSError:
                time.sleep(0.005)
        pytest.fail(f"{self.binary} does not answer:\n{self.log.read_text(errors='replace')}")

    def talk(self, request, reply_len):
        """Sends raw bytes and reads exactly `reply_len` back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as conn:
            conn.sendall(request)
            reply = b""
            while len(reply) < reply_len:
                part = conn.recv(65536)
                if not part:
                    break
                reply += part
            return reply

    def cli(self, *args, stdin=None):
        """What redis-cli prints; its exit status must be 0."""
        command = ["redis-cli", "-h", "127.0.0.1", "-p", str(self.port), *args]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("server"))
    yield running
    running.process.kill()
    running.process.wait()


@pytest.fixture(autouse=True)
def empty_keyspace(server):
    server.talk(b"FLUSHALL\r\n", 5)
