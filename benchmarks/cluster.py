#!/usr/bin/env python3
"""Measures cluster mode: cluster.py [--rounds N] [--keys N] [--only sets,reads,moves,client,gossip] [--nodes N].

sets: CPU of a server with one worker per SET, in pipelines of 100 by redis-benchmark, with cluster mode, without, and
with cluster-slot-stats-enabled, in turns. reads: CPU of a server per GET, in pipelines of 1,000 on one connection,
from a primary and, after READONLY, from its replica. moves: two nodes; 1,000 slots with all keys (values of 16 bytes)
go from one to the other, by redis-cli's reshard between nodes of each kind, and by MIGRATESLOTS between nodes of
Onrush: idle, and while onrush-benchmark sends 200,000 SETs a second, a quarter of them to these slots. Meanwhile a
client writes to these slots, one command after the other, and goes where it is sent: its longest wait until a second
after the move counts, beside the time that the server says it has held writes back. client: CPU of our client library
per SET in pipelines of 1,000, with one node and with three. gossip: what each of 100 idle nodes needs of a core, with
the default node timeout.
"""

import argparse
import binascii
import contextlib
import datetime
import multiprocessing
import os
import random
import re
import socket
import statistics
import subprocess
import time

from full_sync import ask
from harness.load import command
from harness.report import commit, keep, machine, version
from harness.servers import CLIENT_CORE, Server, add_binaries, chosen_binaries, free_port

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SLOTS = 16_384
MOVED = 1_000
# The source has twice the slots that move, so that half of its writes are to those.
SOURCE_SLOTS = 2 * MOVED
RATE = 200_000
GOSSIP_SETTLES_S = 20
GOSSIP_S = 30
COUNTED = "with, counted by slot"
READ_KEYS = 1_000_000
READ_VALUE = b"x" * 16
BATCH = 1_000


def node(stack, kind, binary, pinned=False, more=()):
    args = ["--cluster-enabled", "yes", "--cluster-port", str(free_port()), *more]
    return stack.enter_context(Server(kind, binary, args, pinned))


def form(nodes, firsts):
    """Makes a cluster of nodes; each has the slots from its first to the next one's."""
    for nth, (server, first) in enumerate(zip(nodes, firsts)):
        behind = firsts[nth + 1] if nth + 1 < len(firsts) else SLOTS
        with server.connect() as conn:
            ask(conn, "CLUSTER", "ADDSLOTSRANGE", str(first), str(behind - 1))
            ask(conn, "CLUSTER", "SET-CONFIG-EPOCH", str(nth + 1))
            bus = nodes[0].command[nodes[0].command.index("--cluster-port") + 1]
            if nth > 0:
                ask(conn, "CLUSTER", "MEET", "127.0.0.1", str(nodes[0].port), bus)
    deadline = time.monotonic() + 60
    for server in nodes:
        with server.connect() as conn:
            while True:
                text = ask(conn, "CLUSTER", "INFO")
                if b"cluster_state:ok" in text and b"cluster_slots_assigned:16384" in text:
                    break
                if time.monotonic() > deadline:
                    raise SystemExit(f"no cluster came about:\n{text.decode()}")
                time.sleep(0.05)


def tags(first, count):
    """A hash tag for each of these slots."""
    found, nth = {}, 0
    while len(found) < count:
        tag = b"%d" % nth
        slot = binascii.crc_hqx(tag, 0)
        if first <= slot % SLOTS < first + count:
            found.setdefault(slot % SLOTS, tag)
        nth += 1
    return list(found.values())


def fill(server, keys):
    """Writes so many keys into the slots that move."""
    of_slots, each = tags(0, MOVED), keys // MOVED
    with server.connect() as conn:
        for tag in of_slots:
            conn.sendall(b"".join(command("SET", b"{%s}:%d" % (tag, nth), b"x" * 16) for nth in range(each)))
            left = len(b"+OK\r\n") * each
            while left:
                left -= len(conn.recv(left))


def keys_of(server):
    with server.connect() as conn:
        return int(ask(conn, "DBSIZE")[1:])


