// SPDX-License-Identifier: Apache-2.0

package distlock

import "context"

// Provider is what a function needs that takes locks. Let it depend on this, and give it a *Client, one of package
// distlocktest, or a type of your own around one of these.
type Provider interface {
	Lock(ctx context.Context, key string, options ...Option) (*Lock, error)
	RLock(ctx context.Context, key string, options ...Option) (*Lock, error)
	Permits(ctx context.Context, key string, limit, n int, options ...Option) (*Lock, error)
	Do(ctx context.Context, key string, f func(ctx context.Context, token int64) error, options ...Option) error
}

var _ Provider = (*Client)(nil)
