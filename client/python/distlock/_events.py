# SPDX-License-Identifier: Apache-2.0
"""What the lock table does with each event of a session, and with the session's end."""
from typing import Optional

from distlock import _convert
from distlock._clock import NEVER, SECOND
from distlock._lease import FIRST_MAX_BYTES, MOST_AHEAD, Effects, Lease, Link, Phase, Request
from distlock._moves import MovingTable
from distlock._table import LEAST_PAUSE
from distlock.errors import Refused
from distlock.types import Outcome
from distlock.v1 import lock_pb2
from distlock.v1 import lock_service_pb2 as wire

DEFAULT_VALIDITY = 3 * SECOND
PERMANENT = frozenset(("INVALID_ARGUMENT", "NOT_SUPPORTED", "UNAUTHENTICATED", "PERMISSION_DENIED", "FOREIGN_KEY"))


class ListeningTable(MovingTable):
    """Adds the events of a stream."""

    def on_event(self, link: Link, event: wire.SessionEvent, now: int, fx: Effects) -> None:
        """Events that are not known are ignored."""
        kind = event.WhichOneof("event")
        link.answered(event.id)
        if kind == "granted":
            self.on_granted(link, event.id, event.granted, now, fx)
        elif kind == "released":
            self.on_released(link, event.id, _convert.outcome(event.released.outcome), fx)
        elif kind == "heartbeat_ack":
            self.on_ack(link, event.heartbeat_ack, now, fx)
        elif kind == "refused":
            if event.id == link.proof:
                link.shown = None  # it is brought again with a later heartbeat
            self.on_refused(link, event.id, event.refused, now, fx)
        elif kind == "lost":
            self.on_lost(link, event.id, event.lost, now, fx)
        elif kind == "opened":
            self.on_opened(link, event.opened, now, fx)
        elif kind == "draining":
            self.on_draining(link, _convert.duration_ns(event.draining.time_left), now, fx)
        elif kind == "downgraded":
            self.on_downgraded(event.id, None, now, fx)
        else:
            self._on_news(link, kind, event, fx)

    def _on_news(self, link: Link, kind: Optional[str], event: wire.SessionEvent, fx: Effects) -> None:
        lease = self.live.get(event.id)
        if lease is None or lease.link is not link:
            return
        if kind == "at_risk":
            lease.risk = event.at_risk.cause
        elif kind == "renewed":
            lease.risk = None
        elif kind == "queued":
            request = lease.request
            self.has_arrived(lease)
            request.stranded, request.turned_away = NEVER, False
            self.schedule(request)
            if request.on_queued is not None:
                fx.append((request.on_queued, (event.queued,)))

    def on_opened(self, link: Link, opened: wire.SessionOpened, now: int, fx: Effects) -> None:
        link.opened = True
        link.adopts = "adopt" in opened.features
        link.broker_id = opened.broker_id
        link.validity = _convert.duration_ns(opened.validity) or DEFAULT_VALIDITY
        link.interval = max(_convert.duration_ns(opened.heartbeat_interval) or link.validity // 3, LEAST_PAUSE)
        sent = link.session.last_sent_at
        link.session.ack(0, link.validity, now)
        link.heartbeat_at = sent + link.interval
        if now - sent > link.validity // 6:
            link.heartbeat_due = True
        self.wake_at(min(link.heartbeat_at, link.session.deadline))
        link.max_bytes = opened.max_message_bytes or FIRST_MAX_BYTES
        link.most_ahead = opened.max_unanswered or MOST_AHEAD
        link.authenticates = "authenticate" in opened.features
        if link is self.link:
            self.send_moves(now, fx)
        for request in self.waiting():
            if request.link is link and not request.turned_away and request.stranded != NEVER:
                request.stranded = NEVER
                self.schedule(request)

    def on_granted(self, link: Link, command: int, grant: lock_pb2.Grant, now: int, fx: Effects) -> None:
        lease = self.live.get(command)
        if lease is None:
            if not self.on_adopted(link, command, grant, now, fx) and link is not self.link:
                self.grant_by_former(link, command, None)
            return  # else: an id that was given up
        if link is not self.link and lease.link is not link:
            self.grant_by_former(link, command, lease)
            return
        if lease.link is not link or lease.phase != Phase.WAITING:
            return
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
        self.timeouts.set(request, NEVER)  # no answer is missing any more
        if any(lease.phase != Phase.GRANTED or now >= lease.deadline for lease in request.leases):
            return
        for lease in request.leases:
            lease.phase, lease.held_at = Phase.HELD, now
            self.lease_deadline = min(self.lease_deadline, lease.deadline)
        self.wake_at(self.lease_deadline)
        if request.answer is not None:
            fx.append((request.answer, (None,)))
            request.answer = None

    def on_ack(self, link: Link, ack: wire.HeartbeatAck, now: int, fx: Effects) -> None:
        if not link.session.ack(ack.seq, _convert.duration_ns(ack.valid_for), now):
            return
        link.acked, self.last_failure = True, None
        limits = {limit.acquire_id: _convert.duration_ns(limit.valid_for) for limit in ack.limits}
        promised = link.session.deadline_of(ack.seq, _convert.duration_ns(ack.valid_for))
        first = NEVER
        for lease in list(self.live.values()):
            if lease.link is not link or lease.phase == Phase.WAITING:
                continue
            if lease.phase == Phase.HELD and not self.notice(lease, now, fx):
                continue  # its deadline was final
            limit = limits.get(lease.id)
            if limit is not None:
                lease.deadline = link.session.deadline_of(ack.seq, limit)
            elif promised > lease.deadline:
                lease.deadline = promised
            if lease.phase == Phase.HELD:
                self.notice(lease, now, fx)
            else:
                self._deliver(lease.request, now, fx)
            if lease.phase != Phase.ENDED:
                first = min(first, lease.deadline)
        self.sweep(now, fx)
        if first != NEVER:  # a lease with a short ttl needs its next ack before the interval is over
            self.beat_half_way(link, first, now)

    def on_refused(self, link: Link, command: int, refused: lock_pb2.Refusal, now: int, fx: Effects) -> None:
        refusal = _convert.refusal(refused)
        lease = self.live.get(command)
        if lease is None:
            if self.on_not_adopted(link, command, refusal, now, fx):
                return
            if self.on_downgraded(command, refusal, now, fx):
                return
            self.on_released(link, command,
                             Outcome.ALREADY_GONE if refusal.reason == "NOT_HOLDER" else Outcome.UNKNOWN, fx)
            return
        if lease.former is link:
            lease.former, lease.crossed = None, False
        if lease.link is not link or lease.phase == Phase.HELD:
            return
        if refusal.reason == "DRAINING" and self._turn_away(link, lease.request, refusal, now, fx):
            return
        self.refuse(lease.request, refusal, fx)

    def _turn_away(self, link: Link, request: Request, refusal: Refused, now: int, fx: Effects) -> bool:
        """The broker drains: has the request ask another one. False: the refusal is the answer."""
        if self.brokers == 1 and any(lease.phase == Phase.HELD and lease.link is link for lease in self.live.values()):
            return False
        self.last_failure = refusal
        request.turned_away = True
        if self.brokers == 1:
            self.strand(request, now)
            self.leave(link)
            return True
        self.strand(request, now)
        link.draining = True
        self.move_on(now)
        if link is not self.link and self.link.streaming:
            self.send(request, now, fx)
        return True

    def on_released(self, link: Link, command: int, outcome: Outcome, fx: Effects) -> None:
        answered = self.releases.pop(command, None)
        if answered is None:
            self._on_released_by_others(link, command, fx)
            return
        twin = self.releases.get(answered.twin)
        if twin is not None:
            twin.tell = twin.tell or answered.tell
            twin.of_twin = outcome
            return
        # Only one of the sessions had the lease.
        if answered.of_twin is Outcome.RELEASED or (answered.of_twin and outcome is Outcome.ALREADY_GONE):
            outcome = answered.of_twin
        if answered.tell is not None:
            fx.append((answered.tell, (outcome,)))

    def _on_released_by_others(self, link: Link, command: int, fx: Effects) -> None:
        """Under the acquire's own id: another program that knows the lease_id has released the lease."""
        lease = self.live.get(command)
        if lease is None or lease.link is not link:
            return
        if lease.phase == Phase.HELD:
            lease.link = None  # this session has nothing to give back
            self.lose(lease, "RELEASED", "released by its lease_id", fx)
        elif lease.phase == Phase.GRANTED:
            self._lose_before_use(lease, "released by its lease_id", fx)

    def on_downgraded(self, command: int, refusal: Optional[Refused], now: int, fx: Effects) -> bool:
        found = self.downgrades.get(command)
        if found is None or found.link is None:
            return False
        del self.downgrades[command]
        for hold in self.holds_of(found.lease):
            if refusal is None:
                hold.downgraded = True
            else:
                hold.mode_unsure = True
        fx.append((found.tell, (refusal,)))
        if self.moving:
            self.send_moves(now, fx)
        return True

    def on_lost(self, link: Link, command: int, lost: wire.LeaseLost, now: int, fx: Effects) -> None:
        lease = self.live.get(command)
        if lease is None or lease.link is not link:
            return
        if lease.phase != Phase.HELD:
            self._lose_before_use(lease, lost.message, fx)
            return
        if lost.reason == lock_pb2.LOST_REASON_MOVED and lease.move is not None:
            lease.link = None  # by the move that is under way: no later ack of this session speaks for the lease
            return
        if lost.reason == lock_pb2.LOST_REASON_DRAINED and self.survives(lease, now):
            self.orphan(lease, lost.message)
            return
        lease.link = None  # this session has nothing to give back
        self.lose(lease, _convert.lost_reason(lost.reason), lost.message, fx)

    def _lose_before_use(self, lease: Lease, how: str, fx: Effects) -> None:
        others = [other for other in lease.request.leases if other is not lease]
        lease.phase = Phase.ENDED
        for other in others:
            if other.phase == Phase.GRANTED and other.link is not None:
                self.send_release(other.link, other.id, False)
        self.refuse(lease.request, Refused("LEASE_LOST", f"lost before use: {how}"), fx)

    def on_broken(self, link: Link, cause: str, why: str, now: int, fx: Effects) -> None:
        """The stream of this link has ended, or must end."""
        for move in list(self.moves.values()):
            if move.through is link:
                self.end_move(move)  # to be asked again
        for lease in list(self.live.values()):
            if lease.link is link and lease.phase == Phase.HELD:
                if self.survives(lease, now):
                    self.orphan(lease, why)
                    continue
                lease.link = None
                self.lose(lease, cause if now < lease.deadline else "LAPSED", why, fx)
        for lease in self.live.values():
            if lease.former is link:
                lease.former, lease.crossed = None, False
        for request in self.waiting():
            if request.link is link or (request.link is None and link is self.link):
                self.strand(request, now)
        link.streaming = link.opened = link.draining = link.leaving = link.heartbeat_due = False
        link.commands.clear()
        for command, pending in list(self.releases.items()):
            if pending.link is link:
                self.on_released(link, command, Outcome.UNKNOWN, fx)
        for command, downgrade in list(self.downgrades.items()):
            if downgrade.link is link:
                self.on_downgraded(command, Refused("UNREACHABLE", why), now, fx)
        self.move_on(now)

    def on_status(self, why: Refused, fx: Effects) -> None:
        """Why a stream broke, as its status tells."""
        self.last_failure = why
        if why.reason in PERMANENT:
            for request in self.waiting():
                if request.link is None:
                    self.refuse(request, why.again(), fx)
