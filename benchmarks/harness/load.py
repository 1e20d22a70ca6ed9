"""Raw pipelined clients: fast enough in Python because replies are counted, not parsed."""

import random
import selectors
import time

OK_LEN = len(b"+OK\r\n")


def command(*args):
    """A command as a multibulk."""
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        arg = arg if isinstance(arg, bytes) else str(arg).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(arg), arg))
    return b"".join(parts)


def key(number, prefix="key"):
    """A key as redis-benchmark names them."""
    return b"%s:%012d" % (prefix.encode(), number)


def sets(count, prefix="key", value=b"xxx", extra=(), shuffled=True):
    """`count` SET commands for keys 0..count, in random order (the same every time)."""
    numbers = list(range(count))
    if shuffled:
        random.Random(1).shuffle(numbers)
    tail = b"".join(b"$%d\r\n%s\r\n" % (len(arg), arg) for arg in extra)
    head = b"*%d\r\n$3\r\nSET\r\n" % (3 + len(extra))
    width = len(key(0, prefix))
    out = []
    for number in numbers:
        text = value if value is not None else b"%d" % number
        out.append(b"%s$%d\r\n%s\r\n$%d\r\n%s\r\n%s" % (head, width, key(number, prefix), len(text), text, tail))
    return out


def send_while_reading(conn, data, reply_bytes):
    """Writes all of `data` and reads `reply_bytes` at the same time; returns the seconds it took."""
    conn.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(conn, selectors.EVENT_READ | selectors.EVENT_WRITE)
    view, sent, got = memoryview(data), 0, 0
    buffer = bytearray(1 << 20)
    started = time.perf_counter()
    while got < reply_bytes:
        for _, events in selector.select(60):
            if events & selectors.EVENT_READ:
                count = conn.recv_into(buffer)
                if count == 0:
                    raise SystemExit("the server closed the connection in the middle of a pipeline")
                if got == 0 and buffer[0:1] == b"-":
                    raise SystemExit(f"error reply: {bytes(buffer[:count])[:200]!r}")
                got += count
            if events & selectors.EVENT_WRITE and sent < len(view):
                sent += conn.send(view[sent : sent + (1 << 18)])
                if sent == len(view):
                    selector.modify(conn, selectors.EVENT_READ)
    took = time.perf_counter() - started
    selector.close()
    conn.setblocking(True)
    if got != reply_bytes:
        raise SystemExit(f"{got} bytes of replies, not {reply_bytes}")
    return took


def send_in_batches(conn, commands, batch_len):
    """Sends `batch_len` SET commands, waits for their replies, and so on; returns the seconds it took."""
    batches = [b"".join(commands[i : i + batch_len]) for i in range(0, len(commands), batch_len)]
    buffer = bytearray(1 << 20)
    started = time.perf_counter()
    for index, batch in enumerate(batches):
        want = min(batch_len, len(commands) - index * batch_len) * OK_LEN
        conn.sendall(batch)
        while want > 0:
            count = conn.recv_into(buffer)
            if count == 0:
                raise SystemExit("the server closed the connection in the middle of a batch")
            want -= count
    return time.perf_counter() - started


def run(conn, commands, batch_len=50):
    """Runs any commands in batches; an error reply ends the run."""
    for start in range(0, len(commands), batch_len):
        batch = commands[start : start + batch_len]
        # A command of a kind of its own ends the batch: its reply cannot be taken for another's.
        conn.sendall(b"".join(batch) + b"*2\r\n$4\r\nECHO\r\n$11\r\nend-of-load\r\n")
        got = b""
        while not got.endswith(b"$11\r\nend-of-load\r\n"):
            part = conn.recv(1 << 20)
            if not part:
                raise SystemExit("the server closed the connection in the middle of a load")
            got += part
        if got.startswith(b"-") or b"\r\n-" in got:
            raise SystemExit(f"error reply: {got[:200]!r}")


def load(server, commands):
    """Runs SET commands as one pipeline."""
    with server.connect() as conn:
        send_while_reading(conn, b"".join(commands), len(commands) * OK_LEN)
