# SPDX-License-Identifier: Apache-2.0
"""A broker keeps a lock for its next lease: it is told when somebody else wants the lock, and it tells who has it."""

import pytest

from lock import (ADOPTED, DOWNGRADED, FAIR_AFTER_US, GONE, GRANTED, HELD, KEEP_MS, KEPT, MISMATCH, NOT_HOLDER, NOTED,
                  QUEUED, RELEASED, RENEWED, TOLD, TTL_MS, broker, owner)

MARK = f"l;{broker(2)};"


def take(lock, n=1, **how):
    """Owner n has the lock through broker 2, which may keep it."""
    return int(lock.acquire(n, at=2, info=MARK + f"lease {n}", **how)[2])


@pytest.mark.parametrize("wait", [0, 1])
def test_whoever_does_not_get_it_has_its_broker_told(lock, listen, wait):
    ear = listen(2)
    take(lock)
    assert lock.acquire(3, wait=wait)[0] == (QUEUED if wait else HELD)
    assert ear.heard() == [("default/k", "recall")]
    assert lock.acquire(4, wait=wait)[0] == (QUEUED if wait else HELD)
    assert ear.heard() == [("default/k", "recall")], "each time: the first one may have been lost"


@pytest.mark.parametrize("want", ["s", "xa", "x"])
def test_also_by_those_who_want_it_otherwise(lock, listen, want):
    ear = listen(2)
    take(lock)
    assert lock.enqueue(3, want=want, preferred=1)[0] == QUEUED
    assert ear.heard() == [("default/k", "recall")]


def test_not_by_callers_of_the_same_broker(lock, listen):
    ear = listen(2)
    take(lock)
    assert lock.enqueue(3, at=2)[0] == QUEUED and lock.acquire(4, at=2)[0] == HELD
    assert ear.heard() == []


def test_not_for_a_holder_without_the_mark(lock, listen):
    ear = listen(2)
    lock.acquire(1, at=2, info=f"{broker(2)};l;")
    lock.enqueue(3)
    lock.acquire(4)
    assert ear.heard() == []


def test_also_by_a_try_that_does_not_mix(lock, listen):
    ear = listen(2)
    take(lock)
    refused = lock.acquire(3, want="p1/3")
    assert (refused[0], refused[2], refused[-1]) == (MISMATCH, "x", "lingers")
    assert ear.heard() == [("default/k", "recall")]


def other_brokers_calls(lock, token, at):
    """What may end, move or renew the hold of owner 1, through a broker."""
    return {
        "release": lambda: lock.release(1, at=at, token=token),
        "release of any grant": lambda: lock.release(1, at=at),
        "release with a delay": lambda: lock.release(1, block=1_000, at=at, token=token),
        "downgrade": lambda: lock.downgrade(1, at=at, token=token),
        "adopt": lambda: lock.call("adopt", owner(1), token, owner(5), 0, "x", "info"),
        "renew": lambda: lock.call("renew", TTL_MS, f"{owner(1)};{token};{TTL_MS};0", keys=[lock.h]),
    }


CALLS = tuple(other_brokers_calls(None, 0, 0))


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("batched", [False, True])
def test_only_its_broker_ends_such_a_hold(lock, listen, redis, what, batched):
    """The lock may be its next lease's already."""
    ear = listen(2)
    token = take(lock)
    lock.through_batch = batched
    call = other_brokers_calls(lock, token, at=3)[what]
    before = redis("GET", lock.h)
    redis("PEXPIRE", lock.h, 9_000)
    reply = call()
    assert reply[2] == "4" if what == "renew" else reply[0] == KEPT
    assert redis("GET", lock.h) == before and redis("PTTL", lock.h) <= 9_000
    assert ear.heard() == [("default/k", "settle", 1, token)]
    # Its broker does not keep it.
    assert lock.note(1, token, 1, token)[0] == NOTED
    assert redis("GET", lock.h).decode() == before.decode().replace(MARK, "") and redis("PTTL", lock.h) <= 9_000
    reply = call()
    assert reply[0] in (RELEASED, DOWNGRADED, ADOPTED, RENEWED) and reply[2:3] != ["4"]
    assert ear.heard() == []


