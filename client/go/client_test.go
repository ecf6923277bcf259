// SPDX-License-Identifier: Apache-2.0

package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/fakebroker"
	"google.golang.org/protobuf/types/known/durationpb"
)

var background = context.Background()

func dial(t testing.TB, address string, options ...distlock.DialOption) *distlock.Client {
	t.Helper()
	dl, err := distlock.Dial(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dl.Close() })
	return dl
}

func must[T any](t testing.TB) func(T, error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func lock(t testing.TB, dl *distlock.Client, key string, options ...distlock.Option) *distlock.Lock {
	t.Helper()
	return must[*distlock.Lock](t)(dl.Lock(background, key, options...))
}

func check(t testing.TB, ok bool, what string, values ...any) {
	t.Helper()
	if !ok {
		t.Fatalf("not so: "+what, values...)
	}
}

// ends waits for the end of a lock's context, and returns its cause.
func ends(t testing.TB, held *distlock.Lock) error {
	t.Helper()
	select {
	case <-held.Context().Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the lock does not end")
	}
	return context.Cause(held.Context())
}

func lostBy(err error) distlock.Cause {
	var lost *distlock.LostError
	if !errors.As(err, &lost) {
		return distlock.Cause(fmt.Sprint("no loss: ", err))
	}
	return lost.Cause
}

func TestALockAndItsRelease(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	check(t, !dl.Connected(), "Dial does not connect")
	held := lock(t, dl, "k", distlock.Owner("me"), distlock.TTL(5*time.Second), distlock.MaxHold(time.Minute),
		distlock.Metadata(map[string]string{"a": "b"}), distlock.Namespace("n"), distlock.Policy(distlock.Adaptive),
		distlock.LockDelay(time.Second), distlock.OnDisconnect(distlock.DisconnectExpire), distlock.Resume())
	check(t, held.Key() == "k" && held.Token() == 1 && held.HolderID() == "h" && held.HoldCount() == 1, "%v", held)
	check(t, held.Valid() && held.Err() == nil && held.Context().Err() == nil, "it is held")
	check(t, held.ValidFor() > 0 && held.ValidFor() <= 3*time.Second && !held.Deadline().IsZero(), "its deadline")
	spec := broker.Session(1).Got("acquire")[0].GetAcquire().Locks[0]
	check(t, spec.Namespace == "n" && spec.Owner == "me" && spec.Ttl.AsDuration() == 5*time.Second &&
		spec.MaxWait == nil &&
		spec.MaxHold.AsDuration() == time.Minute && spec.Metadata["a"] == "b" && spec.LockDelay.AsDuration() == time.Second &&
		spec.Policy == pb.QueuePolicy_QUEUE_POLICY_ADAPTIVE && spec.Resume &&
		spec.OnDisconnect == pb.OnDisconnect_ON_DISCONNECT_EXPIRE, "the options are sent: %v", spec)
	done := held.Context().Done()
	outcome, err := held.Release(background)
	check(t, outcome == distlock.Released && err == nil, "%v %v", outcome, err)
	<-done // also without another look at the lock
	check(t, !held.Valid() && held.Err() == distlock.ErrReleased && held.ValidFor() == 0, "it is not held any more")
	check(t, errors.Is(ends(t, held), distlock.ErrReleased), "its context has ended")
	outcome, err = held.Release(background)
	check(t, outcome == distlock.AlreadyGone && err == distlock.ErrReleased && held.Close() == nil, "only once")
}

func TestCloseSendsTheReleaseBeforeTheNextAcquire(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	for range 3 {
		check(t, lock(t, dl, "k").Close() == nil, "closed")
	}
	s := broker.Session(1)
	s.Await("release", 3)
	check(t, s.Got("release")[0].Id < s.Got("acquire")[1].Id, "in their order")
}

func TestKindsOfLocks(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address, distlock.WithDefaults(distlock.Owner("host")))
	must[*distlock.Lock](t)(dl.RLock(background, "r"))
	must[*distlock.Lock](t)(dl.Permits(background, "p", 4, 3))
	must[*distlock.Lock](t)(dl.Campaign(background, "e", "me"))
	all := must[distlock.Locks](t)(dl.LockAll(background, append(distlock.Keys("a", "b"), distlock.Shared("c"),
		distlock.Permit("d", 2, 1, distlock.Owner("other"))), distlock.Wait(time.Second)))
	check(t, len(all.Tokens()) == 4 && all.Valid(), "all are held")
	sent := broker.Session(1).Got("acquire")
	spec := func(i int) *pb.LockSpec { return sent[i].GetAcquire().Locks[0] }
	check(t, spec(0).Mode == pb.LockMode_LOCK_MODE_SHARED && spec(0).Owner == "host", "%v", spec(0))
	check(t, spec(1).Mode == pb.LockMode_LOCK_MODE_PERMIT && spec(1).Limit == 4 && spec(1).Permits == 3, "%v", spec(1))
	check(t, spec(2).Metadata["distlock.election"] == "me", "%v", spec(2))
	locks := sent[3].GetAcquire().Locks
	check(t, len(locks) == 4 && locks[3].Owner == "other" && locks[2].Mode == pb.LockMode_LOCK_MODE_SHARED &&
		locks[0].MaxWait.AsDuration() == time.Second, "%v", locks)
	ctx, stop := all.Context()
	defer stop()
	broker.Session(1).Lose(sent[3].Id+2, pb.LostReason_LOST_REASON_FORCED)
	<-ctx.Done()
	check(t, lostBy(context.Cause(ctx)) == distlock.CauseForced && all.Err() != nil, "one loss ends the context of all")
	outcomes, err := all.Release(background)
	check(t, outcomes[0] == distlock.Released && outcomes[2] == distlock.AlreadyGone &&
		lostBy(err) == distlock.CauseForced, "%v %v", outcomes, err)
	_, err = dl.LockAll(background, nil)
	check(t, err != nil, "none is an error")
}

