// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"cmp"
	"slices"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/proto"
)

// Leases that move to another session: "Moving a lease" in session.md.

func pauseOf(refusal *Refusal) time.Duration {
	return min(max(span(refusal.Wire.RetryAfter), retryPause), longestRetryPause)
}

// drains: this link's broker takes nothing new any more.
func (t *Table) drains(link *Link, now time.Duration) {
	link.draining = true
	t.moveOn(now)
}

// moveOn leaves the present broker, if it drains: the other link becomes the present one. While that still has a stream
// of its own, of a broker that drains as well, this waits for its end.
func (t *Table) moveOn(now time.Duration) {
	old, other := t.Link(), t.Links[1-t.Present]
	if t.config.Brokers == 1 || t.closed || !old.streaming || !old.draining || other.streaming {
		return
	}
	t.Present = 1 - t.Present
	t.moving = true
	for _, request := range t.waiting() {
		if request.link() != old {
			continue
		}
		if request.requestID == "" {
			t.withdraw(request)
		} else if !old.drop(request.first()) { // the next broker takes over its place
			for _, lease := range request.Leases {
				lease.former, lease.crossed = old, lease.Phase() == Granted
			}
		}
		t.strand(request, now)
	}
}

// sendMoves asks the present session to adopt all that it does not hold, and to free what nobody could free.
func (t *Table) sendMoves(now time.Duration, fx *Effects) {
	t.movesAt, t.moving = Never, false
	link := t.Link()
	ready := link.Opened && !link.leaving && !link.draining
	for _, lease := range t.ordered() {
		if lease.Phase() != Held || (lease.link == link && lease.change == nil) {
			continue
		}
		t.moving = t.moving || lease.link != link
		switch {
		case !ready || lease.stays || t.adopter(lease) != nil || (lease.link != nil && !lease.link.movable()):
		case lease.elsewhere(link):
			t.tellDrained(lease, now, fx)
		case !link.adopts:
			t.stay(lease, now, fx)
		default:
			t.move(link, slices.DeleteFunc(t.holdsOf(lease), func(hold *Lease) bool {
				return t.adopter(hold) != nil || (hold.link == link && hold.change == nil)
			}))
		}
	}
	if ready {
		t.freeLeftovers(link)
	}
	t.sendHeldBack(now, fx)
}

// elsewhere: the broker of this link has another store, where nobody has heard of the lease.
func (l *Lease) elsewhere(link *Link) bool {
	return l.store != "" && link.store != "" && l.store != link.store
}

func adopt(lease *Lease, key string, holds int) *pb.SessionCommand {
	spec := lease.Spec
	if lease.change != nil {
		spec = lease.change.spec
	}
	spec = proto.Clone(spec).(*pb.LockSpec)
	spec.MaxWait = nil
	if lease.downgraded {
		spec.Mode = pb.LockMode_LOCK_MODE_SHARED
	}
	return &pb.SessionCommand{Command: &pb.SessionCommand_Adopt{Adopt: &pb.AdoptLease{
		LeaseId: lease.LeaseID, Lock: spec, RequestId: key, HoldCount: int32(holds)}}}
}

// move has the holds of one reentrant lease, or another lease, adopted.
func (t *Table) move(link *Link, holds []*Lease) {
	key := ""
	for _, hold := range holds {
		if hold.downgrading > 0 {
			return // the adoption must name the mode, which is known when the downgrade is answered
		}
		key = cmp.Or(key, hold.moveKey)
	}
	key = cmp.Or(key, secret())
	command := adopt(holds[0], key, len(holds))
	command.Id = t.takeIDs(len(holds))
	for i, hold := range holds {
		hold.toID, hold.moveKey = command.Id+int64(i), key
		t.asked[hold.toID] = question{link, func(a answer, now time.Duration, fx *Effects) {
			if a.grant != nil {
				t.onAdopted(link, hold, a.grant, now, fx)
			} else if a.refusal != nil {
				t.onNotAdopted(link, hold, a.refusal, now, fx)
			}
		}}
		if hold.change != nil {
			hold.change.sent = hold.change.spec
		}
	}
	link.add(command)
}

// freeLeftovers adopts and releases: an adoption that was under way may have changed the lease_id. Nobody believes in
// these, so one that is refused matters only when it may succeed later; its release then finds nothing.
func (t *Table) freeLeftovers(link *Link) {
	left := t.leftovers
	t.leftovers = nil
	for _, back := range left {
		if back.lease.elsewhere(link) {
			continue // its ttl ends it
		}
		if !link.adopts {
			t.sendRelease(link, 0, back)
			continue
		}
		again := func(a answer, now time.Duration, _ *Effects) {
			if a.refusal != nil && !a.refusal.Permanent() && !a.refusal.is("NOT_HOLDER", Unreachable) {
				t.leaveOver(back, now+pauseOf(a.refusal))
			}
		}
		t.sendRelease(link, t.ask(link, adopt(back.lease, back.key, 1), again), back)
	}
}

// onAdopted: from now on only this session's promises count, also when they are shorter.
func (t *Table) onAdopted(link *Link, lease *Lease, grant *pb.Grant, now time.Duration, fx *Effects) {
	if !t.Notice(lease, now, fx) {
		return // the former promise is over: that has released it here as well
	}
	delete(t.live, lease.id)
	lease.id = lease.toID
	t.live[lease.id] = lease
	delete(t.asked, lease.id)
	lease.link, lease.moveKey, lease.risk = link, "", ""
	lease.store = cmp.Or(link.store, lease.store)
	lease.LeaseID, lease.HolderID = grant.LeaseId, grant.HolderId
	if grant.FencingToken != lease.Token {
		t.end(lease, "TAKEN", "it was adopted under another fencing token", false, nil, fx)
		return
	}
	lease.deadline.Store(int64(link.session.deadlineOf(grant.EchoSeq, grant.ValidFor)))
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
	t.endsAt = min(t.endsAt, lease.Deadline())
	t.beatBeforeHalf(link, lease.Deadline(), now)
	t.sendDowngrades(lease)
	if lease.Spec.Reentrant || link != t.Link() { // an acquire waited for its arrival; or that broker drains already
		t.moveAt(now)
	}
}

