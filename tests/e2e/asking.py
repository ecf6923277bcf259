# SPDX-License-Identifier: Apache-2.0
"""Ways to take one lock: by Hold, by Session, by Acquire. `Asking` takes it in one of them, in every mode."""
import concurrent.futures
import threading

import grpc

from client import Failure, api
from harness import eventually
from proxy import PATIENCE_S


class ByHold:
    def __init__(self, client, spec):
        self.client, self.stream = client, client.hold(spec)

    def granted(self):
        return self.stream.wait_for("granted")

    def leave(self):
        self.client.release(self.granted().lease_id)
        self.stream.wait_for("released")


class BySession:
    def __init__(self, client, spec):
        self.session = client.session()
        self.command = self.session.acquire(spec)

    def granted(self):
        return self.session.wait_for(self.command, "granted")

    def leave(self):
        self.granted()
        self.session.wait_for(self.session.release(self.command), "released")


class ByAcquire:
    def __init__(self, client, spec):
        self.client, self.grant = client, concurrent.futures.Future()
        threading.Thread(target=self._acquire, args=(spec,), daemon=True).start()

    def _acquire(self, spec):
        try:
            self.grant.set_result(self.client.acquire(spec))
        except grpc.RpcError as error:
            self.grant.set_exception(error)

    def granted(self):
        return self.grant.result(PATIENCE_S)

    def leave(self):
        assert self.client.release(self.granted().lease_id) == api().RELEASE_OUTCOME_RELEASED


class Asking:
    """Takes the lock k in one way; an owner label names each caller."""

    def __init__(self, client, way, **fields):
        self.client, self.way, self.fields = client, way, fields

    def _spec(self, owner, mode, **fields):
        return self.client.spec("k", owner=owner, mode=mode, **{**self.fields, **fields})

    def reader(self, owner, **fields):
        return self.way(self.client, self._spec(owner, api().LOCK_MODE_SHARED, **fields))

    def writer(self, owner, **fields):
        return self.way(self.client, self._spec(owner, api().LOCK_MODE_EXCLUSIVE, **fields))

    def permits(self, owner, permits, limit, **fields):
        return self.way(self.client, self._spec(owner, api().LOCK_MODE_PERMIT, permits=permits, limit=limit, **fields))

    def await_queue(self, *owners):
        """Waits until these callers wait, in this order."""
        eventually(lambda: self.shown()[1] == list(owners), f"{owners} waiting")

    def shown(self):
        """(holders, waiters), in the order of the store."""
        lock = self.client.lock("k")
        assert lock.holder_count == len(lock.holders) and lock.queue_length == len(lock.waiters)
        return [h.owner for h in lock.holders], [w.owner for w in lock.waiters]

    def one_try(self, mode, **fields):
        """Tries once. The reason of the refusal; None when the lock was granted, which is then released."""
        spec = self._spec("one try", mode, **fields)
        spec.max_wait.CopyFrom(api().Duration())
        try:
            grant = self.client.acquire(spec)
        except grpc.RpcError as error:
            return Failure(error).reason
        self.client.release(grant.lease_id)
        return None
