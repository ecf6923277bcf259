# SPDX-License-Identifier: Apache-2.0
"""Somebody wants a lock whose holder asked to be told: its broker hears of it, and nothing changes."""

import pytest

from kinds import RwLock
from lock import ADOPTED, FOREIGN, GONE, NOT_HOLDER, TOLD, broker, owner

WANTED = f"w{broker(2)};"


@pytest.fixture
def rw(redis):
    return RwLock(redis)


@pytest.mark.parametrize("kind", ["x", "s", "p1/3"])
def test_the_holders_broker_hears_of_it_and_the_caller_how_many_wait(rw, listen, kind):
    ear, others = listen(2), listen(3)
    token = rw.ask(1, kind, at=2, info=WANTED)[2]
    assert rw.wanted(1, token, of=2)[0::2] == [TOLD, 0]
    rw.ask(7, "x")
    rw.ask(8, "x")
    before = rw.snapshot()
    assert rw.wanted(1, token, of=2)[0::2] == [TOLD, 2]
    assert rw.snapshot() == before
    assert ear.heard() == 2 * [("default/k", "wanted", 1, token)]
    assert others.heard() == []


def test_the_caller_that_has_it_itself_only_learns_how_many_wait(rw, listen):
    ear = listen(2)
    token = rw.write(1, at=2)[2]
    rw.write(7)
    assert rw.wanted(1, token, of=2, at=2)[0::2] == [TOLD, 1]
    assert ear.heard() == []


def test_a_grant_that_is_over_is_told_of_to_nobody(rw, redis, listen):
    ear = listen(2)
    token = rw.write(1, at=2)[2]
    assert rw.wanted(1, int(token) + 1, of=2)[:1] == [NOT_HOLDER]
    assert rw.wanted(9, token, of=2)[:1] == [NOT_HOLDER]
    rw.give_back(1, at=2)
    assert rw.wanted(1, token, of=2)[:1] == [GONE]
    rw.read(1, at=2)
    assert rw.wanted(1, token, of=2)[:1] == [NOT_HOLDER], "it has the lock again, under another token"
    assert ear.heard() == []


@pytest.mark.parametrize("key", ["h", "q"])
def test_a_foreign_key_is_named_and_stays(rw, redis, listen, key):
    ear = listen(2)
    token = rw.write(1, at=2)[2]
    name = getattr(rw, key)
    redis("DEL", name)
    redis("RPUSH", name, "x")
    redis("PEXPIRE", name, 10_000)
    assert rw.wanted(1, token, of=2)[0::2] == [FOREIGN, name]
    assert redis("TYPE", name) in ("list", b"list") and ear.heard() == []


def test_it_works_without_memory(rw, redis, listen):
    token = rw.write(1, at=2)[2]
    redis("CONFIG", "SET", "maxmemory", "1")
    assert rw.wanted(1, token, of=2)[0] == TOLD


def test_who_is_told_goes_with_the_hold(rw, redis, listen):
    """Through the queue, and to the broker that takes the hold over; a downgrade keeps it."""
    listen(2)
    rw.write(1)
    rw.write(7, at=2, info=WANTED + "mine")
    rw.give_back(1)
    value = redis("GET", rw.h).decode()
    assert value.endswith(f";{WANTED}mine")
    token, taken = value.split(";")[2], f"w{broker(3)};new"
    assert rw.call("adopt", owner(7), token, owner(8), 0, "x", taken, 0)[0] == ADOPTED
    assert redis("GET", rw.h).decode().endswith(f";{taken}")
    rw.downgrade(8, more="+")
    assert rw.slots()[8].endswith(f";{taken}+")
