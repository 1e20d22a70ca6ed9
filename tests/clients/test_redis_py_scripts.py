"""Scripts of redis-py: its lock, which extends, renews and releases itself by scripts, and registered scripts in pipelines."""

import threading
import time

import pytest
import redis
from redis.exceptions import LockError, LockNotOwnedError

# So many calls in a window; the answer is whether this is one of them, and how many there were.
RATE_LIMITER = """
local count = tonumber(redis.call('GET', KEYS[1]) or 0)
if count >= tonumber(ARGV[1]) then
    return {0, count}
end
count = redis.call('INCR', KEYS[1])
if count == 1 then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {1, count}
"""


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(server, request):
    with redis.Redis(port=server.port, protocol=request.param, socket_timeout=20) as connected:
        connected.script_flush()
        yield connected


def test_a_lock_keeps_others_out_until_it_is_released(client):
    mine, theirs = client.lock("l", timeout=100), client.lock("l", timeout=100)
    assert mine.acquire(blocking=False) is True
    assert theirs.acquire(blocking=False) is False
    assert mine.locked() and mine.owned() and not theirs.owned()
    mine.release()
    assert client.exists("l") == 0
    assert theirs.acquire(blocking=False) is True
    # Whoever does not have it cannot release it.
    mine.local.token = b"not-the-token"
    with pytest.raises(LockNotOwnedError):
        mine.release()
    assert theirs.owned()
    theirs.release()
    with pytest.raises(LockError):
        theirs.release()


def test_a_lock_is_extended_and_renewed(client):
    lock = client.lock("l", timeout=10)
    assert lock.acquire(blocking=False)
    assert 9_000 <= client.pttl("l") <= 10_000
    assert lock.extend(20)
    assert 28_000 <= client.pttl("l") <= 30_000
    assert lock.extend(5, replace_ttl=True)
    assert client.pttl("l") <= 5_000
    assert lock.reacquire()
    assert 9_000 <= client.pttl("l") <= 10_000
    client.set("l", "somebody-else", px=10_000)
    for change in (lambda: lock.extend(10), lock.reacquire, lock.release):
        with pytest.raises(LockNotOwnedError):
            change()
    assert client.get("l") == b"somebody-else"


def test_a_lock_that_is_forgotten_ends(client):
    assert client.lock("l", timeout=0.05).acquire(blocking=False)
    # Waits until the first one has expired.
    with client.lock("l", timeout=10, sleep=0.005, blocking_timeout=20) as lock:
        assert lock.owned()
    assert client.exists("l") == 0


def test_the_scripts_of_a_lock_come_back_when_the_server_forgot_them(client):
    lock = client.lock("l", timeout=10)
    for _ in range(3):
        assert lock.acquire(blocking=False)
        client.script_flush()
        assert lock.extend(1)
        client.script_flush()
        assert lock.reacquire()
        client.script_flush()
        lock.release()


def test_one_at_a_time_has_the_lock(client):
    taken, inside, most = [], [0], [0]

    def work(number):
        for _ in range(20):
            with client.lock("l", timeout=20, sleep=0.001, blocking_timeout=60):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                # What is not protected would be lost.
                value = int(client.get("counter") or 0)
                client.set("counter", value + 1)
                taken.append(number)
                inside[0] -= 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert int(client.get("counter")) == len(taken) == 160
    assert most[0] == 1


def test_a_registered_script_decides_in_a_pipeline(client):
    limit = client.register_script(RATE_LIMITER)
    assert limit(keys=["user:0"], args=[100, 60_000]) == [1, 1]
    pipe = client.pipeline(transaction=False)
    for number in range(5_000):
        pipe.set(f"before:{number}", number)
        limit(keys=[f"user:{number % 10}"], args=[100, 60_000], client=pipe)
    # A pipeline loads the scripts it needs before it is sent.
    client.script_flush()
    replies = pipe.execute()
    assert replies[::2] == [True] * 5_000
    decisions = replies[1::2]
    assert decisions[:10] == [[1, 2]] + [[1, 1]] * 9
    assert sum(allowed for allowed, _ in decisions) == 10 * 100 - 1
    assert decisions[-1] == [0, 100]
    assert 50_000 < client.pttl("user:9") <= 60_000
    assert client.script_exists(limit.sha) == [True]


def test_a_registered_script_in_a_transaction(client):
    limit = client.register_script(RATE_LIMITER)
    pipe = client.pipeline(transaction=True)
    pipe.set("a", 1)
    limit(keys=["user"], args=[1, 60_000], client=pipe)
    limit(keys=["user"], args=[1, 60_000], client=pipe)
    pipe.incr("a")
    assert pipe.execute() == [True, [1, 1], [0, 1], 2]


def test_a_window_ends(client):
    limit = client.register_script(RATE_LIMITER)
    assert limit(keys=["user"], args=[1, 50]) == [1, 1]
    deadline = time.monotonic() + 20
    while limit(keys=["user"], args=[1, 50]) != [1, 1]:
        assert time.monotonic() < deadline
