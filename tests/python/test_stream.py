# SPDX-License-Identifier: Apache-2.0
"""Requests and their answers: "The stream", "How a session ends" and "Messages" of session.md."""
import pytest
from contract import says
from distlock._clock import NEVER
from distlock.types import Outcome
from distlock.v1 import lock_service_pb2 as wire
from stage import Stage


@says("OpenSession first, within 10 s; other commands may follow at once")
def test_waiting_requests_leave_with_the_open():
    stage = Stage(opened=False)
    stage.acquire()
    assert stage.names(stage.start()) == ["open", "acquire"]


@says("An acquire of n locks uses the ids `id` .. `id + n - 1`, one for each lock.")
def test_ids_of_several_locks():
    stage = Stage()
    group, after = stage.acquire_all(["a", "b", "c"]), stage.acquire("d")
    commands = stage.sent()
    assert [len(one.acquire.locks) for one in commands] == [3, 1]
    assert [lease.id for lease in group.request.leases] == [commands[0].id + i for i in range(3)]
    assert after.id == commands[0].id + 3


@says("all `granted` together, each with its own token, or all `refused` for the same reason.")
def test_several_locks_are_answered_once():
    stage = Stage()
    group = stage.acquire_all(["a", "b"])
    stage.sent()
    stage.grant(group, id=group.id, token=1)
    assert group.answers == []
    stage.grant(group, id=group.id + 1, token=2)
    assert group.granted and [lease.token for lease in group.request.leases] == [1, 2]
    other = stage.acquire_all(["a", "b"])
    stage.sent()
    stage.refuse(other.id, "LOCK_HELD")
    stage.refuse(other.id + 1, "LOCK_HELD")
    assert other.refused == "LOCK_HELD" and len(other.answers) == 1


@says("When the lease is lost meanwhile, refuse the acquire with LEASE_LOST.")
def test_a_loss_before_use_refuses_the_whole_acquire():
    stage = Stage()
    group = stage.acquire_all(["a", "b", "c"])
    stage.sent()
    stage.grant(group, id=group.id)
    stage.grant(group, id=group.id + 1)
    stage.lose(group, "EXPIRED")
    assert group.refused == "LEASE_LOST" and not stage.table.live
    sent = stage.sent()
    assert [one.release.acquire_id for one in sent if one.HasField("release")] == [group.id + 1]
    assert [one.cancel.acquire_id for one in sent if one.HasField("cancel")] == [group.id + 2]


@says("When the broker stays silent for half a second longer, refuse the acquire yourself, and send CancelAcquire.")
def test_a_grant_of_one_of_several_locks_does_not_prolong_the_wait_for_the_others():
    stage = Stage()
    group = stage.acquire_all(["a", "b"], wait=1)
    stage.sent()
    stage.grant(group, id=group.id)
    stage.live(1.4)
    assert group.answers == []
    stage.wait(0.2)
    stage.do("tick")
    assert group.refused == "WAIT_TIMEOUT"
    sent = stage.sent()
    assert [one.release.acquire_id for one in sent if one.HasField("release")] == [group.id]
    assert [one.cancel.acquire_id for one in sent if one.HasField("cancel")] == [group.id + 1]


@says("`granted` may cross it: then CANCELLED follows, and nothing is held.")
def test_a_cancel_that_crosses_a_grant():
    stage = Stage()
    hold = stage.acquire()
    stage.sent()
    stage.do("cancel", hold.request)
    cancels = [one.cancel.acquire_id for one in stage.sent() if one.HasField("cancel")]
    assert cancels == [hold.id]
    stage.grant(hold)
    assert not hold.held and hold.id not in stage.table.live
    stage.refuse(hold.id, "CANCELLED")
    assert stage.names() == []


@says("Commands are carried out in order")
def test_a_release_goes_before_the_next_acquire_of_the_lock():
    stage = Stage()
    hold = stage.hold()
    fx = []
    stage.table.release(hold.lease, None, stage.now, fx)
    stage.acquire()
    assert stage.names() == ["release", "acquire"]


@says("Half-closing the stream without it counts as a break.")
def test_closing_says_goodbye():
    stage = Stage()
    hold = stage.hold()
    stage.do("close")
    assert stage.names() == ["goodbye"]
    assert hold.lost == 1 and hold.lease.cause == "CLIENT_CLOSED"


@says("Ignore an event that you do not know.")
def test_unknown_events_are_ignored():
    stage = Stage()
    hold = stage.hold()
    unknown = wire.SessionEvent.FromString(b"\x08\x05" + b"\xfa\x07\x02\x08\x01")  # field 127
    stage.do("on_event", stage.table.link, unknown)
    stage.do("on_event", stage.table.link, wire.SessionEvent())
    assert hold.held


