// SPDX-License-Identifier: Apache-2.0

// Package gocronlock has schedulers of github.com/go-co-op/gocron/v2 on several hosts share their jobs over a distlock
// broker: with a Locker each run is on one host, with an Elector all runs are on one.
//
//	locker := gocronlock.NewLocker(dl, 30*time.Second)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//	_, err = scheduler.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(report), gocron.WithName("report"))
package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	distlock "distlock.dev/client/go"
	"github.com/go-co-op/gocron/v2"
)

const (
	longestPause  = 2 * time.Second // between two attempts to become the leader
	shortestPause = 100 * time.Millisecond
)

// Locker is a gocron.Locker. The lock of a run is named as its job.
type Locker struct {
	provider distlock.Provider
	options  []distlock.Option

	mu   sync.Mutex
	held map[string]*distlock.Lock
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker makes one. minHold: how long after its beginning a run counts for all hosts, even if it is over sooner.
// Clocks of hosts may differ by less than that, and the next run comes later: half of the period is a good choice.
// options are those of the lock, such as distlock.Namespace; with distlock.Wait(d) a host waits for d, and takes over
// the run of one that has died.
func NewLocker(provider distlock.Provider, minHold time.Duration, options ...distlock.Option) *Locker {
	first := []distlock.Option{distlock.Try(), distlock.MinHold(minHold)}
	return &Locker{provider: provider, options: append(first, options...), held: map[string]*distlock.Lock{}}
}

// Lock is for gocron: a *distlock.BusyError when another host has the run.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	held, err := l.provider.Lock(ctx, job, l.options...)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.held[job] = held
	l.mu.Unlock()
	return &run{l, held}, nil
}

// Held is the lock under which a job runs, for its Token, Err and Context: gocron does not tell a job that its lock was
// lost. nil while the job does not run here.
func (l *Locker) Held(job string) *distlock.Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[job]
}

type run struct {
	locker *Locker
	held   *distlock.Lock
}

// Unlock is for gocron. Errors are those of distlock.Lock.Release.
func (r *run) Unlock(ctx context.Context) error {
	r.locker.mu.Lock()
	if job := r.held.Key(); r.locker.held[job] == r.held { // else the next run has begun
		delete(r.locker.held, job)
	}
	r.locker.mu.Unlock()
	_, err := r.held.Release(ctx)
	return err
}

// ErrNotLeader is why an Elector lets no job run, joined with what keeps it from leading, if it is not another leader.
var ErrNotLeader = errors.New("gocronlock: this host does not lead")

// Elector is a gocron.Elector: one host leads until it ends, and the next one follows at once.
type Elector struct {
	stop context.CancelFunc
	over chan struct{}

	mu      sync.Mutex
	held    *distlock.Lock
	problem error
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector makes one, which is a candidate until Close. value: what observers of the election are told, such as the
// name of the host. options are those of the lock; Wait and Try do not count.
func NewElector(client *distlock.Client, election, value string, options ...distlock.Option) *Elector {
	ctx, stop := context.WithCancel(context.Background())
	e := &Elector{stop: stop, over: make(chan struct{})}
	go func() {
		defer close(e.over)
		for ctx.Err() == nil {
			held, err := client.Campaign(ctx, election, value, options...)
			e.set(held, err)
			if err == nil {
				<-held.Context().Done() // of ctx, too
				continue
			}
			pause(ctx, err)
		}
	}()
	return e
}

func pause(ctx context.Context, err error) {
	wait := shortestPause
	var refused *distlock.RefusedError
	if errors.As(err, &refused) {
		wait = min(max(wait, refused.RetryAfter), longestPause)
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

func (e *Elector) set(held *distlock.Lock, problem error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held, e.problem = held, problem
}

// IsLeader is for gocron. The clock is asked, not the broker. Errors wrap ErrNotLeader.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	held, problem := e.held, e.problem
	e.mu.Unlock()
	if held != nil {
		problem = held.Err()
	}
	switch {
	case problem != nil:
		return fmt.Errorf("%w: %w", ErrNotLeader, problem)
	case held == nil:
		return ErrNotLeader
	}
	return nil
}

// Held is the leadership, for its Token, Err and Context, also after its end; nil before the first one.
func (e *Elector) Held() *distlock.Lock {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.held
}

// Close ends the candidacy, and gives the leadership back. Shut the scheduler down before. Errors are those of
// distlock.Lock.Release.
func (e *Elector) Close(ctx context.Context) error {
	e.stop()
	<-e.over
	held := e.Held()
	if held == nil || held.Err() != nil {
		return nil
	}
	_, err := held.Release(ctx)
	return err
}
