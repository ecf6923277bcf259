# SPDX-License-Identifier: Apache-2.0
"""No lock is without an owner: whatever happens to a program, what nobody can give back any more is given back."""
import asyncio
import contextlib
import copy
import functools
import gc
import logging
import os
import pickle
import random
import time

import distlock
import grpc
import interrupts
import pytest
from distlock.compat import redis as compat
from fake_broker import eventually


def held_keys(broker):
    """What a broker would still hold: granted, and neither released nor withdrawn since."""
    held = {}
    for command in [one for session in broker.sessions if not session.ended.is_set() for one in session.commands]:
        kind = command.WhichOneof("command")
        if kind == "acquire":
            held.update({command.id + i: lock.key for i, lock in enumerate(command.acquire.locks)})
        elif kind == "release":
            held.pop(command.release.acquire_id, None)
        elif kind == "cancel":
            held.pop(command.cancel.acquire_id, None)
    return held


@pytest.mark.parametrize("kind", ["fresh", "again", "several", "by hand", "stack", "decorated"])
def test_an_exception_at_any_moment_leaves_no_lock(broker, connect, kind):
    use = interrupts.kinds_of_use(connect(broker.url))[kind]
    interrupts.interrupt(use, 200)
    gc.collect()
    eventually(lambda: not held_keys(broker), f"the end of {kind}")
    use()


def test_a_dropped_handle_is_given_back_and_warned_of(broker, connect, caplog):
    dl = connect(broker.url)
    dl.lock("dropped").acquire()
    eventually(lambda: broker.session().got("release"))
    held = dl.lock("released").acquire()
    held.release()
    del held
    dl.all(["a", "b"]).acquire()
    eventually(lambda: len(broker.session().got("release")) == 4)
    eventually(lambda: len(caplog.records) == 3)
    assert "'dropped'" in caplog.text and "'a'" in caplog.text and "'released'" not in caplog.text
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_what_is_still_used_is_kept(broker):
    """By a part of several, or by a handle whose client and request are gone."""
    def take():
        dl = distlock.connect(broker.url)
        return dl.all(["a", "b"]).acquire()[0], dl.lock("c", on_loss=print).acquire()

    kept, other = take()
    kept.on_loss(print)
    assert not kept.lost
    gc.collect()
    eventually(lambda: broker.session().got("release"))
    broker.session().await_command("heartbeat")
    assert kept.is_held and other.is_held and len(broker.session().got("release")) == 1
    assert not broker.session().got("goodbye")
    del kept, other
    gc.collect()
    eventually(lambda: broker.session().got("goodbye"))


def test_clients_that_are_dropped_end(broker):
    gc.collect()
    before = len(os.listdir("/proc/self/task"))
    for number in range(60):
        with distlock.connect(broker.url).lock(f"k{number}", wait=20):
            pass
    gc.collect()
    eventually(lambda: len(os.listdir("/proc/self/task")) < before + 60)  # with those of this broker
    assert all(session.ended.wait(20) for session in broker.sessions)


class Raises(distlock.Observer):
    def __init__(self, *methods):
        self.heard = []
        for method in methods:
            setattr(self, method, self.fail)

    def fail(self, *values):
        self.heard.append(values)
        raise RuntimeError("the exporter is down")


def test_an_observer_that_raises_costs_no_lock(broker, connect):
    observer = Raises("acquiring", "answered", "ended", "session")
    dl = connect(broker.url, observer=observer)
    with dl.lock("k") as held:
        assert held.is_held
    assert len(observer.heard) >= 3

    async def whole():
        async with distlock.aio.connect(broker.url, observer=observer) as client:
            async with client.lock("k") as held:
                assert held.is_held

    asyncio.run(whole())
    eventually(lambda: not held_keys(broker))


def test_dropped_handles_of_asyncio(broker, caplog):
    async def whole():
        async with distlock.aio.connect(broker.url) as dl:
            await dl.lock("dropped").acquire()
            held = await dl.lock("kept").acquire()
            held.on_loss(print)
            held.lost  # noqa: B018
            await asyncio.get_running_loop().run_in_executor(None, eventually, lambda: broker.session().got("release"))
            assert held.is_held
            del held
            await asyncio.get_running_loop().run_in_executor(
                None, eventually, lambda: len(broker.session().got("release")) == 2)

    asyncio.run(whole())
    assert "'dropped'" in caplog.text and "'kept'" in caplog.text


def test_tasks_that_are_cancelled_at_any_moment_leave_no_lock(broker):
    async def use(dl, number):
        async with dl.lock(f"k{number}", wait=20):
            await asyncio.sleep(0)

    async def whole():
        async with distlock.aio.connect(broker.url) as dl:
            await use(dl, 0)
            for number in range(1000):
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(use(dl, number), random.uniform(0, 0.002))
            await asyncio.get_running_loop().run_in_executor(None, eventually, lambda: not held_keys(broker))

    asyncio.run(whole())


