// SPDX-License-Identifier: Apache-2.0

// Package redsync has the shape of github.com/go-redsync/redsync: the same mutex, methods, options and errors, over a
// distlock broker.
//
//	dl, err := distlock.Dial("")
//	rs := redsync.New(dl) // instead of redsync.New(pools...)
//	mutex := rs.NewMutex("report", redsync.WithTries(1))
//	if err := mutex.LockContext(ctx); err != nil { ... }
//	defer mutex.Unlock()
//
// What differs:
//
//   - The broker renews the lock. WithExpiry is no longer the time after which the lock is lost when nobody extends it:
//     it becomes max_hold, the most that one Lock may last, 1 s or more. Without it the lock lasts until it is unlocked
//     or its process ends.
//   - Extend cannot move the end of a max_hold: it returns ErrExtendFailed when WithExpiry was given; without it there
//     is nothing to extend, and it returns true while the lock is held.
//   - Lock does not poll: it waits in line for as long as its tries would have taken, (tries - 1) times the delay; by
//     default 31 times 150 ms. WithWait names another bound. With one try it does not queue.
//   - A lock that was lost is lost at once: Valid looks at the clock, and needs no connection.
//   - Value is the lease id; it cannot be chosen, so there is no WithValue. To hand a lock to another process use
//     distlock.Client.AcquireDetached. Mutex.Held has the fencing token, the context and the rest.
//   - WithDriftFactor, WithTimeoutFactor, WithFailFast, WithShufflePools, WithGenValueFunc and WithSetNXOnExtend have
//     no effect.
//
// Locks of redsync and of distlock do not exclude each other: stop all users of the one before the first of the other
// starts, or hold both.
package redsync

import (
	"context"
	"errors"
	"sync"
	"time"

	distlock "distlock.dev/client/go"
)

const (
	defaultTries = 32
	defaultDelay = 150 * time.Millisecond // the mean of redsync's 50 to 250 ms
)

// Redsync makes mutexes.
type Redsync struct {
	client  *distlock.Client
	options []distlock.Option
}

// New has mutexes use a client, with these options, such as distlock.Owner or distlock.Resume.
func New(client *distlock.Client, options ...distlock.Option) *Redsync {
	return &Redsync{client, options}
}

// NewMutex makes a mutex of that name.
func (r *Redsync) NewMutex(name string, options ...Option) *Mutex {
	made := &Mutex{client: r.client, name: name, options: r.options, tries: defaultTries,
		delay: func(int) time.Duration { return defaultDelay }, wait: -1}
	for _, one := range options {
		one.Apply(made)
	}
	return made
}

// Option is a setting of a mutex.
type Option interface{ Apply(*Mutex) }

// OptionFunc is an Option that is a function.
type OptionFunc func(*Mutex)

// Apply calls it.
func (f OptionFunc) Apply(mutex *Mutex) { f(mutex) }

// WithExpiry is the most that one Lock may last: see above.
func WithExpiry(expiry time.Duration) Option { return OptionFunc(func(m *Mutex) { m.expiry = expiry }) }

// WithTries is how often the lock would be tried, and so how long Lock waits. 1: it does not wait.
func WithTries(tries int) Option { return OptionFunc(func(m *Mutex) { m.tries = tries }) }

// WithRetryDelay is the pause between two tries, and so how long Lock waits.
func WithRetryDelay(delay time.Duration) Option {
	return WithRetryDelayFunc(func(int) time.Duration { return delay })
}

// DelayFunc is the pause after a number of tries.
type DelayFunc func(tries int) time.Duration

// WithRetryDelayFunc is the pause between two tries, and so how long Lock waits.
func WithRetryDelayFunc(delay DelayFunc) Option {
	return OptionFunc(func(m *Mutex) { m.delay = delay })
}

// WithWait is how long Lock waits, whatever the number of tries.
func WithWait(wait time.Duration) Option { return OptionFunc(func(m *Mutex) { m.wait = wait }) }

func noEffect(*Mutex) {}

// WithDriftFactor has no effect: the broker knows the drift of the clocks.
func WithDriftFactor(float64) Option { return OptionFunc(noEffect) }

// WithTimeoutFactor has no effect.
func WithTimeoutFactor(float64) Option { return OptionFunc(noEffect) }

