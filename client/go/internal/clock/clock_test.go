// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"testing"
	"time"
)

func TestAJumpOfTheWallClockEndsAllBelief(t *testing.T) {
	var wall, monotonic time.Duration
	clock := NewWatched(func() time.Duration { return monotonic }, func() time.Duration { return wall })
	expect := func(want time.Duration) {
		t.Helper()
		if got := clock.Now(); got != want {
			t.Fatalf("the clock says %v, not %v", got, want)
		}
	}
	expect(0)
	wall, monotonic = 5*time.Second, 5*time.Second
	expect(5 * time.Second)
	wall += time.Second / 2 // somebody sets the clock a little
	expect(5 * time.Second)
	wall += 2 * time.Second // a suspend
	expect(5*time.Second + forward)
	wall, monotonic = wall+time.Second, monotonic+time.Second
	expect(6*time.Second + forward)
	wall -= time.Hour
	expect(6*time.Second + 2*forward)
}

func TestNowGoesOn(t *testing.T) {
	for before, i := Now(), 0; i < 1000; i++ {
		now := Now()
		if now < before {
			t.Fatalf("%v came after %v", now, before)
		}
		before = now
	}
}
