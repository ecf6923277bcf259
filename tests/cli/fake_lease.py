# SPDX-License-Identifier: Apache-2.0
"""One acquire of the fake broker, from its request to the end of its lock."""
import threading
import time
import uuid

EXCLUSIVE, SHARED, PERMIT = 1, 2, 3


class Lease:
    def __init__(self, spec, stream=None, command_id=0, request_id=""):
        self.spec, self.stream, self.command_id, self.request_id = spec, stream, command_id, request_id
        self.lease_id = "lease-" + uuid.uuid4().hex
        self.holder_id = uuid.uuid4().hex[:16]
        self.token = 0
        self.since = time.time()
        self.granted = threading.Event()

    def name(self):
        return (self.spec.namespace or "default", self.spec.key)

    def ttl_ms(self):
        return self.spec.ttl.ToMilliseconds() or 15000

    def mode(self):
        return self.spec.mode or EXCLUSIVE

    def permits(self):
        return max(self.spec.permits, 1) if self.mode() == PERMIT else 0

    def mixes(self, holders):
        """Whether the modes may be used on one lock: EXCLUSIVE with SHARED, PERMIT with the same limit."""
        return all(holder.spec.limit == self.spec.limit for holder in holders)

    def refused_beside(self, holders):
        """The reason that one try hears when it does not get the lock."""
        return "LOCK_HELD" if self.mixes(holders) else "LIMIT_MISMATCH"

    def fits(self, holders):
        """Whether it can hold the lock beside these holders."""
        if not holders or not self.mixes(holders):
            return not holders
        if self.mode() == PERMIT:
            return sum(h.permits() for h in holders) + self.permits() <= self.spec.limit
        return self.mode() == SHARED and holders[0].mode() == SHARED
