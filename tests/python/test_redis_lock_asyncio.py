# SPDX-License-Identifier: Apache-2.0
"""distlock.compat.redis.asyncio.Lock against what redis-py documents of its Lock."""
import asyncio
import contextlib
import functools
import time

import distlock
import pytest
from distlock.compat.redis import ConnectionError, LockError, LockNotOwnedError, RedisError, TimeoutError, _lock
from distlock.compat.redis.asyncio import Lock
from distlock.v1 import lock_pb2, look_pb2 as look
from fake_broker import FakeSession, eventually


@pytest.fixture
def in_loop(broker):
    """Runs a coroutine function of a client in an event loop."""
    def run(work):
        async def whole():
            async with distlock.aio.connect(broker.url) as dl:
                await work(dl)

        asyncio.run(whole())

    return run


async def soon(condition):
    await asyncio.get_running_loop().run_in_executor(None, eventually, condition)


def test_acquire_and_release(broker, in_loop):
    async def work(dl):
        lock = Lock(dl, b"k", timeout=60, blocking_timeout=10)
        assert await lock.acquire() is True and await lock.owned() and lock.token == lock.local.token == b"1"
        await lock.release()
        assert not await lock.owned() and lock.token is None
        async with Lock(dl, "k", thread_local=False) as lock:
            assert await lock.owned() and await lock.extend(10) and await lock.reacquire()
        assert not await lock.owned()

    in_loop(work)
    spec = broker.session().got("acquire")[0].acquire.locks[0]
    assert spec.key == "k" and not spec.HasField("max_hold") and 0 < spec.max_wait.ToNanoseconds() <= 10 * 10**9
    assert len(broker.session().got("release")) == 2


def test_not_blocking(broker, in_loop):
    broker.on_acquire = lambda session, command: session.refuse(command.id, "LOCK_HELD")

    async def work(dl):
        assert await Lock(dl, "k").acquire(blocking=False) is False
        assert await Lock(dl, "k", blocking=False).acquire() is False
        assert await Lock(dl, "k").acquire(blocking_timeout=0.5) is False
        with pytest.raises(LockError, match="within the time"):
            async with Lock(dl, "k", blocking_timeout=1):
                raise AssertionError("it is not held")
        with pytest.raises(LockError, match="leave token out"):
            await Lock(dl, "k").acquire(token="mine")

    in_loop(work)


def test_what_is_not_held(broker, in_loop):
    async def work(dl):
        lock = Lock(dl, "k")
        for late in (lambda: lock.extend(1), lock.reacquire):
            with pytest.raises(LockError, match="an unlocked lock"):
                late()  # as theirs, before it is awaited
        with pytest.raises(LockError, match="not owned or is already unlocked") as unlocked:
            await lock.release()
        assert unlocked.value.lock_name == "k"
        await lock.acquire()
        session = broker.session()
        session.lose(session.await_command("acquire").id, "FORCED")
        await asyncio.wait_for(lock.local.hold.held.lost.wait(), 20)
        with pytest.raises(LockNotOwnedError):
            await lock.extend(1)
        with pytest.raises(LockNotOwnedError):
            await lock.release()
        with pytest.raises(LockError, match="already unlocked"):
            await lock.release()
        async with Lock(dl, "k", raise_on_release_error=False) as quiet:
            session.lose(session.await_command("acquire", 2).id, "FORCED")
            await asyncio.wait_for(quiet.local.hold.held.lost.wait(), 20)

    in_loop(work)


def test_a_timeout_is_moved(in_loop, monkeypatch):
    now = [10**12]
    monkeypatch.setattr(_lock, "clock", lambda: now[0])

    async def work(dl):
        def left():
            return (lock.local.hold.until - now[0]) / 10**9

        lock = Lock(dl, "k", timeout=1000)
        await lock.acquire()
        now[0] += 100 * 10**9
        assert await lock.extend(50) is True and left() == 950
        assert await lock.extend(50.5, replace_ttl=True) is True and left() == 50.5
        assert await lock.reacquire() is True and left() == 1000
        now[0] += 1000 * 10**9
        assert not await lock.owned()
        for late in (lambda: lock.extend(1000), lock.reacquire, lock.release):
            with pytest.raises(LockNotOwnedError, match="no longer owned"):
                await late()

    in_loop(work)


