# SPDX-License-Identifier: Apache-2.0
"""SHARED beside EXCLUSIVE, under each policy."""

import pytest

from kinds import RwLock
from lock import FOREIGN, GONE, GRANTED, HELD, NOT_HOLDER, QUEUED, RELEASED, RENEWED, TTL_MS, broker, owner


@pytest.fixture
def rw(redis):
    return RwLock(redis)


def names(reply, start):
    """The numbers of the holders a reply shows."""
    return [int(value.split(";")[1], 16) for value in reply[start + 1::2]]


@pytest.mark.parametrize("policy", ["fair", "writer"])
def test_a_one_shot_writer_yields_to_a_queued_one(redis, listen, policy):
    listen(1)
    rw = RwLock(redis, policy)
    rw.read(1)
    rw.write(2)
    redis("DEL", rw.h)  # free, without a hand-off
    assert rw.write(3, wait=0)[0] == HELD and rw.holders() == {2: 1} and rw.waiters() == []


def test_a_dead_writer_lets_the_readers_behind_it_in_at_the_next_look(rw, redis):
    rw.read(1)
    rw.write(2, at=9)
    rw.read(3)
    redis("DEL", rw.slot(9))
    assert rw.look(3)[2] == [3] and list(rw.holders()) == [1, 3]


def test_a_renewal_touches_only_its_own_slot(rw, redis):
    rw.read(1, ttl=5_000)
    rw.read(2, ttl=5_000)
    before = redis("HGET", rw.h, owner(2))
    assert rw.renew((rw, 1, 60_000, rw.token_of(1)))[2:] == [1]
    assert redis("HGET", rw.h, owner(2)) == before and 59_000 < redis("PTTL", rw.h) <= 60_000
    assert rw.renew((rw, 1, 60_000, 7), (rw, 3, 60_000))[2:] == [2, 2]
    assert rw.renew((rw, 1, 100))[2:] == [1] and redis("PTTL", rw.h) > 50_000, "the key lives as long as any slot"


def test_a_reader_that_has_expired_leaves_nothing_when_the_last_one_releases(rw, redis, until):
    rw.read(1, ttl=30)
    rw.read(2)
    until(lambda: 1 not in rw.holders())
    assert rw.give_back(2) == ("", []) and redis("EXISTS", rw.h) == 0


def test_a_reader_that_came_later_and_expires_first_leaves_nothing(rw, redis, until):
    for n in (9, 1):
        rw.read(n)
    rw.read(2, ttl=30)
    until(lambda: 2 not in rw.holders())
    rw.give_back(9), rw.give_back(1)
    assert rw.write(3)[0] == GRANTED


def test_a_reader_releases_its_own_grant_only(rw):
    rw.read(9)
    for n in (1, 2):
        rw.read(n)
    assert rw.call("release", owner(1), int(rw.token_of(1)) + 1, 0, 1000, 1, broker(1), 0, 0)[0] == NOT_HOLDER
    assert list(rw.holders()) == [9, 1, 2]
    assert rw.call("release", owner(1), int(rw.token_of(1)), 0, 1000, 1, broker(1), 0, 0)[0] == RELEASED
    assert rw.call("release", owner(1), 0, 0, 1000, 1, broker(1), 0, 0)[0] == NOT_HOLDER
    assert list(rw.holders()) == [9, 2]


def test_max_hold_cuts_a_readers_renewal(rw, redis, until):
    time = int(rw.read(1, ttl=40)[1])
    rw.read(2)
    assert rw.renew((rw, 1, TTL_MS, 0, time + 80_000))[2:] == [1]
    until(lambda: 1 not in rw.holders())
    rw.give_back(2)
    assert rw.write(3)[0] == GRANTED, "the bound of all slots came nearer with it"


def test_an_unreachable_brokers_reader_keeps_its_place_and_loses_nothing_else(redis, listen):
    rw = RwLock(redis)
    rw.write(1)
    rw.read(2, at=7)  # nobody listens there
    rw.read(3)
    assert rw.give_back(1)[1] == [3] and rw.holders() == {3: 1} and rw.waiters() == [2]
    rw.write(4)
    assert rw.give_back(3)[1] == [4] and rw.waiters() == [2], "the second time, too"
    rw.give_back(4)
    assert rw.look(2, at=7)[2] == [2] and rw.waiters() == []


