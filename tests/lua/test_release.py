# SPDX-License-Identifier: Apache-2.0
"""release, withdraw and renew."""

import pytest

from lock import GONE, GRANTED, KEEP_MS, NOT_HOLDER, QUEUED, RELEASED, RENEWED, TENDED, Lock, broker, owner


def test_release_leaves_only_the_token(lock, redis):
    lock.acquire(1)
    assert lock.release(1)[0] == RELEASED
    assert redis("KEYS", "*") == [lock.t.encode()]


def test_a_release_by_a_stranger_or_a_waiter_writes_nothing(lock):
    lock.acquire(1)
    lock.enqueue(2)
    before = lock.snapshot()
    assert lock.release(3)[0] == NOT_HOLDER and lock.release(2)[0] == NOT_HOLDER
    assert lock.snapshot() == before


def test_the_next_holders_key_lasts_for_its_own_ttl_and_delay(lock, redis):
    lock.acquire(1)
    lock.enqueue(2, ttl=4_000, delay=300)
    lock.enqueue(3, ttl=8_000)
    lock.release(1)
    assert 2_300 < redis("PTTL", lock.h) <= 4_300 and redis("PTTL", lock.t) > KEEP_MS - 2_000
    redis("DEL", lock.h)
    assert lock.tend(first=3)[3] == owner(3) and 6_000 < redis("PTTL", lock.h) <= 8_000


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


def test_no_call_of_the_former_holder_changes_a_block(lock, redis):
    lock.acquire(1)
    lock.release(1, block=60_000)
    assert lock.withdraw(1)[0] == GONE and lock.release(1)[0] == NOT_HOLDER
    assert lock.renew((lock, 1, 90_000))[2:] == [2]
    assert 58_000 < redis("PTTL", lock.h) <= 60_000


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


def test_withdraw_where_nothing_is(lock, redis):
    assert lock.withdraw(1)[0] == GONE and redis("DBSIZE") == 0


@pytest.mark.parametrize("apart", [0, 1], ids=["one_ttl", "each_its_ttl"])
def test_renewals_leave_alone_what_is_not_theirs(redis, apart):
    mine, gone, a_list, a_text = locks = [Lock(redis, f"default/{i}") for i in range(4)]
    mine.acquire(0, ttl=5_000)
    redis("RPUSH", a_list.h, "x")
    redis("PEXPIRE", a_list.h, 5_000)
    redis("SET", a_text.h, "not ours", "PX", 5_000)
    reply = mine.renew(*((lock, i, 20_000 + apart * i) for i, lock in enumerate(locks)))
    assert reply[0] == RENEWED and reply[2:] == [1, 0, 2, 2]
    assert redis("EXISTS", gone.h) == 0, "a key that is gone is not made again"
    assert [redis("PTTL", lock.h) > 18_000 for lock in locks] == [True, False, False, False]
