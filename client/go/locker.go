// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"distlock.dev/client/go/internal/locktable"
)

// Locker is a sync.Locker over the whole fleet of processes: see Client.Locker.
type Locker struct {
	client  *Client
	key     string
	options []Option

	inside sync.Mutex // of this process: who has it holds the lock
	mu     sync.Mutex
	held   *Lock
}

var _ sync.Locker = (*Locker)(nil)

// Locker is for code that wants a sync.Locker, such as sync.NewCond. That interface cannot tell of a loss: code of your
// own should use Client.Lock or Client.Do, which can. Wait and Try do not count.
func (c *Client) Locker(key string, options ...Option) *Locker {
	return &Locker{client: c, key: key, options: options}
}

// Lock waits until the lock is granted, however long no broker or store answers. It panics when that can never be:
// after Close, and for a request that the broker refuses for another reason, such as a key that is too long.
func (l *Locker) Lock() {
	l.inside.Lock()
	options := append(l.options[:len(l.options):len(l.options)], forever)
	for {
		held, err := l.client.Lock(context.Background(), l.key, options...)
		if err == nil {
			l.mu.Lock()
			l.held = held
			l.mu.Unlock()
			return
		}
		var refused *RefusedError
		if !errors.As(err, &refused) || !mayPass(refused.Reason) {
			l.inside.Unlock()
			panic(fmt.Sprintf("distlock: Locker.Lock of %q: %v", l.key, err))
		}
		time.Sleep(min(max(refused.RetryAfter, 100*time.Millisecond), 2*time.Second))
	}
}

var forever = option(func(r *request) { r.wait = locktable.Forever })

func mayPass(reason Reason) bool {
	switch reason {
	case ReasonUnreachable, ReasonStoreUnavailable, ReasonQuorumNotReached, ReasonStoreHoldOff, ReasonDraining,
		ReasonQuotaExceeded, ReasonStoreFull, ReasonLeaseLost:
		return true
	}
	return false
}

// Unlock gives the lock back, as Lock.Close. It panics when the lock is not held by this Locker; a lock that was lost
// meanwhile is no reason.
func (l *Locker) Unlock() {
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	if held == nil {
		panic(fmt.Sprintf("distlock: Locker.Unlock of %q, which is not locked", l.key))
	}
	_ = held.Close()
	l.inside.Unlock()
}

// Held is the lock between Lock and Unlock, for its Token and Err; otherwise nil.
func (l *Locker) Held() *Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}
