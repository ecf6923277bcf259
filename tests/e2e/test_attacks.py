# SPDX-License-Identifier: Apache-2.0
"""A short sample of the attacks. `attacks.py` runs all of them, for longer."""
import pytest

import unread_sessions
from attacks import GROWTH_MB, OWN_MB, is_hardened, most_mb, run_attack

SECONDS, SESSIONS = 1.5, 20
# No budget of the acceptor bounds these in time.
WITH_HARDENED_GRPC = ["priority/unix", "hpack-varint/unix", "ping", "rapid-reset", "acquire-waiting", "watch"]


# By requests that never end, by requests that wait for their answers, and by calls that are given up.
@pytest.mark.parametrize("name", ["http-slow", "http-waits/unix", "ops-hold", "rapid-reset"])
def test_one_peer_keeps_nobody_out(name):
    if name in WITH_HARDENED_GRPC and not is_hardened():
        pytest.skip("this broker is built with DISTLOCK_GRPC=system")
    attack, _, over = name.partition("/")
    row = run_attack(attack, SECONDS, over or "tcp", sessions=SESSIONS)
    assert row["alive"] and row["asked"] and not row["unanswered"], row


# By frames and messages that are of no use, by what it begins with, by the number of its connections, and by calls.
@pytest.mark.parametrize("name", ["priority", "big-message", "garbage", "half", *WITH_HARDENED_GRPC])
def test_honest_callers_lose_nothing(name):
    if name in WITH_HARDENED_GRPC and not is_hardened():
        pytest.skip("this broker is built with DISTLOCK_GRPC=system")
    attack, _, over = name.partition("/")
    # A busy machine may leave the attacker no time to be noticed in.
    for seconds in (SECONDS, 4 * SECONDS):
        row = run_attack(attack, seconds, over or "tcp", sessions=SESSIONS)
        assert row["alive"] and row["honest"]["lost"] == 0 and not row["honest"]["ended"], row
        assert row["served_s"] < 5 and row["grew_mb"] < GROWTH_MB, row
        if row["cuts"] or row["refused"]:
            return
    pytest.fail(f"nothing was cut or refused: {row}")


@pytest.mark.parametrize("name", unread_sessions.ATTACKS)
def test_a_thousand_sessions_that_read_nothing_are_bounded_and_told(name):
    row = run_attack(name, 4, sessions=SESSIONS)
    assert row["alive"] and row["honest"]["lost"] == 0 and not row["honest"]["ended"], row
    assert row["served_s"] < 5 and row["grew_mb"] < most_mb(name), row
    assert 0 < row["own_mb"] <= OWN_MB, row
    assert sum(row["ends"].values()) == 1000 and not unread_sessions.untold(row["ends"]), row["ends"]