func TestBusy(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	broker.OnAcquire = func(s *fakebroker.Session, command *pb.SessionCommand) {
		s.Reject(command.Id, &pb.Refusal{
			Reason: pb.RefusalReason_REFUSAL_REASON_LOCK_HELD, Message: "held", QueueLength: 2,
			RetryAfter: durationpb.New(time.Second), Holders: []*pb.Holder{{Owner: "host 7", FencingToken: 9}}})
	}
	_, err := dial(t, broker.Address).Lock(background, "k", distlock.Try())
	var busy *distlock.BusyError
	check(t, errors.As(err, &busy) && busy.Reason == distlock.ReasonLockHeld && busy.QueueLength == 2 &&
		busy.RetryAfter == time.Second && busy.Holders[0].Owner == "host 7" && busy.Holders[0].Token == 9, "%v", err)
	var refused *distlock.RefusedError
	check(t, errors.As(err, &refused) && strings.Contains(err.Error(), "LOCK_HELD: held"), "%v", err)
	wait := broker.Session(1).Got("acquire")[0].GetAcquire().Locks[0].MaxWait
	check(t, wait != nil && wait.AsDuration() == 0, "one try")
}

func TestValuesThatCannotBeSent(t *testing.T) {
	t.Parallel()
	dl := dial(t, "unix:///nowhere")
	for field, options := range map[string][]distlock.Option{
		"max_wait": {distlock.Wait(-1)}, "ttl": {distlock.TTL(-1)}, "owner": {distlock.Owner("\xff")},
		"metadata": {distlock.Metadata(map[string]string{"a": "\xff"})},
	} {
		_, err := dl.Lock(background, "k", options...)
		var wrong *distlock.InvalidRequestError
		check(t, errors.As(err, &wrong) && wrong.FieldProblems[0].Field == field, "%s: %v", field, err)
	}
	_, err := dl.Permits(background, "k", -1, 1)
	check(t, err != nil, "a limit below zero")
	_, err = dl.Campaign(background, "k", "v", distlock.Metadata(map[string]string{"distlock.election": "w"}))
	check(t, err != nil, "two values")
	for _, address := range []string{"http://x", ",", "unix://"} {
		_, err := distlock.Dial(address)
		check(t, err != nil, "%q is no address", address)
	}
}

