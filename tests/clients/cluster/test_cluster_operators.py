"""redis-cli --cluster on clusters of Onrush and on mixed ones, beside the same on a cluster of redis-server: what it
prints and how it ends is alike, and so is what is left.
"""

import binascii
import json
import os
import re
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import BINARY
from test_cli_cluster import ORACLE, SERVER, Node, empty_keyspace, masked, run, settled, wait_for  # noqa: F401

ROOT = Path(__file__).resolve().parents[3]
NEWER = os.environ.get("REDIS_NEWER_SERVER_BIN", str(ROOT / "target" / "oracle" / "redis-server"))

pytestmark = pytest.mark.skipif(not ORACLE or not SERVER, reason="redis-cli and redis-server are not installed")

# Three primaries, a node that joins as a primary, and one that joins as a replica. redis-server 7.0 does not take keys
# from 8.2, so no key goes from the second to the third of the mixed ones.
KINDS = {
    "redis": [SERVER] * 5,
    "onrush": [BINARY] * 5,
    "mixed": [BINARY, NEWER, SERVER, BINARY, SERVER],
    "mixed-too": [SERVER, BINARY, BINARY, SERVER, BINARY],
}


def on_all(clusters, what):
    """Does the same with all clusters at once."""
    with ThreadPoolExecutor(len(clusters)) as pool:
        return dict(zip(clusters, pool.map(what, clusters.values()), strict=True))


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    """The nodes of each cluster, which have not met yet."""
    folder = tmp_path_factory.mktemp("clusters")
    made = {}
    try:
        for name, binaries in KINDS.items():
            made[name] = []
            for number, binary in enumerate(binaries):
                options = ["--repl-diskless-sync-delay", "0", "--cluster-allow-replica-migration", "no"]
                made[name].append(Node(folder / f"{name}-{number}", *options, binary=binary))
        yield made
    finally:
        for nodes in made.values():
            for node in nodes:
                node.end()


def assert_alike(clusters, args, stdin=b"", drop=None, status=0):
    """Runs a subcommand on all clusters, compares them with that of redis-server, and returns what it printed there."""

    def told(nodes):
        done = run(ORACLE, "--cluster", *args(nodes), stdin=stdin)
        lines = [masked(text, nodes) for text in (done.out, done.err)]
        if drop:
            lines = [Counter({line: count for line, count in some.items() if not re.search(drop, line)}) for some in lines]
        return *lines, done.returncode, done.out

    all_told = on_all(clusters, told)
    theirs = all_told["redis"]
    for name, ours in all_told.items():
        more, less = ([one[at] - other[at] for at in (0, 1)] for one, other in ((ours, theirs), (theirs, ours)))
        assert ours[:3] == theirs[:3], f"{name} has {more}, redis {less}"
    assert theirs[2] == status, theirs[3]
    return theirs[3]


def settle(clusters, which=slice(None)):
    on_all(clusters, lambda nodes: settled([node for node in nodes[which] if node.process.poll() is None]))


def ask(clusters, number, *args):
    """Asks one node of each cluster; all say the same."""
    replies = on_all(clusters, lambda nodes: nodes[number].ask(*args))
    assert len(set(replies.values())) == 1, replies
    return replies["redis"]


def slot_of(nodes, number, nth=0):
    """A slot that a node owns: the nth of its lowest ones."""
    return slots_of(nodes, number)[nth]


def slots_of(nodes, number):
    line = next(line for line in nodes[0].ask("CLUSTER", "NODES").splitlines() if line.startswith(nodes[number].id()))
    ranges = [part.split("-") for part in line.split()[8:] if not part.startswith("[")]
    return [slot for ends in ranges for slot in range(int(ends[0]), int(ends[-1]) + 1)]


def slot_by_tag(tag):
    return binascii.crc_hqx(tag.encode(), 0) % 16_384


TAGS = {slot_by_tag(str(number)): number for number in range(200_000)}


def keys_of(slot, count=3):
    """Names of keys in a slot."""
    return [f"{{{TAGS[slot]}}}{nth}" for nth in range(count)]


def ask_each(node, *commands):
    done = run(ORACLE, "-p", str(node.port), stdin="\n".join([*commands, ""]).encode())
    assert "ERR" not in done.out, done.out
    return done.out.split("\n")


# Slots of a primary that dies.
FEW = 20

# The tests below go on with what the ones before have made.