@pytest.mark.parametrize("what", ["downgrade", "adopt", "renew"])
def test_nor_does_its_broker_change_it_otherwise(lock, listen, redis, what):
    """It may keep the lock just now."""
    ear = listen(2)
    token = take(lock)
    before = redis("GET", lock.h)
    reply = other_brokers_calls(lock, token, at=2)[what]()
    assert reply[2] == "4" if what == "renew" else reply[0] == KEPT
    assert redis("GET", lock.h) == before and ear.heard() == [("default/k", "settle", 1, token)]


@pytest.mark.parametrize("what", ["release", "release of any grant"])
@pytest.mark.parametrize("batched", [False, True])
def test_its_own_broker_releases_it(lock, listen, what, batched):
    ear = listen(2)
    token = take(lock)
    lock.through_batch = batched
    assert other_brokers_calls(lock, token, at=2)[what]()[0] == RELEASED
    assert ear.heard() == []


@pytest.mark.parametrize("what", CALLS)
def test_calls_about_the_former_owner_do_nothing_to_the_next(lock, listen, what):
    ear = listen(2)
    token = take(lock)
    lock.note(1, token, 2, token + 7, info=MARK)
    before = lock.snapshot()
    reply = other_brokers_calls(lock, token, at=3)[what]()
    assert reply[2] == "2" if what == "renew" else reply[0] == NOT_HOLDER
    assert lock.snapshot() == before and ear.heard() == []


def test_an_order_to_a_broker_that_does_not_listen_frees_nothing(lock, listen):
    token = take(lock)
    assert lock.force(1, of=2, at=3)[0] == TOLD and lock.holder() == 1
    assert lock.force(1, of=None, at=3)[0] == TOLD and lock.holder() == 1
    ear = listen(2)
    assert lock.force(1, of=2, at=3)[0] == TOLD
    assert ear.heard() == [("default/k", "force", 1, str(token), "why")]
    assert lock.force(1, of=2, at=2)[0] == TOLD and lock.holder() == 1, "its own broker may just keep it"
    assert ear.heard() == [("default/k", "settle", 1, token)]
    lock.note(1, token, 1, token)
    assert lock.force(1, of=2, at=2)[0] == RELEASED
    assert lock.force(1, of=2, at=3)[0] == GONE


def test_a_mark_that_is_gone_does_not_come_back(lock, redis):
    token = take(lock)
    lock.note(1, token, 2, token + 7, info=MARK)
    lock.note(2, token + 7, 2, token + 7)
    plain = redis("GET", lock.h)
    assert lock.note(1, token, 2, token + 7, info=MARK)[0] == NOTED and redis("GET", lock.h) == plain, "a late call"
    assert lock.note(2, token + 7, 2, token + 7)[0] == NOTED and redis("GET", lock.h) == plain
    assert lock.note(1, token, 1, token)[0] == NOT_HOLDER and redis("GET", lock.h) == plain


def test_a_lock_without_a_mark_costs_what_it_did(lock, redis):
    lock.acquire(1, info=f"{broker(2)};")
    redis("CONFIG", "RESETSTAT")
    lock.enqueue(2)
    assert b"cmdstat_publish" not in redis("INFO", "commandstats")


def test_the_store_knows_the_next_owner(lock, redis):
    token = take(lock)
    redis("PEXPIRE", lock.h, 1_000)
    noted = lock.note(1, token, 2, token + 7, info=MARK + "lease 2")
    assert noted[0::2] == [NOTED, 0] and lock.holder() == 2
    assert redis("PTTL", lock.h) > TTL_MS - 1_000 and int(redis("GET", lock.t)) == token + 7
    value = redis("GET", lock.h).decode()
    assert value == f"1;{owner(2)};{token + 7};{token};{TTL_MS};0;{MARK}lease 2", "since this server granted it"
    assert lock.renew((lock, 2, TTL_MS, token + 7))[0::2] == [RENEWED, 1]
    assert lock.release(1, at=2, token=token)[0] == NOT_HOLDER, "the former owner has it no more"
    assert lock.release(2, at=2, token=token + 7)[0] == RELEASED
    assert int(lock.acquire(3)[2]) > token + 7


