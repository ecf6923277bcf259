# SPDX-License-Identifier: Apache-2.0
"""Compares distlock.compat.portalocker with portalocker, in an environment that has both: portalockers.py BROKER REDIS
FOLDER. test_real_files.py runs it."""
import functools
import inspect
import pathlib
import pickle
import sys
import threading
import warnings

import distlock
import portalocker
import redis
from distlock.compat import portalocker as compat

CLASSES = ("Lock", "RLock", "TemporaryFileLock", "BoundedSemaphore", "NamedBoundedSemaphore", "RedisLock")
# How theirs names its files, and reaches its store.
INSIDE = {"get_filenames", "get_random_filenames", "get_filename", "try_lock", "get_connection", "channel_handler",
          "client_name", "legacy_client_name", "check_or_kill_lock", "probe", "fence_key"}


def compare_signatures(theirs, ours):
    for name, value in inspect.getmembers(theirs):
        if name.startswith("_") and name not in ("__init__", "__enter__", "__exit__", "__delete__") or name in INSIDE:
            continue
        if inspect.isfunction(value):
            plain = [(one.name, one.default, one.kind) for one in inspect.signature(value).parameters.values()]
            found = [(one.name, one.default, one.kind) for one in
                     inspect.signature(getattr(ours, name)).parameters.values() if one.name not in ("dl", "key")]
            assert name == "__exit__" or plain == found, (ours, name, plain, found)


def attempt(call, *args, **kwargs):
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return [one.__name__ for one in type(error).__mro__ if one.__module__.startswith("portalocker")] or repr(error)


def story(of, path):
    """Each step of a program with locks on files, as it sees it. of: the package."""
    path.write_text("before\n")
    lock, other = of.Lock(path, "w", timeout=0.2), of.Lock(path, "w", timeout=0.2)
    yield lock.filename, lock.mode, lock.truncate, lock.timeout, lock.check_interval, lock.fail_when_locked, lock.fh
    yield of.Lock(path).mode, of.Lock(path).timeout, attempt(lock.release)
    with lock as fh:
        yield fh is lock.fh, lock.acquire() is fh, fh.mode, fh.name == lock.filename, path.read_text()
        fh.write("x")
        fh.seek(0)
        fh.write("inside")
        yield attempt(other.acquire), attempt(other.acquire, timeout=0), attempt(other.acquire, fail_when_locked=True)
        yield attempt(of.Lock(path, fail_when_locked=True).acquire), other.fh
        yield attempt(other.__enter__), attempt(of.Lock(path, "r", flags=of.LOCK_SH | of.LOCK_NB, timeout=0).acquire)
    yield fh.closed, lock.fh, path.read_text(), attempt(lock.release)
    with of.Lock(path, "rb", encoding=None) as fh, of.Lock(path.with_name("b"), "ab"):
        yield fh.read(), fh.mode
    readers = [of.Lock(path, "r", flags=of.LOCK_SH | of.LOCK_NB, timeout=1) for _ in range(2)]
    with readers[0] as one, readers[1] as two:
        yield one.read(), two.read(), attempt(other.acquire)
    yield attempt(of.Lock(path.with_name("none") / "x").acquire), attempt(of.Lock(path, "r", wrong=1).acquire)
    yield attempt(of.Lock, path, nothing=1) is None, in_vain(of, path)
    yield from waiting(of, path)
    yield from recursive(of, path)
    yield from temporary(of, path.with_name("temporary"))


def in_vain(of, path):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        of.Lock(path, timeout=1, flags=of.LOCK_EX)
    return [str(one.message) for one in heard]


def waiting(of, path):
    """One that blocks, and one with a timeout, get it when it is given back."""
    for options in {"flags": of.LOCK_EX}, {"timeout": 60, "check_interval": 0.01}:
        held, waiter, got = of.Lock(path), of.Lock(path, **options), []
        held.acquire()
        thread = threading.Thread(target=lambda: got.append(waiter.acquire() is waiter.fh))
        thread.start()
        thread.join(0.2)
        yield got, waiter.fh
        held.release()
        thread.join()
        yield got
        waiter.release()


