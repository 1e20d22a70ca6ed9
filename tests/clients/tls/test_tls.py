"""onrush-cli and onrush-benchmark over TLS, beside redis-cli and redis-benchmark, on a redis-server and on Onrush, which
ask for certificates.
"""

import contextlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import certificates
import pytest
from ports import free_port

RELEASE = Path(__file__).resolve().parents[3] / "target" / "release"
CLI = os.environ.get("ONRUSH_CLI_BIN", str(RELEASE / "onrush-cli"))
TOOL = os.environ.get("ONRUSH_BENCHMARK_BIN", str(RELEASE / "onrush-benchmark"))
SERVER = os.environ.get("ONRUSH_SERVER_BIN", str(RELEASE / "onrush-server"))


@pytest.fixture(scope="module", params=["redis", "onrush"])
def tls(tmp_path_factory, request):
    """A folder of certificates, and the port of a server that uses them."""
    folder = tmp_path_factory.mktemp("tls")
    certificates.make(folder)
    port = free_port()
    options = ["--port", "0", "--tls-port", str(port), "--save", "", "--dir", str(folder)]
    files = ["--tls-cert-file", "server.crt", "--tls-key-file", "server.key", "--tls-ca-cert-file", "ca.crt"]
    binary = "redis-server" if request.param == "redis" else SERVER
    process = subprocess.Popen([binary, *options, *files], cwd=folder, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.01)
    yield folder, port
    process.kill()
    process.wait()


def call(tls, tool, *args, trust=("--cacert", "ca.crt"), own=("--cert", "client.crt", "--key", "client.key"), **options):
    folder, port = tls
    command = [tool, "-h", "localhost", "-p", str(port), "--tls", *trust, *own, *args]
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=60, **options)


def test_commands_are_answered_as_redis_cli_shows_them(tls):
    for args in (["SET", "k", "v" * 100_000], ["GET", "k"], ["LPUSH", "l", "1", "2"], ["LRANGE", "l", "0", "-1"]):
        ours, theirs = (call(tls, tool, *args) for tool in (CLI, "redis-cli"))
        if args[0] != "LPUSH":
            assert ours.stdout == theirs.stdout
        assert (ours.returncode, ours.stderr) == (0, b"")


@pytest.mark.parametrize("trust", [["--insecure"], ["--cacertdir", "authorities"], ["--cacert", "ca.crt", "--sni", "localhost"]])
def test_ways_to_trust(tls, trust):
    folder, _ = tls
    (folder / "authorities").mkdir(exist_ok=True)
    shutil.copy(folder / "ca.crt", folder / "authorities")
    (folder / "authorities" / "README").write_text("no certificate\n")
    assert call(tls, CLI, "PING", trust=trust).stdout == b"PONG\n"
    assert call(tls, TOOL, "-q", "-n", "100", "PING", trust=trust).returncode == 0


@pytest.mark.parametrize(
    "trust, own, text",
    [
        ([], ["--cert", "client.crt", "--key", "client.key"], b"UnknownIssuer"),
        (["--cacert", "none.crt"], [], b"none.crt: No such file"),
        (["--cacert", "ca.crt"], ["--cert", "client.crt"], b"--cert and --key belong together"),
        (["--cacert", "client.key"], [], b"TLS"),
        (["--cacert", "ca.crt"], [], b""),
    ],
)
def test_what_is_wrong_is_said(tls, trust, own, text):
    for done in (call(tls, CLI, "PING", trust=trust, own=own), call(tls, TOOL, "-q", "PING", trust=trust, own=own)):
        assert done.returncode == 1
        assert text in done.stderr
        assert b"PONG" not in done.stdout


