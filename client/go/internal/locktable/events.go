// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"cmp"
	"slices"
	"time"

	pb "distlock.dev/client/go/distlockv1"
)

// OnEvent takes one event of a link's stream. Events that are not known are ignored.
func (t *Table) OnEvent(link *Link, event *pb.SessionEvent, now time.Duration, fx *Effects) {
	link.onEvent(event.Id)
	lease := t.live[event.Id]
	if lease != nil && lease.link != link {
		lease = nil // it is another session's
	}
	switch what := event.Event.(type) {
	case *pb.SessionEvent_Granted:
		t.onGranted(link, event.Id, what.Granted, now, fx)
	case *pb.SessionEvent_Released:
		// Under the acquire's own id: another program that knows the lease_id has released the lease.
		if !t.answer(event.Id, answer{outcome: what.Released.Outcome}, now, fx) && lease != nil {
			t.onGone(lease, CauseReleased, "released by its lease_id", fx)
		}
	case *pb.SessionEvent_HeartbeatAck:
		t.onAck(link, what.HeartbeatAck, now, fx)
	case *pb.SessionEvent_Refused:
		reason := nameOf(what.Refused.Reason.String(), "REFUSAL_REASON_")
		t.onRefused(link, event.Id, &Refusal{Reason: reason, Wire: what.Refused}, now, fx)
	case *pb.SessionEvent_Opened:
		t.onOpened(link, what.Opened, now, fx)
	case *pb.SessionEvent_Draining:
		link.drainedAt = now + span(what.Draining.TimeLeft)
		if t.config.Brokers == 1 || !link.adopts {
			tell(t.config.OnDraining, span(what.Draining.TimeLeft), fx)
		}
		t.drains(link, now)
	case *pb.SessionEvent_Downgraded, *pb.SessionEvent_Authenticated:
		t.answer(event.Id, answer{}, now, fx)
	}
	if lease == nil {
		return
	}
	switch what := event.Event.(type) {
	case *pb.SessionEvent_Lost:
		t.onLost(lease, what.Lost, now, fx)
	case *pb.SessionEvent_AtRisk:
		lease.risk = cmp.Or(what.AtRisk.Cause, "a renewal failed")
	case *pb.SessionEvent_Renewed:
		lease.risk = ""
	case *pb.SessionEvent_Queued:
		t.onQueued(lease, what.Queued, fx)
	}
}

func (t *Table) onOpened(link *Link, opened *pb.SessionOpened, now time.Duration, fx *Effects) {
	link.onEvent(0)
	link.Opened = true
	link.adopts = slices.Contains(opened.Features, "adopt")
	link.store = opened.StoreId
	link.Authenticates = slices.Contains(opened.Features, "authenticate")
	link.mostAhead = cmp.Or(max(int(opened.MaxUnanswered), 0), mostAhead)
	link.maxBytes = cmp.Or(max(int(opened.MaxMessageBytes), 0), messageBytes)
	link.validity = cmp.Or(span(opened.Validity), defaultValidity)
	link.interval = max(cmp.Or(span(opened.HeartbeatInterval), link.validity/3), leastPause)
	sent := link.session.lastSentAt()
	link.session.ack(0, sent+link.validity, now)
	if !link.leaving {
		link.heartbeatAt = sent + link.interval
		link.heartbeatDue = link.heartbeatDue || now-sent > link.validity/6
	}
	if link == t.Link() {
		t.sendMoves(now, fx)
	}
	for _, request := range t.waiting() {
		if request.link() == link && !request.turnedAway {
			request.stranded = Never
			t.schedule(request)
		}
	}
}

// onQueued: the present broker has the request, and so its place. The former session matters no more.
func (t *Table) onQueued(lease *Lease, queued *pb.AcquireQueued, fx *Effects) {
	request := lease.request
	for _, part := range request.Leases {
		if part.crossed && part == lease {
			t.giveUp(part.former, part.id)
		}
		if !part.crossed || part == lease {
			part.leaveFormer()
		}
	}
	request.stranded, request.turnedAway = Never, false
	t.schedule(request)
	tell(request.onQueued, queued, fx)
	request.onQueued = nil
}