def test_a_cluster_is_created(clusters):
    args = lambda nodes: ["create", *(node.place for node in nodes[:3]), "--cluster-yes"]
    said = assert_alike(clusters, args)
    assert "[OK] All 16384 slots covered." in said
    settle(clusters, slice(0, 3))
    assert_alike(clusters, args, status=1)
    assert_alike(clusters, lambda nodes: ["info", nodes[1].place])
    assert_alike(clusters, lambda nodes: ["check", nodes[1].place])


def test_a_node_joins_as_a_primary_with_the_functions(clusters):
    library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)"
    for number in range(3):
        assert ask(clusters, number, "FUNCTION", "LOAD", library) == "lib"
    said = assert_alike(clusters, lambda nodes: ["add-node", nodes[3].place, nodes[0].place])
    assert ">>> Send FUNCTION RESTORE to" in said
    settle(clusters, slice(0, 4))
    assert "lib" in ask(clusters, 3, "FUNCTION", "LIST")
    assert_alike(clusters, lambda nodes: ["add-node", nodes[3].place, nodes[0].place], status=1)


def test_a_node_joins_as_a_replica(clusters):
    wrong = lambda nodes: ["add-node", nodes[4].place, nodes[0].place, "--cluster-slave", "--cluster-master-id", "none"]
    assert_alike(clusters, wrong, status=1)
    right = lambda nodes: [*wrong(nodes)[:-1], nodes[0].id()]
    assert_alike(clusters, right)
    settle(clusters)
    for nodes in clusters.values():
        wait_for(lambda: "master_link_status:up" in nodes[4].ask("INFO", "replication"), "the replica has no link")
        assert nodes[0].id() in nodes[4].ask("CLUSTER", "NODES").split("myself,slave ")[1]
    assert_alike(clusters, lambda nodes: ["check", nodes[4].place])
    assert_alike(clusters, lambda nodes: ["info", nodes[4].place])


def test_commands_are_called_on_all_nodes_or_some(clusters):
    for more in [["PING"], ["DBSIZE"], ["GET", "k"], ["NOSUCH"], ["CLUSTER", "KEYSLOT", "k"]]:
        for which in [[], ["--cluster-only-masters"], ["--cluster-only-replicas"]]:
            assert_alike(clusters, lambda nodes: ["call", nodes[0].place, *more, *which])


def test_the_timeout_is_set_everywhere(clusters):
    said = assert_alike(clusters, lambda nodes: ["set-timeout", nodes[0].place, "1600"])
    assert ">>> New node timeout set. 5 OK, 0 ERR." in said
    for number in range(5):
        assert ask(clusters, number, "CONFIG", "GET", "cluster-node-timeout").split() == ["cluster-node-timeout", "1600"]
        for nodes in clusters.values():
            assert "cluster-node-timeout 1600" in (nodes[number].folder / "redis.conf").read_text()
    assert_alike(clusters, lambda nodes: ["set-timeout", nodes[0].place, "10"], status=1)


def test_a_backup_has_the_nodes_and_their_data(clusters, tmp_path):
    for name, nodes in clusters.items():
        (tmp_path / name).mkdir()
        ask_each(nodes[0], *(f"SET {key} v" for key in keys_of(slot_of(nodes, 0))))
    places = {id(nodes): str(tmp_path / name) for name, nodes in clusters.items()}
    # Sizes of files and the places of folders are those of a server.
    drop = r"bytes|Saving RDB|Transfer finished|Backup created|Saving cluster configuration|Backing up"
    assert_alike(clusters, lambda nodes: ["backup", nodes[0].place, places[id(nodes)]], drop=drop)
    shapes = []
    for name, nodes in clusters.items():
        listed = json.loads((tmp_path / name / "nodes.json").read_text())
        numbers = {node.id(): number for number, node in enumerate(nodes)}
        for line in listed:
            line["flags"] = line["flags"].replace("myself,", "")
            line["replicate"], line["name"] = numbers.get(line["replicate"]), numbers[line["name"]]
            line.pop("host"), line.pop("port"), line.pop("current_epoch")
        shapes.append(sorted(listed, key=lambda line: line["name"]))
        dumps = sorted((tmp_path / name).glob("*.rdb"))
        assert len(dumps) == 4
        for dump in dumps:
            checked = subprocess.run(["redis-check-rdb", dump], capture_output=True, text=True)
            # That of 7.0 knows no newer versions.
            assert "RDB looks OK" in checked.stdout or "RDB format version" in checked.stdout, checked.stdout
    assert all(shape == shapes[0] for shape in shapes), shapes


