// SPDX-License-Identifier: Apache-2.0

// Package locktable is the state of a client: its waiting requests, its leases and their deadlines, and what the broker
// must be told. It has no clock, no goroutine and no IO: each call gets the time, as read from a clock that goes on in
// suspend, and adds what the program is to hear to the effects. What it does is proto/distlock/v1/session.md.
//
// All calls are made under one mutex of the caller's.
//
// There are two links, each with a stream or none. New acquires go through the present link. When its broker drains and
// another one is known, the other link becomes the present one; leases follow by AdoptLease.
package locktable

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sort"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	answerGrace = 500 * time.Millisecond // beyond a bounded wait, when the broker stays silent
	leastWait   = time.Millisecond       // 0 would turn a bounded wait into one try
)

// Config is what the table knows of its client.
type Config struct {
	Address          string        // of all brokers, for messages
	Brokers          int           // how many are known
	Label            string        // of the program, at most 256 bytes
	UnreachableAfter time.Duration // how long a request looks for a broker; 0: by its wait
	ConnectTimeout   time.Duration // how long a broker may take to answer OpenSession
}

// Table is the lock table. Each request is answered once, and so is each release, downgrade and proclamation that asks
// for an answer.
type Table struct {
	config Config
	links  [2]*Link
	now    int // index of the present link

	live          map[int64]*Lease // by id, in any phase but Ended
	releases      map[int64]*pendingRelease
	downgrades    map[int64]*pendingDowngrade
	moves         map[int64]*move // that are sent, by the command's id
	leftovers     []leftover      // that ended while no session had them
	timeouts      timeouts
	nextID        int64
	prefix        string // of the request_ids of this table
	sessions      int32  // opened so far
	closed        bool
	moving        bool
	wake          time.Duration
	leaseDeadline time.Duration
	movesAt       time.Duration
	lastFailure   *Refusal
	draining      bool // a broker goes down, and something cannot follow
	drainingFor   time.Duration
}

// New makes an empty table.
func New(config Config) *Table {
	return &Table{
		config: config, links: [2]*Link{newLink(), newLink()}, live: map[int64]*Lease{},
		releases: map[int64]*pendingRelease{}, downgrades: map[int64]*pendingDowngrade{}, moves: map[int64]*move{},
		nextID: 1, prefix: secret(), wake: Never, leaseDeadline: Never, movesAt: Never,
	}
}

func secret() string {
	var bytes [16]byte
	_, _ = rand.Read(bytes[:]) // never fails on the systems that Go supports
	return hex.EncodeToString(bytes[:])
}

// Link is that for new acquires.
func (t *Table) Link() *Link { return t.links[t.now] }

// LinkAt is one of the two; Present is the index of Link.
func (t *Table) LinkAt(index int) *Link { return t.links[index] }

// Present is the index of the link for new acquires.
func (t *Table) Present() int { return t.now }

// Wake is when Tick must be called.
func (t *Table) Wake() time.Duration { return t.wake }

// Moving tells whether leases wait for a session that adopts them.
func (t *Table) Moving() bool { return t.moving }

// AtRisk tells whether renewals of a held lease fail, its stream has broken, or the broker leaves a heartbeat
// unanswered for too long.
func (t *Table) AtRisk(lease *Lease, now time.Duration) bool {
	return lease.risk != "" || (lease.link != nil && lease.link.session.overdue(lease.Deadline(), now))
}

// TakeDraining tells, once, that the broker goes down and not all can follow, and what time is left.
func (t *Table) TakeDraining() (time.Duration, bool) {
	was := t.draining
	t.draining = false
	return t.drainingFor, was
}

func (t *Table) cannotFollow(timeLeft time.Duration) {
	t.draining, t.drainingFor = true, timeLeft
	t.wakeAt(0)
}

func (t *Table) takeIDs(count int) int64 {
	first := t.nextID
	t.nextID += int64(count)
	return first
}

func (t *Table) wakeAt(at time.Duration) { t.wake = min(t.wake, at) }

func (t *Table) moveAt(at time.Duration) {
	t.movesAt = at
	t.wakeAt(at)
}

// ordered lists the living leases in the order of their ids.
func (t *Table) ordered() []*Lease {
	leases := make([]*Lease, 0, len(t.live))
	for _, lease := range t.live {
		leases = append(leases, lease)
	}
	sort.Slice(leases, func(i, j int) bool { return leases[i].id < leases[j].id })
	return leases
}

