# SPDX-License-Identifier: Apache-2.0
"""distlock.compat.redis.Lock against what redis-py documents of its Lock."""
import threading

import pytest
from distlock.compat.redis import Lock, LockError, LockNotOwnedError


@pytest.fixture
def dl(broker, connect):
    return connect(broker.url)


def test_acquire_and_release(broker, dl):
    lock = Lock(dl, "k", timeout=60, blocking_timeout=10)
    assert lock.acquire() is True and lock.owned() and lock.token == b"1"
    lock.release()
    assert not lock.owned() and lock.token is None
    spec = broker.session().got("acquire")[0].acquire.locks[0]
    assert spec.max_hold.seconds == 60 and 0 < spec.max_wait.ToNanoseconds() <= 10 * 10**9


def test_not_blocking(broker, dl):
    broker.on_acquire = lambda session, command: session.refuse(command.id, "LOCK_HELD")
    assert Lock(dl, "k").acquire(blocking=False) is False
    assert Lock(dl, "k", blocking=False).acquire() is False
    assert Lock(dl, "k").acquire(blocking_timeout=0.5) is False
    with pytest.raises(LockError, match="within the time"):
        with Lock(dl, "k", blocking_timeout=1):
            pass


def test_the_context_manager(dl):
    with Lock(dl, "k") as lock:
        assert lock.owned() and lock.extend(10) and lock.reacquire()
    assert not lock.owned()


def test_releasing_what_is_not_held(broker, dl):
    lock = Lock(dl, "k")
    with pytest.raises(LockError):
        lock.release()
    with pytest.raises(LockError):
        lock.extend(1)
    assert issubclass(LockError, ValueError) and issubclass(LockNotOwnedError, LockError)
    lock.acquire()
    held = lock.local.held
    session = broker.session()
    session.lose(session.await_command("acquire").id, "FORCED")
    assert held.lost.wait(20)
    with pytest.raises(LockNotOwnedError):
        lock.extend(1)
    with pytest.raises(LockNotOwnedError):
        lock.release()
    with Lock(dl, "k", raise_on_release_error=False) as quiet:
        session.lose(session.await_command("acquire", 2).id, "FORCED")
        assert quiet.local.held.lost.wait(20)


def test_extend_cannot_move_a_timeout(dl):
    with Lock(dl, "k", timeout=5) as lock:
        with pytest.raises(LockError, match="leave it out"):
            lock.extend(5)


@pytest.mark.parametrize("thread_local, owned", [(True, False), (False, True)])
def test_thread_local(dl, thread_local, owned):
    lock, seen = Lock(dl, "k", thread_local=thread_local), []
    lock.acquire()
    other = threading.Thread(target=lambda: seen.append(lock.owned()))
    other.start()
    other.join()
    assert seen == [owned]


def test_locked(broker, dl):
    from distlock.v1 import lock_pb2, look_pb2 as look
    count = [1]
    broker.unary["GetLock"] = lambda request, context: look.GetLockResponse(
        lock=lock_pb2.LockInfo(key=request.key, holder_count=count[0]))
    lock = Lock(dl, "k")
    assert lock.locked() is True
    count[0] = 0
    assert lock.locked() is False
