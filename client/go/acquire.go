// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	pb "distlock.dev/client/go/distlockv1"
)

// Lock takes a lock alone, and waits for it as Wait or Try say, otherwise until ctx ends. Then the request is
// withdrawn, and the error wraps ctx's. Other errors are a *BusyError, *UnavailableError, *InvalidRequestError, another
// *RefusedError, or ErrClosed.
//
// Lock.Context derives from ctx: to bound the wait alone use Wait rather than a deadline of ctx.
func (c *Client) Lock(ctx context.Context, key string, options ...Option) (*Lock, error) {
	return c.one(ctx, Want{Key: key}, options)
}

// RLock takes a lock for reading: beside other readers, and never beside Lock. Errors are those of Lock.
func (c *Client) RLock(ctx context.Context, key string, options ...Option) (*Lock, error) {
	return c.one(ctx, Want{Key: key, Mode: ModeShared}, options)
}

// Permits takes n permits of a semaphore that has limit. A caller with another limit waits until the present holders
// are gone; from then on its limit counts. Errors are those of Lock.
func (c *Client) Permits(ctx context.Context, key string, limit, n int, options ...Option) (*Lock, error) {
	return c.one(ctx, Permit(key, limit, n), options)
}

// Campaign waits for leadership of an election, which is the lock of that name. value: what observers are told; change
// it by Lock.Proclaim. Errors are those of Lock.
func (c *Client) Campaign(ctx context.Context, election, value string, options ...Option) (*Lock, error) {
	entry := option(func(r *request) {
		if _, taken := r.spec.Metadata[electionValue]; taken {
			r.fail("metadata", "has an entry "+electionValue+", under which an election shows its value: give that as the value")
			return
		}
		Metadata(map[string]string{electionValue: value}).apply(r)
	})
	return c.one(ctx, Want{Key: election, Options: []Option{entry}}, options)
}

func (c *Client) one(ctx context.Context, want Want, options []Option) (*Lock, error) {
	held, err := c.all(ctx, []Want{want}, options)
	if err != nil {
		return nil, err
	}
	return newLock(c, &held[0]), nil
}

// LockAll takes up to 64 different locks, all or nothing. The broker takes them in one order, so that callers which
// name them in different orders do not wait for each other in a circle. options are those of all; see Keys, Shared and
// Permit. Errors are those of Lock.
func (c *Client) LockAll(ctx context.Context, wants []Want, options ...Option) (Locks, error) {
	if len(wants) == 0 {
		return nil, invalid("wants", "is empty; name at least one lock")
	}
	held, err := c.all(ctx, wants, options)
	if err != nil {
		return nil, err
	}
	locks := make(Locks, len(held))
	for i := range held {
		locks[i] = newLock(c, &held[i])
	}
	return locks, nil
}

func (c *Client) all(ctx context.Context, wants []Want, options []Option) ([]holding, error) {
	defer runtime.KeepAlive(c)
	made := &struct { // one allocation for all that one lock needs
		holding [1]holding
		spec    [1]*pb.LockSpec
		key     [1]string
	}{}
	held, specs, keys := made.holding[:], made.spec[:], made.key[:]
	if n := len(wants); n > 1 {
		held, specs, keys = make([]holding, n), make([]*pb.LockSpec, n), make([]string, n)
	}
	call, err := c.request(wants, options, specs, keys)
	if err != nil {
		return nil, err
	}
	mode := Mode(specs[0].Mode)
	for _, spec := range specs {
		if Mode(spec.Mode) != mode {
			mode = 0
		}
	}
	observer, began := c.core.observer, time.Now()
	ctx = observer.Acquiring(ctx, keys, mode)
	for i := range held {
		held[i].core, held[i].key, held[i].parent = c.core, keys[i], ctx
	}
	err = c.acquire(ctx, held, specs, call)
	observer.Answered(ctx, err, time.Since(began))
	return held, err
}

// request makes the specifications of several wants, and what holds for the whole call.
func (c *Client) request(wants []Want, options []Option, specs []*pb.LockSpec, keys []string) (request, error) {
	var call request
	known := false
	for i, want := range wants {
		made := want.request(c.core.defaults, options, want.Options)
		if made.problem != nil {
			return call, made.problem
		}
		specs[i], keys[i] = made.spec, want.Key
		if len(want.Options) == 0 { // it has what holds for the whole call
			call, known = made, true
		}
	}
	if !known {
		call = Want{}.request(c.core.defaults, options)
	}
	return call, nil
}

func (c *Client) acquire(ctx context.Context, held []holding, specs []*pb.LockSpec, call request) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	var onQueued func(*pb.AcquireQueued)
	if tell := call.onQueued; tell != nil {
		onQueued = func(wire *pb.AcquireQueued) {
			queued := Queued{int(wire.Position), holdersOf(wire.Holders), blockOf(wire.Block)}
			c.core.callbacks.run(func() { tell(queued) })
		}
	}
	return c.core.acquire(ctx, held, specs, call.wait, onQueued)
}

// Do calls f while it holds the lock. f's context is Lock.Context: it ends when the lock is lost. Afterwards the lock
// is given back as by Lock.Close. When it was lost, the error wraps a *LostError, together with what f returned, if
// that is something else than the end of its context. Other errors are f's, or those of Lock.
func (c *Client) Do(ctx context.Context, key string, f func(ctx context.Context, token int64) error,
	options ...Option) error {
	lock, err := c.Lock(ctx, key, options...)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // for a panic of f
	err = f(lock.Context(), lock.Token())
	lost := lock.Close()
	if lost == nil {
		return err
	}
	if err == nil || errors.Is(err, context.Canceled) {
		return lost
	}
	return errors.Join(err, lost)
}

// Locks are several that were taken together, in the order of the request.
type Locks []*Lock

// Tokens are their fencing tokens.
func (l Locks) Tokens() []int64 {
	tokens := make([]int64, len(l))
	for i, lock := range l {
		tokens[i] = lock.Token()
	}
	return tokens
}

// Valid tells whether all are held at this moment.
func (l Locks) Valid() bool { return l.Err() == nil }

// Err is that of the first one that is not held, or nil.
func (l Locks) Err() error {
	for _, lock := range l {
		if err := lock.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Context ends when any of them ends, with that one's cause. It derives from the first one's context. Call stop when
// you are done with it.
func (l Locks) Context() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(l[0].Context())
	var stops []func() bool
	for _, lock := range l[1:] {
		one := lock.Context()
		stops = append(stops, context.AfterFunc(one, func() { cancel(context.Cause(one)) }))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(context.Canceled)
	}
}

// Release gives all back, and waits for the answers until ctx ends. Errors are those of Lock.Release, joined.
func (l Locks) Release(ctx context.Context) ([]Outcome, error) {
	answers, outcomes := make([]chan Outcome, len(l)), make([]Outcome, len(l))
	for i, lock := range l {
		answer := make(chan Outcome, 1)
		if lock.release(func(outcome pb.ReleaseOutcome) { answer <- outcomeOf(outcome) }) {
			answers[i] = answer
		}
	}
	var problems []error
	for i, lock := range l {
		outcome, err := AlreadyGone, error(nil)
		if answers[i] != nil {
			outcome, err = lock.awaitRelease(ctx, answers[i])
		} else {
			err = lock.Err()
		}
		outcomes[i] = outcome
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", lock.Key(), err))
		}
	}
	return outcomes, errors.Join(problems...)
}

// Close closes each. The error is a *LostError for each that was lost before.
func (l Locks) Close() error {
	var problems []error
	for _, lock := range l {
		problems = append(problems, lock.Close())
	}
	return errors.Join(problems...)
}
