# SPDX-License-Identifier: Apache-2.0
"""Several locks of one call: all that are free, or none."""

import re

import pytest

from lock import GRANTED, HELD, KEEP_MS, TTL_MS, Lock, owner


@pytest.fixture
def three(redis):
    return [Lock(redis, f"default/{key}") for key in "abc"]


def acquire_all(locks, *, first=1, wants=None, not_after=0, ttl=TTL_MS, delay=0):
    argv = []
    for i, _ in enumerate(locks):
        argv += [owner(first + i), ttl, delay, (wants or ["x"] * len(locks))[i], f"info {i}"]
    keys = [key for lock in locks for key in lock.keys]
    return locks[0].call("acquire_all", not_after, KEEP_MS, locks[0].hold_off, *argv, keys=keys)


def test_all_free_are_all_taken_as_acquire_takes_them(three, redis):
    code, time, *grants = acquire_all(three, delay=700)
    assert code == GRANTED and len(grants) == 6
    for i, lock in enumerate(three):
        token, since = grants[2 * i:2 * i + 2]
        assert int(token) >= int(time) and since == time
        assert redis("GET", lock.h).decode() == f"1;{owner(1 + i)};{token};{since};{TTL_MS};700;info {i}"
        assert redis("GET", lock.t).decode() == token
        assert TTL_MS < redis("PTTL", lock.h) <= TTL_MS + 700
    assert redis("DBSIZE") == 6


def test_one_that_is_waited_for_is_not_free(three, redis):
    three[2].acquire(8)
    three[2].enqueue(9)
    redis("DEL", three[2].h)
    assert acquire_all(three)[::2] == [HELD, 3]


@pytest.mark.parametrize("which", (0, 1, 2))
def test_what_is_not_ours_is_not_free(redis, which):
    locks = [Lock(redis, f"default/{key}", check_ttl=False) for key in "ab"]
    redis("RPUSH", locks[1].keys[which], "x")
    assert acquire_all(locks)[::2] == [HELD, 2]
    assert redis("DBSIZE") == 1


def test_at_maxmemory_it_is_refused_whole(three, redis):
    redis("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(Exception, match="OOM"):
            acquire_all(three)
        assert redis("DBSIZE") == 0
    finally:
        redis("CONFIG", "SET", "maxmemory", "0")


def test_commands(three, redis):
    def count():
        redis("CONFIG", "RESETSTAT")
        acquire_all(three)
        stats = redis("INFO", "commandstats").decode()
        return sum(int(n) for name, n in re.findall(r"cmdstat_([^:]+):calls=(\d+)", stats)
                   if name in ("time", "exists", "zcard", "mget", "get", "set"))

    for lock in three:
        lock.check_ttl = False
    assert count() == 1 + 6 * 3
    for i, lock in enumerate(three):
        lock.release(1 + i)
    assert count() == 1 + 5 * 3
