// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"time"

	pb "distlock.dev/client/go/distlockv1"
)

func (t *Table) onLost(link *Link, id int64, lost *pb.LeaseLost, now time.Duration, fx *Effects) {
	lease := t.live[id]
	if lease == nil || lease.link != link {
		return
	}
	if lease.Phase() != Held {
		t.loseBeforeUse(lease, lost.Message, fx)
		return
	}
	if lost.Reason == pb.LostReason_LOST_REASON_MOVED && lease.move != nil {
		lease.link = nil // by the move that is under way: no later ack of this session speaks for the lease
		return
	}
	if lost.Reason == pb.LostReason_LOST_REASON_DRAINED && t.survives(lease, now) {
		t.orphan(lease, lost.Message)
		return
	}
	lease.link = nil // this session has nothing to give back
	t.lose(lease, nameOf(lost.Reason.String(), "LOST_REASON_"), lost.Message, fx)
}

func (t *Table) loseBeforeUse(lease *Lease, how string, fx *Effects) {
	lease.setPhase(Ended)
	for _, other := range lease.request.Leases {
		if other != lease && other.Phase() == Granted && other.link != nil {
			t.sendRelease(other.link, other.id, false)
		}
	}
	t.refuse(lease.request, Refuse("LEASE_LOST", "lost before use: "+how), fx)
}

// OnBroken is called when the stream of this link has ended, or must end.
func (t *Table) OnBroken(link *Link, cause, why string, now time.Duration, fx *Effects) {
	for _, one := range t.moves {
		if one.through == link {
			t.endMove(one) // to be asked again
		}
	}
	for _, lease := range t.ordered() {
		if lease.former == link {
			lease.former, lease.crossed = nil, false
		}
		if lease.link != link || lease.Phase() != Held {
			continue
		}
		if t.survives(lease, now) {
			t.orphan(lease, why)
			continue
		}
		lease.link = nil
		if now < lease.Deadline() {
			t.lose(lease, cause, why, fx)
		} else {
			t.lose(lease, CauseLapsed, why, fx)
		}
	}
	for _, request := range t.waiting() {
		if request.link == link || (request.link == nil && link == t.Link()) {
			t.strand(request, now)
		}
	}
	link.streaming, link.opened, link.draining, link.leaving = false, false, false, false
	link.heartbeatDue, link.goodbyeDue = false, false
	link.commands, link.mostBytes, link.cancels, link.ahead = nil, 0, nil, nil
	for id, pending := range t.releases {
		if pending.link == link {
			t.onReleased(link, id, pb.ReleaseOutcome_RELEASE_OUTCOME_UNSPECIFIED, fx)
		}
	}
	for id, pending := range t.downgrades {
		if pending.link == link {
			t.onDowngraded(id, Refuse(Unreachable, why), now, fx)
		}
	}
	t.moveOn(now)
}

// OnStatus tells why a stream broke.
func (t *Table) OnStatus(why *Refusal, fx *Effects) {
	t.lastFailure = why
	if !why.Permanent() {
		return
	}
	for _, request := range t.waiting() {
		if request.link == nil {
			t.refuse(request, why, fx)
		}
	}
}
