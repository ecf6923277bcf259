// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"slices"
	"time"

	pb "distlock.dev/client/go/distlockv1"
)

// OnEvent takes one event of a link's stream. Events that are not known are ignored.
func (t *Table) OnEvent(link *Link, event *pb.SessionEvent, now time.Duration, fx *Effects) {
	link.onEvent(event.Id)
	switch what := event.Event.(type) {
	case *pb.SessionEvent_Granted:
		t.onGranted(link, event.Id, what.Granted, now, fx)
	case *pb.SessionEvent_Released:
		t.onReleased(link, event.Id, outcomeOf(what.Released.Outcome), fx)
	case *pb.SessionEvent_HeartbeatAck:
		t.onAck(link, what.HeartbeatAck, now, fx)
	case *pb.SessionEvent_Refused:
		link.proofRefused = link.proofRefused || event.Id == link.proof
		t.onRefused(link, event.Id, refusalOf(what.Refused), now, fx)
	case *pb.SessionEvent_Lost:
		t.onLost(link, event.Id, what.Lost, now, fx)
	case *pb.SessionEvent_Opened:
		t.onOpened(link, what.Opened, now, fx)
	case *pb.SessionEvent_Draining:
		t.onDraining(link, span(what.Draining.TimeLeft), now)
	case *pb.SessionEvent_Downgraded:
		t.onDowngraded(event.Id, nil, now, fx)
	default:
		t.onNews(link, event, fx)
	}
}

func (t *Table) onNews(link *Link, event *pb.SessionEvent, fx *Effects) {
	lease := t.live[event.Id]
	if lease == nil || lease.link != link {
		return
	}
	switch what := event.Event.(type) {
	case *pb.SessionEvent_AtRisk:
		if lease.risk = what.AtRisk.Cause; lease.risk == "" {
			lease.risk = "a renewal failed"
		}
	case *pb.SessionEvent_Renewed:
		lease.risk = ""
	case *pb.SessionEvent_Queued:
		request := lease.request
		t.hasArrived(lease)
		request.stranded, request.turnedAway = Never, false
		t.schedule(request)
		if tell := request.onQueued; tell != nil {
			request.onQueued = nil
			*fx = append(*fx, func() { tell(what.Queued) })
		}
	}
}

func (t *Table) onOpened(link *Link, opened *pb.SessionOpened, now time.Duration, fx *Effects) {
	link.opened = true
	link.onEvent(0)
	link.adopts = slices.Contains(opened.Features, "adopt")
	link.authenticates = slices.Contains(opened.Features, "authenticate")
	if link.mostAhead = int(opened.MaxUnanswered); link.mostAhead <= 0 {
		link.mostAhead = mostAhead
	}
	if link.validity = span(opened.Validity); link.validity == 0 {
		link.validity = defaultValidity
	}
	if link.interval = span(opened.HeartbeatInterval); link.interval == 0 {
		link.interval = link.validity / 3
	}
	link.interval = max(link.interval, leastPause)
	sent := link.session.lastSentAt
	link.session.ack(0, link.validity, now)
	link.heartbeatAt = sent + link.interval
	if now-sent > link.validity/6 {
		link.heartbeatDue = true
	}
	t.wakeAt(min(link.heartbeatAt, link.session.deadline))
	if link.maxBytes = int(opened.MaxMessageBytes); link.maxBytes <= 0 {
		link.maxBytes = messageBytes
	}
	if link == t.Link() {
		t.sendMoves(now, fx)
	}
	for _, request := range t.waiting() {
		if request.link == link && !request.turnedAway && request.stranded != Never {
			request.stranded = Never
			t.schedule(request)
		}
	}
}

func (t *Table) onGranted(link *Link, id int64, grant *pb.Grant, now time.Duration, fx *Effects) {
	lease := t.live[id]
	if lease == nil {
		if !t.onAdopted(link, id, grant, now, fx) && link != t.Link() {
			t.grantByFormer(link, id, nil)
		}
		return // else: an id that was given up
	}
	if link != t.Link() && lease.link != link {
		t.grantByFormer(link, id, lease)
		return
	}
	if lease.link != link || lease.Phase() != Waiting {
		return
	}
	lease.former, lease.crossed = nil, false
	lease.LeaseID, lease.HolderID, lease.Token = grant.LeaseId, grant.HolderId, grant.FencingToken
	lease.Waited = span(grant.Waited)
	lease.HoldCount = max(grant.HoldCount, 1)
	lease.setDeadline(link.session.deadlineOf(grant.EchoSeq, span(grant.ValidFor)))
	lease.setPhase(Granted)
	t.beatBeforeHalf(link, lease.Deadline(), now)
	t.deliver(lease.request, now, fx)
}

// deliver hands a request's locks to the program, when all are granted and none is past its deadline.
func (t *Table) deliver(request *Request, now time.Duration, fx *Effects) {
	t.unschedule(request) // no answer is missing any more
	for _, lease := range request.Leases {
		if lease.Phase() != Granted || now >= lease.Deadline() {
			return
		}
	}
	for _, lease := range request.Leases {
		lease.HeldAt = now
		lease.setPhase(Held)
		t.leaseDeadline = min(t.leaseDeadline, lease.Deadline())
	}
	t.wakeAt(t.leaseDeadline)
	t.answer(request, nil, fx)
}

