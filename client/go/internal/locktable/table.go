// SPDX-License-Identifier: Apache-2.0

// Package locktable is the engine of a client: one table of leases, and what may happen to it. A state machine without
// clock, goroutines or IO: each call gets the time, as read from a clock that goes on in suspend, and adds what the
// program is to hear to the effects; Pack has what brokers are told. Its rules are those of
// proto/distlock/v1/session.md. All calls are made under one mutex of the caller's.
//
// There are two links, each with a stream or none. New acquires go through the present link. When its broker drains and
// another one is known, the other link becomes the present one; leases follow by AdoptLease.
package locktable

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	answerGrace       = 500 * time.Millisecond // beyond a bounded wait, when the broker stays silent
	leastWait         = time.Millisecond       // 0 would turn a bounded wait into one try
	retryPause        = 100 * time.Millisecond // of adoptions
	longestRetryPause = 500 * time.Millisecond
)

// Config is what the table knows of its client.
type Config struct {
	Address          string              // of all brokers, for messages
	Brokers          int                 // how many are known
	Label            string              // of the program, at most 256 bytes
	UnreachableAfter time.Duration       // how long a request looks for a broker; 0: by its wait
	ConnectTimeout   time.Duration       // how long a broker may take to answer OpenSession
	OnDraining       func(time.Duration) // the broker goes down then, and not all can follow; may be nil
}

// Table is the lock table. Each request is answered once, and so is each release, downgrade and proclamation that asks
// for an answer.
type Table struct {
	Links   [2]*Link
	Present int // index of the link for new acquires

	config      Config
	live        map[int64]*Lease   // by id, in any phase but Ended
	asked       map[int64]question // the commands that are not answered, but acquires
	leftovers   []*giving          // that no session could take back
	nextID      int64
	prefix      []byte // of the request_ids of this table
	sessions    int32  // opened so far
	closed      bool
	moving      bool
	endsAt      time.Duration // the next deadline of a lease, or end of a wait, is not before
	movesAt     time.Duration
	lastFailure *Refusal
}

// New makes an empty table.
func New(config Config) *Table {
	return &Table{
		config: config, Links: [2]*Link{{}, {}}, live: map[int64]*Lease{}, asked: map[int64]question{}, nextID: 1,
		prefix: append(make([]byte, 0, 64), secret()...), endsAt: Never, movesAt: Never,
		lastFailure: noFailure}
}

func secret() string {
	var bytes [16]byte
	_, _ = rand.Read(bytes[:]) // never fails on the systems that Go supports
	return hex.EncodeToString(bytes[:])
}

// Link is that for new acquires.
func (t *Table) Link() *Link { return t.Links[t.Present] }

// Moving tells whether leases wait for a session that adopts or frees them.
func (t *Table) Moving() bool { return t.moving || len(t.leftovers) > 0 }

// AtRisk tells whether renewals of a held lease fail, its stream has broken, or the broker leaves a heartbeat
// unanswered for too long.
func (t *Table) AtRisk(lease *Lease, now time.Duration) bool {
	return lease.risk != "" || (lease.link != nil && lease.link.session.overdue(lease.Deadline(), now))
}

// Count is how many leases are held, waited for, and at risk of the held ones.
func (t *Table) Count(now time.Duration) (held, waiting, atRisk int) {
	for _, lease := range t.live {
		switch {
		case lease.Phase() != Held:
			waiting++
		case now < lease.Deadline():
			held++
			if t.AtRisk(lease, now) {
				atRisk++
			}
		}
	}
	return held, waiting, atRisk
}

// Drained tells whether nothing is held, waited for, or on its way back.
func (t *Table) Drained() bool { return len(t.live)+len(t.asked)+len(t.leftovers) == 0 }

func (t *Table) takeIDs(count int) int64 {
	first := t.nextID
	t.nextID += int64(count)
	return first
}

// Wake is when Tick must be called.
func (t *Table) Wake() time.Duration {
	wake := min(t.endsAt, t.movesAt)
	for _, link := range t.Links {
		if link.streaming {
			wake = min(wake, link.session.deadline, link.heartbeatAt)
		}
	}
	return wake
}

// moveAt has sendMoves called then.
func (t *Table) moveAt(at time.Duration) { t.movesAt = min(t.movesAt, at) }

// ask sends a command; heard is told its answer, or that the stream broke before. Its id.
func (t *Table) ask(link *Link, command *pb.SessionCommand, heard func(answer, time.Duration, *Effects)) int64 {
	command.Id = t.takeIDs(1)
	t.asked[command.Id] = question{link, heard}
	link.add(command)
	return command.Id
}

