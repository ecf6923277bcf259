# SPDX-License-Identifier: Apache-2.0
"""min_hold: a release that comes sooner after the grant leaves the lock blocked until then."""

from lock import ADOPTED, NOT_HOLDER, RELEASED, TTL_MS, owner, writes

PERIOD = 900_000


def blocks(reply):
    """For how many ms a release left the lock blocked."""
    assert reply[0] == RELEASED and reply[2] == "blocked", reply
    return int(reply[3])


def age(lock, redis, ms):
    """The hold is older by so much."""
    one, who, token, since, rest = redis("GET", lock.h).decode().split(";", 4)
    left = redis("PTTL", lock.h)
    redis("SET", lock.h, ";".join((one, who, token, str(int(since) - 1000 * ms), rest)), "PX", left)


def test_what_a_waiter_asks_for_counts_from_its_own_grant(lock, redis):
    lock.acquire(1)
    lock.enqueue(2, info=f"m{PERIOD};two")
    token = lock.release(1)[3]
    assert PERIOD - 2_000 < blocks(lock.release(2, token=token)) <= PERIOD


def test_a_repeat_writes_so_that_replicas_can_be_asked_for_the_block(lock, redis):
    """Valkey, and Redis from 7.2 on, let WAIT count only what its own connection has written."""
    token = lock.acquire(1, info=f"m{PERIOD};who")[2]
    lock.release(1, token=token)
    value, left, before = redis("GET", lock.h), redis("PTTL", lock.h), writes(redis)
    reply = lock.release(1, token=token)
    assert (reply[0], reply[2]) == (NOT_HOLDER, "blocked") and int(reply[3]) <= left
    assert writes(redis) > before
    assert redis("GET", lock.h) == value and left - 2_000 < redis("PTTL", lock.h) <= left, "nothing has changed"


def test_a_repeat_is_told_of_the_block_of_one_of_many_and_writes(lock, redis):
    lock.acquire(1, want="s", ttl=90_000)
    token = lock.acquire(2, want="s")[2]
    lock.release(2, block=60_000, token=token)
    slots, left, before = redis("HGETALL", lock.h), redis("PTTL", lock.h), writes(redis)
    reply = lock.release(2, block=60_000, token=token)
    assert (reply[0], reply[2]) == (NOT_HOLDER, "blocked") and 58_000 < int(reply[3]) <= 60_000
    assert writes(redis) > before
    assert redis("HGETALL", lock.h) == slots and left - 2_000 < redis("PTTL", lock.h) <= left, "nothing has changed"
    assert lock.release(2, block=60_000, token=int(token) + 1)[2:] == [], "a block of another hold"


def test_a_clock_that_was_set_back_makes_it_no_longer_than_asked(lock, redis):
    lock.acquire(1, info=f"m{PERIOD};who")
    age(lock, redis, -10_000_000)
    assert blocks(lock.release(1)) == PERIOD


def test_adopt_keeps_it(lock, redis):
    token = lock.acquire(1, info=f"m{PERIOD};h60000;who")[2]
    reply = lock.call("adopt", owner(1), token, owner(7), 0, "x", "new", 0)
    assert reply[0] == ADOPTED and reply[5:] == ["60000", str(PERIOD)]
    assert redis("GET", lock.h).endswith(f";m{PERIOD};h60000;new".encode())
    assert blocks(lock.release(7, token=token)) > PERIOD - 2_000


def test_downgrade_ends_it(lock, redis):
    token = lock.acquire(1, info=f"m{PERIOD};who")[2]
    lock.downgrade(1, token=token)
    lock.release(1, token=token)
    assert redis("EXISTS", lock.h) == 0


def test_max_hold_counts_behind_it(lock, redis):
    lock.acquire(1, info=f"m{PERIOD};h5000;who")
    age(lock, redis, 4_000)
    redis("PEXPIRE", lock.h, 500)
    lock.renew((lock, 1, TTL_MS, 0, 9_000_000_000_000_000))
    assert redis("PTTL", lock.h) <= 1_000


def test_force_ends_a_hold_and_a_block(lock, redis):
    token = lock.acquire(1, info=f"m{PERIOD};who")[2]
    lock.enqueue(2, info=f"m{PERIOD};two")
    assert lock.force(1, of=None, token=token)[:4:3] == [RELEASED, owner(2)]
    token = redis("GET", lock.t).decode()
    lock.enqueue(3)
    lock.release(2, token=token)
    assert lock.force(0, token=int(token) + 1)[0] == NOT_HOLDER
    assert lock.force(0, of=4, token=token)[:4:3] == [RELEASED, owner(3)]
    assert lock.force(0, of=4, token=token)[0] == NOT_HOLDER


def test_force_ends_the_block_of_one_of_many(lock, redis):
    lock.acquire(1, want="s")
    token = lock.acquire(2, want="s")[2]
    lock.release(2, block=60_000, token=token)
    lock.enqueue(3)
    lock.release(1)
    assert lock.force(0, token=token)[:4:3] == [RELEASED, owner(3)]
