// SPDX-License-Identifier: Apache-2.0

package distlocktest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	pb "distlock.dev/client/go/distlockv1"
)

const (
	validity = 3 * time.Second
	usualTTL = 15 * time.Second
	never    = time.Duration(math.MaxInt64)
)

type name struct{ namespace, key string }

func (n name) String() string { return n.namespace + ":" + n.key }

// nameOf is that of the lock which a message is about.
func nameOf(asked interface {
	GetNamespace() string
	GetKey() string
}) name {
	return name{cmp.Or(asked.GetNamespace(), "default"), asked.GetKey()}
}

// lease is a lock that is held, or waited for.
type lease struct {
	id        int64
	spec      *pb.LockSpec
	session   *call // nil: none has it
	leaseID   string
	holderID  string
	token     int64
	holdCount int32
	grantedAt time.Duration
	endsAt    time.Duration // by max_hold, or when no session takes it over
}

func (l *lease) name() name { return nameOf(l.spec) }

func (l *lease) endOfHold() time.Duration {
	if l.spec.MaxHold.AsDuration() == 0 {
		return never
	}
	return l.grantedAt + l.spec.MaxHold.AsDuration()
}

func (l *lease) ttl() time.Duration { return cmp.Or(l.spec.Ttl.AsDuration(), usualTTL) }

// request is one acquire of one lock or of several, until it is granted or refused.
type request struct {
	leases []*lease
	id     string // "": one try
	waits  bool
	until  time.Duration
}

func newRequest(session *call, id int64, acquire *pb.AcquireLocks, now time.Duration) *request {
	made := &request{id: acquire.RequestId, waits: true, until: never}
	for i, spec := range acquire.Locks {
		made.leases = append(made.leases, &lease{
			id: id + int64(i), spec: spec, session: session, holdCount: 1, endsAt: never})
	}
	if wait := acquire.Locks[0].MaxWait; wait != nil {
		made.waits, made.until = wait.AsDuration() > 0, now+wait.AsDuration()
	}
	return made
}

type lock struct {
	holders      []*lease
	token        int64
	blockedUntil time.Duration
	blockedBy    string
}

// locks are who holds and who waits: a state machine without clock or goroutines. Sessions hear what comes of it.
type locks struct {
	known   map[name]*lock
	waiting []*request
	names   int
}

func (l *locks) lock(of name) *lock {
	if l.known[of] == nil {
		l.known[of] = &lock{}
	}
	return l.known[of]
}

func (l *locks) newName(kind string) string {
	l.names++
	return fmt.Sprint(kind, " ", l.names)
}

// held lists all leases that some session has, or may take over, in the order of their grants.
func (l *locks) held(which func(*lease) bool) []*lease {
	var found []*lease
	for _, one := range l.known {
		for _, holder := range one.holders {
			if which(holder) {
				found = append(found, holder)
			}
		}
	}
	slices.SortFunc(found, func(a, b *lease) int {
		return cmp.Or(cmp.Compare(a.grantedAt, b.grantedAt), cmp.Compare(a.id, b.id))
	})
	return found
}

func (l *locks) of(session *call) []*lease {
	return l.held(func(one *lease) bool { return one.session == session })
}

// nextEnd is the next moment after now at which time alone changes something.
func (l *locks) nextEnd(now time.Duration) time.Duration {
	next := never
	at := func(one time.Duration) {
		if one > now {
			next = min(next, one)
		}
	}
	for _, one := range l.waiting {
		at(one.until)
	}
	for _, one := range l.known {
		at(one.blockedUntil)
		for _, holder := range one.holders {
			at(holder.endsAt)
		}
	}
	return next
}

// join adds a request to the queue, or puts it in the place that it had there.
func (l *locks) join(asked *request) (place int) {
	place = slices.IndexFunc(l.waiting, func(one *request) bool { return one.id != "" && one.id == asked.id })
	if place >= 0 {
		l.waiting[place] = asked
		return place
	}
	l.waiting = append(l.waiting, asked)
	return len(l.waiting) - 1
}