def open_slot(clusters, source, target, nth, how, at_source, at_target):
    """Leaves a slot of `source` open, with so many keys on each side; returns the slot and its keys by cluster."""
    opened = {}
    for name, nodes in clusters.items():
        slot = slot_of(nodes, source, nth)
        keys = keys_of(slot, at_source + at_target)
        from_, to = nodes[source], nodes[target]
        ask_each(from_, *(f"SET {key} v" for key in keys[:at_source]))
        if "importing" in how:
            ask_each(to, f"CLUSTER SETSLOT {slot} IMPORTING {from_.id()}")
        if "migrating" in how:
            ask_each(from_, f"CLUSTER SETSLOT {slot} MIGRATING {to.id()}")
        ask_each(to, *(line for key in keys[at_source:] for line in ("ASKING", f"SET {key} v")))
        opened[name] = slot, keys
    return opened


def fixed(clusters, *more):
    """Fixes all; returns what redis-cli said of redis-server."""
    assert_alike(clusters, lambda nodes: ["check", nodes[0].place], status=1)
    said = assert_alike(clusters, lambda nodes: ["fix", nodes[0].place, *more])
    settle(clusters)
    assert "[OK] All 16384 slots covered." in assert_alike(clusters, lambda nodes: ["check", nodes[0].place])
    return said


def counts(clusters, opened, source, target):
    """How many keys of the slot the two sides have, which is the same for all clusters; deletes them."""
    found = set()
    for name, nodes in clusters.items():
        slot, keys = opened[name]
        sides = nodes[source], nodes[target]
        found.add(tuple(int(node.ask("CLUSTER", "COUNTKEYSINSLOT", str(slot))) for node in sides))
        run(ORACLE, "-c", "-p", str(sides[0].port), stdin="".join(f"DEL {key}\n" for key in keys).encode())
    assert len(found) == 1, found
    return found.pop()


# From and to: in the mixed clusters one of the two is an Onrush. redis-cli makes the node with more keys the owner; if
# that is another one than before, the old owner deletes its keys as soon as it hears of it, which may be too soon.
@pytest.mark.parametrize("source, target", [(0, 1), (1, 0), (0, 2), (2, 0)])
def test_keys_on_both_sides_of_an_open_slot_come_together(clusters, source, target):
    opened = open_slot(clusters, source, target, 7, ["migrating", "importing"], 4, 2)
    assert ">>> No single clear owner for the slot" in fixed(clusters)
    assert counts(clusters, opened, source, target) == (6, 0)


@pytest.mark.parametrize(
    "how, keys, said",
    [
        (["migrating"], (3, 0), "Moving"),
        (["migrating"], (0, 0), "Setting"),
        (["importing"], (3, 0), "Moving"),
        (["importing"], (3, 3), "Moving"),
        (["importing"], (0, 0), "Setting"),
        (["migrating", "importing"], (3, 0), ">>> Case 1: Moving slot"),
        (["migrating", "importing"], (0, 0), ">>> Case 1: Moving slot"),
    ],
)
def test_a_slot_that_was_left_open_is_closed(clusters, how, keys, said):
    opened = open_slot(clusters, 0, 1, 21, how, *keys)
    text = fixed(clusters)
    print(text[text.index(">>> Fixing") :])
    assert sorted(counts(clusters, opened, 0, 1)) == [0, sum(keys)]


def test_slots_without_an_owner_are_covered(clusters):
    """Empty ones at random, those with keys of one node by that, those with keys of several by one of these."""
    settle(clusters)
    for nodes in clusters.values():
        slot = slot_of(nodes, 0, 40)
        for node in nodes[:4]:
            node.ask("CLUSTER", "DELSLOTS", str(slot), str(slot + 1))
    assert_alike(clusters, lambda nodes: ["check", nodes[0].place], status=1)
    refused = assert_alike(clusters, lambda nodes: ["fix", nodes[0].place], stdin=b"no\n", status=1)
    assert "Fix these slots by covering with a random node?" in refused
    said = assert_alike(clusters, lambda nodes: ["fix", nodes[0].place], stdin=b"yes\n", drop="slot")
    assert said.count(">>> Covering slot") == 2
    settle(clusters)
    assert_alike(clusters, lambda nodes: ["check", nodes[0].place], drop="slot")


