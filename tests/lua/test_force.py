# SPDX-License-Identifier: Apache-2.0
"""A lock is taken from its holder: its broker is told where it hears, else the lock is released at once."""

import pytest

from kinds import RwLock
from lock import GONE, NOT_HOLDER, RELEASED, TOLD


@pytest.fixture
def rw(redis):
    return RwLock(redis)


def test_its_broker_is_told_and_nothing_changes(rw, listen):
    ear = listen(2)
    token = rw.write(1, at=2)[2]
    rw.write(3)
    before = rw.snapshot()
    assert rw.force(1, of=2, token=token, reason="a;b\nc")[0] == TOLD
    assert ear.heard() == [("default/k", "force", 1, token, "a;b\nc")] and rw.snapshot() == before
    assert rw.force(1, of=2)[0] == TOLD and len(ear.heard()) == 1, "as often as it is asked"


def test_where_nobody_hears_it_is_released_and_handed_on(rw):
    rw.write(1, at=2)
    rw.write(3)
    reply = rw.force(1, of=2)
    assert reply[0] == RELEASED and int(reply[3], 16) == 3 and rw.holders() == {3: 1}


def test_the_callers_own_is_released(rw, listen):
    ear = listen(1)
    rw.write(1)
    assert rw.force(1)[0] == RELEASED and rw.holders() == {} and ear.heard() == []


def test_without_a_broker_it_is_released(rw):
    rw.write(1)
    assert rw.force(1, of=None)[0] == RELEASED and rw.holders() == {}


def test_where_publish_does_not_count_everybody_the_broker_counts_as_told(redis):
    rw = RwLock(redis, trusted=0)
    rw.write(1, at=2)
    assert rw.force(1, of=2)[0] == TOLD and rw.holders() == {1: 1}


def test_another_grant_is_left_alone(rw, listen):
    ear = listen(2)
    assert rw.force(1, of=2)[0] == GONE
    token = int(rw.write(1, at=2)[2])
    before = rw.snapshot()
    assert rw.force(1, of=2, token=token - 1)[0] == NOT_HOLDER and rw.force(2, of=2)[0] == NOT_HOLDER
    assert rw.snapshot() == before and ear.heard() == []


def test_one_of_many_goes_and_the_others_stay(rw, listen):
    for n in (1, 2):
        rw.read(n)
    rw.write(3)
    reply = rw.force(1)
    assert reply[0] == RELEASED and reply[3:] == [] and rw.holders() == {2: 1}
    assert int(rw.force(2)[3], 16) == 3 and rw.holders() == {3: 1}


def test_permits_make_room(rw):
    rw.permit(1, 2)
    rw.permit(2, 1)
    rw.permit(3, 2)
    assert int(rw.force(1)[3], 16) == 3 and rw.holders() == {2: 1, 3: 2}


def test_a_delay_does_not_apply(rw, redis):
    rw.write(1, delay=5_000)
    assert rw.force(1)[0] == RELEASED and redis("EXISTS", rw.h) == 0


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
