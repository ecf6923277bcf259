// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"log/slog"
	"sync"
)

// callbacks runs those of the program, one after the other, on a goroutine that is there while there are some.
type callbacks struct {
	mu      sync.Mutex
	due     []func()
	running bool
}

func (c *callbacks) run(callback func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = append(c.due, callback)
	if !c.running {
		c.running = true
		go c.runAll()
	}
}

func (c *callbacks) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.running
}

func (c *callbacks) runAll() {
	for {
		c.mu.Lock()
		if len(c.due) == 0 {
			c.running = false
			c.mu.Unlock()
			return
		}
		next := c.due[0]
		c.due = c.due[1:]
		c.mu.Unlock()
		guard("OnQueued or OnDraining", next)
	}
}

// guard calls a callback of the program, whose panic must not end the work of this package.
func guard(what string, callback func()) {
	defer func() {
		if problem := recover(); problem != nil {
			slog.Error("distlock: a callback of the program panicked", "callback", what, "panic", problem)
		}
	}()
	callback()
}
