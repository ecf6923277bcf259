# SPDX-License-Identifier: Apache-2.0
"""tend and inspect."""

from lock import GONE, QUEUED, SLOT_MS, TENDED, owner


def test_tend_keeps_the_queue_alive(lock, redis):
    lock.acquire(1)
    lock.enqueue(2)
    for key in (lock.q, lock.w, lock.slot()):
        redis("PEXPIRE", key, 1_000)
    assert lock.tend()[0] == TENDED
    for key in (lock.q, lock.w, lock.slot()):
        assert redis("PTTL", key) > SLOT_MS - 2_000


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


def test_tend_for_a_waiter_whose_grant_ended_unheard_changes_nothing(lock, redis):
    lock.acquire(1)
    for n in (2, 3, 4):
        lock.enqueue(n)
    lock.release(1)
    redis("DEL", lock.h)
    before = lock.snapshot()
    assert lock.tend(first=2)[0] == GONE and lock.snapshot() == before
    assert lock.tend(first=4)[3] == owner(3), "it waits, though not as the first"


def test_tend_where_nothing_is(lock, redis):
    assert lock.tend()[0] == GONE and redis("DBSIZE") == 0


def test_inspect_changes_nothing_and_shows_a_waiter_without_an_entry(lock, redis):
    assert lock.inspect()[2:] == [-2, "", "0", 0] and redis("DBSIZE") == 0
    lock.acquire(1)
    for n in range(2, 252):
        lock.enqueue(n)
    redis("HDEL", lock.w, owner(2))
    before = lock.snapshot()
    for limit in (0, 1, 100, 101, 250, 1000):
        reply = lock.inspect(limit)
        assert reply[5] == 250 and reply[6::2] == [owner(n) for n in range(2, 2 + min(limit, 250))]
        assert "" not in reply[9::2] and reply[7:8] == [""] * min(limit, 1)
    assert lock.snapshot() == before
