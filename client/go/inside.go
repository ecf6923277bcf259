// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"time"

	"distlock.dev/client/go/internal/channel"
	"distlock.dev/client/go/internal/inside"
)

func init() {
	inside.Dial = func(open func(string) (channel.Conn, error), now func() time.Duration, options []any,
	) (any, inside.Core) {
		given := make([]DialOption, len(options))
		for i, option := range options {
			given[i] = option.(DialOption)
		}
		made := settingsOf(given)
		made.address, made.open, made.now = "the test's broker", open, now
		client := newClient(made, []string{made.address})
		return client, client.core
	}
}

// Turn is of inside.Core.
func (c *core) Turn() { c.turn() }

// Idle is of inside.Core.
func (c *core) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
	for _, stream := range c.streams {
		if stream != nil && (stream.writing || c.table.Ready(stream.link)) {
			return false
		}
	}
	return (!c.started || c.closing || c.due() > c.now()) && c.callbacks.idle()
}
