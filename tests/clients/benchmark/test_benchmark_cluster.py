"""onrush-benchmark --cluster against two redis-servers that are one cluster, beside redis-benchmark."""

import shutil
import time

import pytest
from conftest import Server
from ports import free_port
from test_benchmark_tool import TOOL, both, call


class Node(Server):
    binary = shutil.which("redis-server")

    def __init__(self, folder):
        self.bus = str(free_port())
        self.extra = ("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", self.bus)
        super().__init__(folder)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    nodes = [Node(tmp_path_factory.mktemp(f"node-{index}")) for index in range(2)]
    for node, (first, last) in zip(nodes, [(0, 5_000), (5_001, 16_383)]):
        node.cli("CLUSTER", "ADDSLOTSRANGE", str(first), str(last))
    nodes[0].cli("CLUSTER", "MEET", "127.0.0.1", str(nodes[1].port), nodes[1].bus)
    deadline = time.monotonic() + 30
    while any("cluster_state:ok" not in node.cli("CLUSTER", "INFO") or node.cli("CLUSTER", "NODES").count("master") < 2 for node in nodes):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield nodes
    for node in nodes:
        node.process.kill()
        node.process.wait()


@pytest.mark.parametrize(
    "args",
    [
        ("-q", "-n", "200", "-t", "set,get,incr,lpush,sadd,hset,zadd,lrange_100,mset", "-c", "4", "-r", "50"),
        ("--csv", "-n", "100", "-t", "set", "-c", "3"),
        ("-q", "-n", "100", "-c", "2", "set", "{tag}:k", "v"),
    ],
)
def test_formats_are_redis_benchmarks(cluster, args):
    ours, theirs = both(cluster[0], "--cluster", *args)
    masked = [[line for line in output if not line.startswith("Master")] for output in (ours, theirs)]
    assert masked[0] == masked[1]
    assert len([line for line in ours if line.startswith("Master")]) == 2


def test_the_long_format_tells_of_the_nodes(cluster):
    for args in ((), ("--threads", "1")):
        ours, theirs = both(cluster[0], "--cluster", "-n", "200", "-t", "set", "-c", "4", *args)
        parts = ("cluster mode", "node [", "save", "appendonly", "multi-thread", "threads")
        kept = [[line for line in output if line.strip().startswith(parts)] for output in (ours, theirs)]
        assert kept[0] == kept[1] and len(kept[0]) == 9


def test_load_is_shared_among_the_masters(cluster):
    for node in cluster:
        node.cli("FLUSHALL")
        node.cli("CONFIG", "RESETSTAT")
    done = call(TOOL, cluster[1], "--cluster", "-q", "-n", "20000", "-P", "50", "-c", "10", "-r", "100000", "-t", "set,mset")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    for node in cluster:
        calls = [line for line in node.cli("INFO", "commandstats").splitlines() if line.startswith("cmdstat_set:")]
        assert 5_000 < int(calls[0].split("calls=")[1].split(",")[0]) < 15_000
        # Each connection has a tag of its own, so that slots share the load as well.
        tags = {key.split("}")[0] for key in node.cli("--scan").splitlines()}
        assert len(tags) >= 5


def test_what_goes_wrong_is_said(cluster, server):
    # So many that one connection does not send all of them before the other one is there.
    moved = call(TOOL, cluster[0], "--cluster", "-q", "-n", "100000", "-c", "2", "set", "foo", "bar")
    assert moved.returncode == 1 and "MOVED 12182" in moved.stderr and "Error from server 127.0.0.1:" in moved.stderr
    alone = call(TOOL, server, "--cluster", "-q", "-n", "10")
    assert alone.returncode == 1 and "Failed to fetch cluster configuration" in alone.stderr
    both_flags = call(TOOL, cluster[0], "--cluster", "--versus", "127.0.0.1:1", "-n", "1")
    assert both_flags.returncode == 1 and "cannot be used with" in both_flags.stderr
