# SPDX-License-Identifier: Apache-2.0
"""Several items of one lock in one call: as if they were called one after the other."""

import random

import pytest

from kinds import RwLock
from lock import FOREIGN, GRANTED, HELD, LATE, MISMATCH, NOT_HOLDER, QUEUED, RELEASED, Lock, broker, owner
from resp import ReplyError
from test_batch import Batch
from test_cost import commands


class Readers(Batch):
    """Lock "0", of readers, and the others."""

    def __init__(self, redis):
        super().__init__(redis)
        self.rw = RwLock(redis, name="default/0")

    def come(self, n, i=0, **how):
        return self.take(i, n, want="s", **how)

    def leave(self, n, i=0, token=""):
        return self.give(i, n, token)

    def header(self):
        kind, limit, used, soonest = self.redis("HGET", self.rw.h, "holders").split(b";")
        assert (kind, limit) == (b"s", b"0")
        return int(used), int(soonest)

    def slots(self):
        """{number: (expiry_us, token)}, and what the header says of them must be true."""
        items = self.redis("HGETALL", self.rw.h)
        fields = {k: v.split(b";") for k, v in zip(items[0::2], items[1::2])}
        if not fields:
            return {}
        used, soonest = self.header()
        slots = {int(k, 16): (int(v[0]), int(v[1])) for k, v in fields.items() if k != b"holders"}
        assert used == len(slots) and all(soonest <= expiry for expiry, _ in slots.values())
        return slots


@pytest.fixture
def readers(redis):
    one = Readers(redis)
    one.acquire = one.rw.read
    redis("SET", one.rw.t, 1, "PX", 60_000)
    return one


def test_each_reader_has_a_token_of_its_own(readers, redis):
    replies = readers(*(readers.come(n, delay=7, info=f"h5;a;{n}\n;") for n in range(1, 17)))
    time = int(replies[0][1])
    for n, reply in enumerate(replies, start=1):
        assert reply == [GRANTED, str(time), str(time + n - 1), str(time)]
        assert redis("HGET", readers.rw.h, owner(n)).decode() == (
            f"{time + 15_007_000};{reply[2]};{time};15000;7;1;h5;a;{n}\n;")
    assert readers.header() == (16, time + 15_007_000)
    assert int(redis("GET", readers.rw.t)) == time + 15 and redis("PTTL", readers.rw.t) > 86_000_000
    assert 14_000 < redis("PTTL", readers.rw.h) <= 15_007
    assert readers.rw.read(17)[2] > replies[-1][2]


def test_readers_come_and_go_in_one_call(readers, redis):
    readers(*(readers.come(n) for n in range(1, 9)))
    tokens = {n: token for n, (_, token) in readers.slots().items()}
    replies = readers(*(item for n in range(1, 9) for item in (
        readers.leave(n, token=str(tokens[n]) if n % 2 else ""), readers.come(n + 10))))
    assert [reply[0] for reply in replies] == [RELEASED, GRANTED] * 8
    assert set(readers.slots()) == set(range(11, 19))
    assert min(token for _, token in readers.slots().values()) > max(tokens.values())
    replies = readers(*(readers.leave(n) for n in range(11, 18)))
    assert [reply[0] for reply in replies] == [RELEASED] * 7 and set(readers.slots()) == {18}
    assert readers(readers.leave(18), readers.come(18, i=1))[0][0] == RELEASED
    assert redis("EXISTS", readers.rw.h) == 0


def test_the_longest_and_the_soonest(readers, redis):
    first, second, _ = readers(readers.come(1, ttl=50_000), readers.come(2, ttl=20_000), readers.come(3, ttl=30_000))
    assert 49_000 < redis("PTTL", readers.rw.h) <= 50_000
    assert readers.header() == (3, int(first[1]) + 20_000_000)
    readers(readers.leave(2), readers.come(4, ttl=40_000))
    assert 49_000 < redis("PTTL", readers.rw.h) and readers.header() == (3, int(first[1]) + 20_000_000)
    last, _ = readers(readers.come(5, ttl=60_000), readers.come(6, ttl=10_000))
    assert 59_000 < redis("PTTL", readers.rw.h) and readers.header() == (5, int(last[1]) + 10_000_000)


