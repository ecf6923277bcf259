# SPDX-License-Identifier: Apache-2.0
"""The engine of a client: one table of leases, and what may happen to it. A state machine without clock, threads or IO:
time is passed in, what it tells the program comes out in `fx`, what it tells brokers in pack(). Its rules are those of
proto/distlock/v1/session.md; client/python/README.md lists states, events and actions. Only distlock/_core.py calls it,
one call at a time."""
from typing import Callable, Dict, Optional

from distlock import _convert
from distlock._clock import NEVER, SECOND
from distlock._lease import GIVEN_BACK, MOST_AHEAD, Change, Effects, Lease, Link, Phase, Request
from distlock._moves import MovingTable
from distlock._table import LEAST_PAUSE, OVER, Told
from distlock.errors import Refused, kind_of
from distlock.types import Outcome
from distlock.v1 import lock_pb2
from distlock.v1 import lock_service_pb2 as wire

DEFAULT_VALIDITY = 3 * SECOND
PERMANENT = frozenset(("INVALID_ARGUMENT", "NOT_SUPPORTED", "UNAUTHENTICATED", "PERMISSION_DENIED", "FOREIGN_KEY"))
HANDLED = frozenset(("opened", "queued", "granted", "refused", "heartbeat_ack", "lost", "released", "draining"))


