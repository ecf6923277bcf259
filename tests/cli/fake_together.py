# SPDX-License-Identifier: Apache-2.0
"""The fake broker's requests for several locks, all or nothing."""
import threading

from fake_lease import Lease


class Together:
    """A part of FakeBroker: uses its queues; `bundles` has the requests that wait for several locks."""

    def _session_acquire_together(self, stream, command):
        """Unlike a real broker, holds none of the locks while it waits; no test depends on that."""
        leases = [Lease(spec, stream, command.id + i) for i, spec in enumerate(command.acquire.locks)]
        spec = leases[0].spec
        if self._enter_all(leases):
            return
        if spec.HasField("max_wait") and spec.max_wait.ToMilliseconds() == 0:
            return self._refuse_all(leases, "LOCK_HELD")
        self.bundles.append(leases)
        if spec.HasField("max_wait"):
            threading.Timer(spec.max_wait.ToMilliseconds() / 1000, self._refuse_all, (leases, "WAIT_TIMEOUT")).start()

    def _enter_all(self, leases):
        if any(self.queues[lease.name()] and not lease.fits(self.queues[lease.name()]) for lease in leases):
            return False
        for lease in leases:
            self._enter(lease)
        return True

    def _refuse_all(self, leases, reason):
        with self.lock:
            if any(lease.token for lease in leases):
                return
            self.bundles = [bundle for bundle in self.bundles if bundle is not leases]
            for lease in leases:
                self._event(lease.stream, lease.command_id, refused=self.api.Refusal(
                    reason=self.api.RefusalReason.Value("REFUSAL_REASON_" + reason), message="one of them is held",
                    holders=[self._holder_of(h) for other in leases for h in self._holders(other.name())]))

    def _bundle(self, stream, command_id):
        return next((bundle for bundle in self.bundles
                     if bundle[0].stream is stream and bundle[0].command_id == command_id), None)