// answer returns false when that was no command which was asked.
func (t *Table) answer(id int64, answer answer, now time.Duration, fx *Effects) bool {
	asked, found := t.asked[id]
	if found {
		asked.heard(answer, now, fx)
		delete(t.asked, id)
	}
	return found
}

// any tells whether some living lease is so.
func (t *Table) any(is func(*Lease) bool) bool {
	for _, lease := range t.live {
		if is(lease) {
			return true
		}
	}
	return false
}

// ordered lists the living leases in the order of their ids.
func (t *Table) ordered() []*Lease {
	return slices.SortedFunc(maps.Values(t.live), func(a, b *Lease) int { return int(a.id - b.id) })
}

// waiting lists the requests that are not answered, in their order.
func (t *Table) waiting() []*Request {
	var requests []*Request
	for _, lease := range t.ordered() {
		if lease.Phase() <= Granted && lease.request.Leases[0] == lease {
			requests = append(requests, lease.request)
		}
	}
	return requests
}

func (t *Table) strand(request *Request, now time.Duration) {
	request.unsend()
	request.stranded = min(request.stranded, now)
	t.schedule(request)
}

func (t *Table) refuse(request *Request, refusal *Refusal, fx *Effects) {
	for _, lease := range request.Leases {
		delete(t.live, lease.id)
		lease.phase.Store(int32(Ended))
	}
	tell(request.answer, refusal, fx)
	request.answer = nil
}

// withdraw tells the broker that this request is given up. Grants that are on their way go back by themselves.
func (t *Table) withdraw(request *Request) {
	link := request.link()
	if link == nil || !link.usable() || link.drop(request.first()) { // dropped: the broker has not heard of it
		return
	}
	for _, lease := range request.Leases { // each: the grants of some may be on their way
		switch lease.Phase() {
		case Granted:
			t.sendRelease(link, lease.id, &giving{lease: lease})
		case Waiting:
			link.commands = slices.Insert(link.commands, 0, &pb.SessionCommand{Command: &pb.SessionCommand_Cancel{
				Cancel: &pb.CancelAcquire{AcquireId: lease.id}}})
		}
	}
}

// send asks the present session for a request's locks, unless it must wait for something.
func (t *Table) send(request *Request, now time.Duration, fx *Effects) {
	link, asked := t.Link(), request.Leases[0].Spec
	if t.moving && asked.Reentrant && t.any(func(held *Lease) bool {
		return held.Phase() == Held && held.link != link && held.Spec.Reentrant && held.Spec.Key == asked.Key &&
			held.Spec.Owner == asked.Owner && held.Spec.Namespace == asked.Namespace
	}) {
		return // the same owner holds the lock through another session: it would wait for itself here
	}
	acquire := &pb.AcquireLocks{RequestId: request.requestID}
	for _, lease := range request.Leases {
		if request.waitUntil != Never {
			if lease.Spec.MaxWait != nil { // gRPC may still read the message that went before
				lease.Spec = proto.Clone(lease.Spec).(*pb.LockSpec)
			}
			lease.Spec.MaxWait = durationpb.New(max(request.waitUntil-now, leastWait))
		}
		acquire.Locks = append(acquire.Locks, lease.Spec)
	}
	if bytes := proto.Size(acquire) + frame; bytes > link.maxBytes {
		if link.Opened {
			t.refuse(request, Refuse("INVALID_ARGUMENT", fmt.Sprintf("the request has %d bytes, and this broker takes "+
				"%d: ask for fewer locks at once", bytes, link.maxBytes)), fx)
		}
		return // goes when the broker has told its limit
	}
	for _, lease := range request.Leases {
		lease.link = link
	}
	link.add(&pb.SessionCommand{Id: request.first(), Command: &pb.SessionCommand_Acquire{Acquire: acquire}})
}

func (t *Table) sendHeldBack(now time.Duration, fx *Effects) {
	if !t.Link().usable() {
		return
	}
	for _, request := range t.waiting() {
		if request.link() == nil {
			t.send(request, now, fx)
		}
	}
}

// holdsOf are those of a reentrant lease that are still held; of another one, itself.
func (t *Table) holdsOf(lease *Lease) []*Lease {
	if !lease.Spec.Reentrant {
		return []*Lease{lease}
	}
	var holds []*Lease
	for _, other := range t.ordered() {
		if other.Phase() == Held && lease.same(other) {
			holds = append(holds, other)
		}
	}
	return holds
}

