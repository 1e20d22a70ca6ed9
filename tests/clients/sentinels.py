"""Three servers and three of Redis's Sentinels."""

import shutil
import subprocess
import time

import pytest
from conftest import BINARY
from ports import free_port

class Node:
    """A process with its own folder and configuration."""

    def __init__(self, folder, program, lines, args=()):
        folder.mkdir()
        self.port = free_port()
        self.config, self.log = folder / "conf", folder / "log"
        fixed = [f"port {self.port}", "bind 127.0.0.1", f"dir {folder}"]
        self.config.write_text("\n".join([*fixed, *lines]) + "\n")
        self.command = [program, str(self.config), *args]
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait(lambda: self.ask("PING") == "PONG", self.log)

    def ask(self, *args):
        command = ["redis-cli", "-h", "127.0.0.1", "-p", str(self.port), *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return done.stdout.strip()

    def end(self):
        self.process.kill()
        self.process.wait()


def wait(done, log=None, seconds=40):
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, log.read_text(errors="replace") if log else "in vain"
        time.sleep(0.05)


@pytest.fixture
def group(tmp_path):
    made = []
    try:
        for nth in range(3):
            replicaof = [f"replicaof 127.0.0.1 {made[0].port}"] if made else []
            made.append(Node(tmp_path / f"server{nth}", BINARY, ["appendonly yes", *replicaof]))
        watch = [
            f"sentinel monitor group 127.0.0.1 {made[0].port} 2",
            "sentinel down-after-milliseconds group 1000",
            "sentinel failover-timeout group 6000",
            "protected-mode no",
        ]
        for nth in range(3):
            made.append(Node(tmp_path / f"sentinel{nth}", shutil.which("redis-server"), watch, ["--sentinel"]))
        wait(lambda: all("num-slaves\n2\n" in node.ask("SENTINEL", "master", "group") for node in made[3:]), made[3].log)
        wait(lambda: all(node.ask("SENTINEL", "ckquorum", "group").startswith("OK 3") for node in made[3:]), made[3].log)
        yield made[:3], made[3:]
    finally:
        for node in made:
            node.end()


def primary(servers, sentinels):
    port = sentinels[0].ask("SENTINEL", "get-master-addr-by-name", "group").split()[-1]
    return next(server for server in servers if str(server.port) == port)
