# SPDX-License-Identifier: Apache-2.0
"""What a program may expect of a library beside its locks."""
import asyncio
import functools
import inspect
import os
import pwd
import socket
import sys
import threading
import types
import typing

import distlock
import grpc
import pytest
from distlock import _words
from distlock.compat import redis as compat
from distlock.compat.redis import asyncio as compat_asyncio
from distlock.types import Terms
from distlock.v1 import lock_service_pb2 as wire
from fake_broker import FakeSession, eventually


def test_the_threads_of_eventlet_are_refused_by_name(broker, monkeypatch):
    patcher = types.ModuleType("eventlet.patcher")
    patcher.is_monkey_patched = lambda what: what == "thread"
    monkeypatch.setitem(sys.modules, "eventlet.patcher", patcher)
    for connect in (distlock.connect, distlock.aio.connect):
        with pytest.raises(RuntimeError, match="eventlet"):
            connect(broker.url)
    patcher.is_monkey_patched = lambda what: False
    distlock.connect(broker.url).close()


def test_options_are_typed():
    """mypy and editors know them; the package's own run is part of client/python/lint.sh."""
    assert typing.get_type_hints(Terms) == typing.get_type_hints(distlock.Options)
    kinds = distlock.Client, distlock.aio.Client, compat.Lock, compat_asyncio.Lock
    takes = [method for kind in kinds for _, method in inspect.getmembers(kind, inspect.isfunction)
             if "options" in inspect.signature(method).parameters]
    variadic = [inspect.signature(method).parameters["options"] for method in takes]
    typed = [one.annotation for one in variadic if one.kind is one.VAR_KEYWORD]
    assert len(typed) == 2 * 7 + 2 and set(typed) == {"Unpack[Terms]"}


KNOWN = "those of lock() are wait, on_loss, on_queued, namespace, ttl, max_hold, "


@pytest.mark.parametrize("kind", (distlock, distlock.aio))
def test_a_wrong_argument_is_told_the_right_one(kind):
    dl = kind.connect("127.0.0.1:1")
    for name in ("timeout", "blocking_timeout", "blocking"):
        with pytest.raises(TypeError) as wrong:
            dl.lock("report", **{name: 60})
        said = str(wrong.value)
        assert said.startswith(f"{name!r} is no option here; {KNOWN}"), said
        assert "; redis-py's blocking_timeout is wait, its timeout is max_hold, " in said
        assert "distlock.compat.redis.Lock takes all three" in said
    with pytest.raises(TypeError) as wrong:
        dl.all(["a", "b"], wiat=60)
    assert KNOWN in str(wrong.value) and "redis" not in str(wrong.value)
    for take in (dl.lock, dl.shared, dl.permits, dl.all):
        with pytest.raises(TypeError, match="; wait=10 waits for 10 seconds, and wait=0 tries once; all but the key"):
            take("k", 10)
    assert inspect.signature(dl.lock).parameters["key"].annotation is str


def test_acquire_is_told_where_the_wait_is_given(broker, connect):
    async def in_loop():
        request = distlock.aio.connect(broker.url).lock("k")
        assert inspect.iscoroutinefunction(request.acquire)
        with pytest.raises(TypeError, match=r"'blocking'; acquire\(\) takes no argument: .*lock\(key, wait=10\)"):
            await request.acquire(blocking=False)

    asyncio.run(in_loop())
    with pytest.raises(TypeError, match=r"'blocking'; acquire\(\) takes no argument: .*lock\(key, wait=10\)"):
        connect(broker.url).lock("k").acquire(blocking=False)
    with pytest.raises(TypeError) as own:
        _words.advises("advice")(lambda number: len(number))(3)
    assert "advice" not in str(own.value), "the call itself is right"


def test_whoever_names_no_owner_is_named(broker, connect):
    dl = connect(broker.url)
    request = dl.lock("k")
    with request, dl.lock("named", owner="me"), dl.lock("again", owner="me", reentrant=True):
        pass
    with dl.lock("unnamed", reentrant=True), dl.all(["a", "b"]):
        pass
    owners = [lock.owner for one in broker.session().got("acquire") for lock in one.acquire.locks]
    here = f"{pwd.getpwuid(os.geteuid()).pw_name}@{socket.gethostname()}:{os.getpid()}"
    assert owners == [here, "me", "me", "", here, here]
    broker.unary["Acquire"] = lambda call, context: wire.AcquireResponse(
        grants=[{"key": call.locks[0].owner, "valid_for": {"seconds": 10}}])
    assert dl.acquire_detached("k").key == here


def stats(dl):
    found = dl.stats()
    return found.held, found.at_risk, found.waiting


def test_a_client_says_what_it_has(broker, connect):
    dl = connect(broker.url)
    assert dl.stats() == distlock.Stats(0, 0, 0, False) and dl.drained()
    held, both = dl.lock("k", resume=True).acquire(), dl.all(["a", "b"]).acquire()
    assert dl.stats() == distlock.Stats(3, 0, 0, True)
    broker.on_acquire = lambda session, command: None
    waits = threading.Thread(target=lambda: pytest.raises(distlock.ClientClosed, dl.lock("w").acquire))
    waits.start()
    eventually(lambda: stats(dl) == (3, 0, 1))
    both.release_soon()
    assert stats(dl) == (1, 0, 1), "what is given back shows nowhere, also before the broker knows"
    broker.refuse_sessions = (grpc.StatusCode.UNAVAILABLE, "restarts", ())
    broker.session().end(grpc.StatusCode.UNAVAILABLE, "killed")
    eventually(lambda: stats(dl) == (1, 1, 1) and not dl.stats().connected)
    held.release_soon()
    assert stats(dl) == (0, 0, 1) and not held.at_risk and not held.is_held and held.valid_for == 0
    dl.close()
    waits.join()
    assert stats(dl) == (0, 0, 0)


def test_a_shutdown_waits_until_all_is_given_back(broker, connect):
    dl = connect(broker.url)
    held, order = dl.lock("k").acquire(), []
    answers = threading.Event()
    obey = FakeSession.obey

    def slowly(session, command):
        if command.HasField("release"):
            answers.wait(20)
            order.append("released")
        obey(session, command)

    broker.session().obey = functools.partial(slowly, broker.session())
    assert dl.drained(timeout=0.05) is False
    waits = [threading.Thread(target=lambda: order.append(dl.drained())) for _ in range(2)]
    for one in waits:
        one.start()
    held.release_soon()
    assert dl.drained(timeout=0.05) is False and order == []
    answers.set()
    for one in waits:
        one.join()
    assert order == ["released", True, True]
    dl.close()
    assert dl.drained()


def test_a_shutdown_in_a_loop_waits_until_all_is_given_back(broker):
    async def work():
        dl = distlock.aio.connect(broker.url)
        assert await dl.drained()
        held = await dl.lock("k").acquire()
        assert not await dl.drained(timeout=0.05)
        assert dl.stats().held == 1
        held.release_soon()
        assert await dl.drained() and dl.stats().held == 0
        await dl.close()

    asyncio.run(work())


def test_a_program_may_depend_on_a_protocol():
    """mypy compares them whole; here: that each name is there."""
    for locks, client in ((distlock.Locks, distlock.Client), (distlock.aio.Locks, distlock.aio.Client)):
        for name, method in inspect.getmembers(locks, inspect.isfunction):
            if not name.startswith("_"):
                wanted, found = (inspect.signature(one).parameters for one in (method, getattr(client, name)))
                assert wanted.keys() <= found.keys()
