// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"context"
	"testing"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/clock"
	"distlock.dev/client/go/internal/fakebroker"
	"distlock.dev/client/go/internal/locktable"
)

// Only the inside shows these.

func TestARequestThatIsGrantedWhileItsCallerGoesIsGivenBack(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl, err := Dial(broker.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer dl.Close()
	answer := make(chan *locktable.Refusal, 1)
	var request *locktable.Request
	dl.core.do(func(now time.Duration, fx *locktable.Effects) {
		dl.core.start()
		request = dl.core.table.Acquire([]*pb.LockSpec{{Key: "k"}}, locktable.Forever,
			func(refusal *locktable.Refusal) { answer <- refusal }, nil, now, fx)
	})
	if refusal := <-answer; refusal != nil {
		t.Fatal(refusal)
	}
	dl.core.giveUp(request)
	broker.Session(1).Await("release", 1)
	if request.Leases[0].Phase() != locktable.Ended {
		t.Fatal("it is still held")
	}
}

func TestABlockedClientDoesNotMakeALockLast(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl, err := Dial(broker.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer dl.Close()
	held, err := dl.Lock(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	looked := make(chan bool)
	dl.core.mu.Lock() // neither timer nor reader runs, as when the process was stopped
	for clock.Now() < held.lease.Deadline() {
		time.Sleep(time.Millisecond)
	}
	go func() { looked <- held.Valid() || held.Context().Err() == nil }()
	time.Sleep(time.Millisecond)
	dl.core.mu.Unlock()
	if <-looked {
		t.Fatal("it is held after its deadline")
	}
}
