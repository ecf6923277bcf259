// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// CountsSuspend tells whether Now goes on while the machine is suspended.
const CountsSuspend = true

// Now is CLOCK_BOOTTIME.
func Now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("distlock: clock_gettime(CLOCK_BOOTTIME): " + err.Error()) // no kernel that Go supports lacks it
	}
	return time.Duration(now.Nano())
}