def test_ciphers_are_chosen_by_name(tls):
    for flag, names in [
        ("--tls-ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256:TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        ("--tls-ciphersuites", "TLS_AES_128_GCM_SHA256"),
    ]:
        assert call(tls, CLI, flag, names, "PING").stdout == b"PONG\n"
    done = call(tls, CLI, "--tls-ciphers", "HIGH:!aNULL", "PING")
    assert done.returncode == 1 and b"no cipher suite 'HIGH'" in done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of certificates."""
    folder = tmp_path_factory.mktemp("ciphers")
    certificates.make(folder)
    return folder


def agreed(folder, tool, *args, suites=None, version=None):
    """What a client and a server that knows these suites agree on at the first connection, and the client's end."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.maximum_version = version or ssl.TLSVersion.TLSv1_3
    if suites:
        context.set_ciphers(suites)
    seen = []

    def answer(conn):
        with contextlib.suppress(OSError), context.wrap_socket(conn, server_side=True) as stream:
            seen.append(stream.cipher()[:2])
            while asked := stream.recv(65536):
                stream.sendall((b"+PONG" if asked.upper().endswith(b"PING\r\n") else b"-ERR unknown") + b"\r\n")

    def serve():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        command = [tool, "-h", "localhost", "-p", str(listener.getsockname()[1]), "--tls", "--cacert", "ca.crt", *args]
        done = subprocess.run([*command, "PING"], cwd=folder, capture_output=True, timeout=60)
        listener.shutdown(socket.SHUT_RDWR)
    return set(seen), done


@pytest.mark.parametrize("tool, args", [(CLI, []), (TOOL, ["-q", "-n", "20", "-c", "3"])], ids=["cli", "benchmark"])
def test_only_the_ciphers_named_are_agreed_on(folder, tool, args):
    old = ssl.TLSVersion.TLSv1_2
    for name in ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]:
        seen, done = agreed(folder, tool, *args, "--tls-ciphersuites", name)
        assert (seen, done.returncode) == ({(name, "TLSv1.3")}, 0), done.stderr
    for name in ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"]:
        seen, done = agreed(folder, tool, *args, "--tls-ciphers", name, version=old)
        assert (seen, done.returncode) == ({(name, "TLSv1.2")}, 0), done.stderr
    # A server without any of those named is refused; without names, it is not.
    server = {"suites": "ECDHE-ECDSA-AES256-GCM-SHA384", "version": old}
    seen, done = agreed(folder, tool, *args, "--tls-ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256", **server)
    assert seen == set() and done.returncode == 1 and b"PONG" not in done.stdout
    assert done.stderr.startswith(b"Could not connect to Redis at localhost:"), done.stderr
    seen, done = agreed(folder, tool, *args, **server)
    assert (seen, done.returncode) == ({("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2")}, 0), done.stderr


def test_a_server_without_tls_is_told_apart(tls):
    with socket.create_server(("127.0.0.1", 0)) as plain:
        folder, _ = tls
        process = subprocess.Popen(
            [CLI, "-p", str(plain.getsockname()[1]), "--tls", "--insecure", "PING"], cwd=folder, stderr=subprocess.PIPE
        )
        conn, _ = plain.accept()
        conn.sendall(b"-ERR no TLS here\r\n")
        conn.close()
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 1 and errors


def test_handshakes_are_no_load(tls):
    folder, _ = tls
    done = call(tls, TOOL, "-q", "-c", "50", "-n", "50", "--json", "handshakes.json", "PING")
    assert done.returncode == 0, done.stderr
    # Shaking hands takes the client most of a millisecond; a command, with its part of starting the load, much less, though
    # others have the machine, too.
    figures = json.loads((folder / "handshakes.json").read_text())["cells"][0]["median"]
    assert figures["client_us_per_command"] < 400


def test_connections_are_made_again_encrypted(tls):
    folder, _ = tls
    done = call(tls, TOOL, "-q", "-k", "0", "-c", "3", "-n", "100", "--json", "again.json", "PING")
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "again.json").read_text())["cells"][0]["median"]["replies"] == 100


# Commands of 7 MB: more than fits on the way.
MASS = 60_000


def test_mass_insertion(tls):
    commands = b"".join(b"SET key:%d %s\r\n" % (n, b"v" * 100) for n in range(MASS))
    done = call(tls, CLI, "--pipe", input=commands)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, b"errors: 0, replies: %d" % MASS)
    assert int(call(tls, CLI, "DBSIZE").stdout) >= MASS
    scanned = call(tls, CLI, "--scan", "--pattern", "key:199*")
    assert len(scanned.stdout.splitlines()) == len([n for n in range(MASS) if str(n).startswith("199")])


@pytest.mark.parametrize("args", [["-P", "100"], ["-c", "5", "--threads", "2"], ["-k", "0", "-c", "2", "-n", "200"], ["-d", "100000", "-P", "8", "-n", "500"]])
def test_load(tls, args):
    done = call(tls, TOOL, "-q", "-n", "5000", "-t", "set,get", *args)
    lines = [line for line in done.stdout.decode().replace("\r", "\n").splitlines() if "requests per second" in line]
    assert (done.returncode, len(lines)) == (0, 2), done.stderr


def test_load_through_a_url_and_a_delaying_proxy(tls):
    folder, port = tls
    url = f"rediss://localhost:{port}/3#insecure"
    own = ["--cert", "client.crt", "--key", "client.key"]
    command = [TOOL, "-u", url, *own, "--rtt", "5ms", "-q", "-n", "100", "-c", "10", "SET", "url", "x"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert call(tls, CLI, "-n", "3", "GET", "url").stdout == b"x\n"
