// SPDX-License-Identifier: Apache-2.0

package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
	"distlock.dev/client/go/distlocktest"
	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
)

const patience = 30 * time.Second

var background = context.Background()

func check(t *testing.T, ok bool, what string, values ...any) {
	t.Helper()
	if !ok {
		t.Fatalf("not so: "+what, values...)
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		check(t, time.Now().Before(deadline), "%s within %v", what, patience)
	}
}

// hosts are three real schedulers, all of which start a job of 10 ms now. The result: on which it ran and was skipped.
func hosts(t *testing.T, option func(host int) gocron.SchedulerOption) (ran, skipped []int) {
	t.Helper()
	var mu sync.Mutex
	for host := range 3 {
		scheduler, err := gocron.NewScheduler(option(host))
		check(t, err == nil, "%v", err)
		add := func(to *[]int) {
			mu.Lock()
			defer mu.Unlock()
			*to = append(*to, host)
		}
		_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(func() {
			time.Sleep(10 * time.Millisecond)
			add(&ran)
		}), gocron.WithName("report"), gocron.WithEventListeners(
			gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
				var busy *distlock.BusyError
				if errors.As(err, &busy) {
					add(&skipped)
				}
			})))
		check(t, err == nil, "%v", err)
		scheduler.Start()
		t.Cleanup(func() { _ = scheduler.Shutdown() })
	}
	eventually(t, "a run", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(ran) > 0 && len(ran)+len(skipped) == 3
	})
	mu.Lock()
	defer mu.Unlock()
	return ran, skipped
}

func TestAJobOf10msOnThreeHostsRunsOnce(t *testing.T) {
	broker := distlocktest.New()
	ran, skipped := hosts(t, func(int) gocron.SchedulerOption {
		return gocron.WithDistributedLocker(NewLocker(broker.Client(), time.Minute))
	})
	check(t, len(ran) == 1 && len(skipped) == 2, "%v %v", ran, skipped)
}

func TestTheRunCountsUntilItsMinHoldIsOver(t *testing.T) {
	broker := distlocktest.New()
	mine, theirs := NewLocker(broker.Client(), time.Minute), NewLocker(broker.Client(), time.Minute)
	run, err := mine.Lock(background, "report")
	check(t, err == nil && mine.Held("report").Valid() && theirs.Held("report") == nil, "%v", err)
	token := mine.Held("report").Token()
	check(t, run.Unlock(background) == nil && mine.Held("report") == nil, "over")
	broker.Advance(59 * time.Second)
	_, err = theirs.Lock(background, "report")
	var busy *distlock.BusyError
	check(t, errors.As(err, &busy), "%v", err)
	broker.Advance(time.Second)
	_, err = theirs.Lock(background, "report")
	check(t, err == nil && theirs.Held("report").Token() > token, "%v", err)
	broker.Lose("", "report", distlock.CauseForced)
	check(t, theirs.Held("report").Context().Err() != nil, "the job can ask")
}

func TestALostRunIsAnErrorOfUnlock(t *testing.T) {
	broker := distlocktest.New()
	locker := NewLocker(broker.Client(), time.Minute, distlock.Namespace("n"))
	run, err := locker.Lock(background, "report")
	check(t, err == nil, "%v", err)
	broker.Lose("n", "report", distlock.CauseForced)
	var lost *distlock.LostError
	check(t, errors.As(run.Unlock(background), &lost), "lost")
}

func TestOneHostLeadsAndTheNextFollows(t *testing.T) {
	broker := distlocktest.New()
	var electors []*Elector
	for host := range 3 { // one after the other, so that it is known who follows
		electors = append(electors, NewElector(broker.Client(), "scheduler", fmt.Sprint("host ", host)))
		if host == 0 {
			eventually(t, "a leader", func() bool { return electors[0].IsLeader(background) == nil })
		}
		broker.AwaitWaiting("", "scheduler", host)
	}
	ran := 0
	for host, elector := range electors {
		scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
		check(t, err == nil, "%v", err)
		done := make(chan struct{})
		job, err := scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(func() {
			ran++
			close(done)
		}))
		check(t, err == nil && job != nil, "%v", err)
		scheduler.Start()
		if host == 0 {
			<-done
		}
		check(t, scheduler.Shutdown() == nil, "shut down")
	}
	check(t, ran == 1, "%d", ran)
	token := electors[0].Held().Token()
	check(t, electors[0].Close(background) == nil && errors.Is(electors[0].IsLeader(background), ErrNotLeader), "over")
	eventually(t, "the next leader", func() bool { return electors[1].IsLeader(background) == nil })
	check(t, electors[1].Held().Token() > token, "a greater token")
	check(t, errors.Is(electors[2].IsLeader(background), ErrNotLeader), "only one")
	for _, elector := range electors[1:] {
		check(t, elector.Close(background) == nil, "closed")
	}
}

func TestALeaderThatIsLostIsNoneAndComesBack(t *testing.T) {
	broker := distlocktest.New()
	elector := NewElector(broker.Client(), "scheduler", "mine")
	eventually(t, "a leader", func() bool { return elector.IsLeader(background) == nil })
	token := elector.Held().Token()
	broker.Refuse(distlock.ReasonStoreUnavailable)
	broker.Lose("", "scheduler", distlock.CauseExpired)
	check(t, errors.Is(elector.IsLeader(background), ErrNotLeader), "lost")
	var away *distlock.UnavailableError
	eventually(t, "word of the store", func() bool { return errors.As(elector.IsLeader(background), &away) })
	broker.Refuse("")
	eventually(t, "a leader", func() bool { return elector.IsLeader(background) == nil })
	check(t, elector.Held().Token() > token && elector.Close(background) == nil, "a greater token")
}
