// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"testing"
	"time"

	pb "distlock.dev/client/go/distlockv1"
)

// Leases that outlive their stream, and what is shown of a lease.

func TestResumeAfterABreak(t *testing.T) {
	says(t, "and the program wants the lease to outlive that: adopt it in the next session, wherever that is.")
	s := opened(t)
	h := s.hold(&pb.LockSpec{Key: "k", Resume: true}, &pb.Grant{LeaseId: "kept"})
	other := s.hold(key("other"), nil)
	s.breaks(s.table.Link())
	s.check(h.held() && h.lost == 0 && s.table.AtRisk(h.lease, s.now) && s.table.Moving(), "it is held, at risk")
	s.check(other.lost == 1 && other.lease.Cause == CauseDisconnected, "the other one is not")
	s.wait(second)
	s.start()
	s.open()
	adopt := s.only(s.sent(), "adopt")
	s.check(adopt.GetAdopt().LeaseId == "kept", "it is asked for")
	s.grantBy(s.table.Link(), adopt.Id, &pb.Grant{})
	s.check(h.held() && !s.table.AtRisk(h.lease, s.now), "it is safe")
}

func TestResumeHasNoEffectWithReleaseOnDisconnect(t *testing.T) {
	says(t, "Not with ON_DISCONNECT_RELEASE: that broker frees the lock at once.")
	s := opened(t)
	h := s.hold(&pb.LockSpec{Key: "k", Resume: true, OnDisconnect: pb.OnDisconnect_ON_DISCONNECT_RELEASE}, nil)
	s.breaks(s.table.Link())
	s.check(h.lost == 1, "it is lost")
}

func TestABrokerWithoutAdoptHasLeasesThatStay(t *testing.T) {
	says(t, "When to move, if the features of the broker that has the lease contain `adopt`, too")
	s := newStage(t, 1)
	s.start()
	s.open("permit")
	h := s.hold(&pb.LockSpec{Key: "k", Resume: true}, nil)
	s.breaks(s.table.Link())
	s.check(h.lost == 1, "it is lost")
}

func TestALeaseThatEndedBetweenTwoSessionsIsFreedByTheNext(t *testing.T) {
	says(t, "Do the same, with `lapsed`, for a lease that is lost meanwhile.")
	s := opened(t)
	h := s.hold(&pb.LockSpec{Key: "k", Resume: true}, nil)
	s.breaks(s.table.Link())
	s.tick(3 * second)
	s.check(h.lost == 1, "its promise is over")
	s.start()
	s.open()
	sent := s.sent()
	s.expect(sent, "adopt release")
	s.check(sent[1].GetRelease().AcquireId == sent[0].Id && sent[1].GetRelease().Lapsed, "it is freed")
}

func TestAReleaseWithoutAnAnswerIsRepeatedByTheNextSession(t *testing.T) {
	says(t, "Without an answer, as when the stream breaks, its outcome is not known.")
	s := opened(t)
	var told []pb.ReleaseOutcome
	h, done := s.hold(key("k"), &pb.Grant{LeaseId: "kept"}), s.hold(key("done"), nil)
	s.release(h, func(one pb.ReleaseOutcome) { told = append(told, one) })
	answered := s.only(s.release(done, nil), "release").Id
	s.released(s.table.Link(), answered, pb.ReleaseOutcome_RELEASE_OUTCOME_RELEASED)
	s.breaks(s.table.Link())
	s.check(len(told) == 1 && told[0] == 0 && s.table.Moving(), "it is told that this is not known")
	for range 2 { // also when the next session breaks as well
		s.start()
		s.open()
		sent := s.sent()
		s.expect(sent, "adopt release")
		s.check(sent[0].GetAdopt().LeaseId == "kept" && sent[1].GetRelease().AcquireId == sent[0].Id, "freed")
		s.breaks(s.table.Link())
	}
	s.start()
	s.open()
	sent := s.sent()
	s.refuse(sent[0].Id, "STORE_UNAVAILABLE")
	s.refuse(sent[1].Id, "NOT_HOLDER")
	s.expect(s.tick(99*time.Millisecond), "")
	sent = s.tick(time.Millisecond)
	s.expect(sent, "adopt release")
	s.refuse(sent[0].Id, "NOT_HOLDER")
	s.refuse(sent[1].Id, "NOT_HOLDER")
	s.breaks(s.table.Link())
	s.start()
	s.open()
	s.expect(s.sent(), "")
	s.check(len(told) == 1 && !s.table.Moving(), "nothing is left")
}

