// SPDX-License-Identifier: Apache-2.0

package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/fakebroker"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestALossIsToldAtOnce(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	held := lock(t, dial(t, broker.Address), "k")
	s := broker.Session(1)
	s.Lose(s.Got("acquire")[0].Id, pb.LostReason_LOST_REASON_FORCED)
	check(t, lostBy(ends(t, held)) == distlock.CauseForced && !held.Valid(), "%v", held)
	check(t, lostBy(held.Err()) == distlock.CauseForced && lostBy(held.Close()) == distlock.CauseForced, "%v", held)
	outcome, err := held.Release(background)
	check(t, outcome == distlock.AlreadyGone && lostBy(err) == distlock.CauseForced, "%v %v", outcome, err)
	check(t, lostBy(context.Cause(held.Context())) == distlock.CauseForced, "also when asked late")
}

func TestUnknownEventsAndReasons(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	held := lock(t, dl, "k")
	var unknown pb.SessionEvent
	if err := proto.Unmarshal([]byte("\x08\x05\xfa\x07\x02\x08\x01"), &unknown); err != nil { // field 127
		t.Fatal(err)
	}
	s := broker.Session(1)
	s.Send(&unknown, &pb.SessionEvent{})
	check(t, lock(t, dl, "l").Valid() && held.Valid(), "they are ignored")
	s.Lose(s.Got("acquire")[0].Id, 99)
	check(t, lostBy(ends(t, held)) == "UNKNOWN_99", "%v", held)
}

func TestALateGrantIsGivenWithTheNextAck(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	broker.OnAcquire = func(s *fakebroker.Session, command *pb.SessionCommand) {
		s.Grant(command.Id, "k", func(grant *pb.Grant) { grant.ValidFor = durationpb.New(0) })
	}
	held := lock(t, dial(t, broker.Address), "k")
	check(t, held.Valid() && len(broker.Session(1).Got("heartbeat")) > 0, "after a heartbeat")
}

func TestAShortTTLIsKeptByMoreHeartbeats(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	broker.Validity = time.Hour
	const ttl = 3 * time.Second
	broker.OnAcquire = func(s *fakebroker.Session, command *pb.SessionCommand) {
		s.AnswersHeartbeats = false
		s.Grant(command.Id, "k", func(grant *pb.Grant) { grant.ValidFor = durationpb.New(ttl) })
	}
	held := lock(t, dial(t, broker.Address), "k")
	s := broker.Session(1)
	for count := 1; count <= 2; count++ { // by the interval they would come after 20 minutes
		seq := s.Await("heartbeat", count).GetHeartbeat().Seq
		s.Send(&pb.SessionEvent{Event: &pb.SessionEvent_HeartbeatAck{HeartbeatAck: &pb.HeartbeatAck{
			Seq: seq, ValidFor: durationpb.New(broker.Validity),
			Limits: []*pb.LeaseLimit{{AcquireId: s.Got("acquire")[0].Id, ValidFor: durationpb.New(ttl)}}}}})
	}
	fakebroker.Eventually(t, "another promise", func() bool { return held.ValidFor() > ttl/2 })
}

func TestABreakLosesLocksAndWaitsGoOn(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	held := lock(t, dl, "k")
	broker.Do(func() { broker.OnAcquire = fakebroker.Hold })
	got := make(chan error, 1)
	go func() {
		_, err := dl.Lock(background, "w")
		got <- err
	}()
	first := broker.Session(1)
	before := first.Await("acquire", 2).GetAcquire()
	broker.Do(func() { broker.OnAcquire = fakebroker.GrantAll })
	first.End(status.Error(codes.Unavailable, "by the test"))
	check(t, lostBy(ends(t, held)) == distlock.CauseDisconnected, "%v", held)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	again := broker.Session(2).Got("acquire")[0].GetAcquire()
	check(t, again.RequestId == before.RequestId && again.RequestId != "", "it keeps its place")
}

func TestABrokerThatComesBack(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	held := lock(t, dl, "k")
	broker.Stop()
	check(t, lostBy(ends(t, held)) == distlock.CauseDisconnected, "%v", held)
	got := make(chan error, 1)
	go func() {
		_, err := dl.Lock(background, "w")
		got <- err
	}()
	broker.Start()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}

func TestAFrozenBrokerEndsBelief(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	held := lock(t, dl, "k")
	broker.Frozen.Store(true)
	check(t, lostBy(ends(t, held)) == distlock.CauseLapsed, "%v", held)
	broker.Frozen.Store(false)
	check(t, lock(t, dl, "l").Valid() && broker.Sessions() > 1, "another session")
}