def recursive(of, path):
    lock, other = of.RLock(path), of.RLock(path, fail_when_locked=True)
    yield lock.acquire() is lock.acquire(), attempt(other.acquire)
    lock.release()
    yield lock.fh.closed, attempt(other.acquire)
    with lock:
        pass
    yield lock.fh.closed
    lock.release()
    yield lock.fh, attempt(lock.release), attempt(other.release), attempt(other.acquire) is other.fh
    other.release()


def temporary(of, path):
    lock, other = of.TemporaryFileLock(path), of.TemporaryFileLock(path)
    yield lock.filename == str(path), lock.fail_when_locked, path.exists()
    with lock:
        yield path.exists(), attempt(other.acquire)
    yield path.exists(), attempt(lock.release)
    with other:
        yield path.exists()
    yield path.exists()


def semaphores(of, folder):
    make = functools.partial(of.NamedBoundedSemaphore, 2, "two", directory=str(folder), timeout=0.2)
    one, two, three = make(), make(), make()
    yield one.maximum, one.name, one.timeout, one.fail_when_locked, one.lock, attempt(one.release)
    yield bool(one.acquire()), bool(two.acquire()), one.lock is not None, attempt(one.acquire)
    yield attempt(three.acquire), three.acquire(fail_when_locked=False), three.acquire(0, None, False), three.lock
    yield attempt(make(fail_when_locked=False).acquire)
    one.release()
    yield one.lock, bool(three.acquire())
    two.release(), three.release()
    with make() as slot:
        yield bool(slot)
    yield of.NamedBoundedSemaphore(1).name != of.NamedBoundedSemaphore(1).name, named(of)


def named(of):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        of.BoundedSemaphore(1), of.BoundedSemaphore(1, name="mine")
    return [one.category for one in heard]


def channels(of, connection):
    make = functools.partial(of.RedisLock, "channel", connection, timeout=0.3)
    lock, other = make(interrupt_on_lost=False), make()
    yield lock.channel, lock.timeout, lock.fail_when_locked, lock.lost, attempt(lock.release), lock.ensure_held()
    with lock as same:
        yield same is lock, lock.lost, lock.ensure_held(), attempt(lock.acquire), attempt(other.acquire)
        yield attempt(other.acquire, fail_when_locked=True)
    with other:
        yield attempt(lock.acquire)
    with make(flags=of.LockFlags.SHARED), make(flags=of.LockFlags.SHARED):
        yield attempt(lock.acquire)
    yield attempt(make, flags=of.LOCK_EX | of.LOCK_NB), lock.lost
    tokens = []
    for _ in range(3):
        with make(fencing=True) as held:
            tokens.append(held.fence_token)
    yield tokens == sorted(set(tokens))


class Ours:
    """The shim, whose locks have this client."""

    def __init__(self, dl):
        self._dl = dl

    def __getattr__(self, name):
        found = getattr(compat, name)
        return functools.partial(found, dl=self._dl) if name in CLASSES and name != "RedisLock" else found


def same(theirs, ours):
    theirs, ours = [repr(one) for one in theirs], [repr(one) for one in ours]
    assert ours == theirs, "\n".join(f"{a}\n{b}" for a, b in zip(theirs, ours) if a != b)


def main():
    broker, store, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    for name in CLASSES:
        compare_signatures(getattr(portalocker, name), getattr(compat, name))
    dl = distlock.connect(broker)
    same(story(portalocker, folder / "a"), story(Ours(dl), folder / "a"))
    same(semaphores(portalocker, folder), semaphores(Ours(dl), folder))
    same(channels(portalocker, redis.Redis.from_url(store, decode_responses=True)), channels(Ours(dl), dl))
    for name in "AlreadyLocked", "LockException", "LockLostError":
        assert issubclass(getattr(compat, name), getattr(portalocker, name)), name
    assert issubclass(compat.ConnectionError, portalocker.LockException)
    assert issubclass(compat.LockLostError, distlock.LockLost)
    lost = pickle.loads(pickle.dumps(compat.LockLostError("k", "EXPIRED", "why")))
    assert (lost.key, lost.cause) == ("k", "EXPIRED") and "EXPIRED" in str(lost)
    assert issubclass(compat.ConnectionError, distlock.Unavailable)
    assert not list(dl.list()), "a lock is left"
    print("the same")


main()