// keepWaiting tells the session of a request that was not served that it waits, or refuses one try.
func (l *locks) keepWaiting(asked *request, place int, now time.Duration) {
	switch {
	case !slices.Contains(l.waiting, asked):
	case asked.waits:
		asked.leases[0].session.say(&pb.SessionEvent{Id: asked.leases[0].id, Event: &pb.SessionEvent_Queued{
			Queued: &pb.AcquireQueued{Position: int32(place), Holders: l.holders(asked, now)}}})
	default:
		l.drop(asked)
		l.refuse(asked, pb.RefusalReason_REFUSAL_REASON_LOCK_HELD, l.inTheWay(asked, now), now)
	}
}

func (l *locks) drop(asked *request) {
	l.waiting = slices.DeleteFunc(l.waiting, func(one *request) bool { return one == asked })
}

func (l *locks) cancel(session *call, id int64, now time.Duration) {
	for _, asked := range slices.Clone(l.waiting) {
		if asked.leases[0].session == session && slices.ContainsFunc(asked.leases, func(one *lease) bool {
			return one.id == id
		}) {
			l.drop(asked)
			l.refuse(asked, pb.RefusalReason_REFUSAL_REASON_CANCELLED, "withdrawn", now)
		}
	}
	for _, one := range l.of(session) {
		if one.id == id {
			l.end(one, pb.LostReason_LOST_REASON_UNSPECIFIED, now, false)
		}
	}
}

func (l *locks) release(session *call, asked *pb.ReleaseLease, now time.Duration) pb.ReleaseOutcome {
	found := l.held(func(one *lease) bool {
		return one.session == session && one.id == asked.AcquireId ||
			asked.LeaseId != "" && one.leaseID == asked.LeaseId
	})
	outcome := pb.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_GONE
	for _, one := range found {
		l.end(one, pb.LostReason_LOST_REASON_UNSPECIFIED, now, asked.Lapsed)
		outcome = pb.ReleaseOutcome_RELEASE_OUTCOME_RELEASED
		if l.shares(one) {
			outcome = pb.ReleaseOutcome_RELEASE_OUTCOME_STILL_HELD
		}
	}
	return outcome
}

// shares tells whether other holds have the same reentrant lease.
func (l *locks) shares(one *lease) bool {
	return slices.ContainsFunc(l.lock(one.name()).holders, func(other *lease) bool {
		return other != one && other.leaseID == one.leaseID
	})
}

// downgrade returns false when the session does not hold it.
func (l *locks) downgrade(session *call, id int64) bool {
	held := l.held(func(one *lease) bool { return one.session == session && one.id == id })
	for _, one := range held {
		for _, other := range l.held(func(other *lease) bool { return other.leaseID == one.leaseID }) {
			other.spec.Mode = pb.LockMode_LOCK_MODE_SHARED
		}
	}
	return len(held) > 0
}

// adopt returns false when nobody holds it.
func (l *locks) adopt(session *call, id int64, asked *pb.AdoptLease) bool {
	found := l.held(func(one *lease) bool { return one.leaseID == asked.LeaseId })
	leaseID := l.newName("lease")
	for i, one := range found {
		one.id, one.session, one.leaseID = id+int64(i), session, leaseID
		one.spec.Owner, one.spec.Metadata = asked.Lock.Owner, asked.Lock.Metadata
		one.endsAt = one.endOfHold()
		tellGrant(one)
	}
	return len(found) > 0
}

// leave is a goodbye: it frees all that the session has.
func (l *locks) leave(session *call, now time.Duration) {
	for _, one := range l.of(session) {
		l.end(one, pb.LostReason_LOST_REASON_UNSPECIFIED, now, false)
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(one *request) bool { return one.leases[0].session == session })
}

// part is the end of a session without a goodbye: what it has ends in time, unless another session takes it over.
func (l *locks) part(session *call, now time.Duration) {
	for _, one := range l.of(session) {
		ends := session.heardAt + validity
		switch one.spec.OnDisconnect {
		case pb.OnDisconnect_ON_DISCONNECT_RELEASE:
			ends = now
		case pb.OnDisconnect_ON_DISCONNECT_EXPIRE:
			ends = now + one.ttl()
		}
		one.session, one.endsAt = nil, min(one.endsAt, ends)
	}
	for _, asked := range l.waiting {
		if asked.leases[0].session == session {
			asked.until = min(asked.until, now+validity) // the place is kept, until the request comes again
			for _, one := range asked.leases {
				one.session = nil
			}
		}
	}
}

