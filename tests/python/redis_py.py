# SPDX-License-Identifier: Apache-2.0
"""Compares distlock.compat.redis.Lock with redis-py's Lock, in an environment that has both: redis_py.py BROKER REDIS.
test_real_redis_py.py runs it."""
import inspect
import sys
import time

import distlock
import redis
import redis.lock
from distlock.compat import redis as compat
from distlock.compat.redis import Lock, LockError, LockNotOwnedError

INSIDE = {"do_acquire", "do_extend", "do_reacquire", "register_scripts"}  # how theirs reaches its store


def parameters(function):
    return [(one.name, one.default) for one in inspect.signature(function).parameters.values()]


def compare_signatures():
    for name, theirs in vars(redis.lock.Lock).items():
        if not inspect.isfunction(theirs) or name in INSIDE:
            continue
        ours = getattr(Lock, name)
        if name == "__exit__":
            assert len(parameters(ours)) == len(parameters(theirs))
            continue
        expected = parameters(theirs)
        assert parameters(ours)[:len(expected)] == expected, name
    attributes = set(vars(redis.lock.Lock(redis.Redis(), "k"))) - {"local"}
    assert attributes <= set(vars(Lock(distlock.connect(sys.argv[1]), "k")))


def story(make, errors):
    """What a program sees of a lock, step by step."""
    def attempt(call, *args, **kwargs):
        try:
            return call(*args, **kwargs)
        except errors as error:
            return type(error).__name__, str(error), error.lock_name

    lock, other = make("k"), make("k", blocking=False)
    yield attempt(lock.release)
    yield attempt(lock.extend, 1)
    yield lock.locked(), lock.owned()
    yield lock.acquire()
    yield lock.locked(), lock.owned(), other.locked(), other.owned()
    yield other.acquire(), other.acquire(blocking_timeout=0.2), other.acquire(blocking=True, blocking_timeout=0.2)
    yield attempt(other.__enter__)
    yield attempt(other.release)
    yield attempt(lock.release)
    yield attempt(lock.release)
    yield lock.locked(), lock.owned()
    for seconds in (0.2, 60):  # one ends, one is extended
        short = make("short", timeout=0.2)
        yield short.acquire(), short.extend(seconds, replace_ttl=True), short.reacquire(), short.extend(seconds)
        time.sleep(0.7)
        yield short.owned(), short.locked(), attempt(short.extend, 5), attempt(short.release)
        yield attempt(short.reacquire), attempt(short.release)
    with make("k", timeout=60) as inside:
        yield inside.owned(), isinstance(inside.local.token, bytes), other.acquire(blocking=False)
    yield inside.owned(), inside.local.token
    yield make(b"k" if errors is LockError else "k").locked()


def main():
    compare_signatures()
    store = redis.Redis.from_url(sys.argv[2])
    dl = distlock.connect(sys.argv[1])
    theirs = list(story(lambda name, **more: redis.lock.Lock(store, name, **more), redis.exceptions.LockError))
    ours = list(story(lambda name, **more: Lock(dl, name, **more), LockError))
    assert ours == theirs, "\n".join(f"{a}\n{b}" for a, b in zip(ours, theirs) if a != b)
    # All that programs import beside a Lock, from redis.exceptions or redis.lock.
    for name in ("RedisError", "LockError", "LockNotOwnedError", "ConnectionError", "TimeoutError"):
        assert issubclass(getattr(compat, name), getattr(redis.exceptions, name)), name
    print("the same")


main()
