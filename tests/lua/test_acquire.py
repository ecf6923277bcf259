# SPDX-License-Identifier: Apache-2.0
import re

from lock import FOREIGN, GRANTED, KEEP_MS, LATE, QUEUED, SLOT_MS, TTL_MS, broker, owner

MAX_TOKEN = 2**53 - 1


def near(left, full):
    return full - 2_000 < left <= full


def test_granted_writes_holder_and_token(lock, redis):
    code, time, token, since = lock.acquire(1, delay=500, info="a;b\n\x00c")
    assert code == GRANTED and token == since == time
    assert redis("GET", lock.h) == f"1;{owner(1)};{token};{since};{TTL_MS};500;a;b\n\x00c".encode()
    assert redis("GET", lock.t).decode() == token
    assert near(redis("PTTL", lock.h), TTL_MS + 500) and near(redis("PTTL", lock.t), KEEP_MS)
    assert redis("DBSIZE") == 2


def test_a_late_repeat_makes_no_hold_longer_and_no_place(lock, redis):
    lock.acquire(1, ttl=5_000)
    assert lock.acquire(1, not_after=1)[0] == LATE and redis("PTTL", lock.h) <= 5_000
    assert lock.enqueue(2, not_after=1)[0] == LATE and redis("EXISTS", lock.q, lock.w, lock.slot()) == 0


def test_not_after_in_the_future_is_no_hindrance(lock, redis):
    seconds, micros = map(int, redis("TIME"))
    assert lock.acquire(1, not_after=(seconds + 60) * 1_000_000 + micros)[0] == GRANTED


def test_a_place_is_written_with_its_terms_for_as_long_as_its_slot(lock, redis):
    lock.acquire(1)
    _, _, _, pttl, value, _ = lock.enqueue(5, delay=7, info="x")
    assert near(pttl, TTL_MS) and owner(1) in value
    assert re.fullmatch(rf"{broker(1)};{TTL_MS};7;x;\d+;x", redis("HGET", lock.w, owner(5)).decode())
    for key in (lock.q, lock.w, lock.slot()):
        assert near(redis("PTTL", key), SLOT_MS)


def test_full_queue_makes_room_of_dead_waiters_at_its_head(lock, redis):
    lock.acquire(1)
    for n in (2, 3):
        lock.enqueue(n, at=5, limit=3)
    lock.enqueue(4, at=1, limit=3)
    redis("DEL", lock.slot(5))
    code, _, place, _, _, length = lock.enqueue(6, limit=3)
    assert (code, place, length) == (QUEUED, 1, 2)
    assert lock.waiters() == [4, 6]
    assert redis("HLEN", lock.w) == 2


def test_a_waiter_that_asks_again_is_granted_without_a_notice(lock, redis, listen):
    ear = listen(1)
    lock.acquire(1)
    lock.enqueue(2)
    lock.enqueue(3)
    redis("DEL", lock.h)
    code, time, token, since = lock.enqueue(2, ttl=4_000, info="later")
    assert code == GRANTED and since == time
    assert redis("GET", lock.h).decode() == f"1;{owner(2)};{token};{since};4000;0;later"
    assert lock.waiters() == [3] and redis("HLEN", lock.w) == 1 and ear.heard() == []


def test_waiters_of_the_callers_broker_are_alive_without_a_slot(lock, redis, listen):
    ear = listen(1)
    lock.acquire(1)
    lock.enqueue(2)
    lock.enqueue(3)
    redis("DEL", lock.h, lock.slot())
    assert lock.enqueue(3)[0] == QUEUED
    assert lock.holder() == 2 and [notice[1] for notice in ear.heard()] == [2]


def test_dead_queue_never_blocks_one_try(lock, redis):
    lock.acquire(1)
    for n in range(2, 300):
        lock.enqueue(n, at=5)
    redis("DEL", lock.h, lock.slot(5))
    assert lock.acquire(1000)[0] == GRANTED
    assert lock.holder() == 1000 and redis("EXISTS", lock.q, lock.w) == 0


def test_token_above_the_clock_goes_on_by_one(lock, redis):
    ahead = 2**52 + 12_345
    redis("SET", lock.t, ahead, "PX", KEEP_MS)
    assert lock.acquire(1)[2] == str(ahead + 1)
    lock.enqueue(2)
    assert lock.release(1)[3] == str(ahead + 2)
    assert redis("GET", lock.t).decode() == str(ahead + 2)


def test_hand_off_goes_above_the_holders_token_when_the_last_one_was_lost(lock, redis):
    ahead = 2**52 + 12_345
    redis("SET", lock.t, ahead, "PX", KEEP_MS)
    lock.acquire(1)
    lock.enqueue(2)
    redis("DEL", lock.t)
    assert lock.release(1)[3] == str(ahead + 2)


def test_last_possible_token(lock, redis):
    redis("SET", lock.t, MAX_TOKEN - 1, "PX", KEEP_MS)
    assert lock.acquire(1)[2] == str(MAX_TOKEN)
    assert lock.acquire(1)[2] == str(MAX_TOKEN)
    lock.enqueue(2)
    lock.release(1)
    assert lock.holder() is None, "there is no token for the next one"
    assert lock.acquire(3)[0] == FOREIGN and redis("GET", lock.t).decode() == str(MAX_TOKEN)
