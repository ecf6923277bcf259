# SPDX-License-Identifier: Apache-2.0
"""A broker inside of a test's process, for programs that take locks. No daemon and no port; the client is the real one,
and so are its errors. Time stands still until the test moves it.

    from distlock.testing import Broker

    broker = Broker()
    mine, theirs = broker.client(), broker.client()
    with mine.lock("report") as held:
        with pytest.raises(distlock.Busy):
            theirs.lock("report", wait=0).acquire()
        broker.lose("report", "FORCED")            # held.is_held is False now, and on_loss was called
    broker.advance(60)                             # max_hold, lock_delay, min_hold and waits of other threads pass

A wait ends by advance(), or by a release, so let another thread or task do the waiting. Locks of every kind, elections,
inspect, list, watch(key) and check_token work as at a broker that serves fairly; detached leases and watch_locks are
refused.
"""
import collections
import functools
import itertools
import threading
import weakref
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Tuple

from distlock import aio
from distlock._channel import SERVICE, Addresses, RpcError
from distlock._clock import NEVER, SECOND
from distlock._core import Core, Stream
from distlock._lease import Effects
from distlock._relay import RelayError
from distlock._threads import spawn
from distlock.client import Client
from distlock.types import Options
from distlock.v1 import lock_pb2, look_pb2
from distlock.v1 import lock_service_pb2 as wire

__all__ = ["Broker"]

VALIDITY = 3 * SECOND
TTL = 15 * SECOND
BEAT = SECOND  # heartbeats come as often, so no step of time is longer
PATIENCE_S = 20  # for threads of this process
Name = Tuple[str, str]


class _Call:
    """A stream of answers, of a session or of a watch."""

    def __init__(self, broker: "Broker", name: Optional[Name] = None) -> None:
        self.broker, self.name = broker, name  # of the lock that is watched
        self.outbox: Deque[Any] = collections.deque()
        self.idle = self.over = False  # the client has seen all; there will be no more
        self.error: Optional[RpcError] = None
        self.heard, self.heard_at = 0, broker._now  # the newest heartbeat
        self.last: Any = None  # what a watch has told
        broker._calls.append(self)

    def __iter__(self) -> "Iterator[Any]":
        return self

    def __next__(self) -> Any:
        with self.broker._turn:
            self.idle = True
            self.broker._turn.notify_all()
            self.broker._turn.wait_for(lambda: self.outbox or self.over)
            self.idle = False
            if self.outbox:
                return self.outbox.popleft()
        if self.error is None:
            raise StopIteration
        raise self.error

    def say(self, number: int = 0, **event: Any) -> None:
        self.outbox.append(wire.SessionResponse(events=[wire.SessionEvent(id=number, **event)]))
        self.broker._turn.notify_all()

    def end(self, error: Optional[RpcError] = None) -> None:
        if not self.over:
            self.over, self.error = True, error
            self.broker._calls.remove(self)
            self.broker._turn.notify_all()

    def cancel(self) -> None:
        with self.broker._turn:
            self.broker._break(self, RelayError("CANCELLED", "cancelled"))

    def read(self, requests: "Iterator[wire.SessionRequest]") -> None:
        for request in requests:
            with self.broker._turn:
                for command in request.commands:
                    if not self.over:
                        self.broker._obey(self, command)
                self.broker._turn.notify_all()


class _Answer:
    """A unary call, which is over at once."""

    def __init__(self, response: Any, error: Optional[RpcError]) -> None:
        self._response, self._error = response, error

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._response

    def add_done_callback(self, tell: Callable[[Any], object]) -> None:
        tell(self)

    def cancel(self) -> None:
        """It is over."""


class _Method:
    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.call = call

    def __call__(self, request: Any, timeout: Optional[float] = None) -> Any:
        return self.call(request)

    future = __call__


