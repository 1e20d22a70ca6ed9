"""redis-py in RESP2 and RESP3: what applications use of it on strings, keys and the server."""

import time

import pytest
import redis
from redis.cache import CacheConfig
from redis.connection import CacheProxyConnection


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(server, request):
    with redis.Redis(port=server.port, protocol=request.param, decode_responses=True, socket_timeout=20) as connected:
        yield connected


def test_strings(client):
    assert client.set("a", "1") is True
    assert client.get("a") == "1"
    assert client.set("a", "2", nx=True) is None
    assert client.set("a", "3", xx=True, get=True) == "1"
    assert client.get("nothing") is None
    assert client.incr("a") == 4
    assert client.incrbyfloat("a", 0.5) == 4.5
    assert client.append("a", "x") == 4
    assert client.getrange("a", 0, 1) == "4."
    assert client.setrange("a", 1, "_") == 4
    assert client.strlen("a") == 4
    assert client.getdel("a") == "4_5x"
    assert client.mset({"a": 1, "b": 2}) is True
    assert client.mget("a", "nothing", "b") == ["1", None, "2"]
    assert client.msetnx({"b": 1, "c": 2}) is False
    assert client.getset("a", 5) == "1"


def test_lcs(client):
    client.mset({"a": "ohmytext", "b": "mynewtext"})
    assert client.lcs("a", "b") == "mytext"
    assert client.lcs("a", "b", len=True) == 6


def test_errors_become_exceptions(client):
    client.set("a", "x")
    with pytest.raises(redis.ResponseError, match="not an integer"):
        client.incr("a")
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client.execute_command("NOSUCH")


def test_pipelines_keep_order_and_errors_in_place(client):
    pipe = client.pipeline(transaction=False)
    for number in range(10_000):
        pipe.set(f"key:{number}", number)
        pipe.get(f"key:{number}")
    replies = pipe.execute()
    assert replies[::2] == [True] * 10_000
    assert replies[1::2] == [str(n) for n in range(10_000)]
    client.set("a", "x")
    replies = client.pipeline(transaction=False).get("a").incr("a").get("a").execute(raise_on_error=False)
    assert replies[0] == replies[2] == "x"
    assert isinstance(replies[1], redis.ResponseError)


def test_expiry(client):
    client.set("a", 1, ex=100)
    assert 98 <= client.ttl("a") <= 100
    assert client.persist("a") is True
    assert client.ttl("a") == -1
    assert client.pexpire("a", 30) is True
    deadline = time.monotonic() + 10
    while client.exists("a"):
        assert time.monotonic() < deadline
    assert client.ttl("a") == -2
    client.set("b", 1)
    assert client.expire("b", 100, gt=True) in (False, 0)
    assert client.getex("b", px=100_000) == "1"
    assert client.expiretime("b") >= int(time.time()) + 90


def test_scans_return_every_key(client):
    client.mset({f"key:{n}": n for n in range(5_000)})
    assert set(client.scan_iter(count=100)) == {f"key:{n}" for n in range(5_000)}
    assert set(client.scan_iter(match="key:12*")) == {k for k in client.keys("key:12*")}
    assert set(client.scan_iter(_type="string", match="key:4999")) == {"key:4999"}


def test_keys(client):
    client.mset({"a": 1, "b": 2})
    assert client.exists("a", "b", "c") == 2
    assert client.type("a") == "string"
    assert client.rename("a", "c") is True
    assert client.copy("c", "d") is True
    assert client.object("encoding", "d") == "int"
    assert client.delete("b", "c") == 2
    assert client.unlink("d") == 1
    assert client.dbsize() == 0
    assert client.randomkey() is None
    assert client.flushall() is True


def test_info_and_config(client):
    client.set("a", 1)
    info = client.info()
    assert info["redis_version"].startswith("7.")
    assert info["connected_clients"] >= 1
    assert info["db0"]["keys"] == 1
    assert "used_memory" in client.info("memory")
    assert client.config_get("maxmemory") == {"maxmemory": "0"}
    assert client.config_set("maxmemory-policy", "allkeys-lru") is True
    assert client.config_get("maxmemory-policy")["maxmemory-policy"] == "allkeys-lru"
    client.config_set("maxmemory-policy", "noeviction")
    assert client.config_resetstat() is True


