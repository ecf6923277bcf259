// SPDX-License-Identifier: Apache-2.0

package distlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/fakebroker"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// refused is a status of a broker.
func refused(t *testing.T, code codes.Code, reason string) error {
	t.Helper()
	made, err := status.New(code, "by the test").WithDetails(&errdetails.ErrorInfo{Domain: "distlock", Reason: reason})
	if err != nil {
		t.Fatal(err)
	}
	return made.Err()
}

func detachedBroker(t *testing.T, ttl time.Duration) (*fakebroker.Broker, *atomic.Int64) {
	t.Helper()
	broker, released := fakebroker.New(t), &atomic.Int64{}
	broker.OnUnary["Acquire"] = func(_ context.Context, request any) (any, error) {
		spec := request.(*pb.AcquireRequest).Locks[0]
		return &pb.AcquireResponse{Grants: []*pb.Grant{{
			Key: spec.Key, LeaseId: "secret", HolderId: "h", FencingToken: 5, ValidFor: durationpb.New(ttl)}}}, nil
	}
	broker.OnUnary["Renew"] = func(context.Context, any) (any, error) {
		return &pb.RenewResponse{ValidFor: durationpb.New(ttl)}, nil
	}
	broker.OnUnary["Release"] = func(context.Context, any) (any, error) {
		released.Add(1)
		return &pb.ReleaseResponse{Outcome: pb.ReleaseOutcome_RELEASE_OUTCOME_RELEASED}, nil
	}
	return broker, released
}

func TestADetachedLease(t *testing.T) {
	t.Parallel()
	broker, _ := detachedBroker(t, time.Minute)
	dl := dial(t, broker.Address)
	lease := must[*distlock.Detached](t)(dl.AcquireDetached(background, "k", distlock.Wait(time.Second)))
	check(t, lease.Valid() && lease.Token() == 5 && lease.LeaseID() == "secret" && lease.Key() == "k" &&
		lease.HolderID() == "h", "%v", lease.Err())
	left := must[time.Duration](t)(lease.Renew(background))
	check(t, left > 50*time.Second && left <= time.Minute, "%v", left)
	check(t, broker.Sessions() == 0, "it needs no session")
	other := dl.Detached("secret", "k")
	check(t, !other.Valid() && other.ValidFor() == 0, "not before it is renewed")
	_ = must[time.Duration](t)(other.Renew(background))
	check(t, other.Valid(), "it is taken up: %v", other.Err())
	outcome, err := other.Release(background)
	check(t, outcome == distlock.Released && err == nil && other.Err() == distlock.ErrReleased, "%v %v", outcome, err)
	broker.Do(func() {
		broker.OnUnary["Renew"] = func(context.Context, any) (any, error) {
			return nil, refused(t, codes.FailedPrecondition, "NOT_HOLDER")
		}
	})
	_, err = lease.Renew(background)
	check(t, lostBy(err) == distlock.CauseTaken && !lease.Valid(), "%v", err)
}

func TestADetachedLeaseThatLapsed(t *testing.T) {
	t.Parallel()
	broker, released := detachedBroker(t, 20*time.Millisecond)
	lease := must[*distlock.Detached](t)(dial(t, broker.Address).AcquireDetached(background, "k"))
	fakebroker.Eventually(t, "its deadline", func() bool { return !lease.Valid() })
	_, err := lease.Renew(background)
	check(t, lostBy(err) == distlock.CauseLapsed && released.Load() == 1, "it is freed, and final: %v", err)
	_, err = lease.Renew(background)
	check(t, lostBy(err) == distlock.CauseLapsed, "%v", err)
}