// waiting lists the requests that are not answered, in their order.
func (t *Table) waiting() []*Request {
	var requests []*Request
	for _, lease := range t.live {
		if lease.Phase() <= Granted && lease.request.Leases[0] == lease {
			requests = append(requests, lease.request)
		}
	}
	sort.Slice(requests, func(i, j int) bool { return requests[i].first() < requests[j].first() })
	return requests
}

func (t *Table) strand(request *Request, now time.Duration) {
	request.link = nil
	for _, lease := range request.Leases {
		lease.setPhase(Waiting)
		lease.link = nil
	}
	if request.stranded == Never {
		request.stranded = now
	}
	t.schedule(request)
}

func (t *Table) answer(request *Request, refusal *Refusal, fx *Effects) {
	t.unschedule(request)
	if tell := request.answer; tell != nil {
		request.answer = nil
		*fx = append(*fx, func() { tell(refusal) })
	}
}

func (t *Table) refuse(request *Request, refusal *Refusal, fx *Effects) {
	for _, lease := range request.Leases {
		delete(t.live, lease.id)
		lease.setPhase(Ended)
	}
	t.answer(request, refusal, fx)
}

// withdraw tells the broker that this request is given up. Grants that are on their way go back by themselves.
func (t *Table) withdraw(request *Request) {
	if request.link == nil || !request.link.usable() {
		return
	}
	if request.link.drop(request.first()) {
		return // the broker has not heard of it
	}
	for _, lease := range request.Leases { // each: the grants of some may be on their way
		if lease.Phase() == Granted {
			t.sendRelease(request.link, lease.id, false)
		} else {
			request.link.cancels = append(request.link.cancels, lease.id)
		}
	}
}

// send asks the present session for a request's locks, unless it must wait for something.
func (t *Table) send(request *Request, now time.Duration, fx *Effects) {
	link := t.Link()
	if t.heldElsewhere(request) {
		return
	}
	if request.bytes > link.maxBytes {
		if link.opened {
			text := fmt.Sprintf("the request has %d bytes, and this broker takes %d: ask for fewer locks at once",
				request.bytes, link.maxBytes)
			t.refuse(request, Refuse("INVALID_ARGUMENT", text), fx)
		}
		return // goes when the broker has told its limit
	}
	made := &struct { // one allocation for all
		command pb.SessionCommand
		kind    pb.SessionCommand_Acquire
		acquire pb.AcquireLocks
		lock    [1]*pb.LockSpec
	}{}
	locks := made.lock[:]
	if len(request.Leases) > 1 {
		locks = make([]*pb.LockSpec, len(request.Leases))
	}
	for i, lease := range request.Leases {
		if request.sent { // gRPC may still read the message that went before
			lease.Spec = proto.Clone(lease.Spec).(*pb.LockSpec)
		}
		if request.oneTry {
			lease.Spec.MaxWait = &durationpb.Duration{}
		} else if request.waitUntil != Never {
			lease.Spec.MaxWait = durationpb.New(max(request.waitUntil-now, leastWait))
		}
		locks[i], lease.link = lease.Spec, link
	}
	request.sent = true
	request.link = link
	made.acquire.Locks, made.acquire.RequestId = locks, request.requestID
	made.kind.Acquire = &made.acquire
	made.command.Id, made.command.Command = request.first(), &made.kind
	link.addOf(&made.command, request.bytes+timeBytes*len(locks))
}

// heldElsewhere tells whether the same owner holds the lock through another session: it would wait for itself there.
func (t *Table) heldElsewhere(request *Request) bool {
	asked := request.Leases[0].Spec
	if !t.moving || !asked.Reentrant {
		return false
	}
	for _, held := range t.live {
		if held.Phase() == Held && held.link != t.Link() && held.Spec.Reentrant && held.Spec.Key == asked.Key &&
			held.Spec.Owner == asked.Owner && held.Spec.Namespace == asked.Namespace {
			return true
		}
	}
	return false
}

func (t *Table) sendHeldBack(now time.Duration, fx *Effects) {
	if !t.Link().usable() {
		return
	}
	for _, request := range t.waiting() {
		if request.link == nil {
			t.send(request, now, fx)
		}
	}
}

func (t *Table) sendRelease(link *Link, acquireID int64, lapsed bool) int64 {
	id := t.takeIDs(1)
	link.addOf(release(id, acquireID, lapsed), releaseBytes)
	return id
}

