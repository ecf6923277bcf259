// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"fmt"
	"strings"
	"testing"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Requests and their answers: "The stream", "How a session ends" and "Messages" of session.md.

func TestWaitingRequestsLeaveWithTheOpening(t *testing.T) {
	says(t, "OpenSession first, within 10 s; other commands may follow at once")
	s := newStage(t, 1)
	s.acquire("k", Forever)
	s.expect(s.start(), "open acquire")
}

func TestIDsOfSeveralLocks(t *testing.T) {
	says(t, "An acquire of n locks uses the ids `id` .. `id + n - 1`, one for each lock.")
	s := opened(t)
	group, after := s.acquireAll("a", "b", "c"), s.acquire("d", Forever)
	sent := s.sent()
	s.expect(sent, "acquire acquire")
	for i, lease := range group.request.Leases {
		s.check(lease.id == sent[0].Id+int64(i), "id %d", i)
	}
	s.check(after.id() == sent[0].Id+3, "the next id")
}

func TestSeveralLocksAreAnsweredOnce(t *testing.T) {
	says(t, "all `granted` together, each with its own token, or all `refused` for the same reason.")
	s := opened(t)
	group := s.acquireAll("a", "b")
	s.sent()
	s.grantBy(s.table.Link(), group.id(), &pb.Grant{FencingToken: 1})
	s.check(len(group.answers) == 0, "not before all are granted")
	s.grantBy(s.table.Link(), group.id()+1, &pb.Grant{FencingToken: 2})
	s.check(group.granted() && group.request.Leases[1].Token == 2, "all are granted")
	other := s.acquireAll("a", "b")
	s.sent()
	s.refuse(other.id(), "LOCK_HELD")
	s.refuse(other.id()+1, "LOCK_HELD")
	s.check(other.refused() == "LOCK_HELD" && len(other.answers) == 1, "one answer")
}

func TestACancelThatCrossesAGrant(t *testing.T) {
	says(t, "`granted` may cross it: then CANCELLED follows, and nothing is held.")
	s := opened(t)
	h := s.acquire("k", Forever)
	s.sent()
	s.do(func(fx *Effects) { s.table.Cancel(h.request, fx) })
	s.check(s.only(s.sent(), "cancel").GetCancel().AcquireId == h.id(), "the cancel names it")
	s.grant(h, 3*second, 0)
	s.check(!h.held() && len(s.table.live) == 0, "nothing is held")
	s.refuse(h.id(), "CANCELLED")
	s.expect(s.sent(), "")
}

func TestAReleaseGoesBeforeTheNextAcquireOfTheLock(t *testing.T) {
	says(t, "Commands are carried out in order")
	s := opened(t)
	h := s.hold(key("k"), nil)
	s.do(func(fx *Effects) { s.table.Release(h.lease, nil, s.now, fx) })
	s.acquire("k", Forever)
	s.expect(s.sent(), "release acquire")
}

func TestClosingSaysGoodbye(t *testing.T) {
	says(t, "Half-closing the stream without it counts as a break.")
	s := opened(t)
	h, waits := s.hold(key("k"), nil), s.acquire("w", Forever)
	s.sent()
	s.do(func(fx *Effects) { s.table.Close(s.now, fx) })
	s.expect(s.sent(), "goodbye")
	s.check(s.table.Link().Said(), "that was the last command")
	s.check(h.lost == 1 && h.lease.Cause == CauseClientClosed && waits.refused() == ClientClosed, "all are told")
	s.check(s.acquire("k", Forever).refused() == ClientClosed, "nothing is taken any more")
}

func TestALossBeforeUseRefusesTheWholeAcquire(t *testing.T) {
	says(t, "When the lease is lost meanwhile, refuse the acquire with LEASE_LOST.")
	s := opened(t)
	h := s.acquireAll("a", "b", "c")
	s.sent()
	for i := range int64(2) {
		s.grantBy(s.table.Link(), h.id()+i, &pb.Grant{})
	}
	s.lose(h, "EXPIRED")
	s.check(h.refused() == "LEASE_LOST" && len(s.table.live) == 0, "it is refused")
	sent := s.sent()
	s.expect(sent, "cancel release")
	s.check(sent[0].GetCancel().AcquireId == h.id()+2 && sent[1].GetRelease().AcquireId == h.id()+1, "of the others")
}