def test_client_commands(client):
    client.client_setname("tester")
    assert client.client_getname() == "tester"
    mine = [c for c in client.client_list() if c["name"] == "tester"]
    assert len(mine) == 1 and int(mine[0]["id"]) == client.client_id()
    assert client.client_info()["name"] == "tester"
    assert client.ping() is True
    assert client.echo("x") == "x"
    seconds, micros = client.time()
    assert abs(seconds - time.time()) < 60 and 0 <= micros < 1_000_000


def test_commands_can_be_looked_up(client):
    table = client.command()
    assert table["get"]["arity"] == 2
    assert table["set"]["first_key_pos"] == 1
    assert client.command_count() == len(table)
    assert client.command_getkeys("MSET", "a", 1, "b", 2) == ["a", "b"]


def test_binary_data_survives(server):
    with redis.Redis(port=server.port) as raw:
        value = bytes(range(256)) * 1000
        raw.set(b"\x00\r\n", value)
        assert raw.get(b"\x00\r\n") == value


def test_many_connections_at_once(server):
    clients = [redis.Redis(port=server.port) for _ in range(200)]
    for number, one in enumerate(clients):
        assert one.incr("n") == number + 1
    for one in clients:
        one.close()


def next_message(subscriber, type):
    message = subscriber.get_message(timeout=10)
    assert message["type"] == type, message
    return message


def test_pubsub(client):
    with client.pubsub() as subscriber:
        subscriber.subscribe("news")
        next_message(subscriber, "subscribe")
        subscriber.psubscribe("n*")
        next_message(subscriber, "psubscribe")
        assert client.pubsub_channels("new*") == ["news"]
        assert client.pubsub_numsub("news", "other") == [("news", 1), ("other", 0)]
        assert client.pubsub_numpat() == 1
        assert client.publish("news", "hello") == 2
        assert next_message(subscriber, "message")["data"] == "hello"
        assert next_message(subscriber, "pmessage") == {
            "type": "pmessage", "pattern": "n*", "channel": "news", "data": "hello"
        }
        subscriber.unsubscribe()
        assert next_message(subscriber, "unsubscribe")["data"] == 1
        assert client.publish("news", "again") == 1
        assert next_message(subscriber, "pmessage")["data"] == "again"


def test_pubsub_handlers_get_messages_in_order(client):
    seen = []
    with client.pubsub() as subscriber:
        subscriber.subscribe(numbers=lambda message: seen.append(int(message["data"])))
        next_message(subscriber, "subscribe")
        pipe = client.pipeline(transaction=False)
        for number in range(5_000):
            pipe.publish("numbers", number)
        assert pipe.execute() == [1] * 5_000
        thread = subscriber.run_in_thread(sleep_time=0.01)
        deadline = time.monotonic() + 20
        while len(seen) < 5_000 and time.monotonic() < deadline:
            time.sleep(0.01)
        thread.stop()
        thread.join()
    assert seen == list(range(5_000))


def test_client_side_caching(server, monkeypatch):
    # The library asks for 7.4 by the version that a server tells; it uses nothing that 7.2 does not have.
    monkeypatch.setattr(CacheProxyConnection, "MIN_ALLOWED_VERSION", "7.2.0")
    options = {"port": server.port, "decode_responses": True, "socket_timeout": 20}
    with redis.Redis(protocol=3, cache_config=CacheConfig(), **options) as caching, redis.Redis(**options) as other:

        def gets():
            return other.info("commandstats")["cmdstat_get"]["calls"]

        other.mset({f"cached:{number}": 0 for number in range(100)})
        for number in range(100):
            assert caching.get(f"cached:{number}") == "0"
        calls = gets()
        for _ in range(5):
            assert [caching.get(f"cached:{number}") for number in range(100)] == ["0"] * 100
        assert gets() == calls, "copies are used"
        for round in range(1, 20):
            other.set("cached:7", round)
            # The message is on its way when the writer has its reply.
            deadline = time.monotonic() + 20
            while caching.get("cached:7") != str(round):
                assert time.monotonic() < deadline
            assert caching.get("cached:8") == "0"
        assert gets() == calls + 19, "nothing else was forgotten"
        other.flushall()
        deadline = time.monotonic() + 20
        while caching.get("cached:8") is not None:
            assert time.monotonic() < deadline
