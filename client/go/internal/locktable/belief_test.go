// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"math"
	"testing"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Until when the client believes: "Belief" and "The stream" of session.md.

func TestAGrantCountsFromItsHeartbeat(t *testing.T) {
	says(t, "when it sent heartbeat `echo_seq` of a grant, or `seq` of an ack, + `valid_for`; OpenSession is 0")
	s := opened(t)
	s.live(10*second, true)
	seq, sentAt := s.beat(), s.now
	s.ack(seq, 3*second)
	h := s.acquire("k", Forever)
	s.sent()
	s.wait(second)
	s.grant(h, 2500*time.Millisecond, seq)
	s.check(h.lease.Deadline() == sentAt+2500*time.Millisecond, "the deadline counts from the heartbeat")
}

func TestAnAckAfterTheDeadlineBringsNothingBack(t *testing.T) {
	says(t, "A deadline that passed is final. No later message brings belief back.")
	s := opened(t)
	h := s.hold(key("k"), validFor(second))
	seq := s.beat()
	s.wait(second)
	s.ack(seq, 3*second)
	s.check(!h.held() && h.lost == 1, "the lock is lost, and the program was told once")
	s.ack(s.beat(), 3*second)
	s.check(!h.held() && h.lost == 1, "it stays lost")
}

func TestALapsedLeaseIsReleasedAsLapsed(t *testing.T) {
	says(t, "Tell the program that the lock is lost, and send `ReleaseLease{lapsed: true}`")
	s := opened(t)
	h := s.hold(key("k"), validFor(second))
	released := s.only(s.tick(second), "release").GetRelease()
	s.check(released.AcquireId == h.id() && released.Lapsed, "it is released as lapsed")
	s.check(h.lost == 1 && h.lease.Cause == CauseLapsed, "the program was told")
}

func TestALateTimerDoesNotMatter(t *testing.T) {
	says(t, "Look at the clock before you act")
	s := opened(t)
	h := s.hold(key("k"), validFor(2*second))
	s.wait(2*second - 1)
	s.check(s.notice(h), "held until the deadline")
	s.wait(1)
	s.check(!s.notice(h) && h.lost == 1, "and not at it")
}

func TestAnAckForAForgottenOrUnknownHeartbeatExtendsNothing(t *testing.T) {
	says(t, "Remember the sending times of the last 64 heartbeats; an ack for another one extends nothing.")
	s := opened(t)
	h := s.hold(key("k"), validFor(2*second))
	before := h.lease.Deadline()
	for range 70 {
		s.beat()
	}
	for _, seq := range []int64{1, 6, 71, 1 << 40, -3, math.MinInt64} {
		s.ack(seq, 3*second)
		s.check(h.lease.Deadline() == before, "heartbeat %d extends nothing", seq)
	}
	s.ack(7, 2*second)
	s.check(h.lease.Deadline() == s.now+2*second, "heartbeat 7 is remembered")
}

func TestAConflatedAckCoversTheOlderHeartbeats(t *testing.T) {
	says(t, "Not each heartbeat is answered: the newest ack covers all older ones.")
	s := opened(t)
	h := s.hold(key("k"), nil)
	first := s.beat()
	s.wait(second)
	second2, at := s.beat(), s.now
	s.ack(second2, 3*second)
	s.check(h.lease.Deadline() == at+3*second, "the newest counts")
	s.ack(first, 60*second) // late
	s.check(h.lease.Deadline() == at+3*second, "an older one does not count any more")
}

func TestLimitsCountAlsoWhenTheyAreShorter(t *testing.T) {
	says(t, "`heartbeat_ack` extends every lease whose `granted` stands before it on the stream, and limits "+
		"those it names.")
	s := opened(t)
	one, other := s.hold(key("one"), nil), s.hold(key("other"), nil)
	s.wait(second)
	seq, at := s.beat(), s.now
	s.ack(seq, 3*second, limit(one, second/2))
	s.check(one.lease.Deadline() == at+second/2, "the limited one")
	s.check(other.lease.Deadline() == at+3*second, "the other one")
}

func TestALimitOfZeroEndsBelief(t *testing.T) {
	says(t, "0 = do not believe any more")
	s := opened(t)
	h := s.hold(key("k"), nil)
	s.ack(s.beat(), 3*second, limit(h, 0))
	s.check(!h.held() && h.lost == 1, "the lock is lost")
}

func TestAnAckDoesNotExtendALaterGrant(t *testing.T) {
	says(t, "A `granted` behind an ack counts by its own `echo_seq`.")
	s := opened(t)
	h := s.acquire("k", Forever)
	s.sent()
	s.wait(second)
	s.ack(s.beat(), 3*second)
	s.grant(h, 3*second, 0)
	s.check(h.lease.Deadline() == s.now+2*second, "it counts from OpenSession")
}

func TestAHeartbeatFollowsASlowOpeningAtOnce(t *testing.T) {
	says(t, "when OpenSession is older than a sixth of the validity")
	s := newStage(t, 1)
	s.start()
	s.wait(600 * time.Millisecond)
	s.open()
	s.expect(s.sent(), "heartbeat")
	quick := newStage(t, 1)
	quick.start()
	quick.wait(100 * time.Millisecond)
	quick.open()
	quick.expect(quick.sent(), "")
}

