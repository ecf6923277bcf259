// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/proto"
)

// Leases that move to another session: "Moving a lease" in session.md.

const (
	retryPause        = 100 * time.Millisecond
	longestRetryPause = 500 * time.Millisecond
)

func (t *Table) onDraining(link *Link, timeLeft, now time.Duration) {
	link.draining = true
	link.drainedAt = now + timeLeft
	if t.config.Brokers == 1 || !link.adopts {
		t.cannotFollow(timeLeft)
	}
	t.moveOn(now)
}

// moveOn leaves the present broker, if it drains: the other link becomes the present one. While that still has a stream
// of its own, of a broker that drains as well, this waits for its end.
func (t *Table) moveOn(now time.Duration) {
	old, other := t.Link(), t.links[1-t.now]
	if t.config.Brokers == 1 || t.closed || !old.streaming || !old.draining || other.streaming {
		return
	}
	t.now = 1 - t.now
	t.moving = true
	t.wakeAt(0)
	for _, request := range t.waiting() {
		if request.link != old {
			continue
		}
		switch {
		case old.drop(request.first()): // that broker has not heard of it
		case request.requestID != "": // the next broker takes over its place
			for _, lease := range request.Leases {
				lease.former, lease.crossed = old, lease.Phase() == Granted
			}
		default:
			t.withdraw(request)
		}
		t.strand(request, now)
	}
}

// sendMoves asks the present session to adopt all that it does not hold.
func (t *Table) sendMoves(now time.Duration, fx *Effects) {
	t.movesAt, t.moving = Never, false
	link := t.Link()
	ready := link.opened && !link.leaving && !link.draining
	type name struct {
		token          int64
		namespace, key string
	}
	reentrant := map[name]*move{}
	var moves []*move
	for _, lease := range t.ordered() {
		if lease.Phase() != Held || (lease.link == link && lease.change == nil) {
			continue
		}
		t.moving = t.moving || lease.link != link
		if !ready || !t.mayMove(lease) {
			continue
		}
		if !link.adopts {
			t.stay(lease, now)
			continue
		}
		of := name{lease.Token, lease.Spec.Namespace, lease.Spec.Key}
		found := reentrant[of]
		if found == nil {
			if found = lease.move; found == nil {
				found = &move{requestID: secret()}
			}
			moves = append(moves, found)
			if lease.Spec.Reentrant {
				reentrant[of] = found
			}
		}
		lease.move = found
		found.holds = append(found.holds, lease)
	}
	for _, one := range moves {
		t.sendMove(one, link)
	}
	if ready && link.adopts {
		t.giveBackLeftovers(link)
	}
	t.sendHeldBack(now, fx)
}

func (t *Table) mayMove(lease *Lease) bool {
	if lease.stays || (lease.move != nil && lease.move.through != nil) {
		return false
	}
	if lease.link != nil && (!lease.link.adopts || lease.link.leaving) {
		return false
	}
	for _, sent := range t.downgrades { // the adoption must name the mode, which is known when that is answered
		if sent.link != nil && sent.lease.same(lease) {
			return false
		}
	}
	return true
}

func (t *Table) adopt(lease *Lease, requestID string, holds int, id int64) *pb.SessionCommand {
	spec := lease.Spec
	if lease.change != nil {
		spec = lease.change.spec
	}
	spec = proto.Clone(spec).(*pb.LockSpec)
	spec.MaxWait = nil
	if lease.downgraded {
		spec.Mode = pb.LockMode_LOCK_MODE_SHARED
	}
	return &pb.SessionCommand{Id: id, Command: &pb.SessionCommand_Adopt{Adopt: &pb.AdoptLease{
		LeaseId: lease.LeaseID, Lock: spec, RequestId: requestID, HoldCount: int32(holds)}}}
}

func (t *Table) sendMove(one *move, link *Link) {
	first := one.holds[0]
	one.through = link
	if first.change != nil {
		first.change.sent = first.change.spec
	}
	one.id = t.takeIDs(len(one.holds))
	t.moves[one.id] = one
	link.add(t.adopt(first, one.requestID, len(one.holds), one.id))
}

func (t *Table) findMove(link *Link, id int64) *move {
	if one := t.moves[id]; one != nil && one.through == link {
		return one
	}
	for _, one := range t.moves { // of a reentrant lease
		if one.through == link && id >= one.id && id < one.id+int64(len(one.holds)) {
			return one
		}
	}
	return nil
}

// endMove: it is answered, or will not be. Its leases keep it while it may have to be repeated.
func (t *Table) endMove(one *move) {
	delete(t.moves, one.id)
	one.through, one.holds = nil, nil
}

// onAdopted returns false when it is no answer to an adoption.
func (t *Table) onAdopted(link *Link, id int64, grant *pb.Grant, now time.Duration, fx *Effects) bool {
	one := t.findMove(link, id)
	if one == nil {
		return false
	}
	index := id - one.id
	hold := one.holds[index]
	// Too late when the former promise is over: that ends it, and releases it here as well.
	if hold != nil && t.Notice(hold, now, fx) {
		one.holds[index] = nil
		t.arrive(hold, link, id, grant, now, fx)
	}
	one.holds[index] = nil
	for _, hold := range one.holds {
		if hold != nil {
			return true
		}
	}
	t.endMove(one)
	return true
}

