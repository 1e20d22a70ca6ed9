"""What onrush-benchmark offers as load, and what it counts: warm-up, open loop, broken connections, keys, values, mixes."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
import zlib

import pytest
from conftest import Server
from test_benchmark_tool import TOOL, call


def measured(server, tmp_path, *args, **options):
    """The median of the only cell, and what was said on standard error."""
    at = tmp_path / "out.json"
    done = call(TOOL, server, "-q", "--json", str(at), *args, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(at.read_text())["cells"][0]["median"], done.stderr


def calls_of(server, command):
    line = next(line for line in server.cli("INFO", "commandstats").splitlines() if line.startswith(f"cmdstat_{command}:"))
    return int(line.split("calls=")[1].split(",")[0])


def number(server, key):
    return int(server.cli("GET", key).strip() or 0)


class Fake:
    """A server that answers each line of RESP commands by what `answer(connection, command)` gives; None closes."""

    def __init__(self, answer):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.answer = answer
        self.lock = threading.Lock()
        self.connections = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            number, self.connections = self.connections, self.connections + 1
            threading.Thread(target=self.serve, args=(number, conn), daemon=True).start()

    def serve(self, number, conn):
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with conn, conn.makefile("rb") as lines:
            try:
                while head := lines.readline():
                    command = [lines.read(int(lines.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]
                    reply = self.answer(number, command)
                    if reply is None:
                        return
                    conn.sendall(reply)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def test_a_warm_up_neither_counts_commands_nor_cpu(server, tmp_path):
    result, _ = measured(server, tmp_path, "--warmup", "700ms", "-n", "500", "-c", "5", "incr", "counter")
    assert result["replies"] == 500
    assert int(server.cli("GET", "counter")) > 1_000
    # 0.7 s of load on a core would be 1,400 us for each of 500 commands.
    assert result["server_us_per_command"] < 400 and result["client_us_per_command"] < 400


def test_an_open_loop_sleeps_between_commands(server, tmp_path):
    for arrivals in ("even", "poisson"):
        result, _ = measured(
            server, tmp_path, "--rate", "1000", "--arrivals", arrivals, "--duration", "2s", "-c", "4", "-t", "get"
        )
        assert 1_800 < result["replies"] < 2_200
        assert result["client_busy"] < 0.5


def test_a_stalled_server_shows_in_the_percentiles_of_an_open_loop(tmp_path):
    server = Server(tmp_path)
    try:
        at = tmp_path / "out.json"
        command = [TOOL, "-p", str(server.port), "-q", "--rate", "1000", "--duration", "4s", "-c", "4", "--json", str(at)]
        tool = subprocess.Popen([*command, "incr", "counter"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 20
        while number(server, "counter") < 500:
            assert time.monotonic() < deadline
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        server.process.send_signal(signal.SIGCONT)
        _, errors = tool.communicate(timeout=30)
        assert tool.returncode == 0, errors
        result = json.loads(at.read_text())["cells"][0]["median"]
        # A second of 4 saw no reply: those due in it waited up to a second, and none was left out.
        assert 3_900 <= result["replies"] <= 4_000
        assert result["latency_ms"]["p99"] > 800 and result["latency_ms"]["max"] > 950
        assert result["latency_ms"]["p50"] < 200
        pieces = result["series"]
        assert sum(piece["seconds"] for piece in pieces if piece["replies"] == 0) > 0.6
        assert max(piece["max_ms"] for piece in pieces) > 950
    finally:
        server.process.kill()
        server.process.wait()


def test_commands_that_could_not_be_sent_by_the_end_are_told(tmp_path):
    # Answers nothing after the first commands, until the run is long over: what waits then is answered.
    over = threading.Event()
    value = b"$%d\r\n%s\r\n" % (20_000, b"v" * 20_000)
    with Fake(lambda _, command: value if command[0].upper() == b"ECHO" and over.wait(3) is not None else b"-ERR no\r\n") as fake:
        at = tmp_path / "out.json"
        command = [TOOL, "-p", str(fake.port), "-q", "--rate", "5000", "--duration", "1s", "-c", "1", "-d", "100000", "--json", str(at)]
        tool = subprocess.Popen([*command, "echo", "__data__"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        threading.Timer(2, over.set).start()
        _, errors = tool.communicate(timeout=60)
    assert tool.returncode == 0, errors
    result = json.loads(at.read_text())["cells"][0]["median"]
    assert result["unsent"] > 0 and 4_900 < result["unsent"] + result["replies"] <= 5_001
    assert "could not be sent" in errors


def test_the_cpu_of_a_process_that_does_not_listen_is_not_believed(server, tmp_path):
    info = b"process_id:%d\r\n" % server.process.pid
    replies = {b"INFO": b"$%d\r\n%s\r\n" % (len(info), info), b"CONFIG": b"*2\r\n$4\r\nsave\r\n$0\r\n\r\n", b"PING": b"+PONG\r\n"}
    with Fake(lambda _, command: replies[command[0].upper()]) as fake:
        result, _ = measured(fake, tmp_path, "-n", "100", "-c", "2", "ping")
    assert result["replies"] == 100 and result["server_us_per_command"] is None
    result, _ = measured(server, tmp_path, "-n", "100", "-c", "2", "ping")
    assert result["server_us_per_command"] > 0


def test_a_connection_that_is_being_made_holds_up_no_other(tmp_path):
    held, during, served = threading.Event(), [], threading.Event()
    end = threading.Event()

    def answer(number, command):
        name = command[0].upper()
        if name == b"AUTH" and served.is_set() and not held.is_set():
            # The first connection that is made during the load: it is let in only after the others have gone on without it.
            held.set()
            end.wait(10)
            return b"+OK\r\n"
        if name == b"PING":
            served.set()
            if held.is_set() and not end.is_set():
                during.append(number)
                if len(during) > 20:
                    end.set()
            return b"+PONG\r\n"
        return b"+OK\r\n" if name == b"AUTH" else b"-ERR unknown\r\n"

    with Fake(answer) as fake:
        started = time.monotonic()
        result, _ = measured(fake, tmp_path, "-a", "secret", "-k", "0", "-c", "2", "-n", "200", "ping")
        assert time.monotonic() - started < 9
    assert result["replies"] == 200 and len(during) > 20


@pytest.mark.parametrize("load", [("-P", "3"), ("--window", "3"), ("--rate", "3000")])
def test_a_broken_connection_is_made_again_and_counted(tmp_path, load):
    count = {}

    def answer(number, command):
        if command[0].upper() != b"PING":
            return b"-ERR unknown\r\n"
        count[number] = count.get(number, 0) + 1
        return None if count[number] > 40 else b"+PONG\r\n"

    with Fake(answer) as fake:
        result, errors = measured(fake, tmp_path, *load, "--reconnect", "5s", "-c", "3", "-n", "1000", "ping")
        assert result["replies"] + result["lost_replies"] == 1000
        assert result["broken_connections"] >= 15 and result["lost_replies"] >= result["broken_connections"]
        assert f"{result['broken_connections']} connections broke" in errors
        count.clear()
        ended = call(TOOL, fake, "-q", *load, "-c", "3", "-n", "1000", "ping")
        assert ended.returncode == 1 and ("closed the connection" in ended.stderr or "reset" in ended.stderr or "Broken pipe" in ended.stderr)


def test_a_server_that_stays_away_ends_the_run_with_the_cause(tmp_path):
    server = Server(tmp_path)
    command = [TOOL, "-p", str(server.port), "-q", "--reconnect", "300ms", "-c", "2", "--duration", "60s", "incr", "n"]
    tool = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 20
        while number(server, "n") < 10:
            assert time.monotonic() < deadline
    finally:
        server.process.kill()
        server.process.wait()
    _, errors = tool.communicate(timeout=20)
    assert tool.returncode == 1 and f"no connection to 127.0.0.1:{server.port} for" in errors and "refused" in errors


def test_values_do_not_compress_on_request(server, tmp_path):
    measured(server, tmp_path, "-n", "10", "-c", "1", "-t", "set", "-d", "10000")
    assert len(zlib.compress(value(server))) < 100
    measured(server, tmp_path, "-n", "10", "-c", "1", "-t", "set", "-d", "10000", "--random-data")
    assert len(zlib.compress(value(server))) > 9_900


def value(server):
    return server.talk(b"GET key:__rand_int__\r\n", 10_000 + 10)[8:-2]


def test_keys_lengths_and_times_to_live_are_as_asked_for(server, tmp_path):
    measured(
        server, tmp_path, "-n", "300", "-c", "7", "-t", "set", "-r", "300", "--key-pattern", "sequential", "--data-range",
        "10-40", "--ttl", "100s-200s",
    )
    assert server.cli("DBSIZE").strip() == "300"
    lengths = [int(server.cli("STRLEN", f"key:{number:012}")) for number in range(0, 300, 10)]
    assert all(10 <= length <= 40 for length in lengths) and len(set(lengths)) > 5
    ttls = [int(server.cli("TTL", f"key:{number:012}")) for number in range(0, 300, 10)]
    assert all(90 <= ttl <= 200 for ttl in ttls) and len(set(ttls)) > 5
    server.cli("FLUSHALL")
    # The first key of a Zipf distribution takes a large part.
    measured(server, tmp_path, "-n", "5000", "-P", "50", "-t", "incr", "-r", "1000", "--key-pattern", "zipf:1")
    assert int(server.cli("GET", "counter:000000000000")) > 400
    server.cli("FLUSHALL")
    measured(server, tmp_path, "-n", "5000", "-P", "50", "-t", "incr", "-r", "1000", "--key-pattern", "gaussian:500:10")
    assert int(server.cli("DBSIZE")) < 120


def test_a_mix_sends_its_commands_by_weight_and_measures_each(server, tmp_path):
    server.cli("CONFIG", "RESETSTAT")
    result, _ = measured(server, tmp_path, "--mix", "set=1,get=3", "-n", "8000", "-P", "10", "-r", "1000")
    sets, gets = calls_of(server, "set"), calls_of(server, "get")
    assert sets + gets == 8_000 and 1_800 < sets < 2_200
    assert (result["kinds"]["SET"]["replies"], result["kinds"]["GET"]["replies"]) == (sets, gets)
    whole = call(TOOL, server, "--mix", "set=1,get=3", "-n", "100").stdout
    assert "====== MIX set=1,get=3 ======" in whole and " GET (" in whole


def test_what_names_nothing_or_means_nothing_is_refused(server):
    for args, text in (
        (("-t", "set,nosuch"), 'there is no test "nosuch"; the tests are get, hset'),
        (("--mix", "nosuch=1"), 'there is no test "nosuch"'),
        (("--sweep", "depth=1,2", "--window", "5"), "--window exclude each other"),
        (("--sweep", "depth=1,2", "--rate", "5"), "--rate exclude each other"),
        (("--sweep", "nosuch=1"), "nosuch is none of depth, window, clients, size, rtt, rate"),
    ):
        done = call(TOOL, server, "-n", "10", *args)
        assert done.returncode == 1 and text in done.stderr and done.stdout == ""


def test_a_sweep_over_rates_offers_each(server, tmp_path):
    at = tmp_path / "out.json"
    args = ("--sweep", "rate=500,2000", "--duration", "1s", "-t", "get", "--json", str(at), "--latency-plot", str(tmp_path / "l.svg"))
    done = call(TOOL, server, *args)
    assert done.returncode == 0, done.stderr
    rates = [cell["median"]["rps"] for cell in json.loads(at.read_text())["cells"]]
    assert 450 < rates[0] < 550 and 1_800 < rates[1] < 2_200
    svg = (tmp_path / "l.svg").read_text()
    assert all(f"GET {name}" in svg for name in ("p50", "p99", "p99.9"))


def test_completions_and_the_man_page_come_from_the_same_definition(tmp_path):
    for shell in ("bash", "zsh", "fish"):
        text = subprocess.run([TOOL, "--completions", shell], capture_output=True, text=True, check=True).stdout
        assert "key-pattern" in text and "onrush-benchmark" in text
        if shell == "bash":
            (tmp_path / "completions").write_text(text)
            subprocess.run(["bash", "-n", str(tmp_path / "completions")], check=True)
    page = subprocess.run([TOOL, "--man"], capture_output=True, text=True, check=True).stdout
    assert ".TH onrush-benchmark" in page and "wrk2" in page


def test_the_help_fits_and_says_what_differs():
    text = subprocess.run([TOOL, "--help"], capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "120"}).stdout
    for tool in ("redis-benchmark", "memtier_benchmark", "wrk2"):
        assert f"What differs from {tool}:" in text