@says("Treat an unknown LostReason as a loss, an unknown RefusalReason as a refusal, an unknown ReleaseOutcome as "
      "an outcome that is not known.")
def test_unknown_values():
    stage = Stage()
    lost, refused, released, told = stage.hold("a"), stage.acquire("b"), stage.hold("c"), []
    stage.hear(id=lost.id, lost=wire.LeaseLost(reason=99))
    assert lost.lost == 1 and lost.lease.cause == "UNKNOWN_99"
    stage.hear(id=refused.id, refused={"reason": 99})
    assert refused.refused == "UNKNOWN_99"
    command = stage.release(released, told.append)[-1]
    stage.hear(id=command.id, released=wire.LeaseReleased(outcome=99))
    assert told == [Outcome.UNKNOWN]


@pytest.mark.parametrize("reason", ["EXPIRED", "TAKEN", "FORCED", "MAX_HOLD", "DRAINED", "MOVED"])
@says("Lost, the end of the stream, or the last message of a call end belief at once.")
def test_each_reason_of_a_loss(reason):
    stage = Stage()
    hold = stage.hold()
    stage.lose(hold, reason)
    assert hold.lost == 1 and hold.lease.cause == reason
    stage.lose(hold, reason)
    assert hold.lost == 1


@says("A lost lease never comes back.")
def test_nothing_brings_a_lost_lease_back():
    stage = Stage()
    hold = stage.hold()
    stage.lose(hold, "FORCED")
    stage.grant(hold)
    stage.ack(stage.beat())
    assert not hold.held


@says("all leases of the session are lost, except those that move.")
def test_a_break_loses_leases_and_keeps_waits():
    stage = Stage()
    hold, waits = stage.hold("a"), stage.acquire("b", wait=30)
    stage.sent()
    stage.breaks()
    assert hold.lost == 1 and hold.lease.cause == "DISCONNECTED" and waits.answers == []


@says("Ask again for what was not granted yet")
def test_waits_go_on_with_what_is_left():
    stage = Stage()
    waits, tries = stage.acquire("b", wait=30), stage.acquire("c", wait=0)
    first = [one.acquire.locks[0].max_wait.ToNanoseconds() for one in stage.sent()]
    assert first == [30 * 10**9, 0]
    stage.wait(2)
    stage.breaks()
    again = [one for one in stage.start() if one.HasField("acquire")]
    assert [one.acquire.locks[0].max_wait.ToNanoseconds() for one in again] == [28 * 10**9, 0]
    stage.opened()
    stage.grant(waits)
    stage.grant(tries)
    assert waits.granted and tries.granted


@says("What does not fit goes into the next message.")
def test_messages_stay_below_the_limit():
    stage = Stage(max_bytes=2000)
    for i in range(100):
        stage.acquire("k" * 100 + str(i))
    sizes = []
    while True:
        message = stage.table.pack(stage.table.link, stage.now)
        if message is None:
            break
        sizes.append(message.ByteSize())
    assert sum(size > 0 for size in sizes) > 5 and max(sizes) <= 2000


@says("and 64 KiB before that is known")
def test_a_request_that_no_message_takes():
    stage = Stage(opened=False)
    keys = ["x" * 2000 + str(i) for i in range(40)]
    group = stage.acquire_all(keys)
    assert stage.names(stage.start()) == ["open"]
    stage.opened(max_bytes=1 << 20)
    assert stage.names() == ["acquire"]
    stage.breaks()
    assert stage.names(stage.start()) == ["open"], "another broker may take less"
    small = Stage(opened=False)
    group = small.acquire_all(keys)
    small.start()
    small.opened()
    assert group.refused == "INVALID_ARGUMENT" and "65536" in group.answers[0].message


@says("an acquire beyond that is refused with QUOTA_EXCEEDED.")
def test_quota():
    stage = Stage()
    hold = stage.acquire()
    stage.sent()
    stage.refuse(hold.id, "QUOTA_EXCEEDED", message="this session may hold 1000")
    assert hold.refused == "QUOTA_EXCEEDED"


@says("under the acquire's when somebody else released it")
def test_a_release_by_others_is_a_loss():
    stage = Stage()
    hold = stage.hold()
    stage.hear(id=hold.id, released=wire.LeaseReleased(outcome=wire.RELEASE_OUTCOME_RELEASED))
    assert hold.lost == 1 and hold.lease.cause == "RELEASED"


@says("An id is free again when its command is answered, an acquire's when its lease has ended.")
def test_ids_are_never_used_twice():
    stage = Stage()
    seen = set()
    for _ in range(5):
        hold = stage.hold()
        for one in stage.release(hold):
            assert one.id not in seen
            seen.add(one.id)
        assert hold.id not in seen
        seen.add(hold.id)


