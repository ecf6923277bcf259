# SPDX-License-Identifier: Apache-2.0
"""Detached leases, with the broker's answers in the test's hand."""
import pytest
from distlock import _operations as operations
from distlock._clock import SECOND
from distlock.errors import LockLost, Unavailable
from distlock.types import Outcome
from distlock.v1 import lock_service_pb2 as wire


@pytest.fixture
def now(monkeypatch):
    """The clock: now[0], in ns."""
    time = [1000 * SECOND]
    monkeypatch.setattr(operations, "clock", lambda: time[0])
    return time


def lease(now, seconds):
    return operations.DetachedState("k", "secret", "h", 7, now[0] + seconds * SECOND)


def run(operation, *answers):
    """Plays an operation, whose calls are answered in turn; the names of its calls, and what it returned or raised."""
    calls, rest = [], list(answers)
    try:
        call = next(operation)
        while True:
            calls.append(call.name)
            answer = rest.pop(0)
            call = operation.throw(answer) if isinstance(answer, Exception) else operation.send(answer)
    except StopIteration as done:
        return calls, done.value
    except LockLost as lost:
        return calls, lost.cause


def released():
    return wire.ReleaseResponse(outcome=wire.RELEASE_OUTCOME_RELEASED)


@pytest.mark.parametrize("looks", [False, True])
def test_a_lapsed_lease_is_given_back_once_also_when_the_program_has_looked(now, looks):
    held = lease(now, 5)
    now[0] += 5 * SECOND
    if looks:
        assert not held.is_held and held.valid_for == 0
    assert run(held._renew(), released()) == (["Release"], "LAPSED")
    assert run(held._renew()) == ([], "LAPSED")
    with pytest.raises(LockLost, match="LAPSED"):
        held.check()


def test_a_lapsed_lease_is_lapsed_when_nobody_takes_it_back(now):
    held = lease(now, 5)
    now[0] += 5 * SECOND
    assert run(held._renew(), Unavailable("UNREACHABLE", "nobody is there")) == (["Release"], "LAPSED")


def test_a_release_after_the_deadline_does_not_make_a_loss_a_release(now):
    held = lease(now, 5)
    now[0] += 5 * SECOND
    assert run(held._release(), released()) == (["Release"], Outcome.RELEASED)
    assert not held.is_held and held.cause == "LAPSED"
    assert run(held._renew()) == ([], "LAPSED")


def test_a_renewal_whose_answer_is_late_extends_nothing(now):
    held = lease(now, 5)

    def late():
        answer = wire.RenewResponse()
        answer.valid_for.FromSeconds(5)
        now[0] += 5 * SECOND
        return answer

    operation = held._renew()
    assert next(operation).name == "Renew"
    assert operation.send(late()).name == "Release"
    with pytest.raises(LockLost, match="LAPSED"):
        operation.send(released())
    assert not held.is_held


def test_a_release_is_none_of_a_loss(now):
    held = lease(now, 5)
    assert run(held._release(), released()) == (["Release"], Outcome.RELEASED)
    assert not held.is_held and held.cause == "GIVEN_BACK"
    assert run(held._renew()) == ([], "GIVEN_BACK")
