"""What nodes of a cluster tell of their places, with every setting of what they announce: Onrush byte by byte as
redis-server 8.2, also after a CONFIG REWRITE and a restart.
"""

import os
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import BINARY
from test_cli_cluster import ORACLE, SERVER, Node, empty_keyspace, wait_for  # noqa: F401

ROOT = Path(__file__).resolve().parents[3]
NEWER = os.environ.get("REDIS_NEWER_SERVER_BIN", str(ROOT / "target" / "oracle" / "redis-server"))

pytestmark = pytest.mark.skipif(not ORACLE or not SERVER, reason="redis-cli and redis-server are not installed")

# What the second primary is told, and then all nodes.
STEPS = [
    ([], []),
    (["cluster-announce-hostname", "second.example"], []),
    ([], ["cluster-preferred-endpoint-type", "hostname"]),
    ([], ["cluster-preferred-endpoint-type", "unknown-endpoint"]),
    (["cluster-announce-human-nodename", "second"], []),
    (["cluster-announce-hostname", ""], ["cluster-preferred-endpoint-type", "hostname"]),
    ([], ["cluster-preferred-endpoint-type", "ip"]),
    (["cluster-announce-ip", "127.0.0.2"], []),
    (["cluster-announce-tls-port", "17777"], []),
    (["cluster-announce-port", "17778"], []),
    (["cluster-announce-bus-port", "17779"], []),
    (["cluster-announce-bus-port", "0"], []),
    (["cluster-announce-port", "0"], []),
    (["cluster-announce-tls-port", "0", "cluster-announce-hostname", "other.example"], []),
]
WRONG = [
    ["cluster-announce-hostname", "a b"],
    ["cluster-announce-hostname", "x" * 256],
    ["cluster-announce-port", "65536"],
    ["cluster-announce-bus-port", "-1"],
    ["cluster-preferred-endpoint-type", "dns"],
    ["cluster-port", "7"],
]
# b is 3300, a is 15495: the second primary has it.
QUESTIONS = [b"CLUSTER SLOTS", b"CLUSTER SHARDS", b"CLUSTER NODES", b"GET a", b"GET b"]


def raw(node, *lines):
    """The bytes of the replies; the last command tells where they end."""
    with socket.create_connection(("127.0.0.1", node.port), timeout=20) as conn:
        conn.sendall(b"".join(line + b"\r\n" for line in lines) + b"ECHO the-end\r\n")
        reply = b""
        while not reply.endswith(b"$7\r\nthe-end\r\n"):
            part = conn.recv(65536)
            assert part, reply
            reply += part
        return reply.removesuffix(b"$7\r\nthe-end\r\n").decode()


class Trio:
    """Two primaries and a replica of the second one."""

    def __init__(self, folder, binary):
        options = ["--bind", "127.0.0.1", "127.0.0.2", "--repl-diskless-sync-delay", "0"]
        self.nodes = [Node(folder / str(number), *options, binary=binary) for number in range(3)]
        first, second, replica = self.nodes
        first.ask("CLUSTER", "ADDSLOTSRANGE", "0", "8191")
        second.ask("CLUSTER", "ADDSLOTSRANGE", "8192", "16383")
        for number, node in enumerate(self.nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
        for node in self.nodes[1:]:
            node.ask("CLUSTER", "MEET", "127.0.0.1", str(first.port))
        known = lambda node, what: what in node.ask("CLUSTER", "INFO")
        wait_for(lambda: all(known(node, "cluster_known_nodes:3") for node in self.nodes), "they do not meet")
        wait_for(lambda: "handshake" not in replica.ask("CLUSTER", "NODES"), "they do not meet")
        assert replica.ask("CLUSTER", "REPLICATE", second.id()) == "OK"
        wait_for(lambda: all("slave" in node.ask("CLUSTER", "NODES") for node in self.nodes), "it does not follow")
        wait_for(lambda: all(known(node, "cluster_state:ok") for node in self.nodes), "it is not up")
        wait_for(lambda: "master_link_status:up" in replica.ask("INFO", "replication"), "it has no link")
        # A replica whose offset is 0 is left out of CLUSTER SLOTS.
        assert second.ask("SET", "a", "1") == "OK"
        wait_for(lambda: all(replica.id() in node.ask("CLUSTER", "SLOTS") for node in self.nodes), "it is left out")

    def end(self):
        for node in self.nodes:
            node.end()

    def masked(self, text):
        """The text with names for what each run draws."""
        for number, node in enumerate(self.nodes):
            text = text.replace(node.name, f"ID-{number}")
            for port, mask in ((node.port + 10_000, "BUS"), (node.port, "PORT")):
                # The digits of a port may be among those of a time.
                text = re.sub(rf"(?<!\d){port}(?!\d)", f"{mask}-{number}", text)
        text = re.sub(r"(replication-offset\r\n:)\d+", r"\1N", text)
        # Shards, their nodes, and the lines of nodes come in the order of a hash table.
        if "PORT-0@" in text:
            # Times have no fixed length.
            text = re.sub(r"^([$=])\d+\r\n(txt:)?", r"\1N \2\n", text)
            text = "\n".join(sorted(re.sub(r" \d+ \d+ (\d+ (?:dis)?connected)", r" T T \1", line) for line in text.split("\n")))
        if "replication-offset" in text:
            shards = re.split(r"(?=[*%]\d+\r\n\$5\r\nslots)", text)
            shards = [sorted(re.split(r"(?=[*%]\d+\r\n\$2\r\nid)", shard)) for shard in shards]
            text = "\n".join(sorted("\n".join(shard) for shard in shards))
        return text

    def told(self):
        """All that the nodes say."""
        for node in self.nodes:
            node.name = node.id()
        said = {}
        for number, node in enumerate(self.nodes):
            for proto in (b"2", b"3"):
                for question in QUESTIONS:
                    text = raw(node, b"HELLO " + proto, b"ECHO question", question)
                    said[number, proto, question] = self.masked(text.split("$8\r\nquestion\r\n")[1])
        return said

    def configure(self, second, everywhere):
        replies = []
        if second:
            replies.append(self.nodes[1].ask("CONFIG", "SET", *second))
        if everywhere:
            replies += [node.ask("CONFIG", "SET", *everywhere) for node in self.nodes]
        return replies


@pytest.fixture(scope="module")
def trios(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trios")
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda kind: Trio(folder / kind[0], kind[1]), [("theirs", NEWER), ("ours", BINARY)]))
    yield made
    for trio in made:
        trio.end()


