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
	oneTry     bool
	stranded   time.Duration // since when no broker has this request; Never: one has
	timeout    timeout
	link       *Link // the session it was sent through
	turnedAway bool  // refused by a draining broker
	sent       bool
	bytes      int
	requestID  string
}

// Answered tells whether the program has its answer. Guarded by the table's mutex.
func (r *Request) Answered() bool { return r.answer == nil }

func (r *Request) first() int64 { return r.Leases[0].id }

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

	id         int64
	request    *Request
	phase      atomic.Int32
	deadline   atomic.Int64
	risk       string // why renewals fail; "": they do not
	downgraded bool
	modeUnsure bool  // a downgrade may have been carried out
	stays      bool  // no session can adopt it
	link       *Link // the session that has it; nil: its former promise is all that is left
	move       *move
	former     *Link // of a waiting one: the session it has left, until the next has its place
	crossed    bool  // that session has granted it: to be given back there
	change     *change
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

// change is what others are to see of a lease, until a session shows it.
type change struct {
	spec *pb.LockSpec
	sent *pb.LockSpec // by the adoption that is under way
	told []func(*Refusal)
}

// move is an adoption, from the first AdoptLease until it is answered. All holds of a reentrant lease move together.
type move struct {
	requestID string // the same in every try: a try whose answer was lost may have succeeded
	through   *Link  // the session that was asked
	id        int64
	holds     []*Lease // nil: that one is answered, or given up
}

// leftover is a lease that ended while no session had it: the next one adopts it and releases it then.
type leftover struct {
	lease     *Lease
	requestID string
	lapsed    bool
}

// pendingRelease is a release that is not answered. Of two for one lease, at both of its sessions, the later answer
// ends both.
type pendingRelease struct {
	tell   func(pb.ReleaseOutcome)
	link   *Link
	twin   int64
	ofTwin pb.ReleaseOutcome // 0: not answered
	heard  bool              // the twin is answered
}

// pendingDowngrade is a downgrade that is not answered. link nil: not sent, because the lease is on its way.
type pendingDowngrade struct {
	id    int64
	tell  func(*Refusal)
	lease *Lease
	link  *Link
}
