"""onrush-cli against Onrush: the same commands, modes and reports as against redis-server, as far as Onrush has them."""

import os
import re
import socket
import subprocess
import threading
import time
import tty

import pytest

from test_cli_conformance import CLI, ORACLE


def run(server, *args, binary=CLI, stdin=b""):
    command = [binary, "-p", str(server.port), *args]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60)


def wait_for(is_so):
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


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


def test_input_that_cannot_be_read_is_not_the_servers_error(server, tmp_path):
    command = [CLI, "-p", str(server.port), "--pipe"]
    # A terminal whose other side is closed gives its bytes, then an error.
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    os.write(ours, b"SET a 1\r\nINCR a\r\nNOSUCH\r\n")
    done = subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.close(theirs)
    wait_for(lambda: run(server, "GET", "a").stdout == b"2\n")
    os.close(ours)
    _, errors = done.communicate(timeout=60)
    told = b"Error reading standard input: Input/output error. Commands sent before it: 3, failed: 1.\n"
    assert done.returncode == 1 and errors.endswith(told), errors
    folder = os.open(tmp_path, os.O_RDONLY)
    done = subprocess.run(command, stdin=folder, capture_output=True, timeout=60)
    os.close(folder)
    told = b"Error reading standard input: Is a directory. Commands sent before it: 0, failed: 0.\n"
    assert (done.returncode, done.stderr) == (1, told)


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


def test_verbose_tells_of_connection_login_and_time(server):
    done = run(server, "--verbose", "-n", "3", "-r", "2", "PING")
    assert done.stdout == b"PONG\nPONG\n"
    place = rf"127\.0\.0\.1:{server.port}"
    told = rf"Connected to {place} in [\d.]+ ms\.\nDatabase 3, RESP2\.\n(PING took [\d.]+ ms\.\n){{2}}"
    assert re.fullmatch(told, done.stderr.decode())


def test_a_password_from_a_pipe_is_not_trimmed(server):
    run(server, "CONFIG", "SET", "requirepass", " a b ")
    try:
        assert run(server, "--askpass", "PING", stdin=b" a b \n").stdout == b"PONG\n"
        assert b"AUTH failed" in run(server, "--askpass", "PING", stdin=b"a b\n").stderr
    finally:
        run(server, "-a", " a b ", "CONFIG", "SET", "requirepass", "")


def test_the_sizes_of_keys_are_told(server):
    run(server, stdin=b"SET small 1\nRPUSH list x y z\nHSET h f v\nSETRANGE big 100000 x\nXADD s * a b\n")
    report = run(server, "--keystats", "--top", "2")
    assert (report.returncode, report.stderr) == (0, b"")
    text = report.stdout.decode()
    top = text.split("--- Top size keys ---\n")[1].split("\n\n")[0].splitlines()
    assert len(top) == 2 and top[0].split()[2:] == ["string", '"big"']
    assert 'list       "list" has 3 items' in text
    table = {line.split()[0]: line.split() for line in text.split("Key type")[1].splitlines()[1:] if line}
    assert [table[kind][1] for kind in ("string", "list", "hash", "stream", "all")] == ["2", "1", "1", "1", "5"]
    assert "5 of 5 keys were scanned" in text
    assert b"--top wants a number" in run(server, "--keystats", "--top", "0").stderr
    from_there = run(server, "--keystats-samples", "0", "--cursor", "0").stdout
    assert b"5 of 5 keys were scanned" in from_there


