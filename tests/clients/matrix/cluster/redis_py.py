"""redis-py in a cluster: parts of the client matrix. Arguments: the ports of some nodes, and the parts. Prints each that is through."""

import json
import sys
import time
from collections import Counter

import redis
from redis.cluster import ClusterNode, RedisCluster

PORTS = [int(port) for port in sys.argv[1].split(",")]
client = RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", port) for port in PORTS], decode_responses=True)


def keys():
    for n in range(300):
        assert client.set(f"k{n}", n) is True and client.get(f"k{n}") == str(n)
    assert client.mset({"{t}a": 1, "{t}b": 2}) and client.mget("{t}a", "{t}b", "{t}c") == ["1", "2", None]
    assert client.mget_nonatomic([f"k{n}" for n in range(300)]) == [str(n) for n in range(300)]
    everywhere = {"target_nodes": RedisCluster.PRIMARIES}
    assert client.dbsize(**everywhere) == 302 and len(set(client.scan_iter(count=50, **everywhere))) == 302


def pipeline():
    pipe = client.pipeline()
    for n in range(1000):
        pipe.incrby(f"p{n % 250}", n)
    sums = Counter()
    for n, reply in enumerate(pipe.execute()):
        sums[n % 250] += n
        assert reply == sums[n % 250]
    assert n == 999


def multi():
    with client.pipeline(transaction=True) as pipe:
        pipe.watch("{m}a")
        pipe.multi()
        pipe.incr("{m}a").incr("{m}b").incr("{m}a")
        assert pipe.execute() == [1, 1, 2]
    try:
        client.execute_command("RENAME", "a", "b")
        raise AssertionError("two slots")
    except redis.exceptions.RedisClusterException:
        pass


def script():
    add = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1]) -- redis-py")
    for n in range(20):
        assert add(keys=[f"s{n}"], args=[n]) == n
        assert client.eval("return KEYS[1]", 1, f"s{n}") == f"s{n}"
        assert client.fcall("add_to", 1, f"s{n}", 7) == n + 7


def pubsub():
    subscriber = client.pubsub()
    channels = [f"c{n}" for n in range(20)]
    subscriber.subscribe(*channels)
    for _ in channels:
        assert subscriber.get_message(timeout=5)["type"] == "subscribe"
    for n, channel in enumerate(channels):
        node = ClusterNode("127.0.0.1", PORTS[n % len(PORTS)])
        client.publish(channel, n, target_nodes=client.get_node(node_name=node.name))
    got = [subscriber.get_message(timeout=5) for _ in channels]
    assert {message["channel"]: int(message["data"]) for message in got} == {channel: n for n, channel in enumerate(channels)}


def shards():
    subscriber = client.pubsub()
    channels = [f"sc{n}" for n in range(20)]

    def messages(kind):
        deadline = time.monotonic() + 10
        got = {}
        while len(got) < len(channels):
            assert time.monotonic() < deadline, got
            message = subscriber.get_sharded_message(timeout=0.1)
            if message and message["type"] == kind:
                got[message["channel"]] = message["data"]
        return got

    subscriber.ssubscribe(*channels)
    messages("ssubscribe")
    for n, channel in enumerate(channels):
        assert client.spublish(channel, n) == 1
    assert messages("smessage") == {channel: str(n) for n, channel in enumerate(channels)}


def count():
    """Counts at 30 keys until it is told to stop; prints what was acknowledged, and the errors."""
    acknowledged, errors = Counter(), Counter()
    stopped = False
    while not stopped:
        for n in range(30):
            try:
                client.incr(f"count:redis-py:{n}")
                acknowledged[f"count:redis-py:{n}"] += 1
            except redis.RedisError as error:
                errors[f"{type(error).__name__}: {error}"] += 1
        try:
            stopped = client.get("stop")
        except redis.RedisError as error:
            errors[f"{type(error).__name__}: {error}"] += 1
        time.sleep(0.02)
    print(json.dumps({"acknowledged": acknowledged, "errors": errors}))


for part in sys.argv[2:]:
    globals()[part]()
    print(part, flush=True)
