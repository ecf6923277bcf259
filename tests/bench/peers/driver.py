# SPDX-License-Identifier: Apache-2.0
"""One measurement of one lock library of Python: driver.py --system redis-py --work pairs --redis ... --broker ...

As peer.mjs, in arguments, works and output. Callers are threads, or tasks with --system distlock-asyncio. Each library
has its own defaults; redis-py's locks get the ttl that redis-semaphore has by default.
"""
import argparse
import asyncio
import json
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "client/python"))

TTL_S = 10
QUEUE_UP_S = 0.3  # time for the waiters to queue; redis-py does not report it


def redis_py(options):
    import redis
    url = options.redis if "://" in options.redis else f"unix://{options.redis}"
    store = redis.Redis.from_url(url)
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


def run_all(works):
    """Each on a thread of its own; raises the first error."""
    errors = []

    def guarded(work):
        try:
            work()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    return threads, errors


def finish(threads, errors):
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def pairs(lock, options):
    begin = time.perf_counter() + options.warm
    end = begin + options.seconds
    micros = [[] for _ in range(options.callers)]

    def caller(number):
        asked = time.perf_counter()
        while asked < end:
            with lock(f"peer:py:pair:{number}"):
                pass
            done = time.perf_counter()
            if asked >= begin and done <= end:
                micros[number].append((done - asked) * 1e6)
            asked = done

    finish(*run_all([lambda number=number: caller(number) for number in range(options.callers)]))
    every = [one for mine in micros for one in mine]
    return {"pairs/s": len(every) / options.seconds, **figures(every)}


def handoff(lock, options):
    """Two parties in turn; the holder releases when the waiter has waited for one of the pauses."""
    micros, released = [], [0.0]
    holder = lock("peer:py:handoff")
    holder.__enter__()
    for pause in options.pauses:
        released[0] = 0.0
        following = lock("peer:py:handoff")

        def wait(following=following):
            following.__enter__()
            if released[0] == 0.0:
                raise RuntimeError("two parties held one lock")
            micros.append((time.perf_counter() - released[0]) * 1e6)
            waited.set()
            leave.wait()
            following.__exit__(None, None, None)

        waited, leave = threading.Event(), threading.Event()
        threads, errors = run_all([wait])
        time.sleep(pause / 1000)
        released[0] = time.perf_counter()
        holder.__exit__(None, None, None)
        while not waited.wait(0.05):
            if errors:
                raise errors[0]
        leave.set()
        finish(threads, errors)
        holder = lock("peer:py:handoff")
        holder.__enter__()
    holder.__exit__(None, None, None)
    return figures(micros)


def queue_once(lock, options):
    holders = [1]

    def waiter():
        with lock("peer:py:queue"):
            holders[0] += 1
            if holders[0] != 1:
                raise RuntimeError("two parties held one lock")
            hold(options.hold / 1000)
            holders[0] -= 1

    first = lock("peer:py:queue")
    first.__enter__()
    threads, errors = run_all([waiter] * options.waiters)
    time.sleep(QUEUE_UP_S)
    start = time.perf_counter()
    holders[0] -= 1
    first.__exit__(None, None, None)
    finish(threads, errors)
    return (time.perf_counter() - start) * 1000


def queue(lock, options):
    millis = sorted(queue_once(lock, options) for _ in range(options.runs))
    return {"makespan ms": millis[len(millis) // 2], "slowest ms": millis[-1]}


async def pairs_of_tasks(options):
    """The same with asyncio."""
    import distlock
    micros = []
    async with distlock.aio.connect(options.broker) as dl:
        begin = time.perf_counter() + options.warm
        end = begin + options.seconds

        async def caller(number):
            asked = time.perf_counter()
            while asked < end:
                async with dl.lock(f"peer:py:pair:{number}"):
                    pass
                done = time.perf_counter()
                if asked >= begin and done <= end:
                    micros.append((done - asked) * 1e6)
                asked = done

        await asyncio.gather(*(caller(number) for number in range(options.callers)))
    return {"pairs/s": len(micros) / options.seconds, **figures(micros)}


def main():
    parser = argparse.ArgumentParser()
    for name, kind in (("system", str), ("work", str), ("redis", str), ("broker", str), ("callers", int),
                       ("seconds", float), ("warm", float), ("runs", int), ("waiters", int), ("hold", float)):
        parser.add_argument(f"--{name}", type=kind)
    parser.add_argument("--pauses", type=lambda text: [float(one) for one in text.split(",")], default=[])
    options = parser.parse_args()
    if options.system == "distlock-asyncio":
        return asyncio.run(pairs_of_tasks(options))
    lock = SYSTEMS[options.system](options)
    return {"pairs": pairs, "handoff": handoff, "queue": queue}[options.work](lock, options)


try:
    answer = {"values": main()}
except Exception as error:
    answer = {"error": f"{type(error).__name__}: {error}"}
print(json.dumps(answer))
sys.exit("error" in answer)
