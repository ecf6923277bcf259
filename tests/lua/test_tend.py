# SPDX-License-Identifier: Apache-2.0
"""tend and inspect."""

import re

from lock import GONE, INSPECTED, QUEUED, SLOT_MS, TENDED, TTL_MS, broker, owner


def test_tend_keeps_the_queue_alive(lock, redis):
    token = lock.acquire(1, delay=9)[2]
    lock.enqueue(2)
    for key in (lock.q, lock.w, lock.slot()):
        redis("PEXPIRE", key, 1_000)
    code, _, pttl, who, has, since, ttl, delay, more = lock.tend()
    assert (code, who, has, ttl, delay, more) == (TENDED, owner(1), token, str(TTL_MS), "9", 0)
    assert since == token and TTL_MS - 2_000 < pttl <= TTL_MS + 9
    for key in (lock.q, lock.w, lock.slot()):
        assert redis("PTTL", key) > SLOT_MS - 2_000


def test_tend_of_a_free_lock_hands_off(lock, redis, listen):
    ear, own = listen(4), listen(1)
    lock.acquire(1)
    lock.enqueue(2, at=4)
    lock.enqueue(3, at=1, ttl=4_000)
    redis("DEL", lock.h)
    assert lock.tend(at=1)[3] == owner(2) and [notice[1] for notice in ear.heard()] == [2]
    redis("DEL", lock.h)
    code, time, pttl, who, token, since, ttl, delay, more = lock.tend(at=1)
    assert (code, who, since, ttl, delay, more) == (TENDED, owner(3), time, "4000", "0", 0)
    assert redis("GET", lock.t).decode() == token and 2_000 < pttl <= 4_000
    assert own.heard() == [], "the reply says it"


def test_tend_of_a_free_lock_with_unreachable_waiters(lock, redis):
    lock.acquire(1)
    lock.enqueue(2, at=4)
    lock.enqueue(3, at=1)
    redis("DEL", lock.h)
    assert lock.tend(at=1)[3] == owner(3)
    lock.enqueue(5, at=1)
    lock.withdraw(5)
    redis("DEL", lock.h)
    assert lock.tend(at=1)[2:] == [-2, "", "0", "0", "0", "0", 0]


def test_tend_when_the_slot_is_gone(lock, redis):
    lock.acquire(1)
    lock.enqueue(2)
    redis("DEL", lock.slot())
    before = lock.snapshot()
    assert lock.tend()[0] == GONE
    assert lock.snapshot() == before
    lock.enqueue(2)
    assert lock.tend()[0] == TENDED


def test_tend_when_part_of_the_queue_is_gone(lock, redis):
    for lost in (lock.q, lock.w):
        redis("FLUSHALL")
        lock.acquire(1)
        for n in (2, 3):
            lock.enqueue(n)
        redis("DEL", lost)
        assert lock.tend()[0] == GONE
        for n in (2, 3):
            assert lock.enqueue(n)[0] == QUEUED
        assert lock.tend()[0] == TENDED and lock.waiters() == [2, 3]
    redis("HDEL", lock.w, owner(2))
    assert lock.tend()[0] == GONE


def test_tend_when_the_first_waiter_was_granted_and_expired_unheard(lock, redis):
    lock.acquire(1)
    for n in (2, 3, 4):
        lock.enqueue(n)
    lock.release(1)
    assert lock.tend(first=2)[3] == owner(2), "it holds"
    redis("DEL", lock.h)
    before = lock.snapshot()
    assert lock.tend(first=2)[0] == GONE and lock.snapshot() == before
    assert lock.tend(first=4)[3] == owner(3), "it waits, though not as the first"


def test_tend_where_nothing_is(lock, redis):
    assert lock.tend()[0] == GONE and redis("DBSIZE") == 0


def test_inspect(lock, redis):
    code, time, *rest = lock.inspect()
    assert code == INSPECTED and rest == [-2, "", "0", 0] and redis("DBSIZE") == 0
    token = lock.acquire(1)[2]
    for n in range(2, 252):
        lock.enqueue(n, info=f"i{n}")
    before = lock.snapshot()
    for limit in (0, 1, 100, 101, 250, 1000):
        reply = lock.inspect(limit)
        assert reply[2] > 0 and reply[3].startswith(f"1;{owner(1)};{token};") and reply[4:6] == [token, 250]
        shown = min(limit, 250)
        assert reply[6::2] == [owner(n) for n in range(2, 2 + shown)]
        for n, entry in zip(range(2, 2 + shown), reply[7::2]):
            assert re.fullmatch(rf"{broker(1)};{TTL_MS};0;x;\d+;i{n}", entry)
    redis("HDEL", lock.w, owner(2))
    assert lock.inspect(1)[6:] == [owner(2), ""]
    assert {key: value for key, value in lock.snapshot().items() if key != lock.w.encode()} == {
        key: value for key, value in before.items() if key != lock.w.encode()}
