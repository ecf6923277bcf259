# SPDX-License-Identifier: Apache-2.0
"""What was promised of a hold, no later command of its owner takes back: none makes its end come sooner."""

import pytest

from lock import DOWNGRADED, GRANTED, HELD, KEEP_MS, RENEWED, SCRIPTS, broker, owner

CONFIRMED, JOINED = 20, 22
HOLD, LIFE, TTL = 9_000, 8_000, 2_000
NEAR = 500


def held(redis, lock, mode, age, info):
    """The owner's hold since `age` ms, which lasts for LIFE."""
    seconds, micros = redis("TIME")
    now = int(seconds) * 1_000_000 + int(micros)
    since, expiry = now - 1000 * age, now + 1000 * LIFE
    if mode == "x":
        redis("SET", lock.h, f"1;{owner(1)};{since};{since};{TTL};0;{info}", "PX", LIFE)
    else:
        redis("HSET", lock.h, "holders", f"s;0;1;{expiry}", owner(1), f"{expiry};{since};{since};{TTL};0;1;{info}")
        redis("PEXPIRE", lock.h, LIFE)
    redis("SET", lock.t, since, "PX", KEEP_MS)
    return since, now


def life(redis, lock, mode):
    if mode == "x":
        return redis("PTTL", lock.h)
    seconds, micros = redis("TIME")
    expiry = int(redis("HGET", lock.h, owner(1)).split(b";")[0])
    soonest = int(redis("HGET", lock.h, "holders").split(b";")[3])
    return (min(expiry, soonest) - int(seconds) * 1_000_000 - int(micros)) // 1000


def mark(place, of=1, number=7, hold=HOLD):
    return f"h{hold};p{place};{broker(of)}.{number};who"


def redlock(redis, lock, verb, *argv):
    return redis("EVAL", (SCRIPTS / f"redlock_{verb}.lua").read_text(), 4, *lock.keys, *argv)


def vote(redis, lock, mode, info, ttl=TTL, of=1, number=7, found=0):
    """The request for a vote of the broker `of`."""
    return redlock(redis, lock, "acquire", owner(1), ttl, 0, 0, 1, broker(of), 30_000, info, KEEP_MS, 1, 100, mode,
                   100_000, 0, "t1", number, number, found)


both = pytest.mark.parametrize("mode", ["x", "s"])


@both
@pytest.mark.parametrize("until", ["hold", "stamp"])
def test_a_renewal_that_max_hold_cuts(lock, redis, mode, until):
    since, now = held(redis, lock, mode, age=HOLD - 1_000, info=mark(0) if until == "hold" else "who")
    end = now + 1_000_000 if until == "stamp" else 0
    done = redis(*lock.command("renew", TTL, f"{owner(1)};{since};{TTL};{end}", keys=(lock.h,)))
    assert done[0] == RENEWED and done[2] == b"1"
    assert life(redis, lock, mode) > LIFE - NEAR


@both
def test_a_callers_renewal_with_a_shorter_ttl(lock, redis, mode):
    since, _ = held(redis, lock, mode, age=1_000, info="who")
    done = redis(*lock.command("renew", TTL, f"{owner(1)};{since};{TTL};0", keys=(lock.h,)))
    assert done[0] == RENEWED and done[2] == b"1"
    assert life(redis, lock, mode) > LIFE - NEAR


@both
def test_a_repeat_with_a_shorter_ttl(lock, redis, mode):
    held(redis, lock, mode, age=1_000, info="who")
    assert lock.acquire(1, ttl=TTL, want=mode)[0] == GRANTED
    assert life(redis, lock, mode) > LIFE - NEAR


@both
def test_a_vote_that_is_asked_for_again(lock, redis, mode):
    held(redis, lock, mode, age=1_000, info=mark(0))
    reply = vote(redis, lock, mode, mark(0))
    assert reply[0] == GRANTED and HOLD - 1_000 - NEAR < int(reply[4]) <= HOLD - 1_000
    assert life(redis, lock, mode) > LIFE - NEAR


def test_a_vote_without_max_hold_shows_none(lock, redis):
    held(redis, lock, "x", age=1_000, info=f"p0;{broker(1)}.7;who")
    assert len(vote(redis, lock, "x", f"p0;{broker(1)}.7;who")) == 4


@both
def test_a_hold_that_was_found_keeps_the_end_that_a_confirmation_gave_it(lock, redis, mode):
    token, _ = held(redis, lock, mode, age=1_000, info=mark(0, hold=2 * HOLD))
    reply = vote(redis, lock, mode, mark(1, of=2), of=2, found=token)
    assert reply[0] == GRANTED and int(reply[4]) > 2 * HOLD - 1_000 - NEAR
    again = vote(redis, lock, mode, mark(1, of=2), of=2, found=token)
    assert int(again[4]) > 2 * HOLD - 1_000 - NEAR, "it is marked anew, and has its end yet"


@both
def test_a_confirmation(lock, redis, mode):
    """It promises less than the hold's life, and more than max_hold has left."""
    token, _ = held(redis, lock, mode, age=HOLD - 1_000, info=mark(0))
    reply = redlock(redis, lock, "confirm", owner(1), token, TTL, KEEP_MS, broker(1), 7, 7, 3_000)
    assert reply[0] == CONFIRMED
    assert life(redis, lock, mode) > LIFE - NEAR
    assert 3_000 - NEAR < int(vote(redis, lock, mode, mark(0))[4]) <= 3_001


@both
def test_a_join(lock, redis, mode):
    token, _ = held(redis, lock, mode, age=1_000, info=mark(0))
    reply = redlock(redis, lock, "join", owner(1), token, mode, TTL, 0, 2**53 - 1, mark(0, hold=3_000), KEEP_MS, token)
    assert reply[0] == JOINED
    assert life(redis, lock, mode) > LIFE - NEAR
    assert int(vote(redis, lock, mode, mark(0))[4]) > HOLD - 1_000 - NEAR


def test_a_join_that_comes_behind_a_downgrade(lock, redis):
    """Sent before it, over a connection that was given up since: readers stay where they are let in."""
    token, _ = held(redis, lock, "x", age=0, info=mark(0))

    def join(want):
        return redlock(redis, lock, "join", owner(1), token, want, TTL, 0, 2**53 - 1, mark(0), KEEP_MS, token)
    assert lock.downgrade(1, token=token)[0] == DOWNGRADED
    assert join("x")[0] == HELD
    assert redis("TYPE", lock.h) == "hash"
    assert join("s")[0] == JOINED
