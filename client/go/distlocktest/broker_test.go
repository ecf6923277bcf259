// SPDX-License-Identifier: Apache-2.0

package distlocktest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
	"distlock.dev/client/go/distlocktest"
)

var background = context.Background()

func check(t testing.TB, ok bool, what string, values ...any) {
	t.Helper()
	if !ok {
		t.Fatalf("not so: "+what, values...)
	}
}

func taken(t testing.TB) func(*distlock.Lock, error) *distlock.Lock {
	return func(held *distlock.Lock, err error) *distlock.Lock {
		t.Helper()
		check(t, err == nil, "%v", err)
		t.Cleanup(func() { _ = held.Close() }) // it is not dropped before
		return held
	}
}

func reasonOf(err error) distlock.Reason {
	var refused *distlock.RefusedError
	if errors.As(err, &refused) {
		return refused.Reason
	}
	return ""
}

func causeOf(err error) distlock.Cause {
	var lost *distlock.LostError
	if errors.As(err, &lost) {
		return lost.Cause
	}
	return ""
}

func TestKindsOfLocks(t *testing.T) {
	t.Parallel()
	broker := distlocktest.New()
	dl, other := broker.Client(distlock.WithDefaults(distlock.Owner("me"))), broker.Client()
	try := func(held *distlock.Lock, err error) distlock.Reason {
		if err == nil {
			_ = held.Close()
			broker.Settle()
		}
		return reasonOf(err)
	}
	taken(t)(dl.RLock(background, "r"))
	check(t, try(other.RLock(background, "r", distlock.Try())) == "", "readers share")
	check(t, try(other.Lock(background, "r", distlock.Try())) == distlock.ReasonLockHeld, "no writer beside them")
	taken(t)(dl.Permits(background, "p", 3, 2))
	check(t, try(other.Permits(background, "p", 3, 2, distlock.Try())) == distlock.ReasonLockHeld, "one is left")
	check(t, try(other.Permits(background, "p", 3, 1, distlock.Try())) == "", "and given")
	all, err := dl.LockAll(background, distlock.Keys("x", "y"))
	check(t, err == nil && all.Valid(), "%v", err)
	_, err = other.LockAll(background, distlock.Keys("z", "y"), distlock.Try())
	check(t, reasonOf(err) == distlock.ReasonLockHeld, "%v", err)
	check(t, try(other.Lock(background, "z", distlock.Try())) == "", "all or none")
	first := taken(t)(dl.Lock(background, "e", distlock.Reentrant()))
	again := taken(t)(dl.Lock(background, "e", distlock.Reentrant()))
	check(t, again.HoldCount() == 2 && again.Token() == first.Token(), "re-entry")
	outcome, err := again.Release(background)
	check(t, outcome == distlock.StillHeld && err == nil, "%v %v", outcome, err)
	check(t, first.Downgrade(background) == nil && try(other.RLock(background, "e", distlock.Try())) == "", "shared now")
	_, err = dl.AcquireDetached(background, "d")
	check(t, reasonOf(err) == distlock.ReasonNotSupported, "%v", err)
	var keys []string
	for info, err := range other.List(background, "") {
		check(t, err == nil && info.Holders[0].Owner == "me", "%v %v", info, err)
		keys = append(keys, info.Key)
	}
	slices.Sort(keys)
	check(t, slices.Equal(keys, []string{"e", "p", "r", "x", "y"}), "%v", keys)
}

