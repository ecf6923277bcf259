# SPDX-License-Identifier: Apache-2.0
"""The engine of a client: one table of leases, and what may happen to it. A state machine without clock, threads or IO:
time is passed in, what it tells the program comes out in `fx`, what it tells brokers in pack(). Its rules are those of
proto/distlock/v1/session.md; _lease.py has the states, _moves.py how leases move. Only distlock/_core.py calls it, one
call at a time, on threads of the package and of gRPC, so the program cannot stop it or leave it half done."""
import functools
from typing import Callable, Dict, Optional

from distlock import _convert
from distlock._clock import NEVER, SECOND
from distlock._lease import GIVEN_BACK, LEAST_PAUSE, MOST_AHEAD, Change, Effects, Lease, Link, Phase, Request
from distlock._moves import MovingTable
from distlock._table import OVER, PERMANENT, UNHEARD, Answer, Told
from distlock.errors import Refused, kind_of
from distlock.types import Outcome
from distlock.v1 import lock_pb2
from distlock.v1 import lock_service_pb2 as wire

CONNECT_TIMEOUT = 5 * SECOND
TRY_PATIENCE = SECOND  # one try ends so long after no broker could be reached
DEFAULT_VALIDITY = 3 * SECOND
TOLD = ("DRAINING", "QUOTA_EXCEEDED", "STORE_UNAVAILABLE", "QUORUM_NOT_REACHED")  # why no session begins
OF_SESSIONS = frozenset(("opened", "granted", "refused", "released", "heartbeat_ack", "draining"))


