#!/usr/bin/env python3
"""Measures the client library beside redis-rs, fred and rueidis, in turns, against one server: clients.py [--rounds N].

Each measurement is a process of its own on the client's core, with one thread that runs all of its code, the client's
tasks included, over one connection:
1,000,000 SETs in pipelines of 1,000; 1,000,000 INCRs as a stream, which the others do in pipelines whose replies they
read; 256 tasks that SET 4,000 times each. Prints the medians, and writes them under benchmarks/runs.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess

from harness.report import path_of_record
from harness.servers import CLIENT_CORE, Server

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = ["onrush", "redis-rs", "fred", "rueidis"]
CASES = {
    "pipelines": "SET in pipelines of 1,000",
    "stream": "INCR in a stream",
    "tasks": "SET by 256 tasks",
}


def target():
    return os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(HERE, "../target")))


def build():
    """The programs, by the client that they measure."""
    folder = os.path.join(target(), "clients")
    os.makedirs(folder, exist_ok=True)
    rust = dict(os.environ, CARGO_TARGET_DIR=folder)
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked"], cwd=f"{HERE}/clients", env=rust, check=True)
    go = os.path.join(folder, "rueidis")
    subprocess.run(["go", "build", "-mod=readonly", "-o", go, "."], cwd=f"{HERE}/clients/go", check=True)
    ours = os.path.join(folder, "release/onrush-clients")
    return {client: [go] if client == "rueidis" else [ours, client] for client in CLIENTS}


def versions():
    """The versions of the clients that are measured."""
    locked = ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", f"{HERE}/clients/Cargo.toml"]
    packages = json.loads(subprocess.run(locked, capture_output=True, check=True).stdout)["packages"]
    found = {package["name"]: package["version"] for package in packages}
    module = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Version}}", "github.com/redis/rueidis"],
        cwd=f"{HERE}/clients/go", capture_output=True, text=True, check=True,
    )
    rueidis = module.stdout.strip().removeprefix("v")
    return {"onrush": found["onrush"], "redis-rs": found["redis"], "fred": found["fred"], "rueidis": rueidis}


def machine():
    """The machine in one line."""
    with open("/proc/cpuinfo") as info:
        models = {line.split(":", 1)[1].strip() for line in info if line.startswith("model name")}
    kernel = os.uname()
    return f"{', '.join(sorted(models)) or kernel.machine}, {os.cpu_count()} cores, {kernel.sysname} {kernel.release}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-record", action="store_true", help="write no file")
    args = parser.parse_args()
    programs = build()
    binary = os.environ.get("ONRUSH_SERVER_BIN", os.path.join(target(), "release/onrush-server"))
    got = {}
    with Server("onrush", binary, ["--workers", "1"]) as server:
        url = f"redis://127.0.0.1:{server.port}"
        for _ in range(args.rounds):
            for case in CASES:
                for client in CLIENTS:
                    command = ["taskset", "-c", str(CLIENT_CORE), *programs[client], case, url]
                    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
                    if done.returncode != 0:
                        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
                    rate, micros = map(float, done.stdout.split())
                    got.setdefault((case, client), []).append((rate, micros))
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True)
    now = datetime.datetime.now(datetime.timezone.utc)
    known = versions()
    lines = [
        "# The client library beside others",
        "",
        f"`benchmarks/clients.py --rounds {args.rounds}` at {commit.stdout.strip()}, {now:%Y-%m-%d %H:%M} UTC. {machine()}; "
        "the server (onrush-server, one worker) on one core, the client on the other. "
        + ", ".join(f"{client} {known[client]}" for client in CLIENTS)
        + f". Medians of {args.rounds} rounds in turns: the client's CPU time for each command, and commands a second.",
        "",
        "| case | " + " | ".join(f"{client} | commands/s" for client in CLIENTS) + " |",
        "|---|" + "---:|---:|" * len(CLIENTS),
    ]
    for case, title in CASES.items():
        cells = []
        for client in CLIENTS:
            rates, micros = zip(*got[case, client])
            cells.append(f"{statistics.median(micros):.3f} us | {statistics.median(rates):,.0f}")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    lines += ["", "All values of CPU time, in microseconds:", ""]
    for (case, client), values in got.items():
        lines.append(f"- {case}, {client}: " + ", ".join(f"{micros:.3f}" for _, micros in values))
    text = "\n".join(lines) + "\n"
    print(text)
    if not args.no_record:
        with open(path_of_record(os.path.join(HERE, "runs"), f"{commit.stdout.strip()}-clients.md"), "w") as out:
            out.write(text)


if __name__ == "__main__":
    main()
