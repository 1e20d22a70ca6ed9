"""redis-py's typed helpers for the data types, one by one and through pipelines."""

import threading

import pytest
import redis


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(server, request):
    with redis.Redis(port=server.port, protocol=request.param, decode_responses=True, socket_timeout=20) as connected:
        yield connected


def test_lists(client):
    assert client.rpush("l", *range(10)) == 10
    assert client.lpush("l", "a", "b") == 12
    assert client.lrange("l", 0, 2) == ["b", "a", "0"]
    assert client.lpop("l") == "b"
    assert client.rpop("l", 2) == ["9", "8"]
    assert client.linsert("l", "BEFORE", "0", "x") == 10
    assert client.lpos("l", "5") == 7
    assert client.lset("l", 0, "first") is True
    assert client.lrem("l", 1, "x") == 1
    assert client.lmove("l", "m", "LEFT", "RIGHT") == "first"
    assert client.ltrim("l", 1, 3) is True
    assert client.lrange("l", 0, -1) == ["1", "2", "3"]
    assert client.lmpop(2, "none", "l", direction="LEFT", count=2) == ["l", ["1", "2"]]
    assert client.blpop(["none", "l"], timeout=1) in (["l", "3"], ("l", "3"))
    assert client.llen("l") == 0


def test_a_list_wakes_who_waits_for_it(server, client):
    got = []

    def wait():
        with redis.Redis(port=server.port, decode_responses=True, socket_timeout=20) as other:
            got.append(tuple(other.brpop("queue", timeout=10)))

    waiting = threading.Thread(target=wait)
    waiting.start()
    while client.info("clients")["blocked_clients"] == 0:
        pass
    client.lpush("queue", "job")
    waiting.join()
    assert got == [("queue", "job")]


def test_hashes(client):
    assert client.hset("h", mapping={"a": 1, "b": "two", "c": 3}) == 3
    assert client.hget("h", "b") == "two"
    assert client.hmget("h", "a", "none") == ["1", None]
    assert client.hgetall("h") == {"a": "1", "b": "two", "c": "3"}
    assert client.hincrby("h", "a", 5) == 6
    assert client.hincrbyfloat("h", "c", 0.5) == 3.5
    assert client.hdel("h", "b") == 1
    assert sorted(client.hkeys("h")) == ["a", "c"]
    assert client.hlen("h") == 2
    assert client.hsetnx("h", "a", 1) == 0
    assert client.hstrlen("h", "c") == 3
    client.hset("big", mapping={f"f{n}": n for n in range(2_000)})
    assert dict(client.hscan_iter("big")) == {f"f{n}": str(n) for n in range(2_000)}
    assert client.object("encoding", "big") == "hashtable"


def test_times_to_live_of_fields(client):
    client.hset("h", mapping={"a": 1, "b": 2, "c": 3})
    assert client.hexpire("h", 100, "a", "none") == [1, -2]
    assert 0 < client.httl("h", "a")[0] <= 100
    assert client.httl("h", "b", "none") == [-1, -2]
    assert client.hexpire("h", 50, "a", gt=True) == [0]
    assert client.hpersist("h", "a", "b") == [1, -1]
    assert client.hpexpire("h", 1, "b") == [1]
    while client.hget("h", "b") is not None:
        pass
    assert client.hlen("h") == 2
    assert client.hexpire("h", 0, "c") == [2]
    assert client.hgetall("h") == {"a": "1"}
    assert client.execute_command("HSETEX", "h", "EX", 100, "FIELDS", 1, "d", "4") == 1
    assert client.execute_command("HSETEX", "h", "FNX", "FIELDS", 1, "d", "5") == 0
    assert client.execute_command("HGETEX", "h", "PERSIST", "FIELDS", 2, "d", "x") == ["4", None]
    assert client.httl("h", "d") == [-1]
    assert client.execute_command("HGETDEL", "h", "FIELDS", 2, "d", "a") == ["4", "1"]
    assert client.exists("h") == 0


def test_fields_expire_without_anybody_asking(client):
    client.hset("h", mapping={"a": 1, "b": 2})
    client.hpexpire("h", 20, "a", "b")
    while client.dbsize() > 0:
        pass


def test_sets(client):
    assert client.sadd("s", 1, 2, 3) == 3
    assert client.sadd("t", 2, 3, "x") == 3
    assert client.sinter("s", "t") == {"2", "3"}
    assert client.sunion("s", "t") == {"1", "2", "3", "x"}
    assert client.sdiff("s", "t") == {"1"}
    assert client.sinterstore("u", "s", "t") == 2
    assert client.sintercard(2, ["s", "t"], limit=1) == 1
    assert client.smismember("s", [1, 9]) == [1, 0]
    assert client.smove("s", "t", 1) in (True, 1)
    assert client.scard("t") == 4
    assert client.spop("u") in {"2", "3"}
    assert client.srandmember("t", -10)
    client.sadd("big", *range(5_000), "x")
    assert len(set(client.sscan_iter("big"))) == 5_001


