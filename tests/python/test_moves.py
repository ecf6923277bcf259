# SPDX-License-Identifier: Apache-2.0
"""Leases that move to another session: "Moving a lease" of session.md."""
import pytest
from contract import says
from distlock._clock import SECOND
from distlock.types import OnDisconnect, Outcome
from distlock.v1 import lock_pb2, lock_service_pb2 as wire
from stage import Stage


class Drained(Stage):
    """Holds a lock through a broker that drains; another one is known and has opened."""

    def __init__(self, features=("adopt",), **options):
        super().__init__(brokers=2)
        self.held = self.hold("k", **options)
        self.former = self.table.link
        self.drain()
        assert self.table.link is not self.former
        self.start()
        self.opened(features=features)
        self.asked = self.sent()

    @property
    def adopt(self):
        return next(one for one in self.asked if one.HasField("adopt"))


@says("open a session there, send all new acquires to it, adopt there what the former session holds, "
      "and say Goodbye to the former one when it holds nothing. The program hears nothing.")
def test_a_drain_moves_leases():
    stage = Drained()
    hold = stage.held
    assert (stage.adopt.adopt.lease_id, stage.adopt.adopt.lock.key) == ("secret", "k")
    assert len(stage.adopt.adopt.request_id) >= 16
    assert stage.names(stage.sent(stage.former)) == []
    stage.grant(hold, lease_id="new", id=stage.adopt.id)
    assert hold.held and hold.lost == 0 and hold.lease.lease_id == "new" and hold.lease.token == 7
    assert stage.names(stage.sent(stage.former)) == ["goodbye"]
    other = stage.acquire("other")
    assert stage.names() == ["acquire"] and other.lease.link is stage.table.link


@says("Until then keep both sessions alive with heartbeats.")
def test_both_sessions_beat_while_leases_move():
    stage = Drained()
    stage.do("tick")
    stage.wait(1)
    stage.do("tick")
    assert stage.names(stage.sent()) == ["heartbeat"]
    assert stage.names(stage.sent(stage.former)) == ["heartbeat"]


class Left(Stage):
    """Waits through a broker that drains; another one is known and has opened."""

    def __init__(self):
        super().__init__(brokers=2)
        self.waits = self.acquire(wait=20)
        self.first = self.sent()[0]
        self.former = self.table.link
        self.drain()
        self.left = self.names(self.sent(self.former))
        self.again = self.start()[1]
        self.opened()


@says("What waits at the former broker is sent to the next one, and keeps its place.")
def test_waiters_keep_their_places():
    stage = Left()
    assert stage.left == [] and stage.again.acquire.request_id == stage.first.acquire.request_id
    assert len(stage.first.acquire.request_id) >= 16
    stage.refuse(stage.waits.id, "CANCELLED", link=stage.former)
    stage.grant(stage.waits)
    assert stage.waits.granted and stage.names(stage.sent(stage.former)) == ["goodbye"]


@says("Say Goodbye to a former session only when all that waited there is answered by the next one, be it by "
      "`queued`.")
def test_the_goodbye_waits_for_the_next_broker():
    stage = Left()
    assert stage.names(stage.sent(stage.former)) == []
    stage.hear(id=stage.waits.id, queued=wire.AcquireQueued(position=1))
    assert stage.names(stage.sent(stage.former)) == ["goodbye"] and stage.waits.answers == []


@says("**Never count a grant by the former session**, not even one that was sent before.")
def test_a_grant_by_the_former_session_goes_back_when_the_next_one_has_the_place():
    stage = Left()
    stage.grant(stage.waits, link=stage.former)
    assert stage.waits.answers == [] and stage.names(stage.sent(stage.former)) == []
    stage.hear(id=stage.waits.id, queued=wire.AcquireQueued())
    assert stage.names(stage.sent(stage.former)) == ["release", "goodbye"]
    stage.grant(stage.waits)
    assert stage.waits.granted


@says("One try has no place: send it without a `request_id`.")
def test_one_try_has_no_place():
    stage = Stage()
    stage.acquire(wait=0)
    assert stage.sent()[0].acquire.request_id == ""