func TestALeaseWithAShortTTLIsKept(t *testing.T) {
	says(t, "when half of what a grant or a limit leaves you is gone")
	s := opened(t)
	h := s.hold(key("k"), validFor(900*time.Millisecond))
	s.live(5*second, true, limit(h, 900*time.Millisecond))
	s.check(h.held(), "the lock is held")
}

func TestHeartbeatsComeInTheInterval(t *testing.T) {
	says(t, "Send one every `SessionOpened.heartbeat_interval`, counted from the sending of the last")
	s := opened(t)
	for range 3 {
		s.expect(s.tick(second-1), "")
		s.expect(s.tick(1), "heartbeat")
		s.ack(s.table.Link().session.lastSent, 3*second)
	}
}

func TestSilenceForAValidityEndsTheSession(t *testing.T) {
	says(t, "the broker has given the session up, or will. Believe in nothing, end the stream.")
	s := opened(t)
	h := s.hold(key("k"), nil)
	s.live(3*second-1, false)
	s.check(h.held() && !s.table.Link().Lapsed(s.now), "not yet")
	s.tick(1)
	s.check(!h.held() && s.table.Link().Lapsed(s.now), "now")
}

func TestALateAckDoesNotReviveTheSession(t *testing.T) {
	says(t, "A client without an answer for a whole validity must believe in nothing any more")
	s := opened(t)
	s.wait(second)
	seq := s.beat()
	s.wait(2 * second) // the promise of this ack would go on for a second
	s.ack(seq, 3*second)
	s.check(s.table.Link().Lapsed(s.now), "the session has lapsed")
}

func TestALateGrantIsHandedOutAfterTheNextAck(t *testing.T) {
	says(t, "is not handed to the program. It is still held: send a heartbeat, and hand it out if the next ack "+
		"makes it good.")
	s := opened(t)
	h := s.acquire("k", Forever)
	s.sent()
	seq := s.beat()
	s.ack(seq, 3*second)
	s.wait(second)
	s.grant(h, second, 0)
	s.check(len(h.answers) == 0, "it is not handed out")
	s.expect(s.sent(), "heartbeat")
	s.ack(seq+1, 3*second)
	s.check(h.granted() && h.held(), "it is handed out")
}

func TestALateGrantIsGivenBackWhenItsCallerHasGone(t *testing.T) {
	says(t, "It is still held")
	s := opened(t)
	h := s.acquire("k", Forever)
	s.sent()
	s.wait(second)
	s.grant(h, second, 0)
	s.do(func(fx *Effects) { s.table.Cancel(h.request, fx) })
	released := s.only(s.sent(), "release").GetRelease()
	s.check(released.AcquireId == h.id() && h.refused() == "CANCELLED", "it is given back")
}

func TestAtRiskAndRenewed(t *testing.T) {
	says(t, "A renewal failed. The lease is still held, and the broker keeps trying.")
	s := opened(t)
	h := s.hold(key("k"), nil)
	risk := &pb.SessionEvent{Id: h.id(), Event: &pb.SessionEvent_AtRisk{AtRisk: &pb.LeaseAtRisk{Cause: "slow"}}}
	s.hearBy(s.table.Link(), risk)
	s.check(h.held() && s.table.AtRisk(h.lease, s.now), "it is at risk")
	s.hearBy(s.table.Link(), &pb.SessionEvent{Id: h.id(), Event: &pb.SessionEvent_Renewed{Renewed: &pb.LeaseRenewed{}}})
	s.check(h.held() && !s.table.AtRisk(h.lease, s.now), "it is safe again")
	s.hearBy(s.table.Link(), risk)
	s.ack(s.beat(), 3*second, limit(h, second/2))
	s.tick(second / 2)
	s.check(h.lease.Cause == "EXPIRED", "the cause is %s", h.lease.Cause)
}

func TestPromisesBeyondAllBoundsAreCut(t *testing.T) {
	t.Parallel()
	s := opened(t)
	h := s.acquire("k", Forever)
	s.sent()
	s.grantBy(s.table.Link(), h.id(), &pb.Grant{ValidFor: &durationpb.Duration{Seconds: math.MaxInt64}})
	s.check(h.held() && h.lease.Deadline() > s.now, "the sum of two times does not turn round")
	other := s.acquire("o", Forever)
	s.sent()
	s.grantBy(s.table.Link(), other.id(), &pb.Grant{ValidFor: durationpb.New(-second)})
	s.check(!other.held(), "a promise below zero is none")
}

func TestASilentBrokerPutsLeasesAtRiskBeforeTheyLapse(t *testing.T) {
	says(t, "while a heartbeat is unanswered and half of what the lease had left when the heartbeat was sent is gone")
	s := opened(t)
	h, short := s.hold(key("k"), nil), s.hold(key("short"), validFor(1500*time.Millisecond))
	s.tick(second) // a heartbeat, which nobody answers
	s.check(!s.table.AtRisk(h.lease, s.now) && !s.table.AtRisk(short.lease, s.now), "it was sent just now")
	s.wait(second / 4)
	s.check(!s.table.AtRisk(h.lease, s.now) && s.table.AtRisk(short.lease, s.now), "half of what the short one had")
	s.wait(second * 3 / 4)
	s.check(h.held() && s.table.AtRisk(h.lease, s.now), "half of what the long one had")
	s.ack(s.beat(), 3*second)
	s.check(h.held() && !s.table.AtRisk(h.lease, s.now), "answered")
}
