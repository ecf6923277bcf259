# SPDX-License-Identifier: Apache-2.0
"""A hold that another owner takes over: of which tries of one request."""

import pytest

from lock import ADOPTED, HELD, NOT_HOLDER, RENEWED, owner


def attempt(session, number, request="ab" * 8):
    return f"{request}{session:08x}{number:08x}"


@pytest.mark.parametrize("want", ["x", "s"])
def test_a_late_try_of_an_earlier_session_takes_nothing_back(lock, want):
    token = lock.acquire(1, want=want)[2]

    def adopt(session, number, request="ab" * 8):
        return lock.call("adopt", owner(1), token, attempt(session, number, request), 0, want, "info")[0]

    assert adopt(2, 1) == ADOPTED
    assert adopt(1, 9) == HELD
    assert adopt(2, 1) == ADOPTED, "again"
    assert adopt(2, 0) == ADOPTED, "the session asks once more"
    assert adopt(3, 0) == ADOPTED
    assert adopt(2, 0) == HELD
    assert adopt(9, 9, request="cd" * 8) == NOT_HOLDER
    assert lock.call("renew", 15_000, f"{attempt(3, 0)};{token};15000;-", keys=[lock.h])[:3:2] == [RENEWED, "1"]
