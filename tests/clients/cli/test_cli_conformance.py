"""onrush-cli against redis-cli, on the same redis-server: what they print and how they end, byte by byte.

ONRUSH_CLI_BIN names the binary; without it, the release build is taken.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from ports import free_port

CLI = os.environ.get("ONRUSH_CLI_BIN", str(Path(__file__).resolve().parents[3] / "target" / "release" / "onrush-cli"))
ORACLE = shutil.which("redis-cli")
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TERM": "xterm"}

FORMATS = [
    [],
    ["--no-raw"],
    ["--csv"],
    ["--json"],
    ["--json", "-2"],
    ["--quoted-json"],
    ["-3"],
    ["-3", "--no-raw"],
    ["-3", "--csv"],
    ["-d", ", ", "-D", ";"],
]

NESTED = (
    "redis.setresp(3); return {{map={a={map={c={3,4}}}}},{set={x=true}},{double=3.5},false,"
    '{{1,2},{}},{ok="fine"},{err="ERR bad"}}'
)
BYTES = 'return {1,{2,{3,{}}},4,5,6,7,8,9,10,11,false,"a\\n\\1\\127\\255\\\\\\"é"}'

COMMANDS = [
    "PING",
    "ping hello",
    "GET text",
    "GET bytes",
    "GET missing",
    "INCR number",
    "INCR text",
    "INCR",
    "NOSUCHCOMMAND a b",
    "",
    "LRANGE list 0 -1",
    "LRANGE missing 0 -1",
    "HGETALL hash",
    "SMEMBERS one",
    "ZRANGE zset 0 -1 WITHSCORES",
    "ZSCORE zset a",
    "XRANGE stream - +",
    "TTL text",
    "MGET text missing number",
    "CONFIG GET maxmemory*",
    "COMMAND INFO get",
    "COMMAND DOCS get",
    "COMMAND COUNT",
    "MEMORY DOCTOR",
    "LATENCY DOCTOR",
    "CLUSTER INFO",
    "ACL WHOAMI",
    "OBJECT ENCODING list",
    "SELECT 3",
    "SELECT 99",
    "MULTI",
    "EXEC",
    "RESET",
    "QUIT",
    "monitor x",
    "subscribe",
    "GEOPOS geo a",
    ["EVAL", NESTED, "0"],
    ["EVAL", BYTES, "0"],
    *[f"DEBUG PROTOCOL {kind}" for kind in "string integer double null array set map verbatim true false push".split()],
]


class RedisServer:
    def __init__(self, folder, *options):
        self.port = free_port()
        if "--cluster-enabled" in options:
            self.cluster_port = free_port()
            options += ("--cluster-port", str(self.cluster_port))
        self.socket = str(folder / "socket")
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        command += ["--unixsocket", self.socket, "--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0", *options]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while self.run(ORACLE, ["PING"]).stdout != b"PONG\n":
            assert time.monotonic() < deadline and self.process.poll() is None, "redis-server does not start"

    def run(self, binary, args, stdin=b"", timeout=30, **environment):
        command = [binary, "-p", str(self.port), *args]
        return subprocess.run(
            command, input=stdin, capture_output=True, timeout=timeout, env={**ENVIRONMENT, **environment}
        )


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    if not ORACLE or not shutil.which("redis-server"):
        pytest.skip("redis-cli and redis-server are not installed")
    running = RedisServer(tmp_path_factory.mktemp("redis"))
    yield running
    running.process.kill()
    running.process.wait()


def fill(redis):
    commands = [
        "FLUSHALL",
        'SET text "hello world"',
        'SET bytes "a\\x00\\xff\\n\\"q\\\\"',
        "SET number 10",
        "RPUSH list a b c d e f g h i j k",
        "HSET hash f1 v1 f2 v2",
        "SADD one member",
        "ZADD zset 1 a 2.5 b",
        "XADD stream 1-1 f v",
        "GEOADD geo 13.361389 38.115556 a",
    ]
    assert redis.run(ORACLE, [], "\n".join(commands).encode()).returncode == 0


@pytest.fixture(autouse=True)
def data(redis):
    fill(redis)


@pytest.fixture(autouse=True)
def empty_keyspace():
    """Instead of the one for Onrush: the servers here are others."""


def assert_same(redis, args, stdin=b"", ours=lambda text: text, oracle=lambda text: text, stderr=True, **environment):
    expected = redis.run(ORACLE, args, stdin, **environment)
    fill(redis)
    got = redis.run(CLI, args, stdin, **environment)
    assert ours(got.stdout) == oracle(expected.stdout)
    if stderr:
        assert got.stderr == expected.stderr
    assert got.returncode == expected.returncode


@pytest.mark.parametrize("flags", FORMATS, ids=" ".join)
@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_replies_look_the_same(redis, flags, command):
    words = command if isinstance(command, list) else command.split(" ")
    assert_same(redis, [*flags, *words])


@pytest.mark.parametrize(
    "args",
    [
        ["-r", "3", "INCR", "number"],
        ["-r", "3", "-i", "0.01", "-D", ",", "INCR", "number"],
        ["-r", "0", "PING"],
        ["-r", "x", "PING"],
        ["-e", "INCR", "text"],
        ["-e", "-r", "2", "INCR", "text"],
        ["-e", "--json", "INCR", "text"],
        ["-n", "3", "SET", "a", "1"],
        ["-n", "99", "PING"],
        ["-n", "x", "GET", "number"],
        ["--quoted-input", "SET", '"a\\x00b"', "'c d'"],
        ["--quoted-input", "SET", '"a', "b"],
        ["-a", "wrong", "PING"],
        ["-a", "wrong", "--no-auth-warning", "PING"],
        ["--user", "nobody", "--pass", "wrong", "PING"],
        ["-n", "3", "-a", "wrong", "GET", "number"],
        ["-X", "TAG", "SET", "a", "b"],
        ["--foo"],
        ["--rdb"],
        ["-p"],
        ["-c", "-s", "x", "PING"],
        ["-u", "foo", "PING"],
        ["set a b"],
        ["SHUTDOWN", "nonsense"],
    ],
    ids=" ".join,
)
def test_flags_do_the_same(redis, args):
    assert_same(redis, args)


@pytest.mark.parametrize("refused", [["-a", "wrong"], ["-n", "99"]], ids=" ".join)
@pytest.mark.parametrize(
    "mode",
    [["--pipe"], ["--scan"], ["--bigkeys"], ["--stat"], ["--latency"], ["--rdb", "/nonexistent"], ["--eval", "/dev/null"]],
    ids=" ".join,
)
def test_a_refused_login_ends_every_mode(redis, mode, refused):
    assert_same(redis, [*refused, *mode])


def test_standard_input_is_an_argument(redis):
    assert_same(redis, ["-x", "SET", "a"], b"some\nvalue\n")
    assert redis.run(ORACLE, ["--no-raw", "GET", "a"]).stdout == b'"some\\nvalue\\n"\n'
    assert_same(redis, ["-X", "TAG", "SET", "TAG", "1"], b"key")
    assert_same(redis, ["-x", "-X", "T", "SET", "T"], b"key")


def test_the_environment_counts(redis):
    assert_same(redis, ["PING"], REDISCLI_AUTH="secret")
    assert_same(redis, ["-a", "x", "PING"], REDISCLI_AUTH="secret")
    assert_same(redis, ["LRANGE", "list", "0", "1"], FAKETTY="1")


def test_a_url_says_where(redis):
    for url in [f"redis://127.0.0.1:{redis.port}/3", f"redis://joe:pw@127.0.0.1:{redis.port}/3"]:
        assert_same(redis, ["-u", url, "SET", "a", "1"])
    redis.run(CLI, ["-u", f"redis://127.0.0.1:{redis.port}/3", "SET", "a", "1"])
    told = redis.run(CLI, ["-u", f"redis://127.0.0.1:{redis.port}/3?pool_size=7&read_timeout=3s", "GET", "a"])
    assert (told.stdout, told.returncode) == (b"1\n", 0)
    assert told.stderr == b"Ignored options of the URL: pool_size, read_timeout\n"
    assert redis.run(ORACLE, ["-n", "3", "GET", "a"]).stdout == b"1\n"


def test_unix_sockets_are_connected_to(redis):
    assert_same(redis, ["-s", redis.socket, "GET", "text"])


@pytest.mark.parametrize(
    "args",
    [["-p", "1"], ["-s", "/nonexistent/socket"], ["-h", "nosuchhost.invalid", "-p", "6379"], ["-h", "::1", "-p", "1"]],
    ids=" ".join,
)
def test_no_connection_is_told_alike(redis, args):
    assert_same(redis, [*args, "PING"])
    assert_same(redis, args)
    assert_same(redis, [*args, "--pipe"])
    assert_same(redis, [*args, "--scan"])
    assert_same(redis, [*args, "--bigkeys"])


SCRIPTS = {
    "commands": b'SET a 1\n\n  GET a\nset a "\n5 INCR a\n0 GET a\nfoo\nGET a',
    "quotes": b"SET 'a b' \"c\\x00\\n\"\nGET 'a b'\nGET \"a b\"x\n",
    "databases": b"SELECT 3\nSET a 1\nSELECT 0\nGET a\nSELECT 99\n",
    "transaction": b"MULTI\nINCR number\nINCR text\nEXEC\nMULTI\nDISCARD\nMULTI\nfoo\nEXEC\n",
    "quit": b"PING\nquit\nPING\n",
    "exit": b"PING\nEXIT\nPING\n",
    "repeat": b"3 PING\n-1 PING\n99999999999999999999 PING\n2\n",
    "restart": b"restart\n",
    "preferences": b":set hints\n:set nohints\n:foo\n",
    "pushes": b"HELLO 3\nCLIENT TRACKING ON\nGET a\nSET a 1\nGET a\nPING\n",
    "reset": b"HELLO 3\nSELECT 3\nRESET\nHGETALL hash\n",
    "auth": b"AUTH nobody wrong\nAUTH wrong\nPING\n",
    "crlf": b"SET a 1\r\nGET a\r\n",
    "connect": b"connect 127.0.0.1 1\nPING\n",
    "comments": b"# PING\n",
}


@pytest.mark.parametrize("flags", [[], ["--no-raw"], ["--csv"], ["--json"], ["--show-pushes", "yes", "--no-raw"]], ids=str)
@pytest.mark.parametrize("name", SCRIPTS)
def test_commands_from_standard_input(redis, name, flags):
    def without_ids(text):
        return re.sub(rb'(id"?(?: => \(integer\)|[,:])? ?)\d+', rb"\1N", text)

    assert_same(redis, flags, SCRIPTS[name], without_ids, without_ids)


def test_scripts_are_evaluated(redis, tmp_path):
    script = tmp_path / "script.lua"
    script.write_text("return {KEYS[1], ARGV[1], ARGV[2], #KEYS}")
    broken = tmp_path / "broken.lua"
    broken.write_text("return redis.error_reply('BAD thing')")
    for args in [[script, "k", ",", "a", "b"], [script, "k,", "a"], [script], [broken], ["/nonexistent.lua"]]:
        assert_same(redis, ["--no-raw", "--eval", *map(str, args)])
    assert_same(redis, ["-e", "--eval", str(broken)])


@pytest.mark.parametrize("flags", [["--no-raw"], [], ["-3", "--no-raw"], ["--csv"], ["--json"]], ids=str)
@pytest.mark.parametrize("command", ["SUBSCRIBE a b", "PSUBSCRIBE a*", "MONITOR"])
def test_streams_of_replies_look_the_same(redis, flags, command):
    def listen(binary):
        process = subprocess.Popen(
            [binary, "-p", str(redis.port), *flags, *command.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            waiting = b"CLIENT LIST\n"
            mark = b"cmd=" + command.split()[0].lower().encode()
            deadline = time.monotonic() + 10
            while mark not in redis.run(ORACLE, [], waiting).stdout:
                assert time.monotonic() < deadline, "never listened"
            redis.run(ORACLE, ["PUBLISH", "a", "hello world"])
            time.sleep(0.2)
        finally:
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
        lines = [line for line in out.split(b"\n") if b"[0 127" not in line or b'"PUBLISH"' in line]
        return [line.split(b"[0 127")[-1].split(b"]")[-1] for line in lines], err, process.returncode

    expected = listen(ORACLE)
    assert len(expected[0]) > 1
    assert listen(CLI) == expected


@pytest.mark.parametrize(
    "stdin",
    [
        b"",
        b"SET a 1\r\nSET b 2\r\n",
        b"SET a 1\r\nINCR\r\nSET b 2\r\nINCR text\r\n",
        b"SET a 1",
        b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3\r\na\nb\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
        b"LRANGE list 0 -1\r\nHGETALL hash\r\nMULTI\r\nINCR text\r\nEXEC\r\n",
        b"*3\r\n$3\r\nSET\r\n$10\r\nab\r\n",
        b"QUIT\r\n",
    ],
    ids=repr,
)
@pytest.mark.parametrize("flags", [[], ["-3"], ["-n", "3"]], ids=str)
def test_mass_insertion_ends_alike(redis, stdin, flags):
    assert_same(redis, [*flags, "--pipe"], stdin, stderr=False)


def test_mass_insertion_names_the_commands_that_fail(redis):
    done = redis.run(CLI, ["--pipe"], b"PING\r\n" * 16 + b"INCR text\r\nPING\r\nNOSUCH\r\n")
    assert done.stderr.splitlines()[0] == b"command 17: ERR value is not an integer or out of range"
    assert done.stderr.splitlines()[1].startswith(b"command 19: ERR unknown command")
    assert done.returncode == 1


def test_mass_insertion_gives_up_waiting(redis):
    assert_same(redis, ["--pipe", "--pipe-timeout", "1"], b"BLPOP missing 0\r\n", stderr=False)


def test_mass_insertion_of_many_large_replies_does_not_block(redis):
    redis.run(ORACLE, ["-x", "SET", "big"], b"x" * 100_000)
    done = redis.run(CLI, ["--pipe"], b"GET big\r\n" * 5_000, timeout=60)
    assert b"errors: 0, replies: 5000" in done.stdout


def test_records_become_commands(redis):
    rows = b'id,name\n1,bob\n2,"al, ""x"""\n'
    done = redis.run(CLI, ["--pipe", "--from", "csv", "--csv-header", "--template", 'SET user:{id} "<{name}>"'], rows)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"errors: 0, replies: 2" in done.stdout
    assert redis.run(ORACLE, ["MGET", "user:1", "user:2"]).stdout == b'<bob>\n<al, "x">\n'
    lines = b'{"id": 1, "tags": ["a", "b"]}\n\n{"id": 2, "tags": "\\u00e9\\n"}\n'
    done = redis.run(CLI, ["--pipe", "--from", "jsonl", "--template", "SET user:{id} {tags}"], lines)
    assert (done.returncode, done.stderr) == (0, b"")
    assert redis.run(ORACLE, ["--no-raw", "GET", "user:2"]).stdout == b'"\\xc3\\xa9\\n"\n'