def test_the_last_one_goes_and_another_comes(readers, redis):
    readers.rw.read(1, ttl=50_000)
    readers(readers.leave(1), readers.come(2, ttl=5_000))
    readers(readers.leave(2), readers.come(1, ttl=50_000))
    assert readers.header()[1] == readers.slots()[1][0] and redis("PTTL", readers.rw.h) > 49_000
    redis("HSET", readers.rw.h, "junk", "x")
    gone, come, more = readers(readers.leave(1), readers.come(2), readers.come(3))
    assert [gone[0], come[0], more[0]] == [RELEASED, GRANTED, GRANTED]
    assert set(readers.slots()) == {2, 3}, "and nothing is left of what was there before"
    assert readers.header() == (2, int(come[1]) + 15_000_000) and redis("PTTL", readers.rw.h) <= 15_000
    replies = readers(readers.leave(2), readers.leave(3))
    assert [reply[0] for reply in replies] == [RELEASED] * 2 and redis("EXISTS", readers.rw.h) == 0


def test_tokens_grow_also_when_the_last_is_ahead(readers, redis):
    seconds, _ = redis("TIME")
    ahead = (int(seconds) + 60) * 1_000_000
    redis("SET", readers.rw.t, ahead, "PX", 60_000)
    first, second = readers(readers.come(1), readers.come(2))
    assert [int(first[2]), int(second[2])] == [ahead + 1, ahead + 2] and first[3] == first[1]
    assert int(redis("GET", readers.rw.t)) == ahead + 2
    assert [readers.slots()[n][1] for n in (1, 2)] == [ahead + 1, ahead + 2]


@pytest.mark.parametrize("token", ["junk", "12345678901234567", "9007199254740990", "1.5", "-3", ""])
def test_a_token_of_another_shape(readers, redis, token):
    redis("SET", readers.rw.t, token, "PX", 60_000)
    one, two = readers(readers.come(1), readers.come(2))
    assert two == [FOREIGN, two[1], readers.rw.t, "shape"]
    if token == "9007199254740990":  # there is one more
        assert one[0] == GRANTED and set(readers.slots()) == {1}
    else:
        assert one == two and redis("EXISTS", readers.rw.h) == 0
    assert redis("GET", readers.rw.t).decode() == ("9007199254740991" if one[0] == GRANTED else token)


@pytest.mark.parametrize("part", "htq")
def test_a_foreign_key_is_left_as_it_is(readers, redis, part):
    key = getattr(readers.rw, part)
    redis("DEL", key)
    redis("RPUSH", key, "x")
    redis("PEXPIRE", key, 60_000)
    before = redis("DUMP", key)
    one, two, other = readers(readers.come(1), readers.come(2), readers.take(1, 3))
    assert one == two == [FOREIGN, one[1], key, "list"] and other[0] == GRANTED
    assert redis("DUMP", key) == before


@pytest.mark.parametrize("header", ["s;1;1;9999999999999999", "p;0;1;9999999999999999", "s;0;1", "s;0;x;1", None])
def test_holders_of_another_shape(readers, redis, header):
    readers.rw.read(1)
    redis("HDEL", readers.rw.h, "holders") if header is None else redis("HSET", readers.rw.h, "holders", header)
    before = redis("HGET", readers.rw.h, "holders")
    alone = Lock(redis, "default/0").call("acquire", *readers.rw.acquire_argv(2, want="s"))
    if alone[0] == FOREIGN:
        replies = readers(readers.come(2), readers.come(3))
        assert [reply[0::2] for reply in replies] == [alone[0::2]] * 2
        assert redis("HGET", readers.rw.h, "holders") == before
        assert redis("HLEN", readers.rw.h) == 1 + (before is not None)
    else:
        assert readers(readers.come(3), readers.come(4))[0][0] == alone[0]


def test_one_that_is_late_or_is_no_holder_does_not_touch_the_others(readers):
    readers(readers.come(1), readers.come(2))
    token = readers.slots()[2][1]
    replies = readers(readers.come(3, not_after=1), readers.leave(7), readers.leave(2, token=str(token + 5)),
                      readers.come(4), readers.leave(1))
    assert [reply[0] for reply in replies] == [LATE, NOT_HOLDER, NOT_HOLDER, GRANTED, RELEASED]
    assert set(readers.slots()) == {2, 4}
    [refused, went] = readers(readers.leave(2, token=str(token + 5)), readers.leave(4))
    assert [refused[0], went[0]] == [NOT_HOLDER, RELEASED] and set(readers.slots()) == {2}
    seconds, us = readers.redis("TIME")
    soon = (int(seconds) + 60) * 1_000_000 + int(us)
    replies = readers(readers.come(5, not_after=soon), readers.come(6, not_after=soon))
    assert [reply[0] for reply in replies] == [GRANTED] * 2