func TestAnUnansweredHeartbeatPutsLocksAtRisk(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	held := lock(t, dial(t, broker.Address), "k")
	s := broker.Session(1)
	check(t, !held.AtRisk(), "not yet")
	broker.Do(func() { s.AnswersHeartbeats = false })
	fakebroker.Eventually(t, "the risk", held.AtRisk)
	check(t, held.Valid(), "it is held")
	sent := s.Got("heartbeat")
	s.Ack(sent[len(sent)-1].GetHeartbeat().Seq)
	fakebroker.Eventually(t, "the end of it", func() bool { return !held.AtRisk() })
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	dl := dial(t, "unix:///nowhere/at/all", distlock.WithUnreachableAfter(100*time.Millisecond))
	_, err := dl.Lock(background, "k")
	var unavailable *distlock.UnavailableError
	check(t, errors.As(err, &unavailable) && unavailable.Reason == distlock.ReasonUnreachable, "%v", err)
	for _, part := range []string{"/nowhere/at/all", "DISTLOCK_SERVER"} {
		check(t, strings.Contains(err.Error(), part), "%v", err)
	}
	_, err = dl.Inspect(background, "k")
	check(t, errors.As(err, &unavailable), "%v", err)
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	_, err = dl.Lock(ctx, "k")
	check(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
}

func TestAStatusThatIsFinal(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	broker.Refuse = status.Error(codes.PermissionDenied, "not you")
	_, err := dial(t, broker.Address).Lock(background, "k")
	var refused *distlock.RefusedError
	check(t, errors.As(err, &refused) && refused.Reason == distlock.ReasonPermissionDenied, "%v", err)
}

func TestAnotherBrokerServesWhenOneCannotBeReached(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	for range 8 { // in a random order
		dl := dial(t, "unix:///nowhere,"+broker.Address+",unix:///nobody")
		check(t, lock(t, dl, "k").Valid(), "held")
		_ = dl.Close()
	}
}

func TestATCPBrokerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the kernel, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	dl := dial(t, silent.Addr().String(), distlock.WithUnreachableAfter(200*time.Millisecond))
	_, err = dl.Lock(background, "k")
	var unavailable *distlock.UnavailableError
	check(t, errors.As(err, &unavailable), "%v", err)
}

func TestClose(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	broker.OnAcquire = func(s *fakebroker.Session, command *pb.SessionCommand) {
		if command.GetAcquire().Locks[0].Key != "w" {
			fakebroker.GrantAll(s, command)
		}
	}
	dl := dial(t, broker.Address)
	held := lock(t, dl, "k")
	got := make(chan error, 1)
	go func() {
		_, err := dl.Lock(background, "w")
		got <- err
	}()
	s := broker.Session(1)
	s.Await("acquire", 2)
	_ = dl.Close()
	check(t, errors.Is(<-got, distlock.ErrClosed), "a wait ends")
	check(t, lostBy(held.Err()) == distlock.CauseClientClosed, "%v", held)
	check(t, len(s.Got("goodbye")) == 1 && !s.HalfClosed(), "it says goodbye")
	_, err := dl.Lock(background, "k")
	check(t, errors.Is(err, distlock.ErrClosed), "%v", err)
	_, err = dl.Inspect(background, "k")
	check(t, errors.Is(err, distlock.ErrClosed), "%v", err)
	check(t, dl.Close() == nil, "twice is harmless")
}

func TestTenThousandLocksWithAHandfulOfGoroutines(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	const count = 10_000
	held := make([]*distlock.Lock, count)
	_ = lock(t, dl, "first").Close()
	before := runtime.NumGoroutine()
	var group sync.WaitGroup
	for worker := range 100 {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := worker; i < count; i += 100 {
				one, err := dl.Lock(background, fmt.Sprint(i))
				if err != nil {
					t.Error(err)
					return
				}
				_ = one.Context()
				held[i] = one
			}
		}()
	}
	group.Wait()
	check(t, runtime.NumGoroutine() < before+500, "%d goroutines, %d before", runtime.NumGoroutine(), before)
	messages, largest := broker.Session(1).Traffic()
	check(t, messages < count && largest <= 64<<10, "%d messages, the largest of %d bytes", messages, largest)
	for _, one := range held {
		check(t, one.Valid(), "all are held")
	}
	s := broker.Session(1)
	s.Await("heartbeat", len(s.Got("heartbeat"))+2)
	for _, one := range held {
		check(t, one.Valid(), "and stay so")
		_ = one.Close()
	}
	s.Await("release", count+1)
}

func TestNoGoroutineIsLeft(t *testing.T) { // not parallel
	count := func() int {
		buffer := make([]byte, 1<<20)
		all := string(buffer[:runtime.Stack(buffer, true)])
		return strings.Count(all, "client/go.(*core)") + strings.Count(all, "client/go.(*stream)")
	}
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	held := lock(t, dl, "k")
	check(t, count() > 0, "there are some")
	broker.Stop()
	_ = ends(t, held)
	_ = dl.Close()
	fakebroker.Eventually(t, "the end of all goroutines", func() bool { return count() == 0 })
}

func TestHoldOff(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	broker.OnAcquire = func(s *fakebroker.Session, command *pb.SessionCommand) {
		s.Reject(command.Id, &pb.Refusal{
			Reason: pb.RefusalReason_REFUSAL_REASON_STORE_HOLD_OFF, Message: "why", RetryAfter: durationpb.New(time.Minute)})
	}
	_, err := dial(t, broker.Address).Lock(background, "k", distlock.Try())
	var unavailable *distlock.UnavailableError
	check(t, errors.As(err, &unavailable) && unavailable.Reason == distlock.ReasonStoreHoldOff &&
		unavailable.RetryAfter == time.Minute, "%v", err)
}

func TestALockIsNotFreeDuringAHoldOff(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	left := map[string]*durationpb.Duration{"held off": durationpb.New(time.Minute)}
	broker.OnUnary["GetLock"] = func(_ context.Context, request any) (any, error) {
		key := request.(*pb.GetLockRequest).Key
		return &pb.GetLockResponse{Lock: &pb.LockInfo{Key: key}, HoldOff: left[key]}, nil
	}
	dl := dial(t, broker.Address)
	info := must[*distlock.LockInfo](t)(dl.Inspect(background, "k"))
	check(t, info.Free() && info.HoldOff == 0, "%v", info)
	info = must[*distlock.LockInfo](t)(dl.Inspect(background, "held off"))
	check(t, !info.Free() && info.HoldOff == time.Minute, "%v", info)
}