def test_a_bad_record_is_named_by_its_line(redis):
    done = redis.run(CLI, ["--pipe", "--from", "jsonl", "--template", "SET {id} 1"], b'{"id": 1}\n{"id":\n')
    assert done.returncode == 1
    assert done.stderr.startswith(b"Standard input, line 2: EOF")
    assert redis.run(ORACLE, ["EXISTS", "1"]).stdout == b"1\n"
    done = redis.run(CLI, ["--pipe", "--from", "csv", "--template", "SET {name} 1"], b"a\n")
    assert (done.returncode, b"'name'" in done.stderr) == (1, True)


def sorted_lines(text):
    return sorted(text.splitlines())


@pytest.mark.parametrize(
    "args",
    [
        ["--scan"],
        ["--scan", "--pattern", "*e*"],
        ["--scan", "--no-raw"],
        ["--scan", "--json"],
        ["--scan", "--quoted-pattern", '"\\x74*"'],
        ["--scan", "-i", "0.001"],
        ["--bigkeys"],
        ["--bigkeys", "--pattern", "l*"],
        ["--memkeys"],
        ["--memkeys-samples", "0"],
        ["--hotkeys"],
    ],
    ids=" ".join,
)
def test_keys_are_reported_alike(redis, args):
    redis.run(ORACLE, ["DEBUG", "POPULATE", "2000"])
    assert_same_report(redis, args)