def test_a_repeat_begins_the_ttl_anew_and_changes_nothing_else(lock, redis):
    token = take(lock)
    lock.note(1, token, 2, token + 7, info=MARK)
    before = redis("GET", lock.h)
    redis("PEXPIRE", lock.h, 1_000)
    lock.enqueue(3)
    assert lock.note(1, token, 2, token + 7, info=MARK)[0::2] == [NOTED, 1], "and tells of those who wait"
    assert redis("GET", lock.h) == before and redis("PTTL", lock.h) > TTL_MS - 1_000


def test_nothing_is_done_when_neither_has_it(lock, redis):
    token = take(lock)
    for call in ((1, token + 1, 2, token + 7), (3, token, 2, token + 7), (3, token, 1, token + 1)):
        before = lock.snapshot()
        assert lock.note(*call)[0] == NOT_HOLDER and lock.snapshot() == before
    lock.note(1, token, 1, token)
    lock.downgrade(1)
    assert lock.note(1, token, 2, token + 7)[0] == NOT_HOLDER, "others may share it"
    lock.release(1, at=2)
    assert lock.note(1, token, 2, token + 7)[0] == NOT_HOLDER and redis("EXISTS", lock.h) == 0


def test_a_late_call_finds_the_next_owner_and_leaves_it_alone(lock):
    token = take(lock)
    lock.note(1, token, 2, token + 7, info=MARK)
    lock.note(2, token + 7, 3, token + 9, info=MARK)
    assert lock.note(1, token, 2, token + 7, info=MARK)[0] == NOT_HOLDER and lock.holder() == 3


def test_a_token_that_was_lost_or_is_greater(lock, redis):
    token = take(lock)
    redis("DEL", lock.t)
    lock.note(1, token, 2, token + 7, info=MARK)
    assert int(redis("GET", lock.t)) == token + 7
    redis("SET", lock.t, token + 100, "PX", KEEP_MS)
    lock.note(2, token + 7, 3, token + 9, info=MARK)
    assert int(redis("GET", lock.t)) == token + 100
    redis("DEL", lock.t)
    redis("LPUSH", lock.t, "foreign")
    redis("PEXPIRE", lock.t, KEEP_MS)
    assert lock.note(3, token + 9, 4, token + 11, info=MARK)[0] == NOTED
    assert redis("TYPE", lock.t) in ("list", b"list")


def test_it_works_without_memory(lock, redis):
    token = take(lock)
    redis("CONFIG", "SET", "maxmemory", "1")
    assert lock.note(1, token, 2, token + 7, info=MARK)[0] == NOTED and lock.holder() == 2


def test_watchers_are_told(lock, listen):
    ear = listen(5)
    token = take(lock)
    lock.watch(at=5)
    noted = lock.note(1, token, 2, token + 7, info=MARK)
    assert ear.heard() == [("default/k", noted[1])]
    lock.note(1, token, 2, token + 7, info=MARK)
    assert ear.heard() == [], "nothing has changed"


def test_its_release_hands_on(lock, listen):
    ear = listen(1)
    token = take(lock)
    lock.note(1, token, 2, token + 7, info=MARK)
    lock.enqueue(3)
    argv = (owner(2), token + 7, 0, KEEP_MS, 1, broker(2), FAIR_AFTER_US, 0)
    assert lock.call("release", *argv)[0] == RELEASED
    assert [(note[1], int(note[2]) > token + 7) for note in ear.heard()] == [(3, True)]
    assert lock.acquire(3)[0] == GRANTED
