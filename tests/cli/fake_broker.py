# SPDX-License-Identifier: Apache-2.0
"""A broker in memory: all modes, always FIFO, no store. It does on command what a real broker does only in trouble:
loses a lock, falls silent, refuses. Any thread may call its public methods."""
import collections
import itertools
import queue
import threading
import time
import uuid
from concurrent import futures

import grpc

from fake_lease import Lease
from fake_look import Look
from fake_together import Together

VALIDITY_MS = 3000
_END = object()


class Stream:
    """The events for one Session client."""

    def __init__(self):
        self.outbox = queue.Queue()
        self.echo_seq = 0


class FakeBroker(Look, Together):
    def __init__(self, api):
        self.api = api
        self.lock = threading.RLock()
        self.tokens = itertools.count(1_700_000_000_000_000)
        self.queues = collections.defaultdict(list)  # (namespace, key) -> leases: the holders, then the waiters
        self.newest = {}  # (namespace, key) -> the last token
        self.blocks = {}  # (namespace, key) -> LockBlock, which is only shown
        self.bundles = []  # requests that wait for several locks
        self.watches = 0  # the number of WatchLock and WatchLocks calls so far
        self.cuts = False  # every watch
        self.states_told = 0  # to watches
        self.stopping = False
        self.silent = False
        self.refusal = None  # (reason, message, fields) for every acquire
        self.store_up = True
        self.store_nodes = []
        self.store_refusal = ""
        self.store_url = "memory"
        self.hold_off_s = 0  # nobody new is granted a lock for so long, as its answers say
        self.broker_id = uuid.uuid4().hex[:16]
        self.drained_with = None
        self.on_drain = None
        self.on_acquire = lambda spec: None
        self.clock_ahead_s = 0  # of the store
        self.grants_nothing = False  # answers Acquire without a grant
        self.metadata_seen = []
        self.server = None

    # --- serving ---

    def start(self, address):
        self.server = grpc.server(futures.ThreadPoolExecutor(32))
        v1 = self.api
        self._serve("LockService", {
            "Acquire": (self._acquire, v1.AcquireRequest), "Renew": (self._renew, v1.RenewRequest),
            "Release": (self._release, v1.ReleaseRequest), "Downgrade": (self._downgrade, v1.DowngradeRequest),
            "GetLock": (self._get_lock, v1.GetLockRequest), "ListLocks": (self._list_locks, v1.ListLocksRequest),
            "CheckToken": (self._check_token, v1.CheckTokenRequest)}, {"Session": (self._session, v1.SessionRequest)},
            {"WatchLock": (self._watch_lock, v1.WatchLockRequest),
             "WatchLocks": (self._watch_locks, v1.WatchLocksRequest)})
        self._serve("AdminService", {"GetStatus": (self._get_status, v1.GetStatusRequest),
                                     "Drain": (self._drain, v1.DrainRequest),
                                     "ListSessions": (self._list_sessions, v1.ListSessionsRequest),
                                     "ForceRelease": (self._force_release, v1.ForceReleaseRequest)}, {})
        self.server.add_insecure_port(address)
        self.server.start()

    def stop(self):
        self.stopping = True
        with self.lock:
            for leases in self.queues.values():
                for lease in leases:
                    if lease.stream:
                        lease.stream.outbox.put(_END)
        self.server.stop(0).wait()

    def _serve(self, service, unary, streams, watches=None):
        handlers = {name: grpc.unary_unary_rpc_method_handler(f, r.FromString, lambda m: m.SerializeToString())
                    for name, (f, r) in unary.items()}
        handlers.update({name: grpc.stream_stream_rpc_method_handler(f, r.FromString, lambda m: m.SerializeToString())
                         for name, (f, r) in streams.items()})
        handlers.update({name: grpc.unary_stream_rpc_method_handler(f, r.FromString, lambda m: m.SerializeToString())
                         for name, (f, r) in (watches or {}).items()})
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("distlock.v1." + service, handlers),))

    # --- faults on command ---

    def lose(self, key, reason="TAKEN", namespace="default"):
        """Tells the holder that its lease is lost, and gives the lock to the next waiter."""
        with self.lock:
            lease = self.queues[(namespace, key)].pop(0)
            lost = self.api.LeaseLost(reason=getattr(self.api, "LOST_REASON_" + reason), message="as the test said")
            self._event(lease.stream, lease.command_id, lost=lost)
            self._grant_next(lease.name())

    def forget(self, key, namespace="default"):
        """The store loses the lock, and no client is told."""
        with self.lock:
            self.queues[(namespace, key)].pop(0)

    def lease_id(self, key, namespace="default"):
        """The holder's secret."""
        with self.lock:
            return self.queues[(namespace, key)][0].lease_id

    def block(self, key, owner, left_ms, namespace="default"):
        """Shows a lock_delay."""
        with self.lock:
            block = self.blocks[(namespace, key)] = self.api.LockBlock(owner=owner)
            block.start_time.GetCurrentTime()
            block.time_left.FromMilliseconds(left_ms)

    def at_risk(self, key, namespace="default"):
        with self.lock:
            lease = self.queues[(namespace, key)][0]
            self._event(lease.stream, lease.command_id, at_risk=self.api.LeaseAtRisk(cause="as the test said"))

    def renewed(self, key, namespace="default"):
        with self.lock:
            lease = self.queues[(namespace, key)][0]
            self._event(lease.stream, lease.command_id, renewed=self.api.LeaseRenewed())

    # --- locks ---

    def _holders(self, name):
        return [lease for lease in self.queues[name] if lease.token]

    def _grant_next(self, name):
        for lease in self.queues[name][len(self._holders(name)):]:
            if not lease.fits(self._holders(name)):
                return
            lease.token = self.newest[name] = next(self.tokens)
            lease.since = time.time() + self.clock_ahead_s
            lease.granted.set()
            if lease.stream:
                self._event(lease.stream, lease.command_id, granted=self._grant_of(lease))

    def _enter(self, lease):
        """Puts the lease into the queue. True: it is granted at once."""
        with self.lock:
            self.queues[lease.name()].append(lease)
            self._grant_next(lease.name())
            return bool(lease.token)

    def _leave(self, lease):
        with self.lock:
            leases = self.queues[lease.name()]
            if lease not in leases:
                return False
            leases.remove(lease)
            self._grant_next(lease.name())
            self.bundles = [bundle for bundle in self.bundles if not self._enter_all(bundle)]
            return True

    def _find(self, lease_id):
        return next((lease for leases in self.queues.values() for lease in leases if lease.lease_id == lease_id), None)

    def _grant_of(self, lease):
        grant = self.api.Grant()
        grant.namespace, grant.key = lease.name()
        grant.mode = lease.mode()
        grant.lease_id, grant.holder_id, grant.fencing_token = lease.lease_id, lease.holder_id, lease.token
        grant.valid_for.FromMilliseconds(VALIDITY_MS if lease.stream else lease.ttl_ms() - 20)
        grant.ttl.FromMilliseconds(lease.ttl_ms())
        grant.echo_seq = lease.stream.echo_seq if lease.stream else 0
        grant.hold_count = 1
        return grant

    # --- Session ---

    def _event(self, stream, command_id, **event):
        if not self.silent:
            stream.outbox.put(self.api.SessionResponse(events=[self.api.SessionEvent(id=command_id, **event)]))

    def _session(self, requests, context):
        stream = Stream()
        self.metadata_seen.append(dict(context.invocation_metadata()))
        threading.Thread(target=self._read_session, args=(stream, requests), daemon=True).start()
        while (response := stream.outbox.get()) is not _END:
            yield response

    def _read_session(self, stream, requests):
        try:
            for request in requests:
                for command in request.commands:
                    with self.lock:
                        if not self._command(stream, command):
                            return
        except Exception:  # pylint: disable=broad-except; the stream broke, as streams do
            pass
        finally:
            with self.lock:
                gone = [lease for leases in self.queues.values() for lease in leases if lease.stream is stream]
                self.bundles = [bundle for bundle in self.bundles if bundle[0].stream is not stream]
                for lease in gone:
                    self._leave(lease)
            stream.outbox.put(_END)

    def _command(self, stream, command):
        v1, kind = self.api, command.WhichOneof("command")
        if kind == "open":
            opened = v1.SessionOpened(session_id="s", broker_id=self.broker_id, max_message_bytes=65536,
                                      max_leases=10000, features=["permit"])
            opened.validity.FromMilliseconds(VALIDITY_MS)
            opened.heartbeat_interval.FromMilliseconds(VALIDITY_MS // 3)
            self._event(stream, command.id, opened=opened)
        elif kind == "acquire" and len(command.acquire.locks) > 1:
            self._session_acquire_together(stream, command)
        elif kind == "acquire":
            self._session_acquire(stream, command)
        elif kind == "release":
            lease = self._mine(stream, command.release.acquire_id)
            left = lease is not None and self._leave(lease)
            outcome = v1.RELEASE_OUTCOME_RELEASED if left else v1.RELEASE_OUTCOME_ALREADY_GONE
            self._event(stream, command.id, released=v1.LeaseReleased(outcome=outcome))
        elif kind == "cancel" and (bundle := self._bundle(stream, command.cancel.acquire_id)):
            self._refuse_all(bundle, "CANCELLED")
        elif kind == "cancel":
            lease = self._mine(stream, command.cancel.acquire_id)
            if lease is not None and self._leave(lease):
                self._event(stream, lease.command_id,
                            refused=v1.Refusal(reason=v1.REFUSAL_REASON_CANCELLED, message="cancelled"))
        elif kind == "heartbeat":
            stream.echo_seq = command.heartbeat.seq
            ack = v1.HeartbeatAck(seq=command.heartbeat.seq)
            ack.valid_for.FromMilliseconds(VALIDITY_MS)
            self._event(stream, 0, heartbeat_ack=ack)
        return kind != "goodbye"

    def _mine(self, stream, command_id):
        return next((lease for leases in self.queues.values() for lease in leases
                     if lease.stream is stream and lease.command_id == command_id), None)

    def _session_acquire(self, stream, command):
        v1, spec = self.api, command.acquire.locks[0]
        self.on_acquire(spec)
        if self.refusal:
            reason, message, fields = self.refusal
            problems = [v1.FieldProblem(field=f, description=d) for f, d in fields]
            reason = v1.RefusalReason.Value("REFUSAL_REASON_" + reason)
            refusal = v1.Refusal(reason=reason, message=message, field_problems=problems)
            self._event(stream, command.id, refused=refusal)
            return
        lease = Lease(spec, stream, command.id)
        present, leases = self._holders(lease.name()), self.queues[lease.name()]
        holders = [self._holder_of(h) for h in present]
        limited = spec.HasField("max_wait")
        if limited and spec.max_wait.ToMilliseconds() == 0 and (leases != present or not lease.fits(present)):
            reason = v1.RefusalReason.Value("REFUSAL_REASON_" + lease.refused_beside(present))
            self._event(stream, command.id, refused=v1.Refusal(reason=reason, message="it is held", holders=holders))
            return
        if self._enter(lease):
            return
        queued = v1.AcquireQueued(position=len(leases) - len(present) - 1, holders=holders)
        self._event(stream, command.id, queued=queued)
        if limited:
            threading.Timer(spec.max_wait.ToMilliseconds() / 1000, self._time_out, (lease, holders)).start()

    def _time_out(self, lease, holders):
        with self.lock:
            if not lease.token and self._leave(lease):
                self._event(lease.stream, lease.command_id, refused=self.api.Refusal(
                    reason=self.api.REFUSAL_REASON_WAIT_TIMEOUT, message="max_wait passed", holders=holders))

    # --- unary ---

    def _abort(self, context, code, reason, message, fields=(), owner="", retry_ms=0):
        details = self.api.Status(code=code.value[0], message=message)
        details.details.add().Pack(self.api.ErrorInfo(reason=reason, domain="distlock"))
        if fields:
            bad = self.api.BadRequest()
            for field, description in fields:
                bad.field_violations.add(field=field, description=description)
            details.details.add().Pack(bad)
        if owner:
            details.details.add().Pack(self.api.ResourceInfo(resource_type="lock", owner=owner))
        if retry_ms:
            retry = self.api.RetryInfo()
            retry.retry_delay.FromMilliseconds(retry_ms)
            details.details.add().Pack(retry)
        context.set_trailing_metadata((("grpc-status-details-bin", details.SerializeToString()),))
        context.abort(code, message)

    def _acquire(self, request, context):
        [spec] = request.locks
        self.on_acquire(spec)
        if self.refusal:
            reason, message, fields = self.refusal
            self._abort(context, grpc.StatusCode.INVALID_ARGUMENT, reason, message, fields)
        lease = Lease(spec, request_id=request.request_id)
        with self.lock:
            leases, reason = self.queues[lease.name()], lease.refused_beside(self._holders(lease.name()))
            same = next((h for h in leases if h.request_id and h.request_id == request.request_id), None)
            lease = same or lease
            granted = bool(lease.token) or (same is None and self._enter(lease))
            holder = leases[0]
        limit = spec.max_wait.ToMilliseconds() / 1000 if spec.HasField("max_wait") else 60
        if not granted and not lease.granted.wait(limit):
            self._leave(lease)
            reason = "WAIT_TIMEOUT" if limit else reason
            mismatch = reason == "LIMIT_MISMATCH"
            self._abort(context, grpc.StatusCode.FAILED_PRECONDITION if mismatch else grpc.StatusCode.ABORTED, reason,
                        "it is held", owner=holder.spec.owner, retry_ms=holder.ttl_ms())
        return self.api.AcquireResponse(grants=[] if self.grants_nothing else [self._grant_of(lease)])

    def _renew(self, request, context):
        with self.lock:
            lease = self._find(request.lease_id)
        if lease is None:
            self._abort(context, grpc.StatusCode.FAILED_PRECONDITION, "NOT_HOLDER", "that lease is not held any more")
        response = self.api.RenewResponse()
        response.ttl.FromMilliseconds(lease.ttl_ms())
        response.valid_for.FromMilliseconds(lease.ttl_ms() - 20)
        return response

    def _release(self, request, _):
        with self.lock:
            lease = self._find(request.lease_id)
            left = lease is not None and self._leave(lease)
            v1 = self.api
            if left and lease.stream:
                released = v1.LeaseReleased(outcome=v1.RELEASE_OUTCOME_RELEASED)
                self._event(lease.stream, lease.command_id, released=released)
        return v1.ReleaseResponse(outcome=v1.RELEASE_OUTCOME_RELEASED if left else v1.RELEASE_OUTCOME_ALREADY_GONE)

    def _downgrade(self, request, context):
        with self.lock:
            lease = self._find(request.lease_id)
            if lease is None:
                self._abort(context, grpc.StatusCode.FAILED_PRECONDITION, "NOT_HOLDER", "that lease is not held")
            lease.spec.mode = self.api.LOCK_MODE_SHARED
            self._grant_next(lease.name())
        return self.api.DowngradeResponse()

    def _get_status(self, _, __):
        v1 = self.api
        response = v1.GetStatusResponse(version="fake", broker_id=self.broker_id, store_url=self.store_url, shards=1,
                                        listen_addresses=["here"], draining=self.drained_with is not None)
        response.store_state = v1.STORE_STATE_UP if self.store_up else v1.STORE_STATE_DOWN
        response.store_problem = "" if self.store_up else "connection refused"
        response.store_nodes.extend(self.store_nodes)
        response.store_refusal = self.store_refusal
        response.wait_replicas = 1 if self.store_nodes else 0
        return response

    def _force_release(self, request, context):
        v1 = self.api
        if request.holder_id and len(request.holder_id) != 16:
            self._abort(context, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT", "holder_id is none",
                        fields=[("holder_id", "is none")])
        with self.lock:
            taken = [lease for lease in self._holders((request.namespace or "default", request.key))
                     if request.holder_id in ("", lease.holder_id)]
            for lease in taken:
                self._leave(lease)
        return v1.ForceReleaseResponse(released=len(taken))

    def _drain(self, request, _):
        response = self.api.DrainResponse()
        response.timeout.FromMilliseconds(request.timeout.ToMilliseconds() or 30000)
        self.drained_with = response.timeout.ToMilliseconds()
        if self.on_drain:
            self.on_drain()
        return response