def probe(ports, is_over, longest):
    """Writes to the slots that move, one command after the other, and notes the longest wait in milliseconds."""
    conns = [socket.create_connection(("127.0.0.1", port), timeout=60) for port in ports]
    for conn in conns:
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    owner, of_slots = {}, tags(0, MOVED)
    while not is_over.is_set():
        tag = random.choice(of_slots)
        asked, began, is_asking = owner.get(tag, 0), time.monotonic(), False
        while True:
            before = command("ASKING") if is_asking else b""
            conns[asked].sendall(before + command("SET", b"{%s}:probe" % tag, b"x"))
            data = b""
            while data.count(b"\r\n") < 1 + is_asking:
                data += conns[asked].recv(4096)
            line = data.splitlines()[-1]
            is_asking = line.startswith(b"-ASK ")
            if line == b"+OK":
                break
            if line.startswith((b"-MOVED ", b"-ASK ")):
                asked = ports.index(int(line.rsplit(b":", 1)[1]))
                if not is_asking:
                    owner[tag] = asked
            elif not line.startswith((b"-TRYAGAIN", b"-CLUSTERDOWN")):
                raise SystemExit(f"the probe got {line!r}")
        longest.value = max(longest.value, (time.monotonic() - began) * 1000)
        time.sleep(0.0005)


@contextlib.contextmanager
def probing(nodes):
    longest, is_over = multiprocessing.Value("d", 0), multiprocessing.Event()
    process = multiprocessing.Process(target=probe, args=([server.port for server in nodes], is_over, longest))
    process.start()
    time.sleep(0.5)
    longest.value = 0
    yield longest
    is_over.set()
    process.join()


