"""A cluster of three primaries with a replica each, whose slots are moved and whose primaries are replaced while clients use it."""

import contextlib
import os
import subprocess
import time
from collections import defaultdict

import ports
import redis
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry

PRIMARIES = 3
SLOTS = 16_384
PATIENCE = 60
# A busy machine makes nodes late: a primary is taken for failed only where a test wants it.
PATIENT_MS, IMPATIENT_MS = 10_000, 1500


class Port:
    """A free port whose bus port is free, too. UDP sockets of the same numbers keep other tests away from both."""

    def __init__(self):
        self.number, self.held = ports.choose(ports.BUS)

    def release(self):
        for held in self.held:
            held.close()


def slot_of(key):
    return key_slot(key.encode())


def wait(done, what):
    """Waits until `done` says so; `what` is missing otherwise."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.02)


class Node:
    def __init__(self, binary, folder):
        folder.mkdir()
        self.held, self.log = Port(), folder / "output"
        self.port = self.held.number
        command = [binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        command += ["--cluster-enabled", "yes", "--cluster-node-timeout", str(IMPATIENT_MS), "--repl-diskless-sync-delay", "0"]
        if not os.path.basename(binary).startswith("redis-server"):
            command += ["--workers", "1"]
        self.command = command
        self.start()
        # It fails at once where the node is gone.
        self.connection = redis.Redis(port=self.port, decode_responses=True, socket_timeout=PATIENCE, retry=Retry(NoBackoff(), 0))

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ask(self, *args):
        """The reply as text, lists and numbers, without what redis-py makes of it. Waits while the node loads what its primary sends."""
        self.connection.response_callbacks.clear()
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.connection.execute_command(*args)
            except redis.BusyLoadingError:
                assert time.monotonic() < deadline, self.log.read_text(errors="replace")
                time.sleep(0.02)

    def answers(self):
        assert self.process.poll() is None, self.log.read_text(errors="replace")
        try:
            return self.ask("PING") in (True, "PONG")
        except redis.ConnectionError:
            return False

    @property
    def id(self):
        return self.ask("CLUSTER", "MYID")

    def role(self):
        return self.ask("ROLE")[0]

    def end(self):
        self.process.kill()
        self.process.wait()
        self.held.release()


class Cluster:
    def __init__(self, binary, folder):
        self.nodes = []
        try:
            for nth in range(2 * PRIMARIES):
                self.nodes.append(Node(binary, folder / f"node{nth}"))
            self.form()
        except BaseException:
            self.end()
            raise

    def form(self):
        primaries, replicas = self.nodes[:PRIMARIES], self.nodes[PRIMARIES:]
        wait(lambda: all(node.answers() for node in self.nodes), "nodes that answer")
        for nth, node in enumerate(primaries):
            first, end = nth * SLOTS // PRIMARIES, (nth + 1) * SLOTS // PRIMARIES
            node.ask("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", nth + 1)
        for node in self.nodes[1:]:
            node.ask("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        for primary, replica in zip(primaries, replicas, strict=True):
            wait(lambda: primary.id in replica.ask("CLUSTER", "NODES"), "nodes that know each other")
            replica.ask("CLUSTER", "REPLICATE", primary.id)
        self.settle()
        self.set_timeout(PATIENT_MS)

    def set_timeout(self, milliseconds):
        for node in self.living():
            node.ask("CONFIG", "SET", "cluster-node-timeout", milliseconds)

    def settle(self):
        """Waits until all nodes that live serve, tell the same of slots and roles, and have their replicas."""

        def view(node):
            lines = [line.split() for line in node.ask("CLUSTER", "NODES").splitlines()]
            return sorted((line[0], line[2].replace("myself,", ""), line[3], *line[8:]) for line in lines)

        def settled():
            living = self.living()
            return (
                all("cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in living)
                and all(view(node) == view(living[0]) for node in living)
                and all(node.ask("ROLE")[3] == "connected" for node in living if node.role() == "slave")
            )

        wait(settled, "nodes that agree")

    def living(self):
        return [node for node in self.nodes if node.process.poll() is None]

    def primaries(self):
        return [node for node in self.living() if node.role() == "master"]

    def replica_of(self, primary):
        return next(node for node in self.living() if node.role() == "slave" and node.ask("ROLE")[2] == primary.port)

    def seeds(self):
        """The primaries' ports, as the programs of the matrix take them."""
        return ",".join(str(node.port) for node in self.primaries())

    def owners(self):
        """The primary that serves each slot, as the nodes tell."""
        owners = {}
        for first, last, (_, port, *_), *_ in self.living()[0].ask("CLUSTER", "SLOTS"):
            node = next(node for node in self.nodes if node.port == port)
            owners |= dict.fromkeys(range(first, last + 1), node)
        return owners

    def get(self, keys):
        """The values of string keys, each from the node that has it."""
        values = {}

        def got():
            # Where a node that is asked does not know yet of a slot that has moved, it is asked again.
            with contextlib.suppress(redis.exceptions.MovedError):
                values.update(self.values(keys))
                return True

        wait(got, "nodes that agree")
        return values

    def values(self, keys):
        owners, of, values = self.owners(), defaultdict(list), {}
        for key in keys:
            of[owners[slot_of(key)]].append(key)
        for node, own in of.items():
            pipeline = node.connection.pipeline(transaction=False)
            for key in own:
                pipeline.get(key)
            values |= zip(own, pipeline.execute(), strict=True)
        return values

    def set(self, key, value):
        self.owners()[slot_of(key)].ask("SET", key, value)

    def clear(self):
        for node in self.primaries():
            node.ask("FLUSHALL")

    def move(self, slots, target, pause_s):
        """Moves slots to a primary, all of them at the same time, with a pause in each state that clients can meet."""
        primaries, owners = self.primaries(), self.owners()
        ids = {node.port: node.id for node in primaries}
        sources = {slot: owners[slot] for slot in slots if owners[slot] is not target}
        for slot, source in sources.items():
            target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source.port])
            source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target.port])
        time.sleep(pause_s)
        for slot, source in sources.items():
            while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100):
                source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        time.sleep(pause_s)
        for slot, source in sources.items():
            others = [node for node in primaries if node not in (source, target)]
            for node in [target, source, *others]:
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", ids[target.port])

    def hand_over(self, primary):
        """A planned fail-over to the replica, which is the primary afterwards."""
        replica = self.replica_of(primary)
        replica.ask("CLUSTER", "FAILOVER")
        wait(lambda: replica.role() == "master", "a planned fail-over")
        self.settle()
        return replica

    def kill(self, primary):
        """Kills a primary and waits until its replica has taken over."""
        replica = self.replica_of(primary)
        self.set_timeout(IMPATIENT_MS)
        primary.process.kill()
        primary.process.wait()
        wait(lambda: replica.role() == "master", "a fail-over")
        wait(lambda: all("cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in self.living()), "nodes that serve")
        self.set_timeout(PATIENT_MS)
        return replica

    def restart(self, node):
        """Starts a node again that was killed; it is a replica of the one that has taken over."""
        node.start()
        wait(node.answers, "a node that answers")
        wait(lambda: node.role() == "slave", "a primary that becomes a replica")
        self.set_timeout(PATIENT_MS)
        self.settle()

    def end(self):
        for node in self.nodes:
            node.end()
