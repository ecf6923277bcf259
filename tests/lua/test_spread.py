# SPDX-License-Identifier: Apache-2.0
"""A cover: readers of one broker of whom the server knows but one, until they are spread."""

import pytest

from lock import (ADOPTED, DOWNGRADED, GONE, GRANTED, HELD, KEEP_MS, KEPT, MISMATCH, NOT_HOLDER, NOTED, QUEUED,
                  RELEASED, SHA, TTL_MS, broker, of_item, owner)

MARK = f"l;{broker(2)};r;"
RESERVED = 255


def cover(lock, n=1, at=2, **how):
    """Owner n asks for a cover through a broker. The reply."""
    return lock.acquire(n, at=at, want="s", info=f"l;{broker(at)};r;lease {n}", **how)


def begin(lock, n=1):
    reply = cover(lock, n)
    assert (reply[0], int(reply[4])) == (GRANTED, int(reply[2]) + RESERVED)
    return int(reply[2])


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("want", ["s", "sa"])
def test_the_first_reader_has_it_alone(lock, redis, batched, want):
    lock.through_batch = batched
    reply = lock.acquire(1, at=2, want=want, info=MARK + "lease 1")
    token = int(reply[2])
    assert reply[:4] == [GRANTED, reply[1], reply[1], reply[1]] and int(reply[4]) == token + RESERVED
    assert redis("GET", lock.h).decode() == f"1;{owner(1)};{token};{token};{TTL_MS};0;{MARK}lease 1"
    assert int(redis("GET", lock.t)) == token + RESERVED
    again = lock.acquire(1, at=2, want=want, info=MARK + "lease 1")
    assert again[2:] == [str(token), str(token), str(token + RESERVED)], "a repeat has the same"
    assert lock.acquire(1, at=2, info="x")[:3:2] == [MISMATCH, "s"]


@pytest.mark.parametrize("batched", [False, True])
def test_beside_readers_or_behind_waiters_it_is_a_reader_like_any_other(lock, redis, batched):
    lock.through_batch = batched
    lock.acquire(9, want="s", info="nine")
    assert len(cover(lock)) == 4
    assert lock.slots()[1].endswith(";1;lease 1"), "without the mark"
    lock.enqueue(3, at=2)
    assert cover(lock, 4, wait=1)[0] == QUEUED
    assert redis("HGET", lock.w, owner(4)).decode().endswith(";lease 4")
    assert cover(lock, 5)[0] == HELD
    lock.release(9)
    lock.release(1, at=2)
    assert lock.holder() == 3
    lock.release(3, at=2)
    assert lock.slots()[4].endswith(";1;lease 4")


def test_in_a_batch_of_readers_too(lock, redis):
    items = [lock.item("acquire", *lock.acquire_argv(n, at=2, want="s", info=MARK + f"lease {n}")) for n in (1, 2)]
    common = f"{broker(2)};30000;1;10000;100000;0"
    reply = redis("EVALSHA", SHA["batch"], 2, lock.h, lock.h, KEEP_MS, common, *items)
    assert of_item(reply, 0)[0] == GRANTED and len(of_item(reply, 0)) == 5
    assert of_item(reply, 1)[0] == HELD


def test_not_while_the_last_token_is_ahead(lock):
    lock.redis("SET", lock.t, 2**52, "PX", KEEP_MS)
    reply = cover(lock)
    assert (len(reply), int(reply[2])) == (4, 2**52 + 1) and 1 in lock.slots()


def test_not_during_a_hold_off(lock):
    lock.hold_off = f"1;{2**53 - 1};0"
    assert cover(lock)[0] == HELD and lock.holder() is None and not lock.slots()


def test_watchers_are_told(lock, listen):
    lock.watch(at=5)
    ear = listen(5)
    token = begin(lock)
    assert ear.heard() == [("default/k", str(token))]
    spread = lock.spread(1, token, (1, token, "lease 1"), (2, token + 1, "lease 2"))
    assert ear.heard() == [("default/k", spread[1])]


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("want", ["s", "x", "p1/3"])
def test_whoever_is_granted_a_watched_lock_without_a_cover_has_no_more_tokens(lock, want, batched):
    lock.watch(at=5)
    lock.through_batch = batched
    for n in (1, 2):  # with a last token, too
        assert len(lock.acquire(n, want=want)) == 4
        lock.release(n)


@pytest.mark.parametrize("want", ["s", "x", "p1/3"])
def test_its_broker_is_told_that_somebody_else_wants_it(lock, listen, want):
    ear = listen(2)
    begin(lock)
    reply = lock.acquire(3, want=want)
    assert reply[0] == (MISMATCH if want[0] == "p" else HELD)
    if want[0] == "p":
        assert reply[2] == "s"
    assert ear.heard() == [("default/k", "recall")]
    assert lock.enqueue(4, want=want)[0] == QUEUED and ear.heard() == [("default/k", "recall")]


def test_only_its_broker_ends_it(lock, listen, redis):
    ear = listen(2)
    token = begin(lock)
    before = redis("GET", lock.h)
    assert lock.release(1, at=3)[0] == KEPT and lock.downgrade(1, at=3)[0] == KEPT
    assert lock.call("adopt", owner(1), token, owner(5), 0, "s", "info")[0] == KEPT
    assert ear.heard() == [("default/k", "settle", 1, token)] * 3
    assert lock.note(1, token, 1, token)[0] == NOTED and redis("GET", lock.h) == before, "it is no plain hold"
    assert lock.release(1, at=2)[0] == RELEASED