func (t *Table) onNotAdopted(link *Link, lease *Lease, refusal *Refusal, now time.Duration, fx *Effects) {
	key := lease.moveKey
	for _, hold := range t.holdsOf(lease) {
		if t.adopter(hold) == nil || hold.moveKey != key { // the refusal is that of all holds
			continue
		}
		delete(t.asked, hold.toID)
		switch {
		case refusal.is("NOT_HOLDER"):
			t.end(hold, "TAKEN", "it could not be taken over: "+refusal.Wire.Message, true, nil, fx)
		case refusal.is("NOT_SUPPORTED") && hold.modeUnsure:
			hold.modeUnsure, hold.downgraded = false, !hold.downgraded
			t.moveAt(now)
		case refusal.Permanent() && hold.change != nil:
			hold.moveKey = ""
			t.tellChange(hold, refusal, fx)
			t.moveAt(now) // without the change it may do
		case refusal.Permanent():
			t.stay(hold, now, fx)
		default:
			t.moveAt(now + pauseOf(refusal))
		}
	}
	if refusal.is("DRAINING") {
		t.drains(link, now)
	}
}

// stay: no broker can adopt it. It stays where it is, and is lost when that broker goes.
func (t *Table) stay(lease *Lease, now time.Duration, fx *Effects) {
	lease.stays, lease.moveKey = true, ""
	t.sendDowngrades(lease)
	t.tellDrained(lease, now, fx)
}

// tellDrained: the program hears of the drain after all, once, because something does not move.
func (t *Table) tellDrained(lease *Lease, now time.Duration, fx *Effects) {
	if lease.link != nil && lease.link.drainedAt != Never {
		tell(t.config.OnDraining, max(lease.link.drainedAt-now, 0), fx)
		lease.link.drainedAt = Never
	}
}

// survives tells whether a lease may be believed in after the end of its stream, until its last promise ends. The
// broker keeps the lock for as long, unless it was told to free it at once.
func (t *Table) survives(lease *Lease, now time.Duration) bool {
	if t.closed || lease.stays || lease.link == nil || !lease.link.adopts || now >= lease.Deadline() {
		return false
	}
	return lease.Spec.OnDisconnect != pb.OnDisconnect_ON_DISCONNECT_RELEASE &&
		(lease.Spec.Resume || lease.moveKey != "" || lease.link != t.Link())
}

func (t *Table) orphan(lease *Lease, why string) {
	lease.link, lease.risk = nil, why
	t.moving = true
	t.moveAt(0)
}

// sendDowngrades sends what waited for the lease's arrival.
func (t *Table) sendDowngrades(lease *Lease) {
	if lease.link == nil || (lease.moveKey != "" && !lease.stays) {
		return
	}
	for _, told := range lease.downgrades {
		holds := t.holdsOf(lease)
		for _, hold := range holds {
			hold.downgrading++
		}
		t.ask(lease.link, &pb.SessionCommand{Command: &pb.SessionCommand_Downgrade{
			Downgrade: &pb.DowngradeLease{AcquireId: lease.id}}},
			func(a answer, now time.Duration, fx *Effects) { t.onDowngraded(holds, told, a.refusal, now, fx) })
	}
	lease.downgrades = nil
}

func (t *Table) onDowngraded(holds []*Lease, told func(*Refusal), refusal *Refusal, now time.Duration, fx *Effects) {
	for _, hold := range holds {
		hold.downgrading--
	}
	for _, hold := range t.holdsOf(holds[0]) {
		hold.downgraded = hold.downgraded || refusal == nil
		hold.modeUnsure = hold.modeUnsure || refusal != nil
	}
	tell(told, refusal, fx)
	if t.moving {
		t.sendMoves(now, fx)
	}
}

// leave says goodbye behind what may be sent now, so that the broker ends the stream in good order and frees what it
// has not heard of. Waiting requests go to the next stream.
func (t *Table) leave(link *Link) {
	room, sent := link.mostAhead-len(link.ahead), 0
	link.commands = slices.DeleteFunc(link.commands, func(one *pb.SessionCommand) bool {
		if one.Id != 0 {
			sent++
		}
		return sent > room
	})
	link.add(&pb.SessionCommand{Command: &pb.SessionCommand_Goodbye{Goodbye: &pb.Goodbye{}}})
	link.leaving, link.heartbeatDue, link.heartbeatAt = true, false, Never
	for _, request := range t.waiting() {
		if request.link() == link {
			request.unsend()
		}
	}
}

// leaveWhenEmpty leaves a former broker that has nothing of this client any more.
func (t *Table) leaveWhenEmpty(link *Link) {
	if link == t.Link() || !link.usable() || t.any(func(lease *Lease) bool {
		return lease.link == link || lease.former == link
	}) {
		return
	}
	for _, asked := range t.asked {
		if asked.link == link {
			return
		}
	}
	t.leave(link)
}

// giveUp has a former session free what it has granted, but what has gone to another one: that is never believed in.
func (t *Table) giveUp(link *Link, id int64) {
	link.add(&pb.SessionCommand{Id: t.takeIDs(1), Command: &pb.SessionCommand_Release{
		Release: &pb.ReleaseLease{AcquireId: id}}})
}
