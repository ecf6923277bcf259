# SPDX-License-Identifier: Apache-2.0
"""The data of the lock table, and how requests and leases go to brokers and end. See _lock_table.py."""
import functools
import secrets
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from distlock._clock import NEVER, SECOND
from distlock._convert import cut_label
from distlock._lease import GIVEN_BACK, Effects, Lease, Link, Phase, Request, Return
from distlock.errors import Refused, kind_of
from distlock.types import Outcome
from distlock.v1 import lock_pb2
from distlock.v1 import lock_service_pb2 as wire

ANSWER_GRACE = SECOND // 2  # the broker ends a bounded wait; when it stays silent, the client does after this much more
LEAST_WAIT = SECOND // 1000  # 0 would turn a bounded wait into one try
BEST_FIRST = (Outcome.RELEASED, Outcome.STILL_HELD, Outcome.UNKNOWN, Outcome.ALREADY_GONE)
PERMANENT = frozenset(("INVALID_ARGUMENT", "NOT_SUPPORTED", "UNAUTHENTICATED", "PERMISSION_DENIED", "FOREIGN_KEY"))

Answer = Union[Outcome, Refused, lock_pb2.Grant, None]  # to a command; None: it is done
Told = Callable[[Optional[Refused]], object]
Heard = Callable[[Answer, int, Effects], object]  # what to do with one

OVER = Refused("NOT_HOLDER", "the lock has ended")
UNHEARD = Refused("UNREACHABLE")  # by no session