// beatBeforeHalf sees that a heartbeat leaves before half of what is left until the deadline is gone.
func (t *Table) beatBeforeHalf(link *Link, deadline, now time.Duration) {
	if link.leaving {
		return
	}
	if now < deadline {
		link.heartbeatAt = min(link.heartbeatAt, now+max((deadline-now)/2, leastPause))
		t.wakeAt(link.heartbeatAt)
		return
	}
	// A recent heartbeat that is not answered yet is enough.
	if link.session.unanswered() == 0 || now-link.session.lastSentAt >= link.validity/6 {
		link.heartbeatDue = true
	}
}

func (t *Table) onAck(link *Link, ack *pb.HeartbeatAck, now time.Duration, fx *Effects) {
	if !link.session.ack(ack.Seq, span(ack.ValidFor), now) {
		return
	}
	link.acked, t.lastFailure = true, nil
	var limits map[int64]time.Duration
	if len(ack.Limits) > 0 {
		limits = make(map[int64]time.Duration, len(ack.Limits))
		for _, limit := range ack.Limits {
			limits[limit.AcquireId] = span(limit.ValidFor)
		}
	}
	promised := link.session.deadlineOf(ack.Seq, span(ack.ValidFor))
	first := Never
	for _, lease := range t.live {
		if lease.link != link || lease.Phase() == Waiting {
			continue
		}
		if lease.Phase() == Held && !t.Notice(lease, now, fx) {
			continue // its deadline was final
		}
		if limit, limited := limits[lease.id]; limited {
			lease.setDeadline(link.session.deadlineOf(ack.Seq, limit))
		} else if promised > lease.Deadline() {
			lease.setDeadline(promised)
		}
		if lease.Phase() == Held {
			t.Notice(lease, now, fx)
		} else {
			t.deliver(lease.request, now, fx)
		}
		if lease.Phase() != Ended {
			first = min(first, lease.Deadline())
		}
	}
	t.sweep(now, fx)
	if first != Never { // a lease with a short ttl needs its next ack before the interval is over
		link.heartbeatAt = min(link.heartbeatAt, now+max((first-now)/2, leastPause))
		t.wakeAt(link.heartbeatAt)
	}
}

func (t *Table) onRefused(link *Link, id int64, refusal *Refusal, now time.Duration, fx *Effects) {
	lease := t.live[id]
	if lease == nil {
		if t.onNotAdopted(link, id, refusal, now, fx) || t.onDowngraded(id, refusal, now, fx) {
			return
		}
		outcome := pb.ReleaseOutcome_RELEASE_OUTCOME_UNSPECIFIED
		if refusal.is("NOT_HOLDER") {
			outcome = pb.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_GONE
		}
		t.onReleased(link, id, outcome, fx)
		return
	}
	if lease.former == link {
		lease.former, lease.crossed = nil, false
	}
	if lease.link != link || lease.Phase() == Held {
		return
	}
	if refusal.is("DRAINING") && t.turnAway(link, lease.request, refusal, now, fx) {
		return
	}
	t.refuse(lease.request, refusal, fx)
}

// turnAway: the broker drains. It has the request ask another one. False: the refusal is the answer.
func (t *Table) turnAway(link *Link, request *Request, refusal *Refusal, now time.Duration, fx *Effects) bool {
	only := t.config.Brokers == 1
	if only {
		for _, lease := range t.live {
			if lease.Phase() == Held && lease.link == link {
				return false
			}
		}
	}
	t.lastFailure = refusal
	request.turnedAway = true
	t.strand(request, now)
	if only {
		t.leave(link)
		return true
	}
	link.draining = true
	t.moveOn(now)
	if link != t.Link() && t.Link().streaming {
		t.send(request, now, fx)
	}
	return true
}

func (t *Table) onReleased(link *Link, id int64, outcome pb.ReleaseOutcome, fx *Effects) {
	answered := t.releases[id]
	if answered == nil {
		t.onReleasedByOthers(link, id, fx)
		return
	}
	delete(t.releases, id)
	if twin := t.releases[answered.twin]; twin != nil {
		if twin.tell == nil {
			twin.tell = answered.tell
		}
		twin.ofTwin, twin.heard = outcome, true
		return
	}
	const released, gone = pb.ReleaseOutcome_RELEASE_OUTCOME_RELEASED, pb.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_GONE
	// Only one of the sessions had the lease.
	if answered.heard && (answered.ofTwin == released || outcome == gone) {
		outcome = answered.ofTwin
	}
	if tell := answered.tell; tell != nil {
		*fx = append(*fx, func() { tell(outcome) })
	}
}

// onReleasedByOthers: under the acquire's own id. Another program that knows the lease_id has released the lease.
func (t *Table) onReleasedByOthers(link *Link, id int64, fx *Effects) {
	lease := t.live[id]
	if lease == nil || lease.link != link {
		return
	}
	switch lease.Phase() {
	case Held:
		lease.link = nil // this session has nothing to give back
		t.lose(lease, CauseReleased, "released by its lease_id", fx)
	case Granted:
		t.loseBeforeUse(lease, "released by its lease_id", fx)
	}
}

func (t *Table) onDowngraded(id int64, refusal *Refusal, now time.Duration, fx *Effects) bool {
	found := t.downgrades[id]
	if found == nil || found.link == nil {
		return false
	}
	delete(t.downgrades, id)
	for _, hold := range t.holdsOf(found.lease) {
		if refusal == nil {
			hold.downgraded = true
		} else {
			hold.modeUnsure = true
		}
	}
	*fx = append(*fx, func() { found.tell(refusal) })
	if t.moving {
		t.sendMoves(now, fx)
	}
	return true
}
