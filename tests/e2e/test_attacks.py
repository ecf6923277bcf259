# SPDX-License-Identifier: Apache-2.0
"""A short sample of the attacks. `attacks.py` runs all of them, for longer."""
import pytest

from attacks import run_attack

SECONDS, SESSIONS = 1.5, 20


# By frames and messages that are of no use, by what it begins with, and by the number of its connections.
@pytest.mark.parametrize("name", ["priority", "big-message", "garbage", "half"])
def test_honest_callers_lose_nothing(name):
    row = run_attack(name, SECONDS, sessions=SESSIONS)
    assert row["alive"] and row["honest"]["lost"] == 0 and not row["honest"]["ended"], row
    assert row["served_s"] < 5 and row["grew_mb"] < 128, row
    assert row["cuts"] or row["refused"], row
