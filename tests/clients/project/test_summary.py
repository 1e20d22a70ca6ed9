"""What `make test` says at its end of the tests that did not run."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "test-summary.py"
CASE = '<testcase classname="tests.clients.{module}" name="{name}">{inside}</testcase>'
SKIP = '<skipped message="go is not installed"/>'


@pytest.fixture
def empty_keyspace():
    """No server is needed."""


def summary(folder, cases, tap="", rust=None):
    (folder / "results").mkdir()
    (folder / "results" / "pytest.xml").write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    (folder / "results" / "node.tap").write_text(tap)
    if rust:
        (folder / "skipped").write_text(rust)
    return subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)


def test_parts_that_ran_are_counted_and_skipped_tests_named(tmp_path):
    cases = [
        CASE.format(module="test_matrix", name="test_part[a]", inside=""),
        CASE.format(module="test_matrix", name="test_part[b]", inside=SKIP),
        CASE.format(module="cluster.test_cluster_matrix", name="test_part[c]", inside=""),
        CASE.format(module="tls.test_tls", name="test_d", inside=""),
    ]
    done = summary(tmp_path, cases, "ok 1 - one\nok 2 - two # SKIP no chromium\n", "digests: a redis-server\n")
    assert done.returncode == 0
    assert done.stdout == (
        "Client matrix: 2 of 3 parts ran.\n"
        "Skipped: test_part[b]: go is not installed\n"
        "Skipped: two: no chromium\n"
        "Skipped: digests: a redis-server\n"
    )


def test_a_matrix_of_which_nothing_ran_is_an_error(tmp_path):
    assert summary(tmp_path, [CASE.format(module="test_matrix", name="test_part[b]", inside=SKIP)]).returncode == 1
