#!/usr/bin/env python3
"""The nightly run: nightly.py [--minutes 60] [STEP ...]

Runs each step of STEPS once, one after the other. Those whose seeds are fresh each time share, by their weights, the time that
the others leave of the minutes, and have at least one each. What a step prints goes to `nightly/STEP.log` in the target
folder. At the end it shows how long each took and which failed, and records that under benchmarks/runs/; the exit status is 1
if one failed.
"""

import argparse
import datetime
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

from harness.report import commit, keep, machine  # noqa: E402

# The name, and what `make` is told.
STEPS = {
    "lint": ["lintmore"],
    "packages": ["crates", "ARGS=--build"],
    "interface": ["semver"],
    "browser": ["browser"],
    "models": ["loom", "PREEMPTIONS=4"],
    "slow tests": ["slow"],
    "fail-overs": ["failovers", "ARGS=--rounds 20"],
    "fail-overs of a cluster": ["failovers", "ARGS=--cluster --rounds 10"],
    "large sizes": ["shapes", "ARGS=--scale 0.1 --no-record"],
}
# The weight, and what `make` is told; `{}` stands for seconds.
RANDOM_STEPS = {
    "chaos": (2, ["chaos", "ARGS=--seconds {} --quiet"]),
    "siege": (2, ["siege", "ARGS=--seconds {} --quiet"]),
    "soak": (2, ["soak", "ARGS=--seconds {} --quiet"]),
    "simulator": (3, ["sim", "ARGS=--seconds {} --jobs 2"]),
    "simulator of clusters": (1, ["sim", "ARGS=cluster --seconds {} --jobs 2"]),
    "fuzz targets": (2, ["fuzz", "FUZZ_SECONDS={}"]),
}
# `make fuzz` takes its seconds for each of so many runs.
FUZZ_RUNS = 32
RANDOM_SECONDS_MIN = 60


def run(name, words, folder):
    """Whether `make` has had no error, and the seconds it took."""
    began = time.monotonic()
    print(f"{datetime.datetime.now():%H:%M:%S} {name}", flush=True)
    with open(os.path.join(folder, f"{name.replace(' ', '-')}.log"), "w") as log:
        status = subprocess.run(["make", *words], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT).returncode
    took = time.monotonic() - began
    print(f"         {'ok' if status == 0 else 'FAILED'} after {took:,.0f} s", flush=True)
    return status == 0, took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--no-record", action="store_true")
    parser.add_argument("steps", nargs="*", metavar="STEP", help="; ".join([*STEPS, *RANDOM_STEPS]))
    args = parser.parse_args()
    unknown = [step for step in args.steps if step not in STEPS and step not in RANDOM_STEPS]
    if unknown:
        parser.error(f"there is no step {unknown[0]!r}")
    folder = os.path.join(os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target"), "nightly")
    os.makedirs(folder, exist_ok=True)
    wanted = args.steps or [*STEPS, *RANDOM_STEPS]
    began, results = time.monotonic(), []
    for name in [name for name in STEPS if name in wanted]:
        results.append((name, *run(name, STEPS[name], folder)))
    left = [name for name in RANDOM_STEPS if name in wanted]
    while left:
        name = left[0]
        weight, words = RANDOM_STEPS[name]
        seconds = args.minutes * 60 - (time.monotonic() - began)
        share = max(seconds * weight / sum(RANDOM_STEPS[other][0] for other in left), RANDOM_SECONDS_MIN)
        if name == "fuzz targets":
            share = max(share / FUZZ_RUNS, 1)
        results.append((name, *run(name, [word.format(int(share)) for word in words], folder)))
        left.remove(name)
    took = time.monotonic() - began
    lines = [
        f"# The nightly run, {datetime.date.today()}, {commit(ROOT)}",
        "",
        f"`make nightly`, {machine()['cores']} cores, {took / 60:.0f} minutes.",
        "",
        "| step | result | seconds |",
        "|---|---|---:|",
        *(f"| {name} | {'ok' if is_ok else '**failed**'} | {took:,.0f} |" for name, is_ok, took in results),
    ]
    print("\n".join(lines))
    if not args.no_record:
        keep(os.path.join(ROOT, "benchmarks", "runs"), ROOT, "nightly", lines)
    failed = [name for name, is_ok, _ in results if not is_ok]
    if failed:
        print(f"failed: {', '.join(failed)}; see {folder}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
