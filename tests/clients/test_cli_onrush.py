"""onrush-cli against Onrush: the same commands, modes and reports as against redis-server, as far as Onrush has them."""

import subprocess

from test_cli_conformance import CLI, ORACLE


def run(server, *args, binary=CLI, stdin=b""):
    command = [binary, "-p", str(server.port), *args]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60)


def assert_same(server, *args, stdin=b""):
    got, expected = run(server, *args, stdin=stdin), run(server, *args, binary=ORACLE, stdin=stdin)
    assert (got.stdout, got.stderr, got.returncode) == (expected.stdout, expected.stderr, expected.returncode)


def test_replies_look_as_in_redis_cli(server):
    run(server, stdin=b"SET a 1\nRPUSH l x y z\nHSET h f v\nSADD s m\nZADD z 1.5 m\n")
    for flags in [[], ["--no-raw"], ["-3", "--no-raw"], ["--csv"], ["--json"]]:
        for command in ["GET a", "LRANGE l 0 -1", "HGETALL h", "SMEMBERS s", "ZRANGE z 0 -1 WITHSCORES", "INCR l", "TTL a"]:
            assert_same(server, *flags, *command.split())


def test_mass_insertion_loads_everything(server):
    count = 200_000
    lines = b"".join(b"*3\r\n$3\r\nSET\r\n$10\r\nkey:%06d\r\n$1\r\n1\r\n" % i for i in range(count))
    done = run(server, "--pipe", stdin=lines)
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"errors: 0, replies: {count}".encode() in done.stdout
    assert run(server, "DBSIZE").stdout == b"%d\n" % count


def test_keys_are_listed_and_reported(server):
    run(server, stdin=b"SET a 1\nRPUSH l x y z\nHSET h f v\n")
    assert sorted(run(server, "--scan").stdout.split()) == [b"a", b"h", b"l"]
    report = run(server, "--bigkeys")
    assert report.returncode == 0
    assert b"Biggest   list found '\"l\"' has 3 items" in report.stdout


def test_the_table_of_commands_is_the_servers(server):
    table = run(server, "--docs-table")
    assert table.returncode == 0
    assert b"\nAPPEND\tstring\t" in table.stdout
