# SPDX-License-Identifier: Apache-2.0
"""One measurement of one lock library of Python: driver.py --system redis-py --work pairs --store ... --broker ...

As peer.mjs, in arguments, works and output. Callers are threads. Each library has its own defaults; redis-py's locks
get the ttl that redlock's get.
"""
import argparse
import json
import os
import pathlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "client/python"))

TTL_S = 10
QUEUE_UP_S = 0.3  # time for the waiters to queue; redis-py does not report it


def redis_py(options):
    import redis
    store = redis.Redis.from_url(options.store)
    return lambda key: redis.lock.Lock(store, key, timeout=TTL_S)


def distlock_threads(options):
    import distlock
    dl = distlock.connect(options.broker)
    return lambda key: dl.lock(key)


SYSTEMS = {"redis-py": redis_py, "distlock": distlock_threads}


def percentile(values, part):
    values = sorted(values)
    return values[int(part * (len(values) - 1))]


def figures(micros):
    if not micros:
        raise RuntimeError("nothing was done")
    return {"p50 µs": percentile(micros, 0.5), "p99 µs": percentile(micros, 0.99)}


def hold(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        time.sleep(0)


def together(count, work):
    """Runs work(number) on that many threads, and returns what they give."""
    pool = ThreadPoolExecutor(count)
    return [done.result() for done in [pool.submit(work, number) for number in range(count)]]


def pairs(lock, options):
    begin = time.perf_counter() + options.warm
    end = begin + options.seconds

    def caller(number):
        micros = []
        asked = time.perf_counter()
        while asked < end:
            with lock(f"peer:py:pair:{number}"):
                pass
            done = time.perf_counter()
            if asked >= begin and done <= end:
                micros.append((done - asked) * 1e6)
            asked = done
        return micros

    every = sum(together(options.callers, caller), [])
    return {"pairs/s": len(every) / options.seconds, **figures(every)}


def handoff(lock, options):
    """Two parties; the holder releases when the waiter has waited for one of the pauses."""
    micros = []
    other = ThreadPoolExecutor(1)  # a lock belongs to its thread
    for pause in options.pauses:
        mine, theirs = lock("peer:py:handoff"), lock("peer:py:handoff")

        def take(waiter=theirs):
            waiter.__enter__()
            return time.perf_counter()

        mine.__enter__()
        granted = other.submit(take)
        time.sleep(pause / 1000)
        if granted.done():
            raise granted.exception() or RuntimeError("two parties held one lock")
        released = time.perf_counter()
        mine.__exit__(None, None, None)
        micros.append((granted.result() - released) * 1e6)
        other.submit(theirs.__exit__, None, None, None).result()
    return figures(micros)


def queue_once(lock, options):
    """The time from the release that starts the waiters to the last release, in ms."""
    holders = 1

    def waiter(_):
        nonlocal holders
        with lock("peer:py:queue"):
            holders += 1
            if holders != 1:
                raise RuntimeError("two parties held one lock")
            hold(options.hold / 1000)
            holders -= 1

    first = lock("peer:py:queue")
    first.__enter__()
    all_served = ThreadPoolExecutor(1).submit(together, options.waiters, waiter)
    time.sleep(QUEUE_UP_S)
    start = time.perf_counter()
    holders -= 1
    first.__exit__(None, None, None)
    all_served.result()
    return (time.perf_counter() - start) * 1000


def queue(lock, options):
    millis = sorted(queue_once(lock, options) for _ in range(options.runs))
    return {"makespan ms": millis[len(millis) // 2], "slowest ms": millis[-1]}


def main():
    parser = argparse.ArgumentParser()
    for name, kind in (("system", str), ("work", str), ("store", str), ("broker", str), ("callers", int),
                       ("seconds", float), ("warm", float), ("runs", int), ("waiters", int), ("hold", float)):
        parser.add_argument(f"--{name}", type=kind)
    parser.add_argument("--pauses", type=lambda text: [float(one) for one in text.split(",")], default=[])
    options = parser.parse_args()
    lock = SYSTEMS[options.system](options)
    return {"pairs": pairs, "handoff": handoff, "queue": queue}[options.work](lock, options)


try:
    answer = {"values": main()}
except Exception as error:
    answer = {"error": f"{type(error).__name__}: {error}"}
print(json.dumps(answer), flush=True)
os._exit("error" in answer)  # threads may wait for a lock that nobody gives back
