// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"context"
	"time"
)

// Observer has hooks for tracing and metrics, such as OpenTelemetry's, without a dependency. Its methods must not
// block, and are called by several goroutines at once. One that panics costs no lock: the log tells of it. Embed
// NopObserver, and define those that you need.
type Observer interface {
	// Acquiring: a request begins, on the caller's goroutine. The context that it returns, with a span say, goes to the
	// other methods, and Lock.Context derives from it.
	Acquiring(ctx context.Context, keys []string, mode Mode) context.Context

	// Answered: the request is over, on the caller's goroutine. err: nil when it was granted; else what the call
	// returns. waited: as the caller saw it.
	Answered(ctx context.Context, err error, waited time.Duration)

	// Ended: one lock of the request has ended, on any goroutine. err: ErrReleased, or a *LostError.
	Ended(ctx context.Context, key string, err error, heldFor time.Duration)

	// Session: the session with the broker at address has opened; or it has ended, and err says why, nil after Close.
	Session(address string, opened bool, err error)
}

// NopObserver does nothing.
type NopObserver struct{}

// Acquiring returns ctx.
func (NopObserver) Acquiring(ctx context.Context, _ []string, _ Mode) context.Context { return ctx }

// Answered does nothing.
func (NopObserver) Answered(context.Context, error, time.Duration) {}

// Ended does nothing.
func (NopObserver) Ended(context.Context, string, error, time.Duration) {}

// Session does nothing.
func (NopObserver) Session(string, bool, error) {}

// guarded is an observer that cannot panic.
type guarded struct{ Observer }

func (g guarded) Acquiring(ctx context.Context, keys []string, mode Mode) context.Context {
	made := ctx
	guard("Observer.Acquiring", func() { made = g.Observer.Acquiring(ctx, keys, mode) })
	if made == nil {
		return ctx
	}
	return made
}

func (g guarded) Answered(ctx context.Context, err error, waited time.Duration) {
	guard("Observer.Answered", func() { g.Observer.Answered(ctx, err, waited) })
}

func (g guarded) Ended(ctx context.Context, key string, err error, heldFor time.Duration) {
	guard("Observer.Ended", func() { g.Observer.Ended(ctx, key, err, heldFor) })
}

func (g guarded) Session(address string, opened bool, err error) {
	guard("Observer.Session", func() { g.Observer.Session(address, opened, err) })
}