def test_completions_and_the_man_page_know_the_flags():
    for args in (["--completions", "bash"], ["--completions", "zsh"], ["--completions", "fish"], ["--man"]):
        done = subprocess.run([CLI, *args], capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"keystats" in done.stdout and b"latency" in done.stdout
    script = subprocess.run([CLI, "--completions", "bash"], capture_output=True).stdout
    assert subprocess.run(["bash", "-n"], input=script).returncode == 0


def test_bytes_that_are_no_utf8_go_through(server):
    assert run(server, stdin=b"SET a \xff\xfe\nGET a\n").stdout == b"OK\n\xff\xfe\n"
    assert run(server, "-x", "SET", b"k\xff", stdin=b"\xfe").stdout == b"OK\n"
    assert run(server, "GET", b"k\xff").stdout == b"\xfe\n"
    assert run(server, "--no-raw", "GET", b"k\xff").stdout == b'"\\xfe"\n'


def test_a_server_without_a_debugger_says_so(server, tmp_path):
    script = tmp_path / "script.lua"
    script.write_text("return 1")
    done = run(server, "--eval", str(script), "--ldb")
    assert done.returncode == 1 and b"no debugger of scripts" in done.stderr


@pytest.fixture
def breaking():
    """The port of a server that ends in the middle of the data set."""

    def serve():
        conn, _ = listener.accept()
        with conn, conn.makefile("rb") as lines:
            for line in lines:
                if b"SYNC" in line.upper():
                    conn.sendall(b"$1000\r\nREDIS0011")
                    return
                if b"REPLCONF" in line.upper():
                    conn.sendall(b"+OK\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(20)


def test_a_dump_that_breaks_leaves_the_one_before(breaking, tmp_path):
    dump = tmp_path / "dump.rdb"
    dump.write_bytes(b"the one before")
    done = subprocess.run([CLI, "-p", str(breaking), "--rdb", str(dump)], capture_output=True, timeout=60)
    assert done.returncode == 1 and b"closed the connection" in done.stderr, done.stderr
    assert dump.read_bytes() == b"the one before"
    assert list(tmp_path.iterdir()) == [dump]


def test_a_dump_that_breaks_leaves_nothing_new(breaking, tmp_path):
    done = subprocess.run([CLI, "-p", str(breaking), "--rdb", str(tmp_path / "new.rdb")], capture_output=True, timeout=60)
    assert done.returncode == 1 and list(tmp_path.iterdir()) == []


def test_a_dump_goes_to_a_file_a_device_or_a_fifo(server, tmp_path):
    dump, fifo = tmp_path / "dump.rdb", tmp_path / "fifo"
    dump.write_bytes(b"longer than the data set" * 1000)
    os.mkfifo(fifo)
    reader = subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE)
    for place in (dump, fifo, "/dev/null"):
        assert run(server, "--rdb", str(place)).returncode == 0
    read, _ = reader.communicate(timeout=20)
    assert read.startswith(b"REDIS") and dump.read_bytes().startswith(b"REDIS")
    assert len(dump.read_bytes()) < 1000 and sorted(tmp_path.iterdir()) == [dump, fifo]


def test_a_number_beyond_all_repeats_for_long_and_is_no_port(server):
    command = [CLI, "-p", str(server.port), "-r", "99999999999999999999", "INCR", "n"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: int(run(server, "GET", "n").stdout.strip() or 0) >= 100)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    refused = subprocess.run([CLI, "-p", "99999999999999999999", "PING"], capture_output=True, timeout=20)
    assert (refused.returncode, refused.stderr) == (1, b"Invalid server port.\n")
    done = run(server, "-n", "99999999999999999999", "PING")
    assert b"SELECT 9223372036854775807 failed" in done.stderr
    refused = run(server, "--cluster", "set-timeout", "127.0.0.1:1", "99999999999999999999")
    assert refused.returncode == 1 and b"at most 2147483647 milliseconds" in refused.stderr + refused.stdout


def test_no_refusal_of_a_url_shows_its_password():
    for url in ["redis-sentinel://bob:secret@h:1/mymaster", "redis-cluster://:secret@h:1", "nosuch://bob:secret@h"]:
        done = subprocess.run([CLI, "-u", url, "PING"], capture_output=True, timeout=20)
        assert done.returncode == 1 and url.split(":")[0].encode() in done.stderr and b"secret" not in done.stderr
