"""onrush-benchmark --cluster while slots move and nodes fail: the load follows, and the report tells each node."""

import json
import re
import signal
import subprocess

import pytest
from test_benchmark_tool import TOOL
from test_cli_cluster import CLI, ENVIRONMENT, empty_keyspace, made, run, settled, started, wait_for  # noqa: F401


@pytest.fixture
def cluster(tmp_path):
    with started(tmp_path, 6) as nodes:
        made(nodes, "--cluster-replicas", "1")
        yield nodes


def begin(cluster, *args):
    command = [TOOL, "-p", str(cluster[0].port), "--cluster", "-c", "12", "-r", "10000", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, text=True)


def rows(output):
    """The requests of each node."""
    return {port: int(count) for port, count in re.findall(r"(?m)^ +127\.0\.0\.1:(\d+) +(\d+) ", output)}


def test_the_report_has_totals_and_a_row_for_each_node(cluster, tmp_path):
    file = tmp_path / "report.json"
    for shape in [["-P", "16"], ["--window", "20"], []]:
        done = begin(cluster, "-n", "6000", "-t", "set", "--json", str(file), *shape)
        out, err = done.communicate(timeout=60)
        assert done.returncode == 0, err
        assert set(rows(out)) == {str(node.port) for node in cluster[:3]} and sum(rows(out).values()) == 6000
        assert "redirected replies: 0, refreshed nodes: 0 times" in out and "6000 requests completed" in out
        round_ = json.loads(file.read_text())["cells"][0]["median"]
        assert sum(node["replies"] for node in round_["nodes"].values()) == round_["replies"] == 6000


@pytest.mark.slow
def test_connections_follow_slots_that_move_and_leave_a_node_without_any(cluster):
    for shape in [["-P", "16"], ["--rate", "2000"]]:
        load = begin(cluster, "-t", "get", "--duration", "14s", *shape)
        emptied = cluster[1] if "-P" in shape else cluster[2]
        moved = run(CLI, "--cluster", "rebalance", cluster[0].place, "--cluster-weight", emptied.id() + "=0", timeout=180)
        assert moved.returncode == 0, moved.out
        was_running = load.poll() is None
        out, err = load.communicate(timeout=60)
        assert load.returncode == 0, err
        if was_running:
            redirects, refreshes = re.search(r"redirected replies: (\d+), refreshed nodes: (\d+) times", out).groups()
            assert int(redirects) > 0 and int(refreshes) > 0 and "slots moved" in err
        settled(cluster)


@pytest.mark.slow
def test_connections_follow_a_failover(cluster):
    # A replica without its primary's data does not take over.
    for node in cluster[3:]:
        wait_for(lambda: "master_link_status:up" in node.ask("INFO", "replication"), "a replica does not follow")
    load = begin(cluster, "-t", "set", "-P", "8", "--duration", "12s", "--reconnect", "20s")
    with pytest.raises(subprocess.TimeoutExpired):
        load.communicate(timeout=2)
    cluster[1].process.send_signal(signal.SIGKILL)
    out, err = load.communicate(timeout=60)
    assert load.returncode == 0, err
    served = rows(out)
    assert len(served) == 4 and all(served.values()), out


def test_a_key_without_a_tag_ends_the_run(cluster):
    load = begin(cluster, "-n", "100000", "-c", "3", "set", "foo", "bar")
    _, err = load.communicate(timeout=60)
    assert load.returncode == 1 and "MOVED 12182" in err and "Error from server 127.0.0.1:" in err