def assert_alike(trios, what):
    """Waits until both tell the same."""
    found = []

    def alike():
        theirs, ours = (trio.told() for trio in trios)
        found[:] = [(key, theirs[key], ours[key]) for key in theirs if theirs[key] != ours[key]]
        return not found

    try:
        wait_for(alike, "they differ")
    except AssertionError:
        key, theirs, ours = found[0]
        pytest.fail(f"{what}: {len(found)} differ, {key}:\n{theirs!r}\nours:\n{ours!r}")


@pytest.mark.parametrize("second, everywhere", STEPS)
def test_nodes_tell_what_they_are_told_to_announce(trios, second, everywhere):
    replies = [trio.configure(second, everywhere) for trio in trios]
    assert replies[0] == replies[1] and set(replies[0]) <= {"OK"}
    assert_alike(trios, (second, everywhere))
    if second[:1] == ["cluster-announce-hostname"]:
        for trio in trios:
            wait_for(lambda: second[1] in trio.nodes[0].ask("CLUSTER", "NODES"), "the name does not get around")


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: " ".join(wrong)[:50])
def test_what_makes_no_sense_is_refused(trios, wrong):
    theirs, ours = (trio.nodes[1].ask("CONFIG", "SET", *wrong) for trio in trios)
    assert ours == theirs and ours != "OK"


def fields_sorted(text):
    """A file of nodes with the fields behind the address in the order of their names, and without names of shards.

    A file tells which links there were when it was written, and links are made anew when an address has changed.
    """
    fields = lambda match: ",".join(["", *sorted(match[0].split(",")[1:])])
    text = re.sub(r" (dis)?connected\b", " LINK", re.sub(r"shard-id=[0-9a-f]{40}", "shard-id=S", text))
    return re.sub(r"(,[a-z-]+=[^, ]*)+", fields, text)


@pytest.mark.slow
def test_it_is_all_there_after_a_rewrite_and_a_restart(trios):
    for trio in trios:
        trio.configure(
            ["cluster-announce-hostname", "third.example", "cluster-announce-human-nodename", "third"],
            ["cluster-preferred-endpoint-type", "hostname"],
        )
        wait_for(lambda: all("third.example" in node.ask("CLUSTER", "NODES") for node in trio.nodes), "no name")
        for node in trio.nodes:
            assert node.ask("CONFIG", "REWRITE") == "OK"
            node.ask("CLUSTER", "SAVECONFIG")
    assert_alike(trios, "before the restart")
    files = []
    for trio in trios:
        saved = [(node.folder / "nodes.conf").read_text() for node in trio.nodes]
        files.append([fields_sorted(trio.masked(text)) for text in saved])
    assert files[0] == files[1]
    for trio in trios:
        for node in trio.nodes:
            node.end()
        for node in trio.nodes:
            with open(node.folder / "log", "ab") as log:
                config = [node.process.args[0], node.folder / "redis.conf"]
                node.process = subprocess.Popen(config, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for node in trio.nodes:
            wait_for(lambda: "cluster_state:ok" in node.ask("CLUSTER", "INFO"), "the cluster does not come back")
        replica = trio.nodes[2]
        wait_for(lambda: "master_link_status:up" in replica.ask("INFO", "replication"), "it has no link")
    assert_alike(trios, "after the restart")
    assert "third.example" in trios[1].nodes[0].ask("CLUSTER", "SLOTS")
