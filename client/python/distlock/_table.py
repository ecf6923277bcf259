# SPDX-License-Identifier: Apache-2.0
"""The data of the lock table, and what its parts share. See _lock_table.py."""
import functools
import secrets
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from distlock._clock import NEVER, SECOND
from distlock._convert import cut_label
from distlock._lease import GIVEN_BACK, Effects, Lease, Link, Phase, Request, Return, Timeouts
from distlock.errors import Refused, kind_of
from distlock.types import Outcome
from distlock.v1 import lock_service_pb2 as wire

ANSWER_GRACE = SECOND // 2  # the broker ends a bounded wait; when it stays silent, the client does after this much more
LEAST_WAIT = SECOND // 1000  # 0 would turn a bounded wait into one try
LEAST_PAUSE = SECOND // 100
TRY_PATIENCE = SECOND  # one try ends so long after no broker could be reached
TOLD = ("DRAINING", "QUOTA_EXCEEDED", "STORE_UNAVAILABLE", "QUORUM_NOT_REACHED")  # why no session begins

Answer = Union[Outcome, Refused, None]  # to a command; None: it is done
Told = Callable[[Optional[Refused]], object]
Heard = Callable[[Answer, int, Effects], object]  # what to do with one


OVER = Refused("NOT_HOLDER", "the lock has ended")


