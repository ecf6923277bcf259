# SPDX-License-Identifier: Apache-2.0
"""PERMIT: n of a limit, weighted, in order of arrival."""

import pytest

from kinds import RwLock
from lock import GRANTED, HELD, MISMATCH, QUEUED, TTL_MS


@pytest.fixture
def sem(redis):
    return RwLock(redis)


def test_never_more_than_the_limit(sem, redis):
    assert [sem.permit(n)[0] for n in (1, 2, 3)] == [GRANTED] * 3
    assert sem.permit(4, wait=0)[0] == HELD and sem.permit(5)[0] == QUEUED
    assert sem.give_back(2)[1] == [5] and sem.holders() == {1: 1, 3: 1, 5: 1}
    for n in (1, 3, 5):
        sem.give_back(n)
    assert redis("EXISTS", sem.h, sem.q, sem.w) == 0


def test_weights_are_served_in_order_of_arrival(sem):
    sem.permit(1, 3, 5)
    sem.permit(2, 2, 5)
    assert sem.permit(3, 4, 5)[0] == QUEUED
    assert sem.permit(4, 1, 5)[0] == QUEUED, "a small one does not pass the big one in front"
    assert sem.give_back(2)[1] == [] and sem.permit(5, 1, 5, wait=0)[0] == HELD
    assert sem.give_back(1)[1] == [3, 4] and sem.holders() == {3: 4, 4: 1}


def test_a_big_one_that_leaves_lets_those_behind_it_in(sem):
    sem.permit(1, 2, 3)
    sem.permit(2, 2, 3)
    sem.permit(3, 1, 3)
    assert sem.leave(2)[1] == [3]


def test_a_crashed_holders_permits_come_back(sem, until):
    sem.permit(1, 2, ttl=60)
    sem.permit(2, 1)
    assert sem.permit(3, 2)[0] == QUEUED
    assert 0 < sem.look(3)[0] <= 60, "tended when the first of them expires"
    until(lambda: sem.look(3)[2] == [3])
    assert sem.holders() == {2: 1, 3: 2}


def test_limits_and_modes_do_not_mix(sem):
    sem.permit(1, 1, 3)
    for reply in (sem.permit(2, 1, 4), sem.write(2), sem.read(2), sem.write(2, wait=0)):
        assert reply[0] == MISMATCH and reply[2:] == ["p", 3]
    sem.give_back(1)
    sem.write(1)
    assert sem.permit(2)[0] == MISMATCH and sem.waiters() == []
    sem.give_back(1)
    assert sem.permit(2, 1, 9)[0] == GRANTED


def test_a_blocked_permit_stays_taken_for_the_delay(sem, until):
    for n in (1, 2, 3):
        sem.permit(n)
    sem.permit(4)
    assert sem.give_back(1, block=100)[0] == "blocked" and sem.holders().keys() > {2, 3} and 4 not in sem.holders()
    until(lambda: sem.look(4)[2] == [4])


def test_renewals_keep_the_count(sem, redis):
    sem.permit(1, 2)
    assert sem.renew((sem, 1, TTL_MS))[2:] == [1] and sem.permit(2, 2, wait=0)[0] == HELD
    assert sem.permit(3, 1)[0] == GRANTED
