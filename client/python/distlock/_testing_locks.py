# SPDX-License-Identifier: Apache-2.0
"""The locks of distlock.testing: who holds them, who waits for them, and when that ends. Without clock, threads or IO:
time is passed in, and sessions hear what comes of it."""
import itertools
from typing import Any, Dict, List, Optional, Protocol, Tuple

from distlock._clock import NEVER, SECOND
from distlock.v1 import lock_pb2
from distlock.v1 import lock_service_pb2 as wire

VALIDITY = 3 * SECOND
TTL = 15 * SECOND
Name = Tuple[str, str]


def name_of(asked: Any) -> Name:
    """Of the lock that a message is about."""
    return asked.namespace or "default", asked.key


def _ns(duration: Any) -> int:
    return int(duration.ToNanoseconds())


class Session(Protocol):
    heard: int  # the newest heartbeat
    heard_at: int

    def say(self, number: int = 0, **event: Any) -> None:
        """Tells it an event."""


class Lease:
    """A lock that is held, or waited for."""

    def __init__(self, number: int, session: Session, spec: lock_pb2.LockSpec) -> None:
        self.number, self.spec = number, spec
        self.session: Optional[Session] = session
        self.token = self.granted_at = 0
        self.lease_id = self.holder_id = ""
        self.hold_count = 1
        self.ends_at = NEVER  # by max_hold, or when nobody takes it over

    @property
    def name(self) -> Name:
        return name_of(self.spec)

    @property
    def end_of_hold(self) -> int:
        return self.granted_at + _ns(self.spec.max_hold) if self.spec.HasField("max_hold") else NEVER

    def say(self, **event: Any) -> None:
        """Tells its session, if it has one."""
        if self.session is not None:
            self.session.say(self.number, **event)


class Request:
    def __init__(self, session: Session, number: int, acquire: wire.AcquireLocks, now: int) -> None:
        self.leases = [Lease(number + i, session, spec) for i, spec in enumerate(acquire.locks)]
        self.request_id, first = acquire.request_id, self.leases[0].spec
        self.waits = not first.HasField("max_wait") or _ns(first.max_wait) > 0
        self.until = now + _ns(first.max_wait) if first.HasField("max_wait") else NEVER

    @property
    def session(self) -> Optional[Session]:
        return self.leases[0].session


class Lock:
    def __init__(self) -> None:
        self.holders: List[Lease] = []
        self.token, self.blocked_until, self.blocked_by = 0, 0, ""