@says("Ask again for what was not granted yet, under the same `request_id`s, at once.")
def test_a_break_keeps_the_place():
    stage = Stage()
    stage.acquire()
    first = stage.sent()[0].acquire.request_id
    stage.breaks()
    assert stage.start()[1].acquire.request_id == first != ""


def proclaim(stage, hold, value, told):
    fx = []
    stage.table.proclaim(hold.lease, {"v": value}, told.append, stage.now, fx)
    stage.tell(fx)
    return [one for one in stage.tick() if one.HasField("adopt")]


@says("A session may adopt its own lease, unless it is reentrant, to change owner and metadata")
def test_what_is_shown_of_a_lease_changes():
    stage, told = Stage(), []
    hold = stage.hold()
    asked = proclaim(stage, hold, "new", told)
    assert dict(asked[0].adopt.lock.metadata) == {"v": "new"} and told == []
    stage.lose(hold, "MOVED")
    stage.grant(hold, lease_id="next", id=asked[0].id)
    assert hold.held and told == [None] and hold.lost == 0 and hold.lease.lease_id == "next"
    assert proclaim(stage, hold, "newer", told)[0].adopt.lease_id == "next"
    stage.refuse(stage.table.next_id - 1, "INVALID_ARGUMENT")
    assert hold.held and told[1].reason == "INVALID_ARGUMENT"
    reentrant = stage.hold("r", owner="me", reentrant=True)
    assert proclaim(stage, reentrant, "x", told) == [] and told[2].reason == "NOT_SUPPORTED"
    stage.release(hold)
    assert proclaim(stage, hold, "x", told) == [] and told[3].reason == "NOT_HOLDER"


@says("The former session's promise counts until `granted` of the adoption arrives, or it ends. "
      "Only that session's acks extend it")
def test_acks_of_the_former_session_count_until_the_move():
    stage = Drained()
    hold, before = stage.held, stage.held.lease.deadline
    stage.wait(1)
    stage.ack(stage.beat())
    assert hold.lease.deadline == before
    stage.former.heartbeat_due = True
    seq = [one.heartbeat.seq for one in stage.sent(stage.former)][0]
    stage.ack(seq, link=stage.former)
    assert hold.lease.deadline == stage.now + 3 * SECOND


@says("When `granted` arrives after the former deadline, the lease is lost: tell the program, "
      "and release it in the new session with `lapsed`.")
def test_an_adoption_that_comes_too_late():
    stage = Drained()
    hold = stage.held
    stage.wait(2)
    seq = stage.beat()  # the new session's promise goes on for two seconds more
    stage.wait(1)
    stage.grant(hold, echo=seq, id=stage.adopt.id)
    assert not hold.held and hold.lost == 1
    released = [one.release for one in stage.sent() if one.HasField("release")]
    assert [(one.acquire_id, one.lapsed) for one in released] == [(stage.adopt.id, True)]


@says("Otherwise only the new session's anchors count from `granted` on, also when the new deadline is earlier.")
def test_the_new_session_counts_also_when_it_promises_less():
    stage = Drained()
    stage.grant(stage.held, valid_for=1, id=stage.adopt.id)
    assert stage.held.lease.deadline == stage.now + SECOND
    stage.former.heartbeat_due = True
    seq = [one.heartbeat.seq for one in stage.sent(stage.former) if one.HasField("heartbeat")]
    for one in seq:
        stage.ack(one, link=stage.former)
    assert stage.held.lease.deadline == stage.now + SECOND


@says("LeaseLost(MOVED), of a lease whose adoption was asked for, is no loss.")
def test_moved_is_no_loss_when_asked_for():
    stage = Drained()
    stage.lose(stage.held, "MOVED", link=stage.former)
    assert stage.held.held and stage.held.lost == 0
    stage.grant(stage.held, id=stage.adopt.id)
    assert stage.held.held


@says("Every other LeaseLost is final.")
@pytest.mark.parametrize("reason", ["EXPIRED", "TAKEN", "FORCED", "MAX_HOLD"])
def test_other_losses_are_final_while_it_moves(reason):
    stage = Drained()
    stage.lose(stage.held, reason, link=stage.former)
    assert stage.held.lease.cause == reason and stage.held.lost == 1


@says("Nor is LeaseLost(DRAINED), or the end of the former stream, as long as the former promise lasts; "
      "but with ON_DISCONNECT_RELEASE both are.")