def test_an_owner_that_is_named_twice(readers):
    one, two = readers(readers.come(1), readers.come(1))
    assert one == two and one[0] == GRANTED and set(readers.slots()) == {1}
    came, went, again = readers(readers.come(2), readers.leave(2), readers.come(2))
    assert [came[0], went[0], again[0]] == [GRANTED, RELEASED, GRANTED] and int(came[2]) < int(again[2])
    assert readers.slots()[2][1] == int(again[2])
    assert [reply[0] for reply in readers(readers.leave(2), readers.leave(2))] == [RELEASED, NOT_HOLDER]
    repeated, other = readers(readers.come(1), readers.come(3))
    assert repeated[2] == one[2] and other[0] == GRANTED and set(readers.slots()) == {1, 3}


def test_a_hold_that_has_ended_is_nobodys(readers, redis):
    readers(readers.come(1), readers.come(2))
    before = readers.slots()
    header = redis("HGET", readers.rw.h, "holders").decode().split(";")
    slot = redis("HGET", readers.rw.h, owner(1)).decode().split(";")
    redis("HSET", readers.rw.h, owner(1), ";".join(["1", *slot[1:]]), "holders", ";".join([*header[:3], "1"]))
    ended, came, went = readers(readers.leave(1), readers.come(3), readers.leave(2, token=str(before[2][1])))
    assert [ended[0], came[0], went[0]] == [NOT_HOLDER, GRANTED, RELEASED] and set(readers.slots()) == {3}


def test_nobody_counts_a_reader_whose_time_is_over(readers, redis):
    readers(readers.come(1), readers.come(2), readers.come(3))
    header = redis("HGET", readers.rw.h, "holders").decode().split(";")
    slot = redis("HGET", readers.rw.h, owner(1)).decode().split(";")
    redis("HSET", readers.rw.h, owner(1), ";".join(["1", *slot[1:]]), "holders", ";".join([*header[:3], "1"]))
    assert [reply[0] for reply in readers(readers.come(4), readers.leave(2))] == [GRANTED, RELEASED]
    assert set(readers.slots()) == {3, 4}


def test_a_slot_that_has_ended_before_the_header_says_so(readers, redis):
    readers(readers.come(1), readers.come(2))
    slot = redis("HGET", readers.rw.h, owner(1)).decode().split(";")
    redis("HSET", readers.rw.h, owner(1), ";".join(["1", *slot[1:]]))
    ended, went = readers(readers.leave(1), readers.leave(2))
    assert [ended[0], went[0]] == [NOT_HOLDER, RELEASED]


def test_readers_do_not_mix_with_others(readers, redis):
    readers.locks[1].acquire(9, want="p1/3")
    writer = int(readers.locks[2].acquire(8)[2])
    replies = readers(readers.come(1, i=1), readers.come(2, i=1, wait=1), readers.come(3, i=2),
                      readers.leave(8, i=2, token=str(writer)), readers.come(4, i=2), readers.come(5, i=2),
                      readers.take(0, 6, want="p1/2"), readers.come(7), readers.take(0, 6), readers.leave(6))
    assert [reply[0] for reply in replies] == [MISMATCH, QUEUED, HELD, RELEASED, GRANTED, GRANTED,
                                              GRANTED, MISMATCH, MISMATCH, RELEASED]
    assert int(replies[5][2]) > int(replies[4][2]) > writer


def test_who_waits_is_not_overtaken(readers, listen):
    listen(1), listen(2)
    readers.rw.read(1)
    readers.rw.write(2)
    held, queued, other = readers(readers.come(3), readers.come(4, wait=1), readers.take(1, 5))
    assert [held[0], queued[0], other[0]] == [HELD, QUEUED, GRANTED] and readers.rw.waiters() == [2, 4]
    left, held = readers(readers.leave(1), readers.come(6))
    assert left[0] == RELEASED and left[3] == owner(2) and held[0] == HELD and readers.rw.holders() == {2: 1}


