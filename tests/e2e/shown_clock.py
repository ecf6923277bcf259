# SPDX-License-Identifier: Apache-2.0
"""The wall clock that a process sees, which can be set: by the clock shim of tests/sim/redis, a library for
LD_PRELOAD.
"""
import pathlib
import struct

from harness import DISTLOCKD

SHIM = pathlib.Path(DISTLOCKD).parents[1] / "lib/distlock_clock_shim.so"
# A thread that jemalloc starts while the library is loaded would wait for it for ever.
REDIS_ARGS = ("--jemalloc-bg-thread", "no")


class ShownClock:
    def __init__(self, page):
        self.page, self.offset_ns = pathlib.Path(page), 0
        self._write()

    def of(self, process):
        """The process has this clock when it starts."""
        process.argv = ["env", f"LD_PRELOAD={SHIM}", f"DISTLOCK_CLOCK_PAGE={self.page}", *process.argv]
        return self

    def step(self, seconds):
        self.offset_ns += int(seconds * 1_000_000_000)
        self._write()

    def _write(self):
        with open(self.page, "r+b" if self.page.exists() else "wb") as page:
            page.write(struct.pack("<qq", 0, self.offset_ns))