@contextlib.contextmanager
def writing(benchmark, port):
    """SETs at the rate, spread over the nodes; yields what reads how many went through in a second."""
    # The time is a bound: it is ended before.
    args = ["--cluster", "-t", "set", "-r", "1000000", "-c", "20", "--rate", str(RATE), "--duration", "10m"]
    process = subprocess.Popen([benchmark, "-p", str(port), *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(3)
    if process.poll() is not None:
        raise SystemExit("onrush-benchmark has ended")
    yield
    if process.poll() is not None:
        raise SystemExit("onrush-benchmark has ended before the slots had moved")
    process.terminate()
    process.wait()


def reshard(source, ids):
    args = ["redis-cli", "--cluster", "reshard", f"127.0.0.1:{source.port}", "--cluster-from", ids[0], "--cluster-to", ids[1]]
    args += ["--cluster-slots", str(MOVED), "--cluster-yes"]
    done = subprocess.run(args, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(args)} failed:\n{done.stdout[-2000:]}{done.stderr}")


def migrateslots(source, ids):
    with source.connect() as conn:
        said = ask(conn, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", "0", str(MOVED - 1), "NODE", ids[1])
        if said != b"+OK":
            raise SystemExit(f"MIGRATESLOTS: {said.decode()}")
        while True:
            conn.sendall(command("CLUSTER", "GETSLOTMIGRATIONS"))
            # It is one job; the reply is short, and comes at once.
            time.sleep(0.005)
            data = conn.recv(1 << 16)
            if b"success" in data:
                return
            if b"failed" in data or b"cancelled" in data:
                raise SystemExit(f"the move has failed: {data!r}")


def sets_of(server):
    with server.connect() as conn:
        found = re.search(rb"cmdstat_set:calls=(\d+)", ask(conn, "INFO", "commandstats"))
        return int(found[1]) if found else 0


def move(binaries, kind, how, keys, benchmark=None):
    """Moves the slots: seconds, the longest wait and the server's own word for it in milliseconds, SETs in the second before."""
    with contextlib.ExitStack() as stack:
        nodes = [node(stack, kind, binaries[kind]) for _ in range(2)]
        form(nodes, [0, SOURCE_SLOTS])
        fill(nodes[0], keys)
        ids = []
        for server in nodes:
            with server.connect() as conn:
                ids.append(ask(conn, "CLUSTER", "MYID").decode().strip())
        if benchmark:
            stack.enter_context(writing(benchmark, nodes[0].port))
        longest = stack.enter_context(probing(nodes))
        before = sum(map(sets_of, nodes))
        time.sleep(1)
        rate = sum(map(sets_of, nodes)) - before
        began = time.monotonic()
        how(nodes[0], ids)
        took = time.monotonic() - began
        # The keys that have gone are deleted.
        time.sleep(1)
        wait = longest.value
        if keys_of(nodes[1]) < keys:
            raise SystemExit(f"{keys_of(nodes[1])} keys have come of {keys}")
        with open(os.path.join(nodes[0].dir, "output"), errors="replace") as log:
            held = re.findall(r"writes held back for ([\d.]+) ms", log.read())
    return took, wait, rate, float(held[-1]) if held else None


def moves(args, binaries):
    rows = [(kind, "redis-cli reshard", reshard, None) for kind in binaries]
    rows += [("onrush", "MIGRATESLOTS", migrateslots, None), ("onrush", "MIGRATESLOTS, written to", migrateslots, args.benchmark)]
    lines = ["", f"{MOVED:,} slots with {args.keys:,} keys:", "", "| nodes | by | seconds: median (each round) | longest wait | writes held back | SETs in the second before |", "|---|---|---|---|---|---|"]
    took, longest = {}, {}
    for kind, name, how, benchmark in rows:
        each = []
        for nth in range(args.rounds if how is migrateslots else 1):
            each.append(move(binaries, kind, how, args.keys, benchmark))
            held = "" if each[-1][3] is None else f", writes held back for {each[-1][3]:.1f} ms"
            print(f"{kind}, {name}: {each[-1][0]:.2f} s, longest wait {each[-1][1]:.1f} ms{held}", flush=True)
        longest[kind, name] = statistics.median(one[1] for one in each)
        took[kind, name] = statistics.median(one[0] for one in each)
        of = ", ".join(f"{one[0]:.2f}" for one in each)
        waits, rates = (", ".join(f"{one[at]:,.{digits}f}" for one in each) for at, digits in ((1, 1), (2, 0)))
        held = ", ".join(f"{one[3]:.1f}" for one in each if one[3] is not None)
        held = f"{held} ms" if held else "by key"
        lines.append(f"| {kind} | {name} | {took[kind, name]:.2f} ({of}) | {waits} ms | {held} | {rates} |")
    base = "redis-cli reshard"
    bounds = [(base, "1.0x", ".7x"), ("MIGRATESLOTS", ".2x", ".1x"), ("MIGRATESLOTS, written to", ".3x", ".1x")]
    compared = [
        (f"{name} against reshard of {kind}", f"{took['onrush', name] / took[kind, base]:.3f}x", at_most, goal)
        for name, at_most, goal in bounds for kind in binaries if kind != "onrush"
    ]
    compared += [
        (f"longest wait of a client, {name} (median)", f"{longest['onrush', name]:.0f} ms", "100 ms", "20 ms")
        for name in ("MIGRATESLOTS", "MIGRATESLOTS, written to")
    ]
    return lines, compared


def sets(args, binaries):
    rows = [("onrush", "without"), ("onrush", "with"), ("onrush", COUNTED)]
    rows += [("redis", "with"), ("redis-newer", "with"), ("redis-newer", COUNTED)]
    rounds = {row: [] for row in rows}
    for nth in range(args.rounds):
        for kind, mode in rows:
            more = ["--workers", "1"] if kind == "onrush" else []
            with contextlib.ExitStack() as stack:
                if mode == "without":
                    server = stack.enter_context(Server(kind, binaries[kind], more))
                else:
                    counts = ["--cluster-slot-stats-enabled", "yes"] if mode == COUNTED else []
                    server = node(stack, kind, binaries[kind], True, [*more, *counts])
                    form([server], [0])
                load = ["taskset", "-c", str(CLIENT_CORE), args.redis_benchmark, "-p", str(server.port), "-t", "set", "-P", "100"]
                load += ["-c", "50", "-r", "1000000", "-q", "-n"]
                requests = args.requests if kind == "onrush" else args.requests // 3
                # Nearly all keys exist from then on.
                subprocess.run([*load, "4000000"], stdout=subprocess.DEVNULL, check=True)
                counted, before = sets_of(server), server.cpu_ns()
                subprocess.run([*load, str(requests)], stdout=subprocess.DEVNULL, check=True)
                rounds[kind, mode].append((server.cpu_ns() - before) / (sets_of(server) - counted))
            print(f"round {nth + 1}, {kind} {mode} cluster mode: {rounds[kind, mode][-1]:.0f} ns", flush=True)
    lines = ["", "SET, pipelines of 100:", "", "| server | cluster mode | ns of CPU per SET: median (each round) |", "|---|---|---|"]
    cpu = {row: statistics.median(of) for row, of in rounds.items()}
    for (kind, mode), of in rounds.items():
        lines.append(f"| {kind} | {mode} | {cpu[kind, mode]:,.0f} ({', '.join(f'{one:,.0f}' for one in of)}) |")
    own = cpu["onrush", "with"]
    compared = [("CPU per SET in cluster mode against without", f"{own / cpu['onrush', 'without']:.3f}x", "1.10x", "1.05x")]
    compared += [
        (f"CPU per SET in cluster mode against {kind}", f"{own / cpu[kind, 'with']:.3f}x", ".2x", ".16x")
        for kind in ("redis", "redis-newer")
    ]
    compared += [
        (f"CPU per SET counted by slot against not, {kind}", f"{cpu[kind, COUNTED] / cpu[kind, 'with']:.3f}x", "", "")
        for kind in ("onrush", "redis-newer")
    ]
    return lines, compared


def replicated(stack, kind, binary, more):
    """A primary with READ_KEYS keys, and its replica, which has them."""
    primary, replica = (node(stack, kind, binary, True, more) for _ in range(2))
    form([primary], [0])
    bus = primary.command[primary.command.index("--cluster-port") + 1]
    with primary.connect() as conn, replica.connect() as other:
        for first in range(0, READ_KEYS, BATCH):
            conn.sendall(b"".join(command("SET", b"key:%d" % key, READ_VALUE) for key in range(first, first + BATCH)))
            left = len(b"+OK\r\n") * BATCH
            while left:
                left -= len(conn.recv(left))
        ask(other, "CLUSTER", "MEET", "127.0.0.1", str(primary.port), bus)
        name, deadline = ask(conn, "CLUSTER", "MYID").strip(), time.monotonic() + 60
        has_data = lambda: b"master_link_status:up" in ask(other, "INFO", "replication")
        for is_done in (lambda: ask(other, "CLUSTER", "REPLICATE", name) == b"+OK", has_data):
            while not is_done():
                if time.monotonic() > deadline:
                    raise SystemExit("the replica does not get the data")
                time.sleep(0.2)
    return primary, replica


def cpu_of_reads(server, requests):
    keys = random.Random(7).sample(range(READ_KEYS), 20 * BATCH)
    batches = [
        b"".join(command("GET", b"key:%d" % key) for key in keys[first : first + BATCH])
        for first in range(0, len(keys), BATCH)
    ]
    reply_len = len(b"$16\r\n\r\n") + len(READ_VALUE)
    with server.connect() as conn:
        if ask(conn, "READONLY") != b"+OK":
            raise SystemExit("READONLY is refused")
        before = server.cpu_ns()
        for nth in range(requests // BATCH):
            conn.sendall(batches[nth % len(batches)])
            left = reply_len * BATCH
            while left:
                data = conn.recv(left)
                if data[:1] == b"-":
                    raise SystemExit(f"a GET is refused: {data[:80]!r}")
                left -= len(data)
        return (server.cpu_ns() - before) / requests


def reads(args, binaries):
    rounds = {(kind, of): [] for kind in ("onrush", "redis-newer") for of in ("primary", "replica")}
    for kind in ("onrush", "redis-newer"):
        with contextlib.ExitStack() as stack:
            more = ["--workers", "1"] if kind == "onrush" else []
            servers = dict(zip(("primary", "replica"), replicated(stack, kind, binaries[kind], more)))
            for nth in range(args.rounds):
                for of, server in servers.items():
                    rounds[kind, of].append(cpu_of_reads(server, args.requests // 3))
                    print(f"round {nth + 1}, GET from {kind}'s {of}: {rounds[kind, of][-1]:.0f} ns", flush=True)
    cpu = {row: statistics.median(of) for row, of in rounds.items()}
    lines = ["", "GET, pipelines of 1,000 on one connection:", "", "| server | ns of CPU per GET: median (each round) |", "|---|---|"]
    for (kind, of), each in rounds.items():
        lines.append(f"| {kind}, {of} | {cpu[kind, of]:,.0f} ({', '.join(f'{one:,.0f}' for one in each)}) |")
    return lines, [
        (f"CPU per GET from a replica against {kind}'s {of}", f"{cpu['onrush', 'replica'] / cpu[kind, of]:.3f}x", "", "")
        for kind, of in (("onrush", "primary"), ("redis-newer", "replica"))
    ]


def client(args, binaries):
    folder = os.path.join(os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))), "clients")
    env = dict(os.environ, CARGO_TARGET_DIR=folder)
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked"], cwd=f"{HERE}/clients", env=env, check=True)
    program = ["taskset", "-c", str(CLIENT_CORE), os.path.join(folder, "release/onrush-clients")]
    rounds = {"no cluster": [], "1 node": [], "3 nodes": []}
    with contextlib.ExitStack() as stack:
        one = ["--workers", "1"]
        plain = stack.enter_context(Server("onrush", binaries["onrush"], one))
        alone = node(stack, "onrush", binaries["onrush"], True, one)
        three = [node(stack, "onrush", binaries["onrush"], True, one) for _ in range(3)]
        form([alone], [0])
        form(three, [0, 5461, 10923])
        urls = {
            "no cluster": ["onrush", "keys", f"redis://127.0.0.1:{plain.port}"],
            "1 node": ["onrush-cluster", "keys", f"redis-cluster://127.0.0.1:{alone.port}"],
            "3 nodes": ["onrush-cluster", "keys", f"redis-cluster://127.0.0.1:{three[0].port}"],
        }
        for nth in range(args.rounds):
            for row, url in urls.items():
                done = subprocess.run([*program, *url], capture_output=True, text=True, check=True)
                rounds[row].append(float(done.stdout.split()[1]) * 1000)
                print(f"round {nth + 1}, client with {row}: {rounds[row][-1]:.0f} ns", flush=True)
    cpu = {row: statistics.median(of) for row, of in rounds.items()}
    lines = ["", "Our client, pipelines of 1,000 SETs:", "", "| with | ns of its CPU per SET: median (each round) |", "|---|---|"]
    lines += [f"| {row} | {cpu[row]:,.0f} ({', '.join(f'{one:,.0f}' for one in of)}) |" for row, of in rounds.items()]
    return lines, [
        (f"client's CPU across 3 nodes against {other}", f"{cpu['3 nodes'] / cpu[other]:.2f}x", "1.3x", "1.1x")
        for other in ("1 node", "no cluster")
    ]


def gossip(args, binaries):
    """What a node needs of a core while nothing happens."""
    percent = {}
    for kind in ("onrush", "redis-newer"):
        with contextlib.ExitStack() as stack:
            more = ["--workers", "1"] if kind == "onrush" else []
            nodes = [node(stack, kind, binaries[kind], False, more) for _ in range(args.nodes)]
            print(f"{args.nodes} nodes of {kind} are started", flush=True)
            form(nodes, [nth * SLOTS // args.nodes for nth in range(args.nodes)])
            time.sleep(GOSSIP_SETTLES_S)
            began, before = time.monotonic(), [server.cpu_ns() for server in nodes]
            time.sleep(GOSSIP_S)
            spent = [server.cpu_ns() - first for server, first in zip(nodes, before)]
            took_ns = (time.monotonic() - began) * 1e9
            percent[kind] = [100 * ns / took_ns for ns in spent]
            memory = statistics.median(server.rss_bytes() for server in nodes) / 1e6
            print(f"{kind}: {statistics.median(percent[kind]):.3f} % of a core, {memory:.1f} MB", flush=True)
    lines = ["", f"{args.nodes} idle nodes, cluster-node-timeout 15000:", "", "| server | % of a core: median (most) |", "|---|---|"]
    lines += [f"| {kind} | {statistics.median(each):.3f} ({max(each):.3f}) |" for kind, each in percent.items()]
    own, theirs = (statistics.median(percent[kind]) for kind in ("onrush", "redis-newer"))
    return lines, [
        (f"% of a core, of {args.nodes} nodes each", f"{own:.3f}", "1", ""),
        ("the same against redis-newer", f"{own / theirs:.2f}x", "", ""),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_binaries(parser, ROOT)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="sets,reads,moves,client,gossip")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--no-record", action="store_true")
    args = parser.parse_args()
    binaries = chosen_binaries(args)
    beside = os.path.join(os.path.dirname(args.onrush), "onrush-benchmark")
    args.benchmark = os.environ.get("ONRUSH_BENCHMARK_BIN", beside)
    lines = [
        f"# Cluster mode, {datetime.date.today()}, {commit(ROOT)}",
        "",
        f"`benchmarks/cluster.py`, {machine()['cores']} cores, all on one host. "
        + "; ".join(f"{name}: {version(binary)}" for name, binary in binaries.items())
        + ".",
    ]
    compared = []
    for name in args.only.split(","):
        shown, ratios = {"sets": sets, "reads": reads, "moves": moves, "client": client, "gossip": gossip}[name](args, binaries)
        lines += shown
        compared += ratios
    lines += ["", "| case | value | at most | goal |", "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in compared)]
    print("\n".join(lines))
    if not args.no_record:
        keep(os.path.join(HERE, "runs"), ROOT, "cluster", lines)


if __name__ == "__main__":
    main()