func TestABrokerWithoutAdoptIsToldTheLeaseID(t *testing.T) {
	says(t, "Without an answer, as when the stream breaks, its outcome is not known.")
	s := newStage(t, 1)
	s.start()
	s.open("permit")
	s.release(s.hold(key("k"), &pb.Grant{LeaseId: "kept"}), nil)
	s.breaks(s.table.Link())
	s.start()
	s.open("permit")
	s.check(s.only(s.sent(), "release").GetRelease().LeaseId == "kept", "it is freed")
}

func TestOfSeveralHoldsTheOthersMoveWhatIsLeft(t *testing.T) {
	says(t, "all holds move in one command.")
	s := opened(t)
	spec := func() *pb.LockSpec { return &pb.LockSpec{Key: "k", Owner: "me", Reentrant: true, Resume: true} }
	one, two := s.hold(spec(), nil), s.hold(spec(), &pb.Grant{HoldCount: 2})
	s.release(one, nil)
	s.breaks(s.table.Link())
	s.start()
	s.open()
	sent := s.sent()
	s.expect(sent, "adopt")
	s.check(sent[0].GetAdopt().HoldCount == 1 && two.held(), "the one that is left")
}

func proclaim(s *stage, h *hold, value string, told *[]*Refusal) []*pb.SessionCommand {
	s.do(func(fx *Effects) {
		s.table.Proclaim(h.lease, map[string]string{"v": value}, func(r *Refusal) { *told = append(*told, r) }, s.now, fx)
	})
	return s.tick(0)
}

func TestWhatIsShownOfALeaseChanges(t *testing.T) {
	says(t, "A session may adopt its own lease, unless it is reentrant, to change owner and metadata")
	s := opened(t)
	var told []*Refusal
	h := s.hold(key("k"), nil)
	asked := s.only(proclaim(s, h, "new", &told), "adopt")
	s.check(asked.GetAdopt().Lock.Metadata["v"] == "new" && len(told) == 0, "it is asked for")
	s.loseBy(s.table.Link(), h, "MOVED")
	s.check(h.held(), "that is no loss")
	s.grantBy(s.table.Link(), asked.Id, &pb.Grant{LeaseId: "second"})
	s.check(h.held() && len(told) == 1 && told[0] == nil && h.lease.LeaseID == "second", "it is shown")
	asked = s.only(proclaim(s, h, "refused", &told), "adopt")
	s.refuse(asked.Id, "INVALID_ARGUMENT")
	s.check(h.held() && len(told) == 2 && told[1].Reason == "INVALID_ARGUMENT", "a refusal loses nothing")
	reentrant := s.hold(&pb.LockSpec{Key: "r", Owner: "me", Reentrant: true}, nil)
	proclaim(s, reentrant, "x", &told)
	s.check(len(told) == 3 && told[2].Reason == "NOT_SUPPORTED", "not of a reentrant one")
	s.only(proclaim(s, h, "late", &told), "adopt")
	s.lose(h, "FORCED")
	s.check(len(told) == 4 && told[3].Reason == "NOT_HOLDER", "a lost one shows nothing any more")
}

func TestAReleaseDuringAChangeNamesTheLeaseByItsID(t *testing.T) {
	says(t, "When the former one's broker does not drain, name the lease_id there instead")
	s := opened(t)
	h := s.hold(key("k"), &pb.Grant{LeaseId: "before"})
	var told []*Refusal
	adopt := s.only(proclaim(s, h, "me", &told), "adopt")
	var outcomes []pb.ReleaseOutcome
	sent := s.release(h, func(one pb.ReleaseOutcome) { outcomes = append(outcomes, one) })
	s.expect(sent, "release release")
	former, next := sent[0].GetRelease(), sent[1].GetRelease()
	s.check(former.LeaseId == "before" && former.AcquireId == 0, "the session has another id for it by now: %v", former)
	s.check(next.AcquireId == adopt.Id && next.LeaseId == "" && !next.Lapsed && !former.Lapsed, "the adoption's: %v", next)
	s.check(!h.held() && len(told) == 1 && told[0].Reason == "NOT_HOLDER", "it has ended at once")
	link := s.table.Link()
	s.released(link, sent[0].Id, pb.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_GONE)
	s.released(link, sent[1].Id, pb.ReleaseOutcome_RELEASE_OUTCOME_RELEASED)
	s.check(len(outcomes) == 1 && outcomes[0] == pb.ReleaseOutcome_RELEASE_OUTCOME_RELEASED, "one outcome: %v", outcomes)
}
