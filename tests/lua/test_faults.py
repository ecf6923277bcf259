# SPDX-License-Identifier: Apache-2.0
"""What others do to the server: foreign keys, no memory, lost keys, a lost script cache."""

import pytest

from lock import (FOREIGN, GONE, GRANTED, HELD, KEEP_MS, NOT_HOLDER, QUEUED, RELEASED, RENEWED, SHA, TENDED, TTL_MS,
                  VERBS, WITHDRAWN, Lock, broker, load, owner, source)
from resp import ReplyError

MAKE = {
    "string": lambda redis, key: redis("SET", key, "9"),
    "list": lambda redis, key: redis("RPUSH", key, "x"),
    "set": lambda redis, key: redis("SADD", key, "x"),
    "zset": lambda redis, key: redis("ZADD", key, "1", "x"),
    "hash": lambda redis, key: redis("HSET", key, "f", "x"),
    "stream": lambda redis, key: redis("XADD", key, "*", "f", "x"),
}
OURS = {"h": "string", "t": "string", "q": "zset", "w": "hash"}


def plant(redis, key, kind):
    redis("DEL", key)
    MAKE[kind](redis, key)
    redis("PEXPIRE", key, 60_000)


def prepare(lock, redis, held, queued):
    redis("FLUSHALL")
    lock.acquire(1)
    if queued:
        lock.enqueue(2)
    if not held:
        redis("DEL", lock.h)


@pytest.mark.parametrize("part, kind", [(part, kind) for part in OURS for kind in MAKE if kind != OURS[part]])
def test_foreign_type_is_named_and_left_alone(lock, redis, part, kind):
    key = getattr(lock, part)
    named = [FOREIGN, key, kind]
    for held in (False, True):
        for queued in (False, True):
            calls = {"enqueue": lambda: lock.enqueue(5), "inspect": lock.inspect}
            if part != "w" or queued or held:
                calls["try"] = lambda: lock.acquire(5)
            if part != "t" or not held:
                calls["tend"] = lock.tend
            if part == "w" and not queued and not held:
                del calls["enqueue"]  # granted without a look at w
            for name, call in calls.items():
                prepare(lock, redis, held, queued)
                plant(redis, key, kind)
                before = lock.snapshot()
                reply = call()
                assert reply[:1] + reply[2:] == named, (name, held, queued, reply)
                assert lock.snapshot() == before, (name, held, queued)


@pytest.mark.parametrize("value", ["", "x", "1;2", f"2;{owner(1)};5;5;5;5;", f"1;{owner(1)};x;5;5;5;", "1;ab;5;5;5;5;",
                                   f"1;{owner(1)};{'9' * 17};5;5;5;"])
def test_foreign_holder_shape(lock, redis, value):
    redis("SET", lock.h, value, "PX", 60_000)
    before = lock.snapshot()
    for reply in (lock.acquire(1), lock.enqueue(1), lock.release(1), lock.tend(), lock.inspect()):
        assert reply[:1] + reply[2:] == [FOREIGN, lock.h, "shape"]
    assert lock.renew((lock, 1, TTL_MS))[2:] == [2]
    assert lock.withdraw(1)[0] == GONE
    assert lock.snapshot() == before


@pytest.mark.parametrize("ttl, delay", [("5", "9" * 20), ("9" * 20, "5"), (str(2**31 - 1), "1")])
def test_a_holder_of_odd_times_costs_only_its_own_renewal(redis, ttl, delay):
    odd, good, readers = (Lock(redis, f"default/{name}") for name in "abc")
    good.acquire(1)
    redis("PEXPIRE", good.h, 500)
    redis("SET", odd.h, f"1;{owner(1)};5;5;{ttl};{delay};", "PX", 60_000)
    redis("HSET", readers.h, "holders", f"s;0;1;{10**16 * 2}", owner(1), f"{10**16 * 2};5;5;{ttl};{delay};1;")
    redis("PEXPIRE", readers.h, 60_000)
    assert good.renew((odd, 1, TTL_MS), (readers, 1, TTL_MS), (good, 1, TTL_MS))[2:] == [2, 2, 1]
    assert redis("PTTL", good.h) > 500


@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", " 1", "0x10", "1e3", str(2**53 - 1), str(2**53), "9" * 400])
def test_foreign_token_shape(lock, redis, value):
    redis("SET", lock.t, value, "PX", 60_000)
    before = lock.snapshot()
    for reply in (lock.acquire(1), lock.enqueue(1), lock.inspect()):
        assert reply[:1] + reply[2:] == [FOREIGN, lock.t, "shape"]
    assert lock.snapshot() == before


@pytest.mark.parametrize("part", ["h", "q", "w", "t"])
def test_giving_back_is_not_refused_for_a_foreign_neighbour(lock, redis, part):
    prepare(lock, redis, held=True, queued=True)
    key = getattr(lock, part)
    plant(redis, key, "set")
    before = redis("DUMP", key)
    if part == "h":
        assert lock.release(1)[0] == FOREIGN
        assert lock.withdraw(2)[0] == WITHDRAWN and lock.waiters() == []
    else:
        reply = lock.release(1)
        assert reply[0] == RELEASED and len(reply) == 2 and lock.holder() is None
        reply = lock.withdraw(2)
        assert reply[0] == (WITHDRAWN if part == "t" else FOREIGN)
    assert redis("DUMP", key) == before


