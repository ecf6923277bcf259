// SPDX-License-Identifier: Apache-2.0

package redsync

import (
	"errors"
	"fmt"

	distlock "distlock.dev/client/go"
)

var (
	// ErrFailed: the lock was not granted in time. errors.As finds the *distlock.BusyError.
	ErrFailed = errors.New("redsync: failed to acquire lock")

	// ErrExtendFailed: the lock is not held any more.
	ErrExtendFailed = errors.New("redsync: failed to extend lock")

	// ErrLockAlreadyExpired: the lock was lost before it was unlocked. errors.As finds the *distlock.LostError.
	ErrLockAlreadyExpired = errors.New("redsync: failed to unlock, lock was already expired")
)

// ErrTaken says that others hold the lock. It wraps ErrFailed. Nodes is always that of the broker: 0.
type ErrTaken struct {
	Nodes []int
	busy  *distlock.BusyError
}

func (err ErrTaken) Error() string { return fmt.Sprintf("lock already taken: %v", err.busy) }

// Unwrap gives ErrFailed, a *ErrNodeTaken and the *distlock.BusyError.
func (err ErrTaken) Unwrap() []error { return []error{ErrFailed, &ErrNodeTaken{}, err.busy} }

// ErrNodeTaken says the same of one node. Node is always that of the broker: 0.
type ErrNodeTaken struct{ Node int }

func (err ErrNodeTaken) Error() string { return fmt.Sprintf("node #%d: lock already taken", err.Node) }

// RedisError says that no broker answered in time, or that its store did not. Node is always that of the broker: 0.
type RedisError struct {
	Node int
	Err  error // a *distlock.UnavailableError
}

func (err RedisError) Error() string { return fmt.Sprintf("node #%d: %v", err.Node, err.Err) }

// Unwrap gives Err.
func (err RedisError) Unwrap() error { return err.Err }

// errorOf is redsync's error for one of distlock.Client.Lock.
func errorOf(err error) error {
	var busy *distlock.BusyError
	var away *distlock.UnavailableError
	switch {
	case errors.As(err, &busy):
		return &ErrTaken{Nodes: []int{0}, busy: busy}
	case errors.As(err, &away):
		return &RedisError{Err: err}
	}
	return err
}

// expired is what Unlock returns of a lock that is gone. Programs look for ErrLockAlreadyExpired in it, or, as redsync
// wraps that, in errors.Unwrap of it.
func expired(why error) error { return fmt.Errorf("%w", errors.Join(ErrLockAlreadyExpired, why)) }