class LockTable(MovingTable):
    """Each request is answered once, and so is each release, downgrade and change that has a callback."""

    def acquire(self, request: Request, now: int, fx: Effects) -> None:
        """Takes all locks of the request, or none."""
        if request.answer is None:
            return  # cancelled before it came here
        first = self.take_ids(len(request.leases))
        request.asked = now
        if not request.one_try:
            request.request_id = f"{self.request_prefix}{first}"
            request.wait_until = NEVER if request.wait is None else now + request.wait
        for number, lease in enumerate(request.leases, first):
            lease.id = number
        if self.closed:
            self.refuse(request, Refused("CLIENT_CLOSED", "the client was closed"), fx)
            return
        self.live.update((lease.id, lease) for lease in request.leases)
        if not self.link.opened:
            request.stranded = now
        if self.link.streaming and not self.link.leaving:
            self.send(request, now, fx)
        self.schedule(request)

    def cancel(self, request: Request, now: int, fx: Effects) -> None:
        """Nobody wants this request any more: withdraws it, or gives back what it was granted."""
        if request.answer is None:
            for lease in request.leases:
                self.release(lease, None, now, fx)
            return
        self.withdraw(request)
        self.refuse(request, Refused("CANCELLED", "withdrawn by the caller"), fx)

    def leave_off(self, lease: Lease, now: int) -> None:
        """The program gives the lease back: belief ends at once. May be called outside."""
        if now < lease.deadline:
            lease.conclude(GIVEN_BACK)
        else:
            lease.conclude("LAPSED", "released after its deadline")

    def release(self, lease: Lease, tell: Optional[Callable[[Outcome], object]], now: int, fx: Effects) -> None:
        """Gives a lease back. `tell` hears the broker's answer."""
        if lease.phase != Phase.HELD:
            if tell is not None:
                fx.append((tell, (Outcome.ALREADY_GONE,)))
            return
        self.leave_off(lease, now)
        self.give_back(lease, lease.cause != GIVEN_BACK, tell, fx)
        self.end(lease, lease.cause, lease.message, fx)

    def downgrade(self, lease: Lease, tell: Told, now: int, fx: Effects) -> None:
        """Makes an exclusive lease shared."""
        if not self._is_kept(lease, tell, fx):
            return
        lease.downgrades.append(tell)
        self.send_downgrades(lease)

    @staticmethod
    def _is_kept(lease: Lease, tell: Told, fx: Effects, unable: str = "") -> bool:
        ended = lease.phase != Phase.HELD or (lease.link is not None and lease.link.leaving)
        if ended or unable:
            fx.append((tell, (OVER.again() if ended else Refused("NOT_SUPPORTED", unable),)))
        return not ended and not unable

    def proclaim(self, lease: Lease, metadata: Dict[str, str], tell: Told, now: int, fx: Effects) -> None:
        """Changes what others see of a held lease: its session adopts it anew."""
        cannot = lease.stays or (lease.link is not None and not lease.link.adopts)
        if not self._is_kept(lease, tell, fx, "the lock is reentrant: what is shown of its holds cannot change"
                             if lease.spec.reentrant else
                             "the broker is too old to change what is shown of a lock" if cannot else ""):
            return
        lease.change = lease.change or Change()
        lease.change.spec = lock_pb2.LockSpec.FromString(lease.spec.SerializeToString())
        lease.change.spec.metadata.update(metadata)
        lease.change.told.append(tell)
        self.move_at(now)

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
        self.leave_when_empty(link)
        if token is not None and token != link.shown and not link.leaving:
            link.shown, link.proof = token, self.take_ids()
            proof = lock_pb2.Authenticate(authorization=token)
            link.commands.appendleft(wire.SessionCommand(id=link.proof, authenticate=proof))
        return link.pack(now)

    def ready(self, link: Link) -> bool:
        """Whether pack() has something."""
        self.leave_when_empty(link)
        return link.ready()

    @staticmethod
    def at_risk(lease: Lease, now: int) -> bool:
        """Renewals fail, its stream broke, or the broker leaves a heartbeat unanswered for too long. Only reads."""
        link = lease.link
        return lease.risk is not None or (link is not None and link.session.overdue(lease.deadline, now))

    def tick(self, now: int, fx: Effects) -> None:
        """Handles timeouts, deadlines and heartbeats. Due at `wake`; earlier calls are harmless."""
        if now >= self.lease_deadline:
            self.sweep(now, fx)
        if now >= self.moves_at:
            self.send_moves(now, fx)
        while self.timeouts.next <= now:
            self._time_out(self.timeouts.take(), now, fx)
        self.wake = min(self.lease_deadline, self.moves_at, self.timeouts.next)
        for link in (one for one in self.links if one.streaming):
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

    # The events of a stream, and its end.

    def on_event(self, link: Link, event: wire.SessionEvent, now: int, fx: Effects) -> None:
        """Events that are not known are ignored."""
        link.answered(event.id)
        kind = event.WhichOneof("event")
        lease = self.live.get(event.id)
        if kind in HANDLED:
            getattr(self, f"on_{kind}")(link, event.id, getattr(event, kind), now, fx)
        elif kind == "downgraded":
            self.answer(event.id, None, now, fx)
        elif kind in ("at_risk", "renewed") and lease is not None and lease.link is link:
            lease.risk = event.at_risk.cause if kind == "at_risk" else None

    def on_opened(self, link: Link, _: int, opened: wire.SessionOpened, now: int, fx: Effects) -> None:
        link.opened = True
        link.adopts, link.authenticates = "adopt" in opened.features, "authenticate" in opened.features
        link.max_bytes = opened.max_message_bytes or link.max_bytes
        link.most_ahead = opened.max_unanswered or MOST_AHEAD
        link.validity = _convert.duration_ns(opened.validity) or DEFAULT_VALIDITY
        link.interval = max(_convert.duration_ns(opened.heartbeat_interval) or link.validity // 3, LEAST_PAUSE)
        sent = link.session.last_sent_at
        link.session.ack(0, link.validity, now)
        link.heartbeat_at = sent + link.interval
        link.heartbeat_due = link.heartbeat_due or now - sent > link.validity // 6
        self.wake_at(min(link.heartbeat_at, link.session.deadline))
        if link is self.link:
            self.send_moves(now, fx)
        for request in self.waiting():
            if request.link is link and not request.turned_away and request.stranded != NEVER:
                request.stranded = NEVER
                self.schedule(request)

    def on_queued(self, link: Link, command: int, queued: wire.AcquireQueued, now: int, fx: Effects) -> None:
        lease = self.live.get(command)
        if lease is not None and lease.link is link:
            request = lease.request
            self.has_arrived(lease)
            request.stranded, request.turned_away = NEVER, False
            self.schedule(request)
            if request.on_queued is not None:
                fx.append((request.on_queued, (queued,)))

    def on_granted(self, link: Link, command: int, grant: lock_pb2.Grant, now: int, fx: Effects) -> None:
        moved, lease = self.moves.get(command), self.live.get(command)
        if moved is not None:
            self.on_adopted(link, moved, grant, now, fx)
        elif lease is None or lease.link is not link:
            if not self.answer(command, None, now, fx) and link is not self.link:
                self.grant_by_former(link, command, lease)  # else an id that was given up
        elif lease.phase == Phase.WAITING:
            self._take(link, lease, grant, now, fx)

    def _take(self, link: Link, lease: Lease, grant: lock_pb2.Grant, now: int, fx: Effects) -> None:
        lease.former, lease.crossed = None, False
        lease.lease_id, lease.holder_id, lease.token = grant.lease_id, grant.holder_id, grant.fencing_token
        lease.waited = _convert.duration_ns(grant.waited)
        lease.hold_count = max(grant.hold_count, 1)
        lease.deadline = link.session.deadline_of(grant.echo_seq, _convert.duration_ns(grant.valid_for))
        lease.phase = Phase.GRANTED
        self.ask_for_heartbeat(link, lease.deadline, now)
        self._deliver(lease.request, now, fx)

    def _deliver(self, request: Request, now: int, fx: Effects) -> None:
        """Hands a request's locks to the program, when all are granted and none is past its deadline."""
        if all(lease.phase == Phase.GRANTED for lease in request.leases):
            self.timeouts.set(request, NEVER)  # no answer is missing any more
        if any(lease.phase != Phase.GRANTED or now >= lease.deadline for lease in request.leases):
            return
        for lease in request.leases:
            lease.phase = Phase.HELD
            self.lease_deadline = min(self.lease_deadline, lease.deadline)
        self.wake_at(self.lease_deadline)
        if request.answer is not None:
            fx.append((request.answer, (None,)))
            request.answer = None

    def on_heartbeat_ack(self, link: Link, _: int, ack: wire.HeartbeatAck, now: int, fx: Effects) -> None:
        valid_for = _convert.duration_ns(ack.valid_for)
        if not link.session.ack(ack.seq, valid_for, now):
            return
        link.acked, self.last_failure = True, None
        limits = {limit.acquire_id: _convert.duration_ns(limit.valid_for) for limit in ack.limits}
        promised = link.session.deadline_of(ack.seq, valid_for)
        first = NEVER
        for lease in list(self.live.values()):
            if lease.link is not link or lease.phase == Phase.WAITING:
                continue
            if lease.phase == Phase.HELD and not self.notice(lease, now, fx):
                continue  # its deadline was final
            limit = limits.get(lease.id)
            lease.deadline = (max(lease.deadline, promised) if limit is None else
                              link.session.deadline_of(ack.seq, limit))
            if lease.phase == Phase.GRANTED:
                self._deliver(lease.request, now, fx)
            first = min(first, lease.deadline)
        self.sweep(now, fx)
        if first != NEVER:  # a lease with a short ttl needs its next ack before the interval is over
            self.beat_half_way(link, first, now)

    def sweep(self, now: int, fx: Effects) -> None:
        """Ends the leases whose deadlines have passed."""
        self.lease_deadline = NEVER
        elsewhere = False
        for lease in list(self.live.values()):
            if lease.phase == Phase.HELD and self.notice(lease, now, fx):
                self.lease_deadline = min(self.lease_deadline, lease.deadline)
                elsewhere = elsewhere or lease.link is not self.link
        self.moving = self.moving and elsewhere
        self.wake_at(self.lease_deadline)

    def on_refused(self, link: Link, command: int, refused: lock_pb2.Refusal, now: int, fx: Effects) -> None:
        refusal = _convert.refusal(refused)
        if command == link.proof:
            link.shown = None  # it is brought again with a later heartbeat
        moved, lease = self.moves.get(command), self.live.get(command)
        if moved is not None:
            self.not_adopted(link, moved, refusal, now, fx)
        elif lease is None:
            self.answer(command, refusal, now, fx)
        else:
            if lease.former is link:
                lease.former, lease.crossed = None, False
            if lease.link is not link or lease.phase == Phase.HELD:
                return
            if refusal.reason != "DRAINING" or not self._turn_away(link, lease.request, refusal, now, fx):
                self.refuse(lease.request, refusal, fx)

    def _turn_away(self, link: Link, request: Request, refusal: Refused, now: int, fx: Effects) -> bool:
        """The broker drains: has the request ask another one. False: the refusal is the answer."""
        if self.brokers == 1 and any(lease.phase == Phase.HELD and lease.link is link for lease in self.live.values()):
            return False
        self.last_failure = refusal
        request.turned_away = True
        self.strand(request, now)
        if self.brokers == 1:
            self.leave(link)
            return True
        link.draining = True
        self.move_on(now)
        if link is not self.link and self.link.streaming:
            self.send(request, now, fx)
        return True

    def on_released(self, link: Link, command: int, released: wire.LeaseReleased, now: int, fx: Effects) -> None:
        if not self.answer(command, _convert.outcome(released.outcome), now, fx):
            # Under the acquire's own id: another program that knows the lease_id has released the lease.
            self._on_gone(link, command, "RELEASED", "released by its lease_id", fx)

    def _on_gone(self, link: Link, command: int, cause: str, message: str, fx: Effects) -> None:
        lease = self.live.get(command)
        if lease is None or lease.link is not link or lease.phase == Phase.WAITING:
            return
        if lease.phase == Phase.HELD:
            self.lose(lease, cause, message, fx, gone=True)
            return
        lease.phase = Phase.ENDED
        self.withdraw(lease.request)
        self.refuse(lease.request, Refused("LEASE_LOST", f"lost before use: {message}"), fx)

    def on_lost(self, link: Link, command: int, lost: wire.LeaseLost, now: int, fx: Effects) -> None:
        lease = self.live.get(command)
        if lease is not None and lease.link is link and lease.phase == Phase.HELD:
            if lost.reason == lock_pb2.LOST_REASON_MOVED and lease.move_key:
                lease.link = None  # by the move that is under way: no later ack of this session speaks for the lease
                return
            if lost.reason == lock_pb2.LOST_REASON_DRAINED and self.survives(lease, now):
                self.orphan(lease, lost.message)
                return
        self._on_gone(link, command, _convert.lost_reason(lost.reason), lost.message, fx)

    def on_broken(self, link: Link, cause: str, why: str, now: int, fx: Effects) -> None:
        """The stream of this link has ended, or must end."""
        left = link.leaving
        for lease in list(self.live.values()):
            if lease.to is link:
                self.unask_move(lease)  # to be asked again
            if lease.former is link:
                lease.former, lease.crossed = None, False
        for lease in list(self.live.values()):
            if lease.link is link and lease.phase == Phase.HELD:
                if self.survives(lease, now):
                    self.orphan(lease, why)
                else:
                    self.lose(lease, cause if now < lease.deadline else "LAPSED", why, fx, gone=True)
        for request in self.waiting():
            if request.link is link or (request.link is None and link is self.link):
                self.strand(request, now)
        link.stop()
        gone = Refused("UNREACHABLE" if not left else "NOT_HOLDER", why)
        for command in [one for one, (asked, _) in self.asked.items() if asked is link]:
            self.answer(command, gone, now, fx)
        self.move_on(now)

    def on_status(self, why: Refused, fx: Effects) -> None:
        """Why a stream broke, as its status tells."""
        self.last_failure = why
        if why.reason in PERMANENT:
            for request in self.waiting():
                if request.link is None:
                    self.refuse(request, why.again(), fx)
