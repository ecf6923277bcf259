// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"testing"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Leases that move to another session: "Moving a lease" of session.md.

// drained holds a lock through a broker that drains; another one is known and has opened.
type drained struct {
	*stage
	lock   *hold
	former *Link
	asked  []*pb.SessionCommand
	adopt  *pb.SessionCommand // nil: none
}

func newDrained(t *testing.T, spec *pb.LockSpec, features ...string) *drained {
	t.Helper()
	s := newStage(t, 2)
	s.start()
	s.open()
	d := &drained{stage: s}
	d.lock = s.hold(spec, nil)
	d.former = s.table.Link()
	s.drain()
	s.check(s.table.Link() != d.former, "the other link is the present one")
	s.start()
	s.open(features...)
	d.asked = s.sent()
	for _, command := range d.asked {
		if command.GetAdopt() != nil {
			d.adopt = command
		}
	}
	return d
}

// arrives: the next session has the lock.
func (d *drained) arrives(validFor time.Duration) {
	d.grantBy(d.table.Link(), d.adopt.Id, &pb.Grant{LeaseId: "new", ValidFor: durationpb.New(validFor),
		EchoSeq: d.table.Link().session.lastSent})
}

func TestADrainMovesLeases(t *testing.T) {
	says(t, "open a session there, send all new acquires to it, adopt there what the former session holds, and say "+
		"Goodbye to the former one when it holds nothing. The program hears nothing.")
	d := newDrained(t, key("k"))
	adopt := d.adopt.GetAdopt()
	d.check(adopt.LeaseId == "secret" && adopt.Lock.Key == "k" && len(adopt.RequestId) >= 16, "what is adopted")
	d.expect(d.sentBy(d.former), "")
	d.arrives(3 * second)
	d.check(d.lock.held() && d.lock.lost == 0 && d.lock.lease.LeaseID == "new" && d.lock.lease.Token == 7, "it moved")
	d.expect(d.sentBy(d.former), "goodbye")
	other := d.acquire("other", Forever)
	d.expect(d.sent(), "acquire")
	d.check(other.lease.link == d.table.Link(), "new ones go to the next broker")
}

func TestBothSessionsBeatWhileLeasesMove(t *testing.T) {
	says(t, "Until then keep both sessions alive with heartbeats.")
	d := newDrained(t, key("k"))
	d.expect(d.tick(second), "heartbeat")
	d.expect(d.sentBy(d.former), "heartbeat")
}

// left waits through a broker that drains; another one is known and has opened.
type left struct {
	*stage
	waits        *hold
	former       *Link
	first, again *pb.SessionCommand
	said         []*pb.SessionCommand
}

func newLeft(t *testing.T) *left {
	t.Helper()
	s := newStage(t, 2)
	s.start()
	s.open()
	l := &left{stage: s, waits: s.acquire("k", 20*second)}
	l.first = s.sent()[0]
	l.former = s.table.Link()
	s.drain()
	l.said = s.sentBy(l.former)
	l.again = s.only(s.start(), "acquire")
	s.open()
	return l
}

func TestWaitersKeepTheirPlaces(t *testing.T) {
	says(t, "What waits at the former broker is sent to the next one, and keeps its place.")
	l := newLeft(t)
	id := l.first.GetAcquire().RequestId
	l.check(len(l.said) == 0 && l.again.GetAcquire().RequestId == id && len(id) >= 16, "the same request_id")
	l.refuseBy(l.former, l.waits.id(), "CANCELLED", "")
	l.grant(l.waits, 3*second, 0)
	l.check(l.waits.granted(), "granted by the next one")
	l.expect(l.sentBy(l.former), "goodbye")
}

func TestTheGoodbyeWaitsForTheNextBroker(t *testing.T) {
	says(t, "Say Goodbye to a former session only when all that waited there is answered by the next one, be it by "+
		"`queued`.")
	l := newLeft(t)
	l.expect(l.sentBy(l.former), "")
	l.queued(l.waits)
	l.expect(l.sentBy(l.former), "goodbye")
	l.check(len(l.waits.answers) == 0, "it waits")
}

func TestAGrantByTheFormerSessionGoesBackWhenTheNextOneHasThePlace(t *testing.T) {
	says(t, "**Never count a grant by the former session**, not even one that was sent before.")
	l := newLeft(t)
	l.grantBy(l.former, l.waits.id(), &pb.Grant{})
	l.check(len(l.waits.answers) == 0, "it does not count")
	l.expect(l.sentBy(l.former), "")
	l.queued(l.waits)
	l.expect(l.sentBy(l.former), "release goodbye")
	l.grant(l.waits, 3*second, 0)
	l.check(l.waits.granted(), "the next one's does")
}

