# SPDX-License-Identifier: Apache-2.0
"""The state of a client: its waiting requests, its leases and their deadlines, and what the broker must be told. No
clock, no threads, no IO: each call gets the time, and adds the program's callbacks to `fx`. What it does is
proto/distlock/v1/session.md. Guarded by its core's mutex.

There are two links, each with a stream or none. New acquires go through the present link. When its broker drains and
another one is known, the other link becomes the present one; leases follow by AdoptLease (_moves.py).
"""
import secrets
from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from distlock._clock import NEVER, SECOND
from distlock._convert import cut_label
from distlock._lease import FRAME, Effects, Lease, Link, Move, Phase, Request
from distlock._timeouts import Timeouts
from distlock.errors import Refused, kind_of
from distlock.types import Outcome
from distlock.v1 import lock_pb2
from distlock.v1 import lock_service_pb2 as wire

ANSWER_GRACE = SECOND // 2  # the broker ends a bounded wait; when it stays silent, the client does after this much more
LEAST_WAIT = SECOND // 1000  # 0 would turn a bounded wait into one try
LEAST_PAUSE = SECOND // 100
TRY_PATIENCE = SECOND  # one try ends so long after no broker could be reached

# Whether a request that is sent again keeps its place in the queue.
PLACES = "request_id" in wire.AcquireLocks.DESCRIPTOR.fields_by_name

Released = Callable[[Outcome], object]
Downgraded = Callable[[Optional[Refused]], object]


@dataclass
class PendingRelease:
    """A release that is not answered. Of two for one lease, at both of its sessions, the later answer ends both."""

    tell: Optional[Released]
    link: Link
    twin: int = 0
    of_twin: Optional[Outcome] = None


@dataclass
class PendingDowngrade:
    tell: Downgraded
    lease: Lease
    link: Optional[Link]  # None: not sent, because the lease is on its way


