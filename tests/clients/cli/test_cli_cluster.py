"""onrush-cli against clusters of redis-server: `-c` and `--cluster`, beside redis-cli on clusters made the same way.

ONRUSH_CLI_BIN names the binary, REDIS_CLUSTER_SERVER_BIN another redis-server.
"""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter

import pytest
from ports import BUS, free_port
from test_cli_conformance import CLI, ORACLE

SERVER = os.environ.get("REDIS_CLUSTER_SERVER_BIN") or shutil.which("redis-server")
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TERM": "dumb"}
PATIENCE = 30

pytestmark = pytest.mark.skipif(not ORACLE or not SERVER, reason="redis-cli and redis-server are not installed")


@pytest.fixture(autouse=True)
def empty_keyspace():
    """Takes the place of the one that starts an Onrush."""


def run(binary, *args, stdin=b"", timeout=60, **environment):
    done = subprocess.run(
        [binary, *args], input=stdin, capture_output=True, timeout=timeout, env={**ENVIRONMENT, **environment}
    )
    done.out, done.err = done.stdout.decode(), done.stderr.decode()
    return done


class Node:
    def __init__(self, folder, *options, cluster=True, binary=SERVER):
        self.port, self.folder = free_port(BUS), folder
        self.place = f"127.0.0.1:{self.port}"
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "redis.conf"
        config.write_text(f'port {self.port}\nbind 127.0.0.1\nsave ""\nenable-debug-command yes\ndir {folder}\n')
        if cluster:
            options += ("--cluster-enabled", "yes", "--cluster-node-timeout", "1500")
        with open(folder / "log", "wb") as log:
            self.process = subprocess.Popen([binary, config, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.password = options[options.index("--requirepass") + 1] if "--requirepass" in options else None
        wait_for(lambda: self.ask("PING") == "PONG", f"{binary} does not start")

    def ask(self, *args):
        login = {"REDISCLI_AUTH": self.password} if self.password else {}
        return run(ORACLE, "-p", str(self.port), *args, **login).out.strip()

    def id(self):
        return self.ask("CLUSTER", "MYID")

    def end(self):
        self.process.kill()
        self.process.wait()


def wait_for(condition, failure):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, failure
        time.sleep(0.05)


@contextlib.contextmanager
def started(folder, count, *options):
    nodes = []
    try:
        nodes.extend(Node(folder / str(index), *options) for index in range(count))
        yield nodes
    finally:
        for node in nodes:
            node.end()


def settled(nodes):
    """Waits until all nodes tell the same of slots and roles, and serve."""

    def view(node):
        lines = [line.split() for line in node.ask("CLUSTER", "NODES").splitlines()]
        return sorted((line[0], line[2].replace("myself,", ""), line[3], *line[8:]) for line in lines)

    def agree():
        return all("cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in nodes) and all(
            view(node) == view(nodes[0]) for node in nodes
        )

    wait_for(agree, "the nodes do not agree")


def made(nodes, *options, binary=CLI):
    done = run(binary, "--cluster", "create", *(node.place for node in nodes), "--cluster-yes", *options)
    assert done.returncode == 0, done.out + done.err
    settled(nodes)
    return done


def masked(output, nodes, is_drawn=False):
    """The lines, without what differs between two clusters or two runs: ids, ports, the order of what dictionaries hold.
    With `is_drawn`, without which node it is."""
    # First the ids: the digits of a port may be in one.
    output = re.sub(r"[0-9a-f]{40}", "ID", output)
    output = re.sub(r"\([0-9a-f]{8}\.\.\.\)", "(ID...)", output)
    for index, node in enumerate(nodes):
        output = output.replace(str(node.port), "PORT" if is_drawn else f"PORT-{index}")
    lines = (line.rstrip() for line in re.sub(r"(?m)^\.+$", "", output).splitlines())
    return Counter(line for line in lines if line)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two clusters of three primaries, three replicas and two spare nodes: one for redis-cli, one for onrush-cli."""
    folder = tmp_path_factory.mktemp("clusters")
    with started(folder / "theirs", 8) as theirs, started(folder / "ours", 8) as ours:
        yield [(ORACLE, theirs), (CLI, ours)]


def both(pair, args, stdin=b"", also=lambda nodes: None, drop=None):
    """Runs the same with both on their own clusters; what `args` makes of the nodes are the arguments."""
    results = []
    for binary, nodes in pair:
        also(nodes)
        done = run(binary, "--cluster", *args(nodes), stdin=stdin)
        out, err = masked(done.out, nodes, drop == DRAWN), masked(done.err, nodes)
        if drop:
            out = Counter({line: count for line, count in out.items() if not re.search(drop, line)})
        results.append((out, err, done.returncode))
    return results


def assert_same(*args, **named):
    theirs, ours = both(*args, **named)
    assert ours == theirs, f"ours has {ours[0] - theirs[0]} {ours[1] - theirs[1]}, theirs {theirs[0] - ours[0]} {theirs[1] - ours[1]}"
    return ours


def test_a_command_that_makes_no_sense_is_refused_alike():
    for args in [
        ["nonsense"],
        ["create"],
        ["info", "bad"],
        ["check", "127.0.0.1:1"],
        ["add-node", "127.0.0.1:1"],
        ["set-timeout", "127.0.0.1:1", "10"],
        ["import", "127.0.0.1:1"],
        ["import", "127.0.0.1:1", "--cluster-from", "bad"],
        ["create", "127.0.0.1:1", "127.0.0.1:2"],
    ]:
        theirs, ours = (run(binary, "--cluster", *args) for binary in (ORACLE, CLI))
        assert (ours.out, ours.err, ours.returncode) == (theirs.out, theirs.err, theirs.returncode), args
    for args in [["--cluster"], ["--cluster", "info", "127.0.0.1:1", "--cluster-nothing"]]:
        assert run(CLI, *args).returncode == 1
    names = [set(re.findall(r"(?m)^  ([a-z-]+) ", run(binary, "--cluster", "help").out)) for binary in (ORACLE, CLI)]
    flags = [set(re.findall(r"--cluster-[a-z-]+", run(binary, "--cluster", "help").out)) for binary in (ORACLE, CLI)]
    assert names[0] == names[1] and flags[0] == flags[1]


# Which replica is whose is drawn, and so is, later, which slots are where.
DRAWN = r"^ *[MS]: ID|slots:|additional replica|replicates|->|slots are open|Migrating .* OK|as replica of"

# The tests below go on with what the ones before have made.


def test_a_cluster_is_made_as_by_redis_cli(pair):
    first = slice(0, 6)
    for count, replicas in [(2, "0"), (5, "1")]:
        assert_same(pair, lambda nodes: ["create", *(node.place for node in nodes[:count]), "--cluster-replicas", replicas])
    # redis-cli draws which replica is whose; all of them are alike here.
    replica = r"^(S: ID|Adding replica)"
    args = lambda nodes: ["create", *(node.place for node in nodes[first]), "--cluster-replicas", "1", "--cluster-yes"]
    done = assert_same(pair, args, drop=replica)
    assert done[2] == 0 and done[0]["[OK] All 16384 slots covered."] == 1
    for _, nodes in pair:
        settled(nodes[first])
    assert_same(pair, args)
    for command in ["info", "check"]:
        assert_same(pair, lambda nodes: [command, nodes[0].place], drop=replica)
        assert_same(pair, lambda nodes: [command, "127.0.0.1", str(nodes[3].port)], drop=r"^(S|M): ID|using node")


def test_a_node_that_is_not_empty_or_not_of_a_cluster_is_not_added(pair, tmp_path):
    alone = Node(tmp_path / "alone", cluster=False)
    try:
        for place in [alone.place, "127.0.0.1:1"]:
            assert_same(pair, lambda nodes: ["add-node", place, nodes[0].place], drop="^S: ID")
        assert_same(pair, lambda nodes: ["add-node", nodes[1].place, nodes[0].place], drop="^S: ID")
        assert_same(
            pair,
            lambda nodes: ["add-node", nodes[6].place, nodes[0].place, "--cluster-slave", "--cluster-master-id", "none"],
            drop="^S: ID",
        )
    finally:
        alone.end()


def test_nodes_join_as_a_primary_with_the_functions_and_as_a_replica(pair):
    library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)"
    for _, nodes in pair:
        for node in nodes[:3]:
            node.ask("FUNCTION", "LOAD", library)
    assert_same(pair, lambda nodes: ["add-node", nodes[6].place, nodes[0].place], drop="^S: ID")
    for _, nodes in pair:
        settled(nodes[:7])
        assert "lib" in nodes[6].ask("FUNCTION", "LIST")
    assert_same(pair, lambda nodes: ["add-node", nodes[7].place, nodes[0].place, "--cluster-slave"], drop="^S: ID")
    for _, nodes in pair:
        settled(nodes)
        assert nodes[6].id() in nodes[7].ask("CLUSTER", "NODES").split("myself,slave ")[1]


def fill(nodes, count=300):
    script = "".join(f"SET k{index} v{index}\n" for index in range(count))
    assert run(ORACLE, "-c", "-p", str(nodes[0].port), stdin=script.encode()).returncode == 0


def keys(nodes):
    return sum(int(node.ask("DBSIZE")) for node in nodes if "master" in node.ask("ROLE"))


def test_slots_and_keys_move_to_another_node(pair):
    for _, nodes in pair:
        fill(nodes)

    def to(nodes):
        return ["reshard", nodes[0].place, "--cluster-to", nodes[6].id()]

    for wrong in [["--cluster-from", "none"], ["--cluster-from", "all", "--cluster-to", "none"]]:
        assert_same(pair, lambda nodes: [*to(nodes), *wrong, "--cluster-slots", "5", "--cluster-yes"], drop="^S: ID")
    done = assert_same(
        pair,
        lambda nodes: [*to(nodes), "--cluster-from", nodes[0].id(), "--cluster-slots", "40", "--cluster-yes"],
        drop="^ *S: ID|^Moving slot",
    )
    assert done[2] == 0
    for _, nodes in pair:
        settled(nodes)
        assert keys(nodes) == 300
    assert_same(pair, lambda nodes: ["info", nodes[0].place])


def test_questions_are_asked_until_the_answers_make_sense(pair):
    # redis-cli reads an answer with everything behind it, and cannot be asked through a pipe.
    _, nodes = pair[1]
    target = nodes[6].id()
    for sources, last, status in [(["all"], "no", 1), ([target, nodes[1].id(), "done"], "yes", 0), (["done"], "", 1)]:
        answers = "\n".join(["0", "3", "nobody", target, *sources, last, ""])
        done = run(CLI, "--cluster", "reshard", nodes[0].place, stdin=answers.encode())
        assert done.returncode == status, done.out
        assert done.out.count("How many slots do you want to move (from 1 to 16384)? ") == 2
        assert done.out.count("What is the receiving node ID? ") == 2
        assert "*** The specified node (nobody) is not known or not a master, please retry." in done.out
        assert done.out.count("Moving slot") == {"no": 3, "yes": 6, "": 0}[last]
        assert ("not possible to use the target node as source node" in done.out) == (target in sources)
    assert "*** No source nodes given, operation aborted." in done.out
    settled(nodes)
    # Both clusters stay alike.
    done = run(ORACLE, "--cluster", "reshard", pair[0][1][0].place, "--cluster-from", pair[0][1][1].id(),
               "--cluster-to", pair[0][1][6].id(), "--cluster-slots", "3", "--cluster-yes")  # fmt: skip
    assert done.returncode == 0
    settled(pair[0][1])


@pytest.mark.slow
def test_slots_are_balanced_by_weight(pair):
    def weigh(nodes, *more):
        return ["rebalance", nodes[0].place, *more]

    assert_same(pair, lambda nodes: weigh(nodes, "--cluster-weight", "none=2"))
    assert_same(pair, lambda nodes: weigh(nodes, "--cluster-threshold", "99999"))
    assert_same(pair, lambda nodes: weigh(nodes, "--cluster-simulate", "--cluster-weight", nodes[0].id() + "=1.5"))
    done = assert_same(pair, lambda nodes: weigh(nodes, "--cluster-pipeline", "50"))
    assert done[2] == 0
    for _, nodes in pair:
        settled(nodes)
        assert keys(nodes) == 300
    assert_same(pair, lambda nodes: weigh(nodes))
    assert_same(pair, lambda nodes: ["info", nodes[0].place])


@pytest.mark.slow
def test_a_node_without_slots_leaves_and_its_replicas_get_another_primary(pair):
    assert_same(pair, lambda nodes: ["del-node", nodes[0].place, nodes[6].id()])
    assert_same(pair, lambda nodes: ["del-node", nodes[0].place, "none"])
    for _, nodes in pair:
        settled(nodes)
    done = assert_same(
        pair, lambda nodes: ["rebalance", nodes[0].place, "--cluster-weight", nodes[6].id() + "=0"]
    )
    assert done[2] == 0
    for _, nodes in pair:
        settled(nodes)
    assert_same(pair, lambda nodes: ["del-node", nodes[0].place, nodes[6].id()], drop="as replica of")
    for _, nodes in pair:
        others = [*nodes[:6], nodes[7]]
        settled(others)
        assert keys(others) == 300 and nodes[6].ask("CLUSTER", "NODES").count("\n") == 0


@pytest.mark.slow
def test_a_command_is_called_on_all_nodes(pair):
    for more in [["DBSIZE"], ["CONFIG", "GET", "maxmemory"], ["GET", "k1", "--cluster-only-masters"]]:
        theirs, ours = both(pair, lambda nodes: ["call", nodes[0].place, *more])
        assert ours[1:] == theirs[1:] and sum(ours[0].values()) == sum(theirs[0].values())
    for more in ["--cluster-only-masters", "--cluster-only-replicas"]:
        theirs, ours = both(pair, lambda nodes: ["call", nodes[0].place, "PING", more])
        assert sum(ours[0].values()) == sum(theirs[0].values()), more


@pytest.mark.slow
def test_the_node_timeout_is_set_and_written(pair):
    done = assert_same(pair, lambda nodes: ["set-timeout", nodes[0].place, "1600"])
    assert done[0][">>> New node timeout set. 7 OK, 0 ERR."] == 1
    for _, nodes in pair:
        assert "cluster-node-timeout 1600" in (nodes[1].folder / "redis.conf").read_text()


@pytest.mark.slow
def test_keys_are_imported(pair, tmp_path):
    alone = [Node(tmp_path / str(index), cluster=False) for index in range(2)]
    try:
        for node, (_, nodes) in zip(alone, pair):
            for index in range(4):
                node.ask("SET", f"imported{index}", "v")
            nodes[0].source = node
        source = lambda nodes: ["import", nodes[0].place, "--cluster-from", nodes[0].source.place]
        drop = DRAWN + "|Importing data"
        assert_same(pair, lambda nodes: [*source(nodes), "--cluster-copy"], drop=drop)
        assert [node.ask("DBSIZE") for node in alone] == ["4", "4"]
        theirs, ours = both(pair, source, drop=drop + "|Source")
        assert ours == theirs and ours[2] == 1
        assert_same(pair, lambda nodes: [*source(nodes), "--cluster-replace"], drop=drop)
        assert [node.ask("DBSIZE") for node in alone] == ["0", "0"]
        for _, nodes in pair:
            assert run(CLI, "-c", "-p", str(nodes[0].port), "GET", "imported3").out == "v\n"
        assert_same(pair, lambda nodes: ["import", nodes[0].place, "--cluster-from", nodes[1].place], drop=DRAWN)
        assert_same(pair, lambda nodes: ["import", nodes[0].place, "--cluster-from", "127.0.0.1:1"], drop=DRAWN)
    finally:
        for node in alone:
            node.end()


@pytest.mark.slow
def test_a_backup_holds_the_data_and_the_nodes(pair, tmp_path):
    listed = []
    for binary, nodes in pair:
        folder = tmp_path / str(nodes[0].port)
        folder.mkdir()
        done = run(binary, "--cluster", "backup", nodes[0].place, str(folder))
        assert done.returncode == 0 and "[OK] Backup created into:" in done.out, done.err
        files = list(folder.glob("redis-node-127.0.0.1-*.rdb"))
        assert len(files) == 3 and all(file.read_bytes().startswith(b"REDIS") for file in files)
        described = json.loads((folder / "nodes.json").read_text())
        listed.append(sorted((node["slots_count"], node["flags"], sorted(node)) for node in described))
        missing = run(binary, "--cluster", "backup", nodes[0].place, str(folder / "missing"))
        assert missing.returncode == 1 and "No such file" in missing.err
    assert listed[0] == listed[1]


def open_slots(nodes, first):
    """Three slots of one node are open in three ways."""
    owner = owner_of(nodes, first)
    taker = next(node for node in nodes[:3] if node is not owner)
    taker.ask("CLUSTER", "SETSLOT", str(first), "IMPORTING", owner.id())
    owner.ask("CLUSTER", "SETSLOT", str(first), "MIGRATING", taker.id())
    owner.ask("CLUSTER", "SETSLOT", str(first + 1), "MIGRATING", taker.id())
    taker.ask("CLUSTER", "SETSLOT", str(first + 2), "IMPORTING", owner.id())


def run_of_three(clusters):
    """The first of three slots that one node has, in each cluster."""

    def is_run(nodes, slot):
        return owner_of(nodes, slot) is owner_of(nodes, slot + 1) is owner_of(nodes, slot + 2)

    return next(slot for slot in range(400, 16_000, 7) if all(is_run(nodes, slot) for nodes in clusters))


def owner_of(nodes, slot):
    for line in nodes[0].ask("CLUSTER", "NODES").splitlines():
        for part in line.split()[8:]:
            if part[0] != "[" and int(part.split("-")[0]) <= slot <= int(part.split("-")[-1]):
                return next(node for node in nodes if f":{node.port}@" in line)


@pytest.mark.slow
def test_open_slots_are_told_and_closed(pair):
    drop, first = DRAWN, run_of_three([nodes for _, nodes in pair])
    also = lambda nodes: open_slots(nodes, first)
    done = assert_same(pair, lambda nodes: ["check", nodes[0].place], also=also, drop=drop)
    assert done[2] == 1
    assert_same(pair, lambda nodes: ["rebalance", nodes[0].place], drop=drop)
    done = assert_same(pair, lambda nodes: ["fix", nodes[0].place], drop=drop)
    assert done[2] == 0
    for _, nodes in pair:
        settled([*nodes[:6], nodes[7]])
        assert keys(nodes) == 304
    assert_same(pair, lambda nodes: ["check", nodes[0].place], drop=drop)


@pytest.mark.slow
def test_slots_that_nobody_serves_are_covered_after_a_yes(pair):
    def uncover(nodes):
        for node in nodes[:3]:
            node.ask("CLUSTER", "DELSLOTS", "5", "100", "200")

    done = assert_same(pair, lambda nodes: ["check", nodes[0].place], also=uncover, drop=DRAWN)
    assert done[2] == 1
    # Nobody answers, and --cluster-yes does not answer this one.
    theirs, ours = both(pair, lambda nodes: ["fix", nodes[0].place, "--cluster-yes"], drop=DRAWN + "|Fix these slots")
    assert ours[0] - theirs[0] == Counter({"No answer: standard input is at its end.": 1}) and ours[2] == theirs[2] == 1
    for _, nodes in pair:
        done = run(CLI, "--cluster", "fix", nodes[0].place, stdin=b"yes\n")
        assert done.returncode == 0 and done.out.count(">>> Covering slot") == 3, done.out
        settled([*nodes[:6], nodes[7]])


@pytest.mark.slow
def test_a_primary_that_is_gone_is_not_replaced_without_being_told(pair):
    for _, nodes in pair:
        nodes[1].end()
    # Before the other nodes know, and then one has no connection; afterwards it is left out.
    for command in ["check", "fix"]:
        theirs, ours = both(pair, lambda nodes: [command, nodes[0].place], drop=DRAWN + "|WARNING|keys|per slot")
        assert (ours[0], ours[2]) == (theirs[0], theirs[2]) and ours[2] == 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three primaries with a replica each."""
    with started(tmp_path_factory.mktemp("cluster"), 6) as nodes:
        made(nodes, "--cluster-replicas", "1")
        yield nodes


def test_redirects_are_followed_and_told_as_by_redis_cli(cluster):
    script = b"SET a 1\nSET b 2\nGET a\nMGET a b\nINCR a\nEVAL 'return redis.call(\"GET\", KEYS[1])' 1 b\nFLUSHALL\n"
    for flags in [["-c"], ["-c", "--no-raw"], ["-c", "--csv"], []]:
        theirs, ours = (run(binary, *flags, "-p", str(cluster[0].port), stdin=script) for binary in (ORACLE, CLI))
        assert (ours.out, ours.err, ours.returncode) == (theirs.out, theirs.err, theirs.returncode), flags
    assert run(CLI, "-c", "-p", str(cluster[0].port), "SET", "b", "5").out == "OK\n"
    for place in cluster:
        assert run(CLI, "-c", "-p", str(place.port), "GET", "b").out == "5\n"


def slot_owner(nodes, key):
    slot = int(nodes[0].ask("CLUSTER", "KEYSLOT", key))
    return slot, owner_of(nodes, slot)


def test_a_key_on_its_way_is_asked_for_where_it_is(cluster):
    slot, owner = slot_owner(cluster, "asked")
    taker = next(node for node in cluster[:3] if node is not owner)
    taker.ask("CLUSTER", "SETSLOT", str(slot), "IMPORTING", owner.id())
    owner.ask("CLUSTER", "SETSLOT", str(slot), "MIGRATING", taker.id())
    try:
        script = b"SET asked 1\nGET asked\n"
        theirs, ours = (run(binary, "-c", "-p", str(owner.port), stdin=script) for binary in (ORACLE, CLI))
        assert ours.out == theirs.out and f"-> Redirected to slot [{slot}] located at {taker.place}" in ours.out
    finally:
        fixed = run(CLI, "--cluster", "fix", owner.place)
    assert fixed.returncode == 0 and f">>> Case 1: Moving slot {slot} from {owner.place} to {taker.place}" in fixed.out
    settled(cluster)


def test_a_subscription_to_a_shard_channel_goes_where_the_channel_is(cluster):
    _, owner = slot_owner(cluster, "channel")
    other = next(node for node in cluster[:3] if node is not owner)
    command = [CLI, "-c", "-p", str(other.port), "SSUBSCRIBE", "channel"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT) as listener:
        assert [listener.stdout.readline() for _ in range(3)] == [b"ssubscribe\n", b"channel\n", b"1\n"]
        owner.ask("SPUBLISH", "channel", "hello")
        assert [listener.stdout.readline() for _ in range(3)] == [b"smessage\n", b"channel\n", b"hello\n"]
        listener.kill()


def test_replicas_list_and_measure_their_keys(cluster):
    fill(cluster, 60)
    primary = cluster[0]
    replica = next(node for node in cluster[3:] if primary.id() in node.ask("CLUSTER", "NODES").split("myself,slave ")[1][:41])
    wait_for(lambda: replica.ask("DBSIZE") == primary.ask("DBSIZE"), "the replica does not follow")
    listed = [sorted(run(CLI, "-c", "-p", str(node.port), "--scan").out.split()) for node in (primary, replica)]
    assert listed[0] == listed[1] and listed[0]
    for report in ["--bigkeys", "--memkeys", "--keystats"]:
        done = run(CLI, "-c", "-p", str(replica.port), report)
        assert done.returncode == 0 and "k" in done.out, done.err


def test_a_key_with_another_value_stops_the_move_unless_it_is_to_be_replaced(cluster):
    slot, owner = slot_owner(cluster, "busy")
    taker = next(node for node in cluster[:3] if node is not owner)
    owner.ask("SET", "busy", "mine")
    # A key of the slot gets to a node that does not own it while it is importing.
    taker.ask("CLUSTER", "SETSLOT", str(slot), "IMPORTING", owner.id())
    run(ORACLE, "-p", str(taker.port), stdin=b"ASKING\nSET busy yours\n")
    taker.ask("CLUSTER", "SETSLOT", str(slot), "STABLE")
    stopped = run(CLI, "--cluster", "fix", owner.place, "--cluster-search-multiple-owners")
    assert stopped.returncode == 0
    taker.ask("CLUSTER", "SETSLOT", str(slot), "IMPORTING", owner.id())
    stopped = run(CLI, "--cluster", "fix", owner.place)
    assert stopped.returncode == 1, stopped.out
    for line in ["*** Target key exists", "having different values.", "    - busy", "--cluster-replace option"]:
        assert line in stopped.out, stopped.out
    fixed = run(CLI, "--cluster", "fix", owner.place, "--cluster-replace")
    assert fixed.returncode == 0 and "*** Replacing target keys..." in fixed.out, fixed.out
    assert (owner.ask("GET", "busy"), taker.ask("CLUSTER", "COUNTKEYSINSLOT", str(slot))) == ("yours", "0")


def test_a_slot_with_two_owners_is_left_to_the_one_with_its_keys(cluster):
    # A claim with a higher epoch would win at once, and the node that loses the slot deletes its keys.
    epochs = {line.split()[1].split("@")[0]: int(line.split()[6]) for line in cluster[0].ask("CLUSTER", "NODES").splitlines()}
    by_epoch = sorted(cluster[:3], key=lambda node: epochs[node.place])
    other, owner = by_epoch[0], by_epoch[-1]
    key = next(f"claimed{index}" for index in range(1_000) if slot_owner(cluster, f"claimed{index}")[1] is owner)
    slot = slot_owner(cluster, key)[0]
    owner.ask("SET", key, "1")
    other.ask("CLUSTER", "DELSLOTS", str(slot))
    other.ask("CLUSTER", "ADDSLOTS", str(slot))
    fixed = run(CLI, "--cluster", "fix", other.place, "--cluster-search-multiple-owners")
    assert fixed.returncode == 0, fixed.out
    settled(cluster)
    assert run(CLI, "-c", "-p", str(other.port), "GET", key).out == "1\n"


def test_without_an_answer_a_command_ends(cluster):
    for args in [["reshard", cluster[0].place], ["reshard", cluster[0].place, "--cluster-slots", "5"]]:
        done = run(CLI, "--cluster", *args, timeout=20)
        assert done.returncode == 1 and "No answer" in done.out, done.out


@pytest.mark.slow
def test_a_node_that_dies_or_hangs_in_the_middle_ends_the_command(tmp_path):
    with started(tmp_path, 3) as nodes:
        made(nodes)
        for how in [signal.SIGSTOP, signal.SIGKILL]:
            fill(nodes)
            command = [CLI, "--cluster", "reshard", nodes[0].place, "--cluster-from", nodes[0].id()]
            command += ["--cluster-to", nodes[1].id(), "--cluster-slots", "2000", "--cluster-yes", "--cluster-timeout", "500"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT) as moving:
                moved = (line for line in moving.stdout if line.startswith(b"Moving slot"))
                assert len(list(itertools.islice(moved, 20))) == 20
                nodes[1].process.send_signal(how)
                rest = moving.stdout.read().decode()
                assert moving.wait(PATIENCE * 2) == 1
            assert nodes[1].place in rest.splitlines()[-1] or "IOERR" in rest, rest[-300:]
            assert "panicked" not in rest
            if how == signal.SIGSTOP:
                nodes[1].process.send_signal(signal.SIGCONT)
                wait_for(lambda: "cluster_state:ok" in nodes[0].ask("CLUSTER", "INFO"), "the cluster does not recover")
                fixed = run(CLI, "--cluster", "fix", nodes[0].place)
                assert fixed.returncode == 0, fixed.out
                settled(nodes)
                assert keys(nodes) == 300


@pytest.mark.slow
def test_the_login_is_used_at_every_node_and_between_them(tmp_path):
    login = ("--requirepass", "secret", "--masterauth", "secret")
    with started(tmp_path, 3, *login) as nodes:
        places = [node.place for node in nodes]
        refused = run(CLI, "--cluster", "create", *places, "--cluster-yes")
        assert refused.returncode == 1 and "NOAUTH" in refused.out
        created = run(CLI, "--cluster", "create", *places, "--cluster-yes", REDISCLI_AUTH="secret")
        assert created.returncode == 0, created.out
        settled(nodes)
        for node in nodes:
            node.ask("ACL", "SETUSER", "admin", "on", ">pass", "~*", "&*", "+@all")
        script = "".join(f"SET k{index} v\n" for index in range(50))
        run(CLI, "-c", "-p", str(nodes[0].port), stdin=script.encode(), REDISCLI_AUTH="secret")
        for flags in [["-a", "secret", "--no-auth-warning"], ["--user", "admin", "--pass", "pass", "--no-auth-warning"]]:
            for step in [["--cluster-weight", nodes[0].id() + "=2"], []]:
                moved = run(CLI, *flags, "--cluster", "rebalance", places[0], *step)
                assert moved.returncode == 0 and "Moving" in moved.out, moved.out
                settled(nodes)
        assert sum(int(node.ask("DBSIZE")) for node in nodes) == 50


@pytest.fixture
def certificates(tmp_path):
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    command += ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "cert")]
    subprocess.run(command, check=True, capture_output=True)
    return tmp_path