func TestOneTryHasNoPlace(t *testing.T) {
	says(t, "One try has no place: send it without a `request_id`.")
	s := opened(t)
	s.acquire("k", OneTry)
	s.check(s.sent()[0].GetAcquire().RequestId == "", "none")
}

func TestABreakKeepsThePlace(t *testing.T) {
	says(t, "Ask again for what was not granted yet, under the same `request_id`s, at once.")
	s := opened(t)
	s.acquire("k", Forever)
	first := s.sent()[0].GetAcquire().RequestId
	s.breaks(s.table.Link())
	s.check(s.only(s.start(), "acquire").GetAcquire().RequestId == first && first != "", "the same")
}

func TestTheFormerPromiseCountsWhileALeaseMoves(t *testing.T) {
	says(t, "Only that session's acks extend it, and none after its stream has ended or it told LeaseLost(MOVED).")
	d := newDrained(t, key("k"))
	before := d.lock.lease.Deadline()
	d.wait(second)
	d.ack(d.beat(), 3*second)
	d.check(d.lock.lease.Deadline() == before, "the next session's acks do not count yet")
	d.ackBy(d.former, d.beatBy(d.former), 3*second)
	d.check(d.lock.lease.Deadline() == d.now+3*second, "the former one's do")
	d.wait(second)
	seq := d.beatBy(d.former)
	d.loseBy(d.former, d.lock, "MOVED")
	d.ackBy(d.former, seq, 3*second)
	d.check(d.lock.lease.Deadline() == d.now+2*second, "until it has told of the move")
}

func TestAnAdoptionThatComesTooLate(t *testing.T) {
	says(t, "When `granted` arrives after the former deadline, the lease is lost: tell the program, and release it in "+
		"the new session with `lapsed`.")
	d := newDrained(t, key("k"))
	d.wait(2 * second)
	d.beat() // the next session's promise goes on for two seconds more
	d.wait(second)
	d.arrives(3 * second)
	d.check(!d.lock.held() && d.lock.lost == 1, "it is lost")
	released := d.only(d.sent(), "release").GetRelease()
	d.check(released.AcquireId == d.adopt.Id && released.Lapsed, "it is released")
}

func TestTheNewSessionCountsAlsoWhenItPromisesLess(t *testing.T) {
	says(t, "Otherwise only the new session's anchors count from `granted` on, also when the new deadline is earlier.")
	d := newDrained(t, key("k"))
	seq := d.beatBy(d.former)
	d.arrives(second)
	d.check(d.lock.lease.Deadline() == d.now+second, "the new one")
	d.ackBy(d.former, seq, 3*second)
	d.check(d.lock.lease.Deadline() == d.now+second, "and only that")
}

func TestMovedIsNoLossWhenAskedFor(t *testing.T) {
	says(t, "LeaseLost(MOVED), of a lease whose adoption was asked for, is no loss.")
	d := newDrained(t, key("k"))
	d.loseBy(d.former, d.lock, "MOVED")
	d.check(d.lock.held() && d.lock.lost == 0, "it is held")
	d.arrives(3 * second)
	d.check(d.lock.held(), "and stays so")
}

func TestOtherLossesAreFinalWhileItMoves(t *testing.T) {
	says(t, "Every other LeaseLost is final.")
	for _, reason := range []string{"EXPIRED", "TAKEN", "FORCED", "MAX_HOLD"} {
		d := newDrained(t, key("k"))
		d.loseBy(d.former, d.lock, reason)
		d.check(d.lock.lease.Cause == reason && d.lock.lost == 1, reason)
		d.check(d.only(d.sent(), "release").GetRelease().AcquireId == d.adopt.Id, "given back where it may arrive")
	}
}

func TestTheEndOfTheFormerBroker(t *testing.T) {
	says(t, "Nor is LeaseLost(DRAINED), or the end of the former stream, as long as the former promise lasts; "+
		"but with ON_DISCONNECT_RELEASE both are.")
	for _, action := range []pb.OnDisconnect{pb.OnDisconnect_ON_DISCONNECT_SAFE, pb.OnDisconnect_ON_DISCONNECT_RELEASE} {
		for _, isBreak := range []bool{true, false} {
			d := newDrained(t, &pb.LockSpec{Key: "k", OnDisconnect: action})
			if isBreak {
				d.breaks(d.former)
			} else {
				d.loseBy(d.former, d.lock, "DRAINED")
			}
			survives := action == pb.OnDisconnect_ON_DISCONNECT_SAFE
			d.check(d.lock.held() == survives, "%v %v", action, isBreak)
			if survives {
				d.wait(second)
				d.arrives(3 * second)
				d.check(d.lock.held() && d.lock.lost == 0, "it has moved")
			}
		}
	}
}

