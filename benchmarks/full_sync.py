#!/usr/bin/env python3
"""Measures full syncs, idle and under pipelined writes: full_sync.py [--keys N] [--pairs onrush/onrush,redis/redis].

A pair is a primary and an empty replica of it, both with their default settings but `save ""` and no delay before the
sync. The primary has N keys with values of 100 bytes; the writes are SETs of these keys by redis-benchmark with 10
connections and pipelines of 100, for as long as the sync lasts. The time is from REPLICAOF until the link is up; memory is
what the primary's resident bytes grow by at most, as a share of what they were; PINGs go to the primary one by one, from a
thread of real-time priority where that is allowed. On a virtual machine the host may take the processors away for tens of
milliseconds (`steal` in /proc/stat), which says nothing about a server: the longest PING is told with and without those.
"""

import argparse
import datetime
import os
import subprocess
import threading
import time

from harness.load import command
from harness.report import commit, keep, machine, version
from harness.servers import Server, add_binaries, chosen_binaries

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
VALUE = b"x" * 100
FILL_LEN = 10_000
REST_S = 8


def ask(conn, *args):
    """The reply to one command, if it is a line or a bulk string."""
    conn.sendall(command(*args))
    data = b""
    while True:
        data += conn.recv(1 << 16)
        line, end, rest = data.partition(b"\r\n")
        if end and (line[:1] != b"$" or len(rest) >= int(line[1:]) + 2):
            return rest if line[:1] == b"$" else line


def fill(server, keys):
    with server.connect() as conn:
        for first in range(0, keys, FILL_LEN):
            batch = range(first, min(first + FILL_LEN, keys))
            conn.sendall(b"".join(command("SET", b"key:%012d" % number, VALUE) for number in batch))
            left = len(b"+OK\r\n") * len(batch)
            while left:
                left -= len(conn.recv(left))


def stolen():
    """Ticks for which the host has taken processors from this machine so far."""
    with open("/proc/stat") as file:
        return int(file.readline().split()[8])


class Watch:
    """The primary while the sync lasts: its memory and how long PINGs take."""

    def __init__(self, primary):
        self.primary, self.is_over = primary, False
        self.before = self.most = primary.rss_bytes()
        self.longest_ms = self.longest_unstolen_ms = 0
        self.threads = [threading.Thread(target=work) for work in (self.ping, self.weigh)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join()

    def ping(self):
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
        except OSError:
            pass
        with self.primary.connect() as conn:
            while not self.is_over:
                before, began = stolen(), time.monotonic()
                ask(conn, "PING")
                took_ms = (time.monotonic() - began) * 1e3
                self.longest_ms = max(self.longest_ms, took_ms)
                time.sleep(0.001)
                if took_ms > self.longest_unstolen_ms and stolen() == before:
                    self.longest_unstolen_ms = took_ms

    def weigh(self):
        while not self.is_over:
            self.most = max(self.most, self.primary.rss_bytes())
            time.sleep(0.02)

    def growth(self):
        return (self.most - self.before) / self.before


def sync(primary, replica, keys, benchmark, timeout):
    """One sync: seconds or `None` if the link is not up by then, growth of memory, longest PING in milliseconds with and
    without those in which the host took a processor, SETs in a second (0: idle), and how many full syncs the primary has
    begun."""
    writer = None
    if benchmark:
        load = [benchmark, "-p", str(primary.port), "-P", "100", "-c", "10", "-r", str(keys), "-d", "100"]
        load += ["-n", str(10**10), "-t", "set"]
        writer = subprocess.Popen(load, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(2 if writer else 0)
        with Watch(primary) as watch, replica.connect() as conn, primary.connect() as control:
            counted = sets(control)
            began = time.monotonic()
            ask(conn, "REPLICAOF", "127.0.0.1", str(primary.port))
            is_up = False
            while not is_up and time.monotonic() - began < timeout:
                time.sleep(0.02)
                is_up = b"master_link_status:up" in ask(conn, "INFO", "replication")
            took = time.monotonic() - began
            rate = (sets(control) - counted) / took if writer else 0
    finally:
        if writer:
            writer.kill()
            writer.wait()
        with primary.connect() as control:
            begun = int(ask(control, "INFO", "stats").split(b"sync_full:")[1].split()[0])
    return took if is_up else None, watch.growth(), watch.longest_ms, watch.longest_unstolen_ms, rate, begun


def sets(conn):
    for line in ask(conn, "INFO", "commandstats").splitlines():
        if line.startswith(b"cmdstat_set:"):
            return int(line.split(b"calls=")[1].split(b",")[0])
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_binaries(parser, ROOT)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--pairs", default="onrush/onrush,redis/redis,redis-newer/redis-newer")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one sync")
    parser.add_argument("--no-record", action="store_true")
    args = parser.parse_args()
    binaries = chosen_binaries(args)
    names = {name: f"{name}: {version(binary)}" for name, binary in binaries.items() if name in args.pairs}
    lines = [
        f"# Full syncs of {args.keys:,} keys, {datetime.date.today()}, {commit(ROOT)}",
        "",
        f"`benchmarks/full_sync.py`, {machine()['cores']} cores, all on one host. " + "; ".join(names.values()) + ".",
        "",
        "| primary, replica | writes | time | full syncs begun | memory beyond the data | longest PING | without steal |",
        "|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    for pair in args.pairs.split(","):
        kinds = pair.split("/")
        fixed = ["--repl-diskless-sync-delay", "0"]
        with Server(kinds[0], binaries[kinds[0]], fixed, pinned=False) as primary:
            fill(primary, args.keys)
            syncs = 0
            # Where the host of a virtual machine takes memory back that a process has left, the machine stands still for that
            # moment, some seconds later.
            for benchmark in [None, args.redis_benchmark]:
                time.sleep(REST_S)
                with Server(kinds[1], binaries[kinds[1]], fixed, pinned=False) as replica:
                    took, growth, *pings, rate, begun = sync(primary, replica, args.keys, benchmark, args.timeout)
                took = f"{took:.1f} s" if took else f"not within {args.timeout:.0f} s"
                before = syncs
                syncs = begun
                load = f"{rate:,.0f} a second" if benchmark else "none"
                line = f"| {kinds[0]}, {kinds[1]} | {load} | {took} | {begun - before} | {growth:.1%}"
                line += "".join(f" | {longest_ms:.1f} ms" for longest_ms in pings) + " |"
                print(line, flush=True)
                lines.append(line)
    if not args.no_record:
        keep(os.path.join(HERE, "runs"), ROOT, "full-sync", lines)


if __name__ == "__main__":
    main()
