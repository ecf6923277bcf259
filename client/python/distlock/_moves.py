# SPDX-License-Identifier: Apache-2.0
"""Leases that move to another session: "Moving a lease" in proto/distlock/v1/session.md."""
import functools
import secrets
from typing import Any, Dict, List

from distlock._clock import NEVER, SECOND
from distlock._lease import Effects, Lease, Link, Phase, Return
from distlock._table import PERMANENT, Answer, TableBase, Told
from distlock.errors import Refused
from distlock.v1 import lock_pb2
from distlock.v1 import lock_service_pb2 as wire

RETRY_PAUSE, LONGEST_RETRY_PAUSE = SECOND // 10, SECOND // 2  # of adoptions


def pause_of(refusal: Refused) -> int:
    return min(max(round((refusal.retry_after or 0) * SECOND), RETRY_PAUSE), LONGEST_RETRY_PAUSE)


class MovingTable(TableBase):
    """Adds the adoption of leases, and of leftovers, by the present session."""

    def on_draining(self, link: Link, _: int, draining: wire.BrokerDraining, now: int, fx: Effects) -> None:
        time_left = draining.time_left.ToNanoseconds()
        link.drained_at = now + time_left
        if self.brokers == 1 or not link.adopts:
            fx.append((self.tell_draining, (time_left,)))
        self.drains(link, now)

    def drains(self, link: Link, now: int) -> None:
        """This link's broker takes nothing new any more."""
        link.draining = True
        self.move_on(now)

    def move_on(self, now: int) -> None:
        """Leaves the present broker, if it drains: the other link becomes the present one. While that still has a
        stream of its own, of a broker that drains as well, this waits for its end."""
        old, other = self.link, self.links[1 - self.present]
        if self.brokers == 1 or self.closed or not old.streaming or not old.draining or other.streaming:
            return
        self.present = 1 - self.present
        self.moving = True
        for request in [one for one in self.waiting() if one.link is old]:
            if request.request_id:  # the next broker takes over its place
                for lease in request.leases:
                    lease.former, lease.crossed = old, lease.phase == Phase.GRANTED
            else:
                self.withdraw(request)
            self.strand(request, now)

    def send_moves(self, now: int, fx: Effects) -> None:
        """Asks the present session to adopt all that it does not hold, and to free what nobody could free."""
        self.moves_at, self.moving = NEVER, False
        link = self.link
        ready = link.opened and not link.leaving and not link.draining
        groups: Dict[Any, List[Lease]] = {}
        for lease in list(self.live.values()):
            if lease.phase != Phase.HELD or (lease.link is link and lease.change is None):
                continue
            self.moving = self.moving or lease.link is not link
            if not ready or lease.stays or self.adopter(lease) is not None or (
                    lease.link is not None and (lease.link.leaving or not lease.link.adopts)):
                continue
            if self._elsewhere(lease, link):
                self.tell_drained(lease, now, fx)
            elif link.adopts:
                groups.setdefault(lease.grant, []).append(lease)
            else:
                self.stay(lease, now, fx)
        for holds in groups.values():
            self._move(holds, link)
        if ready:
            self._free_leftovers(link)
        self.send_held_back(now, fx)

    @staticmethod
    def _elsewhere(lease: Lease, link: Link) -> bool:
        """The broker of this link has another store, where nobody has heard of the lease."""
        return bool(lease.store and link.store and lease.store != link.store)

    @staticmethod
    def _adopt(lease: Lease, key: str, holds: int) -> wire.AdoptLease:
        spec = lease.change.spec if lease.change is not None else lease.spec
        adopt = wire.AdoptLease(lease_id=lease.lease_id, lock=spec, request_id=key, hold_count=holds)
        adopt.lock.ClearField("max_wait")
        if lease.downgraded:
            adopt.lock.mode = lock_pb2.LOCK_MODE_SHARED
        return adopt

    def _move(self, holds: List[Lease], link: Link) -> None:
        """All holds of one reentrant lease, or another lease. The key stays the same in every try: a try whose answer
        was lost may have succeeded."""
        if any(hold.downgrading for hold in holds):
            return  # the adoption must name the mode, which is known when the downgrade is answered
        first = self.take_ids(len(holds))
        key = next((hold.move_key for hold in holds if hold.move_key), "") or secrets.token_hex(16)
        for number, hold in enumerate(holds, first):
            hold.to_id, hold.move_key = number, key
            self.asked[number] = (link, functools.partial(self._on_adoption, link, hold))
            if hold.change is not None:
                hold.change.sent = hold.change.spec
        link.add(wire.SessionCommand(id=first, adopt=self._adopt(holds[0], key, len(holds))))

    def _free_leftovers(self, link: Link) -> None:
        """Adopts and releases: an adoption that was under way may have changed the lease_id. Nobody believes in these:
        one that is refused matters only when it may succeed later, and its release then finds nothing."""
        left, self.leftovers = self.leftovers, []
        for back in left:
            if self._elsewhere(back.lease, link):
                continue  # its ttl ends it
            if link.adopts:
                adopted = self.ask(link, functools.partial(self._not_left, back),
                                   adopt=self._adopt(back.lease, back.key, 1))
                self.send_release(link, adopted, back)
            else:
                self.send_release(link, 0, back, back.lease.lease_id)

    def _not_left(self, back: Return, answer: Answer, now: int, fx: Effects) -> None:
        if isinstance(answer, Refused) and answer.reason not in PERMANENT | {"NOT_HOLDER", "UNREACHABLE"}:
            self.leave_over(Return(back.lease), now + pause_of(answer))

    def _on_adoption(self, link: Link, lease: Lease, answer: Answer, now: int, fx: Effects) -> None:
        if isinstance(answer, Refused):
            self._on_not_adopted(link, lease, answer, now, fx)
        # When the former promise is over, notice() has released it here as well.
        elif isinstance(answer, lock_pb2.Grant) and self.notice(lease, now, fx):
            self._on_adopted(link, lease, answer, now, fx)

    def _on_adopted(self, link: Link, lease: Lease, grant: lock_pb2.Grant, now: int, fx: Effects) -> None:
        """From now on only this session's promises count, also when they are shorter."""
        del self.asked[lease.to_id]
        self.live[lease.to_id] = self.live.pop(lease.id)
        lease.id = lease.to_id
        lease.link, lease.move_key, lease.risk = link, "", None
        lease.store = link.store or lease.store
        lease.lease_id, lease.holder_id = grant.lease_id, grant.holder_id
        if grant.fencing_token != lease.token:
            self.end(lease, "TAKEN", "it was adopted under another fencing token", fx)
            return
        lease.deadline = link.session.deadline_of(grant.echo_seq, grant.valid_for.ToNanoseconds())
        if lease.change is not None and lease.change.sent is not None:
            lease.spec = lease.change.sent
            if lease.change.sent is lease.change.spec:
                self.tell_change(lease, None, fx)
            else:  # asked for again after that adoption was sent
                self.move_at(now)
        if not self.notice(lease, now, fx):
            return
        self.ends_at = min(self.ends_at, lease.deadline)
        link.beat_before_half(lease.deadline, now, granted=True)
        self.send_downgrades(lease)
        if lease.spec.reentrant:
            self.send_held_back(now, fx)
        if link is not self.link:  # that broker drains already
            self.move_at(now)

    def _on_not_adopted(self, link: Link, lease: Lease, refusal: Refused, now: int, fx: Effects) -> None:
        key = lease.move_key
        for hold in self.holds_of(lease):
            if hold.move_key != key or self.adopter(hold) is None:
                continue  # else the refusal is that of all holds
            del self.asked[hold.to_id]
            if refusal.reason == "NOT_HOLDER":
                self.end(hold, "TAKEN", f"it could not be taken over: {refusal.message}", fx, gone=True)
            elif refusal.reason == "NOT_SUPPORTED" and hold.mode_unsure:
                hold.mode_unsure = False
                hold.downgraded = not hold.downgraded
                self.move_at(now)
            elif refusal.reason in PERMANENT and hold.change is not None:
                hold.move_key = ""
                self.tell_change(hold, refusal, fx)
                self.move_at(now)  # without the change it may do
            elif refusal.reason in PERMANENT:
                self.stay(hold, now, fx)
            else:
                self.move_at(now + pause_of(refusal))
        if refusal.reason == "DRAINING":
            self.drains(link, now)

    def stay(self, lease: Lease, now: int, fx: Effects) -> None:
        """No broker can adopt it: it stays where it is, and is lost when that broker goes."""
        lease.stays, lease.move_key = True, ""
        self.send_downgrades(lease)
        self.tell_drained(lease, now, fx)

    def tell_drained(self, lease: Lease, now: int, fx: Effects) -> None:
        """The program hears of the drain after all, once: something does not move."""
        if lease.link is not None and lease.link.drained_at != NEVER:
            fx.append((self.tell_draining, (max(lease.link.drained_at - now, 0),)))
            lease.link.drained_at = NEVER

    def survives(self, lease: Lease, now: int) -> bool:
        """Whether a lease may be believed in after the end of its stream, until its last promise ends. The broker keeps
        the lock for as long, unless it was told to free it at once."""
        if self.closed or lease.stays or lease.link is None or not lease.link.adopts or now >= lease.deadline:
            return False
        kept = lease.spec.on_disconnect != lock_pb2.ON_DISCONNECT_RELEASE
        return kept and (lease.spec.resume or bool(lease.move_key) or lease.link is not self.link)

    def orphan(self, lease: Lease, why: str) -> None:
        lease.link, lease.risk = None, why
        self.moving = True
        self.move_at(0)

    def send_downgrades(self, lease: Lease) -> None:
        """Sends what waited for the lease's arrival."""
        if lease.link is None or (lease.move_key and not lease.stays):
            return
        waiting, lease.downgrades = lease.downgrades, []
        for tell in waiting:
            holds = self.holds_of(lease)
            for hold in holds:
                hold.downgrading += 1
            self.ask(lease.link, functools.partial(self._downgraded, holds, tell),
                     downgrade=wire.DowngradeLease(acquire_id=lease.id))

    def _downgraded(self, holds: List[Lease], tell: Told, answer: Answer, now: int, fx: Effects) -> None:
        for hold in holds:
            hold.downgrading -= 1
        for hold in self.holds_of(holds[0]):
            hold.downgraded = hold.downgraded or answer is None
            hold.mode_unsure = hold.mode_unsure or answer is not None
        fx.append((tell, (answer,)))
        if self.moving:
            self.send_moves(now, fx)