func TestUnknownEventsAreIgnored(t *testing.T) {
	says(t, "Ignore an event that you do not know.")
	s := opened(t)
	h := s.hold(key("k"), nil)
	var unknown pb.SessionEvent
	if err := proto.Unmarshal([]byte("\x08\x05\xfa\x07\x02\x08\x01"), &unknown); err != nil { // field 127
		t.Fatal(err)
	}
	s.hearBy(s.table.Link(), &unknown)
	s.hearBy(s.table.Link(), &pb.SessionEvent{})
	s.check(h.held(), "the lock is held")
}

func TestUnknownValues(t *testing.T) {
	says(t, "Treat an unknown LostReason as a loss, an unknown RefusalReason as a refusal, an unknown ReleaseOutcome "+
		"as an outcome that is not known.")
	s := opened(t)
	lost, released, refused := s.hold(key("a"), nil), s.hold(key("c"), nil), s.acquire("b", Forever)
	s.hearBy(s.table.Link(), &pb.SessionEvent{Id: lost.id(), Event: &pb.SessionEvent_Lost{
		Lost: &pb.LeaseLost{Reason: 99}}})
	s.check(lost.lost == 1 && lost.lease.Cause == "UNKNOWN_99", "a loss: %s", lost.lease.Cause)
	s.hearBy(s.table.Link(), &pb.SessionEvent{Id: refused.id(), Event: &pb.SessionEvent_Refused{
		Refused: &pb.Refusal{Reason: 99}}})
	s.check(refused.refused() == "UNKNOWN_99", "a refusal: %s", refused.refused())
	var told []pb.ReleaseOutcome
	sent := s.release(released, func(outcome pb.ReleaseOutcome) { told = append(told, outcome) })
	s.released(s.table.Link(), s.only(sent, "release").Id, 99)
	s.check(len(told) == 1 && told[0] == pb.ReleaseOutcome_RELEASE_OUTCOME_UNSPECIFIED, "an unknown outcome")
}

func TestEachReasonOfALoss(t *testing.T) {
	says(t, "Lost, the end of the stream, or the last message of a call end belief at once.")
	for number, name := range pb.LostReason_name {
		if number == 0 {
			continue
		}
		reason := strings.TrimPrefix(name, "LOST_REASON_")
		s := opened(t)
		h := s.hold(key("k"), nil)
		s.lose(h, reason)
		s.check(h.lost == 1 && h.lease.Cause == reason, "%s: %s", reason, h.lease.Cause)
		s.lose(h, reason)
		s.check(h.lost == 1, "told once")
	}
}

func TestNothingBringsALostLeaseBack(t *testing.T) {
	says(t, "A lost lease never comes back.")
	s := opened(t)
	h := s.hold(key("k"), nil)
	s.lose(h, "FORCED")
	s.grant(h, 3*second, 0)
	s.ack(s.beat(), 3*second)
	s.check(!h.held(), "it stays lost")
}

func TestABreakLosesLeasesAndKeepsWaits(t *testing.T) {
	says(t, "all leases of the session are lost, except those that move.")
	s := opened(t)
	h, waits := s.hold(key("a"), nil), s.acquire("b", 30*second)
	s.sent()
	s.breaks(s.table.Link())
	s.check(h.lost == 1 && h.lease.Cause == CauseDisconnected && len(waits.answers) == 0, "as it should")
}

func TestWaitsGoOnWithWhatIsLeft(t *testing.T) {
	says(t, "Ask again for what was not granted yet")
	s := opened(t)
	waits, tries := s.acquire("b", 30*second), s.acquire("c", OneTry)
	waitsOf := func(commands []*pb.SessionCommand) (waits []time.Duration) {
		for _, command := range commands {
			if acquire := command.GetAcquire(); acquire != nil {
				waits = append(waits, acquire.Locks[0].MaxWait.AsDuration())
			}
		}
		return waits
	}
	first := waitsOf(s.sent())
	s.check(len(first) == 2 && first[0] == 30*second && first[1] == 0, "at first: %v", first)
	s.wait(2 * second)
	s.breaks(s.table.Link())
	again := waitsOf(s.start())
	s.check(len(again) == 2 && again[0] == 28*second && again[1] == 0, "then: %v", again)
	s.open()
	s.grant(waits, 3*second, 0)
	s.grant(tries, 3*second, 0)
	s.check(waits.granted() && tries.granted(), "both are granted")
}