// sendRelease names the lease by its acquireID, or by its lease_id when that is 0.
func (t *Table) sendRelease(link *Link, acquireID int64, back *giving) {
	back.missing++
	release := &pb.ReleaseLease{AcquireId: acquireID, Lapsed: back.lapsed}
	if acquireID == 0 {
		release.LeaseId = back.lease.LeaseID
	}
	t.ask(link, &pb.SessionCommand{Command: &pb.SessionCommand_Release{Release: release}},
		func(a answer, _ time.Duration, fx *Effects) { t.returned(back, a, fx) })
}

func (t *Table) returned(back *giving, a answer, fx *Effects) {
	if a.refusal != nil && a.refusal.is("NOT_HOLDER") {
		a.outcome = alreadyGone
	}
	back.missing--
	back.broken, back.outcome = back.broken || a.broken, better(back.outcome, a.outcome)
	if back.missing > 0 {
		return
	}
	tell(back.told, back.outcome, fx)
	if back.broken && back.outcome == unknown {
		t.leaveOver(back, 0)
	}
}

// leaveOver is for the next session, which adopts the lease and releases it then.
func (t *Table) leaveOver(back *giving, at time.Duration) {
	if t.closed || back.lease.LeaseID == "" ||
		slices.ContainsFunc(t.holdsOf(back.lease), func(hold *Lease) bool { return hold != back.lease }) {
		return // in the last case other holds move it, with what is left of it
	}
	back.key, back.told, back.broken, back.outcome = cmp.Or(back.key, secret()), nil, false, alreadyGone
	t.leftovers = append(t.leftovers, back)
	t.moveAt(at)
}

// adopter is the session that was asked to adopt the lease and has not answered; nil: none.
func (t *Table) adopter(lease *Lease) *Link { return t.asked[lease.toID].link }

// end is final. The sessions that may have the lease are to free it, and told hears the outcome. gone: its own has it
// no more. The program is told, unless it has given the lease back itself.
func (t *Table) end(lease *Lease, cause, message string, gone bool, told func(pb.ReleaseOutcome), fx *Effects) {
	back := &giving{lease: lease, lapsed: cause != CauseGivenBack, told: told, key: lease.moveKey, outcome: alreadyGone}
	to := t.adopter(lease)
	if lease.link != nil && !gone {
		known := lease.id
		if to == lease.link { // which may have another id for it by now
			known = 0
		}
		t.sendRelease(lease.link, known, back)
	}
	if to != nil {
		t.sendRelease(to, lease.toID, back)
		delete(t.asked, lease.toID)
	}
	if back.missing == 0 && !gone {
		back.missing = 1
		t.returned(back, answer{broken: true}, fx)
	}
	delete(t.live, lease.id)
	lease.Cause, lease.Message = cause, message
	lease.phase.Store(int32(Ended)) // after the cause, for those who read without the mutex
	for _, told := range lease.downgrades {
		tell(told, hasEnded, fx)
	}
	t.tellChange(lease, hasEnded, fx)
	if t.moving && lease.Spec.Reentrant { // an acquire of that owner may have waited for its arrival
		t.moveAt(0)
	}
	if lease.OnEnd != nil && cause != CauseGivenBack {
		*fx = append(*fx, lease.OnEnd)
	}
}

// tellChange: what others are to see of the lease is shown now, or will not be.
func (t *Table) tellChange(lease *Lease, refusal *Refusal, fx *Effects) {
	if lease.change == nil {
		return
	}
	for _, told := range lease.change.told {
		tell(told, refusal, fx)
	}
	lease.change = nil
}

// Notice ends the lease if its deadline has passed. True: it is still held.
func (t *Table) Notice(lease *Lease, now time.Duration, fx *Effects) bool {
	if lease.Phase() != Held || now < lease.Deadline() {
		return lease.Phase() == Held
	}
	link := cmp.Or(lease.link, t.Link())
	cause, message := CauseLapsed, "the broker was not heard until the deadline"
	switch {
	case !link.Opened || link.Lapsed(now):
	case lease.risk != "":
		cause, message = "EXPIRED", "could not be renewed in time: "+lease.risk
	case lease.link != nil && lease.Spec.MaxHold.AsDuration() > 0:
		// While the session is alive and no renewal has failed, only max_hold lets the deadline of one lease pass.
		cause, message = "MAX_HOLD", "held for max_hold"
	}
	t.end(lease, cause, message, false, nil, fx)
	return false
}
