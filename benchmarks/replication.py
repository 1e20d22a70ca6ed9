#!/usr/bin/env python3
"""Measures what a replica costs a primary that takes SETs: replication.py [--rounds N] [--requests N].

redis-benchmark sends SETs in pipelines of 100 over 20 connections, for 100,000 keys. Each row is a primary with its default
settings but `save ""`: alone, with a replica of its own kind, and (Onrush) with replies that wait for that replica. The rows
take turns. CPU is the primary's, of all its threads; the lag is how far the replica is behind, in bytes at most while the
load lasts, and until it has all once that is over.
"""

import argparse
import contextlib
import datetime
import os
import statistics
import subprocess
import threading
import time

from full_sync import ask, sets
from harness.report import commit, keep, machine, version
from harness.servers import Server, add_binaries, chosen_binaries

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
HELD = "replies held for the replica"



class Pair:
    """A primary and, if there is one, its replica."""

    def __init__(self, stack, binary, kind, has_replica, args=()):
        fixed = ["--repl-diskless-sync-delay", "0"]
        self.primary = stack.enter_context(Server(kind, binary, [*fixed, *args], pinned=False))
        self.control = stack.enter_context(self.primary.connect())
        self.has_replica = has_replica
        if has_replica:
            port = str(self.primary.port)
            stack.enter_context(Server(kind, binary, [*fixed, "--replicaof", f"127.0.0.1 {port}"], pinned=False))
            deadline = time.monotonic() + 60
            while b"state=online" not in ask(self.control, "INFO", "replication"):
                if time.monotonic() > deadline:
                    raise SystemExit(f"the replica of {kind} does not come")
                time.sleep(0.05)

    def lag(self):
        text = ask(self.control, "INFO", "replication")
        offset = int(text.split(b"master_repl_offset:")[1].split(b"\r\n")[0])
        return offset - int(text.split(b"slave0:")[1].split(b"offset=")[1].split(b",")[0])

    def load(self, benchmark, requests):
        """One round: nanoseconds of CPU for each SET, SETs in a second, most bytes of lag, seconds until it is gone."""
        args = [benchmark, "-p", str(self.primary.port), "-t", "set", "-P", "100", "-c", "20", "-r", "100000"]
        most, is_over = [0], threading.Event()

        def watch():
            while not is_over.wait(0.05):
                most[0] = max(most[0], self.lag())

        watcher = threading.Thread(target=watch) if self.has_replica else None
        counted, before, began = sets(self.control), self.primary.cpu_ns(), time.monotonic()
        if watcher:
            watcher.start()
        subprocess.run([*args, "-n", str(requests), "-q"], stdout=subprocess.DEVNULL, check=True)
        took = time.monotonic() - began
        is_over.set()
        until = 0
        if watcher:
            watcher.join()
            while self.lag() > 0 and until < 60:
                time.sleep(0.01)
                until = time.monotonic() - began - took
        done = sets(self.control) - counted
        return (self.primary.cpu_ns() - before) / done, done / took, most[0], until


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_binaries(parser, ROOT)
    parser.add_argument("--requests", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-record", action="store_true")
    args = parser.parse_args()
    binaries = chosen_binaries(args)
    plans = [("onrush", "alone", False, []), ("onrush", "one replica", True, [])]
    plans += [("onrush", HELD, True, ["--durability-replicas", "1"])]
    plans += [(kind, what, has, []) for kind in ("redis", "redis-newer") for what, has in (("alone", False), ("one replica", True))]
    rounds = {plan[:2]: [] for plan in plans}
    for nth in range(args.rounds):
        for kind, what, has_replica, more in plans:
            # Fewer of those that take longer, so that all rows have about the same time.
            requests = args.requests if kind == "onrush" else args.requests // 3
            with contextlib.ExitStack() as stack:
                pair = Pair(stack, binaries[kind], kind, has_replica, more)
                # The first moments of a server are those of its memory.
                pair.load(args.redis_benchmark, requests // 10)
                rounds[kind, what].append(pair.load(args.redis_benchmark, requests))
            print(f"round {nth + 1}, {kind}, {what}: {rounds[kind, what][-1][0]:.0f} ns", flush=True)
    cpu = {row: statistics.median(one[0] for one in of) for row, of in rounds.items()}
    rate = {row: statistics.median(one[1] for one in of) for row, of in rounds.items()}
    lines = [
        f"# SETs with a replica, {datetime.date.today()}, {commit(ROOT)}",
        "",
        f"`benchmarks/replication.py`, {machine()['cores']} cores, all on one host. "
        + "; ".join(f"{name}: {version(binary)}" for name, binary in binaries.items())
        + ".",
        "",
        "| primary | replica | ns of CPU per SET: median (each round) | SETs per second: median (each round) | most lag | until it is gone |",
        "|---|---|---|---|---|---|",
    ]
    for (kind, what), of in rounds.items():
        each = ", ".join(f"{one[0]:,.0f}" for one in of)
        rates = ", ".join(f"{one[1]:,.0f}" for one in of)
        lag, until = max(one[2] for one in of), max(one[3] for one in of)
        lagging = ("", "") if what == "alone" else (f"{lag / 1e6:,.1f} MB", f"{until:.2f} s")
        row = [kind, what, f"{cpu[kind, what]:,.0f} ({each})", f"{rate[kind, what]:,.0f} ({rates})", *lagging]
        lines.append("| " + " | ".join(row) + " |")
    own = cpu["onrush", "one replica"]
    lines += [
        "",
        "| case | value | at most | goal |",
        "|---|---|---|---|",
        f"| CPU with one replica against none | {own / cpu['onrush', 'alone']:.2f}x | 1.35x | 1.2x |",
    ]
    for kind in ("redis", "redis-newer"):
        lines.append(f"| CPU with one replica against {kind} with one | {own / cpu[kind, 'one replica']:.3f}x | .25x | .2x |")
    held = rate["onrush", HELD] / rate["onrush", "one replica"]
    lines.append(f"| throughput with replies held against not held | {held:.2f}x | at least .7x | .85x |")
    print("\n".join(lines))
    if not args.no_record:
        keep(os.path.join(HERE, "runs"), ROOT, "replication", lines)


if __name__ == "__main__":
    main()