// WithFailFast has no effect.
func WithFailFast(bool) Option { return OptionFunc(noEffect) }

// WithShufflePools has no effect.
func WithShufflePools(bool) Option { return OptionFunc(noEffect) }

// WithGenValueFunc has no effect: the broker chooses the value.
func WithGenValueFunc(func() (string, error)) Option { return OptionFunc(noEffect) }

// WithSetNXOnExtend has no effect: a lost lock never comes back.
func WithSetNXOnExtend() Option { return OptionFunc(noEffect) }

// Mutex is a mutex of all processes. Any goroutine may use it; it is held at most once at a time.
type Mutex struct {
	client  *distlock.Client
	name    string
	options []distlock.Option
	expiry  time.Duration
	tries   int
	delay   DelayFunc
	wait    time.Duration // below 0: by tries and delay

	mu   sync.Mutex
	held *distlock.Lock // nil before the first Lock
}

// Name is the mutex's name.
func (m *Mutex) Name() string { return m.name }

// Held is the lock of the last Lock, also after its end; nil before the first.
func (m *Mutex) Held() *distlock.Lock {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// Value is the lease id of the lock, which is secret; "" before the first Lock.
func (m *Mutex) Value() string {
	if held := m.Held(); held != nil {
		return held.LeaseID()
	}
	return ""
}

// Until is when the lock ends without further word from the broker, which prolongs it; the zero time when it is not
// held.
func (m *Mutex) Until() time.Time {
	if held := m.Held(); held != nil {
		return held.Deadline()
	}
	return time.Time{}
}

// TryLock is TryLockContext without a context.
func (m *Mutex) TryLock() error { return m.TryLockContext(context.Background()) }

// TryLockContext asks once: ErrTaken when others hold the lock.
func (m *Mutex) TryLockContext(ctx context.Context) error { return m.lock(ctx, 0) }

// Lock is LockContext without a context.
func (m *Mutex) Lock() error { return m.LockContext(context.Background()) }

// LockContext waits for the lock: ErrTaken when others hold it all the time, RedisError when no broker or no store
// answers. Other errors are those of distlock.Client.Lock.
func (m *Mutex) LockContext(ctx context.Context) error {
	wait := m.wait
	if wait < 0 {
		wait = 0
		for try := 1; try < m.tries; try++ {
			wait += max(m.delay(try), time.Millisecond)
		}
	}
	return m.lock(ctx, wait)
}

func (m *Mutex) lock(ctx context.Context, wait time.Duration) error {
	options := append(m.options[:len(m.options):len(m.options)], distlock.Wait(wait), distlock.MaxHold(m.expiry))
	held, err := m.client.Lock(ctx, m.name, options...)
	if err != nil {
		return errorOf(err)
	}
	m.mu.Lock()
	m.held = held
	m.mu.Unlock()
	return nil
}

// Unlock is UnlockContext without a context.
func (m *Mutex) Unlock() (bool, error) { return m.UnlockContext(context.Background()) }

// UnlockContext gives the lock back, and waits for the answer. False and ErrLockAlreadyExpired when it was lost or
// unlocked before.
func (m *Mutex) UnlockContext(ctx context.Context) (bool, error) {
	held := m.Held()
	if held == nil {
		return false, ErrLockAlreadyExpired
	}
	outcome, err := held.Release(ctx)
	if outcome == distlock.AlreadyGone {
		return false, errors.Join(ErrLockAlreadyExpired, err)
	}
	return err == nil, err
}

// Extend is ExtendContext without a context.
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) }

// ExtendContext has nothing to do while the broker renews the lock: true while it is held. ErrExtendFailed: see there.
func (m *Mutex) ExtendContext(ctx context.Context) (bool, error) {
	if ok, err := m.ValidContext(ctx); !ok || m.expiry > 0 {
		return false, errors.Join(ErrExtendFailed, err)
	}
	return true, nil
}

// Valid is ValidContext without a context.
func (m *Mutex) Valid() (bool, error) { return m.ValidContext(context.Background()) }

// ValidContext tells whether the lock is held, by the clock, at this moment.
func (m *Mutex) ValidContext(context.Context) (bool, error) {
	held := m.Held()
	return held != nil && held.Valid(), nil
}