class Locks:
    def __init__(self) -> None:
        self._locks: Dict[Name, Lock] = {}
        self._waiting: List[Request] = []
        self._names = itertools.count(1)

    def lock(self, name: Name) -> Lock:
        return self._locks.setdefault(name, Lock())

    def names(self) -> List[Name]:
        """Of the locks that are held."""
        return [name for name, lock in self._locks.items() if lock.holders]

    def times(self) -> List[int]:
        """When something may end."""
        return [*(one.until for one in self._waiting), *(lease.ends_at for lease in self._held()),
                *(lock.blocked_until for lock in self._locks.values())]

    def _held(self) -> List[Lease]:
        return [lease for lock in self._locks.values() for lease in lock.holders]

    def held_by(self, session: Session) -> List[Lease]:
        return [lease for lease in self._held() if lease.session is session]

    # The requests of sessions.

    def join(self, request: Request) -> int:
        """Adds a request to the queue, or puts it in the place that it had there. Its place."""
        known = [one for one in self._waiting if one.request_id and one.request_id == request.request_id]
        place = self._waiting.index(known[0]) if known else len(self._waiting)
        self._waiting[place:place + len(known)] = [request]
        return place

    def keep_waiting(self, request: Request, place: int, now: int) -> None:
        """If it was not served: tells its session that it waits, or refuses it if it was one try."""
        if request not in self._waiting:
            return
        if request.waits:
            request.leases[0].say(queued=wire.AcquireQueued(position=place, holders=self._holders(request, now)))
        else:
            self._waiting.remove(request)
            self.refuse(request, "LOCK_HELD", self._in_the_way(request, now), now)

    def cancel(self, session: Session, number: int, now: int) -> None:
        for request in [one for one in self._waiting if one.session is session]:
            if number in [lease.number for lease in request.leases]:
                self._waiting.remove(request)
                self.refuse(request, "CANCELLED", "withdrawn", now)
        for lease in [one for one in self.held_by(session) if one.number == number]:
            self.end(lease, "", now)

    def release(self, session: Session, release: wire.ReleaseLease, now: int) -> Any:
        """The wire's ReleaseOutcome."""
        found = [one for one in self._held() if one.session is session and one.number == release.acquire_id
                 or release.lease_id and one.lease_id == release.lease_id]
        for lease in found:
            self.end(lease, "", now, release.lapsed)
        left = [one for lease in found for one in self.lock(lease.name).holders if one.lease_id == lease.lease_id]
        return (wire.RELEASE_OUTCOME_ALREADY_GONE if not found else wire.RELEASE_OUTCOME_STILL_HELD if left else
                wire.RELEASE_OUTCOME_RELEASED)

    def downgrade(self, session: Session, number: int) -> bool:
        """False: the session does not hold it."""
        held = [one for one in self.held_by(session) if one.number == number]
        for lease in [other for one in held for other in self._held() if other.lease_id == one.lease_id]:
            lease.spec.mode = lock_pb2.LOCK_MODE_SHARED
        return bool(held)

    def adopt(self, session: Session, number: int, adopt: wire.AdoptLease) -> bool:
        """False: nobody holds it."""
        found = [one for one in self._held() if one.lease_id == adopt.lease_id]
        lease_id = f"lease {next(self._names)}"
        for i, lease in enumerate(found):
            lease.number, lease.session, lease.lease_id = number + i, session, lease_id
            lease.spec.owner = adopt.lock.owner
            lease.spec.ClearField("metadata")
            lease.spec.metadata.update(adopt.lock.metadata)
            lease.ends_at = lease.end_of_hold
            self._tell_grant(lease)
        return bool(found)

    def leave(self, session: Session, now: int) -> None:
        """The session says goodbye: frees all that it has."""
        for lease in self.held_by(session):
            self.end(lease, "", now)
        self._waiting = [one for one in self._waiting if one.session is not session]

    def part(self, session: Session, now: int) -> None:
        """The session is gone without a goodbye: what it has ends in time, unless another session takes it over."""
        for lease in self.held_by(session):
            lease.session = None
            ends = {lock_pb2.ON_DISCONNECT_RELEASE: now,
                    lock_pb2.ON_DISCONNECT_EXPIRE: now + (_ns(lease.spec.ttl) or TTL)}
            lease.ends_at = min(lease.ends_at, ends.get(lease.spec.on_disconnect, session.heard_at + VALIDITY))
        for request in [one for one in self._waiting if one.session is session]:
            request.until = min(request.until, now + VALIDITY)  # its place, until it comes again
            for lease in request.leases:
                lease.session = None

    # Grants and ends.

    def expire(self, now: int) -> None:
        for request in [one for one in self._waiting if now >= one.until]:
            self._waiting.remove(request)
            self.refuse(request, "WAIT_TIMEOUT", self._in_the_way(request, now), now)
        for lease in [one for one in self._held() if now >= one.ends_at]:
            self.end(lease, "MAX_HOLD" if lease.session is not None else "EXPIRED", now)

    def serve(self, now: int) -> None:
        """Grants what can be granted, in the order of arrival."""
        for request in list(self._waiting):
            if request.session is not None and all(self._free(lease, request, now) for lease in request.leases):
                self._waiting.remove(request)
                for lease in request.leases:
                    self._grant(lease, now)

    def _again(self, lease: Lease) -> Optional[Lease]:
        """The hold that this is a re-entry of."""
        return next((one for one in self.lock(lease.name).holders if one.spec.reentrant and lease.spec.reentrant
                     and one.session is lease.session and one.spec.owner == lease.spec.owner), None)

    def _free(self, lease: Lease, request: Request, now: int) -> bool:
        lock = self.lock(lease.name)
        if self._again(lease) is not None:
            return True
        before = itertools.takewhile(lambda one: one is not request, self._waiting)
        if now < lock.blocked_until or any(other.name == lease.name for one in before for other in one.leases):
            return False
        mode, modes = lease.spec.mode, {one.spec.mode for one in lock.holders}
        if mode == lock_pb2.LOCK_MODE_PERMIT:
            taken = sum(max(one.spec.permits, 1) for one in lock.holders)
            return modes <= {mode} and taken + max(lease.spec.permits, 1) <= lease.spec.limit
        return not modes or (mode == lock_pb2.LOCK_MODE_SHARED and modes == {mode})

    def _grant(self, lease: Lease, now: int) -> None:
        lock, again = self.lock(lease.name), self._again(lease)
        lease.granted_at = now
        lease.holder_id, lease.lease_id = f"holder {next(self._names)}", f"lease {next(self._names)}"
        if again is None:
            lock.token += 1
            lease.token, lease.ends_at = lock.token, lease.end_of_hold
        else:
            lease.lease_id, lease.holder_id, lease.token = again.lease_id, again.holder_id, again.token
            lease.ends_at = again.ends_at
            lease.hold_count = 1 + sum(one.lease_id == again.lease_id for one in lock.holders)
        lock.holders.append(lease)
        self._tell_grant(lease)

    @staticmethod
    def _tell_grant(lease: Lease) -> None:
        if lease.session is None:
            return
        grant = lock_pb2.Grant(namespace=lease.name[0], key=lease.name[1], lease_id=lease.lease_id,
                               holder_id=lease.holder_id, fencing_token=lease.token, hold_count=lease.hold_count,
                               mode=lease.spec.mode, echo_seq=lease.session.heard)
        grant.valid_for.FromNanoseconds(min(VALIDITY, lease.ends_at - lease.session.heard_at))
        lease.say(granted=grant)

    def end(self, lease: Lease, cause: str, now: int, lapsed: bool = False) -> None:
        """cause: why it is lost; "": it was given back."""
        lock = self.lock(lease.name)
        lock.holders.remove(lease)
        block = (lease.granted_at + _ns(lease.spec.min_hold) if not cause and not lapsed else
                 now + _ns(lease.spec.lock_delay))
        if block > now and not [one for one in lock.holders if one.lease_id == lease.lease_id]:
            lock.blocked_until, lock.blocked_by = block, lease.spec.owner
        if cause:
            lease.say(lost=wire.LeaseLost(reason=f"LOST_REASON_{cause}", message="as the test says"))

    def refuse(self, request: Request, reason: str, message: str, now: int) -> None:
        busy = reason in ("LOCK_HELD", "WAIT_TIMEOUT")
        for lease in request.leases:
            lease.say(refused=lock_pb2.Refusal(
                reason=f"REFUSAL_REASON_{reason}", message=message,
                holders=self._holders(request, now) if busy else (),
                queue_length=self.info(lease.name, now).queue_length if busy else 0))

    # The locks as watchers and look-ups see them.

    def _holders(self, request: Request, now: int) -> List[lock_pb2.Holder]:
        return [holder for lease in request.leases for holder in self.info(lease.name, now).holders][:16]

    def _in_the_way(self, request: Request, now: int) -> str:
        owners = ", ".join(sorted({holder.owner for holder in self._holders(request, now)}))
        return f"lock {'/'.join(request.leases[0].name)!r} is not free: {owners or 'blocked, or others wait'}"

    def info(self, name: Name, now: int) -> lock_pb2.LockInfo:
        lock = self.lock(name)
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
        if lock.blocked_until > now:
            info.block.owner = lock.blocked_by
            info.block.time_left.FromNanoseconds(lock.blocked_until - now)
        return info