def assert_same_report(redis, args):
    expected, got = redis.run(ORACLE, args), redis.run(CLI, args)
    assert sorted_lines(got.stdout) == sorted_lines(expected.stdout)
    assert (got.stderr, got.returncode) == (expected.stderr, expected.returncode)


def test_hot_keys_are_found(redis):
    redis.run(ORACLE, ["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"])
    try:
        redis.run(ORACLE, [], b"FLUSHALL\nSET cold 1\nSET hot 1\n" + b"GET hot\n" * 5000)
        assert_same_report(redis, ["--hotkeys"])
    finally:
        redis.run(ORACLE, ["CONFIG", "SET", "maxmemory-policy", "noeviction"])


def test_scan_filters_by_type(redis):
    assert redis.run(CLI, ["--scan", "--type", "list", "--count", "100"]).stdout == b"list\n"


def test_the_data_set_is_copied(redis, tmp_path):
    ours = redis.run(CLI, ["--rdb", str(tmp_path / "ours")])
    theirs = redis.run(ORACLE, ["--rdb", str(tmp_path / "ours")])
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, theirs.stdout, theirs.stderr)
    assert subprocess.run(["redis-check-rdb", str(tmp_path / "ours")], capture_output=True).returncode == 0
    assert redis.run(CLI, ["--rdb", "-"]).stdout.startswith(b"REDIS")
    assert redis.run(CLI, ["--functions-rdb", "-"]).stdout.startswith(b"REDIS")
    assert_same(redis, ["--rdb", "/nonexistent/folder/file"])


