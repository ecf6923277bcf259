// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/locktable"
)

// closeTime is how long Close waits for the answer to a release that leaves a block.
const closeTime = time.Second

// Lock is a lock that is held. Any goroutine may use it. One that nothing refers to any more, neither by itself nor by
// its Context, is given back, and the log says so; a channel of Context.Done alone does not count.
type Lock struct {
	_      noCopy  // a copy would be given back with this one
	client *Client // which ends with its last lock, when it is dropped
	*holding
}

// noCopy has go vet refuse copies of what it is in.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// holding is what the lock table knows of a Lock. It does not refer to that, so that it can be dropped.
type holding struct {
	core   *core
	key    string
	lease  *locktable.Lease
	parent context.Context

	mu     sync.Mutex
	inner  context.Context // made by the first call of Lock.Context
	cancel context.CancelCauseFunc
	over   error // ErrReleased or a *LostError; nil: not yet
}

// newLock is the handle of a lease, which is given back when the handle is dropped.
func newLock(client *Client, of *holding) *Lock {
	lock := &Lock{client: client, holding: of}
	runtime.SetFinalizer(lock, func(lock *Lock) { go lock.holding.drop() }) // no finalizer may wait for the mutex
	return lock
}

func (h *holding) drop() {
	if h.release(nil) {
		slog.Warn(fmt.Sprintf("distlock: the lock %q was given back because its handle was dropped: keep what Lock "+
			"returns, and Close it", h.key))
	}
}

// lockContext looks at the clock itself, so that it has ended after the deadline, even before any goroutine of this
// package has noticed.
type lockContext struct {
	context.Context
	lock *Lock // which is not dropped while its context is used
}

func (c *lockContext) Done() <-chan struct{} {
	c.lock.Valid()
	return c.Context.Done()
}

func (c *lockContext) Err() error {
	c.lock.Valid()
	return c.Context.Err()
}

// Key is the lock's name.
func (l *Lock) Key() string { return l.key }

// Token is the fencing token: it grows with each grant of this lock and stays below 2^53. Pass it to the resource that
// the lock protects, and let that refuse smaller ones.
func (l *Lock) Token() int64 { return l.lease.Token }

// HoldCount is 1; greater when the lock was taken again by re-entry.
func (l *Lock) HoldCount() int { return int(l.lease.HoldCount) }

// Waited is how long the broker let this request wait.
func (l *Lock) Waited() time.Duration { return l.lease.Waited }

// HolderID is this holder's public name. A new one after a move to another broker.
func (l *Lock) HolderID() string {
	l.core.mu.Lock()
	defer l.core.mu.Unlock()
	return l.lease.HolderID
}

// LeaseID is secret: whoever knows it can release the lock. A new one after a move to another broker.
func (l *Lock) LeaseID() string {
	l.core.mu.Lock()
	defer l.core.mu.Unlock()
	return l.lease.LeaseID
}

// Valid tells whether the lock is held, by the clock, at this moment: never true after its deadline, even when the
// process was stopped or the machine suspended. It is cheap: no call to the broker. False after a release.
func (l *Lock) Valid() bool {
	if l.core.held(l.lease) {
		return true
	}
	l.lost()
	return false
}

// ValidFor is how long the lock is held without further word from the broker; 0 when it is not. Renewals, which need
// nothing from the program, prolong it.
func (l *Lock) ValidFor() time.Duration {
	if !l.Valid() {
		return 0
	}
	return max(l.lease.Deadline()-l.core.now(), 0)
}

// Deadline is ValidFor from now, by time.Now, which may jump and stands still in suspend: for people. The zero time
// when the lock is not held.
func (l *Lock) Deadline() time.Time {
	left := l.ValidFor()
	if left == 0 {
		return time.Time{}
	}
	return time.Now().Add(left)
}

// AtRisk tells whether the lock is held, but renewals or heartbeats fail, or its stream broke. Finish before the
// deadline.
func (l *Lock) AtRisk() bool {
	l.core.mu.Lock()
	risk := l.core.table.AtRisk(l.lease, l.core.now())
	l.core.mu.Unlock()
	return risk && l.Valid()
}

