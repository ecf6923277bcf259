# SPDX-License-Identifier: Apache-2.0
"""A vote that one of several servers gave long before it was confirmed."""

import pytest

from lock import KEEP_MS, RENEWED, SCRIPTS, broker, owner

HOLD = 8_000
AGE = 5_000
CONFIRMED = 20


def vote(redis, lock, mode, info):
    """As an EXCLUSIVE or a SHARED waiter was given it AGE ms ago."""
    seconds, micros = redis("TIME")
    now = int(seconds) * 1_000_000 + int(micros)
    since = now - 1000 * AGE
    left = HOLD - AGE
    if mode == "x":
        redis("SET", lock.h, f"1;{owner(1)};{since};{since};{HOLD};0;{info}", "PX", left)
    else:
        redis("HSET", lock.h, "holders", f"s;0;1;{now + 1000 * left}",
              owner(1), f"{now + 1000 * left};{since};{since};{HOLD};0;1;{info}")
        redis("PEXPIRE", lock.h, left)
    redis("SET", lock.t, since, "PX", KEEP_MS)
    return since, now


@pytest.mark.parametrize("is_new", [True, False], ids=["new_token", "same_token"])
@pytest.mark.parametrize("mode", ["x", "s"])
@pytest.mark.parametrize("before", ["", "m900000;"], ids=["plain", "min_hold"])
def test_no_renewal_takes_what_the_grant_promised(lock, redis, mode, before, is_new):
    given, token = vote(redis, lock, mode, f"{before}h{HOLD};p0;{broker(1)}.7;who")
    token = token if is_new else given
    confirm = (SCRIPTS / "redlock_confirm.lua").read_text()
    reply = redis("EVAL", confirm, 4, *lock.keys, owner(1), token, HOLD, KEEP_MS, broker(1), 7, 7, HOLD)
    assert reply[0] == CONFIRMED
    done = redis(*lock.command("renew", HOLD, f"{owner(1)};{token};{HOLD};0", keys=(lock.h,)))
    assert done[0] == RENEWED and done[2] == b"1" and int(done[3]) > HOLD - 1_000, done
    assert redis("PTTL", lock.h) > HOLD - 1_000
