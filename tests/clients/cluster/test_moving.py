"""A whole cluster of redis-server is moved to Onrush and back by the commands that docs/moving.md shows, while clients
write. Nothing that was acknowledged is lost.
"""

import json
import os
import re
import shlex
import subprocess
import threading
import time
from pathlib import Path

import pytest
from conftest import BINARY
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisError
from test_cli_cluster import ORACLE, PATIENCE, SERVER, Node, empty_keyspace, settled  # noqa: F401

ROOT = Path(__file__).resolve().parents[3]
NEWER = os.environ.get("REDIS_NEWER_SERVER_BIN", str(ROOT / "target" / "oracle" / "redis-server"))
HOSTS = [f"{age}-{number}" for age in ("old", "new") for number in range(1, 7)]

pytestmark = pytest.mark.skipif(not ORACLE or not SERVER, reason="redis-cli and redis-server are not installed")

# Goes to the port of a host's node; the hosts' names stand in arguments as redis-cli takes them.
REDIRECTED = """#!/usr/bin/env python3
import json, os, re, sys
ports = json.load(open(os.environ["PORTS"]))
args = [re.sub(r"^((?:old|new)-\\d):6379$", lambda m: f"127.0.0.1:{ports[m[1]]}", arg) for arg in sys.argv[1:]]
if "-h" in args:
    at = args.index("-h")
    args[at : at + 2] = ["-h", "127.0.0.1", "-p", str(ports[args[at + 1]])]
os.execv(os.environ["REDIS_CLI"], ["redis-cli", *args])
"""


def steps():
    """The blocks of commands of the chapter."""
    page = (ROOT / "docs" / "moving.md").read_text()
    chapter = page.split("## A whole cluster, without a stop\n")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", chapter, re.DOTALL)


class Stage:
    """Hosts with names, and a shell in which redis-cli finds them."""

    def __init__(self, folder):
        self.folder, self.nodes = folder, {}
        programs = folder / "programs"
        programs.mkdir()
        for name, text in {"redis-cli": REDIRECTED, "sleep": "#!/bin/sh\nexec /bin/sleep 0.1\n"}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        path = f"{programs}:{os.environ['PATH']}"
        self.environment = {"PATH": path, "PORTS": str(folder / "ports"), "REDIS_CLI": ORACLE, "HOME": str(folder)}

    def start(self, age, binary, line):
        """Starts a node on each host, by the line of the page without what the test chooses itself."""
        args = shlex.split(line)
        assert args[:3] == ["onrush-server", "--port", "6379"], line
        for number in range(1, 7):
            count = len(list(self.folder.iterdir()))
            folder = self.folder / f"{age}-{number}-{count}"
            self.nodes[f"{age}-{number}"] = Node(folder, *args[3:], "--repl-diskless-sync-delay", "0", binary=binary)
        ports = {host: node.port for host, node in self.nodes.items()}
        (self.folder / "ports").write_text(json.dumps(ports))

    def run(self, step):
        done = subprocess.run(
            ["bash", "-ec", step], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{step}\n{done.stdout}{done.stderr}"

    def exchange(self):
        """What was new is old now."""
        for number in range(1, 7):
            old = self.nodes.pop(f"old-{number}")
            assert old.process.wait(PATIENCE) == 0
            self.nodes[f"old-{number}"] = self.nodes.pop(f"new-{number}")

    def end(self):
        for node in self.nodes.values():
            node.end()


class Writer(threading.Thread):
    """Writes pipelines to keys of its own, and remembers what was acknowledged."""

    def __init__(self, number, ports):
        super().__init__()
        nodes = [ClusterNode("127.0.0.1", port) for port in ports]
        self.client = RedisCluster(startup_nodes=nodes, socket_timeout=5)
        self.ended = threading.Event()
        self.keys = [f"writer-{number}-{nth}" for nth in range(20)]
        self.counted = dict.fromkeys(self.keys, 0)
        self.pushed = {key: [] for key in self.keys}
        self.refused, self.longest_s = [], 0

    def run(self):
        turn = 0
        while not self.ended.is_set():
            turn += 1
            pipeline = self.client.pipeline()
            for key in self.keys:
                pipeline.incr(f"count-{key}")
                pipeline.rpush(f"list-{key}", turn)
            began = time.monotonic()
            try:
                replies = pipeline.execute(raise_on_error=False)
            except (RedisError, OSError) as error:
                self.refused.append(repr(error))
                continue
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            for key, count, length in zip(self.keys, replies[::2], replies[1::2], strict=True):
                if isinstance(count, int):
                    assert count > self.counted[key], f"{key}: {count} after {self.counted[key]}"
                    self.counted[key] = count
                if isinstance(length, int):
                    self.pushed[key].append((turn, length))
                self.refused += [repr(reply) for reply in (count, length) if not isinstance(reply, int)]

    def lost(self):
        """What was acknowledged and is not there; each push has to be at the place that its reply named."""
        lost = []
        for key in self.keys:
            if int(self.client.get(f"count-{key}") or 0) < self.counted[key]:
                lost.append(f"count-{key}")
            found = [int(turn) for turn in self.client.lrange(f"list-{key}", 0, -1)]
            lost += [(key, turn) for turn, length in self.pushed[key] if found[length - 1 : length] != [turn]]
        return lost


def moved(stage, line, *parts):
    writers = [Writer(number, [node.port for node in stage.nodes.values()]) for number in range(2)]
    for writer in writers:
        writer.start()
    try:
        for part in parts:
            stage.run(part)
            assert all(writer.is_alive() for writer in writers)
    finally:
        for writer in writers:
            writer.ended.set()
        for writer in writers:
            writer.join(PATIENCE)
    assert not any(writer.lost() for writer in writers)
    written = sum(len(pushed) for writer in writers for pushed in writer.pushed.values())
    refused = sum(len(writer.refused) for writer in writers)
    longest_ms = max(writer.longest_s for writer in writers) * 1_000
    print(f"{line}: {written} pushes, {refused} refused, a pipeline took {longest_ms:.0f} ms at most")
    assert written > 1_000


@pytest.mark.nightly
@pytest.mark.parametrize("partner", ["older", "newer"])
def test_a_cluster_moves_to_onrush_and_back_while_clients_write(tmp_path, partner):
    binary = {"older": SERVER, "newer": NEWER}[partner]
    start, *parts = steps()
    assert len(parts) == 4
    stage = Stage(tmp_path)
    try:
        stage.start("old", binary, start)
        places = [stage.nodes[f"old-{number}"].place for number in range(1, 7)]
        created = subprocess.run(
            [ORACLE, "--cluster", "create", *places, "--cluster-replicas", "1", "--cluster-yes"], capture_output=True
        )
        assert created.returncode == 0, created.stdout
        settled(list(stage.nodes.values()))
        for to, server in [("there", BINARY), ("back", binary)]:
            stage.start("new", server, start)
            moved(stage, f"{partner}, {to}", *parts)
            stage.exchange()
            left = [stage.nodes[f"old-{number}"] for number in range(1, 7)]
            settled(left)
            lines = left[0].ask("CLUSTER", "NODES").splitlines()
            assert len(lines) == 6 and sum("slave" in line for line in lines) == 3, lines
    finally:
        stage.end()
