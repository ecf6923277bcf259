// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
)

var cancellations = flag.Int64("cancellations", 1000, "how many acquires are cancelled at random moments")

// moments are when acquires are cancelled: about when they are granted, whatever that takes.
type moments struct {
	mu   sync.Mutex
	mean time.Duration
}

func (m *moments) next() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Duration(rand.ExpFloat64() * float64(m.mean))
}

// learn has two of three acquires cancelled.
func (m *moments) learn(cancelled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mean = m.mean * 96 / 100; cancelled {
		m.mean = m.mean * 102 / 96
	}
	m.mean = min(max(m.mean, 50*time.Microsecond), 50*time.Millisecond) // where something is leaked all are cancelled
}

// cancelled makes one acquire of a random kind, whose context ends at a random moment. True: it was cancelled.
func cancelled(dl *distlock.Client, after time.Duration) bool {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	if rand.N(2) == 0 {
		ctx, cancel = context.WithTimeout(ctx, after)
		defer cancel()
	} else {
		timer := time.AfterFunc(after, cancel)
		defer timer.Stop()
	}
	key := func() string { return fmt.Sprint("k", rand.N(6)) }
	var err error
	var held interface{ Close() error }
	switch rand.N(6) {
	case 0:
		var locks distlock.Locks
		if locks, err = dl.LockAll(ctx, distlock.Keys("k1", "k2", "k3")); err == nil {
			_, err := locks.Release(background)
			return err != nil
		}
		return ctx.Err() != nil
	case 1:
		held, err = dl.RLock(ctx, key())
	case 2:
		held, err = dl.Permits(ctx, "permits", 2, 1)
	case 3:
		held, err = dl.Lock(ctx, key(), distlock.Reentrant(), distlock.Owner("me"))
	case 4:
		held, err = dl.Lock(ctx, key(), distlock.Wait(time.Second), distlock.Resume())
	default:
		held, err = dl.Lock(ctx, key())
	}
	if err != nil {
		return ctx.Err() != nil
	}
	_ = held.Close()
	return false
}

func TestCancelledAcquiresLeaveNothingHeld(t *testing.T) {
	b := newWorld(t).broker("a")
	var all sync.WaitGroup
	var count, asked atomic.Int64
	when := moments{mean: time.Millisecond}
	clients := []*distlock.Client{dial(t, b.address), dial(t, b.address)}
	for i := range 16 {
		all.Add(1)
		go func() {
			defer all.Done()
			for count.Load() < *cancellations {
				asked.Add(1)
				withdrawn := cancelled(clients[i%2], when.next())
				if when.learn(withdrawn); withdrawn {
					count.Add(1)
				}
			}
		}()
	}
	all.Wait()
	other := dial(t, b.address)
	for _, dl := range clients {
		ctx, cancel := context.WithTimeout(background, patience)
		defer cancel()
		check(t, dl.Drained(ctx) == nil && dl.Stats() == distlock.Stats{}, "%+v is left", dl.Stats())
	}
	leaked := func() (count int) { // a broker renews what is leaked: that stays
		for info, err := range other.List(background, "", distlock.Namespace("-")) {
			check(t, err == nil, "%v", err)
			count += info.HolderCount + info.QueueLength
		}
		return count
	}
	for deadline := time.Now().Add(patience); leaked() > 0 && time.Now().Before(deadline); { // cancels are on their way
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("%d of %d acquires were cancelled; %d leaked", count.Load(), asked.Load(), leaked())
	check(t, leaked() == 0, "%d leaked", leaked())
	for i := range 6 {
		lock(t, other, fmt.Sprint("k", i), distlock.Try())
	}
}