def test_latency_prints_one_line_into_a_pipe(redis):
    for flags, pattern in [([], rb"\d+ \d+ [\d.]+ \d+\n"), (["--csv"], rb"\d+,\d+,[\d.]+,\d+\n")]:
        for binary in [ORACLE, CLI]:
            assert re.fullmatch(pattern, redis.run(binary, ["--latency", "-i", "0.1", *flags]).stdout)


def test_a_script_is_debugged_by_a_server_that_can(redis, tmp_path):
    script = tmp_path / "script.lua"
    script.write_text("local n = redis.call('INCR', KEYS[1])\nlocal twice = n * 2\nreturn twice\n")
    command = ["--eval", str(script), "--ldb", "debugged", ",", "argument"]
    done = redis.run(CLI, command, b"next\nprint n\n\nprint 'unclosed\nnext\nprint twice\ncontinue\n")
    assert done.returncode == 0, done.stderr
    for part in [b"<value> 1", b"<value> 2", b"\n2\n"]:
        assert part in done.stdout, done.stdout
    assert b"Invalid argument(s)" in done.stderr
    # It worked on a copy; in place, the write stays, unless the user leaves before.
    assert redis.run(CLI, ["GET", "debugged"]).stdout == b"\n"
    done = redis.run(CLI, ["--eval", str(script), "--ldb-sync-mode", "debugged"], b"continue\n")
    assert done.returncode == 0 and done.stdout.endswith(b"\n2\n"), done.stdout
    assert redis.run(CLI, ["GET", "debugged"]).stdout == b"1\n"
    for leave in [b"quit\n", b""]:
        assert redis.run(CLI, command, leave).returncode == 0
    done = redis.run(CLI, ["--ldb"])
    assert done.returncode == 1 and b"require --eval" in done.stderr


