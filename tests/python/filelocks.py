# SPDX-License-Identifier: Apache-2.0
"""Compares distlock.compat.filelock with filelock, in an environment that has both: filelocks.py BROKER FOLDER.
test_real_files.py runs it."""
import asyncio
import inspect
import pathlib
import pickle
import sys
import threading

import distlock
import distlock.compat.filelock as compat
import filelock
from distlock.compat.filelock import asyncio as compat_asyncio

OF_FILES = {"has_explicit_mode", "context_error_policy", "close_error_policy", "fallback_to_soft",
            "preserve_lock_file", "on_acquired", "loop", "executor", "run_in_executor", "pid", "is_lock_held_by_us",
            "break_lock", "__del__", "__init_subclass__"}


def compare_signatures(theirs, ours):
    made = {name: value for one in reversed(theirs.__mro__) if one.__module__.startswith("filelock")
            for name, value in vars(one).items()}
    for name, value in made.items():
        if name in OF_FILES or name.startswith("_") and not name.startswith("__"):
            continue
        if inspect.isfunction(value):
            expected, found = (inspect.signature(one).parameters for one in (value, getattr(ours, name)))
            if name not in ("__exit__", "__aexit__"):
                plain = [(one.name, one.default, one.kind) for one in expected.values()]
                assert plain == [(one.name, one.default, one.kind) for one in found.values()][:len(plain)], name
            assert inspect.iscoroutinefunction(value) == inspect.iscoroutinefunction(getattr(ours, name)), name
        elif isinstance(value, property):
            assert hasattr(ours("x"), name), name


def attempt(call, *args, **kwargs):
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)


def state(*locks):
    return [(one.is_locked, one.lock_counter) for one in locks]


def in_thread(call):
    found = []
    thread = threading.Thread(target=lambda: found.append(attempt(call)))
    thread.start()
    thread.join()
    return found


def story(make, path):
    """Each step of a program, as it sees it. make(path, **options)."""
    lock, other = make(path), make(path)
    yield lock.lock_file, lock.timeout, lock.blocking, lock.poll_interval, lock.lifetime, lock.mode
    yield lock.is_singleton, lock.is_thread_local(), state(lock)
    yield attempt(lock.release), state(lock)
    with lock as same:
        yield same is lock, state(lock, other)
        yield attempt(other.acquire, timeout=0), attempt(other.acquire, timeout=0.2), attempt(other.acquire, 0.1, 0.05)
        yield attempt(other.acquire, blocking=False), attempt(other.acquire, blocking=False, timeout=float("nan"))
        yield attempt(other.acquire, timeout=60, cancel_check=lambda: True)
        with lock.acquire() as again, lock.acquire():
            yield again is lock, state(lock, other)
        yield state(lock, other)
        yield in_thread(lambda: state(lock)), in_thread(lambda: lock.acquire(timeout=0)), state(lock)
    yield state(lock, other), in_thread(lambda: other.acquire(timeout=5).lock is other), state(other)
    other.release(force=True)
    lock.acquire(), lock.acquire(), lock.acquire()
    yield state(lock)
    lock.release()
    yield state(lock)
    lock.release(force=True)
    yield state(lock), attempt(lock.release), state(lock)
    other.timeout, other.blocking = 0.05, True
    lock.acquire()
    yield other.timeout, attempt(other.acquire)
    lock.release()
    shared = make(path, thread_local=False)
    shared.acquire()
    yield shared.is_thread_local(), in_thread(lambda: shared.acquire(timeout=0).lock is shared), state(shared)
    yield in_thread(shared.release), state(shared)
    shared.release()
    yield state(shared)
    yield from singletons(make, path)
    yield attempt(make, path, blocking=1), attempt(make(path).acquire, blocking=1)
    yield attempt(make(path).acquire, float("nan")), attempt(make, path, wait=1)[0]
    try:
        with lock:
            raise KeyError("the body's own")
    except KeyError as error:
        yield str(error), state(lock)

    @make(path)
    def decorated(number):
        return number + 1
    yield decorated(1), state(lock)


def singletons(make, path):
    one = make(path, is_singleton=True, timeout=1)
    yield make(path, is_singleton=True, timeout=1) is one, make(path + "2", is_singleton=True) is one, one.is_singleton
    yield attempt(make, path, is_singleton=True, timeout=2), make(path, timeout=1) is one
    with one, make(path, is_singleton=True, timeout=1):
        yield state(one)
    yield state(one)


async def attempt_later(made):
    try:
        return await made
    except Exception as error:
        return type(error).__name__, str(error)


async def async_story(make, path):
    lock, other = make(path), make(path)
    yield lock.is_thread_local(), state(lock), attempt(lock.__enter__)[0]
    async with lock as same:
        yield same is lock, state(lock, other)
        yield [await attempt_later(other.acquire(**how)) for how in (
            {"timeout": 0}, {"timeout": 0.2}, {"blocking": False}, {"timeout": 60, "cancel_check": lambda: True})]
        async with await lock.acquire() as again:
            yield again is lock, state(lock)

        async def elsewhere():
            async with lock:  # another task of the same lock comes in
                return state(lock)
        yield await asyncio.gather(elsewhere()), state(lock)
        waiting = asyncio.ensure_future(other.acquire(timeout=60))
        await asyncio.sleep(0.1)
        waiting.cancel()
        yield await asyncio.gather(waiting, return_exceptions=True) != [], state(other)
    yield state(lock, other), (await other.acquire()).lock is other
    await other.acquire()
    await other.release(force=True)
    yield state(other), await attempt_later(other.release())
    yield attempt(make, path, thread_local=True)
    both = make(path), make(path)
    yield await asyncio.gather(*(turn(one) for one in both))
    yield make(path, is_singleton=True) is make(path, is_singleton=True)


async def turn(lock):
    async with lock:
        await asyncio.sleep(0.05)
        return state(lock)


async def told(story):
    return [step async for step in story]


def same(theirs, ours):
    theirs, ours = [repr(one) for one in theirs], [repr(one) for one in ours]
    assert ours == theirs, "\n".join(f"{a}\n{b}" for a, b in zip(theirs, ours) if a != b)


def main():
    broker, path = sys.argv[1], str(pathlib.Path(sys.argv[2], "a.lock"))
    dl, loop_dl = distlock.connect(broker), distlock.aio.connect(broker)
    compare_signatures(filelock.FileLock, compat.FileLock)
    compare_signatures(filelock.AsyncFileLock, compat.AsyncFileLock)
    same(story(filelock.FileLock, path), story(lambda path, **more: compat.FileLock(path, dl=dl, **more), path))

    async def both():
        same(await told(async_story(filelock.AsyncFileLock, path)),
             await told(async_story(lambda path, **more: compat.AsyncFileLock(path, dl=loop_dl, **more), path)))
        await loop_dl.close()

    asyncio.run(both())
    assert compat.Timeout is filelock.Timeout and compat_asyncio.Timeout is filelock.Timeout
    assert str(pickle.loads(pickle.dumps(compat.Timeout("a")))) == str(filelock.Timeout("a"))
    assert not list(dl.list()), "a lock is left"
    print("the same")


main()