@pytest.mark.parametrize("kind, survives", [(OnDisconnect.SAFE, True), (OnDisconnect.RELEASE, False)])
def test_the_end_of_the_former_broker(kind, survives):
    for end in ("drained", "broken"):
        stage = Drained(on_disconnect=kind)
        if end == "drained":
            stage.lose(stage.held, "DRAINED", link=stage.former)
        else:
            stage.breaks(stage.former)
        assert stage.held.held == survives
        if survives:
            stage.wait(1)
            stage.grant(stage.held, id=stage.adopt.id)
            assert stage.held.held and stage.held.lost == 0


@says("Repeat it until there is an answer, through whichever broker; a try whose answer was lost may have succeeded.")
def test_a_repeated_adoption_has_the_same_request_id():
    stage = Drained()
    first = stage.adopt.adopt.request_id
    stage.breaks()
    stage.start()
    stage.opened()
    again = [one for one in stage.sent() if one.HasField("adopt")]
    assert [one.adopt.request_id for one in again] == [first]
    stage.grant(stage.held, id=again[0].id)
    assert stage.held.held


@says("The next move of the lease takes another one.")
def test_the_next_move_has_another_request_id():
    stage = Drained()
    first = stage.adopt.adopt.request_id
    stage.grant(stage.held, lease_id="second", id=stage.adopt.id)
    stage.sent(stage.former)
    stage.breaks(stage.former)
    stage.drain()
    stage.start()
    stage.opened()
    again = next(one for one in stage.sent() if one.HasField("adopt"))
    assert again.adopt.lease_id == "second" and again.adopt.request_id != first


@says("NOT_HOLDER means lost.")
def test_not_holder_means_lost():
    stage = Drained()
    stage.refuse(stage.adopt.id, "NOT_HOLDER")
    assert stage.held.lost == 1 and stage.held.lease.cause == "TAKEN"


@says("NOT_SUPPORTED, INVALID_ARGUMENT and the like: the lease stays where it is")
def test_a_lease_that_cannot_move_stays():
    stage = Drained()
    stage.refuse(stage.adopt.id, "NOT_SUPPORTED")
    assert stage.held.held and stage.held.lease.link is stage.former
    assert stage.draining == [30 * SECOND]
    stage.breaks(stage.former)
    assert stage.held.lost == 1


@says("Everything else: ask again after `retry_after`, or 100 ms, while the promise lasts.")
def test_other_refusals_are_repeated():
    stage = Drained()
    stage.refuse(stage.adopt.id, "STORE_UNAVAILABLE")
    assert stage.names(stage.tick(0.05)) == []
    assert stage.names(stage.tick(0.05)) == ["adopt"]


@says("SHARED once LeaseDowngraded has come. While a downgrade is not answered, do not adopt.")
def test_a_downgrade_delays_the_move():
    stage = Stage(brokers=2)
    hold = stage.hold()
    former, told = stage.table.link, []
    stage.do("downgrade", hold.lease, told.append)
    command = stage.sent()[0]
    assert command.HasField("downgrade")
    stage.drain()
    stage.start()
    stage.opened()
    assert stage.names() == []
    stage.hear(former, id=command.id, downgraded=wire.LeaseDowngraded())
    assert told == [None]
    adopt = next(one for one in stage.sent() if one.HasField("adopt"))
    assert adopt.adopt.lock.mode == lock_pb2.LOCK_MODE_SHARED


@says("all holds move in one command.")
def test_reentrant_holds_move_together():
    stage = Stage(brokers=2)
    holds = [stage.hold("k", owner="me", reentrant=True) for _ in range(3)]
    stage.drain()
    stage.start()
    stage.opened()
    adopts = [one for one in stage.sent() if one.HasField("adopt")]
    assert [one.adopt.hold_count for one in adopts] == [3]
    for i, hold in enumerate(holds):
        stage.grant(hold, id=adopts[0].id + i)
    assert all(hold.held and hold.lease.link is stage.table.link for hold in holds)


@says("An acquire of the same lock and owner waits until they have arrived: it would wait for itself otherwise.")
def test_a_reentrant_acquire_waits_for_the_move():
    stage = Drained(owner="me", reentrant=True)
    again = stage.acquire("k", owner="me", reentrant=True)
    assert stage.names() == []
    stage.grant(stage.held, id=stage.adopt.id)
    assert stage.names() == ["acquire"]
    stage.grant(again)
    assert again.held


