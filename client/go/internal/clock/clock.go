// SPDX-License-Identifier: Apache-2.0

// Package clock has the clock that deadlines are counted by: it goes on while the machine is suspended. Go's own
// monotonic clock stops there on Linux, and so do Go's timers: a timer only wakes, this clock decides.
package clock

import (
	"sync"
	"time"
)

const (
	longestDrift = time.Second    // of the wall clock from the monotonic one
	forward      = 24 * time.Hour // longer than any promise
)

// Watched is for systems without a clock that is known to count suspend: the monotonic clock. When the wall clock has
// moved further than it by more than a second, or back, this clock jumps ahead by a day, which ends all belief.
type Watched struct {
	mu        sync.Mutex
	monotonic func() time.Duration
	wall      func() time.Duration
	started   bool
	apart     time.Duration
	jumps     time.Duration
}

// NewWatched makes one from its two clocks, each counted from any fixed moment.
func NewWatched(monotonic, wall func() time.Duration) *Watched {
	return &Watched{monotonic: monotonic, wall: wall}
}

// Now reads it.
func (w *Watched) Now() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	monotonic := w.monotonic()
	apart := w.wall() - monotonic
	if w.started && (apart-w.apart).Abs() > longestDrift {
		w.jumps += forward
		w.apart = apart
	}
	if !w.started {
		w.started, w.apart = true, apart
	}
	return monotonic + w.jumps
}
