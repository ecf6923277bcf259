# SPDX-License-Identifier: Apache-2.0
"""A hold that another owner takes over: of which tries of one request."""

import pytest

from lock import ADOPTED, HELD, owner


def attempt(session, number, request="ab" * 8, mark=0):
    return f"{request}{session:08x}{mark:04x}{number:04x}"


@pytest.mark.parametrize("want", ["x", "s"])
@pytest.mark.parametrize("first, second", [(1, 2), (0xffff, 0), (0xfffe, 0x7ff0)])
def test_a_late_try_takes_nothing_back_from_a_later_one_of_its_session(lock, want, first, second):
    """The client has repeated a request whose answer was late. The numbers of tries begin anywhere, and go around."""
    token = lock.acquire(1, want=want)[2]

    def adopt(number, mark=0xc0de):
        return lock.call("adopt", owner(1), token, attempt(2, number, mark=mark), 0, want, "info", lock.hold_off)[0]

    assert adopt(first) == ADOPTED
    assert adopt(second) == ADOPTED, "the repeat"
    assert adopt(first) == HELD, "late"
    assert adopt(second) == ADOPTED, "again"
    assert lock.call("renew", 15_000, f"{attempt(2, second, mark=0xc0de)};{token};15000;-", keys=[lock.h])[2] == "1"
    assert adopt(first, mark=0xbeef) == ADOPTED, "another session of a client that does not count them"
    assert adopt(first) == ADOPTED, "of these the last one counts, whatever their numbers"