func TestARepeatedAdoptionHasTheSameRequestID(t *testing.T) {
	says(t, "Repeat it until there is an answer, through whichever broker; a try whose answer was lost may have "+
		"succeeded.")
	d := newDrained(t, key("k"))
	first := d.adopt.GetAdopt().RequestId
	d.breaks(d.table.Link())
	d.start()
	d.open()
	d.adopt = d.only(d.sent(), "adopt")
	d.check(d.adopt.GetAdopt().RequestId == first, "the same")
	d.arrives(3 * second)
	d.check(d.lock.held(), "it has moved")
}

func TestTheNextMoveHasAnotherRequestID(t *testing.T) {
	says(t, "The next move of the lease takes another one.")
	d := newDrained(t, key("k"))
	first := d.adopt.GetAdopt().RequestId
	d.arrives(3 * second)
	d.sentBy(d.former)
	d.breaks(d.former)
	d.drain()
	d.start()
	d.open()
	again := d.only(d.sent(), "adopt").GetAdopt()
	d.check(again.LeaseId == "new" && again.RequestId != first, "another one")
}

func TestNotHolderMeansLost(t *testing.T) {
	says(t, "NOT_HOLDER means lost.")
	d := newDrained(t, key("k"))
	d.refuse(d.adopt.Id, "NOT_HOLDER")
	d.check(d.lock.lost == 1 && d.lock.lease.Cause == "TAKEN", "it is lost")
}

func TestALeaseThatCannotMoveStays(t *testing.T) {
	says(t, "NOT_SUPPORTED, INVALID_ARGUMENT and the like: the lease stays where it is")
	d := newDrained(t, key("k"))
	d.refuse(d.adopt.Id, "NOT_SUPPORTED")
	d.check(d.lock.held() && d.lock.lease.link == d.former, "it stays")
	d.check(len(d.draining) == 1 && d.draining[0] == 30*second, "the program is told: %v", d.draining)
	d.breaks(d.former)
	d.check(d.lock.lost == 1, "until that broker goes")
}

func TestOtherRefusalsAreRepeated(t *testing.T) {
	says(t, "Everything else: ask again after `retry_after`, or 100 ms, while the promise lasts.")
	d := newDrained(t, key("k"))
	d.refuse(d.adopt.Id, "STORE_UNAVAILABLE")
	d.expect(d.tick(99*time.Millisecond), "")
	d.expect(d.tick(time.Millisecond), "adopt")
}

func TestADowngradeDelaysTheMove(t *testing.T) {
	says(t, "SHARED once LeaseDowngraded has come. While a downgrade is not answered, do not adopt.")
	s := newStage(t, 2)
	s.start()
	s.open()
	h := s.hold(key("k"), nil)
	former, told := s.table.Link(), []*Refusal{}
	s.do(func(fx *Effects) { s.table.Downgrade(h.lease, func(r *Refusal) { told = append(told, r) }, fx) })
	id := s.only(s.sent(), "downgrade").Id
	s.drain()
	s.start()
	s.open()
	s.expect(s.sent(), "")
	s.hearBy(former, &pb.SessionEvent{Id: id, Event: &pb.SessionEvent_Downgraded{Downgraded: &pb.LeaseDowngraded{}}})
	s.check(len(told) == 1 && told[0] == nil, "the program is told")
	s.check(s.only(s.sent(), "adopt").GetAdopt().Lock.Mode == pb.LockMode_LOCK_MODE_SHARED, "SHARED is adopted")
}

func TestAnUnknownDowngradeTriesTheOtherMode(t *testing.T) {
	says(t, "When its outcome is not known, NOT_SUPPORTED means the other mode.")
	s := opened(t)
	h := s.hold(&pb.LockSpec{Key: "k", Resume: true}, nil)
	s.do(func(fx *Effects) { s.table.Downgrade(h.lease, func(*Refusal) {}, fx) })
	s.expect(s.sent(), "downgrade")
	s.breaks(s.table.Link())
	s.start()
	s.open()
	first := s.only(s.sent(), "adopt")
	s.check(first.GetAdopt().Lock.Mode != pb.LockMode_LOCK_MODE_SHARED, "as it was")
	s.refuse(first.Id, "NOT_SUPPORTED")
	again := s.only(s.tick(0), "adopt")
	s.check(again.GetAdopt().Lock.Mode == pb.LockMode_LOCK_MODE_SHARED, "the other mode")
}

