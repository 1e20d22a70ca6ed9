#!/usr/bin/env python3
"""The experiments of docs/pipelining.md on this machine: tables on standard output, and plots in target/experiments.

Each runs against Onrush and, where it is installed, redis-server. `--quick` takes a tenth of the commands.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
import plot  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SERVER = os.environ.get("ONRUSH_SERVER_BIN", str(TARGET / "release/onrush-server"))
TOOL = os.environ.get("ONRUSH_BENCHMARK_BIN", str(TARGET / "release/onrush-benchmark"))
CLIENT = str(TARGET / "release/examples/experiments")
PLOTS = TARGET / "experiments"
SCALE = 10 if "--quick" in sys.argv else 1


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


def title(text):
    print(f"\n## {text}\n", flush=True)


def table(heads, rows):
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    sys.stdout.flush()


def draw(name, lines, x_title, y_title):
    plot.write(PLOTS / f"{name}.svg", lines, x_title, y_title)
    print(f"\nPlot: {PLOTS / name}.svg")


def timed(command, server_name):
    """The `what<tab>seconds` lines of a program."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        print(f"{command[0]} on {server_name}: {done.stderr.strip()}", file=sys.stderr)
        return []
    return [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]


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


def first(servers):
    title("1. Three PINGs, and four INCRs one by one and at once")
    rows = []
    for server in servers:
        reply = server.talk(b"PING\r\nPING\r\nPING\r\n")
        print(f"{server.name}: printf \"PING\\r\\nPING\\r\\nPING\\r\\n\" | nc → {reply.decode().split()}")
        # What the asking itself costs is taken off: the same without a request.
        asking = calls(server, [])
        for name, requests in (("one by one", [b"INCR x\r\n"] * 4), ("at once", [b"INCR x\r\n" * 4])):
            rows.append([server.name, name, *(all - own for all, own in zip(calls(server, requests), asking))])
    print()
    table(["server", "four INCRs", "reads by the server", "writes by the server"], rows)


def second(servers):
    count = 10_000
    title(f"2. {count:,} PINGs with and without a pipeline")
    rows = [
        [server.name, "onrush", what, seconds]
        for server in servers
        for what, seconds in timed([CLIENT, f"redis://127.0.0.1:{server.port}/", "pings", str(count)], server.name)
    ]
    code = (
        "require 'redis'; r = Redis.new(port: ARGV[0].to_i); n = ARGV[1].to_i;"
        "t = Process.clock_gettime(Process::CLOCK_MONOTONIC); n.times { r.ping };"
        "u = Process.clock_gettime(Process::CLOCK_MONOTONIC); puts \"one by one\\t%.4f\" % (u - t);"
        "r.pipelined { |p| n.times { p.ping } };"
        "puts \"one pipeline\\t%.4f\" % (Process.clock_gettime(Process::CLOCK_MONOTONIC) - u)"
    )
    if shutil.which("ruby") and subprocess.run(["ruby", "-e", "require 'redis'"], capture_output=True).returncode == 0:
        for server in servers:
            for what, seconds in timed(["ruby", "-e", code, str(server.port), str(count)], server.name):
                rows.append([server.name, "redis-rb", what, seconds])
    else:
        print("redis-rb is not installed (package ruby-redis).\n")
    table(["server", "client", "how", "seconds"], rows)
    lines = {}
    for server, client, how, seconds in rows:
        lines.setdefault(f"{client} on {server}", []).append((1 if how == "one by one" else count, max(float(seconds), 1e-4)))
    draw("pings", lines, "PINGs in a batch", f"seconds for {count:,} PINGs")


def third(servers):
    count = 1_000_000 // SCALE
    batches = ["1", "100", "1000", "10000", "30000", "50000", "100000", "1000000"]
    title(f"3. {count:,} INCRs in batches")
    columns = []
    for server in servers:
        command = [CLIENT, f"redis://127.0.0.1:{server.port}/", "incrs", str(count), *batches]
        columns.append((f"onrush on {server.name}", dict(timed(command, server.name))))
    modules = TARGET / "node/node_modules"
    if shutil.which("node") and modules.exists():
        os.environ["NODE_PATH"] = str(modules)
        for server in servers:
            command = ["node", str(ROOT / "experiments/incrs.js"), str(server.port), str(count), *batches]
            columns.append((f"ioredis on {server.name}", dict(timed(command, server.name))))
    else:
        print("ioredis is not installed: `make clients` does it.\n")
    heads = ["seconds"] + [name for name, _ in columns]
    table(heads, [[what] + [column.get(what, "") for _, column in columns] for what in columns[0][1]])
    lines = {}
    for name, column in columns:
        for what, seconds in column.items():
            if what.startswith("batches of "):
                batch, *rest = what.removeprefix("batches of ").split(", ")
                lines.setdefault(", ".join([name, *rest]), []).append((int(batch), float(seconds)))
    draw("batches", lines, "commands in a batch", f"seconds for {count:,} INCRs")