class _Channel:
    """What this package uses of grpc.Channel."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def stream_stream(self, path: str, request_serializer: Any, response_deserializer: Any) -> _Method:
        return _Method(self._broker._open)

    def unary_unary(self, path: str, request_serializer: Any, response_deserializer: Any) -> _Method:
        return _Method(lambda request: self._broker._ask(path[len(SERVICE):], request))

    def unary_stream(self, path: str, request_serializer: Any, response_deserializer: Any) -> _Method:
        return _Method(lambda request: self._broker._watch(path[len(SERVICE):], request))

    def close(self) -> None:
        """Nothing is open."""


class _Here(Addresses):
    def __init__(self, broker: "Broker") -> None:
        super().__init__("memory:1")
        self._broker = broker
        self.clock = lambda: broker._now

    def open(self, address: str) -> Any:
        return _Channel(self._broker)

    def bearer(self, address: str) -> Optional[str]:
        return None


class _Lease:
    """A lock that is held, or waited for."""

    def __init__(self, number: int, session: Optional[_Call], spec: lock_pb2.LockSpec) -> None:
        self.number, self.session, self.spec = number, session, spec
        self.token = self.granted_at = 0
        self.lease_id = self.holder_id = ""
        self.hold_count = 1
        self.ends_at = NEVER  # by max_hold, or when nobody takes it over

    @property
    def name(self) -> Name:
        return self.spec.namespace or "default", self.spec.key


class _Request:
    def __init__(self, leases: List[_Lease], request_id: str, until: int) -> None:
        self.leases, self.request_id, self.until = leases, request_id, until


class _Lock:
    def __init__(self) -> None:
        self.holders: List[_Lease] = []
        self.token, self.blocked_until, self.blocked_by = 0, 0, ""


def _ns(duration: Any) -> int:
    return int(duration.ToNanoseconds())


class Broker:
    """refusing: a reason, such as "STORE_UNAVAILABLE" or "QUOTA_EXCEEDED", for which each acquire is refused."""

    def __init__(self) -> None:
        self.refusing: Optional[str] = None
        self._frozen: Optional[List[Tuple[_Call, wire.SessionCommand]]] = None  # what has come since freeze()
        self._turn = threading.Condition(threading.RLock())
        self._now = 1 << 50
        self._serving = True
        self._locks: Dict[Name, _Lock] = {}
        self._waiting: List[_Request] = []
        self._calls: List[_Call] = []
        self._names = itertools.count(1)
        self._clients: "weakref.WeakSet[Any]" = weakref.WeakSet()

    def client(self, options: Optional[Options] = None, **more: Any) -> Client:
        """A client for threads. more: label, unreachable_after, on_draining, observer, as of distlock.connect."""
        broker = self

        class Here(Client):
            def _addresses(self) -> Addresses:
                return _Here(broker)

        return self._made(Here, options, more)  # type: ignore[no-any-return]

    def aio_client(self, options: Optional[Options] = None, **more: Any) -> aio.Client:
        """A client for asyncio."""
        broker = self

        class Here(aio.Client):
            def _addresses(self) -> Addresses:
                return _Here(broker)

        return self._made(Here, options, more)  # type: ignore[no-any-return]

    def _made(self, kind: Any, options: Optional[Options], more: Dict[str, Any]) -> Any:
        settings = {"label": None, "unreachable_after": None, "on_draining": None, "observer": None, **more}
        made = kind("memory:1", options=options or Options(), ends_with_process=False, **settings)
        self._clients.add(made)
        return made

    def advance(self, seconds: float) -> None:
        """Moves time on, and waits until clients have noticed. Not from a callback of a lock."""
        until = self._now + round(seconds * SECOND)
        self.settle()
        while self._now < until:
            with self._turn:
                self._now = min(until, self._now + BEAT, *(at for at in self._times() if at > self._now))
                self._expire()
            self.settle()

    def lose(self, key: str, cause: str = "FORCED", namespace: str = "") -> None:
        """Takes the lock from all who hold it, and waits until they have noticed. cause: of LockLost, by a broker."""
        with self._turn:
            for lease in list(self._lock((namespace or "default", key)).holders):
                self._end(lease, cause)
            self._serve()
        self.settle()

    def stop(self) -> None:
        """No broker is there any more: streams break, and calls find nobody, until start()."""
        with self._turn:
            self._serving = False
            for call in list(self._calls):
                self._break(call, RelayError("UNAVAILABLE", "failed to connect: the test has stopped the broker"))
        self.settle()

    def start(self) -> None:
        """After stop(). Clients come back when they try again: advance(2)."""
        self._serving = True

    def freeze(self) -> None:
        """The broker stands still, and clients hear nothing until thaw(): their locks lapse after advance(3)."""
        with self._turn:
            self._frozen = []

    def thaw(self) -> None:
        """After freeze(): the broker goes on with what has come meanwhile."""
        with self._turn:
            missed, self._frozen = self._frozen or [], None
            for session, command in missed:
                if not session.over:
                    self._obey(session, command)
        self.settle()

    def await_waiting(self, key: str, count: int = 1, namespace: str = "") -> None:
        """Until so many wait for the lock, in other threads or tasks: advance() then moves their waits."""
        name = namespace or "default", key
        with self._turn:
            if not self._turn.wait_for(lambda: self._info(name).queue_length >= count, PATIENCE_S):
                raise AssertionError(f"{self._info(name).queue_length} wait for {key!r} instead of {count}")

    def _cores(self) -> List[Core]:
        return [core for client in list(self._clients) for core in list(client._cores.values())]

    def settle(self) -> None:
        """Waits until each client has told all, has heard all, and has called back. Leaving `with` does not wait: call
        this before another client tries to take the lock."""
        for core in self._cores():
            core.turn(core._tick)
            for stream in core._streams():
                self._await(stream, 0)  # it may be about to open
                self._await(stream, core.turn(functools.partial(self._beat, stream.link)))
            told = threading.Event()
            core.callbacks(told.set)
            told.wait(PATIENCE_S)

    def _await(self, stream: Stream, seq: int) -> None:
        """Until the stream's heartbeat has come, and its client has seen all that there was to see."""
        def seen() -> bool:
            call: Optional[_Call] = stream.call
            return stream.over or call is not None and not call.over and call.idle and not call.outbox and (
                call.heard >= seq and (stream.link.opened or self._frozen is not None))

        for _ in range(PATIENCE_S * 100):
            with self._turn:
                if self._turn.wait_for(seen, 0.01):
                    return

    @staticmethod
    def _beat(link: Any, now: int, fx: Effects) -> int:
        """Has a heartbeat sent, behind all commands; its seq."""
        link.heartbeat_due = link.usable and link.opened
        return int(link.session.last_sent + 1) if link.heartbeat_due else 0

    # What comes from clients. All below runs under _turn.

    def _open(self, requests: Any) -> _Call:
        with self._turn:
            if not self._serving:
                raise RelayError("UNAVAILABLE", "failed to connect: the test has stopped the broker")
            call = _Call(self)
            spawn(lambda: call.read(requests))
            return call

    def _obey(self, session: _Call, command: wire.SessionCommand) -> None:
        kind = command.WhichOneof("command")
        if self._frozen is not None:
            session.heard = max(session.heard, command.heartbeat.seq)
            self._frozen.append((session, command))
        elif kind is not None:
            getattr(self, f"_on_{kind}")(session, command.id, getattr(command, kind))
            self._serve()

    def _on_open(self, session: _Call, number: int, _: wire.OpenSession) -> None:
        opened = wire.SessionOpened(session_id="test", broker_id="test", max_message_bytes=1 << 20, max_leases=100_000,
                                    max_unanswered=4096, features=["permit", "adopt"])
        opened.validity.FromNanoseconds(VALIDITY)
        opened.heartbeat_interval.FromNanoseconds(BEAT)
        session.say(number, opened=opened)

    def _on_heartbeat(self, session: _Call, _: int, beat: wire.Heartbeat) -> None:
        session.heard, session.heard_at = beat.seq, self._now
        ack = wire.HeartbeatAck(seq=beat.seq)
        ack.valid_for.FromNanoseconds(VALIDITY)
        for lease in self._held():
            if lease.session is session and lease.ends_at < self._now + VALIDITY:
                ack.limits.add(acquire_id=lease.number).valid_for.FromNanoseconds(lease.ends_at - self._now)
        session.say(heartbeat_ack=ack)

    def _on_acquire(self, session: _Call, number: int, acquire: wire.AcquireLocks) -> None:
        leases = [_Lease(number + i, session, spec) for i, spec in enumerate(acquire.locks)]
        waits = not leases[0].spec.HasField("max_wait") or _ns(leases[0].spec.max_wait) > 0
        until = self._now + _ns(leases[0].spec.max_wait) if leases[0].spec.HasField("max_wait") else NEVER
        request = _Request(leases, acquire.request_id, until)
        if self.refusing is not None:
            self._refuse(request, self.refusing, "as the test says")
            return
        known = [one for one in self._waiting if one.request_id and one.request_id == request.request_id]
        place = self._waiting.index(known[0]) if known else len(self._waiting)
        self._waiting[place:place + len(known)] = [request]
        self._serve()
        if request in self._waiting and waits:
            holders = self._holders(leases)
            session.say(number, queued=wire.AcquireQueued(position=place, holders=holders))
        elif request in self._waiting:
            self._waiting.remove(request)
            self._refuse(request, "LOCK_HELD", self._held_by(leases))

    def _on_cancel(self, session: _Call, _: int, cancel: wire.CancelAcquire) -> None:
        for request in [one for one in self._waiting if one.leases[0].session is session]:
            if cancel.acquire_id in [lease.number for lease in request.leases]:
                self._waiting.remove(request)
                self._refuse(request, "CANCELLED", "withdrawn")
        for lease in [one for one in self._held() if one.session is session and one.number == cancel.acquire_id]:
            self._end(lease, "")

    def _on_release(self, session: _Call, number: int, release: wire.ReleaseLease) -> None:
        found = [one for one in self._held() if one.session is session and one.number == release.acquire_id
                 or release.lease_id and one.lease_id == release.lease_id]
        for lease in found:
            self._end(lease, "", release.lapsed)
        left = [one for lease in found for one in self._lock(lease.name).holders if one.lease_id == lease.lease_id]
        outcome = (wire.RELEASE_OUTCOME_ALREADY_GONE if not found else wire.RELEASE_OUTCOME_STILL_HELD if left else
                   wire.RELEASE_OUTCOME_RELEASED)
        session.say(number, released=wire.LeaseReleased(outcome=outcome))

    def _on_downgrade(self, session: _Call, number: int, downgrade: wire.DowngradeLease) -> None:
        held = [one for one in self._held() if one.session is session and one.number == downgrade.acquire_id]
        for lease in [other for one in held for other in self._held() if other.lease_id == one.lease_id]:
            lease.spec.mode = lock_pb2.LOCK_MODE_SHARED
        if held:
            session.say(number, downgraded=wire.LeaseDowngraded())
        else:
            session.say(number, refused=lock_pb2.Refusal(reason="REFUSAL_REASON_NOT_HOLDER"))

    def _on_adopt(self, session: _Call, number: int, adopt: wire.AdoptLease) -> None:
        found = [one for one in self._held() if one.lease_id == adopt.lease_id]
        if not found:
            session.say(number, refused=lock_pb2.Refusal(reason="REFUSAL_REASON_NOT_HOLDER", message="it is not held"))
        lease_id = f"lease {next(self._names)}"
        for i, lease in enumerate(found):
            lease.number, lease.session, lease.lease_id = number + i, session, lease_id
            lease.spec.owner = adopt.lock.owner
            lease.spec.ClearField("metadata")
            lease.spec.metadata.update(adopt.lock.metadata)
            lease.ends_at = self._end_of_hold(lease)
            self._tell_grant(lease)

    def _on_goodbye(self, session: _Call, _: int, __: wire.Goodbye) -> None:
        for lease in [one for one in self._held() if one.session is session]:
            self._end(lease, "")
        self._waiting = [one for one in self._waiting if one.leases[0].session is not session]
        session.end()

    def _break(self, call: _Call, error: RpcError) -> None:
        if call.over:
            return
        call.end(error)
        for lease in [one for one in self._held() if one.session is call]:
            lease.session = None
            ends = {lock_pb2.ON_DISCONNECT_RELEASE: self._now,
                    lock_pb2.ON_DISCONNECT_EXPIRE: self._now + (_ns(lease.spec.ttl) or TTL)}
            lease.ends_at = min(lease.ends_at, ends.get(lease.spec.on_disconnect, call.heard_at + VALIDITY))
        for request in [one for one in self._waiting if one.leases[0].session is call]:
            request.until = min(request.until, self._now + VALIDITY)  # its place, until it comes again
            for lease in request.leases:
                lease.session = None
        self._expire()

    # The locks.

    def _lock(self, name: Name) -> _Lock:
        return self._locks.setdefault(name, _Lock())

    def _held(self) -> List[_Lease]:
        return [lease for lock in self._locks.values() for lease in lock.holders]

    def _times(self) -> List[int]:
        return [*(one.until for one in self._waiting), *(lease.ends_at for lease in self._held()),
                *(lock.blocked_until for lock in self._locks.values())]

    def _expire(self) -> None:
        for request in [one for one in self._waiting if self._now >= one.until]:
            self._waiting.remove(request)
            self._refuse(request, "WAIT_TIMEOUT", self._held_by(request.leases))
        for lease in [one for one in self._held() if self._now >= one.ends_at]:
            self._end(lease, "MAX_HOLD" if lease.session is not None else "EXPIRED")
        self._serve()

    def _serve(self) -> None:
        """Grants what can be granted, in the order of arrival, and tells those who watch."""
        for request in list(self._waiting):
            if request.leases[0].session is not None and all(self._free(lease, request) for lease in request.leases):
                self._waiting.remove(request)
                for lease in request.leases:
                    self._grant(lease)
        for call in self._calls:
            if call.name is not None:
                state = look_pb2.WatchLockResponse(lock=self._info(call.name))
                if call.last != state:
                    call.last = state
                    call.outbox.append(state)
                    self._turn.notify_all()

    def _again(self, lease: _Lease) -> Optional[_Lease]:
        """The hold that this is a re-entry of."""
        return next((one for one in self._lock(lease.name).holders if one.spec.reentrant and lease.spec.reentrant
                     and one.session is lease.session and one.spec.owner == lease.spec.owner), None)

    def _free(self, lease: _Lease, request: _Request) -> bool:
        lock = self._lock(lease.name)
        if self._again(lease) is not None:
            return True
        before = itertools.takewhile(lambda one: one is not request, self._waiting)
        if self._now < lock.blocked_until or any(other.name == lease.name for one in before for other in one.leases):
            return False
        mode, modes = lease.spec.mode, {one.spec.mode for one in lock.holders}
        if mode == lock_pb2.LOCK_MODE_PERMIT:
            taken = sum(max(one.spec.permits, 1) for one in lock.holders)
            return modes <= {mode} and taken + max(lease.spec.permits, 1) <= lease.spec.limit
        return not modes or (mode == lock_pb2.LOCK_MODE_SHARED and modes == {mode})

    def _end_of_hold(self, lease: _Lease) -> int:
        return lease.granted_at + _ns(lease.spec.max_hold) if lease.spec.HasField("max_hold") else NEVER

    def _grant(self, lease: _Lease) -> None:
        lock, again = self._lock(lease.name), self._again(lease)
        lease.granted_at = self._now
        lease.holder_id, lease.lease_id = f"holder {next(self._names)}", f"lease {next(self._names)}"
        if again is None:
            lock.token += 1
            lease.token, lease.ends_at = lock.token, self._end_of_hold(lease)
        else:
            lease.lease_id, lease.holder_id, lease.token = again.lease_id, again.holder_id, again.token
            lease.ends_at = again.ends_at
            lease.hold_count = 1 + sum(one.lease_id == again.lease_id for one in lock.holders)
        lock.holders.append(lease)
        self._tell_grant(lease)

    def _tell_grant(self, lease: _Lease) -> None:
        if lease.session is None:
            return
        grant = lock_pb2.Grant(namespace=lease.name[0], key=lease.name[1], lease_id=lease.lease_id,
                               holder_id=lease.holder_id, fencing_token=lease.token, hold_count=lease.hold_count,
                               mode=lease.spec.mode, echo_seq=lease.session.heard)
        grant.valid_for.FromNanoseconds(min(VALIDITY, lease.ends_at - lease.session.heard_at))
        lease.session.say(lease.number, granted=grant)

    def _end(self, lease: _Lease, cause: str, lapsed: bool = False) -> None:
        """cause: why it is lost; "": it was given back."""
        lock = self._lock(lease.name)
        lock.holders.remove(lease)
        block = (lease.granted_at + _ns(lease.spec.min_hold) if not cause and not lapsed else
                 self._now + _ns(lease.spec.lock_delay))
        if block > self._now and not [one for one in lock.holders if one.lease_id == lease.lease_id]:
            lock.blocked_until, lock.blocked_by = block, lease.spec.owner
        if cause and lease.session is not None:
            lost = wire.LeaseLost(reason=f"LOST_REASON_{cause}", message="as the test says")
            lease.session.say(lease.number, lost=lost)

    def _holders(self, leases: List[_Lease]) -> List[lock_pb2.Holder]:
        return [holder for lease in leases for holder in self._info(lease.name).holders][:16]

    def _held_by(self, leases: List[_Lease]) -> str:
        owners = ", ".join(sorted({holder.owner for holder in self._holders(leases)}))
        return f"lock {'/'.join(leases[0].name)!r} is not free: {owners or 'blocked, or others wait'}"

    def _refuse(self, request: _Request, reason: str, message: str) -> None:
        busy = reason in ("LOCK_HELD", "WAIT_TIMEOUT")
        for lease in request.leases:
            if lease.session is not None:
                lease.session.say(lease.number, refused=lock_pb2.Refusal(
                    reason=f"REFUSAL_REASON_{reason}", message=message,
                    holders=self._holders(request.leases) if busy else (),
                    queue_length=self._info(lease.name).queue_length if busy else 0))

    def _info(self, name: Name) -> lock_pb2.LockInfo:
        lock = self._lock(name)
        waiters = [lease for one in self._waiting for lease in one.leases if lease.name == name]
        holders = list({lease.lease_id: lease for lease in lock.holders}.values())
        info = lock_pb2.LockInfo(namespace=name[0], key=name[1], fencing_token=lock.token, holder_count=len(holders),
                                 queue_length=len(waiters), waiters=[
                                     lock_pb2.Waiter(owner=one.spec.owner, metadata=one.spec.metadata,
                                                     mode=one.spec.mode, permits=one.spec.permits) for one in waiters])
        for one in holders:
            holder = info.holders.add(holder_id=one.holder_id, owner=one.spec.owner, metadata=one.spec.metadata,
                                      mode=one.spec.mode, permits=one.spec.permits, fencing_token=one.token)
            holder.ttl.FromNanoseconds(_ns(one.spec.ttl) or TTL)
            holder.time_left.CopyFrom(holder.ttl)
        if lock.blocked_until > self._now:
            info.block.owner = lock.blocked_by
            info.block.time_left.FromNanoseconds(lock.blocked_until - self._now)
        return info

    # Looking.

    def _ask(self, method: str, request: Any) -> _Answer:
        with self._turn:
            if not self._serving:
                return _Answer(None, RelayError("UNAVAILABLE", "failed to connect: the test has stopped the broker"))
            if method == "GetLock":
                return _Answer(look_pb2.GetLockResponse(lock=self._info((request.namespace or "default", request.key))),
                               None)
            if method == "ListLocks":
                return _Answer(look_pb2.ListLocksResponse(locks=[
                    self._info(name) for name, lock in self._locks.items() if lock.holders
                    and (request.namespace or "default") in ("-", name[0]) and name[1].startswith(request.key_prefix)
                ]), None)
            if method == "CheckToken":
                newest = self._lock((request.namespace or "default", request.key)).token
                return _Answer(look_pb2.CheckTokenResponse(newest=request.fencing_token >= newest), None)
            return _Answer(None, RelayError("UNIMPLEMENTED", f"distlock.testing has no {method}"))

    def _watch(self, method: str, request: Any) -> _Call:
        with self._turn:
            if method != "WatchLock" or not self._serving:
                raise RelayError("UNIMPLEMENTED" if self._serving else "UNAVAILABLE", f"{method}: not here")
            call = _Call(self, (request.namespace or "default", request.key))
            self._serve()
            return call
