// SPDX-License-Identifier: Apache-2.0

package redsync_test

import (
	"context"
	"errors"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/fakebroker"
	"distlock.dev/client/go/redsync"
)

func newRedsync(t *testing.T) (*redsync.Redsync, *fakebroker.Broker) {
	t.Helper()
	broker := fakebroker.New(t)
	dl, err := distlock.Dial(broker.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dl.Close() })
	return redsync.New(dl, distlock.Owner("me")), broker
}

func check(t *testing.T, ok bool, what string, values ...any) {
	t.Helper()
	if !ok {
		t.Fatalf("not so: "+what, values...)
	}
}

func TestTheLifeOfAMutex(t *testing.T) {
	t.Parallel()
	rs, _ := newRedsync(t)
	mutex := rs.NewMutex("k")
	ok, err := mutex.Valid()
	check(t, !ok && err == nil && mutex.Value() == "" && mutex.Until().IsZero() && mutex.Name() == "k", "not locked yet")
	check(t, mutex.Lock() == nil, "locked")
	ok, _ = mutex.Valid()
	check(t, ok && mutex.Until().After(time.Now()) && mutex.Value() != "" && mutex.Held().Token() > 0, "it is held")
	ok, err = mutex.Extend()
	check(t, ok && err == nil, "there is nothing to extend")
	ok, err = mutex.Unlock()
	check(t, ok && err == nil, "unlocked: %v", err)
	ok, err = mutex.Unlock()
	check(t, !ok && errors.Is(err, redsync.ErrLockAlreadyExpired), "only once: %v", err)
	check(t, errors.Is(errors.Unwrap(err), redsync.ErrLockAlreadyExpired), "as redsync wraps it: %v", err)
	ok, err = mutex.Extend()
	check(t, !ok && errors.Is(err, redsync.ErrExtendFailed), "%v", err)
	check(t, mutex.LockContext(context.Background()) == nil, "locked again")
}

func TestTheOptions(t *testing.T) {
	t.Parallel()
	rs, broker := newRedsync(t)
	for _, options := range [][]redsync.Option{
		nil, {redsync.WithTries(1)}, {redsync.WithTries(3), redsync.WithRetryDelay(time.Second)},
		{redsync.WithWait(time.Minute), redsync.WithExpiry(8 * time.Second)},
	} {
		check(t, rs.NewMutex("k", options...).Lock() == nil, "locked")
	}
	sent := broker.Session(1).Got("acquire")
	for i, want := range []time.Duration{31 * 150 * time.Millisecond, 0, 2 * time.Second, time.Minute} {
		spec := sent[i].GetAcquire().Locks[0]
		check(t, (spec.MaxWait.AsDuration()-want).Abs() < 100*time.Millisecond && spec.Owner == "me",
			"mutex %d waits for %v", i, spec.MaxWait.AsDuration())
	}
}

func TestAnExpiryThatIsExtended(t *testing.T) {
	t.Parallel()
	rs, broker := newRedsync(t)
	const expiry = 200 * time.Millisecond
	mutex := rs.NewMutex("k", redsync.WithExpiry(expiry))
	began := time.Now()
	last := began
	check(t, mutex.Lock() == nil, "locked")
	check(t, mutex.Until().After(began.Add(expiry/2)) && mutex.Until().Before(began.Add(expiry+time.Second)), "its end")
	extended := 0
	for ; time.Since(began) < 3*expiry; time.Sleep(time.Millisecond) {
		asked := time.Now()
		ok, err := mutex.Extend()
		if !ok { // this machine has not run the test for the whole expiry
			check(t, err == redsync.ErrExtendFailed && time.Since(last) >= expiry, "after %v: %v", time.Since(last), err)
			t.Skip("too slow a machine")
		}
		last = asked
		extended++
	}
	check(t, extended > 3 && len(broker.Session(1).Got("release")) == 0, "it lasts for as long as it is extended")
	held := mutex.Held()
	select {
	case <-held.Context().Done(): // by itself
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
	check(t, !held.Valid() && mutex.Until().IsZero(), "it has ended")
	broker.Session(1).Await("release", 1)
	ok, err := mutex.Extend()
	check(t, !ok && err == redsync.ErrExtendFailed, "%v", err)
	ok, err = mutex.Unlock()
	check(t, !ok && errors.Is(err, redsync.ErrLockAlreadyExpired), "%v", err)
	check(t, mutex.Lock() == nil, "locked again")
	ok, err = mutex.Unlock()
	check(t, ok && err == nil, "%v", err)
}

func TestATakenMutex(t *testing.T) {
	t.Parallel()
	rs, broker := newRedsync(t)
	broker.OnAcquire = func(s *fakebroker.Session, command *pb.SessionCommand) {
		s.Reject(command.Id, &pb.Refusal{Reason: pb.RefusalReason_REFUSAL_REASON_LOCK_HELD, Message: "held"})
	}
	err := rs.NewMutex("k").TryLock()
	var taken *redsync.ErrTaken
	var busy *distlock.BusyError
	check(t, errors.Is(err, redsync.ErrFailed) && errors.As(err, &taken) && errors.As(err, &busy), "%v", err)
	var node *redsync.ErrNodeTaken
	var broken *redsync.RedisError
	check(t, errors.As(err, &node) && !errors.As(err, &broken), "%v", err)
	broker.Do(func() {
		broker.OnAcquire = func(s *fakebroker.Session, command *pb.SessionCommand) {
			s.Reject(command.Id, &pb.Refusal{Reason: pb.RefusalReason_REFUSAL_REASON_STORE_UNAVAILABLE, Message: "gone"})
		}
	})
	err = rs.NewMutex("k").TryLock()
	var away *distlock.UnavailableError
	check(t, errors.As(err, &broken) && errors.As(err, &away) && !errors.As(err, &taken), "%v", err)
}

func TestALostMutex(t *testing.T) {
	t.Parallel()
	rs, broker := newRedsync(t)
	mutex := rs.NewMutex("k")
	check(t, mutex.Lock() == nil, "locked")
	s := broker.Session(1)
	s.Lose(s.Got("acquire")[0].Id, pb.LostReason_LOST_REASON_TAKEN)
	<-mutex.Held().Context().Done()
	ok, err := mutex.Valid()
	check(t, !ok && err == nil, "it is not valid")
	ok, err = mutex.Unlock()
	var lost *distlock.LostError
	check(t, !ok && errors.Is(err, redsync.ErrLockAlreadyExpired) && errors.As(err, &lost), "%v", err)
	check(t, errors.Is(errors.Unwrap(err), redsync.ErrLockAlreadyExpired), "as redsync wraps it: %v", err)
}