def test_sorted_sets(client):
    assert client.zadd("z", {"a": 1, "b": 2.5, "c": 3}) == 3
    assert client.zadd("z", {"a": 5}, xx=True, ch=True) == 1
    assert client.zincrby("z", 1.5, "b") == 4.0
    assert client.zscore("z", "b") == 4.0
    assert client.zrank("z", "a") == 2
    assert [list(pair) for pair in client.zrange("z", 0, -1, withscores=True)] == [["c", 3.0], ["b", 4.0], ["a", 5.0]]
    assert client.zrangebyscore("z", "(3", "+inf") == ["b", "a"]
    assert client.zcount("z", 3, 4) == 2
    client.zadd("y", {"a": 10, "d": 1})
    assert client.zinterstore("i", ["z", "y"], aggregate="MAX") == 1
    assert client.zunion(["z", "y"]) == ["d", "c", "b", "a"]
    # Without a count the reply is one flat pair, which redis-py makes pairs of over RESP2 only.
    assert client.zpopmin("z") in ([("c", 3.0)], ["c", 3.0])
    assert client.zremrangebyrank("z", 0, 0) == 1
    client.zadd("big", {f"m{n}": n for n in range(3_000)})
    assert client.zrevrange("big", 0, 1) == ["m2999", "m2998"]
    assert dict(client.zscan_iter("big")) == {f"m{n}": float(n) for n in range(3_000)}


def test_streams(client):
    first = client.xadd("x", {"a": 1})
    ids = [first] + [client.xadd("x", {"a": n, "b": "v"}) for n in range(9)]
    assert client.xlen("x") == 10
    assert client.xrange("x", count=1) == [(first, {"a": "1"})]
    assert client.xgroup_create("x", "g", id="0") is True
    read = client.xreadgroup("g", "me", {"x": ">"}, count=3)
    entries = read[0][1] if isinstance(read, list) else read["x"][0]
    assert [entry[0] for entry in entries] == ids[:3]
    assert client.xack("x", "g", ids[0]) == 1
    assert client.xpending("x", "g")["pending"] == 2
    assert [entry[0] for entry in client.xclaim("x", "g", "other", 0, [ids[1]])] == [ids[1]]
    assert client.xtrim("x", maxlen=4, approximate=False) == 6
    assert client.xinfo_stream("x")["length"] == 4
    assert client.xinfo_groups("x")[0]["pending"] == 2


def test_bits(client):
    client.setbit("b", 7, 1)
    client.setbit("b", 100, 1)
    assert client.bitcount("b") == 2
    assert client.bitpos("b", 1, 1) == 100
    client.set("c", "\xff\xff")
    assert client.bitop("AND", "d", "b", "c") == 13
    assert client.bitfield("f").set("u8", 0, 200).incrby("u8", 0, 100, "SAT").execute() == [0, 255]


def test_commands_with_very_many_keys(client):
    pairs = {f"key:{n % 4_000}": n for n in range(5_000)}
    assert client.mset(pairs)
    assert client.mget(list(pairs)) == [str(value) for value in pairs.values()]
    assert client.mset({f"key:{n}": n for n in range(3_000, 9_000)})
    assert client.msetnx({f"key:{n}": "x" for n in range(8_999, 12_000)}) in (False, 0)
    assert client.dbsize() == 9_000
    assert client.exists(*[f"key:{n}" for n in range(10_000)]) == 9_000
    assert client.delete(*[f"key:{n}" for n in range(10_000)]) == 9_000


def test_hyperloglogs(client):
    assert client.pfadd("p", *[f"e{n}" for n in range(10_000)]) == 1
    count = client.pfcount("p")
    assert abs(count - 10_000) < 250
    client.pfadd("q", "e1", "other")
    assert client.pfmerge("r", "p", "q")
    assert client.pfcount("r") >= count
    assert client.pfcount("p", "q") == client.pfcount("r")


def test_geo_indexes(client):
    assert client.geoadd("g", (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania")) == 2
    assert client.geodist("g", "Palermo", "Catania", unit="km") == 166.2742
    assert client.geohash("g", "Palermo") == ["sqc8b49rny0"]
    (longitude, latitude), missing = client.geopos("g", "Palermo", "nobody")
    assert (round(longitude, 5), round(latitude, 5), missing) == (13.36139, 38.11556, None)
    found = client.geosearch("g", longitude=15, latitude=37, radius=200, unit="km", sort="ASC", withdist=True)
    assert [(item[0], float(item[1])) for item in found] == [("Catania", 56.4413), ("Palermo", 190.4424)]
    assert client.geosearchstore("d", "g", member="Palermo", width=10, height=10, unit="km") == 1
    assert client.zrange("d", 0, -1) == ["Palermo"]


def test_all_types_through_one_pipeline(client):
    pipe = client.pipeline(transaction=False)
    for n in range(2_000):
        pipe.rpush("l", n)
        pipe.hset("h", f"f{n}", n)
        pipe.sadd("s", n)
        pipe.zadd("z", {f"m{n}": n})
        pipe.xadd("x", {"n": n})
        pipe.pfadd("p", n)
        pipe.geoadd("g", (n / 100, n / 100, f"m{n}"))
        pipe.setbit("b", n, 1)
    replies = pipe.execute()
    assert replies[::8] == list(range(1, 2_001))
    assert set(replies[1::8]) == set(replies[2::8]) == set(replies[3::8]) == set(replies[6::8]) == {1}
    assert set(replies[7::8]) == {0} and client.bitcount("b") == 2_000
    assert (client.llen("l"), client.hlen("h"), client.scard("s"), client.zcard("z"), client.xlen("x")) == (2_000,) * 5
