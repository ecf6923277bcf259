# SPDX-License-Identifier: Apache-2.0
"""Several items in one call: each as if it were alone."""

import pytest

from lock import (FOREIGN, GRANTED, HELD, KEEP_MS, LATE, NOT_HOLDER, QUEUED, RELEASED, SHA, SLOT_MS, Lock, broker,
                  of_item, owner)
from resp import ReplyError
from test_cost import commands


class Batch:
    """Locks "0", "1", ... and calls about several of them."""

    def __init__(self, redis):
        self.redis, self.locks = redis, [Lock(redis, f"default/{i}") for i in range(16)]

    def take(self, i, n, **how):
        return i, self.locks[i].item("acquire", *self.locks[i].acquire_argv(n, **how))

    def give(self, i, n, token):
        return i, self.locks[i].item("release", owner(n), token)

    def raw(self, *items, at=1, hold_off=0):
        return self.redis("EVALSHA", SHA["batch"], len(items), *(self.locks[i].h for i, _ in items), KEEP_MS,
                          f"{broker(at)};{SLOT_MS};1;10000;100000;{hold_off}", *(item for _, item in items))

    def __call__(self, *items, at=1, hold_off=0):
        reply = self.raw(*items, at=at, hold_off=hold_off)
        self.locks[0].assert_ttls()
        answers = []
        for i in range(len(items)):
            try:
                parts = of_item(reply, i)
                answers.append([part.decode("latin-1") if isinstance(part, bytes) else part for part in parts])
            except ReplyError as error:
                answers.append(error)
        return answers


@pytest.fixture
def batch(redis):
    return Batch(redis)


def test_the_fast_path_replies_with_codes_only(batch, redis):
    reply = batch.raw(*(batch.take(i, i + 1, delay=7, info=f"a;{i}") for i in range(3)))
    assert reply[1:] == [GRANTED] * 3
    time = reply[0].decode()
    for i, lock in enumerate(batch.locks[:3]):
        assert redis("GET", lock.h).decode() == f"1;{owner(i + 1)};{time};{time};15000;7;a;{i}"
        assert 14_000 < redis("PTTL", lock.h) <= 15_007 and redis("GET", lock.t).decode() == time
    reply = batch.raw(*(batch.give(i, i + 1, time) for i in range(3)))
    assert reply[1:] == [RELEASED] * 3
    assert sorted(redis("KEYS", "*")) == [lock.t.encode() for lock in batch.locks[:3]]


def test_each_as_if_it_were_alone(batch, redis):
    one, two = batch.locks[:2]
    one.acquire(1)
    two_time = two.acquire(2)[2]
    two.enqueue(3)
    free, queued, handed, held, late, not_mine, kept = batch(
        batch.take(5, 9), batch.take(0, 8, wait=1), batch.give(1, 2, two_time), batch.take(2, 7),
        batch.take(6, 6, not_after=1), batch.give(3, 4, "1"), batch.take(4, 5, want="s"))
    assert free[0] == GRANTED and held[0] == GRANTED and kept[0] == GRANTED
    assert queued[0] == QUEUED and queued[2] == 0 and one.waiters() == [8]
    assert handed[0] == RELEASED and handed[3] == owner(3), handed
    assert two.holder() == 3
    assert late == [LATE, free[1]] and redis("EXISTS", batch.locks[6].h) == 0
    assert not_mine[0] != RELEASED
    assert batch(batch.give(2, 1, held[2]), batch.take(5, 1))[0][0] == NOT_HOLDER
    assert batch(batch.take(5, 1), batch.take(7, 1))[0][0] == HELD


def test_a_token_is_greater_than_the_last(batch, redis):
    seconds, _ = redis("TIME")
    ahead = (int(seconds) + 60) * 1_000_000
    redis("SET", batch.locks[0].t, ahead, "PX", 60_000)
    redis("SET", batch.locks[1].t, "12", "PX", 60_000)
    redis("SET", batch.locks[2].t, "junk", "PX", 60_000)
    redis("SET", batch.locks[3].t, "12345678901234x6", "PX", 60_000)
    first, second, third, fourth = batch(*(batch.take(i, 1) for i in range(4)))
    assert int(first[2]) == ahead + 1 and redis("GET", batch.locks[0].t).decode() == first[2]
    assert second[2] == second[1]
    assert third == [FOREIGN, third[1], batch.locks[2].t, "shape"]
    assert fourth == [FOREIGN, fourth[1], batch.locks[3].t, "shape"]


@pytest.mark.parametrize("value", ["1;{};5;6;15000;0", "1x{};5;6;15000;0;", "x;{};5;6;15000;0;", "1;{}x5;6;15000;0;",
                                   "1;{};;6;15000;0;", "1;{};12345678901234567;6;15000;0;", "1;x{};5;6;15000;0;"])