def test_keys_of_a_plain_server_are_imported(clusters, tmp_path):
    values = {f"plain{nth}": f"v{nth}" for nth in range(60)}
    for kind, binary in [("redis", SERVER), ("onrush", BINARY)]:
        source = Node(tmp_path / kind, cluster=False, binary=binary)
        try:
            fill = [f"SET {key} {value}" for key, value in values.items()]
            # One cluster after the other: each may take the keys away.
            drop = r"^[SM]: |slots:|replicate|additional|" + str(source.port)
            # The second one finds the keys there.
            for more, status in [("copy replace", 0), ("copy", 1), ("replace", 0)]:
                more, told = [f"--cluster-{word}" for word in more.split()], {}
                for name, nodes in clusters.items():
                    ask_each(source, *fill)
                    done = run(ORACLE, "--cluster", "import", nodes[0].place, "--cluster-from", source.place, *more)
                    lines = Counter(re.sub("PORT-[0-9]", "PORT", line) for line in masked(done.out, nodes).elements())
                    lines = Counter({line: count for line, count in lines.items() if not re.search(drop, line)})
                    told[name] = (lines, masked(done.err, nodes), done.returncode, source.ask("DBSIZE"))
                    assert all(told[name] == told["redis"] for name in told), (name, more, told)
                assert told["redis"][2] == status, told
                assert told["redis"][3] == ("60" if "--cluster-copy" in more else "0"), told
            for nodes in clusters.values():
                assert run(ORACLE, "-c", "-p", str(nodes[0].port), "GET", "plain7").out == "v7\n"
                assert sum(int(node.ask("DBSIZE")) for node in nodes[:4]) >= 60
            on_all(clusters, lambda nodes: [node.ask("FLUSHALL") for node in nodes[:4]])
        finally:
            source.end()


def test_nodes_leave(clusters):
    for what in [lambda nodes: nodes[0].id(), lambda nodes: "none"]:
        assert_alike(clusters, lambda nodes: ["del-node", nodes[0].place, what(nodes)], status=1)
    for number in [4, 3]:
        give = ["--cluster-weight", None]
        if number == 3:
            # It may have got slots that had no owner.
            for nodes in clusters.values():
                give[1] = nodes[3].id() + "=0"
                run(ORACLE, "--cluster", "rebalance", nodes[0].place, *give, "--cluster-threshold", "1")
            settle(clusters, slice(0, 4))
        assert_alike(clusters, lambda nodes: ["del-node", nodes[0].place, nodes[number].id()])
        settle(clusters, slice(0, number))
        for nodes in clusters.values():
            left = [line for line in nodes[number].ask("CLUSTER", "NODES").splitlines() if line]
            assert len(left) == 1 and "myself,master" in left[0], left


def test_slots_of_a_primary_that_is_gone_are_covered_when_that_is_wanted(clusters):
    # It has few slots: each is covered by a transaction of its own.
    for nodes in clusters.values():
        given = [str(slot) for slot in slots_of(nodes, 1)[FEW:]]
        assert nodes[1].ask("CLUSTER", "DELSLOTS", *given) == "OK"
        taken = lambda: [nodes[0].ask("CLUSTER", what, *given) for what in ("DELSLOTS", "ADDSLOTS")][1] == "OK"
        # A message that is under way may give them back.
        wait_for(taken, "nobody gets the slots")
        nodes[0].ask("CLUSTER", "BUMPEPOCH")
    settle(clusters, slice(0, 3))
    for nodes in clusters.values():
        nodes[1].end()
    for nodes in clusters.values():
        for node in (nodes[0], nodes[2]):
            wait_for(lambda: "master,fail " in node.ask("CLUSTER", "NODES"), "nobody takes the dead node for failed")
    # Who covers a slot is drawn, and was drawn before for some of those it has.
    drop = r"slot|Could not connect|^\[[0-9]"
    assert_alike(clusters, lambda nodes: ["check", nodes[0].place], drop=drop, status=1)
    assert_alike(clusters, lambda nodes: ["fix", nodes[0].place], stdin=b"yes\n", drop=drop, status=1)
    fix = lambda nodes: ["fix", nodes[0].place, "--cluster-fix-with-unreachable-masters"]
    said = assert_alike(clusters, fix, stdin=b"yes\n", drop=drop)
    assert said.count(">>> Covering slot") == FEW
    on_all(clusters, lambda nodes: settled([nodes[0], nodes[2]]))
    assert_alike(clusters, lambda nodes: ["check", nodes[0].place], drop=drop)
