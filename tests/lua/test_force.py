# SPDX-License-Identifier: Apache-2.0
"""A lock is taken from its holder: its broker is told where it hears, else the lock is released at once."""

import pytest

from kinds import RwLock
from lock import RELEASED, TOLD


@pytest.fixture
def rw(redis):
    return RwLock(redis)


def test_each_byte_of_the_reason_is_told(rw, listen):
    ear = listen(2)
    token = rw.write(1, at=2)[2]
    assert rw.force(1, of=2, token=token, reason="a;b\nc")[0] == TOLD
    assert ear.heard() == [("default/k", "force", 1, token, "a;b\nc")]


def test_where_publish_does_not_count_everybody_the_broker_counts_as_told(redis):
    rw = RwLock(redis, trusted=0)
    rw.write(1, at=2)
    assert rw.force(1, of=2)[0] == TOLD and rw.holders() == {1: 1}


def test_the_next_token_is_greater_though_the_last_one_was_lost(rw, redis):
    token = int(rw.write(1)[2])
    rw.write(2)
    redis("DEL", rw.t)
    assert int(rw.force(1)[4]) > token


def test_it_works_without_memory(rw, redis):
    rw.write(1)
    rw.write(2)
    redis("CONFIG", "SET", "maxmemory", "1")
    assert rw.force(1)[0] == RELEASED and rw.holders() == {2: 1}
