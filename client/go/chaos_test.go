// SPDX-License-Identifier: Apache-2.0

package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/fakebroker"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// harass has brokers drain, break streams and lose leases, until the context ends.
func harass(ctx context.Context, brokers ...*fakebroker.Broker) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		broker := brokers[rand.IntN(len(brokers))]
		if broker.Sessions() == 0 {
			continue
		}
		s := broker.Last()
		switch rand.IntN(4) {
		case 0:
			s.Drain()
		case 1:
			s.End(status.Error(codes.Unavailable, "by the test"))
		default:
			if asked := s.Got("acquire"); len(asked) > 0 {
				s.Lose(asked[rand.IntN(len(asked))].Id, pb.LostReason_LOST_REASON_TAKEN)
			}
		}
	}
}

func TestEachCallEndsWhateverTheBrokersDo(t *testing.T) {
	t.Parallel()
	a, b := fakebroker.New(t), fakebroker.New(t)
	for _, broker := range []*fakebroker.Broker{a, b} {
		broker.OnAcquire = func(s *fakebroker.Session, command *pb.SessionCommand) {
			if rand.IntN(4) > 0 {
				fakebroker.GrantAll(s, command)
			}
		}
	}
	dl := dial(t, a.Address+","+b.Address)
	ctx, cancel := context.WithTimeout(background, 2*time.Second)
	defer cancel()
	go harass(ctx, a, b)
	var group sync.WaitGroup
	for worker := range 20 {
		group.Add(1)
		go func() {
			defer group.Done()
			for round := 0; ctx.Err() == nil; round++ {
				visit(t, dl, fmt.Sprint(worker, " ", round))
			}
		}()
	}
	group.Wait()
	a.Do(func() { a.OnAcquire = fakebroker.GrantAll })
	b.Do(func() { b.OnAcquire = fakebroker.GrantAll })
	check(t, lock(t, dl, "afterwards").Valid(), "the client still works")
}

// visit takes a lock in one of several ways, and gives it back in one of several ways.
func visit(t *testing.T, dl *distlock.Client, key string) {
	ctx, cancel := context.WithTimeout(background, 30*time.Millisecond)
	defer cancel()
	var options []distlock.Option
	if rand.IntN(2) == 0 {
		options = append(options, distlock.Resume(), distlock.Wait(20*time.Millisecond))
	}
	held, err := dl.Lock(ctx, key, options...)
	if err != nil {
		var refused *distlock.RefusedError
		if !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &refused) {
			t.Errorf("neither its end nor a refusal: %v", err)
		}
		return
	}
	if rand.IntN(2) == 0 {
		_ = held.Context()
	}
	if rand.IntN(2) == 0 {
		_ = held.Close()
	} else if outcome, err := held.Release(ctx); (err == nil) != (outcome == distlock.Released) {
		t.Errorf("the outcome %v with the error %v", outcome, err)
	}
	if held.Valid() || held.Err() == nil || held.Context().Err() == nil {
		t.Errorf("it has not ended: %v", held)
	}
}
