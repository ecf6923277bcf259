# SPDX-License-Identifier: Apache-2.0
"""The hold-off: nobody new fits, whoever has a lock keeps it, and who leaves it hands it on to nobody."""

import pytest

from kinds import RwLock
from lock import ADOPTED, GONE, GRANTED, HELD, KEEP_MS, LATE, QUEUED, RELEASED, TENDED, WITHDRAWN, Lock, owner

NEVER = 9007199254740991
OPEN = f"{NEVER};{NEVER};{NEVER}"


@pytest.fixture
def lock(redis):
    return RwLock(redis)


def server_us(redis):
    seconds, micros = redis("TIME")
    return int(seconds) * 1_000_000 + int(micros)


def hold_off(redis, lock, ms=10_000, others_ms=0):
    now = server_us(redis)
    lock.hold_off = f"{now + ms * 1000};{NEVER};{now + others_ms * 1000}"


def test_a_free_lock_is_not_granted_and_says_when_to_look_again(lock, redis):
    hold_off(redis, lock)
    code, _, left, length = lock.write(1, wait=0)
    assert code == HELD and 9_000 < left <= 10_000 and length == 0
    code, _, place, left, length, _ = lock.write(2)
    assert code == QUEUED and (place, length) == (0, 1) and 9_000 < left <= 10_000
    assert lock.read(3)[0] == QUEUED and lock.ask(4, "p1/2")[0] == QUEUED
    left, more, holders = lock.look(2)
    assert 9_000 < left <= 10_000 and more == 0 and holders == []
    lock.hold_off = 0
    assert lock.look(2)[2] == [2]


def test_an_end_that_is_not_known_is_looked_for_every_second(lock):
    lock.hold_off = OPEN
    assert lock.write(1, wait=0)[2] == 1000 and lock.write(2)[3] == 1000 and lock.look(2)[0] == 1000


def test_a_hold_off_that_is_over_holds_nobody_off(lock, redis):
    hold_off(redis, lock, ms=0)
    assert lock.write(1, wait=0)[0] == GRANTED and lock.release(1)[0] == RELEASED
    assert lock.read(2, wait=0)[0] == GRANTED


@pytest.mark.parametrize("kind", ["x", "s", "p1/3"])
def test_an_owners_repeat_is_granted(lock, redis, kind):
    token = lock.ask(1, kind)[2]
    hold_off(redis, lock)
    assert lock.ask(1, kind)[:1] == [GRANTED] and lock.ask(1, kind)[2] == token


# The primary that was replaced gives it away at its end, if that comes while it goes on.
@pytest.mark.parametrize("kind", ["x", "s", "p1/3"])
def test_an_owners_repeat_does_not_keep_what_may_be_given_away_elsewhere(lock, redis, kind):
    token = lock.ask(1, kind, ttl=5_000)[2]
    hold_off(redis, lock, others_ms=9_000)
    reply = lock.ask(1, kind, ttl=5_000)
    assert reply[0] == HELD and 0 < reply[2] <= 5_000 and len(reply) == 4
    assert redis("PTTL", lock.h) <= 5_000
    hold_off(redis, lock, others_ms=4_000)
    assert lock.ask(1, kind, ttl=5_000)[:1] == [GRANTED] and lock.ask(1, kind, ttl=5_000)[2] == token
    hold_off(redis, lock, ms=0, others_ms=9_000)
    assert lock.ask(1, kind, ttl=5_000)[0] == GRANTED


@pytest.mark.parametrize("kind", ["x", "s"])
def test_an_adoption_does_not_keep_what_may_be_given_away_elsewhere(lock, redis, kind):
    token = lock.ask(1, kind, ttl=5_000)[2]
    for others_ms, code in ((9_000, LATE), (4_000, ADOPTED)):
        hold_off(redis, lock, others_ms=others_ms)
        assert lock.call("adopt", owner(1), token, owner(7), 0, kind, "new", lock.hold_off)[0] == code


def test_readers_and_permits_are_held_off_beside_others(lock, redis):
    lock.read(1)
    hold_off(redis, lock)
    reply = lock.read(2)
    assert reply[0] == QUEUED and reply[3] <= 10_000
    assert lock.read(3, wait=0)[0] == HELD


def test_all_or_none_takes_none(redis):
    locks = [Lock(redis, name=f"default/{i}") for i in range(2)]
    hold_off(redis, locks[0])
    argv = [argument for n in (1, 2) for argument in (owner(n), 15_000, 0, "x", "info")]
    reply = locks[0].call("acquire_all", 0, KEEP_MS, locks[0].hold_off, *argv, keys=[*locks[0].keys, *locks[1].keys])
    assert reply[0] == HELD and reply[2] == 1 and redis("KEYS", "*") == []


@pytest.mark.parametrize("kind", ["x", "s", "p1/1"])
def test_a_release_frees_and_hands_on_nothing(lock, redis, kind):
    lock.ask(1, kind)
    lock.write(2)
    lock.write(3)
    hold_off(redis, lock)
    assert lock.give_back(1) == ("", [])
    assert lock.waiters() == [2, 3] and lock.look(2)[2] == []
    assert lock.write(4, wait=0)[0] == HELD
    lock.hold_off = 0
    assert lock.look(2)[2] == [2], "in their old order"


