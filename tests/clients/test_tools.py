"""The tools everybody has at hand: redis-cli, redis-benchmark, netcat."""

import subprocess

import pytest


def test_cli_calls_commands(server):
    assert server.cli("SET", "a", "hello") == "OK\n"
    assert server.cli("GET", "a") == "hello\n"
    assert server.cli("GET", "nothing") == "\n"
    assert server.cli("INCR", "a") == "ERR value is not an integer or out of range\n\n"
    assert server.cli("--no-raw", "TTL", "a") == "(integer) -1\n"


def test_cli_reads_commands_from_its_input(server):
    assert server.cli(stdin=b"SET a 1\nINCR a\nGET a\n") == "OK\n2\n2\n"


def test_cli_speaks_resp3(server):
    assert server.cli("-3", "--no-raw", "GET", "nothing") == "(nil)\n"
    assert "proto" in server.cli("-3", "HELLO")


def test_cli_chooses_a_database(server):
    server.cli("-n", "3", "SET", "a", "three")
    assert server.cli("GET", "a") == "\n"
    assert server.cli("-n", "3", "GET", "a") == "three\n"


def test_cli_scans_by_pattern(server):
    server.cli("MSET", *[word for i in range(500) for word in (f"key:{i}", "v")])
    lines = server.cli("--scan", "--pattern", "key:4*").split()
    assert sorted(lines) == sorted(f"key:{i}" for i in range(500) if str(i).startswith("4"))


def test_cli_pipe_mode_loads_everything(server):
    count = 100_000
    lines = b"".join(b"SET key:%d value:%d\r\n" % (i, i) for i in range(count))
    said = server.cli("--pipe", stdin=lines)
    assert f"errors: 0, replies: {count}" in said
    assert server.cli("DBSIZE") == f"{count}\n"


def test_cli_pipe_mode_counts_errors(server):
    command = ["redis-cli", "-p", str(server.port), "--pipe"]
    lines = b"SET a x\r\nINCR a\r\nSET b 1\r\n"
    done = subprocess.run(command, input=lines, capture_output=True, timeout=60)
    assert b"errors: 1, replies: 3" in done.stdout


def test_cli_repeats_and_shows_info(server):
    assert server.cli("-r", "5", "INCR", "n").split() == ["1", "2", "3", "4", "5"]
    info = server.cli("INFO")
    for section in ("Server", "Clients", "Memory", "Stats", "Keyspace"):
        assert f"# {section}" in info
    for field in ("redis_version:", "connected_clients:", "used_memory:", "db0:keys=1"):
        assert field in info


@pytest.mark.parametrize("depth", [1, 16, 100])
def test_benchmark_runs(server, depth):
    command = ["redis-benchmark", "-p", str(server.port), "-t", "ping,set,get,incr,mset"]
    command += ["-n", "20000", "-P", str(depth), "-r", "1000", "--csv"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    names = [line.split(",")[0].strip('"') for line in done.stdout.splitlines()[1:]]
    assert names == ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"]
    assert "rror" not in done.stdout + done.stderr


def test_netcat_gets_a_reply_per_line(server):
    script = f'printf "PING\\r\\nPING\\r\\nPING\\r\\n" | nc -N -w 10 127.0.0.1 {server.port}'
    done = subprocess.run(["sh", "-c", script], capture_output=True, timeout=60)
    assert done.stdout == b"+PONG\r\n" * 3
