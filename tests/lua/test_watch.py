# SPDX-License-Identifier: Apache-2.0
"""Who watches a lock is told of each change of its holders and waiters, and of nothing else."""

import pytest

from kinds import RwLock
from lock import FOREIGN, GRANTED, INSPECTED, QUEUED, TTL_MS, Lock, broker, owner
from test_cost import commands


def told(ear):
    """How many notices of changes it has heard; no others."""
    heard = ear.heard()
    assert all(len(notice) == 2 and notice[0] == "default/k" and int(notice[1]) > 0 for notice in heard), heard
    return len(heard)


@pytest.fixture
def ear(lock, listen):
    ear = listen(7)
    lock.watch(at=7)
    return ear


# Each step and how many notices it causes.
CHANGES = {
    "acquire and release": [(lambda l: l.acquire(1), 1), (lambda l: l.release(1), 1)],
    "renewals": [(lambda l: l.acquire(1), 1), (lambda l: l.acquire(1), 0), (lambda l: l.renew((l, 1, TTL_MS)), 0)],
    "one try": [(lambda l: l.acquire(1), 1), (lambda l: l.acquire(2), 0)],
    "queue": [(lambda l: l.acquire(1), 1), (lambda l: l.enqueue(2), 1), (lambda l: l.enqueue(2), 0),
              (lambda l: l.enqueue(2, info="other"), 1), (lambda l: l.withdraw(2), 1), (lambda l: l.withdraw(2), 0)],
    "hand-off": [(lambda l: l.acquire(1), 1), (lambda l: l.enqueue(2), 1), (lambda l: l.release(1), 1),
                 (lambda l: l.release(2), 1)],
    "not the holder": [(lambda l: l.acquire(1), 1), (lambda l: l.release(2), 0), (lambda l: l.withdraw(2), 0)],
    "block": [(lambda l: l.acquire(1), 1), (lambda l: l.release(1, block=60_000), 1)],
    "tend": [(lambda l: l.acquire(1), 1), (lambda l: l.enqueue(2), 1), (lambda l: l.tend(first=2), 0),
             (lambda l: l.redis("DEL", l.h), 0), (lambda l: l.tend(first=2), 1)],
    "newcomer in its turn": [(lambda l: l.acquire(1), 1), (lambda l: l.enqueue(2), 1),
                             (lambda l: l.redis("DEL", l.h), 0), (lambda l: l.enqueue(3), 1)],
    "withdrawn grant": [(lambda l: l.acquire(1), 1), (lambda l: l.withdraw(1), 1)],
}


@pytest.mark.parametrize("case", CHANGES)
def test_one_notice_for_each_change(lock, ear, case):
    for number, (step, notices) in enumerate(CHANGES[case]):
        step(lock)
        assert told(ear) == notices, f"step {number}"


def test_readers_and_permits(redis, listen):
    rw, ear = RwLock(redis), listen(7)
    rw.call("watch", 100, 100, broker(7), 30_000)
    for step, notices in ((lambda: rw.read(1), 1), (lambda: rw.read(2), 1), (lambda: rw.read(2), 0),
                          (lambda: rw.write(3), 1), (lambda: rw.renew((rw, 1, TTL_MS)), 0),
                          (lambda: rw.give_back(1), 1), (lambda: rw.give_back(2, block=9_000), 1)):
        step()
        assert told(ear) == notices


def in_seconds(redis, count):
    return int(redis("TIME")[0]) * 1_000_000 + count * 1_000_000


@pytest.mark.parametrize("want", ["x", "s"])
def test_a_renewal_that_max_hold_cuts_tells_nobody_for_it_ends_no_hold_sooner(redis, lock, ear, want):
    lock.acquire(1, want=want)
    other = Lock(redis, "default/other")
    assert told(ear) == 1
    lock.renew((other, 1, TTL_MS), (lock, 1, TTL_MS, 0, in_seconds(redis, 60)))
    assert told(ear) == 0
    lock.renew((other, 1, TTL_MS), (lock, 1, TTL_MS, 0, in_seconds(redis, 5)))
    assert told(ear) == 0


def test_one_slot_ends_beside_another(redis, lock, listen, until):
    short, longer = listen(7), listen(8)
    lock.watch(at=8)
    lock.watch(at=7, slot=30)
    seen = []

    def ended():
        lock.acquire(1)
        lock.release(1)
        seen.append((len(short.heard()), len(longer.heard())))
        return seen[-1][0] == 0

    until(ended)
    assert all(count == 2 for _, count in seen)
    lock.watch(at=9)
    assert redis("GET", lock.v).count(broker(7).encode()) == 0


def test_is_written_again_only_when_a_third_of_it_is_over(redis, lock):
    assert commands(redis, lambda: lock.watch(at=7)) == commands(redis, lambda: lock.watch(at=7)) + 1
    first = redis("GET", lock.v)
    ends = first.split(b";")[1][:-1]
    redis("SET", lock.v, first.replace(ends, b"%d" % (int(ends) - 15_000_000)), "PX", "15000")
    lock.watch(at=7)
    assert redis("GET", lock.v) > first and redis("PTTL", lock.v) > 20_000


def test_the_number_of_watching_brokers_is_bounded(redis, lock, listen):
    ear = listen(200)
    for n in range(1, 101):
        lock.watch(at=n)
    full = redis("GET", lock.v)
    assert lock.watch(at=200)[0] == INSPECTED and redis("GET", lock.v) == full
    lock.acquire(1)
    assert ear.heard() == []


@pytest.mark.parametrize("value", ["x", "1", "0123456789abcdef;5", "0123456789abcdef;x,"])
def test_foreign_shape(redis, lock, value):
    redis("SET", lock.v, value, "PX", 60_000)
    assert lock.watch()[2:] == [lock.v, "shape"] and redis("GET", lock.v) == value.encode()
    assert lock.acquire(1)[0] == GRANTED


def test_foreign_type(redis, lock):
    redis("RPUSH", lock.v, "x")
    redis("PEXPIRE", lock.v, 60_000)
    assert lock.watch()[2:] == [lock.v, "list"]
    assert lock.acquire(1)[0] == GRANTED and lock.enqueue(2)[0] == QUEUED and lock.release(1)[2] == owner(2)


def test_a_foreign_lock_is_not_watched(redis, lock):
    redis("RPUSH", lock.h, "x")
    redis("PEXPIRE", lock.h, 60_000)
    assert lock.watch()[0] == FOREIGN and redis("EXISTS", lock.v) == 0


def test_without_memory(redis, lock, ear):
    value = redis("GET", lock.v)
    ends = value.split(b";")[1][:-1]
    redis("SET", lock.v, value.replace(ends, b"%d" % (int(ends) - 15_000_000)), "PX", "15000")
    redis("CONFIG", "SET", "maxmemory", "1")
    assert lock.watch(at=7)[0] == INSPECTED and redis("PTTL", lock.v) > 20_000, "who watches may go on"
    assert lock.watch(at=8)[0] == INSPECTED and broker(8).encode() not in redis("GET", lock.v)


def test_commands(redis, lock, ear):
    bare = Lock(redis, check_ttl=False)
    # A script's own count.
    bare.through_batch = lock.through_batch = bare.by_token = lock.by_token = False
    bare.acquire(1)
    bare.release(1)
    assert commands(redis, lambda: bare.acquire(1)) == 6
    assert commands(redis, lambda: bare.release(1)) == 5
    assert commands(redis, lambda: bare.watch(at=8)) == 8 and commands(redis, lambda: bare.watch(at=8)) == 7
