# SPDX-License-Identifier: Apache-2.0
"""release, withdraw and renew."""

import pytest

from lock import (GONE, GRANTED, KEEP_MS, NOBODY, NOT_HOLDER, QUEUED, RELEASED, RENEWED, TENDED, TTL_MS, WITHDRAWN,
                  Lock, broker, owner)


def test_release_leaves_only_the_token(lock, redis):
    lock.acquire(1)
    assert lock.release(1)[0] == RELEASED
    assert redis("KEYS", "*") == [lock.t.encode()]


def test_release_by_a_stranger_or_again_changes_nothing(lock):
    assert lock.release(1)[0] == GONE
    lock.acquire(1)
    lock.enqueue(2)
    before = lock.snapshot()
    assert lock.release(3)[0] == NOT_HOLDER
    assert lock.release(2)[0] == NOT_HOLDER, "a waiter is a stranger too"
    assert lock.snapshot() == before
    lock.release(1)
    before = lock.snapshot()
    assert lock.release(1)[0] == NOT_HOLDER
    assert lock.snapshot() == before


def test_release_hands_off_in_the_reply_to_the_callers_broker(lock, redis, listen):
    ear = listen(1)
    first = lock.acquire(1)
    lock.enqueue(2, ttl=4_000, delay=300, info="two")
    lock.enqueue(3)
    code, time, who, token, since, ttl, delay = lock.release(1)
    assert (code, who, since, ttl, delay) == (RELEASED, owner(2), time, "4000", "300")
    assert int(token) > int(first[2]) and redis("GET", lock.t).decode() == token
    assert redis("GET", lock.h).decode() == f"1;{owner(2)};{token};{since};4000;300;two"
    assert 2_300 < redis("PTTL", lock.h) <= 4_300 and redis("PTTL", lock.t) > KEEP_MS - 2_000
    assert lock.waiters() == [3] and redis("HKEYS", lock.w) == [owner(3).encode()]
    assert ear.heard() == []


def test_release_hands_off_by_notice_to_another_broker(lock, redis, listen):
    ear, own = listen(4), listen(1)
    lock.acquire(1)
    lock.enqueue(2, at=4, ttl=4_000, delay=300)
    lock.enqueue(3, at=1)
    reply = lock.release(1)
    assert reply[0] == RELEASED and len(reply) == 2
    token = redis("GET", lock.t).decode()
    assert ear.heard() == [("default/k", 2, token, reply[1], 4_000, 300)] and own.heard() == []
    assert lock.holder() == 2


def test_dead_waiters_are_skipped_and_removed(lock, redis):
    lock.acquire(1)
    for n, at in ((2, 5), (3, 6), (4, 5), (5, 1), (6, 6)):
        lock.enqueue(n, at=at)
    redis("DEL", lock.slot(5), lock.slot(6))
    assert lock.release(1)[2] == owner(5)
    assert lock.waiters() == [6] and redis("HLEN", lock.w) == 1
    assert len(lock.release(5)) == 2
    assert redis("KEYS", "*") != [] and redis("EXISTS", lock.h, lock.q, lock.w) == 0


def test_waiter_without_a_usable_entry_is_dead(lock, redis):
    lock.acquire(1)
    for n in range(2, 9):
        lock.enqueue(n)
    redis("HDEL", lock.w, owner(2))
    for n, value in ((3, ""), (4, "rubbish"), (5, f"{broker(1)};0;0;"), (6, f"{broker(1)};99999999999;0;"),
                     (7, f"{broker(1)};-5;0;")):
        redis("HSET", lock.w, owner(n), value)
    assert lock.release(1)[2] == owner(8)
    assert redis("EXISTS", lock.q, lock.w) == 0


def test_an_unreachable_broker_keeps_its_places(lock, redis, listen):
    listen(4)
    lock.acquire(1)
    for n, at in ((2, 5), (3, 5), (4, 4), (5, 4), (6, 5), (7, 4)):
        lock.enqueue(n, at=at)
    for releases, next_one in ((1, 4), (4, 5), (5, 7)):
        lock.release(releases)
        assert lock.holder() == next_one, "who can hear is served in turn"
    assert lock.waiters() == [2, 3, 6], "however often it is passed over"
    assert lock.tend(at=5)[0] == TENDED and lock.enqueue(3, at=5)[:3:2] == [QUEUED, 1]
    listen(5)
    for releases, next_one in ((7, 2), (2, 3), (3, 6)):
        lock.release(releases)
        assert lock.holder() == next_one, "served as soon as it can hear"


def test_an_unreachable_broker_keeps_its_places_while_others_come_and_go(lock, redis):
    lock.acquire(1)
    lock.enqueue(2, at=5)
    lock.enqueue(3, at=5)
    for n in (1, 7, 8, 9):
        assert lock.acquire(n)[0] == GRANTED and lock.waiters() == [2, 3]
        lock.release(n)
    assert lock.holder() is None and lock.tend(at=5)[3] == owner(2), "it finds out by itself that the lock is free"


