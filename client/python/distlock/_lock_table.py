# SPDX-License-Identifier: Apache-2.0
"""The lock table: what the program calls, and the timer. See _table.py."""
from typing import Callable, Optional, Sequence

from distlock._clock import NEVER, SECOND
from distlock._events import ListeningTable
from distlock._lease import Effects, Lease, Link, Phase, Request
from distlock._table import Downgraded, PendingDowngrade, Released, new_request
from distlock.errors import Refused, kind_of
from distlock.types import Outcome
from distlock.v1 import lock_pb2
from distlock.v1 import lock_service_pb2 as wire


class LockTable(ListeningTable):
    """Each request is answered once, and so is each release and downgrade that has a callback."""

    def acquire(self, specs: Sequence[lock_pb2.LockSpec], wait: Optional[int], now: int,
                answer: Callable[[Optional[Refused]], object], fx: Effects,
                on_queued: Optional[Callable[[wire.AcquireQueued], object]] = None) -> Request:
        """Takes all of `specs` or none. wait: nanoseconds; 0: one try; None: until granted."""
        request = new_request(self, specs, wait, now, answer, on_queued)
        if self.closed:
            self.refuse(request, Refused("CLIENT_CLOSED", "the client was closed"), fx)
            return request
        for lease in request.leases:
            self.live[lease.id] = lease
        if not self.link.opened:
            request.stranded = now
        if self.link.streaming and not self.link.leaving:
            self.send(request, now, fx)
        self.schedule(request)
        return request

    def cancel(self, request: Request, fx: Effects) -> None:
        """Withdraws a request that is not answered; nothing is held then. Afterwards release its leases instead."""
        if request.answer is None:
            return
        self.withdraw(request)
        self.refuse(request, Refused("CANCELLED", "withdrawn by the caller"), fx)

    def release(self, lease: Lease, tell: Optional[Released], now: int, fx: Effects) -> None:
        """Gives a lease back. It ends for the program at once; `tell` hears the broker's answer."""
        if lease.phase != Phase.HELD:
            if tell is not None:
                fx.append((tell, (Outcome.ALREADY_GONE,)))
            return
        believed = now < lease.deadline
        self.remember_leftover(lease, not believed)
        self.give_back(lease, not believed, tell, fx)
        if believed:
            self.end(lease, "GIVEN_BACK", "", fx, tell=False)
        else:
            self.end(lease, "LAPSED", "released after its deadline", fx)

    def downgrade(self, lease: Lease, tell: Downgraded, fx: Effects) -> None:
        """Makes an exclusive lease shared."""
        if lease.phase != Phase.HELD or (lease.link is not None and lease.link.leaving):
            fx.append((tell, (Refused("NOT_HOLDER", "the lock has ended"),)))
            return
        self.downgrades[self.take_ids()] = PendingDowngrade(tell, lease, None)
        self.send_downgrades(lease)

    def close(self, now: int, fx: Effects) -> None:
        """Gives all back and refuses what waits."""
        self.closed = True
        for request in self.waiting():
            self.refuse(request, Refused("CLIENT_CLOSED", "the client was closed while this waited"), fx)
        for lease in list(self.live.values()):
            self.end(lease, "CLIENT_CLOSED" if now < lease.deadline else "LAPSED", "the client was closed", fx)
        for link in self.links:
            if link.streaming and not link.leaving:
                self.leave(link)

    def start(self, now: int, fx: Effects, claim: Optional[wire.ProcessClaim] = None) -> None:
        """The present link has a new stream. claim: of this process, for a broker that can see its end."""
        link = self.link
        link.start(now, self.connect_timeout)
        opening = wire.OpenSession(client=self.label, generation=self.sessions, process=claim)
        self.sessions += 1
        link.commands.append(wire.SessionCommand(id=self.take_ids(), open=opening))
        self.wake_at(link.session.deadline)
        for lease in self.live.values():
            lease.stays = False
        self.send_held_back(now, fx)
        if self.closed:
            self.leave(link)

    def lapsed(self, link: Link, now: int) -> bool:
        """The broker has not been heard for too long: the stream must be ended."""
        return link.streaming and link.session.lapsed(now)

    def pack(self, link: Link, now: int, token: Optional[str] = None) -> Optional[wire.SessionRequest]:
        """The next message for this link's stream, or None. token: what is shown to brokers now, if that is known."""
        if link is not self.link:
            self.leave_when_empty(link)
        if token is not None and token != link.shown and not link.leaving:
            link.shown, link.proof = token, self.take_ids()
            proof = wire.SessionCommand(id=link.proof, authenticate=lock_pb2.Authenticate(authorization=token))
            link.commands.appendleft(proof)
        return link.pack(now)

    def ready(self, link: Link) -> bool:
        """Whether pack() has something."""
        if link is not self.link:
            self.leave_when_empty(link)
        return link.ready()

    def at_risk(self, lease: Lease, now: int) -> bool:
        """Renewals fail, its stream broke, or the broker leaves a heartbeat unanswered for too long."""
        return lease.risk is not None or (lease.link is not None and lease.link.session.overdue(lease.deadline, now))

    def tick(self, now: int, fx: Effects) -> None:
        """Handles timeouts, deadlines and heartbeats. Due at `wake`; earlier calls are harmless."""
        if now >= self.lease_deadline:
            self.sweep(now, fx)
        if now >= self.moves_at:
            self.send_moves(now, fx)
        while self.timeouts.next <= now:
            self._time_out(self.timeouts.take(), now, fx)
        self.wake = min(self.lease_deadline, self.moves_at, self.timeouts.next)
        for link in self.links:
            if not link.streaming:
                continue
            self.wake_at(link.session.deadline)
            if link.opened and not link.leaving:
                if now >= link.heartbeat_at:
                    link.heartbeat_due = True
                    link.heartbeat_at = now + link.interval
                self.wake_at(link.heartbeat_at)

    def _time_out(self, request: Request, now: int, fx: Effects) -> None:
        if request.stranded != NEVER:
            refusal = self.unreachable(request.stranded, now)
        else:
            refusal = kind_of("WAIT_TIMEOUT")(
                "WAIT_TIMEOUT", f"no answer within the wait of {(request.wait_until - request.asked) / SECOND:.3f} s",
                waited=(now - request.asked) / SECOND)
        self.withdraw(request)
        self.refuse(request, refusal, fx)
