# SPDX-License-Identifier: Apache-2.0
"""EXCLUSIVE becomes SHARED in one step: same owner, same token, same end."""

import pytest

from kinds import RwLock
from lock import DOWNGRADED, FOREIGN, HELD, NOT_HOLDER, QUEUED, RELEASED, owner


@pytest.fixture
def rw(redis):
    return RwLock(redis)


def test_it_keeps_its_end_and_each_byte_of_its_info(rw, redis):
    rw.write(1, ttl=20_000, delay=500, info="a;b\x00\ninfo")
    left = redis("PTTL", rw.h)
    reply = rw.downgrade(1, more="+more")
    assert left - 1_000 < redis("PTTL", rw.h) <= left
    expiry, _, _, ttl, delay, permits, info = redis("HGET", rw.h, owner(1)).split(b";", 6)
    assert (ttl, delay, permits, info) == (b"20000", b"500", b"1", b"a;b\x00\ninfo+more")
    assert redis("HGET", rw.h, "holders") == b"s;0;1;" + expiry and int(expiry) <= int(reply[1]) + left * 1_000


def test_elsewhere_means_this_very_grant(rw):
    token = rw.write(1)[2]
    before = rw.snapshot()
    assert rw.downgrade(1, at=2, token=int(token) + 1, elsewhere=1)[:1] == [NOT_HOLDER]
    assert rw.downgrade(1, at=2, token=token, elsewhere=1)[:1] == [HELD] and rw.snapshot() == before


def test_readers_in_front_have_greater_tokens_and_are_told_by_their_brokers(rw, listen, redis):
    ear = listen(2)
    rw.write(1)
    for n, at in ((2, 1), (3, 2), (4, 1)):
        rw.read(n, at=at)
    reply = rw.downgrade(1)
    assert [int(who, 16) for who in reply[3::5]] == [2, 4] and [notice[1] for notice in ear.heard()] == [3]
    tokens = [int(rw.token_of(n)) for n in (1, 2, 3, 4)]
    assert tokens == sorted(set(tokens)) and int(redis("GET", rw.t)) == tokens[-1]


def test_tokens_grow_though_the_last_one_was_lost(rw, redis):
    token = int(rw.write(1)[2])
    rw.read(2)
    redis("DEL", rw.t)
    rw.downgrade(1)
    assert int(rw.token_of(2)) > token


def test_renewals_find_it_in_either_shape(rw, redis):
    token = rw.write(1, ttl=5_000)[2]
    assert rw.renew((rw, 1, 30_000, token))[2:] == [1]
    rw.downgrade(1)
    assert redis("PTTL", rw.h) > 25_000, "what a renewal before it gave is kept"
    assert rw.renew((rw, 1, 60_000, token))[2:] == [1] and redis("PTTL", rw.h) > 55_000
    rw.read(2)
    assert rw.release(1, token=token)[0] == RELEASED and rw.holders() == {2: 1}


def test_it_ends_when_it_would_have_ended(rw, until):
    rw.write(1, ttl=80)
    rw.downgrade(1)
    assert rw.write(2)[0] == QUEUED
    until(lambda: rw.look(2)[2] == [2])


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_foreign_types_are_left_alone(rw, redis, kind):
    redis(*{"list": ("RPUSH", rw.h, "x"), "set": ("SADD", rw.h, "x"), "zset": ("ZADD", rw.h, "1", "x")}[kind])
    redis("PEXPIRE", rw.h, 10_000)
    before = rw.snapshot()
    for reply in (rw.downgrade(1), rw.force(1)):
        assert reply[0] == FOREIGN and reply[3] == kind
    assert rw.snapshot() == before


def test_foreign_queues_stop_the_hand_off_only(rw, redis):
    rw.write(1)
    redis("RPUSH", rw.q, "x")
    redis("PEXPIRE", rw.q, 10_000)
    assert rw.downgrade(1)[0] == DOWNGRADED and rw.holders() == {1: 1} and redis("TYPE", rw.q) == "list"


def test_no_memory_does_not_lose_it(rw, redis):
    token = rw.write(1)[2]
    rw.read(2)
    redis("CONFIG", "SET", "maxmemory", "1")
    reply = rw.downgrade(1, token=token)
    assert reply[0] == DOWNGRADED and int(reply[3], 16) == 2
    assert list(rw.holders()) == [1, 2] and rw.token_of(1) == token


def test_a_crowd_of_readers_enters_in_bounded_scripts(rw):
    rw.write(1)
    for n in range(2, 202):
        rw.read(n)
    reply = rw.downgrade(1)
    assert reply[2] == "look" and len(reply[3:]) == 5 * 100
    while rw.waiters():
        rw.look(rw.waiters()[0])
    assert set(rw.holders()) == set(range(1, 202))


def test_adaptive_readers_enter_too(redis, listen):
    listen(1)
    rw = RwLock(redis, "adaptive")
    rw.write(1)
    rw.read(2)
    reply = rw.downgrade(1)
    assert [int(who, 16) for who in reply[3::5]] == [2]