@pytest.mark.slow
def test_all_nodes_are_reached_by_tls(certificates):
    if b"--tls" not in subprocess.run([ORACLE, "--help"], capture_output=True).stdout:
        pytest.skip("this redis-cli has no TLS")
    # Without a port and certificates, a server ends at once and says why.
    tried = subprocess.run([SERVER, "--port", "0", "--tls-cluster", "yes"], capture_output=True, timeout=PATIENCE)
    if b"Failed finding TLS support" in tried.stdout or b"Bad directive" in tried.stderr:
        pytest.skip("this redis-server has no TLS")
    key, cert = certificates / "key", certificates / "cert"
    flags = ["--tls", "--cacert", str(cert), "--cert", str(cert), "--key", str(key)]
    tls = ["--tls-cluster", "yes", "--tls-replication", "yes", "--tls-auth-clients", "optional"]
    tls += ["--tls-cert-file", str(cert), "--tls-key-file", str(key), "--tls-ca-cert-file", str(cert)]
    nodes = []
    try:
        for index in range(3):
            port = free_port(BUS)
            node = Node(certificates / str(index), "--tls-port", str(port), "--cluster-port", str(port + 10_000), *tls)
            node.tls_place = f"127.0.0.1:{port}"
            nodes.append(node)
        done = run(CLI, *flags, "--cluster", "create", *(node.tls_place for node in nodes), "--cluster-yes")
        assert done.returncode == 0 and "[OK] All 16384 slots covered." in done.out, done.out + done.err
        settled(nodes)
        done = run(CLI, *flags, "--cluster", "rebalance", nodes[0].tls_place, "--cluster-weight", nodes[0].id() + "=2")
        assert done.returncode == 0, done.out + done.err
        port = nodes[0].tls_place.split(":")[1]
        assert run(CLI, *flags, "-c", "-p", port, "SET", "foo", "bar").out == "OK\n"
        refused = run(CLI, "--cluster", "info", nodes[0].tls_place, timeout=60)
        assert refused.returncode == 1
    finally:
        for node in nodes:
            node.end()
