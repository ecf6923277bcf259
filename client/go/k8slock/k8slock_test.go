// SPDX-License-Identifier: Apache-2.0

package k8slock

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
	"distlock.dev/client/go/distlocktest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const patience = 30 * time.Second

var (
	background = context.Background()
	written    = resourcelock.LeaderElectionRecord{HolderIdentity: "mine", LeaseDurationSeconds: 15}
)

func check(t *testing.T, ok bool, what string, values ...any) {
	t.Helper()
	if !ok {
		t.Fatalf("not so: "+what, values...)
	}
}

func isLost(err error) bool {
	var lost *distlock.LostError
	return errors.As(err, &lost)
}

// candidate is a lock with a real elector, until stop. It would take an hour to notice a loss by itself.
type candidate struct {
	*Lock
	leads chan int64    // its tokens
	told  chan string   // the leaders that it is told of
	ended chan error    // of Elect
	over  atomic.Bool   // the work of the leader
	busy  chan struct{} // the work goes on until this is closed; nil: it ends with its context
	stop  context.CancelFunc
}

func campaign(t *testing.T, broker *distlocktest.Broker, identity string) *candidate {
	t.Helper()
	c := &candidate{leads: make(chan int64, 10), told: make(chan string, 10), ended: make(chan error, 1)}
	c.Lock = New(broker.Client(), Config{Election: "e", Identity: identity})
	c.start(t)
	return c
}

func (c *candidate) start(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(background)
	c.stop = stop
	t.Cleanup(stop)
	go func() {
		c.ended <- c.Elect(ctx, leaderelection.LeaderElectionConfig{
			LeaseDuration: 2 * time.Hour, RenewDeadline: time.Hour, RetryPeriod: 10 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					c.leads <- c.Token()
					<-ctx.Done()
					if c.busy != nil {
						<-c.busy
					}
					c.over.Store(true)
				},
				OnStoppedLeading: func() {},
				OnNewLeader:      func(identity string) { c.told <- identity },
			}})
	}()
}

func within[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		t.Fatalf("no %s within %v", what, patience)
		panic("not reached")
	}
}

func TestTheNextCandidateLeadsWhenTheFirstIsDone(t *testing.T) {
	broker := distlocktest.New()
	first := campaign(t, broker, "eu/1")
	token := within(t, "leader", first.leads)
	second := campaign(t, broker, "us/1")
	check(t, within(t, "word of the leader", second.told) == "eu/1", "the other is told who leads")
	check(t, token > 0 && first.Token() == token && second.Token() == 0, "%d %d", token, first.Token())
	first.stop()
	check(t, within(t, "end", first.ended) == nil && first.over.Load(), "its work is over, and it has given back")
	check(t, within(t, "second leader", second.leads) > token && first.Token() == 0, "a greater token")
	check(t, within(t, "word of the leader", second.told) == "us/1", "it is told of itself")
}