// giveBack releases the lease at every session that may have it. Does not end it.
func (t *Table) giveBack(lease *Lease, lapsed bool, tell func(pb.ReleaseOutcome), fx *Effects) {
	var here, there int64
	var through *Link
	if lease.link != nil {
		here = t.sendRelease(lease.link, lease.id, lapsed)
	}
	if move := lease.move; move != nil && move.through != nil {
		for i, hold := range move.holds {
			if hold == lease {
				through = move.through
				there = t.sendRelease(through, move.id+int64(i), lapsed)
				move.holds[i] = nil
			}
		}
	}
	if tell == nil {
		return
	}
	switch {
	case here != 0:
		t.releases[here] = &pendingRelease{tell: tell, link: lease.link, twin: there}
		if there != 0 {
			t.releases[there] = &pendingRelease{link: through, twin: here}
		}
	case there != 0:
		t.releases[there] = &pendingRelease{tell: tell, link: through}
	default:
		*fx = append(*fx, func() { tell(pb.ReleaseOutcome_RELEASE_OUTCOME_UNSPECIFIED) })
	}
}

// end is final. tell: the program is told.
func (t *Table) end(lease *Lease, cause, message string, fx *Effects, tell bool) {
	delete(t.live, lease.id)
	lease.Cause, lease.Message, lease.move = cause, message, nil
	lease.setPhase(Ended) // after the cause, for those who read without the mutex
	for id, waits := range t.downgrades {
		if waits.link == nil && waits.lease == lease {
			delete(t.downgrades, id)
			*fx = append(*fx, func() { waits.tell(hasEnded()) })
		}
	}
	if t.moving && lease.Spec.Reentrant { // an acquire of that owner may have waited for its arrival
		t.moveAt(0)
	}
	if lease.change != nil {
		t.tellChange(lease, hasEnded(), fx)
	}
	if lease.OnEnd != nil && tell {
		*fx = append(*fx, lease.OnEnd)
	}
}

func hasEnded() *Refusal { return Refuse("NOT_HOLDER", "the lock has ended") }

// tellChange: what others are to see of the lease is shown now, or will not be.
func (t *Table) tellChange(lease *Lease, refusal *Refusal, fx *Effects) {
	if lease.change == nil {
		return
	}
	for _, tell := range lease.change.told {
		*fx = append(*fx, func() { tell(refusal) })
	}
	lease.change = nil
}

// lose ends a held lease that is not released by the program, and sees that the broker frees it.
func (t *Table) lose(lease *Lease, cause, message string, fx *Effects) {
	t.giveBack(lease, true, nil, fx)
	t.end(lease, cause, message, fx, true)
}

// rememberLeftover is called before a lease ends: when no session can release it, the next one adopts it and releases
// it then.
func (t *Table) rememberLeftover(lease *Lease, lapsed bool) {
	if lease.link != nil || (lease.move != nil && lease.move.through != nil) || len(t.holdsOf(lease)) > 1 {
		return // of several holds the others move it
	}
	id := secret()
	if lease.move != nil {
		id = lease.move.requestID
	}
	t.leftovers = append(t.leftovers, leftover{lease, id, lapsed})
}

// Notice ends the lease if its deadline has passed. True: it is still held.
func (t *Table) Notice(lease *Lease, now time.Duration, fx *Effects) bool {
	if lease.Phase() != Held {
		return false
	}
	if now < lease.Deadline() {
		return true
	}
	t.rememberLeftover(lease, true)
	link := lease.link
	if link == nil {
		link = t.Link()
	}
	heard := link.streaming && link.opened && now < link.session.deadline
	switch {
	case heard && lease.risk != "":
		t.lose(lease, "EXPIRED", "could not be renewed in time: "+lease.risk, fx)
	case heard && lease.link != nil && lease.Spec.MaxHold.AsDuration() > 0:
		// While the session is alive and no renewal has failed, only max_hold lets the deadline of one lease pass.
		t.lose(lease, "MAX_HOLD", "held for max_hold", fx)
	default:
		t.lose(lease, CauseLapsed, "the broker was not heard until the deadline", fx)
	}
	return false
}

func (t *Table) holdsOf(lease *Lease) []*Lease {
	if !lease.Spec.Reentrant {
		return []*Lease{lease}
	}
	var holds []*Lease
	for _, other := range t.live {
		if other.Phase() == Held && lease.same(other) {
			holds = append(holds, other)
		}
	}
	return holds
}