func (t *Table) onGranted(link *Link, id int64, grant *pb.Grant, now time.Duration, fx *Effects) {
	lease := t.live[id]
	if lease != nil && lease.former == link { // it has gone to the next broker, which must have its place first
		lease.crossed = true
		return
	}
	if lease == nil || lease.link != link {
		if !t.answer(id, answer{grant: grant}, now, fx) && link != t.Link() {
			t.giveUp(link, id)
		}
		return // else: an id that was given up
	}
	if lease.Phase() != Waiting {
		return
	}
	lease.leaveFormer()
	lease.store = link.store
	lease.LeaseID, lease.HolderID, lease.Token = grant.LeaseId, grant.HolderId, grant.FencingToken
	lease.Waited, lease.HoldCount = span(grant.Waited), max(grant.HoldCount, 1)
	lease.deadline.Store(int64(link.session.deadlineOf(grant.EchoSeq, grant.ValidFor)))
	lease.phase.Store(int32(Granted))
	t.beatBeforeHalf(link, lease.Deadline(), now)
	t.deliver(lease.request, now, fx)
}

// deliver hands a request's locks to the program, when all are granted and none is past its deadline.
func (t *Table) deliver(request *Request, now time.Duration, fx *Effects) {
	for _, lease := range request.Leases {
		if lease.Phase() != Granted || now >= lease.Deadline() {
			return
		}
	}
	for _, lease := range request.Leases {
		lease.HeldAt = now
		lease.phase.Store(int32(Held))
		t.endsAt = min(t.endsAt, lease.Deadline())
	}
	tell(request.answer, nil, fx)
	request.answer = nil
}

// beatBeforeHalf sees that a heartbeat leaves before half of what is left until the deadline is gone.
func (t *Table) beatBeforeHalf(link *Link, deadline, now time.Duration) {
	switch {
	case link.leaving:
	case now < deadline:
		link.heartbeatAt = min(link.heartbeatAt, now+max((deadline-now)/2, leastPause))
	case link.session.unanswered() == 0 || now-link.session.lastSentAt() >= link.validity/6:
		link.heartbeatDue = true // else a recent one that is not answered yet is enough
	}
}

func (t *Table) onAck(link *Link, ack *pb.HeartbeatAck, now time.Duration, fx *Effects) {
	promised := link.session.deadlineOf(ack.Seq, ack.ValidFor)
	if !link.session.ack(ack.Seq, promised, now) {
		return
	}
	t.lastFailure = noFailure
	limits := make(map[int64]time.Duration, len(ack.Limits))
	for _, limit := range ack.Limits {
		limits[limit.AcquireId] = link.session.deadlineOf(ack.Seq, limit.ValidFor)
	}
	first := Never
	for _, lease := range t.live {
		if lease.link != link || lease.Phase() == Waiting || (lease.Phase() == Held && !t.Notice(lease, now, fx)) {
			continue // in the last case its deadline was final
		}
		deadline, limited := limits[lease.id]
		if !limited {
			deadline = max(lease.Deadline(), promised)
		}
		lease.deadline.Store(int64(deadline))
		if lease.Phase() == Granted {
			t.deliver(lease.request, now, fx)
		}
		if now < deadline { // what is over needs no further ack
			first = min(first, deadline)
		}
	}
	t.sweep(now, fx)
	if first != Never { // a lease with a short ttl needs its next ack before the interval is over
		t.beatBeforeHalf(link, first, now)
	}
}

// sweep ends the leases whose deadlines have passed, and gives up what has waited for too long.
func (t *Table) sweep(now time.Duration, fx *Effects) {
	t.endsAt = Never
	elsewhere := false
	for _, lease := range t.live {
		at := Never
		switch lease.Phase() {
		case Waiting:
			if at = t.givenUpAt(lease.request); now >= at {
				t.timeOut(lease.request, now, fx)
				continue
			}
		case Held:
			if !t.Notice(lease, now, fx) {
				continue
			}
			at = lease.Deadline()
			elsewhere = elsewhere || lease.link != t.Link()
		}
		t.endsAt = min(t.endsAt, at)
	}
	t.moving = t.moving && elsewhere
}