func TestMessagesStayBelowTheLimit(t *testing.T) {
	says(t, "What does not fit goes into the next message.")
	s := newStage(t, 1)
	s.start()
	s.openWith(&pb.SessionOpened{MaxMessageBytes: 2000})
	for i := range 100 {
		s.acquire(fmt.Sprint(strings.Repeat("k", 100), i), Forever)
	}
	messages, commands := 0, 0
	for message := s.table.Link().Pack(s.now); message != nil; message = s.table.Link().Pack(s.now) {
		s.check(proto.Size(message) <= 2000, "%d bytes", proto.Size(message))
		messages++
		commands += len(message.Commands)
	}
	s.check(messages > 5 && commands == 100, "%d messages, %d commands", messages, commands)
}

func TestARequestThatNoMessageTakes(t *testing.T) {
	says(t, "and 64 KiB before that is known")
	keys := make([]string, 40)
	for i := range keys {
		keys[i] = fmt.Sprint(strings.Repeat("x", 2000), i)
	}
	s := newStage(t, 1)
	s.acquireAll(keys...)
	s.expect(s.start(), "open")
	s.openWith(&pb.SessionOpened{MaxMessageBytes: 1 << 20})
	s.expect(s.sent(), "acquire")
	s.breaks(s.table.Link())
	s.expect(s.start(), "open") // another broker may take less
	small := newStage(t, 1)
	group := small.acquireAll(keys...)
	small.start()
	small.open()
	small.check(group.refused() == "INVALID_ARGUMENT" && strings.Contains(group.answers[0].Wire.Message, "65536"),
		"it is refused")
}

func TestAReleaseByOthersIsALoss(t *testing.T) {
	says(t, "under the acquire's when somebody else released it")
	s := opened(t)
	h := s.hold(key("k"), nil)
	s.released(s.table.Link(), h.id(), pb.ReleaseOutcome_RELEASE_OUTCOME_RELEASED)
	s.check(h.lost == 1 && h.lease.Cause == CauseReleased, "it is a loss")
}

func TestIDsAreNeverUsedTwice(t *testing.T) {
	says(t, "An id is free again when its command is answered, an acquire's when its lease has ended.")
	s := opened(t)
	seen := map[int64]bool{}
	once := func(id int64) {
		s.check(!seen[id], "%d was used", id)
		seen[id] = true
	}
	for range 5 {
		h := s.hold(key("k"), nil)
		once(h.id())
		for _, command := range s.release(h, nil) {
			once(command.Id)
		}
	}
}

func TestTheThreeWaits(t *testing.T) {
	says(t, "How long to wait. Unset: until granted. 0: one try, which never queues.")
	s := opened(t)
	for _, wait := range []time.Duration{Forever, OneTry, 2500 * time.Millisecond} {
		s.acquire("k", wait)
	}
	sent := s.sent()
	of := func(i int) *durationpb.Duration { return sent[i].GetAcquire().Locks[0].MaxWait }
	s.check(of(0) == nil && of(1) != nil && of(1).AsDuration() == 0 && of(2).AsDuration() == 2500*time.Millisecond,
		"max_wait of each")
}

func TestASilentBrokerDoesNotProlongAWait(t *testing.T) {
	says(t, "`max_wait` passed.")
	s := opened(t)
	h := s.acquire("k", second)
	s.sent()
	s.live(1400*time.Millisecond, true)
	s.check(len(h.answers) == 0, "the broker may still answer")
	s.live(200*time.Millisecond, true)
	s.check(h.refused() == "WAIT_TIMEOUT", "it is over")
	s.grant(h, 3*second, 0)
	s.check(!h.held(), "a late grant is none")
}