func TestTheEndOfAContextWithdrawsTheRequest(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	broker.OnAcquire = fakebroker.Hold
	dl := dial(t, broker.Address)
	ctx, cancel := context.WithCancelCause(background)
	why := errors.New("the user has left")
	go func() {
		broker.Session(1).Await("acquire", 1)
		cancel(why)
	}()
	_, err := dl.Lock(ctx, "k")
	check(t, errors.Is(err, context.Canceled) && errors.Is(err, why), "%v", err)
	s := broker.Session(1)
	check(t, s.Await("cancel", 1).GetCancel().AcquireId == s.Got("acquire")[0].Id, "it is withdrawn")
	_, err = dl.Lock(ctx, "k")
	check(t, errors.Is(err, why) && len(s.Got("acquire")) == 1, "a context that has ended sends nothing")
}

func TestAGrantThatCrossesTheCancel(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	asked := make(chan *pb.SessionCommand, 1)
	broker.OnAcquire = func(_ *fakebroker.Session, command *pb.SessionCommand) { asked <- command }
	dl := dial(t, broker.Address)
	for range 50 { // sometimes the grant is first, sometimes the cancel
		ctx, cancel := context.WithCancel(background)
		done := make(chan error, 1)
		go func() {
			held, err := dl.Lock(ctx, "k")
			if err == nil {
				err = held.Close()
			}
			done <- err
		}()
		command := <-asked
		go cancel()
		broker.Session(1).Grant(command.Id, "k", nil)
		if err := <-done; err != nil {
			check(t, errors.Is(err, context.Canceled), "%v", err)
		}
		cancel()
	}
	s := broker.Session(1)
	fakebroker.Eventually(t, "the end of each", func() bool { return len(s.Got("release"))+len(s.Got("cancel")) == 50 })
}

func TestABoundedWaitDoesNotDependOnTheBroker(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	_ = lock(t, dl, "to connect").Close()
	broker.Do(func() { broker.OnAcquire = fakebroker.Hold })
	_, err := dl.Lock(background, "k", distlock.Wait(50*time.Millisecond))
	var busy *distlock.BusyError
	check(t, errors.As(err, &busy) && busy.Reason == distlock.ReasonWaitTimeout, "%v", err)
}

func TestOnQueued(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	broker.OnAcquire = func(s *fakebroker.Session, command *pb.SessionCommand) {
		s.Send(&pb.SessionEvent{Id: command.Id, Event: &pb.SessionEvent_Queued{Queued: &pb.AcquireQueued{
			Position: 3, Holders: []*pb.Holder{{Owner: "o"}}}}})
	}
	told := make(chan distlock.Queued, 2)
	dl := dial(t, broker.Address)
	go func() { _, _ = dl.Lock(background, "k", distlock.OnQueued(func(q distlock.Queued) { told <- q })) }()
	q := <-told
	check(t, q.Position == 3 && q.Holders[0].Owner == "o", "%v", q)
}

func TestDo(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	type name struct{}
	ctx := context.WithValue(background, name{}, "value")
	problem := errors.New("a problem of the work")
	err := dl.Do(ctx, "k", func(ctx context.Context, token int64) error {
		check(t, ctx.Value(name{}) == "value" && token == 1 && ctx.Err() == nil, "the context and the token")
		return problem
	})
	check(t, err == problem, "its error comes back: %v", err)
	s := broker.Session(1)
	s.Await("release", 1)
	err = dl.Do(background, "k", func(ctx context.Context, _ int64) error {
		s.Lose(s.Await("acquire", 2).Id, pb.LostReason_LOST_REASON_TAKEN)
		<-ctx.Done()
		return ctx.Err()
	})
	check(t, lostBy(err) == distlock.CauseTaken && !errors.Is(err, context.Canceled), "%v", err)
	err = dl.Do(background, "k", func(ctx context.Context, _ int64) error {
		s.Lose(s.Await("acquire", 3).Id, pb.LostReason_LOST_REASON_FORCED)
		<-ctx.Done()
		return problem
	})
	check(t, lostBy(err) == distlock.CauseForced && errors.Is(err, problem), "%v", err)
	func() {
		defer func() { check(t, recover() == "panic", "a panic goes on") }()
		_ = dl.Do(background, "k", func(context.Context, int64) error { panic("panic") })
	}()
	s.Await("release", 2)
}

