"""Ports that no other test uses, in this process or another one."""

import contextlib
import os
import socket

import pytest

# The system gives none of these to connections that clients open.
PORTS = range(11_000, 20_000)
BUS = 10_000
kept = []


def hold(number):
    """Keeps other tests away from a free port, by a UDP socket of the same number."""
    held = socket.socket(type=socket.SOCK_DGRAM)
    try:
        held.bind(("127.0.0.1", number))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", number))
    except OSError:
        held.close()
        raise
    return held


def choose(*beside):
    """A free port that is free with each of `beside` added as well, and the sockets that hold them."""
    start = os.getpid() * 61 % len(PORTS)
    for number in [*PORTS[start:], *PORTS[:start]]:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            held = [stack.enter_context(hold(number + more)) for more in (0, *beside)]
            stack.pop_all()
            return number, held
    pytest.fail("no port is free")


def free_port(*beside):
    """The same, held until the tests end."""
    number, held = choose(*beside)
    kept.extend(held)
    return number
