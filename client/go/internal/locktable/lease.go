// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"sync/atomic"
	"time"

	pb "distlock.dev/client/go/distlockv1"
)

// Effects are functions to call, in their order, once the table's mutex is free again.
type Effects []func()

// Run calls them.
func (fx Effects) Run() {
	for _, effect := range fx {
		effect()
	}
}

// Phase is how far a lease has come.
type Phase int32

// A lease goes through these in order; one that is refused goes from Waiting to Ended.
const (
	Waiting Phase = iota // not answered yet
	Granted              // granted, but its deadline has passed already, or others of its request are missing
	Held                 // the program has it
	Ended
)

// Causes of an end that no broker has told. Those of brokers are the names of LostReason without their prefix.
const (
	CauseGivenBack    = "GIVEN_BACK"    // the program released it
	CauseLapsed       = "LAPSED"        // its deadline passed
	CauseDisconnected = "DISCONNECTED"  // its stream ended
	CauseReleased     = "RELEASED"      // somebody who knew its lease_id released it
	CauseClientClosed = "CLIENT_CLOSED" // the client was closed
)

// Request is one acquire of one lock or of several, until its answer.
type Request struct {
	Leases []*Lease

	answer     func(*Refusal) // nil once it is answered
	onQueued   func(*pb.AcquireQueued)
	asked      time.Duration
	waitUntil  time.Duration
	stranded   time.Duration // since when no broker has this request; Never: one has
	givenUp    time.Duration // when it has waited for too long
	link       *Link         // the session it was sent through
	oneTry     bool
	turnedAway bool // refused by a draining broker
	sent       bool
	bytes      int
	requestID  string // of its place in the queue; one try has none
}

// Answered tells whether the program has its answer. Guarded by the table's mutex.
func (r *Request) Answered() bool { return r.answer == nil }

func (r *Request) first() int64 { return r.Leases[0].id }

// unsend: no session has it.
func (r *Request) unsend() {
	r.link = nil
	for _, lease := range r.Leases {
		lease.setPhase(Waiting)
		lease.link = nil
	}
}

// Lease is one lock, from its request to its end. Phase and Deadline may be read by any goroutine; Token, HoldCount,
// Waited and HeldAt by the one that had the answer; Cause and Message once Phase is Ended. The rest is guarded by the
// table's mutex.
type Lease struct {
	Spec      *pb.LockSpec
	LeaseID   string
	HolderID  string
	Token     int64
	HoldCount int32
	Waited    time.Duration
	HeldAt    time.Duration // when the program was given it
	Cause     string
	Message   string
	OnEnd     func() // called once, when it ends after it was held, unless the program released it

	id          int64
	request     *Request
	phase       atomic.Int32
	deadline    atomic.Int64
	risk        string // why renewals fail; "": they do not
	downgraded  bool
	modeUnsure  bool             // a downgrade may have been carried out
	downgrades  []func(*Refusal) // to be sent when it has arrived
	downgrading int              // sent, not answered
	stays       bool             // no session can adopt it
	link        *Link            // the session that has it; nil: its former promise is all that is left
	to          *Link            // the session that was asked to adopt it, as toID
	toID        int64
	moveKey     string // of the adoption, until one has succeeded: a try whose answer was lost may have
	former      *Link  // of a waiting one: the session it has left, until the next has its place
	crossed     bool   // that session has granted it: to be given back there
	change      *change
}

// Phase is how far it has come.
func (l *Lease) Phase() Phase { return Phase(l.phase.Load()) }

// Deadline is until when the lease may be believed in.
func (l *Lease) Deadline() time.Duration { return time.Duration(l.deadline.Load()) }

func (l *Lease) setPhase(phase Phase) { l.phase.Store(int32(phase)) }

func (l *Lease) setDeadline(at time.Duration) { l.deadline.Store(int64(at)) }

// same tells whether two are holds of one reentrant lease.
func (l *Lease) same(other *Lease) bool {
	a, b := l.Spec, other.Spec
	return l == other || (a.Reentrant && b.Reentrant && l.Token == other.Token && a.Key == b.Key &&
		a.Namespace == b.Namespace)
}

// change is what others are to see of a held lease, until an adoption in its session shows it.
type change struct {
	spec *pb.LockSpec
	sent *pb.LockSpec // by the adoption that is under way
	told []func(*Refusal)
}

// answer is what came for a command; without a refusal it is done.
type answer struct {
	refusal *Refusal
	outcome pb.ReleaseOutcome
	broken  bool // the stream ended without one
}

// question is a command that waits for its answer, but for acquires and moves.
type question struct {
	link  *Link
	back  *giving // of a release; heard is nil then
	heard func(answer, time.Duration, *Effects)
}

// giving is a lease on its way back: released in each session that may have it. Without an answer, a later session
// adopts it under key, and releases it then.
type giving struct {
	lease   *Lease
	lapsed  bool
	tell    func(pb.ReleaseOutcome) // when all have answered; may be nil
	key     string
	missing int
	broken  bool
	outcome pb.ReleaseOutcome
}

const (
	unknown     = pb.ReleaseOutcome_RELEASE_OUTCOME_UNSPECIFIED
	released    = pb.ReleaseOutcome_RELEASE_OUTCOME_RELEASED
	stillHeld   = pb.ReleaseOutcome_RELEASE_OUTCOME_STILL_HELD
	alreadyGone = pb.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_GONE
)

// better is the outcome of two sessions of which only one has had the lease.
func better(a, b pb.ReleaseOutcome) pb.ReleaseOutcome {
	if a == released || b == alreadyGone || (a == stillHeld && b != released) {
		return a
	}
	return b
}
