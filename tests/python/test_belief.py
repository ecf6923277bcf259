# SPDX-License-Identifier: Apache-2.0
"""Until when the client believes: "Belief" and "The stream" of session.md, with the clock in the test's hand."""
from contract import says
from distlock._clock import SECOND, WatchedClock
from stage import Stage


@says("end belief in everything when it has moved further than the monotonic clock by more than a second")
def test_a_jump_of_the_wall_clock_ends_all_belief():
    wall, monotonic = [0], [0]
    clock = WatchedClock(lambda: monotonic[0], lambda: wall[0])
    monotonic[0] = wall[0] = 5 * SECOND
    assert clock() == 5 * SECOND
    wall[0] += SECOND // 2  # somebody sets the clock a little
    assert clock() == 5 * SECOND
    wall[0] += 2 * SECOND  # a suspend
    assert clock() > 3600 * SECOND
    jumped = clock()
    monotonic[0] += SECOND
    wall[0] += SECOND
    assert clock() == jumped + SECOND


@says("when it sent heartbeat `echo_seq` of a grant, or `seq` of an ack, + `valid_for`; OpenSession is 0")
def test_a_grant_counts_from_its_heartbeat():
    stage = Stage()
    stage.live(10)
    seq = stage.beat()
    sent_at = stage.now
    stage.ack(seq)
    hold = stage.acquire()
    stage.sent()
    stage.wait(1)
    stage.grant(hold, valid_for=2.5, echo=seq)
    assert hold.lease.deadline == sent_at + 2.5 * SECOND


@says("A deadline that passed is final. No later message brings belief back.")
def test_an_ack_after_the_deadline_brings_nothing_back():
    stage = Stage()
    hold = stage.hold(valid_for=1)
    seq = stage.beat()
    stage.wait(1)
    stage.ack(seq)
    assert not hold.held and hold.lost == 1
    stage.ack(stage.beat())
    assert not hold.held and hold.lost == 1


@says("Tell the program that the lock is lost, and send `ReleaseLease{lapsed: true}`")
def test_a_lapsed_lease_is_released_as_lapsed():
    stage = Stage()
    hold = stage.hold(valid_for=1)
    commands = stage.tick(1)
    released = [one.release for one in commands if one.HasField("release")]
    assert [(one.acquire_id, one.lapsed) for one in released] == [(hold.id, True)]
    assert hold.lost == 1 and hold.lease.cause == "LAPSED"


@says("Look at the clock before you act")
def test_a_late_timer_does_not_matter():
    stage = Stage()
    hold = stage.hold(valid_for=2)
    stage.wait(2)
    assert stage.do("notice", hold.lease) is False and hold.lost == 1


@says("A deadline that passed is final. No later message brings belief back.")
def test_what_the_program_has_seen_is_final():
    """It looks at the clock without the table, on a thread of its own; what it says first counts."""
    stage = Stage()
    hold, other = stage.hold("k"), stage.hold("other")
    assert hold.lease.conclude("LAPSED") and not hold.lease.conclude("GIVEN_BACK")
    stage.ack(stage.beat())
    assert not hold.held and hold.lost == 1 and hold.lease.cause == "LAPSED" and other.held
    stage.lose(hold, "TAKEN")
    assert hold.lost == 1 and hold.lease.cause == "LAPSED"


@says("**Release** ends belief when it is sent.")
def test_a_release_that_is_on_its_way_to_the_table_is_no_loss():
    stage = Stage()
    hold, told = stage.hold(), []
    stage.table.leave_off(hold.lease, stage.now)
    stage.ack(stage.beat())
    assert stage.names() == [] and hold.lost == 0 and hold.lease.cause == "GIVEN_BACK"
    assert [one.release.lapsed for one in stage.release(hold, told.append)] == [False]
    assert hold.lost == 0 and not hold.held and not stage.table.live


