// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
)

// The package gives back a lock whose handle the program has dropped.

func TestWhatIsGivenBackWhileNoBrokerIsThereIsFreeAsSoonAsOneIs(t *testing.T) {
	b := newWorld(t).broker("a")
	dl := dial(t, b.address)
	gap, unanswered := lock(t, dl, "gap", distlock.Resume()), lock(t, dl, "unanswered", distlock.Resume())
	b.signal(syscall.SIGSTOP)
	_ = unanswered.Close()
	time.Sleep(100 * time.Millisecond) // it has left
	b.kill()
	eventually(t, "the break", gap.AtRisk)
	outcome, err := gap.Release(background)
	check(t, outcome == distlock.OutcomeUnknown && err == distlock.ErrUnknownOutcome, "%v %v", outcome, err)
	b.launch()
	other := dial(t, b.address, distlock.WithUnreachableAfter(patience))
	began := time.Now()
	for _, key := range []string{"gap", "unanswered"} {
		check(t, lock(t, other, key, distlock.Wait(patience)).Valid(), "%s is free", key)
	}
	check(t, time.Since(began) < 8*time.Second, "long before their ttl of 15 s has passed: %v", time.Since(began))
}

func TestADroppedHandleIsFree(t *testing.T) {
	b := newWorld(t).broker("a")
	dl := dial(t, b.address)
	must[*distlock.Lock](t)(dl.Lock(background, "k"))
	other := dial(t, b.address)
	eventually(t, "the release", func() bool {
		runtime.GC()
		held, err := other.Lock(background, "k", distlock.Try())
		return err == nil && held.Close() == nil
	})
}
