"""What is measured, and the limits and goals of each case (ratios against redis-server in the same run)."""

import csv
import io
import os
import re
import statistics
import subprocess

from . import load
from .servers import CLIENT_CORE

KEYS = 1_000_000
CONNECTIONS = 50
REQUESTS = {1: 100_000, 16: 2_000_000, 100: 4_000_000, 1000: 4_000_000}
# At P=1 nearly all is the kernel's, and other guests of a shared machine change what that costs by more than the servers
# differ, for seconds and minutes: so there the servers take short turns, and more of them.
TURNS_PER_ROUND = {1: 5}
LIMITS = {1: (0.85, 0.7), 16: (0.4, 0.25), 100: (0.25, 0.125), 1000: (0.25, 0.125)}


class Pipelined:
    """One kind of command at one depth: server CPU per command and commands per second."""

    unit = "µs CPU per command"
    better = "lower"

    def __init__(self, name, depth, args, random_keys=True, limits=None, cost=1):
        self.name, self.depth, self.args = name, depth, args
        self.random_keys, self.cost = random_keys, cost
        self.limit, self.goal = limits or LIMITS[depth]
        self.turns_per_round = TURNS_PER_ROUND.get(depth, 1)

    def benchmark_args(self, port, requests):
        command = ["taskset", "-c", str(CLIENT_CORE), "redis-benchmark", "-h", "127.0.0.1", "-p", str(port)]
        command += ["-c", str(CONNECTIONS), "-n", str(requests), "-P", str(self.depth), "-d", "3", "--csv"]
        command += ["-r", str(KEYS)] if self.random_keys else []
        return command + self.args

    def request_count(self, scale):
        return max(int(REQUESTS[self.depth] / self.cost * scale), self.depth * CONNECTIONS)

    def prepare(self, server):
        """Loads what the case works on, outside of what is measured."""

    def run(self, server, scale):
        requests = self.request_count(scale)
        self.prepare(server)
        command = self.benchmark_args(server.port, requests)
        before = server.cpu_ns()
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        cpu_ns = server.cpu_ns() - before
        row = last_row(output)
        return {
            "value": cpu_ns / requests / 1000,
            "commands_per_s": float(row["rps"]),
            "p50_ms": float(row["p50_latency_ms"]),
            "p99_ms": float(row["p99_latency_ms"]),
            "requests": requests,
            "command": " ".join(command).replace(str(server.port), "PORT"),
        }


def last_row(output):
    lines = [line for line in output.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    if not rows:
        raise SystemExit(f"redis-benchmark said:\n{output}")
    return rows[-1]


def pipelined_cases():
    cases = []
    for depth in (1, 16, 100, 1000):
        for name in ("SET", "GET", "INCR"):
            cases.append(Pipelined(f"{name} P={depth}", depth, ["-t", name.lower()]))
    one_key = ["INCR", "counter"]
    cases.append(Pipelined("INCR one key P=100", 100, one_key, random_keys=False, limits=(0.2, 0.125)))
    cases.append(Pipelined("MSET10 P=16", 16, ["-t", "mset"], limits=(0.333, 0.2), cost=4))
    for depth in (1, 16, 100):
        cases.append(Pipelined(f"PING P={depth}", depth, ["-t", "ping_mbulk"], limits=(None, None)))
    return cases


class BigPipeline:
    """One pipeline of a million commands against batches of a thousand: commands per second, as a ratio."""

    name = "big pipeline"
    unit = "speed, 1 x 1,000,000 / 1,000 x 1,000"
    better = "higher"
    limit, goal = 0.9, 1.0

    def run(self, server, scale):
        commands = load.sets(int(KEYS * scale) // 1000 * 1000)
        whole = b"".join(commands)
        with server.connect() as conn:
            batches_s = load.send_in_batches(conn, commands, 1000)
            one_s = load.send_while_reading(conn, whole, len(commands) * load.OK_LEN)
        return {
            "value": batches_s / one_s,
            "commands_per_s": len(commands) / one_s,
            "batched_commands_per_s": len(commands) / batches_s,
        }


class Memory:
    """Resident bytes per item of a million strings with 16-byte keys."""

    unit = "bytes of RSS per item"
    better = "lower"

    def __init__(self, name, limit, goal, value=b"xxx", extra=()):
        self.name, self.limit, self.goal, self.value, self.extra = name, limit, goal, value, extra

    def load(self, server, count):
        load.load(server, load.sets(count, value=self.value, extra=self.extra))

    def run(self, kinds, name, scale):
        count = int(KEYS * scale)
        with kinds.start(name) as server:
            before = server.rss_bytes()
            self.load(server, count)
            after = server.rss_bytes()
        return {"value": (after - before) / count, "rss_before": before, "rss_after": after, "items": count}


class IdleMemory:
    """Resident memory of a server that nobody has used yet."""

    name, unit, better = "idle RSS", "MB", "lower"
    limit, goal = 12.0, None

    def run(self, kinds, name, _scale):
        with kinds.start(name) as server:
            return {"value": server.rss_bytes() / 1e6}


def memory_cases():
    return [
        IdleMemory(),
        Memory("RSS per item", 60, 48),
        Memory("RSS per item, TTL", 70, 56, extra=(b"EX", b"100000")),
        Memory("RSS per item, integer", 56, 48, value=None),
    ]


class Store:
    """The store alone, in process: throughput of two threads against one."""

    name = "store, 2 threads / 1"
    unit = "throughput ratio"
    better = "higher"
    limit, goal = 1.8, 1.95


def store_output(binary):
    """What onrush-store-bench prints, or None when it has not been built."""
    if not os.path.exists(binary):
        return None
    return subprocess.run([binary], check=True, capture_output=True, text=True).stdout


def store_scaling(output):
    """Throughput of two threads over one, which the store bench prints as `ratio 1.97`; None without it."""
    found = re.search(r"\bratio ([0-9.]+)", output or "")
    return float(found.group(1)) if found else None


def median(rounds, field):
    return statistics.median(r[field] for r in rounds)
