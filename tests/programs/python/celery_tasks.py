"""Celery with Redis as broker and result store: tasks, retries, groups, chains and chords: celery_tasks.py PORT."""

import subprocess
import sys

from celery import Celery, chain, chord, group

PORT = sys.argv[1] if __name__ == "__main__" else sys.argv[-1]
app = Celery("celery_tasks", broker=f"redis://127.0.0.1:{PORT}/2", backend=f"redis://127.0.0.1:{PORT}/3")
app.conf.update(result_expires=600, broker_connection_retry_on_startup=True, worker_hijack_root_logger=False)


@app.task(name="add")
def add(a, b):
    return a + b


@app.task(name="total")
def total(numbers):
    return sum(numbers)


@app.task(name="third", bind=True, max_retries=3, default_retry_delay=0)
def third(self):
    if self.request.retries < 2:
        raise self.retry()
    return self.request.retries


@app.task(name="fail")
def fail():
    raise KeyError("nothing")


def main():
    command = [sys.executable, __file__, PORT, "worker"]
    worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        print("a task", add.delay(2, 3).get(timeout=60))
        print("a group", sum(group(add.s(n, n) for n in range(100))().get(timeout=60)))
        print("a chain", chain(add.s(1, 2), add.s(10), add.s(100))().get(timeout=60))
        print("a chord", chord((add.s(n, 1) for n in range(50)), total.s())().get(timeout=60))
        print("tried again", third.delay().get(timeout=60))
        failing = fail.delay()
        print("failed", repr(failing.get(timeout=60, propagate=False)), failing.state)
        later = add.apply_async((1, 1), countdown=600)
        print("pending", later.state)
        later.revoke()
        # The worker takes orders in turn, so it knows of the one before.
        print("revoked", [later.id in known for known in app.control.inspect(timeout=2).revoked().values()])
        print("answers", [list(reply.values())[0] for reply in app.control.ping(timeout=2)])
    finally:
        worker.terminate()
        worker.wait()


if __name__ == "__main__":
    if sys.argv[2:] == ["worker"]:
        app.worker_main(["worker", "--pool=threads", "--concurrency=8", "--loglevel=CRITICAL", "--without-gossip"])
    else:
        main()
