"""Scripts, and the commands that spare them: what is measured, and the limits and goals."""

import hashlib

from . import load
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


def program_cases():
    return [
        Typed("EVALSHA of INCR P=100", evalsha(INCR, "1", "counter:__rand_int__"), (1 / 1.5, 1 / 3), [loaded(INCR)], random_keys=True),
        Typed("EVALSHA of a rate limiter P=100", LIMITED_BY_SCRIPT, (1 / 1.3, 1 / 2), [loaded(RATE_LIMITER)], random_keys=True),
        AgainstScript("INCREX against a rate limiter P=100", LIMITED_BY_INCREX, LIMITED_BY_SCRIPT, (1 / 4, 1 / 8)),
    ]