func TestTimeThatTheTestMoves(t *testing.T) {
	t.Parallel()
	broker := distlocktest.New()
	dl, other := broker.Client(), broker.Client()
	held := taken(t)(dl.Lock(background, "k", distlock.LockDelay(10*time.Second)))
	broker.Advance(2 * time.Minute)
	check(t, held.Valid() && held.ValidFor() > time.Second && !held.AtRisk(), "it is renewed")
	errs := make(chan error)
	go func() {
		_, err := other.Lock(background, "k", distlock.Wait(5*time.Second))
		errs <- err
	}()
	broker.AwaitWaiting("", "k", 1)
	broker.Advance(5 * time.Second)
	err := <-errs
	check(t, reasonOf(err) == distlock.ReasonWaitTimeout, "%v", err)
	broker.Lose("", "k", distlock.CauseForced)
	check(t, causeOf(held.Err()) == distlock.CauseForced && held.Context().Err() != nil, "%v", held)
	_, err = other.Lock(background, "k", distlock.Try())
	check(t, reasonOf(err) == distlock.ReasonLockHeld, "lock_delay runs: %v", err)
	broker.Advance(10 * time.Second)
	check(t, taken(t)(other.Lock(background, "k", distlock.Try())).Close() == nil, "and is over")
	_ = taken(t)(dl.Lock(background, "once", distlock.MinHold(2*time.Minute))).Close()
	broker.Advance(2*time.Minute - time.Second)
	_, err = other.Lock(background, "once", distlock.Try())
	check(t, reasonOf(err) == distlock.ReasonLockHeld, "once in a period: %v", err)
	broker.Advance(time.Second)
	taken(t)(other.Lock(background, "once", distlock.Try()))
}

func TestABrokerThatFails(t *testing.T) {
	t.Parallel()
	broker := distlocktest.New()
	dl := broker.Client()
	lost, kept := taken(t)(dl.Lock(background, "a")), taken(t)(dl.Lock(background, "b", distlock.Resume()))
	broker.Stop()
	check(t, causeOf(lost.Err()) == distlock.CauseDisconnected && kept.AtRisk(), "%v %v", lost, kept)
	errs := make(chan error)
	go func() {
		_, err := dl.Lock(background, "a", distlock.Try())
		errs <- err
	}()
	for dl.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	broker.Advance(time.Second)
	err := <-errs
	check(t, reasonOf(err) == distlock.ReasonUnreachable, "%v", err)
	broker.Start()
	broker.Advance(1500 * time.Millisecond)
	check(t, kept.Valid() && !kept.AtRisk() && dl.Connected(), "%v goes on", kept)
	broker.Refuse(distlock.ReasonStoreUnavailable)
	_, err = dl.Lock(background, "a", distlock.Try())
	var away *distlock.UnavailableError
	check(t, errors.As(err, &away), "%v", err)
	broker.Refuse("")
	broker.Freeze()
	broker.Advance(3 * time.Second)
	check(t, causeOf(kept.Err()) == distlock.CauseLapsed, "%v", kept)
	broker.Thaw()
	broker.Advance(5 * time.Second)
	check(t, taken(t)(dl.Lock(background, "a", distlock.Try())).Valid(), "it is served again")
}

func TestElectionsAndWatches(t *testing.T) {
	t.Parallel()
	broker := distlocktest.New()
	dl := broker.Client()
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	seen := make(chan string, 10)
	go func() {
		defer close(seen)
		for leader, err := range dl.Observe(ctx, "e") {
			if err == nil && leader != nil {
				seen <- leader.Value
			} else if err == nil {
				seen <- ""
			}
		}
	}()
	check(t, <-seen == "", "nobody at first")
	leader := taken(t)(dl.Campaign(background, "e", "one"))
	check(t, <-seen == "one" && leader.Proclaim(background, "two") == nil && <-seen == "two", "what it proclaims")
	_ = leader.Close()
	check(t, <-seen == "", "and resigns")
	newest, err := dl.CheckToken(background, "e", leader.Token())
	check(t, newest && err == nil, "%v", err)
	cancel()
	_, open := <-seen
	check(t, !open, "the end of its context ends it")
}

func TestManyClientsInTurn(t *testing.T) {
	t.Parallel()
	broker := distlocktest.New()
	inside, most, all := 0, 0, sync.WaitGroup{}
	for range 10 {
		dl := broker.Client()
		all.Add(1)
		go func() {
			defer all.Done()
			defer dl.Close()
			for range 50 {
				err := dl.Do(background, "k", func(context.Context, int64) error {
					inside++ // the lock guards it
					most = max(most, inside)
					inside--
					return nil
				})
				check(t, err == nil, "%v", err)
			}
		}()
	}
	all.Wait()
	check(t, most == 1, "%d at once", most)
}