@says("Remember the sending times of the last 64 heartbeats; an ack for another one extends nothing.")
def test_an_ack_for_a_forgotten_or_unknown_heartbeat_extends_nothing():
    stage = Stage()
    hold = stage.hold(valid_for=2)
    before = hold.lease.deadline
    for _ in range(70):
        stage.beat()
    for seq in (1, 6, 71, 1 << 40, -3):
        stage.ack(seq)
        assert hold.lease.deadline == before
    stage.ack(70)
    assert hold.lease.deadline == stage.now + 3 * SECOND


@says("Not each heartbeat is answered: the newest ack covers all older ones.")
def test_a_conflated_ack_covers_the_older_heartbeats():
    stage = Stage()
    hold = stage.hold(valid_for=3)
    first = stage.beat()
    stage.wait(1)
    second = stage.beat()
    at = stage.now
    stage.ack(second)
    assert hold.lease.deadline == at + 3 * SECOND
    stage.ack(first)  # late
    assert hold.lease.deadline == at + 3 * SECOND


@says("`heartbeat_ack` extends every lease whose `granted` stands before it on the stream, and limits those it names.")
def test_limits_count_also_when_they_are_shorter():
    stage = Stage()
    one, other = stage.hold("one", 3), stage.hold("other", 3)
    stage.wait(1)
    seq = stage.beat()
    at = stage.now
    stage.ack(seq, limits=[(one, 0.5)])
    assert one.lease.deadline == at + 0.5 * SECOND
    assert other.lease.deadline == at + 3 * SECOND


@says("0 = do not believe any more")
def test_a_limit_of_zero_ends_belief():
    stage = Stage()
    hold = stage.hold()
    stage.ack(stage.beat(), limits=[(hold, 0)])
    assert not hold.held and hold.lost == 1


@says("A `granted` behind an ack counts by its own `echo_seq`.")
def test_an_ack_does_not_extend_a_later_grant():
    stage = Stage()
    hold = stage.acquire()
    stage.sent()
    stage.wait(1)
    stage.ack(stage.beat())
    stage.grant(hold, valid_for=3, echo=0)
    assert hold.lease.deadline == stage.now + 2 * SECOND


@says("when OpenSession is older than a sixth of the validity")
def test_a_heartbeat_follows_a_slow_open_at_once():
    stage = Stage(opened=False)
    stage.start()
    stage.wait(0.6)
    stage.opened()
    assert stage.names() == ["heartbeat"]
    quick = Stage(opened=False)
    quick.start()
    quick.wait(0.1)
    quick.opened()
    assert quick.names() == []


@says("when half of what a grant or a limit leaves you is gone")
def test_a_short_grant_asks_for_a_heartbeat_in_time():
    stage = Stage()
    hold = stage.hold(ttl=1, valid_for=0.9)
    lives = stage.now + 5 * SECOND
    while stage.now < lives:
        for command in stage.tick(0.05):
            if command.HasField("heartbeat"):
                stage.ack(command.heartbeat.seq, limits=[(hold, 0.9)])
    assert hold.held


@says("when half of what a grant or a limit leaves you is gone")
def test_a_long_grant_asks_for_a_heartbeat_half_way():
    stage = Stage()
    stage.table.link.interval, stage.table.link.heartbeat_at = 100 * SECOND, 100 * SECOND + stage.now
    stage.hold(valid_for=2)
    assert stage.names(stage.tick(0.99)) == []
    assert stage.names(stage.tick(0.01)) == ["heartbeat"]


@says("Send one every `SessionOpened.heartbeat_interval`, counted from the sending of the last")
def test_heartbeats_come_in_the_interval():
    stage = Stage()
    assert stage.names(stage.tick(0.9)) == []
    assert stage.names(stage.tick(0.1)) == ["heartbeat"]
    assert stage.names(stage.tick(0.9)) == []
    assert stage.names(stage.tick(0.1)) == ["heartbeat"]


