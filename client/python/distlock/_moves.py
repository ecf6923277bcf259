# SPDX-License-Identifier: Apache-2.0
"""Leases that move to another session: "Moving a lease" in proto/distlock/v1/session.md."""
import secrets
from typing import Callable, Dict, List, Optional, Tuple

from distlock._clock import NEVER, SECOND
from distlock._lease import Change, Effects, Lease, Link, Move, Phase
from distlock._table import PLACES, TableBase
from distlock.errors import Refused
from distlock.v1 import lock_pb2
from distlock.v1 import lock_service_pb2 as wire

RETRY_PAUSE = SECOND // 10
LONGEST_RETRY_PAUSE = SECOND // 2
NOT_REPEATED = frozenset(("NOT_SUPPORTED", "INVALID_ARGUMENT", "FOREIGN_KEY", "UNAUTHENTICATED", "PERMISSION_DENIED"))


class MovingTable(TableBase):
    """Adds the moves. `draining_for`: set when the broker goes down and something cannot follow; in nanoseconds."""

    draining_for: Optional[int] = None

    def on_draining(self, link: Link, time_left: int, now: int, fx: Effects) -> None:
        link.draining = True
        link.drained_at = now + time_left
        if self.brokers == 1 or not link.adopts:
            self.draining_for = time_left
        self.move_on(now)

    def move_on(self, now: int) -> None:
        """Leaves the present broker, if it drains: the other link becomes the present one. While that still has a
        stream of its own, of a broker that drains as well, this waits for its end."""
        old, other = self.link, self.links[1 - self.present]
        if self.brokers == 1 or self.closed or not old.streaming or not old.draining or other.streaming:
            return
        self.present = 1 - self.present
        self.moving = True
        for request in self.waiting():
            if request.link is not old:
                continue
            if PLACES and request.request_id:  # the next broker takes over its place
                for lease in request.leases:
                    lease.former, lease.crossed = old, lease.phase == Phase.GRANTED
            else:
                self.withdraw(request)
            self.strand(request, now)

    def send_moves(self, now: int, fx: Effects) -> None:
        """Asks the present session to adopt all that it does not hold."""
        self.moves_at, self.moving = NEVER, False
        link = self.link
        ready = link.opened and not link.leaving and not link.draining
        reentrant: Dict[Tuple[int, str, str], Move] = {}
        moves: List[Move] = []
        for lease in list(self.live.values()):
            if lease.phase != Phase.HELD or (lease.link is link and lease.change is None):
                continue
            self.moving = self.moving or lease.link is not link
            if not ready or not self._may_move(lease):
                continue
            if not link.adopts:
                self.stay(lease, now)
                continue
            name = (lease.token, lease.spec.namespace, lease.spec.key)
            move = reentrant.get(name) if lease.spec.reentrant else None
            if move is None:
                move = lease.move or Move(secrets.token_hex(16))
                moves.append(move)
                if lease.spec.reentrant:
                    reentrant[name] = move
            lease.move = move
            move.holds.append(lease)
        for move in moves:
            self._send_move(move, link)
        if ready and link.adopts:
            self._give_back_leftovers(link)
        self.send_held_back(now, fx)

    def _may_move(self, lease: Lease) -> bool:
        if lease.stays or (lease.move is not None and lease.move.through is not None):
            return False
        if lease.link is not None and (not lease.link.adopts or lease.link.leaving):
            return False
        # The adoption must name the mode, which is known when the downgrade is answered.
        return not any(sent.link is not None and sent.lease.same(lease) for sent in self.downgrades.values())

    def _adopt(self, lease: Lease, request_id: str, holds: int, command: int) -> wire.SessionCommand:
        spec = lease.change.spec if lease.change is not None else lease.spec
        adopt = wire.AdoptLease(lease_id=lease.lease_id, lock=spec, request_id=request_id, hold_count=holds)
        adopt.lock.ClearField("max_wait")
        if lease.downgraded:
            adopt.lock.mode = lock_pb2.LOCK_MODE_SHARED
        return wire.SessionCommand(id=command, adopt=adopt)

    def _send_move(self, move: Move, link: Link) -> None:
        first = move.holds[0]
        assert first is not None
        move.through = link
        if first.change is not None:
            first.change.sent = first.change.spec
        move.id = self.take_ids(len(move.holds))
        self.moves[move.id] = move
        link.commands.append(self._adopt(first, move.request_id, len(move.holds), move.id))

    def _find_move(self, link: Link, command: int) -> Optional[Move]:
        for move in self.moves.values():
            if move.through is link and 0 <= command - move.id < len(move.holds):
                return move
        return None

    def end_move(self, move: Move) -> None:
        """It is answered, or will not be. Its leases keep it while it may have to be repeated."""
        self.moves.pop(move.id, None)
        move.through = None
        move.holds = []

    def on_adopted(self, link: Link, command: int, grant: lock_pb2.Grant, now: int, fx: Effects) -> bool:
        """False: it is no answer to an adoption."""
        move = self._find_move(link, command)
        if move is None:
            return False
        index = command - move.id
        hold = move.holds[index]
        if hold is not None:
            self.notice(hold, now, fx)  # too late when the former promise is over: that releases it here as well
        hold, move.holds[index] = move.holds[index], None
        if hold is not None and hold.phase == Phase.HELD:
            self._arrive(hold, link, command, grant, now, fx)
        if all(one is None for one in move.holds):
            self.end_move(move)
        return True

    def _arrive(self, lease: Lease, link: Link, command: int, grant: lock_pb2.Grant, now: int, fx: Effects) -> None:
        """From now on only this session's promises count, also when they are shorter."""
        self.live.pop(lease.id, None)
        lease.id = command
        self.live[command] = lease
        lease.link, lease.move, lease.limited_by = link, None, -1
        lease.lease_id, lease.holder_id = grant.lease_id, grant.holder_id
        if grant.fencing_token != lease.token:
            self.lose(lease, "TAKEN", "it was adopted under another fencing token", fx)
            return
        lease.deadline = link.session.deadline_of(grant.echo_seq, grant.valid_for.ToNanoseconds())
        lease.risk = None
        if lease.change is not None and lease.change.sent is not None:
            lease.spec = lease.change.sent
            if lease.change.sent is lease.change.spec:
                self.tell_change(lease, None, fx)
            else:  # asked for again after that adoption was sent
                self.moves_at = now
                self.wake_at(now)
        if not self.notice(lease, now, fx):
            return
        self.lease_deadline = min(self.lease_deadline, lease.deadline)
        self.wake_at(self.lease_deadline)
        self.ask_for_heartbeat(link, lease.deadline, now)
        self.send_downgrades(lease)
        if lease.spec.reentrant:
            self.send_held_back(now, fx)
        if link is not self.link:  # that broker drains already
            self.moves_at = now
            self.wake_at(now)

    def on_not_adopted(self, link: Link, command: int, refusal: Refused, now: int, fx: Effects) -> bool:
        move = self._find_move(link, command)
        if move is None:
            return False
        holds = list(move.holds)  # the refusal is that of all
        self.end_move(move)
        for hold in holds:
            if hold is None or hold.phase != Phase.HELD:
                continue
            if refusal.reason == "NOT_HOLDER":
                self.lose(hold, "TAKEN", f"it could not be taken over: {refusal.message}", fx)
            elif refusal.reason == "NOT_SUPPORTED" and hold.mode_unsure:
                hold.mode_unsure = False
                hold.downgraded = not hold.downgraded
                self.moves_at = now
            elif refusal.reason in NOT_REPEATED and hold.change is not None:
                hold.move = None
                self.tell_change(hold, refusal, fx)
            elif refusal.reason in NOT_REPEATED:
                self.stay(hold, now)
            else:
                pause = round((refusal.retry_after or 0) * SECOND)
                self.moves_at = min(self.moves_at, now + min(max(pause, RETRY_PAUSE), LONGEST_RETRY_PAUSE))
        self.wake_at(self.moves_at)
        if refusal.reason == "DRAINING":
            link.draining = True
            self.move_on(now)
        return True

    def stay(self, lease: Lease, now: int) -> None:
        """No broker can adopt it: it stays where it is, and is lost when that broker goes."""
        lease.stays = True
        self.send_downgrades(lease)
        if lease.link is not None and lease.link.drained_at != NEVER:
            self.draining_for = max(lease.link.drained_at - now, 0)
            lease.link.drained_at = NEVER

    def survives(self, lease: Lease, now: int) -> bool:
        """Whether a lease may be believed in after the end of its stream, until its last promise ends. The broker keeps
        the lock for as long, unless it was told to free it at once."""
        if self.closed or lease.stays or lease.link is None or not lease.link.adopts or now >= lease.deadline:
            return False
        if lease.spec.on_disconnect == lock_pb2.ON_DISCONNECT_RELEASE:
            return False
        return lease.spec.resume or lease.move is not None or lease.link is not self.link

    def orphan(self, lease: Lease, why: str) -> None:
        lease.link, lease.risk = None, why
        self.moving = True
        self.moves_at = 0
        self.wake_at(0)

    def _give_back_leftovers(self, link: Link) -> None:
        for lease, request_id, lapsed in self.leftovers:
            command = self.take_ids()
            link.commands.append(self._adopt(lease, request_id, 1, command))
            self.send_release(link, command, lapsed)
        self.leftovers.clear()

    def send_downgrades(self, lease: Lease) -> None:
        """Sends what waited for the lease's arrival."""
        if lease.link is None or (lease.move is not None and not lease.stays):
            return
        for command, waits in self.downgrades.items():
            if waits.lease is lease and waits.link is None:
                waits.link = lease.link
                downgrade = wire.DowngradeLease(acquire_id=lease.id)
                lease.link.commands.append(wire.SessionCommand(id=command, downgrade=downgrade))

    def leave(self, link: Link) -> None:
        """Says goodbye, so that the broker ends the stream in good order. Waiting requests go to the next stream."""
        link.leaving, link.heartbeat_due = True, False
        link.say_goodbye()
        for request in self.waiting():
            if request.link is link:
                request.link = None
                for lease in request.leases:
                    lease.phase, lease.link = Phase.WAITING, None

    def leave_when_empty(self, link: Link) -> None:
        """A former broker that has nothing of this client any more."""
        if not link.streaming or link.leaving or link is self.link:
            return
        busy = (any(lease.link is link or lease.former is link for lease in self.live.values())
                or any(move.through is link for move in self.moves.values())
                or any(pending.link is link for pending in self.releases.values())
                or any(pending.link is link for pending in self.downgrades.values()))
        if not busy:
            self.leave(link)

    def grant_by_former(self, link: Link, command: int, lease: Optional[Lease]) -> None:
        """A former session has granted what has gone to another one: never believed in. It is given back when the next
        broker has the place."""
        if lease is not None and lease.former is link:
            lease.crossed = True
        elif not link.leaving:
            self.send_release(link, command, False)

    def has_arrived(self, lease: Lease) -> None:
        """The present broker has the request, and so its place: the former session matters no more."""
        for part in lease.request.leases:
            if part.former is None or (part.crossed and part is not lease):
                continue
            if part.crossed and not part.former.leaving:
                self.send_release(part.former, part.id, False)
            part.former, part.crossed = None, False

    def proclaim(self, lease: Lease, metadata: Dict[str, str], tell: Callable[[Optional[Refused]], object], now: int,
                 fx: Effects) -> None:
        """Changes what others see of a held lease: its session adopts it anew."""
        problem = None
        if lease.phase != Phase.HELD or (lease.link is not None and lease.link.leaving):
            problem = Refused("NOT_HOLDER", "the lock has ended")
        elif lease.spec.reentrant:
            problem = Refused("NOT_SUPPORTED", "the lock is reentrant: what is shown of its holds cannot change")
        elif lease.stays or (lease.link is not None and not lease.link.adopts):
            problem = Refused("NOT_SUPPORTED", "the broker is too old to change what is shown of a lock")
        if problem is not None:
            fx.append((tell, (problem,)))
            return
        spec = lock_pb2.LockSpec()
        spec.CopyFrom(lease.spec)
        spec.metadata.update(metadata)
        if lease.change is None:
            lease.change = Change(spec)
        lease.change.spec = spec
        lease.change.told.append(tell)
        self.moves_at = now
        self.wake_at(now)

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
