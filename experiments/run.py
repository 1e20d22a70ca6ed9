#!/usr/bin/env python3
"""The experiments of docs/pipelining.md on this machine: tables on standard output, and plots in target/experiments.

Each runs against Onrush and, where it is installed, redis-server. Every row is measured three times (`--rounds`), the
servers in turns; a table says the median and in parentheses the least and the greatest.

    run.py --quick            a tenth of the commands
    run.py --only batches     only the experiments of these names, comma-separated; --list shows them
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "benchmarks"))
from harness.choose import chosen  # noqa: E402

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SERVER = os.environ.get("ONRUSH_SERVER_BIN", str(TARGET / "release/onrush-server"))
TOOL = os.environ.get("ONRUSH_BENCHMARK_BIN", str(TARGET / "release/onrush-benchmark"))
CLIENT = str(TARGET / "release/examples/experiments")
PLOTS = TARGET / "experiments"


class Server:
    def __init__(self, name, command):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.name = name
        self.folder = tempfile.TemporaryDirectory()
        command = command + ["--port", str(self.port), "--save", "", "--dir", self.folder.name]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        for _ in range(500):
            try:
                self.talk(b"PING\r\n", 7)
                return
            except OSError:
                time.sleep(0.01)
        sys.exit(f"{command[0]} does not answer")

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/"

    def talk(self, request, reply_len=None):
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as stream:
            stream.sendall(request)
            if reply_len is None:
                stream.shutdown(socket.SHUT_WR)
            reply = b""
            while reply_len is None or len(reply) < reply_len:
                piece = stream.recv(65536)
                if not piece:
                    break
                reply += piece
            return reply

    def info(self, name):
        for line in self.talk(b"INFO stats\r\n").decode().splitlines():
            if line.startswith(name + ":"):
                return int(line.split(":")[1])
        return 0

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


class Figures:
    """Figures by row and column, several of each: one for every round."""

    def __init__(self, decimals=3):
        self.values, self.decimals = {}, decimals

    def add(self, row, column, value):
        self.values.setdefault((row, column), []).append(float(value))

    def median(self, row, column):
        return statistics.median(self.values[row, column])

    def text(self, row, column):
        if (row, column) not in self.values:
            return ""
        values = self.values[row, column]
        number = lambda value: f"{value:,.{self.decimals}f}"  # noqa: E731
        return f"{number(statistics.median(values))} ({number(min(values))} to {number(max(values))})"

    def table(self, head):
        rows = list(dict.fromkeys(row for row, _ in self.values))
        columns = list(dict.fromkeys(column for _, column in self.values))
        print(f"| {head} | " + " | ".join(columns) + " |")
        print("|" + "---|" * (len(columns) + 1))
        for row in rows:
            print(f"| {row} | " + " | ".join(self.text(row, column) for column in columns) + " |")
        sys.stdout.flush()


class Bench:
    """What all experiments share: the servers, how much is done, how often."""

    def __init__(self, servers, scale, rounds):
        self.servers, self.scale, self.rounds = servers, scale, rounds

    def count(self, number):
        return number // self.scale

    def turns(self):
        """Each round, the servers in turns; who goes first changes."""
        for index in range(self.rounds):
            yield from self.servers if index % 2 == 0 else reversed(self.servers)


def title(text):
    print(f"\n## {text}\n", flush=True)


def draw(name, lines, x_title, y_title):
    """Drawn by onrush-benchmark, so that all plots look alike."""
    at = PLOTS / name
    at.with_suffix(".json").write_text(json.dumps({"x": x_title, "y": y_title, "lines": lines}))
    run([TOOL, "--draw", f"{at}.json", "--plot", f"{at}.svg"])
    print(f"\nPlot: {at}.svg")


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def timed(*command):
    """The `what<tab>seconds` lines of a program."""
    return [line.split("\t") for line in run([str(word) for word in command]).splitlines() if "\t" in line]


def calls(server, requests):
    """Reads and writes of the server while the requests are sent, each after the replies to the one before."""
    before = server.info("total_reads_processed"), server.info("total_writes_processed")
    with socket.create_connection(("127.0.0.1", server.port)) as stream:
        for request in requests:
            stream.sendall(request)
            got = 0
            while got < request.count(b"\n"):
                got += stream.recv(4096).count(b"\n")
    time.sleep(0.1)
    return server.info("total_reads_processed") - before[0], server.info("total_writes_processed") - before[1]


def system_calls(bench):
    title("1. Three PINGs, and four INCRs one by one and at once")
    figures = Figures(decimals=0)
    for server in bench.servers:
        reply = server.talk(b"PING\r\nPING\r\nPING\r\n")
        print(f"{server.name}: printf \"PING\\r\\nPING\\r\\nPING\\r\\n\" | nc → {reply.decode().split()}")
    for server in bench.turns():
        # What the asking itself costs is taken off: the same without a request.
        asking = calls(server, [])
        for name, requests in (("one by one", [b"INCR x\r\n"] * 4), ("at once", [b"INCR x\r\n" * 4])):
            for what, all_calls, own in zip(("reads", "writes"), calls(server, requests), asking):
                figures.add(f"{server.name}, {name}", f"{what} by the server", all_calls - own)
    print()
    figures.table("four INCRs")


RUBY = """
require 'redis'; r = Redis.new(port: ARGV[0].to_i); n = ARGV[1].to_i
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
t = now.(); n.times { r.ping }; u = now.(); puts "one by one\\t%.4f" % (u - t)
r.pipelined { |p| n.times { p.ping } }; puts "one pipeline\\t%.4f" % (now.() - u)
"""


def waiting(bench):
    count = 10_000
    title(f"2. {count:,} PINGs with and without a pipeline")
    has_ruby = shutil.which("ruby") and subprocess.run(["ruby", "-e", "require 'redis'"], capture_output=True).returncode == 0
    if not has_ruby:
        print("redis-rb is not installed (package ruby-redis).\n")
    figures = Figures()
    for server in bench.turns():
        for what, seconds in timed(CLIENT, server.url, "pings", count):
            figures.add(f"onrush on {server.name}", f"{what}, s", seconds)
        for what, seconds in timed("ruby", "-e", RUBY, server.port, count) if has_ruby else []:
            figures.add(f"redis-rb on {server.name}", f"{what}, s", seconds)
    figures.table("client and server")
    lines = {}
    for row, column in figures.values:
        depth = 1 if column.startswith("one by one") else count
        lines.setdefault(row, []).append((depth, max(figures.median(row, column), 1e-4)))
    draw("pings", lines, "PINGs in a batch", f"seconds for {count:,} PINGs")


def batches(bench):
    count = bench.count(1_000_000)
    sizes = [1, 100, 1_000, 10_000, 30_000, 50_000, 100_000, 1_000_000]
    title(f"3. {count:,} INCRs in batches, in seconds")
    modules = TARGET / "node/node_modules"
    has_node = shutil.which("node") and modules.exists()
    if has_node:
        os.environ["NODE_PATH"] = str(modules)
    else:
        print("ioredis is not installed: `make clients` does it.\n")
    figures = Figures()
    for server in bench.turns():
        for what, seconds in timed(CLIENT, server.url, "incrs", count, *sizes):
            figures.add(what, f"onrush on {server.name}", seconds)
    for server in bench.turns() if has_node else []:
        for what, seconds in timed("node", ROOT / "experiments/incrs.js", server.port, count, *sizes):
            figures.add(what, f"ioredis on {server.name}", seconds)
    figures.table("how")
    lines = {}
    for what, column in figures.values:
        if what.startswith("batches of "):
            size, *rest = what.removeprefix("batches of ").split(", ")
            lines.setdefault(", ".join([column, *rest]), []).append((int(size), figures.median(what, column)))
    draw("batches", lines, "commands in a batch", f"seconds for {count:,} INCRs")
    memory(bench)


def memory(bench):
    count = bench.count(10_000_000)
    title(f"3b. Memory of a client that sends {count:,} INCRs as a stream, in MB")
    figures = Figures(decimals=1)
    for server in bench.turns():
        for what, megabytes in timed(CLIENT, server.url, "memory", count):
            figures.add(what, server.name, megabytes)
    figures.table("how")


def rate(output):
    return float(output.split(" requests per second")[0].rsplit(" ", 1)[-1])


def distance(bench):
    title("4. A round trip of 43 ms, in seconds")
    server, million = bench.servers[0], bench.count(1_000_000)
    figures = Figures(decimals=2)

    def tool(sent, *depth):
        return sent / rate(run([TOOL, "-p", str(server.port), "-q", "-c", "1", "-n", str(sent), *depth, "--rtt", "43ms", "incr", "x"]))

    for _ in range(bench.rounds):
        figures.add("10,000 one by one (100, counted up)", server.name, tool(100, "-P", "1") * 100)
        for batch in (100, 500, 1_000):
            figures.add(f"10,000 in batches of {batch:,}", server.name, tool(10_000, "-P", str(batch)))
        for batch in (bench.count(size) for size in (5_000, 50_000, 500_000)):
            figures.add(f"{million:,} in batches of {batch:,}", server.name, tool(million, "-P", str(batch)))
        figures.add(f"{million:,} as a stream, 200,000 under way", server.name, tool(million, "--window", "200000"))
        for what, seconds in timed(CLIENT, server.url, "distance", 43, million):
            figures.add(f"{million:,} as a {what} of the onrush client", server.name, seconds)
    figures.table("commands")
    lines = {}
    for row, column in figures.values:
        if " in batches of " in row:
            count, size = row.split(" in batches of ")
            lines.setdefault(f"{count} INCRs", []).append((int(size.replace(",", "")), figures.median(row, column)))
    draw("round-trip", lines, "commands in a batch", "seconds over 43 ms")


def depth(bench):
    title("5. Server throughput against depth, in 1,000 SETs a second")
    depths = [1, 2, 4, 8, 16, 32, 100, 300, 1000]
    count = str(bench.count(1_000_000))
    has_theirs = shutil.which("redis-benchmark")
    figures = Figures(decimals=0)
    for server in bench.turns():
        at = PLOTS / f"depth-{server.name}.csv"
        load = ["-p", str(server.port), "-t", "set", "-n", count, "-r", "100000"]
        run([TOOL, *load, "--threads", "2", "--sweep", "depth=" + ",".join(map(str, depths)), "--csv-file", str(at)])
        for line in at.read_text().splitlines()[1:]:
            _, _, value, rps, *_ = line.split(",")
            figures.add(value, f"{server.name}, onrush-benchmark", float(rps) / 1_000)
        for value in depths if has_theirs else []:
            output = run(["redis-benchmark", *load, "-P", str(value), "-q"])
            figures.add(str(value), f"{server.name}, redis-benchmark", rate(output.split("\r")[-1]) / 1_000)
        for what, seconds in timed(CLIENT, server.url, "depths", count, *depths):
            figures.add(what.removeprefix("depth "), f"{server.name}, onrush client", int(count) / float(seconds) / 1_000)
    figures.table("depth")
    lines = {}
    for row, column in figures.values:
        lines.setdefault(column, []).append((int(row), figures.median(row, column) * 1_000))
    draw("depth", lines, "pipeline depth", "SETs a second")


def four_ways(bench):
    count = bench.count(100_000)
    title(f"6. {count:,} keys set in four ways, in seconds")
    notes = {"native": "atomic, 1 trip", "pipeline": "1 trip", "transaction": "atomic, 1 trip", "script": f"each call atomic, {-(-count // 5_000)} trips"}
    figures = Figures()
    for server in bench.turns():
        for what, seconds in timed(CLIENT, server.url, "four", count):
            figures.add(f"{what}: {notes[what.split()[0]]}", server.name, seconds)
    figures.table("how")
    title(f"6b. {count:,} decisions of a rate limiter, in one pipeline, in seconds")
    figures = Figures()
    for server in bench.turns():
        for what, seconds in timed(CLIENT, server.url, "limits", count):
            figures.add(what, server.name, seconds)
    figures.table("how")


EXPERIMENTS = {
    "system calls": system_calls,
    "waiting": waiting,
    "batches": batches,
    "distance": distance,
    "depth": depth,
    "four ways": four_ways,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the commands")
    parser.add_argument("--rounds", type=int, default=3, help="how often each row is measured (default 3)")
    parser.add_argument("--only", default="", help="only these experiments, comma-separated")
    parser.add_argument("--list", action="store_true", help="the names of the experiments")
    options = parser.parse_args()
    names = chosen(EXPERIMENTS, options.only, name=str)
    if options.list:
        print("\n".join(names))
        return
    PLOTS.mkdir(parents=True, exist_ok=True)
    servers = [Server("onrush", [SERVER])]
    if shutil.which("redis-server"):
        servers.append(Server("redis-server", ["redis-server"]))
    try:
        for name in names:
            EXPERIMENTS[name](Bench(servers, 10 if options.quick else 1, max(options.rounds, 1)))
    finally:
        for server in servers:
            server.stop()


main()
