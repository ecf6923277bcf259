// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/proto"
)

// leave says goodbye, so that the broker ends the stream in good order. Waiting requests go to the next stream.
func (t *Table) leave(link *Link) {
	link.leaving, link.goodbyeDue, link.heartbeatDue = true, true, false
	for _, request := range t.waiting() {
		if request.link != link {
			continue
		}
		request.link = nil
		for _, lease := range request.Leases {
			lease.setPhase(Waiting)
			lease.link = nil
		}
	}
}

// leaveWhenEmpty leaves a former broker that has nothing of this client any more.
func (t *Table) leaveWhenEmpty(link *Link) {
	if link == t.Link() || !link.usable() {
		return
	}
	for _, lease := range t.live {
		if lease.link == link || lease.former == link {
			return
		}
	}
	for _, one := range t.moves {
		if one.through == link {
			return
		}
	}
	for _, pending := range t.releases {
		if pending.link == link {
			return
		}
	}
	for _, pending := range t.downgrades {
		if pending.link == link {
			return
		}
	}
	t.leave(link)
}

// grantByFormer: a former session has granted what has gone to another one. That is never believed in. It is given back
// when the next broker has the place.
func (t *Table) grantByFormer(link *Link, id int64, lease *Lease) {
	if lease != nil && lease.former == link {
		lease.crossed = true
	} else if !link.leaving {
		t.sendRelease(link, id, false)
	}
}

// hasArrived: the present broker has the request, and so its place. The former session matters no more.
func (t *Table) hasArrived(lease *Lease) {
	for _, part := range lease.request.Leases {
		if part.former == nil || (part.crossed && part != lease) {
			continue
		}
		if part.crossed && !part.former.leaving {
			t.sendRelease(part.former, part.id, false)
		}
		part.former, part.crossed = nil, false
	}
}

// Proclaim changes what others see of a held lease: its session adopts it anew.
func (t *Table) Proclaim(lease *Lease, metadata map[string]string, tell func(*Refusal), now time.Duration,
	fx *Effects) {
	var problem *Refusal
	switch {
	case lease.Phase() != Held || (lease.link != nil && lease.link.leaving):
		problem = hasEnded()
	case lease.Spec.Reentrant:
		problem = Refuse("NOT_SUPPORTED", "the lock is reentrant: what is shown of its holds cannot change")
	case lease.stays || (lease.link != nil && !lease.link.adopts):
		problem = Refuse("NOT_SUPPORTED", "the broker is too old to change what is shown of a lock")
	}
	if problem != nil {
		*fx = append(*fx, func() { tell(problem) })
		return
	}
	spec := proto.Clone(lease.Spec).(*pb.LockSpec)
	if spec.Metadata == nil {
		spec.Metadata = map[string]string{}
	}
	for key, value := range metadata {
		spec.Metadata[key] = value
	}
	if lease.change == nil {
		lease.change = &change{}
	}
	lease.change.spec = spec
	lease.change.told = append(lease.change.told, tell)
	t.moveAt(now)
}

// sweep ends the leases whose deadlines have passed.
func (t *Table) sweep(now time.Duration, fx *Effects) {
	t.leaseDeadline = Never
	elsewhere := false
	for _, lease := range t.live {
		if lease.Phase() == Held && t.Notice(lease, now, fx) {
			t.leaseDeadline = min(t.leaseDeadline, lease.Deadline())
			elsewhere = elsewhere || lease.link != t.Link()
		}
	}
	t.moving = t.moving && elsewhere
	t.wakeAt(t.leaseDeadline)
}
