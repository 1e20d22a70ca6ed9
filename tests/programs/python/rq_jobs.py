"""RQ: jobs that succeed, fail, are tried again, depend on each other, and are due later: rq_jobs.py PORT."""

import logging
import sys
from datetime import timedelta

from redis import Redis
from rq import Queue, Retry, SimpleWorker
from rq.job import Job
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry

logging.disable(logging.CRITICAL)


def double(n):
    return n * 2


def fail():
    raise RuntimeError("not today")


def second_time(key, port):
    if Redis(port=port).incr(key) < 2:
        raise RuntimeError("the first time")
    return "done"


def after(key, port):
    return int(Redis(port=port).get(key))


if __name__ == "__main__":
    # The worker imports jobs by the name of their module.
    import rq_jobs

    port = int(sys.argv[1])
    connection = Redis(port=port)
    high, low = Queue("high", connection=connection), Queue("low", connection=connection)
    jobs = [(high if n % 3 else low).enqueue(rq_jobs.double, n, result_ttl=600) for n in range(60)]
    failing = low.enqueue(rq_jobs.fail)
    retried = low.enqueue(rq_jobs.second_time, "tries", port, retry=Retry(max=2), result_ttl=600)
    dependent = high.enqueue(rq_jobs.after, "tries", port, depends_on=retried, result_ttl=600)
    later = high.enqueue_in(timedelta(hours=1), rq_jobs.double, 1)
    print("waiting", len(high), len(low), dependent.get_status().value)
    print("worked", SimpleWorker([high, low], connection=connection).work(burst=True))
    print("results", [Job.fetch(job.id, connection=connection).return_value() for job in jobs] == [2 * n for n in range(60)])
    print("failed", FailedJobRegistry(queue=low).get_job_ids() == [failing.id], failing.get_status().value)
    print("tried again", retried.return_value(), dependent.return_value())
    print("finished", len(FinishedJobRegistry(queue=high)), len(FinishedJobRegistry(queue=low)))
    print("later", ScheduledJobRegistry(queue=high).get_job_ids() == [later.id])
    later.cancel()
    print("cancelled", later.get_status().value, len(ScheduledJobRegistry(queue=high)))
    print("left", len(high), len(low))