@says("Send ReleaseLease in both sessions: by the adoption's id in the new one, "
      "by the acquire's id in the former.")
@pytest.mark.parametrize("here, there, outcome", [
    (wire.RELEASE_OUTCOME_RELEASED, wire.RELEASE_OUTCOME_ALREADY_GONE, Outcome.RELEASED),
    (wire.RELEASE_OUTCOME_ALREADY_GONE, wire.RELEASE_OUTCOME_RELEASED, Outcome.RELEASED)])
def test_a_release_during_the_move_goes_to_both(here, there, outcome):
    stage = Drained()
    told = []
    acquired = stage.held.id
    now = stage.release(stage.held, told.append)
    old = stage.sent(stage.former)
    assert [one.release.acquire_id for one in now] == [stage.adopt.id]
    assert [one.release.acquire_id for one in old if one.HasField("release")] == [acquired]
    assert not stage.held.held
    stage.hear(stage.former, id=old[0].id, released=wire.LeaseReleased(outcome=here))
    assert told == []
    stage.hear(id=now[0].id, released=wire.LeaseReleased(outcome=there))
    assert told == [outcome]


@says("When the former one's broker does not drain, name the lease_id there instead")
def test_a_release_while_what_is_shown_changes():
    stage, told = Stage(), []
    hold = stage.hold(lease_id="old")
    asked = proclaim(stage, hold, "new", [])
    released = [one.release for one in stage.release(hold, told.append)]
    assert [(one.acquire_id, one.lease_id) for one in released] == [(0, "old"), (asked[0].id, "")]
    assert not hold.held and told == []


@says("and the program wants the lease to outlive that: adopt it in the next session, wherever that is.")
def test_resume_after_a_break():
    stage = Stage()
    hold, plain = stage.hold("k", resume=True, lease_id="kept"), stage.hold("plain")
    stage.breaks()
    assert hold.held and hold.lost == 0 and hold.lease.risk is not None
    assert plain.lost == 1 and plain.lease.cause == "DISCONNECTED"
    stage.wait(1)
    stage.start()
    stage.opened()
    adopt = next(one for one in stage.sent() if one.HasField("adopt"))
    assert adopt.adopt.lease_id == "kept"
    stage.grant(hold, id=adopt.id)
    assert hold.held and hold.lease.risk is None


@says("Not with ON_DISCONNECT_RELEASE: that broker frees the lock at once.")
def test_resume_has_no_effect_with_release_on_disconnect():
    stage = Stage()
    hold = stage.hold(resume=True, on_disconnect=OnDisconnect.RELEASE)
    stage.breaks()
    assert hold.lost == 1


@says("When to move, if the features of the broker that has the lease contain `adopt`, too")
def test_a_broker_without_adopt_has_leases_that_stay():
    stage = Stage(features=())
    hold = stage.hold(resume=True)
    stage.breaks()
    assert hold.lost == 1


@says("Do the same, with `lapsed`, for a lease that is lost meanwhile.")
def test_a_lease_that_ended_between_two_sessions_is_freed_by_the_next():
    stage = Stage()
    hold = stage.hold(resume=True)
    stage.breaks()
    stage.tick(3)
    assert hold.lost == 1
    stage.start()
    stage.opened()
    commands = stage.sent()
    assert stage.names(commands) == ["adopt", "release"]
    assert commands[1].release.acquire_id == commands[0].id and commands[1].release.lapsed


def test_what_ended_between_two_sessions_is_freed_also_by_a_broker_that_adopts_nothing():
    stage = Stage()
    hold = stage.hold(lease_id="left")
    stage.release(hold)
    stage.breaks()
    stage.start()
    stage.opened(features=())
    released = [one.release for one in stage.sent() if one.HasField("release")]
    assert [(one.acquire_id, one.lease_id, one.lapsed) for one in released] == [(0, "left", False)]
    stage.hear(id=stage.table.next_id - 1, released=wire.LeaseReleased(outcome=wire.RELEASE_OUTCOME_RELEASED))
    stage.breaks()
    stage.start()
    stage.opened()
    assert stage.names() == []