def tool(server, *args):
    done = subprocess.run([TOOL, "-p", str(server.port), *args], capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
    return done.stdout


def rate(output):
    return float(output.split(" requests per second")[0].rsplit(" ", 1)[-1])


def fourth(servers):
    title("4. A round trip of 43 ms")
    server = servers[0]
    rows = []
    for batch, sent in ((1, 100), (100, 10_000), (500, 10_000), (1_000, 10_000)):
        seconds = sent / rate(tool(server, "-q", "-c", "1", "-n", str(sent), "-P", str(batch), "--rtt", "43ms", "incr", "x"))
        rows.append(["10,000", f"batches of {batch:,}", f"{seconds * 10_000 / sent:.2f}"])
    million = 1_000_000 // SCALE
    for batch in (5_000, 50_000, 500_000):
        batch //= SCALE
        seconds = million / rate(tool(server, "-q", "-c", "1", "-n", str(million), "-P", str(batch), "--rtt", "43ms", "incr", "x"))
        rows.append([f"{million:,}", f"batches of {batch:,}", f"{seconds:.2f}"])
    seconds = million / rate(tool(server, "-q", "-c", "1", "-n", str(million), "--window", "200000", "--rtt", "43ms", "incr", "x"))
    rows.append([f"{million:,}", "a stream (window of 200,000)", f"{seconds:.2f}"])
    table(["commands", "how", f"seconds on {server.name}"], rows)
    lines = {}
    for count, how, seconds in rows:
        if "batches" in how:
            point = int(how.split()[-1].replace(",", "")), float(seconds)
            lines.setdefault(f"{count} INCRs", []).append(point)
    draw("round-trip", lines, "commands in a batch", "seconds over 43 ms")
    print("\n(The first row is 100 commands, counted up to 10,000.)")


def fifth(servers):
    title("5. Server throughput against depth")
    depths = ["1", "2", "4", "8", "16", "32", "100", "300", "1000"]
    count = str(1_000_000 // SCALE)
    heads, columns = ["depth"], []
    for server in servers:
        at = PLOTS / f"depth-{server.name}"
        tool(server, "-t", "set", "-n", count, "-r", "100000", "--threads", "2", "--sweep", "depth=" + ",".join(depths),
             "--csv-file", f"{at}.csv", "--plot", f"{at}.svg", "--report", f"{at}.html")
        lines = Path(f"{at}.csv").read_text().splitlines()[1:]
        heads.append(f"{server.name}, onrush-benchmark")
        columns.append([f"{float(line.split(',')[3]):,.0f}" for line in lines])
        if shutil.which("redis-benchmark"):
            heads.append(f"{server.name}, redis-benchmark")
            column = []
            for depth in depths:
                command = ["redis-benchmark", "-p", str(server.port), "-t", "set", "-n", count, "-r", "100000", "-P", depth, "-q"]
                output = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
                column.append(f"{rate(output.split(chr(13))[-1]):,.0f}")
            columns.append(column)
    table(heads, [[depth] + [column[row] for column in columns] for row, depth in enumerate(depths)])
    draw("depth", {
        name: [(int(depth), float(cell.replace(",", ""))) for depth, cell in zip(depths, column)]
        for name, column in zip(heads[1:], columns)
    }, "pipeline depth", "SETs a second")
    print(f"\nPlots and pages: {PLOTS}")


def sixth(servers):
    count = 100_000 // SCALE
    title(f"6. {count:,} keys set in four ways")
    notes = {"native": ("yes", 1), "pipeline": ("no", 1), "transaction": ("yes", 1), "script": ("each call", -(-count // 5_000))}
    rows = []
    for server in servers:
        for what, seconds in timed([CLIENT, f"redis://127.0.0.1:{server.port}/", "four", str(count)], server.name):
            atomic, trips = notes[what.split()[0]]
            rows.append([server.name, what, atomic, trips, seconds])
    table(["server", "how", "atomic", "round trips", "seconds"], rows)
    title(f"6b. {count:,} decisions of a rate limiter, in one pipeline")
    rows = [
        [server.name, what, seconds]
        for server in servers
        for what, seconds in timed([CLIENT, f"redis://127.0.0.1:{server.port}/", "limits", str(count)], server.name)
    ]
    table(["server", "how", "seconds"], rows)


def main():
    PLOTS.mkdir(parents=True, exist_ok=True)
    servers = [Server("onrush", [SERVER])]
    if shutil.which("redis-server"):
        servers.append(Server("redis-server", ["redis-server"]))
    try:
        for experiment in (first, second, third, fourth, fifth, sixth):
            experiment(servers)
    finally:
        for server in servers:
            server.stop()


main()