def test_a_timeout_gives_the_lock_back_while_the_loop_stands_still(broker, in_loop):
    async def work(dl):
        lock, kept = Lock(dl, "k", timeout=0.2), Lock(dl, "kept", timeout=3600)
        await lock.acquire()
        await kept.acquire()
        eventually(lambda: broker.session().got("release"))  # on the loop's own thread
        assert not await lock.owned() and await kept.owned()
        with pytest.raises(LockNotOwnedError):
            async with Lock(dl, "k", timeout=0.05):
                eventually(lambda: len(broker.session().got("release")) == 2)

    in_loop(work)


def test_a_cancelled_acquire_is_withdrawn(broker, in_loop):
    """Also when its grant is on the way, which takes no lock that nobody has."""
    broker.on_acquire = lambda session, command: None

    async def work(dl):
        lock = Lock(dl, "k")
        for number in (1, 2):
            waits = asyncio.ensure_future(lock.acquire())
            await asyncio.sleep(0)
            asked = broker.session().await_command("acquire", number)
            if number == 2:
                broker.session().grant(asked.id)
                eventually(lambda: dl.stats().held)  # the loop has not seen it
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
            assert not await lock.owned() and lock.token is None
            await soon(lambda: (dl.stats().held, dl.stats().waiting) == (0, 0))

    in_loop(work)
    assert len(broker.session().got("cancel")) == 1 and len(broker.session().got("release")) == 1


def test_a_cancelled_release_is_carried_out(broker, in_loop):
    """release() may be called again, as theirs, and hears how the first has ended."""
    async def work(dl):
        lock = Lock(dl, "k")
        await lock.acquire()
        session, held_back = broker.session(), []
        session.obey = lambda command: held_back.append(command) if command.HasField("release") else (
            FakeSession.obey(session, command))
        releases = asyncio.ensure_future(lock.release())
        await soon(lambda: held_back)
        releases.cancel()
        with pytest.raises(asyncio.CancelledError):
            await releases
        assert not await lock.owned()
        asyncio.get_running_loop().call_later(0.05, functools.partial(FakeSession.obey, session, held_back[0]))
        await lock.release()
        assert len(held_back) == 1 and lock.token is None
        with pytest.raises(LockError, match="already unlocked"):
            await lock.release()

    in_loop(work)


def test_tasks_that_share_a_lock(broker, in_loop):
    """One task's release does not forget what another has taken meanwhile."""
    async def work(dl):
        lock, held_back = Lock(dl, "k"), []
        await lock.acquire()
        session = broker.session()
        session.obey = lambda command: held_back.append(command) if command.HasField("release") else (
            FakeSession.obey(session, command))
        releases = asyncio.ensure_future(lock.release())
        await soon(lambda: held_back)
        await lock.acquire()
        FakeSession.obey(session, held_back[0])
        await releases
        assert await lock.owned() and lock.token == b"2"

    in_loop(work)


def test_locked(broker, in_loop):
    count = [1]
    broker.unary["GetLock"] = lambda request, context: look.GetLockResponse(
        lock=lock_pb2.LockInfo(key=request.key, holder_count=count[0]))

    async def work(dl):
        lock = Lock(dl, "k")
        assert await lock.locked() is True
        count[0] = 0
        assert await lock.locked() is False

    in_loop(work)


def test_no_answer_is_what_redis_py_calls_so(folder):
    async def work():
        async with distlock.aio.connect(f"unix://{folder}/nobody.sock") as dl:
            lock = Lock(dl, "k", blocking=False)
            for call in (lock.acquire, lock.locked):
                with pytest.raises(ConnectionError, match="UNREACHABLE") as gone:
                    await call()
                assert isinstance(gone.value, TimeoutError) and isinstance(gone.value, RedisError)
                assert isinstance(gone.value, distlock.Unavailable)

    asyncio.run(work())


def test_the_other_kind_of_client_is_refused(broker, connect):
    async def work():
        async with distlock.aio.connect(broker.url) as dl:
            with pytest.raises(TypeError, match="must be a distlock.Client in place"):
                distlock.compat.redis.Lock(dl, "k")

    asyncio.run(work())
    with pytest.raises(TypeError, match="must be a distlock.aio.Client in place"):
        Lock(connect(broker.url), "k")


def test_a_loop_that_ends_with_a_lock(broker):
    """Its timeout ends it all the same."""
    kept = contextlib.ExitStack()

    async def work():
        dl = distlock.aio.connect(broker.url)
        lock = Lock(dl, "k", timeout=0.3)
        await lock.acquire()
        kept.callback(lambda: (dl, lock))

    asyncio.run(work())
    began = time.monotonic()
    eventually(lambda: broker.session().got("release"))
    assert time.monotonic() - began < 10
