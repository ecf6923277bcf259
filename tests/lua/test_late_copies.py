# SPDX-License-Identifier: Apache-2.0
"""A call that comes late, beside what its owner has been given since. What the broker sends about locks is tried in
tests/store/late_copies_test.cc, by its own encoders; here, that each script says what bounds it, and the scripts that
are about servers or change nothing."""

import re

import pytest

from lock import (ADOPTED, GONE, GRANTED, LATE, LUA, QUEUED, RELEASED, RENEWED, TENDED, TTL_MS, WITHDRAWN, owner,
                  source, writes)
from test_census import count
from test_schema import HOUR_MS, age, announce, fields

LATE_US = 20_000_000
HOLD_MS = 5_000
COMPLETE_IF = ["never", "beating", "original", "beating original"]


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


# ---- Servers ----

def end_of(census):
    return census.since + census.hold * 1000 if census.since else float("inf")


def sent_long_ago(redis, identity, complete_if, knows):
    """A census of data that were known for complete, asked for LATE_US ago, when the settings kept each write."""
    return {"identity": identity, "complete_if": complete_if, "started": 1, "known": knows and 12345, "marked": knows,
            "kept": now_us(redis) - LATE_US}


@pytest.mark.parametrize("complete_if", COMPLETE_IF)
@pytest.mark.parametrize("copied", ["", "copied"])
@pytest.mark.parametrize("knows", [0, 1], ids=["new", "known"])
def test_a_census_of_other_data_that_comes_late_ends_no_hold_off(redis, complete_if, copied, knows):
    late = sent_long_ago(redis, "a:1", complete_if, knows)
    count(redis, identity="a:1", known=12345, copied=copied)  # the settings have changed
    today = {"identity": "a:2", "complete_if": complete_if, "started": now_us(redis)}
    before = count(redis, **today)
    assert before.hold == HOLD_MS or "original" in complete_if and not copied
    knower = {**today, "known": before.since, "known_hold": before.hold, "marked": 1}
    for caller in (today, knower):
        count(redis, **late)
        after = count(redis, **caller)
        assert after.since >= before.since and end_of(after) >= end_of(before)


@pytest.mark.parametrize("complete_if", COMPLETE_IF)
@pytest.mark.parametrize("knows", [0, 1], ids=["new", "known"])
@pytest.mark.parametrize("when", ["first", "between", "last"])
def test_a_census_that_comes_late_does_not_hide_that_data_were_deleted(redis, complete_if, knows, when):
    late = sent_long_ago(redis, "a:1", complete_if, knows)
    newcomer = {"identity": "a:1", "complete_if": complete_if, "started": 1}
    knower = {**newcomer, "known": 12345, "marked": 1}
    count(redis, **knower)
    redis("FLUSHALL")
    deleted = now_us(redis)
    if when == "first":
        count(redis, **late)
    elif when == "between":
        count(redis, **newcomer)
        count(redis, **late)
    found = count(redis, **knower)
    if when == "last":
        count(redis, **late)
    assert end_of(found) >= deleted + HOLD_MS * 1000
    for caller in (newcomer, {**knower, "known": found.since, "known_hold": found.hold}):
        after = count(redis, **caller)
        assert (after.since, after.hold) == (found.since, found.hold)


@pytest.mark.parametrize("late", [{"newest": 1}, {"newest": 2, "want": 1}, {"newest": 2, "want": 2}])
def test_a_schema_mark_is_not_lowered_by_what_comes_late(redis, late):
    announce(redis, newest=2, want=2)
    age(redis, "since_us", HOUR_MS)
    before = fields(redis)
    announce(redis, **late, who=7)
    after = fields(redis)
    assert {**after, "reads:2": ""} == {**before, "reads:2": ""}
    redis("DEL", "dl:schema")
    announce(redis, newest=3, oldest=2, want=3)
    before = fields(redis)
    announce(redis, **late, who=7)
    assert fields(redis) == before, "its broker cannot read the store any more"


def test_an_upgrade_that_comes_late_heeds_who_reads_less_by_now(redis):
    announce(redis, newest=2)
    announce(redis, newest=1, who=7)
    said = announce(redis, newest=2, want=2)
    assert (said["writes"], said["reads"]) == (1, 1) and fields(redis)["writes"] == "1"


def member(redis, servers, how="first"):
    keys = ("dl:members", "dl:m", "dl:members:new", "dl:beat", "dl:schema")
    reply = redis("EVAL", source("redlock_member"), len(keys), *keys, servers, how, "a:1", 60_000, 10_000)
    return reply[2].decode(), reply[3]


@pytest.mark.parametrize("how", ["first", "new"])
@pytest.mark.parametrize("servers", ["", "3;a,b,c", "3;d,e,f"])
def test_the_mark_of_a_server_stays_as_it_is_whatever_comes_late(lock, redis, how, servers):
    assert member(redis, "3;a,b,c", "new") == ("3;a,b,c", 1)
    count(redis, identity="a:2")
    redis("PEXPIRE", "dl:members:new", 5_000)
    before = lock.snapshot()
    assert member(redis, servers, how) == ("3;a,b,c", 1)
    assert lock.snapshot() == before and redis("PTTL", "dl:members:new") <= 5_000
    redis("DEL", "dl:members:new")
    assert member(redis, servers, how) == ("3;a,b,c", 0), "the servers are new no longer"


def test_inspect_wanted_and_probe_change_nothing(lock, redis):
    token = lock.acquire(1)[2]
    lock.enqueue(2)
    before = lock.snapshot()
    lock.inspect()
    lock.wanted(1, token, of=2)
    lock.wanted(1, int(token) - 1, of=2)
    redis("EVAL", source("probe"), 1, lock.h, "dl:grant:x")
    assert lock.snapshot() == before