// Err is nil while the lock is held, ErrReleased after a release, and a *LostError when it was lost.
func (l *Lock) Err() error {
	if l.Valid() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// Context derives from the one that the lock was acquired with, and ends with the lock: context.Cause is a *LostError
// when it was lost, ErrReleased after a release.
func (l *Lock) Context() context.Context {
	l.mu.Lock()
	if l.inner == nil {
		l.inner, l.cancel = context.WithCancelCause(l.parent)
		if l.over != nil {
			l.cancel(l.over)
		}
	}
	inner := l.inner
	l.mu.Unlock()
	l.Valid() // a lock that was lost just now
	return &lockContext{inner, l}
}

// Release gives the lock back, and waits for the broker's answer until ctx ends. The lock is freed in any case. The
// error is nil when the outcome is Released or StillHeld; a *LostError when the lock was lost before, ErrReleased when
// this program had given it back already; otherwise it wraps ErrUnknownOutcome.
func (l *Lock) Release(ctx context.Context) (Outcome, error) {
	answer := make(chan Outcome, 1)
	if !l.release(func(outcome pb.ReleaseOutcome) { answer <- outcomeOf(outcome) }) {
		return AlreadyGone, l.Err()
	}
	return l.awaitRelease(ctx, answer)
}

func (l *Lock) awaitRelease(ctx context.Context, answer chan Outcome) (Outcome, error) {
	select {
	case outcome := <-answer:
		switch outcome {
		case Released, StillHeld:
			return outcome, nil
		case AlreadyGone:
			return outcome, &LostError{l.Key(), CauseTaken, "it had ended before the release arrived"}
		}
		return outcome, ErrUnknownOutcome
	case <-ctx.Done():
		return OutcomeUnknown, fmt.Errorf("%w: %w", ErrUnknownOutcome, context.Cause(ctx))
	}
}

// Close sends the release and waits for nothing, but with MinHold for the answer, for at most a second: a process that
// ended sooner would take the release along, and its death leaves no block. Commands keep their order, so that the next
// acquire of the lock by this client finds it free. The error is a *LostError when the lock was lost before; closing
// twice does nothing.
func (l *Lock) Close() error {
	if l.lease.Spec.MinHold == nil {
		if l.release(nil) {
			return nil
		}
	} else if answer := make(chan struct{}); l.release(func(pb.ReleaseOutcome) { close(answer) }) {
		select {
		case <-answer:
		case <-time.After(closeTime):
		}
		return nil
	}
	if err := l.Err(); err != ErrReleased {
		return err
	}
	return nil
}

// release returns false when the lock had ended before.
func (l *Lock) release(tell func(pb.ReleaseOutcome)) bool {
	runtime.SetFinalizer(l, nil)
	return l.holding.release(tell)
}

func (h *holding) release(tell func(pb.ReleaseOutcome)) bool {
	given := false
	h.core.do(func(now time.Duration, fx *locktable.Effects) {
		if h.lease.Phase() != locktable.Held {
			return
		}
		if given = now < h.lease.Deadline(); !given {
			tell = nil
		}
		h.core.table.Release(h.lease, tell, now, fx)
	})
	if given {
		h.finish(ErrReleased)
	} else {
		h.lost()
	}
	return given
}

// lost is told by the table, of a lease that is not held any more.
func (h *holding) lost() {
	if h.lease.Cause == locktable.CauseGivenBack {
		h.finish(ErrReleased)
	} else {
		h.finish(&LostError{h.key, Cause(h.lease.Cause), inWords(h.lease.Message)})
	}
}

// finish ends the context, once.
func (h *holding) finish(err error) {
	h.mu.Lock()
	known := h.over != nil
	if !known {
		h.over = err
	}
	cancel := h.cancel
	h.mu.Unlock()
	if known {
		return
	}
	if cancel != nil {
		cancel(err)
	}
	if h.core.observer != (NopObserver{}) { // saves a system call
		h.core.observer.Ended(h.parent, h.key, err, h.core.now()-h.lease.HeldAt)
	}
}

// Downgrade makes an exclusive lock shared, without a gap. There is no way back.
func (l *Lock) Downgrade(ctx context.Context) error {
	return l.ask(ctx, func(tell func(*locktable.Refusal), _ time.Duration, fx *locktable.Effects) {
		l.core.table.Downgrade(l.lease, tell, fx)
	})
}

// Proclaim changes the value that observers are told of a leader, in office. The token stays.
func (l *Lock) Proclaim(ctx context.Context, value string) error {
	return l.ask(ctx, func(tell func(*locktable.Refusal), now time.Duration, fx *locktable.Effects) {
		l.core.table.Proclaim(l.lease, map[string]string{electionValue: value}, tell, now, fx)
	})
}

// ask has the table do something with the lease, and waits for the answer. When ctx ends first, it may still be done.
func (l *Lock) ask(ctx context.Context, send func(func(*locktable.Refusal), time.Duration, *locktable.Effects)) error {
	if err := l.Err(); err != nil {
		return err
	}
	answer := make(chan *locktable.Refusal, 1)
	l.core.do(func(now time.Duration, fx *locktable.Effects) {
		send(func(refusal *locktable.Refusal) { answer <- refusal }, now, fx)
	})
	select {
	case refusal := <-answer:
		if refusal == nil {
			return nil
		}
		return refusedError(refusal)
	case <-ctx.Done():
		return ended(ctx)
	}
}

func (l *Lock) String() string {
	state := "held"
	if err := l.Err(); err != nil {
		state = err.Error()
	}
	return fmt.Sprintf("lock %q, token %d: %s", l.Key(), l.Token(), state)
}