func TestNoBrokerAtAll(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	h, bounded := s.acquire("k", Forever), s.acquire("k", second)
	s.tick(second)
	s.check(bounded.refused() == Unreachable && len(h.answers) == 0, "the bounded one first")
	s.tick(9 * second)
	s.check(h.refused() == Unreachable && strings.Contains(h.answers[0].Wire.Message, "DISTLOCK_SERVER"), "then all")
}

func TestAStatusThatCannotChangeRefusesAllThatWaits(t *testing.T) {
	says(t, "the client broke a rule of this page; do not reconnect in a loop")
	s := opened(t)
	h := s.acquire("k", Forever)
	s.sent()
	s.fails(s.table.Link(), Refuse("INVALID_ARGUMENT", "no"))
	s.check(h.refused() == "INVALID_ARGUMENT", "it is refused")
}

func TestADrainingBrokerWithNoOtherTurnsWaitsAwayWhenItHoldsNothing(t *testing.T) {
	says(t, "go to another broker")
	s := opened(t)
	waits := s.acquire("k", 20*second)
	s.sent()
	s.refuse(waits.id(), "DRAINING")
	s.expect(s.sent(), "goodbye")
	s.check(len(waits.answers) == 0, "it goes on waiting")
	s.breaks(s.table.Link())
	s.expect(s.start(), "open acquire")
}

func TestReentrantHoldsEndOneByOne(t *testing.T) {
	says(t, "It is the same lease with the same token; hold_count is one greater.")
	s := opened(t)
	spec := func() *pb.LockSpec { return &pb.LockSpec{Key: "k", Owner: "me", Reentrant: true} }
	one, two := s.hold(spec(), nil), s.hold(spec(), &pb.Grant{HoldCount: 2})
	sent := s.release(one, nil)
	s.expect(sent, "release")
	s.check(sent[0].GetRelease().AcquireId == one.id() && two.held() && !one.held(), "only one has ended")
	s.check(two.lease.HoldCount == 2, "its count")
}

func TestTimeoutsAreForgottenWithTheirAnswers(t *testing.T) {
	t.Parallel()
	s := opened(t)
	for i := range 1000 {
		h := s.acquire(fmt.Sprint(i), time.Duration(1000-i)*second)
		s.sent()
		s.grant(h, 3*second, 0)
	}
	s.tick(2 * second)
	s.check(len(s.table.live) == 1000 && s.table.endsAt == s.now+second, "only what is promised: %v", s.table.endsAt)
	s.tick(second)
	s.check(len(s.table.live) == 0 && s.table.endsAt == Never, "nothing is left: %v", s.table.endsAt)
}

func TestTenThousandLocks(t *testing.T) {
	t.Parallel()
	s := opened(t)
	holds := make([]*hold, 10_000)
	for i := range holds {
		holds[i] = s.acquire(fmt.Sprint(i), Forever)
	}
	for sent := s.sent(); sent != nil; sent = s.sent() {
		for _, command := range sent {
			s.grantBy(s.table.Link(), command.Id, &pb.Grant{})
		}
	}
	s.wait(second)
	s.ack(s.beat(), 3*second)
	s.tick(2500 * time.Millisecond)
	for _, h := range holds {
		s.check(h.held(), "all are held")
	}
	s.tick(second / 2)
	s.check(len(s.table.live) == 0, "all are lost")
}

func TestForHowLongABrokerIsLookedFor(t *testing.T) {
	says(t, "By default one try looks for 1 s, a wait with an end for all of its time, one without for 10 s")
	s := newStage(t, 1)
	s.table.config.UnreachableAfter = 0
	s.start()
	tries, bounded, hold := s.acquire("a", OneTry), s.acquire("b", 30*second), s.acquire("c", Forever)
	s.tick(900 * time.Millisecond)
	s.check(len(tries.answers) == 0, "one try was given up too early")
	s.tick(100 * time.Millisecond)
	s.check(tries.refused() == "UNREACHABLE", "one try: %v", tries.refused())
	s.tick(9 * second)
	s.check(hold.refused() == "UNREACHABLE" && len(bounded.answers) == 0, "after 10 s: %v", hold.refused())
	s.tick(20 * second)
	s.check(bounded.refused() == "UNREACHABLE", "after 30 s: %v", bounded.refused())
}
