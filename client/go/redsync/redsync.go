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
// The differences:
//
//   - The broker renews the lock, so that a program that has died holds it no longer than a few seconds. WithExpiry is
//     a time of this process: the mutex gives the lock back then, and Extend moves that, as often as you like. Without
//     WithExpiry the lock lasts until it is unlocked or its process ends, and there is nothing to extend.
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
	"sync"
	"time"

	distlock "distlock.dev/client/go"
	"distlock.dev/client/go/internal/clock"
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

// WithExpiry is how long the lock lasts after Lock and after each Extend.
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

	mu    sync.Mutex
	held  *distlock.Lock // nil before the first Lock
	until time.Duration  // of clock.Now: the end by expiry
	timer *time.Timer    // nil without expiry; it only wakes, until decides
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

// Until is when the lock ends by its expiry; without one, when it ends without further word from the broker, which
// prolongs it. The zero time when it is not held.
func (m *Mutex) Until() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.valid():
		return time.Time{}
	case m.timer != nil:
		return time.Now().Add(m.until - clock.Now())
	}
	return m.held.Deadline()
}

// valid gives the lock back when its time is over. Under the mutex.
func (m *Mutex) valid() bool {
	if m.held != nil && m.timer != nil && clock.Now() >= m.until {
		_ = m.held.Close()
	}
	return m.held != nil && m.held.Valid()
}

// extend has the lock last for the expiry from now on. Under the mutex.
func (m *Mutex) extend() {
	if m.expiry <= 0 {
		return
	}
	if m.until = clock.Now() + m.expiry; m.timer != nil {
		m.timer.Reset(m.expiry)
		return
	}
	m.timer = time.AfterFunc(m.expiry, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.valid() {
			m.timer.Reset(max(m.until-clock.Now(), time.Millisecond))
		}
	})
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
	options := append(m.options[:len(m.options):len(m.options)], distlock.Wait(wait))
	held, err := m.client.Lock(ctx, m.name, options...)
	if err != nil {
		return errorOf(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = held
	m.extend()
	return nil
}

// Unlock is UnlockContext without a context.
func (m *Mutex) Unlock() (bool, error) { return m.UnlockContext(context.Background()) }

// UnlockContext gives the lock back, and waits for the answer. False and ErrLockAlreadyExpired when it was lost or
// unlocked before.
func (m *Mutex) UnlockContext(ctx context.Context) (bool, error) {
	m.mu.Lock()
	held := m.held
	m.valid()
	if m.timer != nil {
		m.timer.Stop()
	}
	m.mu.Unlock()
	if held == nil {
		return false, expired(nil)
	}
	outcome, err := held.Release(ctx)
	if outcome == distlock.AlreadyGone {
		return false, expired(err)
	}
	return err == nil, err
}

// Extend is ExtendContext without a context.
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) }

// ExtendContext has the lock last for the expiry from now on, without a call to the broker. False and ErrExtendFailed
// when it is not held any more.
func (m *Mutex) ExtendContext(context.Context) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.valid() {
		return false, ErrExtendFailed
	}
	m.extend()
	return true, nil
}

// Valid is ValidContext without a context.
func (m *Mutex) Valid() (bool, error) { return m.ValidContext(context.Background()) }

// ValidContext tells whether the lock is held, by the clock, at this moment.
func (m *Mutex) ValidContext(context.Context) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.valid(), nil
}