def test_only_addresses_of_the_wanted_version_are_used(redis):
    assert redis.run(CLI, ["-4", "PING"]).stdout == b"PONG\n"
    assert redis.run(CLI, ["-6", "-4", "PING"]).stdout == b"PONG\n"
    done = redis.run(CLI, ["-6", "PING"])
    assert done.returncode == 1 and b"IPv6" in done.stderr


def test_redirects_of_a_cluster_are_followed(tmp_path_factory):
    nodes = [RedisServer(tmp_path_factory.mktemp("node"), "--cluster-enabled", "yes") for _ in range(2)]
    try:
        first, second = nodes
        first.run(ORACLE, ["CLUSTER", "ADDSLOTSRANGE", "0", "8191"])
        second.run(ORACLE, ["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"])
        first.run(ORACLE, ["CLUSTER", "MEET", "127.0.0.1", str(second.port), str(second.cluster_port)])
        deadline = time.monotonic() + 20
        while not all(b"cluster_state:ok" in node.run(ORACLE, ["CLUSTER", "INFO"]).stdout for node in nodes):
            assert time.monotonic() < deadline, "the cluster does not form"
            time.sleep(0.1)
        script = b"SET a 1\nGET a\nSET b 2\nGET b\nMGET a b\n"
        for flags in [["-c"], ["-c", "--no-raw"], [], ["-c", "-e"]]:
            expected, got = (first.run(binary, flags, script) for binary in [ORACLE, CLI])
            assert (got.stdout, got.stderr, got.returncode) == (expected.stdout, expected.stderr, expected.returncode)
            expected, got = (first.run(binary, [*flags, "GET", "a"]) for binary in [ORACLE, CLI])
            assert (got.stdout, got.stderr, got.returncode) == (expected.stdout, expected.stderr, expected.returncode)
        told = first.run(CLI, ["-c", "--verbose", "GET", "a"])
        assert told.stdout == b"1\n"
        parts = [rf"Connected to 127\.0\.0\.1:{node.port} in [\d.]+ ms\.\n.*" for node in nodes]
        redirect = rf"Redirected to slot \[15495\] located at 127\.0\.0\.1:{second.port}\.\n"
        assert re.fullmatch(f"{parts[0]}{redirect}{parts[1]}GET took [\\d.]+ ms\\.\n", told.stderr.decode(), re.DOTALL)
    finally:
        for node in nodes:
            node.process.kill()
            node.process.wait()


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory):
    if not shutil.which("openssl") or b"--tls" not in subprocess.run([ORACLE, "--help"], capture_output=True).stdout:
        pytest.skip("openssl, or redis-server with TLS, is not installed")
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    command += ["-keyout", str(folder / "key"), "-out", str(folder / "cert")]
    subprocess.run(command, check=True, capture_output=True)
    tls_port = free_port()
    options = ["--tls-port", str(tls_port), "--tls-cert-file", str(folder / "cert"), "--tls-key-file", str(folder / "key")]
    options += ["--tls-ca-cert-file", str(folder / "cert"), "--tls-auth-clients", "optional"]
    running = RedisServer(folder, *options)
    running.tls_port, running.folder = tls_port, folder
    yield running
    running.process.kill()
    running.process.wait()