class TableBase:
    """Times are nanoseconds of distlock._clock. Each method that gets `fx` adds to it what the program is told."""

    def __init__(self, address: str, brokers: int, label: str, unreachable_after: Optional[int],
                 try_patience: int) -> None:
        self.address, self.brokers, self.label = address, brokers, cut_label(label)
        self.unreachable_after, self.try_patience = unreachable_after, try_patience
        self.links = (Link(), Link())
        self.present = 0
        self.live: Dict[int, Lease] = {}  # by id, in any phase but ENDED
        self.asked: Dict[int, Tuple[Link, Heard]] = {}  # the commands that wait for an answer, but acquires
        self.leftovers: List[Return] = []  # that no session could take back
        self.next_id = 1
        self.request_prefix = secrets.token_hex(16)  # of the request_ids of this table
        self.sessions = 0  # opened so far
        self.closed = self.moving = False
        self.ends_at = self.moves_at = NEVER  # no lease or wait ends before; when send_moves() is due
        self.last_failure: Optional[Refused] = None
        # Told the nanoseconds that are left when the broker goes down and something cannot follow.
        self.tell_draining: Callable[[int], object] = lambda left: None

    @property
    def link(self) -> Link:
        return self.links[self.present]

    @property
    def wake(self) -> int:
        """When tick() is due."""
        return min(self.ends_at, self.moves_at, *(min(link.session.deadline, link.heartbeat_at)
                                                  for link in self.links if link.streaming))

    @property
    def drained(self) -> bool:
        """Nothing is held, waited for, or on its way back."""
        return not (self.live or self.asked or self.leftovers)

    def take_ids(self, count: int = 1) -> int:
        first = self.next_id
        self.next_id += count
        return first

    def move_at(self, at: int) -> None:
        """Has send_moves() called then."""
        self.moves_at = min(self.moves_at, at)

    def ask(self, link: Link, heard: Heard, **command: Any) -> int:
        """Sends a command; `heard` gets its answer, or UNREACHABLE when the stream breaks before."""
        number = self.take_ids()
        self.asked[number] = (link, heard)
        link.add(wire.SessionCommand(id=number, **command))
        return number

    def answer(self, command: int, answer: Answer, now: int, fx: Effects) -> bool:
        """False: it is no answer to a command that was asked."""
        asked = self.asked.get(command)
        if asked is not None:
            asked[1](answer, now, fx)
            self.asked.pop(command, None)
        return asked is not None

    def schedule(self, request: Request) -> None:
        """Sees that a waiting request is given up in time."""
        self.ends_at = min(self.ends_at, self.given_up_at(request))

    def given_up_at(self, request: Request) -> int:
        """When a request has waited for too long: for its answer, or for a broker to be found."""
        at = request.wait_until
        if request.stranded == NEVER:
            return NEVER if at == NEVER else at + ANSWER_GRACE
        patience = self.unreachable_after
        if patience is None:
            patience = self.try_patience if not request.request_id else 10 * SECOND if at == NEVER else NEVER
        return min(at, request.stranded + patience)

    def strand(self, request: Request, now: int) -> None:
        request.unsend()
        request.stranded = min(request.stranded, now)
        self.schedule(request)

    def waiting(self) -> List[Request]:
        """The requests that are not answered, in their order."""
        return [lease.request for lease in list(self.live.values())
                if lease.phase <= Phase.GRANTED and lease.request.leases[0] is lease]

    def refuse(self, request: Request, refusal: Refused, fx: Effects, withdraw: bool = False) -> None:
        if withdraw:
            self.withdraw(request)
        for lease in request.leases:
            self.live.pop(lease.id, None)
            lease.phase = Phase.ENDED
        fx.append((request.answer, (refusal,)))
        request.answered = True

    def withdraw(self, request: Request) -> None:
        """Tells the broker that this request is given up. Grants that are on their way go back by themselves."""
        link = request.link
        if link is None:
            return
        for lease in request.leases:  # each: the grants of some may be on their way
            if lease.phase == Phase.GRANTED:
                self.send_release(link, lease.id, Return(lease))
            elif lease.phase == Phase.WAITING:
                link.add(wire.SessionCommand(cancel=wire.CancelAcquire(acquire_id=lease.id)))

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
            if request.wait_until != NEVER:
                lease.spec.max_wait.FromNanoseconds(max(request.wait_until - now, LEAST_WAIT))
            command.acquire.locks.append(lease.spec)
            lease.link = link
        link.add(command)

    def send_held_back(self, now: int, fx: Effects) -> None:
        for request in self.waiting() if self.link.usable else ():
            if request.link is None:
                self.send(request, now, fx)

    def holds_of(self, lease: Lease) -> List[Lease]:
        """Those of a reentrant lease that are still held; of another one, itself."""
        if not lease.spec.reentrant:
            return [lease]
        return [other for other in self.live.values() if other.phase == Phase.HELD and other.grant == lease.grant]

    def send_release(self, link: Link, acquire_id: int, back: Return, lease_id: str = "") -> None:
        back.missing += 1
        self.ask(link, functools.partial(self._returned, back),
                 release=wire.ReleaseLease(acquire_id=acquire_id, lease_id=lease_id, lapsed=back.lapsed))

    def _returned(self, back: Return, answer: Answer, now: int, fx: Effects) -> None:
        reason = answer.reason if isinstance(answer, Refused) else ""
        outcome = Outcome.ALREADY_GONE if reason == "NOT_HOLDER" else Outcome.UNKNOWN
        back.missing -= 1
        back.broken = back.broken or reason == "UNREACHABLE"
        # Only one of the two sessions has had the lease.
        back.outcome = min(back.outcome, answer if isinstance(answer, Outcome) else outcome, key=BEST_FIRST.index)
        if back.missing:
            return
        if back.tell is not None:
            fx.append((back.tell, (back.outcome,)))
        if back.broken and back.outcome is Outcome.UNKNOWN:
            self.leave_over(back, 0)

    def leave_over(self, back: Return, at: int) -> None:
        """For the next session, which adopts it and releases it then."""
        if self.closed or not back.lease.lease_id or set(self.holds_of(back.lease)) - {back.lease}:
            return  # in the last case other holds of a reentrant lease move it, with what is left of it
        back.tell, back.broken, back.outcome = None, False, Outcome.ALREADY_GONE
        back.key = back.key or secrets.token_hex(16)
        self.leftovers.append(back)
        self.move_at(at)

    def adopter(self, lease: Lease) -> Optional[Link]:
        """The session that was asked to adopt the lease, and has not answered."""
        return self.asked[lease.to_id][0] if lease.to_id in self.asked else None

    def end(self, lease: Lease, cause: str, message: str, fx: Effects, gone: bool = False,
            tell: Optional[Callable[[Outcome], object]] = None) -> None:
        """Final. The sessions that may have the lease are to free it, and `tell` hears the outcome. gone: its own has
        it no more. The program is told, unless it has given the lease back itself."""
        lease.conclude(cause, message)
        back, to = Return(lease, tell), self.adopter(lease)
        if lease.link is not None and not gone:  # by its secret where that session may have another id for it
            self.send_release(lease.link, *((0, back, lease.lease_id) if to is lease.link else (lease.id, back)))
        if to is not None:
            self.send_release(to, lease.to_id, back)
            del self.asked[lease.to_id]
        if not back.missing and not gone:
            back.missing = 1
            self._returned(back, UNHEARD, 0, fx)
        self.live.pop(lease.id, None)
        lease.phase = Phase.ENDED  # after the cause, for those who read it outside
        fx.extend((told, (OVER.again(),)) for told in lease.downgrades)
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

    def verdict(self, lease: Lease, now: int) -> Tuple[str, str]:
        """Why a lease ends whose deadline has passed. Only reads, and may be asked outside."""
        link = lease.link or self.link
        if link.opened and not link.lapsed(now):
            if lease.risk is not None:
                return "EXPIRED", f"could not be renewed in time: {lease.risk}"
            if lease.link is not None and lease.spec.HasField("max_hold"):
                # While the session is alive and no renewal has failed, only max_hold lets one lease's deadline pass.
                return "MAX_HOLD", "held for max_hold"
        return "LAPSED", "the broker was not heard until the deadline"

    def notice(self, lease: Lease, now: int, fx: Effects) -> bool:
        """Ends the lease if its deadline has passed, or the program has seen so. True: it is still held."""
        if lease.phase != Phase.HELD:
            return False
        if lease.cause == GIVEN_BACK or (now < lease.deadline and not lease.ends):
            return True  # in the first case its release is on its way
        self.end(lease, *self.verdict(lease, now), fx)
        return False

    def leave(self, link: Link) -> None:
        """Says goodbye, so that the broker ends the stream in good order. Waiting requests go to the next stream."""
        link.goodbye()
        for request in self.waiting():
            if request.link is link:
                request.unsend()

    def ready(self, link: Link) -> bool:
        """Whether pack() has something. Leaves a former broker that has nothing of this client any more."""
        if link is not self.link and link.usable and not (
                any(link in (lease.link, lease.former) for lease in self.live.values())
                or any(asked is link for asked, _ in self.asked.values())):
            self.leave(link)
        return link.ready()

    def give_up(self, link: Link, command: int) -> None:
        """A former session has granted what has gone to another one, which is never believed in: it is to free that."""
        link.add(wire.SessionCommand(id=self.take_ids(), release=wire.ReleaseLease(acquire_id=command)))
