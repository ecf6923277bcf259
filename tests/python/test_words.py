# SPDX-License-Identifier: Apache-2.0
"""Messages name the arguments as the caller has written them: with a real broker's in test_real_words.py."""
import asyncio

import distlock
import pytest
from distlock.compat.redis import Lock

INVALID = {
    "permits": (lambda dl: dl.permits("k", limit=2, n="x"), "n is 'x'"),
    "a mode": (lambda dl: dl.all([distlock.Lock("k", "SHARED")]), "mode is 'SHARED'; it must be one of Mode.EXCLUSIVE"),
    "a policy": (lambda dl: dl.lock("k", policy="fair"), "policy is 'fair'; it must be one of Policy.FAIR"),
    "an end": (lambda dl: dl.lock("k", on_disconnect=1), "on_disconnect is 1; it must be one of OnDisconnect.SAFE"),
    "no locks": (lambda dl: dl.all([]), "locks is empty"),
    "a wait": (lambda dl: dl.lock("k", wait="x"), "wait is 'x'"),
    "a ttl": (lambda dl: dl.lock("k", ttl="x"), "ttl is 'x'"),
    "reentry": (lambda dl: dl.lock("k", reentrant="x"), "reentrant is 'x'"),
    "metadata": (lambda dl: dl.lock("k", metadata=3), "metadata is 3"),
    "an election's name": (lambda dl: dl.campaign(7), "name is 7"),
    "an election's value": (lambda dl: dl.campaign("e", 7), "value is 7; it must be text"),
}


@pytest.mark.parametrize("what", INVALID)
def test_what_cannot_be_sent(broker, connect, what):
    ask, message = INVALID[what]
    for dl in (connect(broker.url), distlock.aio.connect(broker.url)):
        with pytest.raises(distlock.InvalidRequest, match=message) as wrong:
            ask(dl)
        (field, _), = wrong.value.field_problems
        assert message.startswith(field)


def test_what_cannot_be_told_of(broker, connect):
    term = connect(broker.url).campaign("e", "v").acquire()
    with pytest.raises(distlock.InvalidRequest, match="value is 7"):
        term.proclaim(7)
    for value in ("x", -1):
        with pytest.raises(distlock.InvalidRequest, match="unreachable_after is"):
            distlock.connect(broker.url, unreachable_after=value)


def refusing(broker, reason, message="", **fields):
    problems = [{"field": field, "description": text} for field, text in fields.pop("problems", ())]
    broker.on_acquire = lambda session, command: session.refuse(command.id, reason, message=message,
                                                                field_problems=problems)


@pytest.mark.parametrize("reason, said, written", [
    ("LOCK_HELD", 'lock "max_wait" is held; retry later, or set max_wait to wait in the queue',
     'lock "max_wait" is held; retry later, or set wait to wait in the queue'),
    ("WAIT_TIMEOUT", 'lock "max_wait" was not free within max_wait (waited 1s)',
     'lock "max_wait" was not free within wait (waited 1s)')])
def test_a_busy_lock(broker, connect, reason, said, written):
    refusing(broker, reason, said)
    with pytest.raises(distlock.Busy) as busy:
        connect(broker.url).lock("max_wait", wait=1).acquire()
    assert busy.value.message == written and str(busy.value) == f"{reason}: {written}"

    async def same():
        async with distlock.aio.connect(broker.url) as dl:
            with pytest.raises(distlock.Busy) as again:
                await dl.lock("max_wait", wait=1).acquire()
            assert again.value.message == written

    asyncio.run(same())


@pytest.mark.parametrize("ask, field, problem, written", [
    (lambda dl: dl.lock("k"), "acquire.locks[0].max_wait", "is 99h", "wait is 99h"),
    (lambda dl: dl.lock("k"), "acquire.locks[0].key", "is empty", "key is empty"),
    (lambda dl: dl.all(["a", "b"]), "acquire.locks[1].key", "is empty", "locks[1].key is empty"),
    (lambda dl: dl.all(["a", "b"]), "acquire.locks[0].key", "is empty", "locks[0].key is empty"),
    (lambda dl: dl.permits("k", limit=2, n=3), "acquire.locks[0].limit", "is 2; it must be at least permits (3)",
     "limit is 2; it must be at least n (3)"),
    (lambda dl: dl.campaign("e", "v"), "acquire.locks[0].key", "is empty", "name is empty"),
    (lambda dl: dl.campaign("e", "v"), "acquire.locks[0].metadata", "has 2000 bytes", "value has 2000 bytes"),
    (lambda dl: dl.campaign("e", "v", metadata={"a": "b"}), "acquire.locks[0].metadata", "is long", "metadata is long"),
    (lambda dl: Lock(dl, "k"), "acquire.locks[0].key", "is empty", "name is empty"),
    (lambda dl: Lock(dl, "k"), "acquire.locks[0].max_wait", "is 99h", "blocking_timeout is 99h")])
def test_what_a_broker_refuses(broker, connect, ask, field, problem, written):
    refusing(broker, "INVALID_ARGUMENT", f"{field} {problem}", problems=[(field, problem)])
    with pytest.raises(distlock.InvalidRequest) as wrong:
        ask(connect(broker.url)).acquire()
    assert wrong.value.message == written
    (field, problem), = wrong.value.field_problems
    assert f"{field} {problem}" == written
