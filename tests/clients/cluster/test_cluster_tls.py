"""Clusters that speak TLS among themselves: of Onrush, and of Onrush with redis-server."""

import subprocess
import time

import certificates
import pytest
from conftest import BINARY
from ports import BUS, free_port
from test_cli_cluster import ORACLE, PATIENCE, SERVER, Node, empty_keyspace, run, settled, wait_for  # noqa: F401

pytestmark = pytest.mark.skipif(not ORACLE or not SERVER, reason="redis-cli and redis-server are not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("certificates")
    certificates.make(made)
    certificates.make(made / "other", "another authority")
    if b"--tls" not in subprocess.run([ORACLE, "--help"], capture_output=True).stdout:
        pytest.skip("this redis-cli has no TLS")
    tried = subprocess.run([SERVER, "--port", "0", "--tls-cluster", "yes"], capture_output=True, timeout=PATIENCE)
    if b"Failed finding TLS support" in tried.stdout or b"Bad directive" in tried.stderr:
        pytest.skip("this redis-server has no TLS")
    return made


class TlsNode(Node):
    """A node that its friends reach by TLS; without another port if `alone`."""

    def __init__(self, folder, of, alone, *more, binary):
        self.tls_port, self.of, self.alone = free_port(BUS), of, alone
        self.files = ["--cacert", of / "ca.crt", "--cert", of / "client.crt", "--key", of / "client.key"]
        options = ["--tls-port", str(self.tls_port), "--tls-cluster", "yes", "--tls-replication", "yes"]
        for name, file in {"cert-file": "server.crt", "key-file": "server.key", "ca-cert-file": "ca.crt"}.items():
            options += [f"--tls-{name}", str(of / file)]
        super().__init__(folder, *options, *(["--port", "0"] if alone else []), *more, binary=binary)
        self.place = f"127.0.0.1:{self.tls_port}"

    def ask(self, *args):
        return run(ORACLE, "--tls", *self.files, "-p", str(self.tls_port), *args).out.strip()

    def log(self):
        return (self.folder / "log").read_text(errors="replace")


KINDS = {
    "onrush": [BINARY] * 4,
    "mixed": [BINARY, SERVER, BINARY, SERVER],
    "mixed-too": [SERVER, BINARY, SERVER, BINARY],
}


@pytest.mark.parametrize("kind, alone", [("onrush", True), ("mixed", False), ("mixed-too", True)])
def test_nodes_find_each_other_fail_over_and_publish(folder, tmp_path, kind, alone):
    nodes = []
    try:
        for number, binary in enumerate(KINDS[kind]):
            more = ["--repl-diskless-sync-delay", "0"]
            nodes.append(TlsNode(tmp_path / str(number), folder, alone, *more, binary=binary))
        first, _, _, replica = nodes
        flags = ["--tls", *first.files]
        made = run(ORACLE, *flags, "--cluster", "create", *(node.place for node in nodes[:3]), "--cluster-yes")
        assert made.returncode == 0 and "[OK] All 16384 slots covered." in made.out, made.out + made.err
        settled(nodes[:3])
        added = run(ORACLE, *flags, "--cluster", "add-node", replica.place, first.place, "--cluster-slave",
                    "--cluster-master-id", first.id())  # fmt: skip
        assert added.returncode == 0, added.out + added.err
        settled(nodes)
        wait_for(lambda: "master_link_status:up" in replica.ask("INFO", "replication"), "the replica has no link")
        # Each goes to the node of its slot, by the port of TLS.
        keys = "".join(f"SET key{number} v\n" for number in range(20))
        said = run(ORACLE, *flags, "-c", "-p", str(nodes[1].tls_port), stdin=keys.encode())
        assert said.out.count("OK\n") == 20, said.out + said.err
        with subprocess.Popen(
            [ORACLE, *flags, "-p", str(nodes[1].tls_port), "SUBSCRIBE", "news"], stdout=subprocess.PIPE
        ) as listener:
            assert [listener.stdout.readline() for _ in range(3)] == [b"subscribe\n", b"news\n", b"1\n"]
            for number, node in enumerate(nodes):
                node.ask("PUBLISH", "news", str(number))
                assert [listener.stdout.readline() for _ in range(3)][2] == f"{number}\n".encode()
            listener.kill()
        assert replica.ask("CLUSTER", "FAILOVER") == "OK"
        wait_for(lambda: "role:master" in replica.ask("INFO", "replication"), "it does not take over")
        settled(nodes)
        wait_for(lambda: "master_link_status:up" in first.ask("INFO", "replication"), "the old primary does not follow")
        assert sum(int(node.ask("DBSIZE")) for node in nodes[1:]) == 20
        port = "0" if alone else str(replica.port)
        ports = {line.split()[1].split("@")[0] for line in first.ask("CLUSTER", "NODES").splitlines()}
        assert ports == {str(node.place) for node in nodes}, ports
        assert f"port\n{port}" in first.ask("CLUSTER", "SHARDS") or alone
    finally:
        for node in nodes:
            node.end()


@pytest.mark.parametrize("strange", ["another authority", "no TLS"])
def test_a_node_with_a_wrong_certificate_is_not_let_in_and_that_is_logged(folder, tmp_path, strange):
    ours = TlsNode(tmp_path / "ours", folder, False, binary=BINARY)
    theirs = []
    try:
        for binary in (BINARY, SERVER):
            name = tmp_path / f"theirs-{len(theirs)}"
            if strange == "no TLS":
                theirs.append(Node(name, binary=binary))
            else:
                theirs.append(TlsNode(name, folder / "other", False, binary=binary))
            # From both sides.
            other = theirs[-1]
            port, bus = (str(number) for number in (other.place.split(":")[1], int(other.place.split(":")[1]) + 10_000))
            assert ours.ask("CLUSTER", "MEET", "127.0.0.1", port, bus) == "OK"
            assert other.ask("CLUSTER", "MEET", "127.0.0.1", str(ours.tls_port), str(ours.tls_port + 10_000)) == "OK"
            time.sleep(1)
        said = {
            "another authority": [
                "The link to the node at 127.0.0.1 has failed: the other side's certificate is of an authority that we do",
                "A link from the node at 127.0.0.1 has failed: the other side does not know the authority of our",
            ],
            "no TLS": ["A link from the node at 127.0.0.1 has failed: the other side does not speak TLS"],
        }[strange]
        for line in said:
            wait_for(lambda: line in ours.log(), "nothing is logged")
        for node in [ours, *theirs]:
            known = [line for line in node.ask("CLUSTER", "NODES").splitlines() if "handshake" not in line]
            assert len(known) == 1, known
    finally:
        for node in [ours, *theirs]:
            node.end()
