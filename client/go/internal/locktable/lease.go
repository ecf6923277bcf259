// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"slices"
	"strings"
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

// tell has somebody told, unless nobody asked.
func tell[T any](told func(T), what T, fx *Effects) {
	if told != nil {
		*fx = append(*fx, func() { told(what) })
	}
}

// Reasons that are no RefusalReason of the contract.
const (
	Unreachable  = "UNREACHABLE"
	ClientClosed = "CLIENT_CLOSED"
)

// Refusal says why there is no lock. Reason: the name of a RefusalReason without its prefix, or one of the above.
type Refusal struct {
	Reason string
	Wire   *pb.Refusal // never nil; its reason does not count
}

// Refuse makes one.
func Refuse(reason, message string) *Refusal {
	return &Refusal{Reason: reason, Wire: &pb.Refusal{Message: message}}
}

// hasEnded is the answer to those who want something of a lock that has ended. noFailure: nothing is known against the
// brokers.
var (
	hasEnded  = Refuse("NOT_HOLDER", "the lock has ended")
	noFailure = Refuse("", "")
)

// nameOf cuts the prefix off. A value of a newer contract is named by its number.
func nameOf(name, prefix string) string {
	if cut, found := strings.CutPrefix(name, prefix); found {
		return cut
	}
	return "UNKNOWN_" + name
}

// is tells whether the reason is one of these.
func (r *Refusal) is(reasons ...string) bool { return slices.Contains(reasons, r.Reason) }

// Permanent tells whether no further attempt of this client can have another answer.
func (r *Refusal) Permanent() bool {
	return r.is("INVALID_ARGUMENT", "NOT_SUPPORTED", "UNAUTHENTICATED", "PERMISSION_DENIED", "FOREIGN_KEY")
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
	turnedAway bool          // refused by a draining broker
	requestID  string        // of its place in the queue; one try has none
}

// Answered tells whether the program has its answer. Guarded by the table's mutex.
func (r *Request) Answered() bool { return r.answer == nil }

func (r *Request) first() int64 { return r.Leases[0].id }

// link is the session that it was sent through, until it is answered.
func (r *Request) link() *Link { return r.Leases[0].link }

// unsend: no session has it.
func (r *Request) unsend() {
	for _, lease := range r.Leases {
		lease.phase.Store(int32(Waiting))
		lease.link = nil
	}
}

// Lease is one lock, from its request to its end. Phase and Deadline may be read by any goroutine; Token, HoldCount,
// Waited and HeldAt by the one that had the answer; Cause and Message once Phase is Ended. The rest is guarded by the
// table's mutex.
type Lease struct {
	Spec      *pb.LockSpec
	LeaseID   string
	store     string // of the session that had it last
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
	toID        int64            // of the adoption that is asked for, or was
	moveKey     string           // of the adoption, until one has succeeded: a try whose answer was lost may have
	former      *Link            // of a waiting one: the session it has left, until the next has its place
	crossed     bool             // that session has granted it: to be given back there
	change      *change
}

// Phase is how far it has come.
func (l *Lease) Phase() Phase { return Phase(l.phase.Load()) }

// Deadline is until when the lease may be believed in.
func (l *Lease) Deadline() time.Duration { return time.Duration(l.deadline.Load()) }

// leaveFormer: the session that it has left matters no more.
func (l *Lease) leaveFormer() { l.former, l.crossed = nil, false }

// causeNow is why it ends now, unless its deadline has passed before.
func (l *Lease) causeNow(cause string, now time.Duration) string {
	if now >= l.Deadline() {
		return CauseLapsed
	}
	return cause
}

// same tells whether two are holds of one reentrant lease.
func (l *Lease) same(other *Lease) bool {
	return l == other || (l.Spec.Reentrant && other.Spec.Reentrant && l.Token == other.Token &&
		l.Spec.Key == other.Spec.Key && l.Spec.Namespace == other.Spec.Namespace)
}

// change is what others are to see of a held lease, until an adoption in its session shows it.
type change struct {
	spec *pb.LockSpec
	sent *pb.LockSpec // by the adoption that is under way
	told []func(*Refusal)
}

// answer is what came for a command; without anything it is done.
type answer struct {
	refusal *Refusal
	grant   *pb.Grant
	outcome pb.ReleaseOutcome
	broken  bool // the stream ended without one
}

// question is a command, but no acquire, whose answer somebody hears.
type question struct {
	link  *Link
	heard func(answer, time.Duration, *Effects)
}

// giving is a lease on its way back: released in each session that may have it. Without an answer, a later session
// adopts it under key, and releases it then.
type giving struct {
	lease   *Lease
	lapsed  bool
	told    func(pb.ReleaseOutcome) // the outcome, when all have answered; may be nil
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

// better is the outcome of two sessions of which only one has had the lease. One of a newer contract is not known.
func better(a, b pb.ReleaseOutcome) pb.ReleaseOutcome {
	for _, best := range []pb.ReleaseOutcome{released, stillHeld} {
		if a == best || b == best {
			return best
		}
	}
	if a == alreadyGone && b == alreadyGone {
		return alreadyGone
	}
	return unknown
}