def test_a_holder_of_another_shape_is_not_deleted(batch, redis, value):
    redis("SET", batch.locks[0].h, value.format(owner(1)), "PX", 60_000)
    [answer] = batch(batch.give(0, 1, ""))
    assert answer == [FOREIGN, answer[1], batch.locks[0].h, "shape"] and redis("EXISTS", batch.locks[0].h)


@pytest.mark.parametrize("part", "htqw")
def test_what_is_foreign_concerns_its_own_lock_only(batch, redis, part):
    redis("RPUSH", getattr(batch.locks[1], part), "x")
    redis("PEXPIRE", getattr(batch.locks[1], part), 60_000)
    before = redis("DUMP", getattr(batch.locks[1], part))
    first, second, third = batch(*(batch.take(i, 1) for i in range(3)))
    assert first[0] == third[0] == GRANTED
    if part != "w":  # nobody looks at w while nobody waits
        assert second == [FOREIGN, first[1], getattr(batch.locks[1], part), "list"]
        assert redis("EXISTS", batch.locks[1].h) == (part == "h")
    assert redis("DUMP", getattr(batch.locks[1], part)) == before


def test_nobody_is_overtaken(batch, listen):
    listen(1)
    for lock in batch.locks[:2]:
        lock.acquire(1)
        lock.enqueue(2)
        lock.redis("DEL", lock.h)
    answers = batch(batch.take(0, 3), batch.take(1, 3, wait=1), batch.take(2, 3))
    assert [answer[0] for answer in answers] == [HELD, QUEUED, GRANTED]
    assert [lock.holder() for lock in batch.locks[:3]] == [2, 2, 3]


def test_watchers_are_told(batch, listen):
    ear = listen(2)
    batch.locks[1].watch(at=2)
    (first, second) = batch(batch.take(0, 1), batch.take(1, 1))
    assert second[0] == GRANTED and ear.heard() == [("default/1", second[1])]
    batch(batch.give(0, 1, first[2]), batch.give(1, 1, second[2]))
    assert len(ear.heard()) == 1 and batch.locks[1].holder() is None


def test_no_memory_refuses_acquires_and_no_release(batch, redis):
    batch.locks[0].acquire(1)
    token = redis("GET", batch.locks[0].t).decode()
    batch.locks[3].acquire(2)
    redis("CONFIG", "SET", "maxmemory", "1")
    refused, held, released, queued = batch(
        batch.take(1, 1), batch.take(3, 1), batch.give(0, 1, token), batch.take(2, 1, want="s"))
    redis("CONFIG", "SET", "maxmemory", "0")
    assert "OOM" in str(refused) and redis("EXISTS", batch.locks[1].h) == 0
    assert held[0] == HELD, "who holds it is told without memory too"
    assert released[0] == RELEASED and batch.locks[0].holder() is None


def test_a_replica_changes_nothing(batch, redis):
    batch.locks[0].acquire(1)
    token = redis("GET", batch.locks[0].t).decode()
    redis("REPLICAOF", "127.0.0.1", "1")
    try:
        answers = batch(batch.take(1, 1), batch.give(0, 1, token), batch.take(2, 1, want="s"))
        assert all("READONLY" in str(answer) for answer in answers), answers
        assert batch.locks[0].holder() == 1 and redis("DBSIZE") == 2
    finally:
        redis("REPLICAOF", "NO", "ONE")


def test_a_batch_asks_once(batch, redis):
    n = 16
    taken = []
    assert commands(redis, lambda: taken.extend(batch.raw(*(batch.take(i, 1) for i in range(n))))) == 3 + 2 * n
    time = taken[0].decode()
    assert commands(redis, lambda: batch.raw(*(batch.give(i, 1, time) for i in range(n)))) == 4


def test_a_late_batch_frees_what_it_releases_and_hands_nothing_on(batch, redis):
    one, two = batch.locks[:2]
    tokens = [lock.acquire(1)[2] for lock in (one, two)]
    one.enqueue(2)
    two.enqueue(3, at=7)
    late = int(redis("TIME")[0]) * 1_000_000
    released = batch(batch.give(0, 1, tokens[0]), batch.give(1, 1, tokens[1]), hold_off=late)
    assert [reply[0] for reply in released] == [RELEASED] * 2 and released[0][2:] == ["look"]
    assert one.holder() is None and two.holder() is None and one.waiters() == [2] and two.waiters() == [3]
    assert batch(batch.take(0, 4), batch.take(2, 5, not_after=late), hold_off=late)[1][0] == LATE
    assert one.holder() is None


def test_a_batch_in_time_hands_on(batch, redis):
    token = batch.locks[0].acquire(1)[2]
    batch.locks[0].enqueue(2)
    in_time = (int(redis("TIME")[0]) + 10) * 1_000_000
    assert batch(batch.give(0, 1, token), hold_off=in_time)[0][3] == owner(2)