class LockTable(MovingTable):
    """Each request is answered once, and so is each release, downgrade and change that has a callback."""

    def acquire(self, request: Request, now: int, fx: Effects) -> None:
        """Takes all locks of the request, or none."""
        if request.answered:
            return  # cancelled before it came here
        first = self.take_ids(len(request.leases))
        request.asked = now
        if request.wait != 0:
            request.request_id = f"{self.request_prefix}{first}"
            request.wait_until = NEVER if request.wait is None else now + request.wait
        for number, lease in enumerate(request.leases, first):
            lease.id = number
            if request.wait == 0:
                lease.spec.max_wait.FromNanoseconds(0)
        if self.closed:
            self.refuse(request, Refused("CLIENT_CLOSED", "the client was closed"), fx)
            return
        self.live.update((lease.id, lease) for lease in request.leases)
        if not self.link.opened:
            request.stranded = now
        if self.link.usable:
            self.send(request, now, fx)
        self.schedule(request)

    def cancel(self, request: Request, now: int, fx: Effects) -> None:
        """Nobody wants this request any more: withdraws it, or gives back what it was granted."""
        if request.answered:
            for lease in request.leases:
                self.release(lease, None, now, fx)
            return
        self.refuse(request, Refused("CANCELLED", "withdrawn by the caller"), fx, withdraw=True)

    def leave_off(self, lease: Lease, now: int) -> None:
        """The program gives the lease back: belief ends at once. May be called outside."""
        if now < lease.deadline:
            lease.conclude(GIVEN_BACK)
        else:
            lease.conclude("LAPSED", "released after its deadline")

    def release(self, lease: Lease, tell: Optional[Callable[[Outcome], object]], now: int, fx: Effects) -> None:
        """Gives a lease back. `tell` hears the broker's answer."""
        if lease.phase == Phase.HELD:
            self.leave_off(lease, now)
            self.end(lease, GIVEN_BACK, "", fx, tell=tell)
        elif tell is not None:
            fx.append((tell, (Outcome.ALREADY_GONE,)))

    def downgrade(self, lease: Lease, tell: Told, now: int, fx: Effects) -> None:
        """Makes an exclusive lease shared."""
        if self._is_kept(lease, tell, fx):
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
        unable = ("the lock is reentrant: what is shown of its holds cannot change" if lease.spec.reentrant else
                  "the broker is too old to change what is shown of a lock"
                  if lease.stays or (lease.link is not None and not lease.link.adopts) else "")
        if self._is_kept(lease, tell, fx, unable):
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
            self.end(lease, "CLIENT_CLOSED" if now < lease.deadline else "LAPSED", "the client was closed", fx,
                     gone=True)
        for link in self.links:
            if link.usable:
                self.leave(link)

    def start(self, now: int, fx: Effects, claim: Optional[wire.ProcessClaim] = None) -> None:
        """The present link has a new stream. claim: of this process, for a broker that can see its end."""
        self.link.reset(now, CONNECT_TIMEOUT, streaming=True)
        opening = wire.OpenSession(client=self.label, generation=self.sessions, process=claim)
        self.link.add(wire.SessionCommand(id=self.take_ids(), open=opening))
        self.sessions += 1
        for lease in self.live.values():
            lease.stays = False
        self.send_held_back(now, fx)

    def pack(self, link: Link, now: int, token: Optional[str] = None) -> Optional[wire.SessionRequest]:
        """The next message for this link's stream, or None. token: what is shown to brokers now, if that is known."""
        self.ready(link)
        if token is not None and token != link.shown and not link.leaving:
            link.shown = token
            self.ask(link, functools.partial(self._shown, link), authenticate={"authorization": token})
            link.commands.rotate(1)  # before what it is to let in
        return link.pack(now)

    @staticmethod
    def _shown(link: Link, answer: Answer, now: int, fx: Effects) -> None:
        if answer is not None:
            link.shown = None  # it is brought again with a later heartbeat

    @staticmethod
    def at_risk(lease: Lease, now: int) -> bool:
        """Renewals fail, its stream broke, or the broker leaves a heartbeat unanswered for too long. Only reads."""
        link = lease.link
        return lease.risk is not None or (link is not None and link.session.overdue(lease.deadline, now))

    def tick(self, now: int, fx: Effects) -> None:
        """Handles timeouts, deadlines and heartbeats. Due at `wake`; earlier calls are harmless."""
        if now >= self.ends_at:
            self.sweep(now, fx)
        if now >= self.moves_at:
            self.send_moves(now, fx)
        for link in self.links:
            if link.streaming and now >= link.heartbeat_at:
                link.heartbeat_due, link.heartbeat_at = True, now + link.interval

    def sweep(self, now: int, fx: Effects) -> None:
        """Ends the leases whose deadlines have passed, and gives up what has waited for too long."""
        self.ends_at, elsewhere = NEVER, False
        for lease in list(self.live.values()):
            at = NEVER
            if lease.phase == Phase.WAITING:
                at = self.given_up_at(lease.request)
                if now >= at:
                    self.time_out(lease.request, now, fx)
                    continue
                at = max(at, now + LEAST_PAUSE)  # many waits that end one by one cost one look
            elif lease.phase == Phase.HELD:
                if not self.notice(lease, now, fx):
                    continue
                at = lease.deadline
                elsewhere = elsewhere or lease.link is not self.link
            self.ends_at = min(self.ends_at, at)
        self.moving = self.moving and elsewhere

    def time_out(self, request: Request, now: int, fx: Effects) -> None:
        since, reason = request.asked, "WAIT_TIMEOUT"
        text = f"no answer within the wait of {(request.wait_until - since) / SECOND:.3f} s"
        if request.stranded != NEVER:
            failure, since = self.last_failure or UNHEARD, request.stranded
            reason = failure.reason if failure.reason in TOLD else "UNREACHABLE"
            why = f": {failure.message}" if failure.message else ""
            text = (f"no broker at {self.address} took it within {(now - since) // 1_000_000} ms{why}"
                    "; check that distlockd runs there, or set DISTLOCK_SERVER")
        self.refuse(request, kind_of(reason)(reason, text, waited=(now - since) / SECOND), fx, withdraw=True)

    # The events of a stream, and its end.

    def on_event(self, link: Link, event: wire.SessionEvent, now: int, fx: Effects) -> None:
        """Events that are not known are ignored."""
        link.answered(event.id)
        kind = event.WhichOneof("event")
        lease = self.live.get(event.id)
        if kind in OF_SESSIONS:
            getattr(self, f"on_{kind}")(link, event.id, getattr(event, kind), now, fx)
        elif kind in ("downgraded", "authenticated"):
            self.answer(event.id, None, now, fx)
        elif lease is not None and lease.link is link:
            if kind in ("queued", "lost"):
                getattr(self, f"on_{kind}")(lease, getattr(event, kind), now, fx)
            elif kind in ("at_risk", "renewed"):
                lease.risk = event.at_risk.cause if kind == "at_risk" else None

    def on_opened(self, link: Link, _: int, opened: wire.SessionOpened, now: int, fx: Effects) -> None:
        link.opened = True
        link.adopts, link.authenticates = "adopt" in opened.features, "authenticate" in opened.features
        link.store = opened.store_id
        link.max_bytes = opened.max_message_bytes or link.max_bytes
        link.most_ahead = opened.max_unanswered or MOST_AHEAD
        link.validity = _convert.duration_ns(opened.validity) or DEFAULT_VALIDITY
        link.interval = max(_convert.duration_ns(opened.heartbeat_interval) or link.validity // 3, LEAST_PAUSE)
        sent = link.session.last_sent_at
        link.session.ack(0, sent + link.validity, now)
        if not link.leaving:
            link.heartbeat_at = sent + link.interval
            link.heartbeat_due = link.heartbeat_due or now - sent > link.validity // 6
        if link is self.link:
            self.send_moves(now, fx)
        for request in self.waiting():
            if request.link is link and not request.turned_away:
                request.stranded = NEVER
                self.schedule(request)

    def on_queued(self, lease: Lease, queued: wire.AcquireQueued, now: int, fx: Effects) -> None:
        """The present broker has the request, and so its place: the former session matters no more."""
        request = lease.request
        for part in request.leases:
            if part.crossed and part is lease and part.former is not None:
                self.give_up(part.former, part.id)
            if part is lease or not part.crossed:
                part.leave_former()
        request.stranded, request.turned_away = NEVER, False
        self.schedule(request)
        if request.on_queued is not None:
            fx.append((request.on_queued, (queued,)))

    def on_granted(self, link: Link, command: int, grant: lock_pb2.Grant, now: int, fx: Effects) -> None:
        lease = self.live.get(command)
        if lease is not None and lease.former is link:
            lease.crossed = True  # given back when the next broker has the place
        elif lease is None or lease.link is not link:
            if not self.answer(command, grant, now, fx) and link is not self.link:
                self.give_up(link, command)  # else an id that was given up
        elif lease.phase == Phase.WAITING:
            lease.leave_former()
            lease.lease_id, lease.holder_id, lease.token = grant.lease_id, grant.holder_id, grant.fencing_token
            lease.waited, lease.hold_count = _convert.duration_ns(grant.waited), max(grant.hold_count, 1)
            lease.deadline = link.session.deadline_of(grant.echo_seq, _convert.duration_ns(grant.valid_for))
            lease.phase, lease.store = Phase.GRANTED, link.store
            link.beat_before_half(lease.deadline, now, granted=True)
            self._deliver(lease.request, now, fx)

    def _deliver(self, request: Request, now: int, fx: Effects) -> None:
        """Hands a request's locks to the program, when all are granted and none is past its deadline."""
        if any(lease.phase != Phase.GRANTED or now >= lease.deadline for lease in request.leases):
            return
        for lease in request.leases:
            lease.phase = Phase.HELD
            self.ends_at = min(self.ends_at, lease.deadline)
        fx.append((request.answer, (None,)))
        request.answered = True

    def on_heartbeat_ack(self, link: Link, _: int, ack: wire.HeartbeatAck, now: int, fx: Effects) -> None:
        promised = link.session.deadline_of(ack.seq, _convert.duration_ns(ack.valid_for))
        if not link.session.ack(ack.seq, promised, now):
            return
        limits = {limit.acquire_id: _convert.duration_ns(limit.valid_for) for limit in ack.limits}
        self.last_failure, first = None, NEVER
        for lease in list(self.live.values()):
            if lease.link is not link or lease.phase == Phase.WAITING or (
                    lease.phase == Phase.HELD and not self.notice(lease, now, fx)):
                continue  # in the last case its deadline was final
            limit = limits.get(lease.id)
            lease.deadline = (max(lease.deadline, promised) if limit is None else
                              link.session.deadline_of(ack.seq, limit))
            if lease.phase == Phase.GRANTED:
                self._deliver(lease.request, now, fx)
            if now < lease.deadline:  # what is over needs no further ack
                first = min(first, lease.deadline)
        self.sweep(now, fx)
        if first != NEVER:  # a lease with a short ttl needs its next ack before the interval is over
            link.beat_before_half(first, now)

    def on_refused(self, link: Link, command: int, refused: lock_pb2.Refusal, now: int, fx: Effects) -> None:
        refusal = _convert.refusal(refused)
        lease = self.live.get(command)
        if lease is None:
            self.answer(command, refusal, now, fx)
            return
        if lease.former is link:
            lease.leave_former()
        if lease.link is link and lease.phase != Phase.HELD and (
                refusal.reason != "DRAINING" or not self._turn_away(link, lease.request, refusal, now, fx)):
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
        self.drains(link, now)
        if link is not self.link:
            self.send_held_back(now, fx)
        return True

    def on_released(self, link: Link, command: int, released: wire.LeaseReleased, now: int, fx: Effects) -> None:
        lease = self.live.get(command)
        if not self.answer(command, _convert.outcome(released.outcome), now, fx) and (
                lease is not None and lease.link is link):
            # Under the acquire's own id: another program that knows the lease_id has released the lease.
            self._on_gone(lease, "RELEASED", "released by its lease_id", fx)

    def on_lost(self, lease: Lease, lost: wire.LeaseLost, now: int, fx: Effects) -> None:
        if lease.phase == Phase.HELD and lost.reason == lock_pb2.LOST_REASON_MOVED and lease.move_key:
            lease.link = None  # by the move that is under way: no later ack of this session speaks for the lease
        elif lease.phase == Phase.HELD and lost.reason == lock_pb2.LOST_REASON_DRAINED and self.survives(lease, now):
            self.orphan(lease, lost.message)
        else:
            self._on_gone(lease, _convert.lost_reason(lost.reason), lost.message, fx)

    def _on_gone(self, lease: Lease, cause: str, message: str, fx: Effects) -> None:
        """Its session does not have the lease any more. A broker that adopted it may keep the lock after max_hold for a
        former promise, until its client says that belief has ended."""
        if lease.phase == Phase.HELD:
            self.end(lease, cause, message, fx, gone=cause != "MAX_HOLD")
        elif lease.phase == Phase.GRANTED:
            lease.phase = Phase.ENDED
            self.refuse(lease.request, Refused("LEASE_LOST", f"lost before use: {message}"), fx, withdraw=True)

    def on_broken(self, link: Link, cause: str, why: str, failure: Optional[Refused], now: int, fx: Effects) -> None:
        """The stream of this link has ended, or must end. failure: its status; None: no error."""
        for lease in list(self.live.values()):
            if self.adopter(lease) is link:
                del self.asked[lease.to_id]  # to be asked again
            if lease.former is link:
                lease.leave_former()
            if lease.link is link and lease.phase == Phase.HELD:
                if self.survives(lease, now):
                    self.orphan(lease, why)
                else:
                    self.end(lease, cause if now < lease.deadline else "LAPSED", why, fx, gone=True)
        self.last_failure = failure or self.last_failure
        for request in self.waiting():
            if request.link is link or (request.link is None and link is self.link):
                self.strand(request, now)
            if request.link is None and failure is not None and failure.reason in PERMANENT:
                self.refuse(request, failure.again(), fx)
        link.reset()
        for command in [one for one, (asked, _) in self.asked.items() if asked is link]:
            self.answer(command, Refused(UNHEARD.reason, why), now, fx)
        self.move_on(now)