def test_watchers_are_told_of_each(readers, listen):
    ear = listen(2)
    readers.rw.read(9)
    readers.rw.call("watch", 100, 100, broker(2), 30_000)
    readers(readers.come(1), readers.come(2), readers.leave(9))
    assert [name for name, _ in ear.heard()] == ["default/0"] * 3


def test_no_memory_refuses_acquires_and_no_release(readers, redis):
    readers(readers.come(1), readers.come(2), readers.come(3))
    redis("CONFIG", "SET", "maxmemory", "1")
    refused, refused_too = readers(readers.come(4), readers.come(5))
    assert "OOM" in str(refused) and "OOM" in str(refused_too) and set(readers.slots()) == {1, 2, 3}
    refused, went = readers(readers.come(4), readers.leave(1))
    assert "OOM" in str(refused) and went[0] == RELEASED and set(readers.slots()) == {2, 3}
    assert [reply[0] for reply in readers(readers.leave(2), readers.leave(3))] == [RELEASED] * 2
    redis("CONFIG", "SET", "maxmemory", "0")
    readers(readers.come(1), readers.come(2), readers.come(3))
    redis("CONFIG", "SET", "maxmemory", "1")
    assert commands(redis, lambda: readers.raw(readers.leave(1), readers.leave(2))) == 3 + 3
    readers.rw.give_back(3)
    redis("CONFIG", "SET", "maxmemory", "0")
    assert redis("EXISTS", readers.rw.h) == 0


def test_a_replica_changes_nothing(readers, redis):
    readers(readers.come(1), readers.come(2))
    before = readers.slots()
    redis("REPLICAOF", "127.0.0.1", "1")
    try:
        for items in ((readers.come(3), readers.leave(1)), (readers.leave(1), readers.come(3)),
                      (readers.leave(1), readers.leave(2))):
            assert all("READONLY" in str(answer) for answer in readers(*items))
        assert readers.slots() == before
    finally:
        redis("REPLICAOF", "NO", "ONE")


def test_a_lock_is_read_once_and_written_once(readers, redis):
    call = lambda *items: commands(redis, lambda: readers.raw(*items))
    assert call(*(readers.come(n) for n in range(1, 17))) == 3 + 5, "EXISTS instead of PTTL"
    assert call(*(readers.come(n, ttl=20_000) for n in range(17, 33))) == 3 + 5, "it lasts longer"
    assert call(*(readers.leave(n) for n in range(1, 17))) == 3 + 3
    soon = (int(redis("TIME")[0]) + 60) * 1_000_000
    assert call(readers.leave(17), readers.come(33, ttl=1000, not_after=soon), readers.take(1, 1)) == 3 + 5 + 2
    assert call(*(readers.leave(n) for n in range(18, 34))) == 3 + 2
    for n in (40, 41):
        readers.rw.read(n)
    assert call(readers.leave(40), readers.leave(41), readers.come(42)) == 3 + 5


@pytest.mark.parametrize("seed", range(1, 9))
def test_as_one_after_the_other(readers, redis, seed):
    """The same items on another lock, each by its own script: the same answers, and the same holders."""
    choose, alone = random.Random(seed), RwLock(redis, name="default/twin")
    redis("SET", alone.t, 1, "PX", 60_000)
    best = 0
    for _ in range(60):
        items, single = [], []
        for _ in range(choose.randrange(2, 9)):
            n = choose.randrange(1, 12)
            verb = choose.choices(["come", "leave", "late", "write"], [8, 8, 0.5, 0.3])[0]
            if verb == "leave":
                items.append(readers.leave(n))
                single.append(alone.command("release", *release_argv(n)))
            else:
                how = {"want": "x" if verb == "write" else "s", "not_after": int(verb == "late")}
                items.append(readers.take(0, n, **how))
                single.append(alone.command("acquire", *alone.acquire_argv(n, **how)))
        replies = readers(*items)
        one_by_one = [redis(*command) for command in single]
        assert [reply[0] for reply in replies] == [reply[0] for reply in one_by_one], items
        assert set(readers.rw.holders()) == set(alone.holders())
        if redis("TYPE", readers.rw.h) == b"hash":
            readers.slots()
        for (_, item), reply in zip(items, replies):
            assert not isinstance(reply, ReplyError)
            if reply[0] == GRANTED and int(reply[2]) > best:
                best = int(reply[2])
        assert int(redis("GET", readers.rw.t)) >= best


def release_argv(n):
    return (owner(n), 0, 0, 86_400_000, 1, broker(1), 100_000, 0)
