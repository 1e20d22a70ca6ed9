"""pytest-redis: its fixtures start servers of their own and end them: redis_fixtures.py PROGRAM.

Run by itself it runs its tests with pytest and prints what became of them.
"""

import glob
import os
import sys
import tempfile

import pytest
import redis
from pytest_redis import factories
from redis.backoff import NoBackoff
from redis.retry import Retry

guarded_proc = factories.redis_proc(
    password="pass word", save="900 1 300 10", db_count=4, loglevel="verbose", checksum=True, timeout=60, datadir=os.getcwd()
)
guarded = factories.redisdb("guarded_proc", dbnum=3, decode=True)


def test_values_are_kept(redisdb):
    redisdb.set("a", 1)
    redisdb.rpush("list", *range(100))
    assert (redisdb.get("a"), redisdb.llen("list")) == (b"1", 100)


def test_each_test_begins_without_keys(redisdb):
    assert redisdb.keys() == []


def test_the_process_is_the_one_that_was_started(redis_proc, redisdb):
    info = redisdb.info("server")
    assert info["process_id"] == redis_proc.process.pid
    assert info["tcp_port"] == redis_proc.port
    with open(redis_proc.unixsocket.replace("redis.", "redis-server.").replace(".sock", ".pid")) as file:
        assert int(file.read()) == redis_proc.process.pid


def test_it_listens_on_a_unix_socket(redis_proc):
    with redis.Redis(unix_socket_path=redis_proc.unixsocket) as client:
        assert client.ping()


def test_options_are_taken(guarded_proc, guarded):
    wanted = {"save": "900 1 300 10", "databases": "4", "loglevel": "verbose", "rdbchecksum": "yes", "timeout": "60"}
    for name, value in wanted.items():
        assert guarded.config_get(name) == {name: value}
    guarded.set("saved", "at the end")


def test_the_password_is_asked_for(guarded_proc):
    once = Retry(NoBackoff(), 0)
    with redis.Redis(port=guarded_proc.port, retry=once) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


class Outcomes:
    """Prints what became of each test, and nothing that differs from run to run."""

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.failed:
            print(report.nodeid.split("::")[-1], report.when, report.outcome, report.longreprtext)


def main():
    options = ["-p", "no:terminal", "-p", "no:cacheprovider", "--redis-exec", sys.argv[1], "--basetemp=t", "--rootdir=."]
    status = pytest.main([*options, __file__], plugins=[Outcomes()])
    print("pytest", int(status))
    # A server that ends in order leaves its data and its log, and takes its socket and the file of its number with it.
    for pattern in ("dump.*.rdb", "redis-server.*.log", "redis.*.sock", "redis-server.*.pid"):
        print(pattern, len(glob.glob(pattern)))
    with open(glob.glob("redis-server.*.log")[0]) as log:
        text = log.read()
    for words in ("Server initialized", "Ready to accept connections", "ready to exit"):
        print(words, words in text)


if __name__ == "__main__":
    # The paths of sockets must be short.
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
