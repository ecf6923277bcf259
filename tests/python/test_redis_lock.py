# SPDX-License-Identifier: Apache-2.0
"""distlock.compat.redis.Lock against what redis-py documents of its Lock."""
import _thread
import gc
import threading

import distlock
import interrupts
import pytest
from distlock.compat.redis import ConnectionError, Lock, LockError, LockNotOwnedError, RedisError, TimeoutError, _lock
from fake_broker import eventually


@pytest.fixture
def dl(broker, connect):
    return connect(broker.url)


def test_acquire_and_release(broker, dl):
    lock = Lock(dl, "k", timeout=60, blocking_timeout=10)
    assert lock.acquire() is True and lock.owned() and lock.token == b"1"
    lock.release()
    assert not lock.owned() and lock.token is None
    spec = broker.session().got("acquire")[0].acquire.locks[0]
    assert not spec.HasField("max_hold") and 0 < spec.max_wait.ToNanoseconds() <= 10 * 10**9


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
    held = lock.local.hold.held
    session = broker.session()
    session.lose(session.await_command("acquire").id, "FORCED")
    assert held.lost.wait(20)
    with pytest.raises(LockNotOwnedError):
        lock.extend(1)
    with pytest.raises(LockNotOwnedError):
        lock.release()
    with Lock(dl, "k", raise_on_release_error=False) as quiet:
        session.lose(session.await_command("acquire", 2).id, "FORCED")
        assert quiet.local.hold.held.lost.wait(20)


class Moment:
    """The shim's clock, for the tests that move it."""

    def __init__(self, monkeypatch):
        self.now = 10**12
        monkeypatch.setattr(_lock, "clock", lambda: self.now)

    def pass_by(self, seconds):
        self.now += seconds * 10**9


def left(lock):
    return (lock.local.hold.until - _lock.clock()) / 10**9


def test_a_timeout_is_moved(broker, dl, monkeypatch):
    moment = Moment(monkeypatch)
    lock = Lock(dl, "k", timeout=1000)
    lock.acquire()
    moment.pass_by(100)
    assert left(lock) == 900
    assert lock.extend(50) is True and left(lock) == 950
    assert lock.extend(50.5, replace_ttl=True) is True and left(lock) == 50.5
    assert lock.reacquire() is True and left(lock) == 1000
    moment.pass_by(999)
    assert lock.owned()
    moment.pass_by(1)
    assert not lock.owned()
    for late in (lambda: lock.extend(1000), lock.reacquire, lock.release):
        with pytest.raises(LockNotOwnedError, match="no longer owned"):
            late()
    with pytest.raises(LockError, match="not owned or is already unlocked"):
        lock.release()


def test_a_timeout_gives_the_lock_back(broker, dl):
    """Also when nobody has it any more: it belongs to the key until then."""
    lock = Lock(dl, "k", timeout=0.2)
    lock.acquire()
    kept = Lock(dl, "kept", timeout=3600)
    kept.acquire()
    Lock(dl, "dropped", timeout=0.4).acquire()
    gc.collect()
    eventually(lambda: len(broker.session().got("release")) == 2)
    assert not lock.owned() and kept.owned()
    with pytest.raises(LockNotOwnedError):
        with Lock(dl, "k", timeout=0.05) as inside:
            eventually(lambda: not inside.owned())
    kept.extend(0.05, replace_ttl=True)  # sooner: the thread that waits for an hour hears of it
    eventually(lambda: len(broker.session().got("release")) == 4)


def test_threads_of_timeouts_end_with_their_locks(broker, dl):
    before = _thread._count()
    locks = [Lock(dl, f"k{number}", timeout=3600) for number in range(30)]
    for lock in locks:
        lock.acquire()
    assert _thread._count() >= before + 30
    session = broker.session()
    for lock, command in zip(locks[:15], session.got("acquire")):
        session.lose(command.id, "FORCED")
    for lock in locks[15:]:
        lock.release()
    eventually(lambda: _thread._count() <= before + 10)


def test_a_signal_handler_may_extend(broker, dl):
    lock = Lock(dl, "k", timeout=1000)
    lock.acquire()
    interrupts.storm(lambda: lock.extend(1, replace_ttl=True), lambda: lock.extend(1, replace_ttl=True), 300)
    assert lock.owned()
    lock.release()


@pytest.mark.parametrize("timeout", [-1, 1e10, float("nan")])
def test_a_timeout_that_cannot_be(dl, timeout):
    with pytest.raises(ValueError, match="timeout is"):
        Lock(dl, "k", timeout=timeout)


def test_no_answer_is_what_redis_py_calls_so(folder, connect):
    lock = Lock(connect(f"unix://{folder}/nobody.sock"), "k", blocking=False)
    with pytest.raises(ConnectionError, match="UNREACHABLE") as gone:
        lock.acquire()
    assert isinstance(gone.value, TimeoutError) and isinstance(gone.value, RedisError)
    assert isinstance(gone.value, distlock.Unavailable) and gone.value.reason == "UNREACHABLE"
    assert isinstance(gone.value.__cause__, distlock.Unavailable)


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