def test_an_idle_waiter_loses_its_place_and_nothing_else(rw, redis):
    rw.write(1)
    rw.read(2, at=9)
    rw.read(3)
    redis("DEL", rw.slot(9))
    assert rw.give_back(1)[1] == [3]
    assert rw.look(2, at=9)[0] == GONE and rw.read(2, at=9)[0] == GRANTED


def test_tend_tells_of_each_waiter_that_was_asked_for(rw):
    rw.write(1)
    for n in (2, 3, 4):
        rw.read(n, at=2)
    rw.write(5, at=2)
    rw.call("release", owner(1), 0, 0, 1000, 0, broker(1), 0, 0)  # not trusted: the notices count as heard
    assert rw.look(2, 3, 4, 5, at=2)[2] == [2, 3, 4]
    assert rw.look(5, at=2)[2] == [] and rw.look(5, 99, at=2)[0] == GONE


def test_a_crowd_of_readers_enters_in_bounded_scripts(rw):
    rw.write(1)
    for n in range(2, 252):
        rw.read(n)
    word, grants = rw.give_back(1)
    assert word == "look" and len(grants) == 100
    seen = set(grants)
    while rw.waiters():
        left, more, now = rw.look(rw.waiters()[0])
        seen |= set(now)
        assert more == bool(rw.waiters())
    assert seen == set(range(2, 252)) == set(rw.holders())


def test_adaptive_newcomers_take_a_free_lock_until_somebody_has_waited_too_long(redis, listen, until):
    rw = RwLock(redis, "adaptive")
    ear = listen(2)
    rw.write(1)
    rw.write(2, at=2)
    assert rw.give_back(1) == ("", []) and rw.holders() == {}, "left free, its first waiter called"
    assert len(ear.heard()) == 1 and rw.write(3)[0] == GRANTED, "a newcomer may be faster"
    rw.write(4, at=2)
    assert rw.look(2, at=2)[2] == [3]

    def waited():
        if 3 in rw.holders():
            assert rw.give_back(3)[1] == []
        if not rw.holders():
            rw.write(3, wait=0)
        return rw.holders() == {2: 1}
    until(waited)
    assert redis("HGET", rw.w, "fair") == b"1" and rw.write(5)[0] == QUEUED
    assert rw.give_back(2)[1] == [] and rw.holders() == {4: 1}, "fair until the queue drains"
    assert rw.give_back(4)[1] == [5] and redis("EXISTS", rw.w) == 0
    rw.write(6)
    assert rw.give_back(5) == ("look", []) and rw.look(6)[2] == [6]


def test_foreign_hashes_are_left_alone(rw, redis):
    redis("HSET", rw.h, "holders", "mine")
    redis("PEXPIRE", rw.h, 10_000)
    before = rw.snapshot()
    for reply in (rw.read(1), rw.write(1), rw.release(1), rw.call("inspect", 1, 1)):
        assert reply[0] == FOREIGN and reply[3] == "shape"
    assert rw.renew((rw, 1, TTL_MS))[:1] == [RENEWED] and rw.snapshot() == before


def test_inspect_shows_readers_in_the_order_of_their_grants(rw):
    for n in (3, 1, 2):
        rw.read(n)
    rw.write(4)
    reply = rw.call("inspect", 10, 2)
    assert reply[3:6] == [1, 3, 2] and names(reply, 6)[:2] == [3, 1] and reply[10] == owner(4)


def test_a_preferred_writer_is_placed_by_who_is_left(redis, listen):
    listen(1)
    rw = RwLock(redis, "writer")
    rw.write(1)
    rw.write(2)
    for n in (3, 4):
        rw.read(n)
    redis("DEL", rw.h)  # free, without a hand-off
    assert rw.write(5)[0] == QUEUED and rw.holders() == {2: 1} and rw.waiters() == [5, 3, 4]
    assert float(redis("ZRANGE", rw.q, 0, 0, "WITHSCORES")[1]) < 0