@says("the broker has given the session up, or will. Believe in nothing, end the stream.")
def test_silence_for_a_validity_ends_the_session():
    stage = Stage()
    hold = stage.hold()
    stage.live(2.9, answer=False)
    assert hold.held and not stage.table.link.lapsed(stage.now)
    stage.tick(0.1)
    assert stage.table.link.lapsed(stage.now)
    assert not hold.held


@says("A client without an answer for a whole validity must believe in nothing any more")
def test_a_late_ack_does_not_revive_the_session():
    stage = Stage()
    stage.wait(1)
    seq = stage.beat()
    stage.wait(2)  # the promise of this ack would go on for a second
    stage.ack(seq)
    assert stage.table.link.lapsed(stage.now)


@says("is not handed to the program. It is still held: send a heartbeat, and hand it out if the next ack makes "
      "it good.")
def test_a_late_grant_is_handed_out_after_the_next_ack():
    stage = Stage()
    hold = stage.acquire()
    stage.sent()
    seq = stage.beat()
    stage.ack(seq)
    stage.wait(1)
    stage.grant(hold, valid_for=1, echo=0)
    assert hold.answers == []
    assert stage.names() == ["heartbeat"]
    stage.ack(seq + 1)
    assert hold.granted and hold.held


@says("Subtract nothing.")
def test_the_deadline_is_the_promise():
    stage = Stage()
    hold = stage.hold(valid_for=2)
    stage.wait(1.999999)
    assert stage.do("notice", hold.lease)
    stage.wait(0.000001)
    assert not stage.do("notice", hold.lease)


@says("A renewal failed. The lease is still held, and the broker keeps trying.")
def test_at_risk_and_renewed():
    from distlock.v1 import lock_service_pb2 as wire
    stage = Stage()
    hold = stage.hold()
    stage.hear(id=hold.id, at_risk=wire.LeaseAtRisk(cause="the store is slow"))
    assert hold.held and hold.lease.risk == "the store is slow"
    stage.hear(id=hold.id, renewed=wire.LeaseRenewed())
    assert hold.held and hold.lease.risk is None
    stage.hear(id=hold.id, at_risk=wire.LeaseAtRisk(cause="the store is slow"))
    stage.ack(stage.beat(), limits=[(hold, 0.5)])
    stage.tick(0.5)
    assert hold.lease.cause == "EXPIRED" and "the store is slow" in hold.lease.message


@says("while a heartbeat is unanswered and half of what the lease had left when the heartbeat was sent is gone")
def test_a_silent_broker_puts_leases_at_risk_before_they_lapse():
    stage = Stage()
    hold = stage.hold()
    stage.tick(1)  # a heartbeat, which nobody answers
    assert not stage.at_risk(hold)
    stage.tick(0.999)
    assert not stage.at_risk(hold)
    stage.tick(0.001)
    assert hold.held and stage.at_risk(hold)
    stage.ack(stage.beat())
    assert hold.held and not stage.at_risk(hold)


@says("while a heartbeat is unanswered and half of what the lease had left when the heartbeat was sent is gone")
def test_the_heartbeats_of_a_short_lease_put_no_other_lease_at_risk():
    stage = Stage()
    other = stage.hold("other")
    hold = stage.hold("k", max_hold=0.1, valid_for=0.1)
    beats = 0
    while hold.held:  # heartbeats every few milliseconds, whose answers take longer
        beats += stage.names(stage.tick(0.005)).count("heartbeat")
        assert not stage.at_risk(other)
    assert beats >= 1


@says("while a heartbeat is unanswered and half of what the lease had left when the heartbeat was sent is gone")
def test_a_short_lease_is_at_risk_in_time():
    stage = Stage()
    hold, long = stage.hold("k", valid_for=1), stage.hold("long")
    stage.live(0.4, answer=False)
    assert not stage.at_risk(hold)
    stage.live(0.2, answer=False)
    assert hold.held and stage.at_risk(hold) and not stage.at_risk(long)
