// SPDX-License-Identifier: Apache-2.0

// Package k8slock has the leader election of client-go, which is that of controller-runtime, stand on a distlock broker
// instead of an API server: candidates in several clusters that share a broker have one leader.
//
//	lock := k8slock.New(dl, k8slock.Config{Election: "shop/controller", Identity: "eu-1/" + pod})
//	manager, err := ctrl.NewManager(config, ctrl.Options{
//		LeaderElection: true, LeaderElectionResourceLockInterface: lock})
//	err = lock.Run(ctx, manager.Start)
//
// With client-go alone it is lock.Elect(ctx, leaderelection.LeaderElectionConfig{...}).
//
// An elector looks every RetryPeriod and believes in its leadership for a RenewDeadline after the last good look. Run
// and Elect do not wait for that: they end the context of the work when the lock is lost, before anybody else can have
// it.
package k8slock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	distlock "distlock.dev/client/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	longestLook = 10 * time.Second // Get returns after this time even if the leader stays the same
	lastWord    = 5 * time.Second  // Run waits so long for the answer to its release
	others      = 15               // seconds that an elector takes another one's record for valid; each Get renews them
)

var (
	errNotRunning = errors.New("k8slock: no Run is going on: call Lock.Run with what runs the elector")
	errRunning    = errors.New("k8slock: Run is going on already: make one Lock for each elector")
	errSpent      = errors.New("k8slock: the work of the last Run failed and may still go on, so its lock is kept: " +
		"end the process")
)

// Config is one candidate of one election.
type Config struct {
	Election  string            // the key of the lock that is the leadership
	Namespace string            // of the lock; "": the default one
	Identity  string            // unlike that of any other candidate in any cluster; observers are shown it
	Options   []distlock.Option // of the lock, such as TTL and Owner; Wait and Try do not count
	OnEvent   func(text string) // gets "became leader" and "stopped leading"; may be nil
}

// Lock is a resourcelock.Interface. Make one for each elector.
type Lock struct {
	client *distlock.Client
	config Config

	mu     sync.Mutex
	run    context.Context // of Run; nil: none is going on
	lose   context.CancelCauseFunc
	held   *distlock.Lock // of this run, also when it was lost; nil: this one does not lead
	record resourcelock.LeaderElectionRecord
	led    bool   // this run has, or does
	seen   string // the holder id of the other leader that Get has told of last
	spent  bool
}

var _ resourcelock.Interface = (*Lock)(nil)

// New makes the lock of one candidate.
func New(client *distlock.Client, config Config) *Lock { return &Lock{client: client, config: config} }

// Run calls f, which runs the elector and the leader's work, such as the Start of a controller-runtime manager. f's
// context ends with ctx, and when the lock is lost: then Run returns f's error joined with a *distlock.LostError, and
// the next Run may lead again.
//
// f returns nil when its work is over. Then Run gives the lock back, so that the next candidate leads at once; the
// error wraps distlock.ErrUnknownOutcome when no answer came. When f returns an error, its work may still go on: the
// lock is kept until the process ends.
func (l *Lock) Run(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.mu.Lock()
	running, spent := l.run != nil, l.spent
	if !running && !spent {
		l.run, l.lose, l.led = ctx, cancel, false
	}
	l.mu.Unlock()
	switch {
	case running:
		return errRunning
	case spent:
		return errSpent
	}
	err := f(ctx)
	l.mu.Lock()
	held := l.held
	l.spent = err != nil && held != nil && held.Valid()
	kept := l.spent
	if l.run = nil; !kept {
		l.held = nil
	}
	l.mu.Unlock()
	if held == nil || kept {
		return err
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
	defer stop()
	_, given := held.Release(last)
	return errors.Join(err, given)
}

// Elect runs an elector of client-go in Run, until ctx ends or the lock is lost, and waits until OnStartedLeading has
// returned. It sets Lock; ReleaseOnCancel does not count, because the lock is given back after the work.
func (l *Lock) Elect(ctx context.Context, config leaderelection.LeaderElectionConfig) error {
	over, work := make(chan struct{}), config.Callbacks.OnStartedLeading
	config.Lock, config.ReleaseOnCancel = l, false
	if work != nil {
		config.Callbacks.OnStartedLeading = func(ctx context.Context) {
			defer close(over)
			work(ctx)
		}
	}
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		return err
	}
	return l.Run(ctx, func(ctx context.Context) error {
		elector.Run(ctx)
		l.mu.Lock()
		led := l.led
		l.mu.Unlock()
		if led {
			<-over
		}
		return nil
	})
}

// Token is the fencing token of the present leadership, 0 when this candidate does not lead. Write it with what the
// leader changes, and refuse to change what a greater one has written.
func (l *Lock) Token() int64 {
	if held := l.leading(); held != nil {
		return held.Token()
	}
	return 0
}