def test_a_withdrawn_holder_and_a_withdrawn_waiter_let_nobody_in(lock, redis):
    lock.write(1)
    lock.write(2)
    hold_off(redis, lock)
    assert lock.leave(1) == (RELEASED, [])
    lock.hold_off = 0
    assert lock.look(2)[2] == [2] and lock.release(2)[0] == RELEASED
    lock.read(3)
    lock.write(4)
    lock.read(5)
    hold_off(redis, lock)
    assert lock.leave(4) == (WITHDRAWN, [])
    lock.hold_off = 0
    assert lock.look(5)[2] == [5]


def test_a_downgrade_lets_no_reader_in(lock, redis):
    lock.write(1)
    lock.read(2)
    hold_off(redis, lock)
    assert lock.downgrade(1)[2:] == [""] and lock.holders() == {1: 1} and lock.waiters() == [2]
    lock.hold_off = 0
    assert lock.look(2)[2] == [2]


def test_force_frees_and_hands_on_nothing(lock, redis):
    lock.write(1)
    lock.write(2)
    hold_off(redis, lock)
    assert lock.force(1, of=None)[:1] == [RELEASED] and lock.waiters() == [2]
    assert lock.renew((lock, 1, 15_000))[2] == 0 and lock.release(1)[0] == GONE


# ---- A call of a broker whose knowledge counts until a time runs then or later.

@pytest.fixture(params=["none", "one that is over"])
def late(request, lock, redis):
    """Called when all is as the test wants it; `in_time` instead."""
    def from_now_on(known_for_ms=0):
        known = server_us(redis) + known_for_ms * 1000
        lock.hold_off = str(known) if request.param == "none" else f"2;{known};0"
    return from_now_on


def test_a_call_in_time_hands_on(lock, late):
    late(known_for_ms=10_000)
    lock.write(1)
    lock.write(2)
    lock.write(3)
    assert lock.give_back(1) == ("", [2])
    assert lock.withdraw(2)[:1] == [RELEASED] and lock.holders() == {3: 1}


@pytest.mark.parametrize("kind", ["x", "s", "p1/3"])
def test_a_late_call_grants_nobody_a_free_lock(lock, late, kind):
    late()
    assert lock.ask(1, kind, wait=0)[0] == HELD and lock.ask(2, kind)[0] == QUEUED
    assert lock.look(2)[::2] == (1000, []) and lock.holders() == {}


def test_a_late_call_takes_none_of_several(redis, lock, late):
    late()
    locks = [Lock(redis, name=f"default/{i}") for i in range(2)]
    argv = [argument for n in (1, 2) for argument in (owner(n), 15_000, 0, "x", "info")]
    reply = locks[0].call("acquire_all", 0, KEEP_MS, lock.hold_off, *argv, keys=[*locks[0].keys, *locks[1].keys])
    assert reply[0] == HELD and redis("KEYS", "*") == []


@pytest.mark.parametrize("kind", ["x", "s", "p1/1"])
def test_a_late_release_frees_and_its_broker_looks(lock, late, kind):
    lock.ask(1, kind)
    lock.write(2)
    lock.write(3)
    late()
    assert lock.give_back(1) == ("look", []) and lock.holders() == {} and lock.waiters() == [2, 3]
    lock.hold_off = 0
    assert lock.look(2)[2] == [2], "in their old order"


def test_a_late_release_invites_another_broker_that_waits(lock, late, listen):
    ear = listen(2)
    lock.write(1)
    lock.write(2, at=3)  # it is deaf, and keeps its place
    lock.write(3, at=2)
    late()
    assert lock.give_back(1) == ("", []) and lock.waiters() == [2, 3]
    assert [notice[2] for notice in ear.heard()] == [0]


def test_late_calls_end_what_they_name(lock, late):
    for end in (lambda: lock.leave(1)[0], lambda: lock.force(1, of=None)[0]):
        lock.hold_off = 0
        lock.write(1)
        lock.write(2)
        late()
        assert end() == RELEASED and lock.holders() == {} and lock.waiters() == [2]
        lock.hold_off = 0
        assert lock.look(2)[2] == [2] and lock.release(2)[0] == RELEASED


def test_a_late_downgrade_lets_no_reader_in(lock, late):
    lock.write(1)
    lock.read(2)
    late()
    assert lock.downgrade(1)[2:] == ["look"] and lock.holders() == {1: 1} and lock.waiters() == [2]


def test_a_late_withdrawal_lets_no_reader_in(lock, late):
    lock.read(1)
    lock.write(2)
    lock.read(3)
    late()
    assert lock.leave(2) == (WITHDRAWN, []) and lock.holders() == {1: 1} and lock.waiters() == [3]


def test_what_is_late_beside_holders_calls_nobody(lock, late, listen):
    ear = listen(2)
    lock.read(1)
    lock.read(4)
    lock.write(2, at=2)
    late()
    assert lock.give_back(1) == ("", []) and lock.look(2, at=2)[1] == 0 and ear.heard() == []
