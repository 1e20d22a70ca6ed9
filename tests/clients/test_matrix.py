"""The client matrix: every client in its own language, part by part, against Onrush and redis-server. No part is left out in CI; elsewhere those are
skipped whose language is not installed, and `make test` says so.

The `redis` crate and Onrush's own client are in tests/tests/client/client.rs.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Server
from sentinels import group, primary, wait  # noqa: F401

HERE = Path(__file__).parent / "matrix"
PLAIN = ["strings", "types", "pipeline", "multi", "script", "pubsub"]


def build(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def hiredis(folder):
    build(["cc", "-O1", "-o", folder / "hiredis", HERE / "hiredis.c", "-lhiredis"], folder)
    return [str(folder / "hiredis")]


def go(folder):
    build(["go", "build", "-mod=readonly", "-o", folder / "client", "."], HERE / "go")
    return [str(folder / "client")]


def java(folder):
    jars = folder / "jars"
    build(["mvn", "-q", "-B", f"-DoutputDirectory={jars}", "dependency:copy-dependencies"], HERE / "java")
    sources = [str(source) for source in (HERE / "java").rglob("*.java")]
    build(["javac", "-d", folder, "-cp", f"{jars}/*", *sources], folder)
    return ["java", "-cp", f"{folder}:{jars}/*", "Main"]


BUILT = {}


def built(language, *args):
    """How a program is called that is built once, for whichever tests use it."""

    def command(tmp_path_factory):
        if language not in BUILT:
            BUILT[language] = language(tmp_path_factory.mktemp(language.__name__))
        return [*BUILT[language], *args]

    return command


CLIENTS = {
    "redis-py": (lambda _: [sys.executable, str(HERE / "redis_py.py")], PLAIN),
    "ioredis": (lambda _: ["node", str(HERE / "ioredis.js")], [*PLAIN, "auto"]),
    "node-redis": (lambda _: ["node", str(HERE / "node_redis.js")], [*PLAIN, "auto", "resp3"]),
    "redis-rb": (lambda _: ["ruby", str(HERE / "redis_rb.rb")], PLAIN),
    "phpredis": (lambda _: ["php", str(HERE / "phpredis.php")], PLAIN),
    "hiredis": (built(hiredis), PLAIN),
    "go-redis": (built(go, "go-redis"), PLAIN),
    "rueidis": (built(go, "rueidis"), [*PLAIN, "auto"]),
    "Jedis": (built(java, "jedis"), PLAIN),
    "Lettuce": (built(java, "lettuce"), [*PLAIN, "auto"]),
}

NEEDS = {
    "ioredis": "node",
    "node-redis": "node",
    "redis-rb": "ruby",
    "phpredis": "php",
    "hiredis": "cc",
    "go-redis": "go",
    "rueidis": "go",
    "Jedis": "mvn",
    "Lettuce": "mvn",
}


class Oracle(Server):
    binary = shutil.which("redis-server")


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    running = {"onrush": Server(tmp_path_factory.mktemp("onrush")), "redis": Oracle(tmp_path_factory.mktemp("redis"))}
    yield running
    for server in running.values():
        server.process.kill()
        server.process.wait()


def is_there(client):
    """Whether the client's language is installed; in CI it has to be."""
    return "CI" in os.environ or shutil.which(NEEDS.get(client, "python3")) is not None


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    def command(client, clients=CLIENTS):
        if not is_there(client):
            pytest.skip(f"{NEEDS[client]} is not installed")
        return clients[client][0](tmp_path_factory)

    return command


@pytest.mark.parametrize("name", ["onrush", pytest.param("redis", marks=pytest.mark.slow)])
@pytest.mark.parametrize("client, part", [(client, part) for client, (_, parts) in CLIENTS.items() for part in parts])
def test_part(servers, commands, name, client, part):
    server = servers[name]
    server.talk(b"FLUSHALL\r\n", 5)
    done = subprocess.run([*commands(client), str(server.port), part], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("fault", ["kill", *(pytest.param(fault, marks=pytest.mark.nightly) for fault in ["stop", "planned"])])
def test_clients_go_on_at_the_next_primary(group, commands, fault):
    """Clients that find the primary through Redis's Sentinels go on writing when it dies, stands still, or hands over."""
    servers, sentinels = group
    clients = ["redis-py", "ioredis", "go-redis", "Jedis"]
    running = {
        client: subprocess.Popen([*commands(client), str(sentinels[0].port), "sentinel"], stderr=subprocess.PIPE, text=True)
        for client in clients
    }

    def all_count():
        server = primary(servers, sentinels)
        count = lambda client: int(server.ask("GET", f"count:{client}") or 0)  # noqa: E731
        before = {client: count(client) for client in clients}
        for client in clients:
            wait(lambda client=client: count(client) > before[client], server.log)

    try:
        all_count()
        old = primary(servers, sentinels)
        if fault == "kill":
            old.end()
        elif fault == "stop":
            os.kill(old.process.pid, signal.SIGSTOP)
        else:
            wait(lambda: sentinels[0].ask("SENTINEL", "failover", "group") == "OK", sentinels[0].log)
        wait(lambda: primary(servers, sentinels) is not old, sentinels[0].log)
        if fault == "stop":
            os.kill(old.process.pid, signal.SIGCONT)
        all_count()
        assert primary(servers, sentinels).ask("SET", "stop", "1") == "OK"
        for client, process in running.items():
            assert process.wait(timeout=30) == 0, (client, process.stderr.read())
    finally:
        for process in running.values():
            process.kill()
            process.wait()