func (t *Table) onRefused(link *Link, id int64, refusal *Refusal, now time.Duration, fx *Effects) {
	lease := t.live[id]
	if lease == nil {
		t.answer(id, answer{refusal: refusal}, now, fx)
		return
	}
	if lease.former == link {
		lease.leaveFormer()
	}
	if lease.link != link || lease.Phase() == Held {
		return
	}
	if !refusal.is("DRAINING") || !t.turnAway(link, lease.request, refusal, now, fx) {
		t.refuse(lease.request, refusal, fx)
	}
}

// turnAway: the broker drains. It has the request ask another one. False: the refusal is the answer.
func (t *Table) turnAway(link *Link, request *Request, refusal *Refusal, now time.Duration, fx *Effects) bool {
	only := t.config.Brokers == 1
	if only && t.any(func(lease *Lease) bool { return lease.Phase() == Held && lease.link == link }) {
		return false
	}
	t.lastFailure, request.turnedAway = refusal, true
	t.strand(request, now)
	if only {
		t.leave(link)
		return true
	}
	t.drains(link, now)
	if link != t.Link() && t.Link().streaming {
		t.send(request, now, fx)
	}
	return true
}

// onGone: its session does not have the lease any more. A broker that adopted it may keep the lock after max_hold for a
// former promise, until its client says that belief has ended.
func (t *Table) onGone(lease *Lease, cause, message string, fx *Effects) {
	if lease.Phase() == Held {
		t.end(lease, cause, message, cause != "MAX_HOLD", nil, fx)
		return
	}
	lease.phase.Store(int32(Ended))
	t.withdraw(lease.request)
	t.refuse(lease.request, Refuse("LEASE_LOST", "lost before use: "+message), fx)
}

func (t *Table) onLost(lease *Lease, lost *pb.LeaseLost, now time.Duration, fx *Effects) {
	if lease.Phase() == Held && lost.Reason == pb.LostReason_LOST_REASON_MOVED && lease.moveKey != "" {
		lease.link = nil // by the move that is under way: no later ack of this session speaks for the lease
	} else if lease.Phase() == Held && lost.Reason == pb.LostReason_LOST_REASON_DRAINED && t.survives(lease, now) {
		t.orphan(lease, lost.Message)
	} else {
		t.onGone(lease, nameOf(lost.Reason.String(), "LOST_REASON_"), lost.Message, fx)
	}
}

// OnBroken is called when the stream of this link has ended, or must end. failure: its status; nil: no error.
func (t *Table) OnBroken(link *Link, cause, why string, failure *Refusal, now time.Duration, fx *Effects) {
	for _, lease := range t.ordered() {
		if t.adopter(lease) == link {
			delete(t.asked, lease.toID) // to be asked again
		}
		if lease.former == link {
			lease.leaveFormer()
		}
		if lease.link != link || lease.Phase() != Held {
			continue
		}
		if t.survives(lease, now) {
			t.orphan(lease, why)
		} else {
			t.end(lease, lease.causeNow(cause, now), why, true, nil, fx)
		}
	}
	t.lastFailure = cmp.Or(failure, t.lastFailure)
	for _, request := range t.waiting() {
		if request.link() == link || (request.link() == nil && link == t.Link()) {
			t.strand(request, now)
		}
		if request.link() == nil && failure != nil && failure.Permanent() {
			t.refuse(request, failure, fx)
		}
	}
	gone := answer{refusal: Refuse(Unreachable, why), broken: !link.leaving}
	*link = Link{}
	for id, asked := range t.asked {
		if asked.link == link {
			t.answer(id, gone, now, fx)
		}
	}
	t.moveOn(now)
}
