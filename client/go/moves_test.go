// SPDX-License-Identifier: Apache-2.0

package distlock_test

import (
	"fmt"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/fakebroker"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// pair is a client of two brokers.
type pair struct {
	dl            *distlock.Client
	first, second *fakebroker.Broker // the one that it uses, and the other one
}

func newPair(t *testing.T, options ...distlock.DialOption) pair {
	t.Helper()
	a, b := fakebroker.New(t), fakebroker.New(t)
	p := pair{dl: dial(t, a.Address+","+b.Address, options...), first: a, second: b}
	if _ = lock(t, p.dl, "to connect").Close(); a.Sessions() == 0 {
		p.first, p.second = b, a
	}
	for _, broker := range []*fakebroker.Broker{a, b} {
		broker.OnAdopt = adoptAs(map[string]int64{})
	}
	return p
}

// adoptAs grants adoptions with the tokens of the keys; 1 for those that are not named.
func adoptAs(tokens map[string]int64) func(*fakebroker.Session, *pb.SessionCommand) {
	return func(s *fakebroker.Session, command *pb.SessionCommand) {
		key := command.GetAdopt().Lock.Key
		s.Grant(command.Id, key, func(grant *pb.Grant) { grant.FencingToken = max(tokens[key], 1) })
	}
}

func TestADrainMovesLocksAndTheProgramHearsNothing(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	tokens := map[string]int64{}
	var held []*distlock.Lock
	for i := range 100 {
		held = append(held, lock(t, p.dl, fmt.Sprint(i)))
		tokens[held[i].Key()] = held[i].Token()
	}
	p.second.OnAdopt = adoptAs(tokens)
	p.first.Session(1).Drain()
	next := p.second.Session(1)
	next.Await("adopt", 100)
	p.first.Session(1).Await("goodbye", 1)
	for i, one := range held {
		check(t, one.Valid() && one.Token() == tokens[one.Key()] && one.Context().Err() == nil, "lock %d has moved", i)
	}
	check(t, lock(t, p.dl, "new").Valid() && len(next.Got("acquire")) == 1, "new ones go to the next broker")
	outcome, err := held[0].Release(background)
	check(t, outcome == distlock.Released && err == nil && len(next.Got("release")) == 1, "%v %v", outcome, err)
}

func TestAWaitMovesAndKeepsItsPlace(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.first.Do(func() { p.first.OnAcquire = fakebroker.Hold })
	got := make(chan error, 1)
	go func() {
		_, err := p.dl.Lock(background, "w")
		got <- err
	}()
	former := p.first.Session(1)
	asked := former.Await("acquire", 2).GetAcquire()
	former.Drain()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	next := p.second.Session(1).Got("acquire")[0].GetAcquire()
	check(t, next.RequestId == asked.RequestId && len(former.Got("cancel")) == 0, "its place")
	former.Await("goodbye", 1)
}

func TestADrainWithNoOtherBrokerIsTold(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	told := make(chan time.Duration, 1)
	dl := dial(t, broker.Address, distlock.OnDraining(func(timeLeft time.Duration) { told <- timeLeft }))
	held := lock(t, dl, "k")
	s := broker.Session(1)
	s.Drain()
	check(t, <-told == 30*time.Second && held.Valid(), "the time left")
	s.Lose(s.Got("acquire")[0].Id, pb.LostReason_LOST_REASON_DRAINED)
	check(t, lostBy(ends(t, held)) == distlock.CauseDrained, "%v", held)
}

func TestResumeAdoptsAfterABreak(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	held := lock(t, dl, "k", distlock.Resume())
	plain := lock(t, dl, "plain")
	broker.Stop()
	check(t, lostBy(ends(t, plain)) == distlock.CauseDisconnected, "%v", plain)
	check(t, held.Valid() && held.AtRisk(), "it is at risk")
	broker.Start()
	broker.Session(2).Await("adopt", 1)
	fakebroker.Eventually(t, "the adoption", func() bool { return held.Valid() && !held.AtRisk() })
	check(t, held.Context().Err() == nil, "the program heard nothing")
}

func TestResumeEndsWithThePromise(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	held := lock(t, dial(t, broker.Address), "k", distlock.Resume())
	broker.Stop()
	check(t, held.Valid(), "while the promise lasts")
	check(t, lostBy(ends(t, held)) == distlock.CauseLapsed, "%v", held)
}

func TestResumeThroughAnotherBroker(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	held := lock(t, p.dl, "k", distlock.Resume())
	p.second.OnAdopt = adoptAs(map[string]int64{"k": held.Token()})
	p.first.Session(1).End(status.Error(codes.Unavailable, "by the test"))
	p.second.Session(1).Await("adopt", 1)
	fakebroker.Eventually(t, "the adoption", func() bool { return held.Valid() && !held.AtRisk() })
}

func TestAReleaseWhileTheLockMoves(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	held := lock(t, p.dl, "k")
	p.second.OnAdopt = fakebroker.Hold
	p.first.Session(1).Drain()
	adopt := p.second.Session(1).Await("adopt", 1)
	outcome, err := held.Release(background)
	check(t, outcome == distlock.Released && err == nil, "%v %v", outcome, err)
	there := p.second.Session(1).Got("release")[0].GetRelease()
	check(t, there.AcquireId == adopt.Id && len(p.first.Session(1).Got("release")) == 2, "at both")
}