// reentrant are three holds of one lock, through a broker that drains; another one has opened.
func reentrant(t *testing.T, before func(*stage, []*hold)) (s *stage, holds []*hold, adopt *pb.SessionCommand) {
	t.Helper()
	s = newStage(t, 2)
	s.start()
	s.open()
	for range 3 {
		holds = append(holds, s.hold(&pb.LockSpec{Key: "k", Owner: "me", Reentrant: true}, nil))
	}
	before(s, holds)
	s.drain()
	s.start()
	s.open()
	sent := s.sent()
	s.expect(sent, "adopt")
	s.check(sent[0].GetAdopt().HoldCount == 3, "of three holds")
	return s, holds, sent[0]
}

func TestReentrantHoldsMoveTogether(t *testing.T) {
	says(t, "all holds move in one command.")
	s, holds, adopt := reentrant(t, func(*stage, []*hold) {})
	for i, h := range holds {
		s.grantBy(s.table.Link(), adopt.Id+int64(i), &pb.Grant{})
		s.check(h.held() && h.lease.link == s.table.Link(), "hold %d has moved", i)
	}
}

func TestARefusalIsThatOfAllHolds(t *testing.T) {
	says(t, "all holds move in one command.")
	s, holds, adopt := reentrant(t, func(*stage, []*hold) {})
	s.refuse(adopt.Id, "NOT_HOLDER")
	for i, h := range holds {
		s.check(h.lost == 1 && h.lease.Cause == "TAKEN", "hold %d is lost", i)
	}
}

func TestADowngradeIsThatOfAllHolds(t *testing.T) {
	says(t, "SHARED once LeaseDowngraded has come.")
	_, _, adopt := reentrant(t, func(s *stage, holds []*hold) {
		s.do(func(fx *Effects) { s.table.Downgrade(holds[1].lease, func(*Refusal) {}, fx) })
		id := s.only(s.sent(), "downgrade").Id
		s.hearBy(s.table.Link(), &pb.SessionEvent{Id: id, Event: &pb.SessionEvent_Downgraded{
			Downgraded: &pb.LeaseDowngraded{}}})
		s.release(holds[1], nil)
		holds[1] = s.hold(&pb.LockSpec{Key: "k", Owner: "me", Reentrant: true}, nil)
	})
	if adopt.GetAdopt().Lock.Mode != pb.LockMode_LOCK_MODE_SHARED {
		t.Error("the others do not know of it")
	}
}

func TestAReentrantAcquireWaitsForTheMove(t *testing.T) {
	says(t, "An acquire of the same lock and owner waits until they have arrived: it would wait for itself otherwise.")
	spec := func() *pb.LockSpec { return &pb.LockSpec{Key: "k", Owner: "me", Reentrant: true} }
	d := newDrained(t, spec())
	again := d.ask(Forever, spec())
	d.expect(d.sent(), "")
	d.ask(Forever, &pb.LockSpec{Key: "k", Owner: "another", Reentrant: true})
	d.expect(d.sent(), "acquire")
	d.arrives(3 * second)
	d.expect(d.tick(0), "acquire")
	d.grant(again, 3*second, 0)
	d.check(again.held(), "it is granted")
}

func TestAReleaseDuringTheMoveGoesToBoth(t *testing.T) {
	says(t, "Send ReleaseLease in both sessions: by the adoption's id in the new one,"+
		" by the acquire's id in the former.")
	const released, gone = pb.ReleaseOutcome_RELEASE_OUTCOME_RELEASED, pb.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_GONE
	for _, outcomes := range [][2]pb.ReleaseOutcome{{released, gone}, {gone, released}} {
		d := newDrained(t, key("k"))
		var told []pb.ReleaseOutcome
		acquired := d.lock.id()
		there := d.only(d.release(d.lock, func(one pb.ReleaseOutcome) { told = append(told, one) }), "release")
		here := d.only(d.sentBy(d.former), "release")
		d.check(there.GetRelease().AcquireId == d.adopt.Id && here.GetRelease().AcquireId == acquired, "both")
		d.check(!d.lock.held(), "it has ended")
		d.released(d.former, here.Id, outcomes[0])
		d.check(len(told) == 0, "not before both have answered")
		d.released(d.table.Link(), there.Id, outcomes[1])
		d.check(len(told) == 1 && told[0] == released, "one of them had it")
	}
}