@pytest.mark.parametrize("end", ["killed", "unanswered", "lapsed"])
def test_what_is_given_back_without_a_broker_is_given_back_to_the_next(broker, connect, end):
    held = connect(broker.url).lock("k", resume=True).acquire()
    lease_id, session = held.lease_id, broker.session()
    if end == "unanswered":
        broker.frozen.set()
        held.release_soon()
        session.await_command("release")
        broker.frozen.clear()
        session.end(grpc.StatusCode.UNAVAILABLE, "killed")
    else:
        broker.refuse_sessions = (grpc.StatusCode.UNAVAILABLE, "restarts", ())
        session.end(grpc.StatusCode.UNAVAILABLE, "killed")
        eventually(lambda: held.at_risk)
        if end == "killed":
            assert held.release() is distlock.Outcome.UNKNOWN
        else:
            assert held.lost.wait(20) and held.cause == "LAPSED"
        broker.refuse_sessions = None
    adopt = broker.session(2).await_command("adopt")
    assert adopt.adopt.lease_id == lease_id
    release = broker.session(2).await_command("release").release
    assert (release.acquire_id, release.lapsed) == (adopt.id, end == "lapsed")


def test_what_could_not_be_given_back_is_asked_for_again(broker, connect, folder):
    """The store does not answer the next broker, and the one after that has it."""
    tried = []

    def refuse_first(session, command):
        tried.append(command)
        if len(tried) == 1:
            session.refuse(command.id, "STORE_UNAVAILABLE")
        elif len(tried) == 2:
            session.end(grpc.StatusCode.UNAVAILABLE, "killed")
        else:
            session.grant(command.id)

    broker.on_adopt = refuse_first
    held = connect(broker.url).lock("k", resume=True).acquire()
    broker.refuse_sessions = (grpc.StatusCode.UNAVAILABLE, "restarts", ())
    broker.session().end(grpc.StatusCode.UNAVAILABLE, "killed")
    eventually(lambda: held.at_risk)
    held.release()
    broker.refuse_sessions = None
    eventually(lambda: len(tried) == 3)
    assert len({one.adopt.request_id for one in tried}) <= 2
    time.sleep(0.5)
    assert len(tried) == 3  # it was given back


def test_errors_survive_pickle_and_copy():
    lost = distlock.LockLost("k", "TAKEN", "why")
    held_by = distlock.Holder("h", "me", {"a": "b"}, distlock.Mode.PERMIT, 2, 7, None, 2.5, 15.0, "broker")
    block = distlock.Block(None, 2.5, "me")
    busy = distlock.Busy("LOCK_HELD", "why", retry_after=1.5, queue_length=3, holders=(held_by,), block=block)
    errors = [lost, busy, distlock.InvalidRequest("INVALID_ARGUMENT", "x", field_problems=(("a", "b"),)),
              distlock.Unavailable("UNREACHABLE", "x"), distlock.Refused("QUOTA_EXCEEDED"), distlock.ClientClosed("x"),
              distlock.DistlockError("x"), compat.LockError("x", "k"), compat.LockNotOwnedError("x", "k"),
              compat.ConnectionError("UNREACHABLE", "x", waited=2.0), compat.RedisError("x")]
    kinds = {one for module in (distlock, compat) for one in vars(module).values()
             if isinstance(one, type) and issubclass(one, Exception) and one.__module__.startswith("distlock")}
    assert kinds <= {type(error) for error in errors} and len(kinds) >= 9
    for error in errors:
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)


def test_a_decorated_function_runs_under_its_lock_or_is_refused(broker, connect):
    dl, alone = connect(broker.url), distlock.aio.connect(broker.url)

    async def coroutine():
        pass

    def generator():
        yield

    async def async_generator():
        yield

    for function in (coroutine, generator, async_generator):
        with pytest.raises(TypeError, match=function.__name__):
            dl.locked("k")(function)
    for function in (generator, async_generator):
        with pytest.raises(TypeError, match=function.__name__):
            alone.locked("k")(function)

    class Called:
        async def __call__(self):
            return self

    class Yields:
        def __call__(self):
            yield

    for function in (Called(), functools.partial(coroutine), Yields(), functools.partial(generator)):
        with pytest.raises(TypeError):
            dl.locked("k")(function)

    held_inside = []

    def plain():
        held_inside.append(len(broker.session().got("acquire")) - len(broker.session().got("release")))

    async def awaits():
        plain()

    asyncio.run(alone.locked("k")(awaits)())
    asyncio.run(alone.locked("k")(plain)())
    asyncio.run(alone.locked("k")(Called())())
    assert held_inside == [1, 1]