// arrive: from now on only this session's promises count, also when they are shorter.
func (t *Table) arrive(lease *Lease, link *Link, id int64, grant *pb.Grant, now time.Duration, fx *Effects) {
	delete(t.live, lease.id)
	lease.id = id
	t.live[id] = lease
	lease.link, lease.move = link, nil
	lease.LeaseID, lease.HolderID = grant.LeaseId, grant.HolderId
	if grant.FencingToken != lease.Token {
		t.lose(lease, "TAKEN", "it was adopted under another fencing token", fx)
		return
	}
	lease.setDeadline(link.session.deadlineOf(grant.EchoSeq, span(grant.ValidFor)))
	lease.risk = ""
	if changed := lease.change; changed != nil && changed.sent != nil {
		lease.Spec = changed.sent
		if changed.sent == changed.spec {
			t.tellChange(lease, nil, fx)
		} else { // asked for again after that adoption was sent
			t.moveAt(now)
		}
	}
	if !t.Notice(lease, now, fx) {
		return
	}
	t.leaseDeadline = min(t.leaseDeadline, lease.Deadline())
	t.wakeAt(t.leaseDeadline)
	t.beatBeforeHalf(link, lease.Deadline(), now)
	t.sendDowngrades(lease)
	if lease.Spec.Reentrant {
		t.sendHeldBack(now, fx)
	}
	if link != t.Link() { // that broker drains already
		t.moveAt(now)
	}
}

func (t *Table) onNotAdopted(link *Link, id int64, refusal *Refusal, now time.Duration, fx *Effects) bool {
	one := t.findMove(link, id)
	if one == nil {
		return false
	}
	holds := one.holds // the refusal is that of all
	t.endMove(one)
	for _, hold := range holds {
		if hold == nil || hold.Phase() != Held {
			continue
		}
		switch {
		case refusal.is("NOT_HOLDER"):
			t.lose(hold, "TAKEN", "it could not be taken over: "+refusal.Wire.Message, fx)
		case refusal.is("NOT_SUPPORTED") && hold.modeUnsure:
			hold.modeUnsure = false
			hold.downgraded = !hold.downgraded
			t.movesAt = now
		case refusal.Permanent() && hold.change != nil:
			hold.move = nil
			t.tellChange(hold, refusal, fx)
			if hold.link != link { // without the change it may do
				t.movesAt = now
			}
		case refusal.Permanent():
			t.stay(hold, now)
		default:
			pause := min(max(span(refusal.Wire.RetryAfter), retryPause), longestRetryPause)
			t.movesAt = min(t.movesAt, now+pause)
		}
	}
	t.wakeAt(t.movesAt)
	if refusal.is("DRAINING") {
		link.draining = true
		t.moveOn(now)
	}
	return true
}

// stay: no broker can adopt it. It stays where it is, and is lost when that broker goes.
func (t *Table) stay(lease *Lease, now time.Duration) {
	lease.stays = true
	t.sendDowngrades(lease)
	if lease.link != nil && lease.link.drainedAt != Never {
		t.cannotFollow(max(lease.link.drainedAt-now, 0))
		lease.link.drainedAt = Never
	}
}

// survives tells whether a lease may be believed in after the end of its stream, until its last promise ends. The
// broker keeps the lock for as long, unless it was told to free it at once.
func (t *Table) survives(lease *Lease, now time.Duration) bool {
	if t.closed || lease.stays || lease.link == nil || !lease.link.adopts || now >= lease.Deadline() {
		return false
	}
	if lease.Spec.OnDisconnect == pb.OnDisconnect_ON_DISCONNECT_RELEASE {
		return false
	}
	return lease.Spec.Resume || lease.move != nil || lease.link != t.Link()
}

func (t *Table) orphan(lease *Lease, why string) {
	lease.link, lease.risk = nil, why
	t.moving = true
	t.moveAt(0)
}

func (t *Table) giveBackLeftovers(link *Link) {
	for _, left := range t.leftovers {
		id := t.takeIDs(1)
		link.add(t.adopt(left.lease, left.requestID, 1, id))
		t.sendRelease(link, id, left.lapsed)
	}
	t.leftovers = nil
}

// sendDowngrades sends what waited for the lease's arrival.
func (t *Table) sendDowngrades(lease *Lease) {
	if lease.link == nil || (lease.move != nil && !lease.stays) {
		return
	}
	for id, waits := range t.downgrades {
		if waits.lease == lease && waits.link == nil {
			waits.link = lease.link
			lease.link.add(&pb.SessionCommand{Id: id, Command: &pb.SessionCommand_Downgrade{
				Downgrade: &pb.DowngradeLease{AcquireId: lease.id}}})
		}
	}
}
