# SPDX-License-Identifier: Apache-2.0
"""The clock that deadlines are counted by: it goes on while the machine is suspended. Times are whole nanoseconds."""
import logging
import time
from typing import Callable

SECOND = 1_000_000_000
NEVER = (1 << 63) - 1
LONGEST_DRIFT = SECOND  # of the wall clock from the monotonic one
FORWARD = 24 * 3600 * SECOND  # longer than any promise


class WatchedClock:
    """For systems without CLOCK_BOOTTIME: the monotonic clock, which may stop in suspend. When the wall clock has moved
    further than it by more than a second, or back, this clock jumps ahead by a day, which ends all belief."""

    def __init__(self, monotonic: Callable[[], int] = time.monotonic_ns,
                 wall: Callable[[], int] = time.time_ns) -> None:
        self._monotonic, self._wall = monotonic, wall
        self._jumps = 0
        self._apart = wall() - monotonic()

    def __call__(self) -> int:
        monotonic = self._monotonic()
        apart = self._wall() - monotonic
        if abs(apart - self._apart) > LONGEST_DRIFT:
            self._apart = apart
            self._jumps += FORWARD
        return monotonic + self._jumps


def _boottime() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def choose() -> Callable[[], int]:
    """CLOCK_BOOTTIME; elsewhere a WatchedClock, and the log says so."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return _boottime
    logging.getLogger("distlock").warning(
        "this system has no CLOCK_BOOTTIME: when the wall clock jumps by more than a second, all locks count as lost")
    return WatchedClock()


now: Callable[[], int] = choose()


def nanoseconds(seconds: float) -> int:
    return round(seconds * SECOND)