func TestLocker(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	locker := dl.Locker("k", distlock.Owner("me"))
	var group sync.WaitGroup
	inside := 0
	for range 20 {
		group.Add(1)
		go func() {
			defer group.Done()
			locker.Lock()
			inside++ // the race detector sees a mistake
			check(t, inside == 1 && locker.Held().Valid(), "one at a time")
			inside--
			locker.Unlock()
		}()
	}
	group.Wait()
	panics := func(call func()) (value any) {
		defer func() { value = recover() }()
		call()
		return nil
	}
	check(t, panics(locker.Unlock) != nil && locker.Held() == nil, "it is not locked")
	_ = dl.Close()
	check(t, strings.Contains(fmt.Sprint(panics(locker.Lock)), "closed"), "it can never be")
	check(t, strings.Contains(fmt.Sprint(panics(locker.Lock)), "closed"), "again")
}

func TestDowngradeAndProclaim(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	held := must[*distlock.Lock](t)(dl.Campaign(background, "e", "one"))
	broker.Do(func() {
		broker.OnAdopt = func(s *fakebroker.Session, command *pb.SessionCommand) {
			s.Grant(command.Id, "e", func(grant *pb.Grant) { grant.FencingToken = held.Token() })
		}
	})
	before := held.LeaseID()
	if err := held.Proclaim(background, "two"); err != nil {
		t.Fatal(err)
	}
	adopt := broker.Session(1).Got("adopt")[0].GetAdopt()
	check(t, adopt.Lock.Metadata["distlock.election"] == "two" && adopt.LeaseId == before, "it is adopted anew")
	check(t, held.Valid() && held.LeaseID() != before, "the lock stays")
	if err := held.Downgrade(background); err != nil {
		t.Fatal(err)
	}
	_ = held.Close()
	check(t, held.Downgrade(background) == distlock.ErrReleased, "not after its end")
}

type hooks struct {
	distlock.NopObserver
	mu   sync.Mutex
	seen []string
}

type spanKey struct{}

func (h *hooks) note(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, text)
}

func (h *hooks) Acquiring(ctx context.Context, keys []string, mode distlock.Mode) context.Context {
	h.note(fmt.Sprint("acquiring ", keys, " ", mode))
	return context.WithValue(ctx, spanKey{}, "span")
}

func (h *hooks) Answered(ctx context.Context, err error, _ time.Duration) {
	h.note(fmt.Sprint("answered ", ctx.Value(spanKey{}), " ", err))
}

func (h *hooks) Ended(ctx context.Context, key string, err error, heldFor time.Duration) {
	h.note(fmt.Sprint("ended ", ctx.Value(spanKey{}), " ", key, " ", err, " ", heldFor >= 0))
}

func (h *hooks) Session(_ string, opened bool, err error) {
	h.note(fmt.Sprint("session ", opened, " ", err))
}

func TestTheObserverSeesAll(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	seen := &hooks{}
	dl := dial(t, broker.Address, distlock.WithObserver(seen))
	held := lock(t, dl, "k")
	check(t, held.Context().Value(spanKey{}) == "span", "the lock's context has the span")
	_ = held.Close()
	lost := lock(t, dl, "l")
	broker.Session(1).Lose(broker.Session(1).Got("acquire")[1].Id, pb.LostReason_LOST_REASON_FORCED)
	_ = ends(t, lost)
	_ = dl.Close()
	want := "session true <nil>,acquiring [k] EXCLUSIVE,answered span <nil>," +
		"ended span k distlock: the lock was released true," +
		"acquiring [l] EXCLUSIVE,answered span <nil>,ended span l distlock: the lock \"l\" is lost (FORCED): by the " +
		"test true,session false <nil>"
	fakebroker.Eventually(t, "the last one", func() bool {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return len(seen.seen) == 8
	})
	for _, one := range strings.Split(want, ",") {
		check(t, strings.Contains(strings.Join(seen.seen, ","), one), "%q is not in %q", one, seen.seen)
	}
}
