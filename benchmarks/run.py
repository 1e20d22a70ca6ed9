#!/usr/bin/env python3
"""Measures onrush-server against redis-server, in turns, in one run, and records the result in runs/.

The server has core 0 to itself, the client core 1. Speed is the server's CPU time per command, which does not
depend on how fast the client is; memory is resident bytes per item. What counts are the ratios.

    run.py                          everything, three rounds
    run.py --quick --no-record      a first look in about a minute
    run.py --cases 'SET P=100,RSS'  the cases of these names, or whose names contain these; --list shows them
    run.py --check                  exit status 1 when a limit is missed
"""

import argparse
import os
import shlex
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

from harness import cases, load, programs, report, tls, types  # noqa: E402
from harness.choose import chosen  # noqa: E402
from harness.servers import CLIENT_CORE, Kinds  # noqa: E402


def arguments():
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    default_onrush = os.environ.get("ONRUSH_SERVER_BIN", os.path.join(target, "release", "onrush-server"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    help_cases = "only the cases of these names, or whose names contain these, comma-separated; SET-P100 is SET P=100"
    parser.add_argument("--cases", default="", help=help_cases)
    parser.add_argument("--list", action="store_true", help="the names of the cases")
    parser.add_argument("--rounds", type=int, default=3, help="rounds per case; medians are reported (default 3)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the commands and one round")
    parser.add_argument("--no-record", action="store_true", help="print only, write nothing to runs/")
    parser.add_argument("--check", action="store_true", help="exit status 1 when a limit is missed")
    parser.add_argument("--onrush", default=default_onrush, help="path of onrush-server")
    default_redis = os.environ.get("REDIS_SERVER_BIN", "redis-server")
    parser.add_argument("--redis", default=default_redis, help="path of redis-server")
    parser.add_argument("--store-bench", default=os.path.join(target, "release", "onrush-store-bench"))
    return parser.parse_args()


def in_turns(case, rounds, measure, kind):
    """Runs a case for its servers in turns, the one that goes first changing from round to round."""
    servers = getattr(case, "servers", ("redis", "onrush"))
    results = {name: [] for name in servers}
    for index in range(rounds * getattr(case, "turns_per_round", 1)):
        for name in servers if index % 2 == 0 else reversed(servers):
            results[name].append(measure(name))
    result = {"case": case, "rounds": results, "kind": kind}
    print(report.table([result]).splitlines()[-1], flush=True)
    return result


def run_speed(kinds, speed_cases, rounds, scale):
    if not speed_cases:
        return []
    results = []
    with kinds.start("redis") as redis, kinds.start("onrush") as onrush:
        servers = {"redis": redis, "onrush": onrush}
        for server in servers.values():
            load.load(server, load.sets(cases.KEYS))
            load.load(server, load.sets(cases.KEYS, prefix="counter", value=b"0"))
        for case in speed_cases:
            kind = "own" if isinstance(case, (cases.BigPipeline, programs.AgainstScript)) else "ratio"
            results.append(in_turns(case, rounds, lambda name: case.run(servers[name], scale), kind))
    return results


def main():
    options = arguments()
    speed = [*cases.pipelined_cases(), cases.BigPipeline(), *types.type_cases(), *programs.program_cases()]
    encrypted = tls.tls_cases()
    memory = [*cases.memory_cases(), *types.type_memory_cases()]
    wanted = chosen([*speed, *encrypted, *memory, cases.Store()], options.cases)
    if options.list:
        print("\n".join(case.name for case in wanted))
        return 0
    if not os.path.exists(options.onrush):
        raise SystemExit(f"{options.onrush} does not exist: build it (make build) or name it with --onrush")
    rounds, scale = (1, 0.1) if options.quick else (options.rounds, 1.0)
    kinds = Kinds(options.onrush, options.redis)
    os.sched_setaffinity(0, {CLIENT_CORE % os.cpu_count()})
    print(report.table([]))
    results = run_speed(kinds, [case for case in wanted if case in speed], rounds, scale)
    encrypted = [case for case in wanted if case in encrypted]
    results += tls.run_tls(
        kinds, encrypted, lambda case, servers: in_turns(case, rounds, lambda name: case.run(servers[name], scale), "ratio")
    )
    for case in (case for case in wanted if case in memory):
        results.append(in_turns(case, rounds, lambda name: case.run(kinds, name, scale), "own"))
    store_text = None
    if any(isinstance(case, cases.Store) for case in wanted):
        os.sched_setaffinity(0, range(os.cpu_count()))
        store_text = cases.store_output(options.store_bench)
        scaling = cases.store_scaling(store_text)
        if scaling is not None:
            result = {"case": cases.Store(), "rounds": {"onrush": [{"value": scaling}]}, "kind": "own"}
            results.append(result)
            print(report.table([result]).splitlines()[-1])
    if not options.no_record:
        shown = [os.path.basename(arg) if os.path.exists(arg) else arg for arg in sys.argv[1:]]
        command_line = shlex.join(["benchmarks/run.py", *shown])
        path = report.record(os.path.join(HERE, "runs"), ROOT, command_line, results, kinds, store_text)
        print("recorded in", os.path.relpath(path))
    missed = report.missed(results)
    if missed:
        print("limits missed:", ", ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