func TestTheLockIsKeptUntilTheWorkIsOver(t *testing.T) {
	broker := distlocktest.New()
	mine := &candidate{leads: make(chan int64, 1), told: make(chan string, 10), ended: make(chan error, 1),
		busy: make(chan struct{}), Lock: New(broker.Client(), Config{Election: "e", Identity: "mine"})}
	mine.start(t)
	within(t, "leader", mine.leads)
	mine.stop()
	select {
	case err := <-mine.ended:
		t.Fatalf("it ends before its work: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	check(t, mine.Token() > 0, "it still has the lock")
	close(mine.busy)
	check(t, within(t, "end", mine.ended) == nil && mine.over.Load() && mine.Token() == 0, "then it gives back")
}

func TestALossEndsTheRunAtOnce(t *testing.T) {
	broker := distlocktest.New()
	mine := campaign(t, broker, "mine")
	token := within(t, "leader", mine.leads)
	broker.Lose("", "e", distlock.CauseForced)
	err := within(t, "end", mine.ended)
	check(t, isLost(err) && mine.over.Load(), "%v", err)
	mine.start(t)
	check(t, within(t, "leader", mine.leads) > token, "the next run may lead")
}

func TestABrokerThatIsAwayEndsTheRunBeforeAnotherLeads(t *testing.T) {
	broker := distlocktest.New()
	mine := campaign(t, broker, "mine")
	token := within(t, "leader", mine.leads)
	broker.Freeze()
	broker.Advance(2900 * time.Millisecond)
	check(t, mine.Token() == token, "it leads until its deadline")
	broker.Advance(200 * time.Millisecond)
	check(t, isLost(within(t, "end", mine.ended)) && mine.Token() == 0, "then not any more")
}

// running calls f in a Run, and returns its error.
func running(lock *Lock, f func(ctx context.Context)) error {
	return lock.Run(background, func(ctx context.Context) error {
		f(ctx)
		return nil
	})
}

func TestARunThatHasLostNeverLeadsAgain(t *testing.T) {
	broker := distlocktest.New()
	lock := New(broker.Client(), Config{Election: "e", Identity: "mine"})
	err := running(lock, func(ctx context.Context) {
		check(t, lock.Create(ctx, written) == nil && lock.Update(ctx, written) == nil, "it leads")
		broker.Lose("", "e", distlock.CauseExpired)
		<-ctx.Done()
		check(t, isLost(context.Cause(ctx)), "%v", context.Cause(ctx))
		_, _, err := lock.Get(background)
		check(t, apierrors.IsNotFound(err), "nobody leads: %v", err)
		check(t, isLost(lock.Update(background, written)) && isLost(lock.Create(background, written)), "refused")
	})
	check(t, isLost(err), "%v", err)
}

func TestWithoutRunNobodyLeads(t *testing.T) {
	lock := New(distlocktest.New().Client(), Config{Election: "e", Identity: "mine"})
	check(t, lock.Create(background, written) == errNotRunning, "refused before")
	err := running(lock, func(context.Context) {
		check(t, running(lock, func(context.Context) { t.Error("two at once") }) == errRunning, "one at a time")
		check(t, lock.Create(background, written) == nil && lock.Token() > 0, "taken")
	})
	check(t, err == nil && lock.Token() == 0, "given back: %v", err)
	check(t, lock.Update(background, written) == errNotRunning, "refused after")
}

func TestWorkThatFailedKeepsTheLock(t *testing.T) {
	broker := distlocktest.New()
	lock, failure := New(broker.Client(), Config{Election: "e", Identity: "mine"}), errors.New("not stopped in time")
	err := lock.Run(background, func(ctx context.Context) error {
		check(t, lock.Create(ctx, written) == nil, "taken")
		return failure
	})
	check(t, err == failure && lock.Token() > 0, "%v", err)
	_, err = broker.Client().Lock(background, "e", distlock.Try())
	var busy *distlock.BusyError
	check(t, errors.As(err, &busy), "nobody else gets it: %v", err)
	check(t, running(lock, func(context.Context) { t.Error("it may still go on") }) == errSpent, "spent")
	broker.Lose("", "e", distlock.CauseForced)
}

func TestTheRecordHasTheToken(t *testing.T) {
	broker := distlocktest.New()
	client, lock := broker.Client(), New(broker.Client(), Config{Election: "e", Namespace: "n", Identity: "mine"})
	err := running(lock, func(ctx context.Context) {
		for range 2 {
			check(t, lock.Create(ctx, written) == nil, "taken")
			record, raw, err := lock.Get(ctx)
			check(t, err == nil && record.LeaderTransitions == int(lock.Token()), "%+v %v", record, err)
			var found struct{ FencingToken int64 }
			check(t, json.Unmarshal(raw, &found) == nil && found.FencingToken == lock.Token(), "%s", raw)
			leader, err := client.Leader(ctx, "e", distlock.Namespace("n"))
			check(t, err == nil && leader.Value == "mine" && leader.Token == lock.Token(), "%+v %v", leader, err)
			check(t, lock.Update(ctx, resourcelock.LeaderElectionRecord{}) == nil && lock.Token() == 0, "given back")
		}
	})
	check(t, err == nil && lock.Describe() == "distlock n:e" && lock.Identity() == "mine", "%v", err)
}

func TestAnotherHolderOfTheSameNameIsNotTakenForThisOne(t *testing.T) {
	broker := distlocktest.New()
	lock := New(broker.Client(), Config{Election: "e", Identity: "mine"})
	before, err := broker.Client().Campaign(background, "e", "mine")
	check(t, err == nil, "%v", err)
	record, _, err := lock.Get(background)
	check(t, err == nil && strings.HasPrefix(record.HolderIdentity, "mine as "), "%+v %v", record, err)
	changed := make(chan error)
	go func() {
		_, _, err := lock.Get(background)
		changed <- err
	}()
	select {
	case err := <-changed:
		t.Fatalf("it returns although the leader is the same: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	check(t, before.Close() == nil, "given back")
	check(t, apierrors.IsNotFound(within(t, "change", changed)), "nobody leads")
}

func TestAnAttemptEndsWithTheContextOfItsCall(t *testing.T) {
	broker := distlocktest.New()
	lock := New(broker.Client(), Config{Election: "e", Identity: "mine"})
	broker.Freeze()
	err := running(lock, func(context.Context) {
		ctx, stop := context.WithTimeout(background, 10*time.Millisecond)
		defer stop()
		check(t, lock.Create(ctx, written) != nil && lock.Token() == 0, "not taken")
	})
	check(t, err == nil, "%v", err)
}

func TestAnElectorThatCannotBeMadeIsAnError(t *testing.T) {
	lock := New(distlocktest.New().Client(), Config{Election: "e", Identity: "mine"})
	check(t, lock.Elect(background, leaderelection.LeaderElectionConfig{}) != nil, "no durations, no callbacks")
	check(t, running(lock, func(context.Context) {}) == nil, "the lock can still be used")
}

func TestEventsAreTold(t *testing.T) {
	var events []string
	New(nil, Config{OnEvent: func(text string) { events = append(events, text) }}).RecordEvent("became leader")
	New(nil, Config{}).RecordEvent("became leader")
	check(t, len(events) == 1 && events[0] == "became leader", "%q", events)
}