def test_connections_are_encrypted_when_asked(encrypted):
    def run(*args, stdin=b""):
        return subprocess.run([CLI, "-p", str(encrypted.tls_port), *args], input=stdin, capture_output=True, timeout=30)

    trust = ["--cacert", str(encrypted.folder / "cert")]
    if b"without TLS" in run("--tls", "PING").stderr:
        pytest.skip("onrush-cli was built without TLS")
    for flags in [["--tls", "--insecure"], ["--tls", *trust], ["-u", f"rediss://127.0.0.1:{encrypted.tls_port}#insecure"]]:
        done = run(*flags, "PING")
        assert (done.stdout, done.stderr, done.returncode) == (b"PONG\n", b"", 0)
    assert run("--tls", *trust, stdin=b"SET a 1\nINCR a\n").stdout == b"OK\n2\n"
    assert run("--tls", *trust, "-x", "SET", "a", stdin=b"x" * 1_000_000).stdout == b"OK\n"
    assert run("--tls", *trust, "GET", "a").stdout == b"x" * 1_000_000 + b"\n"
    assert run("--tls", *trust, "--scan").stdout == b"a\n"
    done = run("--tls", *trust, "--pipe", stdin=b"GET a\r\n" * 50 + b"PING\r\n" * 200_000)
    assert b"errors: 0, replies: 200050" in done.stdout
    refused = run("--tls", "PING")
    assert refused.returncode == 1 and b"Could not connect to Redis" in refused.stderr and b"certificate" in refused.stderr