func (l *Lock) leading() *distlock.Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil && l.held.Valid() {
		return l.held
	}
	return nil
}

// Get is for the elector: who leads. LeaderTransitions is the fencing token. It returns when that has changed since the
// last Get, at the latest after 10 s, so that the next candidate leads at once.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if held := l.leading(); held != nil {
		l.mu.Lock()
		record := l.record
		l.mu.Unlock()
		return told(record, held.Token(), held.HolderID())
	}
	leader, err := l.look(ctx)
	if err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if leader == nil {
		l.seen = ""
		return nil, nil, apierrors.NewNotFound(
			schema.GroupResource{Group: "distlock.dev", Resource: "elections"}, l.config.Election)
	}
	l.seen = leader.HolderID
	record := resourcelock.LeaderElectionRecord{
		HolderIdentity: leader.Value, LeaseDurationSeconds: others, AcquireTime: metav1.NewTime(leader.AcquireTime)}
	if record.HolderIdentity == l.config.Identity || record.HolderIdentity == "" { // of a process before this one
		record.HolderIdentity += " as " + leader.HolderID
	}
	return told(record, leader.Token, leader.HolderID)
}

// told is the record of a leadership that was just seen.
func told(record resourcelock.LeaderElectionRecord, token int64, holder string) (
	*resourcelock.LeaderElectionRecord, []byte, error) {
	record.LeaderTransitions, record.RenewTime = int(token), metav1.Now()
	raw, err := json.Marshal(struct {
		resourcelock.LeaderElectionRecord
		FencingToken int64  `json:"fencingToken"`
		HolderID     string `json:"holderId"`
	}{record, token, holder})
	return &record, raw, err
}

// look is who leads, as soon as that is another one than was seen before.
func (l *Lock) look(ctx context.Context) (*distlock.Leadership, error) {
	l.mu.Lock()
	seen := l.seen
	l.mu.Unlock()
	if seen != "" {
		waiting, stop := context.WithTimeout(ctx, longestLook)
		defer stop()
		for leader, err := range l.client.Observe(waiting, l.config.Election, distlock.Namespace(l.config.Namespace)) {
			if err != nil || leader == nil || leader.HolderID != seen {
				return leader, err
			}
		}
	}
	return l.client.Leader(ctx, l.config.Election, distlock.Namespace(l.config.Namespace))
}

// Create is for the elector: it takes the lock, if nobody has it.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	run, lose, before := l.run, l.lose, l.held
	l.mu.Unlock()
	switch {
	case run == nil:
		return errNotRunning
	case before != nil: // lost: somebody else may have led since, and the work does not know yet
		return fmt.Errorf("k8slock: this run does not lead any more: %w", before.Err())
	}
	held, err := l.campaign(ctx, run)
	if err != nil {
		return err
	}
	l.mu.Lock()
	over := l.run != run
	if !over {
		l.held, l.led, l.record, l.seen = held, true, record, ""
	}
	l.mu.Unlock()
	if over {
		_ = held.Close()
		return errNotRunning
	}
	context.AfterFunc(held.Context(), func() {
		var lost *distlock.LostError
		if err := held.Err(); errors.As(err, &lost) {
			lose(err)
		}
	})
	return nil
}

// campaign tries once. The lock's context is that of the run; ctx ends the attempt alone.
func (l *Lock) campaign(ctx, run context.Context) (*distlock.Lock, error) {
	attempt, giveUp := context.WithCancel(run)
	stop := context.AfterFunc(ctx, giveUp)
	options := append([]distlock.Option{distlock.Namespace(l.config.Namespace)}, l.config.Options...)
	held, err := l.client.Campaign(attempt, l.config.Election, l.config.Identity, append(options, distlock.Try())...)
	if err != nil {
		giveUp()
		return nil, err
	}
	if !stop() {
		_ = held.Close()
		return nil, context.Cause(ctx)
	}
	return held, nil
}

// Update is for the elector: it succeeds while this candidate leads; without a holder it gives the lock back; otherwise
// it is Create.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	held := l.leading()
	switch {
	case held == nil:
		return l.Create(ctx, record)
	case record.HolderIdentity == "":
		return l.giveBack(ctx, held)
	}
	l.mu.Lock()
	l.record = record
	l.mu.Unlock()
	return nil
}

func (l *Lock) giveBack(ctx context.Context, held *distlock.Lock) error {
	l.mu.Lock()
	l.held = nil
	l.mu.Unlock()
	_, err := held.Release(ctx)
	return err
}

// RecordEvent is for the elector.
func (l *Lock) RecordEvent(text string) {
	if l.config.OnEvent != nil {
		l.config.OnEvent(text)
	}
}

// Identity is that of the candidate.
func (l *Lock) Identity() string { return l.config.Identity }

// Describe names the lock in the elector's log.
func (l *Lock) Describe() string { return "distlock " + l.config.Namespace + ":" + l.config.Election }