class TableBase:
    """Times are nanoseconds of distlock._clock. Each method that gets `fx` adds to it what the program is told."""

    def __init__(self, address: str, brokers: int, label: str, unreachable_after: Optional[int],
                 connect_timeout: int) -> None:
        self.address, self.brokers, self.label = address, brokers, cut_label(label)
        self.unreachable_after, self.connect_timeout = unreachable_after, connect_timeout
        self.try_patience = TRY_PATIENCE
        self.links = (Link(), Link())
        self.present = 0
        self.live: Dict[int, Lease] = {}  # by id, in any phase but ENDED
        self.moves: Dict[int, Lease] = {}  # by the id of an adoption that is not answered
        self.asked: Dict[int, Tuple[Link, Heard]] = {}  # the other commands that wait for an answer, but acquires
        self.leftovers: List[Return] = []  # that no session could take back
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

    def move_at(self, at: int) -> None:
        """Has send_moves() called then."""
        self.moves_at = min(self.moves_at, at)
        self.wake_at(self.moves_at)

    def ask(self, link: Link, heard: Heard, **command: Any) -> int:
        """Sends a command; `heard` gets its answer, or UNREACHABLE when the stream breaks before."""
        number = self.take_ids()
        self.asked[number] = (link, heard)
        link.commands.append(wire.SessionCommand(id=number, **command))
        return number

    def answer(self, command: int, answer: Answer, now: int, fx: Effects) -> bool:
        """False: it is no answer to a command that was asked."""
        asked = self.asked.pop(command, None)
        if asked is not None:
            asked[1](answer, now, fx)
        return asked is not None

    def schedule(self, request: Request) -> None:
        """Sets when a waiting request is given up."""
        at = request.wait_until
        if request.stranded != NEVER:  # for how long a broker is looked for
            patience = self.try_patience if request.one_try else 10 * SECOND if at == NEVER else at - request.stranded
            at = min(at, request.stranded + (patience if self.unreachable_after is None else self.unreachable_after))
        elif at != NEVER:
            at += ANSWER_GRACE
        self.timeouts.set(request, at)
        self.wake_at(at)

    def unsend(self, request: Request) -> None:
        request.link = None
        for lease in request.leases:
            lease.phase, lease.link = Phase.WAITING, None

    def strand(self, request: Request, now: int) -> None:
        self.unsend(request)
        request.stranded = min(request.stranded, now)
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
                self.send_release(request.link, lease.id, Return(lease, False))
            elif lease.phase == Phase.WAITING:
                cancel = wire.CancelAcquire(acquire_id=lease.id)
                request.link.commands.append(wire.SessionCommand(cancel=cancel))

    def send(self, request: Request, now: int, fx: Effects) -> None:
        """Sends a request through the present session, unless it must wait for something."""
        link = self.link
        asked = request.leases[0].spec
        if self.moving and asked.reentrant and any(
                held.phase == Phase.HELD and held.link is not link and held.spec.reentrant
                and held.spec.key == asked.key and held.spec.owner == asked.owner
                and held.spec.namespace == asked.namespace for held in self.live.values()):
            return  # the same owner holds the lock through another session: it would wait for itself here
        if request.bytes > link.max_bytes:
            if link.opened:
                text = f"the request has {request.bytes} bytes, and this broker takes {link.max_bytes}: ask for fewer"
                self.refuse(request, kind_of("INVALID_ARGUMENT")("INVALID_ARGUMENT", text), fx)
            return  # goes when the broker has told its limit
        command = wire.SessionCommand(id=request.leases[0].id)
        command.acquire.request_id = request.request_id
        for lease in request.leases:
            if request.one_try:
                lease.spec.max_wait.FromNanoseconds(0)
            elif request.wait_until != NEVER:
                lease.spec.max_wait.FromNanoseconds(max(request.wait_until - now, LEAST_WAIT))
            command.acquire.locks.append(lease.spec)
            lease.link = link
        request.link = link
        link.commands.append(command)

    def send_held_back(self, now: int, fx: Effects) -> None:
        for request in self.waiting() if self.link.streaming and not self.link.leaving else ():
            if request.link is None:
                self.send(request, now, fx)

    def unreachable(self, since: int, now: int) -> Refused:
        failure = self.last_failure
        reason = failure.reason if failure is not None and failure.reason in TOLD else "UNREACHABLE"
        why = f": {failure.message}" if failure is not None and failure.message else ""
        taken = (now - since) // 1_000_000
        return kind_of(reason)(reason, f"no broker at {self.address} took it within {taken} ms{why}"
                               "; check that distlockd runs there, or set DISTLOCK_SERVER",
                               waited=(now - since) / SECOND)

    def holds_of(self, lease: Lease) -> List[Lease]:
        """Those of a reentrant lease that are still held; of another one, itself."""
        if not lease.spec.reentrant:
            return [lease]
        return [other for other in self.live.values() if other.phase == Phase.HELD and lease.same(other)]

    def send_release(self, link: Link, acquire_id: int, back: Return) -> None:
        back.missing += 1
        self.ask(link, functools.partial(self._returned, back),
                 release=wire.ReleaseLease(acquire_id=acquire_id, lapsed=back.lapsed))

    def _returned(self, back: Return, answer: Answer, now: int, fx: Effects) -> None:
        if isinstance(answer, Refused):
            back.broken = back.broken or answer.reason == "UNREACHABLE"
            answer = Outcome.ALREADY_GONE if answer.reason == "NOT_HOLDER" else Outcome.UNKNOWN
        back.heard(answer or Outcome.UNKNOWN)
        if back.missing:
            return
        if back.tell is not None:
            fx.append((back.tell, (back.outcome,)))
            back.tell = None
        if back.broken and back.outcome is Outcome.UNKNOWN:
            self.leave_over(back)

    def leave_over(self, back: Return) -> None:
        """For the next session, which adopts it and releases it then."""
        if self.closed or [hold for hold in self.holds_of(back.lease) if hold is not back.lease]:
            return  # other holds of a reentrant lease move it, with what is left of it
        back.broken, back.outcome = False, Outcome.ALREADY_GONE
        back.key = back.key or secrets.token_hex(16)
        self.leftovers.append(back)
        self.move_at(0)

    def give_back(self, lease: Lease, lapsed: bool, tell: Optional[Callable[[Outcome], object]], fx: Effects,
                  gone: bool = False) -> None:
        """Releases the lease at every session that may have it. Does not end it. gone: its own has it no more."""
        back = Return(lease, lapsed, tell)
        if lease.link is not None and not gone:
            self.send_release(lease.link, lease.id, back)
        if lease.to is not None:
            self.send_release(lease.to, lease.to_id, back)
            self.unask_move(lease)
        if not back.missing and not gone:
            back.missing, back.broken = 1, True
            self._returned(back, Outcome.UNKNOWN, 0, fx)

    def unask_move(self, lease: Lease) -> None:
        """Its adoption is answered, or will not be."""
        self.moves.pop(lease.to_id, None)
        lease.to = None

    def end(self, lease: Lease, cause: str, message: str, fx: Effects) -> None:
        """Final. The program is told, unless it has given the lease back itself."""
        self.live.pop(lease.id, None)
        lease.conclude(cause, message)
        lease.phase = Phase.ENDED  # after the cause, for those who read it outside
        fx.extend((tell, (OVER.again(),)) for tell in lease.downgrades)
        lease.downgrades = []
        self.tell_change(lease, OVER.again(), fx)
        if self.moving and lease.spec.reentrant:  # an acquire of that owner may have waited for its arrival
            self.move_at(0)
        while lease.on_end:  # one by one: Holding._on_end adds at any moment, and looks at the phase afterwards
            callback = lease.on_end.pop(0)
            if lease.cause != GIVEN_BACK:
                fx.append((callback, ()))

    @staticmethod
    def tell_change(lease: Lease, refused: Optional[Refused], fx: Effects) -> None:
        """What others are to see of the lease is shown now, or will not be."""
        change, lease.change = lease.change, None
        fx.extend((tell, (refused,)) for tell in (change.told if change is not None else ()))

    def lose(self, lease: Lease, cause: str, message: str, fx: Effects, gone: bool = False) -> None:
        """Ends a held lease that is not released by the program, and sees that the broker frees it."""
        self.give_back(lease, True, None, fx, gone)
        self.end(lease, cause, message, fx)

    def verdict(self, lease: Lease, now: int) -> Tuple[str, str]:
        """Why a lease ends whose deadline has passed. Only reads, and may be asked outside."""
        link = lease.link or self.link
        heard = link.streaming and link.opened and now < link.session.deadline
        if heard and lease.risk is not None:
            return "EXPIRED", f"could not be renewed in time: {lease.risk}"
        if heard and lease.link is not None and lease.spec.HasField("max_hold"):
            # While the session is alive and no renewal has failed, only max_hold lets the deadline of one lease pass.
            return "MAX_HOLD", "held for max_hold"
        return "LAPSED", "the broker was not heard until the deadline"

    def notice(self, lease: Lease, now: int, fx: Effects) -> bool:
        """Ends the lease if its deadline has passed, or the program has seen so. True: it is still held."""
        if lease.phase != Phase.HELD:
            return False
        if lease.cause == GIVEN_BACK or (now < lease.deadline and not lease.ends):
            return True  # in the first case its release is on its way
        self.lose(lease, *self.verdict(lease, now), fx)
        return False

    def ask_for_heartbeat(self, link: Link, deadline: int, now: int) -> None:
        """For a lease that was granted until `deadline`: when half of what is left is gone, and at once when it is
        short. Then a recent heartbeat that is not answered yet is enough."""
        recent = link.session.unanswered > 0 and now - link.session.last_sent_at < link.validity // 6
        link.heartbeat_due |= deadline - now < link.validity // 2 and not link.leaving and not recent
        if now < deadline:
            self.beat_half_way(link, deadline, now)

    def beat_half_way(self, link: Link, deadline: int, now: int) -> None:
        """Sends the next heartbeat at the latest when half of what is left until the deadline is gone."""
        link.heartbeat_at = min(link.heartbeat_at, now + max((deadline - now) // 2, LEAST_PAUSE))
        self.wake_at(link.heartbeat_at)
