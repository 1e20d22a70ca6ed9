"""redis-py: one part of the client matrix. Arguments: port and part. With files in the environment, over TLS."""

import os
import sys
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

port, part = int(sys.argv[1]), sys.argv[2]
tls = {"ssl": True, "ssl_ca_certs": os.environ["TLS_CA"]} if "TLS_CA" in os.environ else {}
if "TLS_CERT" in os.environ:
    tls |= {"ssl_certfile": os.environ["TLS_CERT"], "ssl_keyfile": os.environ["TLS_KEY"]}
# The first failure is told, and is the last one.
client = redis.Redis(port=port, decode_responses=True, retry=Retry(NoBackoff(), 0), **tls)


def strings():
    assert client.set("k", "v", ex=100) and client.get("k") == "v"
    assert client.incrby("n", 5) == 5 and client.mget("k", "none") == ["v", None]


def types():
    assert client.rpush("l", 1, 2, 3) == 3 and client.lrange("l", 0, -1) == ["1", "2", "3"]
    assert client.hset("h", mapping={"a": 1, "b": 2}) == 2 and client.hgetall("h") == {"a": "1", "b": "2"}
    assert client.sadd("s", "x", "y") == 2 and client.smembers("s") == {"x", "y"}
    assert client.zadd("z", {"m": 1.5}) == 1 and client.zscore("z", "m") == 1.5
    assert client.xadd("x", {"f": "v"}) and client.xlen("x") == 1
    assert client.setbit("b", 3, 1) == 0 and client.bitcount("b") == 1
    assert client.pfadd("p", "a", "b") == 1 and client.pfcount("p") == 2
    assert client.geoadd("g", (13.361389, 38.115556, "Palermo")) == 1


def pipeline():
    pipe = client.pipeline(transaction=False)
    for _ in range(10_000):
        pipe.incr("n")
    assert pipe.execute() == list(range(1, 10_001))


def multi():
    with client.pipeline() as pipe:
        pipe.watch("n")
        pipe.multi()
        pipe.incr("n").incr("n")
        assert pipe.execute() == [1, 2]


def script():
    call = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    assert call(keys=["n"], args=[7]) == 7


def pubsub():
    subscriber = client.pubsub()
    subscriber.subscribe("c")
    assert subscriber.get_message(timeout=5)["type"] == "subscribe"
    assert client.publish("c", "hello") == 1
    assert subscriber.get_message(timeout=5)["data"] == "hello"


def sentinel():
    """Counts at whatever is the primary until it is told to stop; `port` is that of a Sentinel."""
    found = Sentinel([("127.0.0.1", port)], socket_timeout=2)
    primary = found.master_for("group", socket_timeout=2, decode_responses=True)
    while True:
        try:
            primary.incr("count:redis-py")
            if primary.get("stop"):
                return
        except redis.RedisError:
            pass
        time.sleep(0.02)


globals()[part]()
