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

var (
	cancellations = flag.Int64("cancellations", 1000, "how many acquires are cancelled at random moments")
	around        = flag.Duration("around", 5*time.Millisecond, "the mean of the moments")
)

// cancelled makes one acquire of a random kind, whose context ends at a random moment. True: it was cancelled.
func cancelled(dl *distlock.Client) bool {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	// Some end before the request has left, some at about the grant, few after it.
	if after := time.Duration(rand.ExpFloat64() * float64(*around)); rand.N(2) == 0 {
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
	clients := []*distlock.Client{dial(t, b.address), dial(t, b.address)}
	for i := range 16 {
		all.Add(1)
		go func() {
			defer all.Done()
			for count.Load() < *cancellations {
				if asked.Add(1); cancelled(clients[i%2]) {
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
	leaked := 0
	for info, err := range other.List(background, "", distlock.Namespace("-")) {
		check(t, err == nil, "%v", err)
		leaked += info.HolderCount + info.QueueLength
	}
	for i := range 6 {
		taken := kept(t)(other.Lock(background, fmt.Sprint("k", i), distlock.Try()))
		check(t, taken.Valid(), "k%d is free", i)
	}
	t.Logf("%d of %d acquires were cancelled; %d leaked", count.Load(), asked.Load(), leaked)
	check(t, leaked == 0, "%d leaked", leaked)
}