def test_a_spread_gives_each_reader_a_slot(lock, redis):
    token = begin(lock)
    redis("PEXPIRE", lock.h, 9_000)
    readers = [(1, token, "lease 1"), (2, token + 1, "lease 2"), (3, token + 5, "lease; 3")]
    reply = lock.spread(1, token, *readers)
    assert reply[0:1] + reply[2:] == [NOTED, 0, ""]
    slots = lock.slots()
    assert sorted(slots) == [1, 2, 3]
    for who, got, info in readers:
        assert slots[who] == f"{got};{got};{TTL_MS};0;1;{info}"
    assert redis("HGET", lock.h, "holders").decode() == f"s;0;3;{int(reply[1]) + TTL_MS * 1000}"
    assert redis("PTTL", lock.h) > 14_000
    assert lock.acquire(4, want="s")[0] == GRANTED, "others may join"
    for n in (1, 2, 3, 4):
        assert lock.release(n)[0] == RELEASED
    assert redis("EXISTS", lock.h) == 0


def test_it_may_run_twice_and_late(lock):
    token = begin(lock)
    readers = [(1, token, "lease 1"), (2, token + 1, "lease 2")]
    lock.spread(1, token, *readers)
    slots = lock.slots()
    assert lock.spread(1, token, *readers)[0] == NOTED and lock.slots() == slots
    lock.release(1)
    assert lock.spread(1, token, *readers)[0] == NOTED and sorted(lock.slots()) == [2]  # another one is there
    lock.release(2)
    assert lock.spread(1, token, *readers)[0] == NOT_HOLDER and not lock.slots()
    begin(lock, 7)
    assert lock.spread(1, token, *readers)[0] == NOT_HOLDER and lock.holder() == 7


@pytest.mark.parametrize("how", ["another owner", "another token", "no cover", "a foreign key", "nobody"])
def test_it_changes_nothing_of_others(lock, redis, how):
    if how == "nobody":
        token = 5
    elif how == "a foreign key":
        token = 5
        redis("RPUSH", lock.h, "x")
        redis("PEXPIRE", lock.h, 9_000)
    else:
        token = int(lock.acquire(1, at=2, info=f"l;{broker(2)};")[2]) if how == "no cover" else begin(lock)
    n, named = (2 if how == "another owner" else 1), token + (how == "another token")
    before = lock.snapshot()
    assert lock.spread(n, named, (n, named, "lease"))[0] == NOT_HOLDER and lock.snapshot() == before


def test_the_reader_that_it_names_may_have_left(lock):
    token = begin(lock)
    lock.spread(1, token, (2, token + 1, "lease 2"))
    assert sorted(lock.slots()) == [2]
    assert lock.release(1, at=2)[0] == NOT_HOLDER


def test_the_name_passes_on(lock, redis):
    token = begin(lock)
    assert lock.note(1, token, 2, token + 1, info=MARK + "lease 2")[0] == NOTED
    assert int(redis("GET", lock.t)) == token + RESERVED, "reserved ones stay so"
    assert lock.spread(1, token, (1, token, ""))[0] == NOT_HOLDER
    assert lock.spread(2, token + 1, (2, token + 1, "lease 2"))[0] == NOTED


def test_it_lets_waiting_readers_in(lock, listen, redis):
    ear, own = listen(1), listen(2)
    token = begin(lock)
    lock.enqueue(5, want="s")
    lock.enqueue(6, at=2, want="s")
    lock.enqueue(7)
    lock.enqueue(8, want="s")
    own.heard()
    given = int(redis("GET", lock.t)) + 10
    reply = lock.spread(1, token, (1, token, ""), (2, token + 1, ""), given=given)
    assert [int(reply[4], 16), *map(int, reply[5:])] == [6, int(reply[5]), int(reply[1]), TTL_MS, 0]
    assert sorted(lock.slots()) == [1, 2, 5, 6] and lock.waiters() == [7, 8]
    tokens = [int(note[2]) for note in ear.heard()] + [int(reply[5])]
    assert min(tokens) > given and own.heard() == []


def test_later_tokens_are_greater(lock, redis):
    token = begin(lock)
    lock.spread(1, token, (1, token, ""), given=token + 10**9)
    assert int(lock.acquire(2, want="s")[2]) > token + 10**9


def test_without_memory_it_is_done(lock, redis):
    token = begin(lock)
    redis("CONFIG", "SET", "maxmemory", "1")
    assert lock.spread(1, token, *((n, token + n - 1, "x" * 50) for n in range(1, 200)))[0] == NOTED
    assert len(lock.slots()) == 199


def test_as_many_readers_as_there_may_be(lock):
    token = begin(lock)
    assert lock.spread(1, token, *((n, token + n - 1, "i") for n in range(1, 513)))[0] == NOTED
    assert len(lock.slots()) == 512


def test_during_a_hold_off_nobody_else_is_let_in(lock):
    token = begin(lock)
    lock.enqueue(5, want="s")
    lock.hold_off = f"{token + 10**9};{2**53 - 1};0"
    assert lock.spread(1, token, (1, token, ""))[0] == NOTED
    assert sorted(lock.slots()) == [1] and lock.waiters() == [5]


def test_a_reader_of_it_may_be_downgraded_adopted_and_renewed_then(lock):
    token = begin(lock)
    lock.spread(1, token, (1, token, "one"), (2, token + 1, "two"))
    assert lock.downgrade(2)[0] == DOWNGRADED
    assert lock.renew((lock, 2, TTL_MS, token + 1))[2] == 1
    assert lock.call("adopt", owner(2), token + 1, owner(5), 0, "s", "info")[0] == ADOPTED
    lock.release(1)
    lock.release(5)
    assert lock.release(5)[0] == GONE
