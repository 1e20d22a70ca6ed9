"""Results as a table for people and as JSON for programs."""

import datetime
import json
import os
import platform
import subprocess

from .cases import median


COLUMNS = ["case", "what", "redis", "onrush", "ratio", "limit", "goal", "reached"]
COLUMNS += ["redis kcmd/s", "onrush kcmd/s", "redis p99 ms", "onrush p99 ms"]


def machine():
    model = "unknown"
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release()}


def commit(root):
    def git(*args):
        done = subprocess.run(["git", "-C", root, *args], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    name = git("rev-parse", "--short", "HEAD")
    if not name:
        return "uncommitted"
    return name + ("-dirty" if git("status", "--porcelain", "--untracked-files=no") else "")


def number(value):
    return "" if value is None else f"{value:.3f}" if abs(value) < 100 else f"{value:,.0f}"


def bound(case, value):
    if value is None:
        return ""
    return f"{'≤' if case.better == 'lower' else '≥'} {value:g}"


def verdict(case, value):
    def holds(limit):
        return value <= limit if case.better == "lower" else value >= limit

    if case.limit is None or value is None:
        return ""
    if not holds(case.limit):
        return "**missed**"
    return "goal" if case.goal is not None and holds(case.goal) else "limit"


def rows(results):
    """One row per case: what counts is the ratio where both servers are compared, else Onrush's own value."""
    for result in results:
        case, rounds = result["case"], result["rounds"]
        values = {name: median(r, "value") for name, r in rounds.items()}
        ratio = None
        if len(values) == 2 and values["redis"]:
            ratio = values["onrush"] / values["redis"]
        counts = ratio if result["kind"] == "ratio" else values.get("onrush")
        speeds = {n: median(r, "commands_per_s") for n, r in rounds.items() if "commands_per_s" in r[0]}
        tails = {n: median(r, "p99_ms") for n, r in rounds.items() if "p99_ms" in r[0]}
        yield case, values, speeds, tails, ratio, counts


def table(results):
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for case, values, speeds, tails, ratio, counts in rows(results):
        kilo = {name: number(speed / 1000) for name, speed in speeds.items()}
        cells = [case.name, case.unit, number(values.get("redis")), number(values.get("onrush")), number(ratio)]
        cells += [bound(case, case.limit), bound(case, case.goal), verdict(case, counts)]
        cells += [kilo.get("redis", ""), kilo.get("onrush", "")]
        cells += [number(tails.get("redis")), number(tails.get("onrush"))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def missed(results):
    """Names of the cases that miss their limit."""
    return [case.name for case, *_, counts in rows(results) if "missed" in verdict(case, counts)]


def record(folder, root, command_line, results, kinds, store_text):
    """Writes runs/<day>/<date>-<commit>.md and .json; returns the path of the first."""
    now = datetime.datetime.now().astimezone()
    stem = path_of_record(folder, commit(root))
    facts = {
        "date": now.isoformat(timespec="seconds"),
        "commit": commit(root),
        "machine": machine(),
        "command_line": command_line,
        "redis_server": version(kinds.binaries["redis"]),
        "onrush_server": version(kinds.binaries["onrush"]),
    }
    raw = []
    for result in results:
        case = result["case"]
        fields = {name: getattr(case, name) for name in ("name", "unit", "limit", "goal")}
        raw.append({**fields, "rounds": result["rounds"]})
    with open(stem + ".json", "w") as out:
        json.dump({**facts, "results": raw, "store": store_text}, out, indent=1)
        out.write("\n")
    with open(stem + ".md", "w") as out:
        out.write(f"# Benchmark run of {facts['date']}, commit {facts['commit']}\n\n")
        spot = facts["machine"]
        out.write(f"{spot['cpu']}, {spot['cores']} cores, Linux {spot['kernel']}; ")
        out.write("server on core 0, client on core 1.\n")
        out.write(f"`{facts['redis_server']}` against `{facts['onrush_server']}`.\n\n")
        out.write(f"`{command_line}`; medians, the raw rounds are in the .json file beside this one.\n\n")
        out.write(table(results) + "\n")
        if store_text:
            out.write("\nThe store alone:\n\n```\n" + store_text.rstrip() + "\n```\n")
    return stem + ".md"


def keep(folder, root, name, lines):
    """Writes runs/<day>/<date>-<commit>-<name>.md."""
    path = path_of_record(folder, f"{commit(root)}-{name}.md")
    with open(path, "w") as out:
        out.write("\n".join(lines) + "\n")


def path_of_record(folder, name):
    """The path of a record of this minute, in the folder of its day, which is made."""
    now = datetime.datetime.now()
    os.makedirs(os.path.join(folder, f"{now:%Y-%m-%d}"), exist_ok=True)
    return os.path.join(folder, f"{now:%Y-%m-%d}", f"{now:%Y-%m-%d-%H%M}-{name}")


def version(binary):
    done = subprocess.run([binary, "--version"], capture_output=True, text=True)
    return done.stdout.strip() or os.path.basename(binary)