@says("How long to wait. Unset: until granted. 0: one try, which never queues.")
def test_the_three_waits():
    stage = Stage()
    for wait in (None, 0, 2.5):
        stage.acquire("k", wait)
    sent = [one.acquire.locks[0] for one in stage.sent()]
    assert [one.HasField("max_wait") for one in sent] == [False, True, True]
    assert [one.max_wait.ToNanoseconds() for one in sent[1:]] == [0, 2_500_000_000]


@says("`max_wait` passed.")
def test_a_silent_broker_does_not_prolong_a_wait():
    stage = Stage()
    hold = stage.acquire(wait=1)
    stage.sent()
    stage.live(1.4)
    assert hold.answers == []
    stage.live(0.2)
    assert hold.refused == "WAIT_TIMEOUT"
    stage.grant(hold)
    assert not hold.held


def test_no_broker_at_all():
    stage = Stage(opened=False, unreachable_after=2)
    hold, bounded = stage.acquire(), stage.acquire(wait=1)
    stage.tick(1)
    assert bounded.refused == "UNREACHABLE" and hold.answers == []
    stage.tick(1)
    assert hold.refused == "UNREACHABLE" and "DISTLOCK_SERVER" in hold.answers[0].message


@says("By default one try looks for 1 s, a wait with an end for all of its time, one without for 10 s")
def test_for_how_long_a_broker_is_looked_for():
    stage = Stage(opened=False, unreachable_after=None)
    tries, bounded, hold = stage.acquire(wait=0), stage.acquire(wait=30), stage.acquire()
    stage.tick(0.9)
    assert not tries.answers
    stage.tick(0.1)
    assert tries.refused == "UNREACHABLE"
    stage.tick(9)
    assert hold.refused == "UNREACHABLE" and not bounded.answers
    stage.tick(20)
    assert bounded.refused == "UNREACHABLE"


@says("go to another broker")
def test_a_draining_broker_with_no_other_turns_waits_away_when_it_holds_nothing():
    stage = Stage()
    waits = stage.acquire(wait=20)
    stage.sent()
    stage.refuse(waits.id, "DRAINING")
    assert stage.names() == ["goodbye"] and waits.answers == []
    stage.breaks()
    assert stage.names(stage.start()) == ["open", "acquire"]


@says("It is the same lease with the same token; hold_count is one greater.")
def test_reentrant_holds_end_one_by_one():
    stage = Stage()
    one, two = (stage.hold("k", owner="me", reentrant=True) for _ in range(2))
    released = stage.release(one)
    assert [command.release.acquire_id for command in released] == [one.id]
    assert two.held and not one.held


def test_ten_thousand_locks():
    stage = Stage()
    holds = [stage.acquire(str(i)) for i in range(10_000)]
    while stage.sent():
        pass
    for hold in holds:
        stage.grant(hold)
    assert all(hold.held for hold in holds)
    stage.wait(1)
    stage.ack(stage.beat())
    stage.tick(2.5)
    assert all(hold.held for hold in holds)
    stage.tick(0.5)
    assert not any(hold.held for hold in holds) and not stage.table.live


def test_timeouts_leave_with_their_answers():
    stage = Stage()
    for number in range(1000):
        hold = stage.acquire(str(number), wait=3600)
        stage.sent()
        stage.grant(hold)
        stage.release(hold)
    assert not stage.table.live
    stage.live(2 * 3600, step=10)
    assert stage.table.ends_at == NEVER


def test_timeouts_come_in_their_order():
    stage = Stage()
    holds = [stage.acquire(str(number), wait=1 + number * 7919 % 1000) for number in range(1000)]
    while stage.sent():
        pass
    for hold in holds[100:]:
        stage.refuse(hold.id, "WAIT_TIMEOUT")
    told = []
    while len(told) < 100:
        stage.now = stage.table.ends_at
        stage.tick()
        told += [hold for hold in holds[:100] if hold.refused and hold not in told]
    assert told == sorted(holds[:100], key=lambda hold: hold.request.wait_until)


@says("and keeps the others, in their order.")
def test_what_may_not_be_sent_yet_makes_no_message():
    stage = Stage()
    stage.table.link.most_ahead = 1
    first, second = stage.acquire("a"), stage.acquire("b")
    assert [one.id for one in stage.sent()] == [first.id]
    assert stage.table.pack(stage.table.link, stage.now) is None and not stage.table.ready(stage.table.link)
    stage.hear(id=first.id, queued=wire.AcquireQueued())
    assert [one.id for one in stage.sent()] == [second.id]


@says("Without an answer, as when the stream breaks, its outcome is not known.")
def test_the_outcome_of_a_release_that_the_goodbye_overtook_is_not_known():
    stage = Stage()
    hold, told = stage.hold(), []
    stage.release(hold, told.append)
    stage.do("close")
    assert stage.names() == ["goodbye"]
    stage.breaks()
    assert told == [Outcome.UNKNOWN]
