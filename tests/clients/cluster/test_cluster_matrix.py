"""The client matrix in a cluster: the cluster client of every library, part by part, and all of them together while slots move and primaries change.

They use one cluster of Onrush, and of redis-server in the nightly tests. Another redis-server is named by REDIS_CLUSTER_SERVER_BIN.
"""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from clusters import Cluster, slot_of, wait
from conftest import BINARY
from test_matrix import HERE, built, commands, go, is_there, java  # noqa: F401

PROGRAMS = HERE / "cluster"
WITHOUT_SHARDS = ["keys", "pipeline", "multi", "script", "pubsub"]
PARTS = [*WITHOUT_SHARDS, "shards"]
CLIENTS = {
    "redis-py": (lambda _: [sys.executable, str(PROGRAMS / "redis_py.py")], PARTS),
    "ioredis": (lambda _: ["node", str(PROGRAMS / "ioredis.js")], PARTS),
    "node-redis": (lambda _: ["node", str(PROGRAMS / "node_redis.js")], PARTS),
    "redis-rb": (lambda _: ["ruby", str(PROGRAMS / "redis_rb.rb")], WITHOUT_SHARDS),
    "go-redis": (built(go, "go-redis-cluster"), PARTS),
    "rueidis": (built(go, "rueidis-cluster"), PARTS),
    "Jedis": (built(java, "jedis-cluster"), PARTS),
    "Lettuce": (built(java, "lettuce-cluster"), PARTS),
}
COUNTERS = 30
FUNCTION = """#!lua name=matrix
redis.register_function('add_to', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)"""
SERVERS = {"onrush": BINARY, "redis": os.environ.get("REDIS_CLUSTER_SERVER_BIN") or shutil.which("redis-server")}


@pytest.fixture(autouse=True)
def empty_keyspace():
    """Takes the place of the one that starts a server that is no node."""


@pytest.fixture(scope="module", params=["onrush", pytest.param("redis", marks=pytest.mark.nightly)])
def cluster(request, tmp_path_factory):
    if SERVERS[request.param] is None:
        pytest.skip("redis-server is not installed")
    running = Cluster(SERVERS[request.param], tmp_path_factory.mktemp("cluster"))
    try:
        for node in running.primaries():
            node.ask("FUNCTION", "LOAD", FUNCTION)
        yield running
    finally:
        running.end()


@pytest.fixture(scope="module")
def outcome(cluster, commands):
    """Which parts a client gets through, each after the one before, and what it says of the first that it does not."""
    made = {}

    def of(client):
        if client not in made:
            cluster.clear()
            command = [*commands(client, CLIENTS), cluster.seeds(), *CLIENTS[client][1]]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            made[client] = done.stdout.split(), done.stderr
        return made[client]

    return of


@pytest.mark.parametrize("client, part", [(client, part) for client, (_, parts) in CLIENTS.items() for part in parts])
def test_part(outcome, client, part):
    through, said = outcome(client)
    assert part in through, said


class Counting:
    """All clients, which increment counters of slots all over the cluster until they are told to stop."""

    def __init__(self, cluster, commands):
        self.cluster = cluster
        clients = [client for client in CLIENTS if is_there(client)]
        self.running = {
            client: subprocess.Popen(
                [*commands(client, CLIENTS), cluster.seeds(), "count"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for client in clients
        }

    def keys(self):
        return [f"count:{client}:{nth}" for client in self.running for nth in range(COUNTERS)]

    def values(self):
        return {key: int(value or 0) for key, value in self.cluster.get(self.keys()).items()}

    def all_count(self, but=()):
        """Waits until every counter is incremented, except those of some clients."""
        before = self.values()
        waiting = {key for key in before if key.split(":")[1] not in but}

        def counted():
            for client, process in self.running.items():
                assert process.poll() is None, (client, process.stderr.read())
            waiting.difference_update(key for key, value in self.values().items() if value > before[key])
            return not waiting

        wait(counted, waiting)

    def stop(self):
        """What each client says: how many increments of each key were acknowledged, and how often it met which error."""
        self.cluster.set("stop", 1)
        said = {}
        for client, process in self.running.items():
            out, err = process.communicate(timeout=60)
            assert process.returncode == 0, (client, err)
            said[client] = json.loads(out.splitlines()[0])
        return said

    def end(self):
        for process in self.running.values():
            process.kill()
            process.wait()


@pytest.fixture
def counting(cluster, commands):
    cluster.clear()
    clients = Counting(cluster, commands)
    try:
        clients.all_count()
        yield clients
    finally:
        clients.end()


def assert_nothing_is_lost(counting, allowed="^$"):
    """What was acknowledged is there, and no client met an error that is not allowed."""
    said, values = counting.stop(), counting.values()
    for client, of in said.items():
        assert [error for error in of["errors"] if not re.search(allowed, error)] == [], client
        doubtful = sum(of["errors"].values())
        for key, count in of["acknowledged"].items():
            assert count <= values[key] <= count + doubtful, (key, of["errors"])


def test_slots_move_beneath_clients(cluster, counting):
    slots = {slot_of(key) for key in counting.keys()[::6]}
    for target in cluster.primaries()[1:]:
        cluster.move(slots, target, pause_s=0.3)
        counting.all_count()
    assert_nothing_is_lost(counting)
    cluster.settle()


# A node that hears first that the old primary is a replica knows no owner of its slots until it hears of the new one. So it is with
# redis-server 7.0 and 8.2, too.
GAP = "CLUSTERDOWN Hash slot not served|the slot has no redis node"


def test_planned_failovers_beneath_clients(cluster, counting):
    for primary in cluster.primaries()[:2]:
        cluster.hand_over(primary)
        counting.all_count()
    assert_nothing_is_lost(counting, GAP)


# Keeps commands for a node that is gone until the node is back and says MOVED.
NEEDS_THE_NODE = ["node-redis"]


def test_a_primary_dies_beneath_clients_and_comes_back(cluster, counting):
    killed = cluster.primaries()[0]
    cluster.kill(killed)
    counting.all_count(but=NEEDS_THE_NODE)
    cluster.restart(killed)
    counting.all_count()
    counting.stop()