def test_an_unreachable_broker_lets_the_lock_go_free(lock, redis):
    lock.acquire(1)
    lock.enqueue(2, at=5)
    token = redis("GET", lock.t)
    assert len(lock.release(1)) == 2
    assert lock.holder() is None and redis("GET", lock.t) == token, "a grant nobody got is none"
    assert lock.acquire(7)[0] == GRANTED


def test_untrusted_count_believes_the_slot(lock):
    lock.trusted = 0
    lock.acquire(1)
    lock.enqueue(2, at=5)
    lock.release(1)
    assert lock.holder() == 2


def test_block_keeps_everybody_out_for_so_long(lock, redis, server):
    lock.acquire(1, info="who")
    lock.enqueue(2)
    assert lock.release(1, block=60_000)[2:] == ["blocked", "60000"]
    assert redis("GET", lock.h).split(b";")[1].decode() == NOBODY and redis("GET", lock.h).endswith(b";who")
    assert 58_000 < redis("PTTL", lock.h) <= 60_000
    assert lock.release(1)[0] == NOT_HOLDER and lock.withdraw(1)[0] == GONE
    assert lock.renew((lock, 1, TTL_MS))[2:] == [2]
    assert 58_000 < redis("PTTL", lock.h)
    assert lock.waiters() == [2]
    redis("DEL", lock.h)
    assert lock.tend()[3] == owner(2)


def test_block_is_told_to_the_broker_of_the_first_who_can_hear(lock, redis, listen):
    ears = {at: listen(at) for at in (1, 4, 5)}
    lock.acquire(1)
    for n, at in ((2, 6), (3, 7), (4, 7), (5, 4), (6, 5), (7, 1)):
        lock.enqueue(n, at=at)
    redis("DEL", lock.slot(6))  # dead; 7 is unreachable
    waiters = lock.waiters()
    since = lock.release(1, block=1_500)[1]
    assert {at: ear.heard() for at, ear in ears.items()} == {1: [], 4: [("default/k", since, 1_500)], 5: []}
    assert lock.waiters() == waiters, "nobody is served yet, and nobody removed"


def test_block_is_not_told_to_the_callers_own_broker(lock, listen):
    ears = [listen(at) for at in (1, 4)]
    lock.acquire(1)
    for n, at in ((2, 7), (3, 1), (4, 4)):
        lock.enqueue(n, at=at)
    lock.release(1, block=1_500)
    assert [ear.heard() for ear in ears] == [[], []]


def test_block_survives_a_foreign_queue(lock, redis):
    lock.acquire(1)
    redis("SET", lock.q, "not ours", "PX", 60_000)
    assert lock.release(1, block=60_000)[2:] == ["blocked", "60000"]


def test_release_takes_the_last_member_of_each_key(lock, redis):
    lock.acquire(1)
    lock.enqueue(2)
    lock.release(1)
    assert redis("EXISTS", lock.q, lock.w) == 0


def test_withdraw_of_a_waiter(lock, redis):
    lock.acquire(1)
    for n in (2, 3):
        lock.enqueue(n)
    assert lock.withdraw(2)[0] == WITHDRAWN and lock.waiters() == [3]
    assert redis("HKEYS", lock.w) == [owner(3).encode()]
    assert lock.withdraw(2)[0] == GONE and lock.holder() == 1


def test_withdraw_where_nothing_is(lock, redis):
    assert lock.withdraw(1)[0] == GONE and redis("DBSIZE") == 0


@pytest.mark.parametrize("apart", [0, 1], ids=["one_ttl", "each_its_ttl"])
def test_renew_many(redis, apart):
    locks = [Lock(redis, f"default/{i}") for i in range(100)]
    for i, lock in enumerate(locks):
        lock.acquire(i, ttl=5_000)
    redis("DEL", locks[3].h)
    locks[4].release(4)
    locks[4].acquire(1000, ttl=5_000)
    redis("DEL", locks[5].h)
    redis("RPUSH", locks[5].h, "x")
    redis("PEXPIRE", locks[5].h, 5_000)
    redis("SET", locks[6].h, "not ours", "PX", 5_000)
    reply = locks[0].renew(*((lock, i, 20_000 + apart * i) for i, lock in enumerate(locks)))
    assert reply[0] == RENEWED and reply[2:] == [1, 1, 1, 0, 2, 2, 2] + [1] * 93
    for i, left in enumerate(redis.pipeline([("PTTL", lock.h) for lock in locks])):
        assert (left > 18_000) == (reply[2 + i] == 1), (i, left)
    assert redis("EXISTS", locks[3].h) == 0, "a key that is gone is not made again"
