"""Encrypted commands and new connections: the same suite, version and certificate for both servers, no resumption."""

import os
import shutil
import subprocess
import tempfile

from . import load
from .cases import KEYS, Pipelined, last_row
from .servers import CLIENT_CORE, free_port

SUITE = "TLS_AES_128_GCM_SHA256"
KINDS = {"ECDSA": ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"], "RSA": ["rsa:2048"]}


class Certificates:
    """A folder with an authority and a certificate of each kind by it, gone behind the `with` block."""

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="onrush-bench-")
        for name, key in {"ca": KINDS["ECDSA"], **KINDS}.items():
            issuer = [] if name == "ca" else ["-CA", "ca.crt", "-CAkey", "ca.key"]
            names = ["-keyout", f"{name}.key", "-out", f"{name}.crt", "-subj", f"/CN={name}", "-days", "2"]
            command = ["openssl", "req", "-x509", "-nodes", "-newkey", *key, *names, *issuer]
            subprocess.run(command, cwd=self.dir, check=True, capture_output=True)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)

    def arguments(self, kind, port):
        """A server's options; clients show no certificate."""
        path = os.path.join(self.dir, kind)
        files = ["--tls-cert-file", path + ".crt", "--tls-key-file", path + ".key", "--tls-auth-clients", "no"]
        files += ["--tls-ca-cert-file", os.path.join(self.dir, "ca.crt")]
        same = ["--tls-protocols", "TLSv1.3", "--tls-ciphersuites", SUITE, "--tls-session-caching", "no"]
        return ["--tls-port", str(port), *files, *same]


class TlsPipelined(Pipelined):
    """Commands over connections that stay."""

    key = "ECDSA"

    def benchmark_args(self, port, requests):
        encrypted = ["--tls", "--insecure", "--tls-ciphersuites", SUITE]
        return [*super().benchmark_args(port, requests), *encrypted]


class TlsConnections:
    """New connections with one PING each, 20 at a time."""

    unit = "µs CPU per connection"
    better = "lower"
    turns_per_round = 2

    def __init__(self, key, limit):
        self.name, self.key, self.limit, self.goal = f"TLS connection, {key}", key, limit, None

    def run(self, server, scale):
        count = max(int(5_000 * scale), 500)
        command = ["taskset", "-c", str(CLIENT_CORE), "redis-benchmark", "-h", "127.0.0.1", "-p", str(server.port)]
        command += ["--tls", "--insecure", "--tls-ciphersuites", SUITE, "-k", "0", "-c", "20", "-n", str(count)]
        command += ["--csv", "-t", "ping_mbulk"]
        before = server.cpu_ns()
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        cpu_ns = server.cpu_ns() - before
        row = last_row(output)
        return {
            "value": cpu_ns / count / 1000,
            "commands_per_s": float(row["rps"]),
            "p99_ms": float(row["p99_latency_ms"]),
            "connections": count,
            "command": " ".join(command).replace(str(server.port), "PORT"),
        }


def tls_cases():
    """At P=1 a command is mostly the kernel's; keys are the same work for everybody."""
    cases = []
    for depth, limits in ((1, (0.9, None)), (16, (None, None)), (100, (0.334, 0.2))):
        for name in ("SET", "GET"):
            cases.append(TlsPipelined(f"TLS {name} P={depth}", depth, ["-t", name.lower()], limits=limits))
    return [*cases, TlsConnections("ECDSA", 0.667), TlsConnections("RSA", None)]


class Encrypted:
    """A server, seen through its port for TLS."""

    def __init__(self, server, port):
        self.server, self.port = server, port

    def cpu_ns(self):
        return self.server.cpu_ns()


def run_tls(kinds, wanted, run):
    """Runs the cases, those of each kind of certificate on servers of their own; `run` is given a case and the servers."""
    results = []
    for key in KINDS:
        cases = [case for case in wanted if case.key == key]
        if not cases:
            continue
        with Certificates() as certificates:
            ports = {name: free_port() for name in ("redis", "onrush")}
            options = {name: certificates.arguments(key, port) for name, port in ports.items()}
            with kinds.start("redis", args=options["redis"]) as redis, kinds.start("onrush", args=options["onrush"]) as onrush:
                for server in (redis, onrush):
                    load.load(server, load.sets(KEYS))
                servers = {"redis": redis, "onrush": onrush}
                encrypted = {name: Encrypted(server, ports[name]) for name, server in servers.items()}
                results += [run(case, encrypted) for case in cases]
    return results