class TableBase:
    """The data of the table, and what the parts share. Times are nanoseconds of distlock._clock."""

    def __init__(self, address: str, brokers: int, label: str, unreachable_after: Optional[int],
                 connect_timeout: int) -> None:
        self.address, self.brokers, self.label = address, brokers, cut_label(label)
        self.unreachable_after, self.connect_timeout = unreachable_after, connect_timeout
        self.try_patience = TRY_PATIENCE
        self.links = (Link(), Link())
        self.present = 0
        self.live: Dict[int, Lease] = {}  # by id, in any phase but ENDED
        self.releases: Dict[int, PendingRelease] = {}
        self.downgrades: Dict[int, PendingDowngrade] = {}
        self.moves: Dict[int, Move] = {}  # that are sent, by the command's id
        self.leftovers: List[Tuple[Lease, str, bool]] = []  # that ended while no session had them
        self.timeouts = Timeouts()
        self.next_id = 1
        self.request_prefix = secrets.token_hex(16)  # of the request_ids of this table
        self.sessions = 0  # opened so far
        self.closed = self.moving = False
        self.wake = self.lease_deadline = self.moves_at = NEVER
        self.last_failure: Optional[Refused] = None

    @property
    def link(self) -> Link:
        return self.links[self.present]

    def take_ids(self, count: int = 1) -> int:
        first = self.next_id
        self.next_id += count
        return first

    def wake_at(self, at: int) -> None:
        if at < self.wake:
            self.wake = at

    def _patience(self, request: Request) -> int:
        """For how long a broker is looked for."""
        if self.unreachable_after is not None:
            return self.unreachable_after
        if request.one_try:
            return self.try_patience
        return 10 * SECOND if request.wait_until == NEVER else request.wait_until - request.stranded

    def schedule(self, request: Request) -> None:
        """Sets when a waiting request is given up."""
        at = request.wait_until
        if request.stranded == NEVER:
            at = at + ANSWER_GRACE if at != NEVER else NEVER
        else:
            at = min(at, request.stranded + self._patience(request))
        self.timeouts.set(request, at)
        self.wake_at(at)

    def strand(self, request: Request, now: int) -> None:
        request.link = None
        for lease in request.leases:
            lease.phase, lease.link = Phase.WAITING, None
        if request.stranded == NEVER:
            request.stranded = now
        self.schedule(request)

    def waiting(self) -> List[Request]:
        """The requests that are not answered, in their order."""
        return [lease.request for lease in list(self.live.values())
                if lease.phase in (Phase.WAITING, Phase.GRANTED) and lease.request.leases[0] is lease]

    def refuse(self, request: Request, refusal: Refused, fx: Effects) -> None:
        for lease in request.leases:
            self.live.pop(lease.id, None)
            lease.phase = Phase.ENDED
        self.timeouts.set(request, NEVER)
        if request.answer is not None:
            fx.append((request.answer, (refusal,)))
            request.answer = None

    def withdraw(self, request: Request) -> None:
        """Tells the broker that this request is given up. Grants that are on their way go back by themselves."""
        if request.link is None or not request.link.streaming or request.link.leaving:
            return
        for lease in request.leases:  # each: the grants of some may be on their way
            if lease.phase == Phase.GRANTED:
                self.send_release(request.link, lease.id, False)
            else:
                cancel = wire.CancelAcquire(acquire_id=lease.id)
                request.link.commands.append(wire.SessionCommand(cancel=cancel))

    def send(self, request: Request, now: int, fx: Effects) -> None:
        """Sends a request through the present session, unless it must wait for something."""
        link = self.link
        if self.held_elsewhere(request):
            return
        if request.bytes > link.max_bytes:
            if link.opened:
                text = f"the request has {request.bytes} bytes, and this broker takes {link.max_bytes}: ask for fewer"
                self.refuse(request, kind_of("INVALID_ARGUMENT")("INVALID_ARGUMENT", text), fx)
            return  # goes when the broker has told its limit
        command = wire.SessionCommand(id=request.first)
        locks = command.acquire.locks
        for lease in request.leases:
            spec = lease.spec
            if request.one_try:
                spec.max_wait.FromNanoseconds(0)
            elif request.wait_until != NEVER:
                spec.max_wait.FromNanoseconds(max(request.wait_until - now, LEAST_WAIT))
            locks.append(spec)
            lease.link = link
        if request.request_id and PLACES:
            setattr(command.acquire, "request_id", request.request_id)  # noqa: B010
        request.link = link
        link.commands.append(command)

    def held_elsewhere(self, request: Request) -> bool:
        """Whether the same owner holds the lock through another session: it would wait for itself there."""
        asked = request.leases[0].spec
        if not self.moving or not asked.reentrant:
            return False
        return any(held.phase == Phase.HELD and held.link is not self.link and held.spec.reentrant
                   and held.spec.key == asked.key and held.spec.owner == asked.owner
                   and held.spec.namespace == asked.namespace for held in self.live.values())

    def send_held_back(self, now: int, fx: Effects) -> None:
        if not self.link.streaming or self.link.leaving:
            return
        for request in self.waiting():
            if request.link is None:
                self.send(request, now, fx)

    def send_release(self, link: Link, acquire_id: int, lapsed: bool) -> int:
        command = self.take_ids()
        release = wire.ReleaseLease(acquire_id=acquire_id, lapsed=lapsed)
        link.commands.append(wire.SessionCommand(id=command, release=release))
        return command

    def give_back(self, lease: Lease, lapsed: bool, tell: Optional[Released], fx: Effects) -> None:
        """Releases the lease at every session that may have it. Does not end it."""
        here = self.send_release(lease.link, lease.id, lapsed) if lease.link is not None else 0
        there, move = 0, lease.move
        if move is not None and move.through is not None:
            index = move.holds.index(lease)
            there = self.send_release(move.through, move.id + index, lapsed)
            move.holds[index] = None
        if tell is None:
            return
        if here and lease.link is not None:
            self.releases[here] = PendingRelease(tell, lease.link, there)
            if there and move is not None and move.through is not None:
                self.releases[there] = PendingRelease(None, move.through, here)
        elif there and move is not None and move.through is not None:
            self.releases[there] = PendingRelease(tell, move.through)
        else:
            fx.append((tell, (Outcome.UNKNOWN,)))

    def end(self, lease: Lease, cause: str, message: str, fx: Effects, tell: bool = True) -> None:
        """Final. `tell`: the program is told."""
        self.live.pop(lease.id, None)
        lease.cause, lease.message, lease.move = cause, message, None
        lease.phase = Phase.ENDED  # after the cause, for those who read without the mutex
        for command, waits in list(self.downgrades.items()):
            if waits.link is None and waits.lease is lease:
                del self.downgrades[command]
                fx.append((waits.tell, (Refused("NOT_HOLDER", "the lock has ended"),)))
        if self.moving and lease.spec.reentrant:  # an acquire of that owner may have waited for its arrival
            self.moves_at = 0
            self.wake_at(0)
        self.tell_change(lease, Refused("NOT_HOLDER", "the lock has ended"), fx)
        while lease.on_end:  # one by one: Holding._on_end adds without the mutex, and looks at the phase afterwards
            callback = lease.on_end.pop(0)
            if tell:
                fx.append((callback, ()))

    def tell_change(self, lease: Lease, refused: Optional[Refused], fx: Effects) -> None:
        """What others are to see of the lease is shown now, or will not be."""
        if lease.change is not None:
            fx.extend((tell, (refused,)) for tell in lease.change.told)
            lease.change = None

    def lose(self, lease: Lease, cause: str, message: str, fx: Effects) -> None:
        """Ends a held lease that is not released by the program, and sees that the broker frees it."""
        self.give_back(lease, True, None, fx)
        self.end(lease, cause, message, fx)

    def remember_leftover(self, lease: Lease, lapsed: bool) -> None:
        """Before a lease ends: when no session can release it, the next one adopts it and releases it then."""
        if lease.link is not None or (lease.move is not None and lease.move.through is not None):
            return
        if len(self.holds_of(lease)) > 1:
            return  # the others move it
        self.leftovers.append((lease, lease.move.request_id if lease.move else secrets.token_hex(16), lapsed))

    def notice(self, lease: Lease, now: int, fx: Effects) -> bool:
        """Ends the lease if its deadline has passed. True: it is still held."""
        if lease.phase != Phase.HELD:
            return False
        if now < lease.deadline:
            return True
        self.remember_leftover(lease, True)
        link = lease.link if lease.link is not None else self.link
        heard = link.streaming and link.opened and now < link.session.deadline
        if heard and lease.risk is not None:
            self.lose(lease, "EXPIRED", f"could not be renewed in time: {lease.risk}", fx)
        elif heard and lease.link is not None and lease.spec.HasField("max_hold"):
            # While the session is alive and no renewal has failed, only max_hold lets the deadline of one lease pass.
            self.lose(lease, "MAX_HOLD", "held for max_hold", fx)
        else:
            self.lose(lease, "LAPSED", "the broker was not heard until the deadline", fx)
        return False

    def holds_of(self, lease: Lease) -> List[Lease]:
        if not lease.spec.reentrant:
            return [lease]
        return [other for other in self.live.values() if other.phase == Phase.HELD and lease.same(other)]

    def ask_for_heartbeat(self, link: Link, deadline: int, now: int) -> None:
        """For a lease that was granted until `deadline`: when half of what is left is gone, and at once when it is
        short. Then a recent heartbeat that is not answered yet is enough."""
        recent = link.session.unanswered > 0 and now - link.session.last_sent_at < link.validity // 6
        if deadline - now < link.validity // 2 and not link.leaving and not recent:
            link.heartbeat_due = True
        if now < deadline:
            self.beat_half_way(link, deadline, now)

    def beat_half_way(self, link: Link, deadline: int, now: int) -> None:
        """Sends the next heartbeat at the latest when half of what is left until the deadline is gone."""
        link.heartbeat_at = min(link.heartbeat_at, now + max((deadline - now) // 2, LEAST_PAUSE))
        self.wake_at(link.heartbeat_at)

    def unreachable(self, since: int, now: int) -> Refused:
        failure = self.last_failure
        told = failure is not None and failure.reason in ("DRAINING", "QUOTA_EXCEEDED", "STORE_UNAVAILABLE",
                                                          "QUORUM_NOT_REACHED")
        reason = failure.reason if told and failure is not None else "UNREACHABLE"
        why = f": {failure.message}" if failure is not None and failure.message else ""
        taken = (now - since) // 1_000_000
        return kind_of(reason)(reason, f"no broker at {self.address} took it within {taken} ms{why}"
                               "; check that distlockd runs there, or set DISTLOCK_SERVER",
                               waited=(now - since) / SECOND)


def new_request(table: TableBase, specs: Sequence[lock_pb2.LockSpec], wait: Optional[int], now: int,
                answer: Callable[[Optional[Refused]], object],
                on_queued: Optional[Callable[[wire.AcquireQueued], object]]) -> Request:
    request = Request(now, answer, on_queued)
    first = table.take_ids(len(specs))
    request.leases = [Lease(first + i, request, spec) for i, spec in enumerate(specs)]
    request.bytes = 64 + sum(spec.ByteSize() + FRAME for spec in specs)
    request.one_try = wait is not None and wait <= 0
    if wait is not None and wait > 0:
        request.wait_until = now + wait
    if not request.one_try:
        request.request_id = f"{table.request_prefix}{first}"
    return request
