"""Scripts, and the commands that spare them: what is measured, and the limits and goals."""

import hashlib
import random
import socket
import time

from . import load
from .cases import CONNECTIONS, KEYS
from .types import Typed

INCR = b"return redis.call('INCR', KEYS[1])"

# So many calls in a window of time; the reply says whether this one is among them.
RATE_LIMITER = b"""
local key = KEYS[1]
local limit = tonumber(ARGV[1])
local window = tonumber(ARGV[2])

-- What was counted in this window so far.
local count = redis.call('GET', key)
if count == false then
  count = 0
else
  count = tonumber(count)
end

if count >= limit then
  return {count, 0}
end

count = redis.call('INCR', key)
if count == 1 then
  redis.call('EXPIRE', key, window)
end
return {count, 1}
"""


def loaded(script):
    return lambda: [load.command("SCRIPT", "LOAD", script)]


def evalsha(script, *args):
    return ["EVALSHA", hashlib.sha1(script).hexdigest(), *args]


LIMITED_BY_SCRIPT = evalsha(RATE_LIMITER, "1", "script:__rand_int__", "100", "100000")
LIMITED_BY_INCREX = ["INCREX", "increx:__rand_int__", "UBOUND", "100", "EX", "100000", "ENX"]


class AgainstScript:
    """A command against the script that it spares, on the same server: CPU as a ratio."""

    unit = "CPU, INCREX / EVALSHA"
    better = "lower"
    servers = ("onrush",)

    def __init__(self, name, args, script, limits):
        self.name, (self.limit, self.goal) = name, limits
        self.command = Typed(name, args, limits, random_keys=True)
        self.script = Typed(name, script, limits, [loaded(RATE_LIMITER)], random_keys=True)

    def run(self, server, scale):
        # The first to name the keys would pay for their memory.
        for case in (self.script, self.command):
            case.run(server, scale)
        script, command = self.script.run(server, scale), self.command.run(server, scale)
        return {
            "value": command["value"] / script["value"],
            "commands_per_s": command["commands_per_s"],
            "command_us": command["value"],
            "script_us": script["value"],
        }


class Saturated:
    """What redis-benchmark cannot send: every connection has its commands sent before replies are read, so the server always has
    something to do. CPU per unit of the case's own."""

    better = "lower"

    def __init__(self, name, unit, limits):
        self.name, self.unit, (self.limit, self.goal) = name, unit, limits

    def exchange(self, conns, rounds, reply_bytes):
        """Sends one block of each round on each connection; reads so many bytes of replies for each."""
        for blocks in rounds:
            for conn, block in zip(conns, blocks):
                conn.sendall(block)
            for conn in conns:
                drain(conn, reply_bytes)

    def result(self, server, count, work):
        cpu, started = server.cpu_ns(), time.perf_counter()
        work()
        took = time.perf_counter() - started
        return {"value": (server.cpu_ns() - cpu) / count / 1000, "commands_per_s": count / took, "requests": count}


def drain(conn, size):
    buffer = bytearray(1 << 18)
    while size > 0:
        got = conn.recv_into(buffer)
        if got == 0 or buffer[0:1] == b"-":
            raise SystemExit(f"the server ended a load: {bytes(buffer[:got])[:200]!r}")
        size -= got


class Transactions(Saturated):
    """MULTI, SETs on random keys, EXEC, about a hundred commands in flight on each connection and more of them waiting."""

    SETS, PER_BLOCK, ROUNDS = 10, 200, 12

    def run(self, server, scale):
        draw, rounds = random.Random(1), max(int(self.ROUNDS * scale), 2)
        begin, end = load.command("MULTI"), load.command("EXEC")

        def transaction():
            sets = [load.command("SET", load.key(draw.randrange(KEYS)), "xxx") for _ in range(self.SETS)]
            return b"".join([begin, *sets, end])

        blocks = [[b"".join(transaction() for _ in range(self.PER_BLOCK)) for _ in range(CONNECTIONS)] for _ in range(rounds)]
        reply = len(b"+OK\r\n") + self.SETS * len(b"+QUEUED\r\n") + len(b"*10\r\n") + self.SETS * len(b"+OK\r\n")
        conns = [server.connect() for _ in range(CONNECTIONS)]
        # The first to name the keys would pay for their memory.
        self.exchange(conns, blocks, self.PER_BLOCK * reply)
        count = rounds * CONNECTIONS * self.PER_BLOCK
        result = self.result(server, count, lambda: self.exchange(conns, blocks, self.PER_BLOCK * reply))
        for conn in conns:
            conn.close()
        return result


class Published(Saturated):
    """PUBLISH to fifty subscribers, a hundred in each write; CPU per message delivered."""

    SUBSCRIBERS, DEPTH, BATCHES = 50, 100, 60

    def run(self, server, scale):
        batches = max(int(self.BATCHES * scale), 4)
        subscribers = [server.connect() for _ in range(self.SUBSCRIBERS)]
        for conn in subscribers:
            conn.sendall(load.command("SUBSCRIBE", "news"))
            drain(conn, len(b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"))
        message = len(b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$3\r\nxxx\r\n")
        publisher = server.connect()
        block = load.command("PUBLISH", "news", "xxx") * self.DEPTH

        def work():
            for _ in range(batches):
                publisher.sendall(block)
                drain(publisher, self.DEPTH * len(b":50\r\n"))
                for conn in subscribers:
                    drain(conn, self.DEPTH * message)

        work()
        result = self.result(server, batches * self.DEPTH * self.SUBSCRIBERS, work)
        for conn in [publisher, *subscribers]:
            conn.shutdown(socket.SHUT_RDWR)
            conn.close()
        return result


def program_cases():
    return [
        Typed("EVALSHA of INCR P=100", evalsha(INCR, "1", "counter:__rand_int__"), (1 / 1.5, 1 / 3), [loaded(INCR)], random_keys=True),
        Typed("EVALSHA of a rate limiter P=100", LIMITED_BY_SCRIPT, (1 / 1.3, 1 / 2), [loaded(RATE_LIMITER)], random_keys=True),
        Transactions("MULTI 10 SETs EXEC", "µs CPU per transaction", (1 / 3, 1 / 6)),
        Published("PUBLISH to 50 P=100", "µs CPU per message delivered", (1 / 1.5, 1 / 3)),
        AgainstScript("INCREX against a rate limiter P=100", LIMITED_BY_INCREX, LIMITED_BY_SCRIPT, (1 / 4, 1 / 8)),
    ]