// expire ends what time ends.
func (l *locks) expire(now time.Duration) {
	for _, asked := range slices.Clone(l.waiting) {
		if now >= asked.until {
			l.drop(asked)
			l.refuse(asked, pb.RefusalReason_REFUSAL_REASON_WAIT_TIMEOUT, l.inTheWay(asked, now), now)
		}
	}
	for _, one := range l.held(func(one *lease) bool { return now >= one.endsAt }) {
		reason := pb.LostReason_LOST_REASON_MAX_HOLD
		if one.session == nil {
			reason = pb.LostReason_LOST_REASON_EXPIRED
		}
		l.end(one, reason, now, false)
	}
}

// serve grants what can be granted, in the order of arrival.
func (l *locks) serve(now time.Duration) {
	for _, asked := range slices.Clone(l.waiting) {
		free := asked.leases[0].session != nil
		for _, one := range asked.leases {
			free = free && l.isFree(one, asked, now)
		}
		if free {
			l.drop(asked)
			for _, one := range asked.leases {
				l.grant(one, now)
			}
		}
	}
}

// again is the hold that this one is a re-entry of, or nil.
func (l *locks) again(one *lease) *lease {
	for _, held := range l.lock(one.name()).holders {
		if held.spec.Reentrant && one.spec.Reentrant && held.session == one.session && held.spec.Owner == one.spec.Owner {
			return held
		}
	}
	return nil
}

func (l *locks) isFree(one *lease, of *request, now time.Duration) bool {
	if l.again(one) != nil {
		return true
	}
	for _, before := range l.waiting {
		if before == of {
			break
		}
		if slices.ContainsFunc(before.leases, func(other *lease) bool { return other.name() == one.name() }) {
			return false
		}
	}
	lock, mode := l.lock(one.name()), one.spec.Mode
	if now < lock.blockedUntil {
		return false
	}
	taken := max(one.spec.Permits, 1)
	for _, held := range lock.holders {
		if held.spec.Mode != mode || mode == pb.LockMode_LOCK_MODE_EXCLUSIVE {
			return false
		}
		taken += max(held.spec.Permits, 1)
	}
	return mode != pb.LockMode_LOCK_MODE_PERMIT || taken <= one.spec.Limit
}

func (l *locks) grant(one *lease, now time.Duration) {
	lock, again := l.lock(one.name()), l.again(one)
	one.grantedAt = now
	if again == nil {
		lock.token++
		one.leaseID, one.holderID, one.token = l.newName("lease"), l.newName("holder"), lock.token
		one.endsAt = one.endOfHold()
	} else {
		one.leaseID, one.holderID, one.token, one.endsAt = again.leaseID, again.holderID, again.token, again.endsAt
		for _, held := range lock.holders {
			if held.leaseID == one.leaseID {
				one.holdCount++
			}
		}
	}
	lock.holders = append(lock.holders, one)
	tellGrant(one)
}

// end ends a hold. reason: why it is lost; unspecified: it was given back.
func (l *locks) end(one *lease, reason pb.LostReason, now time.Duration, lapsed bool) {
	lock, lost := l.lock(one.name()), reason != pb.LostReason_LOST_REASON_UNSPECIFIED
	lock.holders = slices.DeleteFunc(lock.holders, func(other *lease) bool { return other == one })
	block := one.grantedAt + one.spec.MinHold.AsDuration()
	if lost || lapsed {
		block = now + one.spec.LockDelay.AsDuration()
	}
	if block > now && !l.shares(one) {
		lock.blockedUntil, lock.blockedBy = block, one.spec.Owner
	}
	if lost && one.session != nil {
		one.session.say(&pb.SessionEvent{Id: one.id, Event: &pb.SessionEvent_Lost{Lost: &pb.LeaseLost{
			Reason: reason, Message: "as the test says"}}})
	}
}
