// SPDX-License-Identifier: Apache-2.0

// Package inside lets distlocktest make real clients with connections and a clock of its own.
package inside

import (
	"time"

	"distlock.dev/client/go/internal/channel"
)

// Core is the inside of a client.
type Core interface {
	// Turn does what the client's timer has to do at this moment.
	Turn()
	// Idle tells whether there is nothing to be sent, to be done, or to be called back at this moment.
	Idle() bool
}

// Dial is set by package distlock: options are its DialOptions, client is a *distlock.Client.
var Dial func(open func(address string) (channel.Conn, error), now func() time.Duration, options []any) (client any,
	core Core)
