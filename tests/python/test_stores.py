# SPDX-License-Identifier: Apache-2.0
"""A lease stays in its store: "Moving a lease" of session.md."""
import pytest
from contract import says
from distlock._clock import SECOND
from stage import Stage


def stores(first, second):
    """A lock held at a broker of the first store, which drains, and a session with one of the second."""
    stage = Stage(brokers=2)
    stage.opened(store=first)
    stage.held, stage.former = stage.hold("k"), stage.table.link
    stage.drain()
    stage.start()
    stage.opened(store=second)
    stage.asked = stage.sent()
    return stage


@pytest.mark.parametrize("first, second", (("one", "one"), ("one", ""), ("", "two")))
@says("An empty `store_id` is not known, and forbids nothing.")
def test_a_lease_moves_within_its_store(first, second):
    stage = stores(first, second)
    assert "adopt" in stage.names(stage.asked) and stage.draining == []


@says("A broker whose `store_id` differs has another store: do not adopt there. Tell the program of the drain, and "
      "keep the lease to the end of its promise.")
def test_a_lease_does_not_move_to_another_store():
    stage = stores("one", "two")
    hold, former = stage.held, stage.former
    assert "adopt" not in stage.names(stage.asked) and stage.draining == [30 * SECOND]
    assert stage.names(stage.sent(former)) == [] and hold.held
    stage.breaks(former)
    assert hold.held and hold.lost == 0
    stage.do("tick")
    assert "adopt" not in stage.names(stage.sent())
    stage.wait(3.1)
    stage.do("tick")
    assert not hold.held and hold.lost == 1 and hold.lease.cause != "TAKEN"
    assert not {"adopt", "release"} & set(stage.names()), "its ttl ends what is left of it"
