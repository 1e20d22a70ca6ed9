"""The data types: what is measured, and the limits and goals (ratios against redis-server in the same run)."""

import random

from . import load
from .cases import CONNECTIONS, KEYS, Memory, Pipelined

ELEMENTS = 1_000_000


def member(number, prefix="element"):
    """A member as redis-benchmark names them: 20 bytes."""
    return load.key(number, prefix)


def shuffled(count):
    numbers = list(range(count))
    random.Random(1).shuffle(numbers)
    return numbers


def variadic(name, key, items, per_command=100):
    """Commands that add `items` (tuples of arguments) to one key, many at a time."""
    return [
        load.command(name, key, *[arg for item in items[i : i + per_command] for arg in item])
        for i in range(0, len(items), per_command)
    ]


class Typed(Pipelined):
    """A command on one type, after the data it works on has been loaded."""

    def __init__(self, name, args, limits, setup=(), requests=2_000_000, depth=100, random_keys=False, reads=False):
        super().__init__(name, depth, args, random_keys=random_keys, limits=limits)
        self.setup, self.requests, self.reads = setup, requests, reads

    def request_count(self, scale):
        return max(int(self.requests * scale), min(self.depth * CONNECTIONS, self.requests))

    def prepare(self, server):
        if self.reads and server.prepared == self.name:
            return
        with server.connect() as conn:
            for commands in self.setup:
                load.run(conn, commands())
        server.prepared = self.name


def popping(name, count):
    """Commands that fill `mylist`, for a case that empties it."""
    return lambda: [load.command("DEL", "mylist")] + variadic(name, "mylist", [(b"xxx",)] * count)


def scored(count):
    return lambda: [load.command("DEL", "myzset")] + variadic(
        "ZADD", "myzset", [(number, member(number)) for number in shuffled(count)]
    )


def once(*commands):
    return lambda: [load.command(*command) for command in commands]


def bitmap(name, seed):
    return lambda: [load.command("SET", name, random.Random(seed).randbytes(1 << 20))]


def members_of(key, start):
    return lambda: [load.command("DEL", key)] + variadic(
        "SADD", key, [(member(number),) for number in range(start, start + 100_000)]
    )


def type_cases():
    list_, big, ranked, range_ = (0.5, 0.25), (0.4, 0.2), (0.5, 0.25), (0.5, 1 / 3)
    bulk = (1 / 1.5, 1 / 3)
    count = 2_000_000
    fields = [("f%02d" % number, "value:%02d" % number) for number in range(20)]
    dense = [("PFADD", "hll", *[member(n) for n in range(at, at + 1000)]) for at in range(0, 50_000, 1000)]
    return [
        Typed("LPUSH P=100", ["-t", "lpush"], list_, [once(("DEL", "mylist"))]),
        Typed("RPUSH P=100", ["-t", "rpush"], list_, [once(("DEL", "mylist"))]),
        Typed("LPOP P=100", ["-t", "lpop"], list_, [popping("RPUSH", count)], count),
        Typed("RPOP P=100", ["-t", "rpop"], list_, [popping("RPUSH", count)], count),
        Typed("SADD one set P=100", ["-t", "sadd"], big, [once(("DEL", "myset"))], random_keys=True),
        Typed("SADD random keys P=100", ["SADD", "s:__rand_int__", "m"], big, random_keys=True),
        Typed("HSET one hash P=100", ["-t", "hset"], big, [once(("DEL", "myhash"))], random_keys=True),
        Typed("HSET random keys P=100", ["HSET", "h:__rand_int__", "f", "xxx"], big, random_keys=True),
        Typed(
            "ZADD P=100", ["ZADD", "myzset", "__rand_int__", "element:__rand_int__"], big, [scored(KEYS)],
            random_keys=True,
        ),
        Typed("ZRANK P=100", ["ZRANK", "myzset", "element:__rand_int__"], ranked, [scored(KEYS)], random_keys=True, reads=True),
        Typed("ZRANGE 10 P=100", ["ZRANGE", "myzset", "500000", "500009"], ranked, [scored(KEYS)], 1_000_000, reads=True),
        Typed("ZPOPMIN P=100", ["-t", "zpopmin"], ranked, [scored(KEYS)], KEYS),
        Typed(
            "LRANGE 100 P=100", ["LRANGE", "mylist", "0", "99"], range_, [popping("RPUSH", 1000)], 400_000
        ),
        Typed("HGETALL 20 P=100", ["HGETALL", "h20"], range_, [
            once(("DEL", "h20"), ("HSET", "h20", *[word for field in fields for word in field]))
        ], 1_000_000),
        Typed("XADD P=100", ["XADD", "mystream", "*", "field", "value"], range_, [once(("DEL", "mystream"))], 1_000_000),
        Typed("XREAD 10 P=100", ["XREAD", "COUNT", "10", "STREAMS", "xs", "50-0"], range_, [
            lambda: [load.command("DEL", "xs")] + [
                load.command("XADD", "xs", f"{n + 1}-0", "field", "value") for n in range(1000)
            ]
        ], 1_000_000),
        Typed("BITCOUNT 1 MB", ["BITCOUNT", "bits:a"], bulk, [bitmap("bits:a", 1)], 20_000, 16),
        Typed("BITOP AND 1 MB", ["BITOP", "AND", "bits:c", "bits:a", "bits:b"], bulk, [
            bitmap("bits:a", 1), bitmap("bits:b", 2)
        ], 5_000, 16),
        Typed("PFCOUNT dense", ["PFCOUNT", "hll", "hll2"], bulk, [
            once(*dense, ("PFADD", "hll2", "a")),
        ], 50_000, 16),
        Typed("SINTER 2 x 100,000", ["SINTER", "set:a", "set:b"], bulk, [
            members_of("set:a", 0), members_of("set:b", 50_000)
        ], 200, 1),
    ]


class Collected(Memory):
    """Resident bytes per item of collections."""

    def __init__(self, name, limit, goal, commands):
        super().__init__(name, limit, goal)
        self.commands = commands

    def load(self, server, count):
        with server.connect() as conn:
            load.run(conn, self.commands(count))


def short(number):
    """A member of 14 bytes."""
    return b"member:%07d" % number


def small_hashes(count):
    fields = [word for number in range(5) for word in (b"field%d" % number, b"value%d" % number)]
    return [load.command("HSET", load.key(number), *fields) for number in range(count)]


def type_memory_cases():
    return [
        Collected("RSS per hash of 5 fields", 128, 105, small_hashes),
        Collected("RSS per set member", 36, 30, lambda n: variadic("SADD", "k", [(short(i),) for i in shuffled(n)])),
        Collected(
            "RSS per hash field", 60, 48, lambda n: variadic("HSET", "k", [(short(i), "v%07d" % i) for i in shuffled(n)])
        ),
        Collected(
            "RSS per sorted set member", 70, 50, lambda n: variadic("ZADD", "k", [(i, short(i)) for i in shuffled(n)])
        ),
        Collected("RSS per list element", 15, 14, lambda n: variadic("RPUSH", "k", [(short(i),) for i in range(n)])),
    ]