def full(redis):
    redis("CONFIG", "SET", "maxmemory-policy", "noeviction")
    redis("CONFIG", "SET", "maxmemory", "1")


def refused(lock, call):
    before = lock.snapshot()
    with pytest.raises(ReplyError, match="OOM"):
        call()
    assert lock.snapshot() == before


@pytest.mark.parametrize("end", ["release", "redlock_release", "withdraw", "tend"])
def test_a_server_that_writes_nothing_tells_of_no_grant(lock, redis, listen, end):
    ear = listen(2)
    lock.acquire(1)
    lock.enqueue(3, at=1)
    lock.enqueue(2, at=2)
    token = redis("GET", lock.t)
    if end != "withdraw":
        lock.withdraw(3)
    if end in ("withdraw", "tend"):
        redis("DEL", lock.h)
    ends = {
        "release": lambda: lock.release(1),
        "redlock_release": lambda: redis("EVAL", source("redlock_release"), 4, *lock.keys, owner(1), token, 0, 0, "0",
                                         KEEP_MS, 1, broker(1), 0, 0, int(token) + 1),
        "withdraw": lambda: lock.withdraw(3),
        "tend": lambda: lock.tend(2, first=2),
    }
    redis("CONFIG", "SET", "min-replicas-to-write", "1")
    try:
        with pytest.raises(ReplyError, match="NOREPLICAS"):
            ends[end]()
        assert ear.heard() == []
    finally:
        redis("CONFIG", "SET", "min-replicas-to-write", "0")
    ends[end]()
    assert lock.holder() == 2
    if end != "tend":  # its broker asks for itself
        assert [notice[1] for notice in ear.heard()] == [2]


def test_full_memory_refuses_an_acquire_whole(lock, redis, listen):
    ear = listen(1)
    full(redis)
    refused(lock, lambda: lock.acquire(1))
    refused(lock, lambda: lock.enqueue(1))
    redis("CONFIG", "SET", "maxmemory", "0")
    lock.acquire(1)
    lock.enqueue(2)
    full(redis)
    refused(lock, lambda: lock.enqueue(3))
    refused(lock, lambda: lock.enqueue(2))
    assert lock.acquire(3)[0] == HELD
    redis("DEL", lock.h)
    for how in ({"wait": 0}, {"wait": 1}):
        refused(lock, lambda: lock.acquire(3, **how))
        refused(lock, lambda: lock.acquire(2, **how))
    redis("DEL", lock.slot())
    refused(lock, lambda: lock.acquire(3, at=7))
    assert ear.heard() == [], "no notice of a grant that was refused"


def test_full_memory_does_not_stop_the_holders(lock, redis, listen):
    ear = listen(4)
    lock.acquire(1)
    for n, at in ((2, 1), (3, 4), (4, 1), (5, 1), (6, 1)):
        lock.enqueue(n, at=at)
    full(redis)
    assert lock.acquire(1)[0] == GRANTED
    assert lock.renew((lock, 1, TTL_MS))[0::2] == [RENEWED, 1]
    assert lock.release(1)[2] == owner(2)
    assert lock.release(2)[0] == RELEASED and ear.heard()[0][1] == 3 and lock.holder() == 3
    redis("DEL", lock.h)
    assert lock.tend()[3] == owner(4)
    assert lock.withdraw(5)[0] == WITHDRAWN
    assert lock.withdraw(4)[2] == owner(6)
    assert lock.release(6, block=5_000)[2:] == ["blocked", "5000"]
    assert lock.inspect()[2] > 0


def test_every_key_may_vanish(lock, redis):
    for lost in [[part] for part in "htqwb"] + [list("htqwb"), list("hqw"), list("qw"), list("tb")]:
        redis("FLUSHALL")
        first = int(lock.acquire(1)[2])
        for n in (2, 3):
            lock.enqueue(n)
        redis("DEL", *(lock.slot() if part == "b" else getattr(lock, part) for part in lost))
        had_holder = "h" not in lost
        assert lock.renew((lock, 1, TTL_MS))[2:] == [1 if had_holder else 0]
        assert lock.release(1)[0] in ((RELEASED,) if had_holder else (GONE,))
        for n in (2, 3):  # as a broker does whose tend says GONE
            assert lock.enqueue(n)[0] in (GRANTED, QUEUED)
        served = []
        while (holder := lock.holder()) is not None:
            served.append(holder)
            assert int(redis("GET", lock.t)) > first
            lock.release(holder)
        assert served == [2, 3], lost
        assert redis("EXISTS", lock.h, lock.q, lock.w) == 0


def test_flushall_ends_a_lease_for_good(lock, redis):
    lock.acquire(1)
    redis("FLUSHALL")
    assert lock.renew((lock, 1, TTL_MS))[2:] == [0] and redis("DBSIZE") == 0
    assert lock.release(1)[0] == GONE and lock.acquire(2)[0] == GRANTED
    assert lock.renew((lock, 1, TTL_MS))[2:] == [2] and lock.release(1)[0] == NOT_HOLDER


def test_holders_survive_a_lost_script_cache(lock, redis):
    lock.acquire(1)
    lock.enqueue(2)
    redis("SCRIPT", "FLUSH")
    for verb in VERBS:
        with pytest.raises(ReplyError, match="NOSCRIPT"):
            redis("EVALSHA", SHA[verb], 0)
    load(redis)
    assert lock.tend()[0] == TENDED and lock.release(1)[2] == owner(2)
