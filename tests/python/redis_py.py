# SPDX-License-Identifier: Apache-2.0
"""Compares distlock.compat.redis with redis-py's Lock, and its asyncio module with redis-py's other one, in an
environment that has both: redis_py.py BROKER REDIS. test_real_redis_py.py runs it."""
import asyncio
import functools
import inspect
import sys
import time

import distlock
import redis
import redis.asyncio
import redis.asyncio.lock
import redis.lock
from distlock.compat import redis as compat
from distlock.compat.redis import Lock, LockError
from distlock.compat.redis import asyncio as compat_asyncio

INSIDE = {"do_acquire", "do_extend", "do_reacquire", "register_scripts"}  # how theirs reaches its store
NAMES = "RedisError", "LockError", "LockNotOwnedError", "ConnectionError", "TimeoutError"


class InTurn:
    """A Lock of asyncio, as the one for threads is: each of its coroutines runs to its end."""

    def __init__(self, loop, lock):
        self._loop, self._lock = loop, lock

    def __getattr__(self, name):
        found = getattr(self._lock, name)
        if not callable(found):
            return found

        @functools.wraps(found)
        def call(*args, **kwargs):
            made = found(*args, **kwargs)
            return self._loop.run_until_complete(made) if inspect.isawaitable(made) else made

        return call

    def __enter__(self):
        self.__getattr__("__aenter__")()
        return self

    def __exit__(self, *error):
        self.__getattr__("__aexit__")(*error)


def parameters(function):
    return [(one.name, one.default) for one in inspect.signature(function).parameters.values()]


def compare_signatures(original, lock):
    for name, theirs in vars(original).items():
        if not inspect.isfunction(theirs) or name in INSIDE:
            continue
        ours = getattr(lock, name)
        assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs), name
        if name in ("__exit__", "__aexit__"):
            assert len(parameters(ours)) == len(parameters(theirs))
            continue
        expected = parameters(theirs)
        assert parameters(ours)[:len(expected)] == expected, name


def story(make, errors, names):
    """What a program sees of a lock, step by step."""
    def attempt(call, *args, **kwargs):
        try:
            return call(*args, **kwargs)
        except errors as error:
            return type(error).__name__, str(error), error.lock_name if names else ""

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


def compare(theirs, ours, names=True):
    """Two functions that make locks. names: theirs say in their errors which lock it was."""
    theirs, ours = list(story(theirs, redis.exceptions.LockError, names)), list(story(ours, LockError, names))
    assert ours == theirs, "\n".join(f"{a}\n{b}" for a, b in zip(ours, theirs) if a != b)


def main():
    with distlock.connect(sys.argv[1]) as dl, redis.Redis.from_url(sys.argv[2]) as store:
        compare_signatures(redis.lock.Lock, Lock)
        compare(lambda name, **more: redis.lock.Lock(store, name, **more), lambda name, **more: Lock(dl, name, **more))
        assert set(vars(redis.lock.Lock(store, "k"))) <= set(vars(Lock(dl, "k")))

    loop = asyncio.new_event_loop()
    dl, store = distlock.aio.connect(sys.argv[1]), redis.asyncio.Redis.from_url(sys.argv[2])
    compare_signatures(redis.asyncio.lock.Lock, compat_asyncio.Lock)
    compare(lambda name, **more: InTurn(loop, redis.asyncio.lock.Lock(store, name, **more)),
            lambda name, **more: InTurn(loop, compat_asyncio.Lock(dl, name, **more)), names=False)
    assert set(vars(redis.asyncio.lock.Lock(store, "k"))) <= set(vars(compat_asyncio.Lock(dl, "k")))
    loop.run_until_complete(dl.close())
    loop.run_until_complete(store.aclose())

    # All that programs import beside a Lock, from redis.exceptions, redis.lock or redis.asyncio.lock.
    for name in NAMES:
        for module in compat, compat_asyncio:
            assert issubclass(getattr(module, name), getattr(redis.exceptions, name)), name
    print("the same")


main()
