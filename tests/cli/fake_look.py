# SPDX-License-Identifier: Apache-2.0
"""What the fake broker shows of its locks: GetLock, ListLocks, WatchLock, WatchLocks, CheckToken."""
import itertools
import time

import grpc


class Look:
    """A part of FakeBroker: reads its queues, tokens and blocks."""

    def _holder_of(self, lease):
        holder = self.api.Holder(holder_id=lease.holder_id, owner=lease.spec.owner, mode=lease.mode(),
                                 permits=lease.permits(), fencing_token=lease.token, broker_id=self.broker_id)
        holder.metadata.update(lease.spec.metadata)
        holder.acquire_time.FromMilliseconds(int(lease.since * 1000))
        holder.time_left.FromMilliseconds(lease.ttl_ms())
        holder.ttl.FromMilliseconds(lease.ttl_ms())
        holder.limit = lease.spec.limit
        holder.held_for.FromMilliseconds(int((time.time() - lease.since) * 1000))
        holder.detached = lease.stream is None
        return holder

    def _lock_of(self, name):
        holders = self._holders(name)
        waiters = self.queues[name][len(holders):]
        lock = self.api.LockInfo(namespace=name[0], key=name[1], queue_length=len(waiters), holder_count=len(holders),
                                 fencing_token=self.newest.get(name, 0), block=self.blocks.get(name))
        lock.holders.extend(self._holder_of(lease) for lease in holders)
        for lease in waiters:
            waiter = lock.waiters.add(waiter_id=lease.holder_id, owner=lease.spec.owner, mode=lease.mode(),
                                      permits=lease.permits(), broker_id=self.broker_id)
            waiter.start_time.FromMilliseconds(int(lease.since * 1000))
        return lock

    def _get_lock(self, request, _):
        with self.lock:
            response = self.api.GetLockResponse(lock=self._lock_of((request.namespace or "default", request.key)))
        self._add_hold_off(response)
        return response

    def _add_hold_off(self, response):
        if self.hold_off_s:
            response.hold_off.FromSeconds(self.hold_off_s)

    def _watch_lock(self, request, context):
        told, self.watches = None, self.watches + 1
        while context.is_active() and not self.stopping:
            self._cut(context)
            if self.refusal:
                reason, message, fields = self.refusal
                self._abort(context, grpc.StatusCode.UNAVAILABLE, reason, message, fields)
            with self.lock:
                lock = self._lock_of((request.namespace or "default", request.key))
            if self._seen(lock) != told:
                told = self._seen(lock)
                yield self.api.WatchLockResponse(lock=lock)
                self.states_told += 1
            time.sleep(0.005)
        if context.is_active():
            self._abort(context, grpc.StatusCode.UNAVAILABLE, "DRAINING", "this broker is going down", {})

    def _cut(self, context):
        """As a proxy does with a stream that was silent for too long."""
        if self.cuts:
            context.abort(grpc.StatusCode.INTERNAL, "Received RST_STREAM with error code 2")

    @staticmethod
    def _seen(lock):
        return [h.holder_id for h in lock.holders], [w.waiter_id for w in lock.waiters], lock.HasField("block")

    def _watch_locks(self, request, context):
        told, self.watches = {}, self.watches + 1
        while context.is_active() and not self.stopping:
            self._cut(context)
            with self.lock:
                names = set(self._found(request, context)) | set(told)
                locks = {name: self._lock_of(name) for name in names}
            changed = [name for name, lock in locks.items() if self._seen(lock) != told.get(name)]
            told.update((name, self._seen(locks[name])) for name in changed)
            if changed:
                yield self.api.WatchLocksResponse(locks=[locks[name] for name in changed])
                self.states_told += 1
            time.sleep(0.005)
        if context.is_active():
            self._abort(context, grpc.StatusCode.UNAVAILABLE, "DRAINING", "this broker is going down", {})

    def _found(self, request, context):
        """The names of the taken locks that a search is for."""
        if request.namespace == "-" and request.key_prefix:
            self._abort(context, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT", "key_prefix is wrong",
                        [("key_prefix", "is for one namespace")])
        taken = {name for name, leases in self.queues.items() if leases} | set(self.blocks)
        return sorted(n for n in taken if (request.namespace or "default") in ("-", n[0])
                      and n[1].startswith(request.key_prefix))

    def _list_locks(self, request, context):
        """First an empty page, as a store with many other keys may return, then pages of a hundred locks."""
        with self.lock:
            names = self._found(request, context)
            start = int(request.page_token or -100)
            response = self.api.ListLocksResponse(locks=[self._lock_of(n) for n in names[max(start, 0):start + 100]])
            response.next_page_token = str(start + 100) if start + 100 < len(names) else ""
            self._add_hold_off(response)
            return response

    def _list_sessions(self, request, _):
        """A page for each stream."""
        with self.lock:
            streams = []
            for lease in itertools.chain(*self.queues.values()):
                if lease.stream and lease.stream not in streams:
                    streams.append(lease.stream)
            at = int(request.page_token or 0)
            response = self.api.ListSessionsResponse(next_page_token=str(at + 1) if at + 1 < len(streams) else "")
            for i, stream in enumerate(streams[at:at + 1], at):
                mine = [lease for leases in self.queues.values() for lease in leases if lease.stream is stream]
                held = sum(1 for lease in mine if lease.token)
                info = response.sessions.add(session_id=f"s{i}", client="distlockctl", peer="unix:", leases=held,
                                             waiters=len(mine) - held, kind=self.api.STREAM_KIND_SESSION)
                info.open_time.GetCurrentTime()
            return response

    def _check_token(self, request, _):
        with self.lock:
            newest = self.newest.get((request.namespace or "default", request.key), 0)
        return self.api.CheckTokenResponse(newest=request.fencing_token == newest, newest_token=newest)
