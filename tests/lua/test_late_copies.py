# SPDX-License-Identifier: Apache-2.0
"""A call that comes late, beside what its owner has been given since. What the broker sends is tried in
tests/store/late_copies_test.cc, by its own encoders; here, that each script says what bounds it."""

import re

import pytest

from lock import ADOPTED, GONE, GRANTED, LATE, LUA, QUEUED, RELEASED, RENEWED, TENDED, TTL_MS, WITHDRAWN, owner, writes


def test_each_script_says_what_bounds_a_late_copy():
    section = re.search(r"^## Late copies$(.*?)^## ", (LUA / "README.md").read_text(), re.M | re.S)[1]
    told = dict(re.findall(r"^\| ([\w/]+) \| (.+?) \|$", section, re.M))
    del told["script"]
    scripts = {path.stem for path in (LUA / "single").glob("*.lua")}
    scripts |= {f"redlock/{path.stem}" for path in (LUA / "redlock").glob("*.lua")}
    assert set(told) == scripts


def now_us(redis):
    seconds, micros = redis("TIME")
    return int(seconds) * 1_000_000 + int(micros)


def test_a_withdrawal_that_comes_too_late_changes_nothing(lock, redis):
    late = now_us(redis)
    lock.acquire(1)
    assert lock.withdraw(1, not_after=late)[0] == LATE and lock.holder() == 1
    assert lock.enqueue(2)[0] == QUEUED
    assert lock.withdraw(2, not_after=late)[0] == LATE and lock.waiters() == [2]
    in_time = now_us(redis) + 10_000_000
    assert lock.withdraw(2, not_after=in_time)[0] == WITHDRAWN and lock.waiters() == []
    assert lock.withdraw(1, not_after=in_time)[0] == RELEASED and lock.holder() is None
    assert lock.withdraw(1, not_after=in_time)[0] == GONE


@pytest.mark.parametrize("want", ["x", "s"])
@pytest.mark.parametrize("verb, code", [("acquire", GRANTED), ("renew", RENEWED), ("adopt", ADOPTED), ("tend", TENDED)])
def test_a_repeat_that_replicas_are_to_confirm_writes(lock, redis, verb, code, want):
    """Valkey, and Redis from 7.2 on, let WAIT count only what its own connection has written, and the first try may
    have come over another one. Of a repeated release: test_min_hold.py."""
    token = lock.acquire(1, want=want)[2]
    lock.enqueue(2)

    def call():
        if verb == "acquire":
            return lock.acquire(1, want=want)
        if verb == "renew":
            return lock.renew((lock, 1, TTL_MS, token))
        if verb == "adopt":
            return lock.call("adopt", owner(1), token, owner(7), 0, want, "new", 0)
        return lock.tend(first=2)
    for _ in range(2):
        before = writes(redis)
        assert call()[0] == code and writes(redis) > before
