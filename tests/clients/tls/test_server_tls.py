"""TLS of the server with clients in their own languages: the client matrix encrypted, and what they and the log say when
somebody is not let in.
"""

import os
import subprocess
import time
from pathlib import Path

import certificates
import pytest
from conftest import Server
from ports import free_port
from test_matrix import CLIENTS, NEEDS, PLAIN, commands  # noqa: F401

RELEASE = Path(__file__).resolve().parents[3] / "target" / "release"
CLI = os.environ.get("ONRUSH_CLI_BIN", str(RELEASE / "onrush-cli"))
TOOL = os.environ.get("ONRUSH_BENCHMARK_BIN", str(RELEASE / "onrush-benchmark"))
ENCRYPTED = ["redis-py", "ioredis", "redis-rb", "go-redis", "rueidis", "Jedis"]
TOOLS = ["redis-cli", "onrush-cli", "onrush-benchmark"]


class TlsServer(Server):
    """A server with a port for TLS beside its other one."""

    def __init__(self, folder, certificates_in):
        self.tls_port = free_port()
        files = {"cert-file": "server.crt", "key-file": "server.key", "ca-cert-file": "ca.crt"}
        self.extra = ["--tls-port", str(self.tls_port)]
        for name, file in files.items():
            self.extra += [f"--tls-{name}", str(certificates_in / file)]
        super().__init__(folder)


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """A server, its certificates, and those of another authority."""
    folder = tmp_path_factory.mktemp("certificates")
    certificates.make(folder)
    certificates.certify_expired(folder, "expired", "DNS:client")
    certificates.make(folder / "other", "another authority")
    running = TlsServer(tmp_path_factory.mktemp("server"), folder)
    yield running, folder
    running.process.kill()
    running.process.wait()


def run(commands, client, port, ca, own, part="strings"):
    if client in TOOLS:
        name = {"redis-cli": "redis-cli", "onrush-cli": CLI, "onrush-benchmark": TOOL}[client]
        files = ["--tls", "--cacert", ca] if ca else []
        files += ["--cert", f"{own}.crt", "--key", f"{own}.key"] if ca and own else []
        what = ["-q", "-n", "100", "PING"] if client == "onrush-benchmark" else ["PING"]
        return subprocess.run([name, "-p", str(port), *files, *what], capture_output=True, text=True, timeout=60)
    variables = {"TLS_CA": ca} if ca else {}
    variables |= {"TLS_CERT": f"{own}.crt", "TLS_KEY": f"{own}.key"} if ca and own else {}
    command = [*commands(client), str(port), part]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | variables)


@pytest.mark.parametrize("client, part", [(client, part) for client in ENCRYPTED for part in CLIENTS[client][1]])
def test_parts_pass_encrypted(tls, commands, client, part):  # noqa: F811
    server, folder = tls
    if (client, part) == ("ioredis", "auto"):
        pytest.skip("it does not wait for the handshake before it gives up")
    server.talk(b"FLUSHALL\r\n", 5)
    done = run(commands, client, server.tls_port, str(folder / "ca.crt"), str(folder / "client"), part)
    assert done.returncode == 0, done.stderr


# Who is not let in, and the lines of the log of which one says so; none if only the client knows. Some clients keep a
# certificate to themselves whose authority the server does not name.
UNCERTIFIED = "the client showed no certificate, and tls-auth-clients is yes"
REFUSED = {
    "no certificate": ("ca.crt", None, [UNCERTIFIED]),
    "a stranger's certificate": ("ca.crt", "other/client", [UNCERTIFIED, "is of an authority that we do not know"]),
    "an expired certificate": ("ca.crt", "expired", ["the other side's certificate has expired"]),
    "no trust in the server": ("other/ca.crt", "client", []),
    "plain text at the port for TLS": (None, None, ["the client does not speak TLS, and this is the TLS port"]),
    "TLS at the plain port": ("ca.crt", "client", ["it speaks TLS, and this is not the TLS port"]),
}

# Those that show the error which plain text at the port for TLS gets; the others ask for something else first.
SHOWN = ["redis-py", "redis-rb", *TOOLS]


def count(server, lines):
    text = server.log.read_text(errors="replace")
    return sum(text.count(line) for line in lines)


@pytest.mark.parametrize("client", [*ENCRYPTED, *TOOLS])
@pytest.mark.parametrize("case", REFUSED)
def test_who_is_not_let_in_learns_why(tls, commands, client, case):  # noqa: F811
    server, folder = tls
    ca, own, lines = REFUSED[case]
    # The tool opens more connections at once than there are lines in a second.
    told = 0 if client == "onrush-benchmark" else count(server, lines)
    port = server.port if case == "TLS at the plain port" else server.tls_port
    done = run(commands, client, port, ca and str(folder / ca), own and str(folder / own))
    said = done.stdout + done.stderr
    # redis-cli ends with 0 after an error reply.
    assert done.returncode != 0 or "ERR this port speaks TLS only" in said, said
    assert said.strip() and "PONG" not in said
    if case == "plain text at the port for TLS" and client in SHOWN:
        assert "this port speaks TLS only" in said
    # Few lines are told in a second: those of the client before may have been the last ones.
    for _ in range(10):
        deadline = time.monotonic() + 1.1
        while time.monotonic() < deadline:
            if not lines or count(server, lines) > told:
                return
            time.sleep(0.01)
        run(commands, client, port, ca and str(folder / ca), own and str(folder / own))
    pytest.fail(f"no line in the log: {said}")
