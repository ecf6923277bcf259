// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"fmt"
	"testing"

	pb "distlock.dev/client/go/distlockv1"
)

// limited is a stage whose broker takes so many commands ahead.
func limited(t *testing.T, most int32) *stage {
	t.Helper()
	s := newStage(t, 1)
	s.start()
	s.openWith(&pb.SessionOpened{MaxUnanswered: most})
	return s
}

func (s *stage) cancel(h *hold) {
	s.do(func(fx *Effects) { s.table.Cancel(h.request, fx) })
}

func TestCommandsAheadAreBounded(t *testing.T) {
	says(t, "The client sends at most `SessionOpened.max_unanswered` ahead")
	s := limited(t, 2)
	a, b := s.acquire("a", Forever), s.acquire("b", Forever)
	c, d := s.acquire("c", Forever), s.acquire("d", Forever)
	s.expect(s.sent(), "acquire acquire")
	s.check(!s.table.Ready(s.table.Link()), "the others wait")
	s.queued(a)
	s.check(s.only(s.sent(), "acquire").Id == c.id(), "the next one")
	s.grant(a, 3*second, 0)
	s.expect(s.sent(), "")
	s.refuse(b.id(), "LOCK_HELD")
	s.check(s.only(s.sent(), "acquire").Id == d.id(), "the last one")
}

func TestTheLimitBeforeTheBrokerHasToldIt(t *testing.T) {
	says(t, "(256 before that is known, or when it is 0)")
	s := newStage(t, 1)
	for i := range 600 {
		s.acquire(fmt.Sprint(i), Forever)
	}
	sent := s.start()
	s.check(len(sent) == 256 && kind(sent[0]) == "open", "%d with the opening", len(sent))
	s.open()
	s.check(len(s.sent()) == 1, "the opening is answered")
	s.breaks(s.table.Link())
	s.check(len(s.start()) == 256, "a new session starts from none")
}

func TestWhatDoesNotWait(t *testing.T) {
	says(t, "Heartbeats do not count, and go first; a Cancel never goes before its acquire.")
	s := limited(t, 1)
	sent, waits, last := s.acquire("a", Forever), s.acquire("b", Forever), s.acquire("c", Forever)
	s.expect(s.sent(), "acquire")
	s.table.Link().heartbeatDue = true
	s.cancel(waits)
	s.check(waits.refused() == "CANCELLED", "what was not sent is only dropped")
	s.cancel(sent)
	s.expect(s.sent(), "heartbeat cancel")
	s.do(func(fx *Effects) { s.table.Close(s.now, fx) })
	s.check(!s.table.Link().Said(), "the goodbye is to come")
	s.expect(s.sent(), "goodbye")
	s.check(s.table.Link().Said() && last.refused() == ClientClosed, "nothing follows it")
}

func TestACommandOfSeveralLocksWaitsForItsFirstEvent(t *testing.T) {
	says(t, "A command is unanswered until its first event has come, `queued` included.")
	s := limited(t, 1)
	group, after := s.acquireAll("a", "b", "c"), s.acquire("d", Forever)
	s.expect(s.sent(), "acquire")
	s.grantBy(s.table.Link(), group.id()+1, &pb.Grant{})
	s.check(s.only(s.sent(), "acquire").Id == after.id(), "the next one")
	s.grantBy(s.table.Link(), group.id(), &pb.Grant{})
	s.acquire("e", Forever)
	s.expect(s.sent(), "")
}

func TestWhatWasNotSentMovesWithoutAPlace(t *testing.T) {
	says(t, "and keeps the others, in their order.")
	s := newStage(t, 2)
	s.start()
	s.openWith(&pb.SessionOpened{MaxUnanswered: 1})
	sent, waits := s.acquire("a", Forever), s.acquire("b", Forever)
	former := s.table.Link()
	s.expect(s.sentBy(former), "acquire")
	s.drain()
	s.check(sent.lease.former == former && waits.lease.former == nil, "only one has a place there")
	s.refuseBy(former, sent.id(), "DRAINING", "")
	s.expect(s.sentBy(former), "goodbye")
	s.expect(s.start(), "open acquire acquire")
}

func TestAnotherTokenIsShownToABrokerThatTakesIt(t *testing.T) {
	says(t, "When the new proof is refused, the old one stays, and so do the session and its leases.")
	s := newStage(t, 1)
	s.start()
	s.open("adopt", "authenticate")
	h := s.hold(key("k"), nil)
	refusals := 0
	for range 2 {
		s.table.Authenticate(s.table.Link(), "Bearer two", func() { refusals++ })
	}
	sent := s.sent()
	s.expect(sent, "authenticate authenticate")
	s.check(sent[0].GetAuthenticate().Authorization == "Bearer two" && sent[0].Id != sent[1].Id, "as it was given")
	s.hearBy(s.table.Link(), &pb.SessionEvent{Id: sent[0].Id, Event: &pb.SessionEvent_Authenticated{
		Authenticated: &pb.Authenticated{Identity: "me"}}})
	s.refuse(sent[1].Id, "PERMISSION_DENIED")
	s.check(h.held() && len(s.table.Link().ahead) == 0 && refusals == 1, "the lock is held")
	s.breaks(s.table.Link())
	s.start()
	s.open("adopt")
	s.table.Authenticate(s.table.Link(), "Bearer two", nil)
	s.expect(s.sent(), "")
}