func TestARenewalThatIsAnsweredTooLate(t *testing.T) {
	t.Parallel()
	broker, released := detachedBroker(t, 200*time.Millisecond)
	lease := must[*distlock.Detached](t)(dial(t, broker.Address).AcquireDetached(background, "k"))
	broker.Do(func() {
		broker.OnUnary["Renew"] = func(context.Context, any) (any, error) {
			for lease.Valid() {
				time.Sleep(time.Millisecond)
			}
			return &pb.RenewResponse{ValidFor: durationpb.New(time.Hour)}, nil
		}
	})
	_, err := lease.Renew(background)
	check(t, lostBy(err) == distlock.CauseLapsed && !lease.Valid() && released.Load() == 1, "%v", err)
}

func TestAnAcquireWhoseAnswerIsLostIsRepeatedUnderItsRequestID(t *testing.T) {
	t.Parallel()
	broker, _ := detachedBroker(t, time.Minute)
	usual := broker.OnUnary["Acquire"]
	var ids []string
	broker.OnUnary["Acquire"] = func(ctx context.Context, request any) (any, error) {
		broker.Do(func() { ids = append(ids, request.(*pb.AcquireRequest).RequestId) })
		if len(ids) < 4 {
			return nil, status.Error(codes.Unavailable, "the connection broke")
		}
		return usual(ctx, request)
	}
	_ = must[*distlock.Detached](t)(dial(t, broker.Address).AcquireDetached(background, "k"))
	check(t, len(ids) == 4 && ids[0] == ids[3] && len(ids[0]) >= 16, "%v", ids)
}

func TestTheErrorsOfCalls(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	broker.OnUnary["GetLock"] = func(context.Context, any) (any, error) {
		return nil, refused(t, codes.PermissionDenied, "PERMISSION_DENIED")
	}
	_, err := dl.Inspect(background, "k")
	var denied *distlock.RefusedError
	check(t, errors.As(err, &denied) && denied.Reason == distlock.ReasonPermissionDenied, "%v", err)
	began := make(chan struct{})
	broker.Do(func() {
		broker.OnUnary["GetLock"] = func(ctx context.Context, _ any) (any, error) {
			close(began)
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(background)
	go func() { <-began; cancel() }()
	_, err = dl.Inspect(ctx, "k")
	check(t, errors.Is(err, context.Canceled), "%v", err)
}

func TestACallGoesToTheNextBroker(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	broker.OnUnary["GetLock"] = func(context.Context, any) (any, error) {
		return &pb.GetLockResponse{Lock: &pb.LockInfo{Key: "k", HolderCount: 3}}, nil
	}
	for range 8 {
		dl := dial(t, "unix:///nowhere,"+broker.Address)
		info := must[*distlock.LockInfo](t)(dl.Inspect(background, "k"))
		check(t, info.HolderCount == 3, "%v", info)
		_ = dl.Close()
	}
}

func TestAnElectionIsWatchedOverReconnects(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	var calls atomic.Int64
	broker.OnUnary["WatchLock"] = func(context.Context, any) (any, error) { // each call ends after one message
		info := &pb.LockInfo{Key: "e"}
		if count := calls.Add(1); count > 1 {
			value := map[bool]string{true: "one", false: "two"}[count < 4]
			info.Holders = []*pb.Holder{{HolderId: value, FencingToken: 1,
				Metadata: map[string]string{"distlock.election": value}}}
		}
		return &pb.WatchLockResponse{Lock: info}, nil
	}
	var seen []string
	for leader, err := range dial(t, broker.Address).Observe(background, "e") {
		check(t, err == nil, "%v", err)
		if leader == nil {
			seen = append(seen, "nobody")
			continue
		}
		if seen = append(seen, leader.Value); leader.Value == "two" {
			break
		}
	}
	check(t, len(seen) == 3 && seen[0] == "nobody" && seen[1] == "one", "%v", seen)
	broker.Do(func() { broker.OnUnary = nil })
	for _, err := range dial(t, broker.Address).Watch(background, "e") {
		var refused *distlock.RefusedError
		check(t, errors.As(err, &refused) && refused.Reason == distlock.ReasonNotSupported, "%v", err)
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	for range dial(t, "unix:///nowhere").Watch(ctx, "e") {
		t.Fatal("the end of its context is no state of a lock")
	}
}
