# SPDX-License-Identifier: Apache-2.0
"""What both kinds of clients know of a lock that they hold."""
import time
from typing import Callable, Optional

from distlock import _fork
from distlock._clock import SECOND
from distlock._clock import now as clock
from distlock._convert import refusal
from distlock._core import Core
from distlock._lease import Lease, Phase
from distlock.errors import ClientClosed, LockLost, Refused
from distlock.hooks import Observer

__all__ = ["Holding", "closed_or", "refusal"]


def closed_or(refused: Refused) -> Exception:
    """What to raise for a refusal of the table."""
    return ClientClosed(refused.message) if refused.reason == "CLIENT_CLOSED" else refused


class Holding:
    """One held lock. Thread-safe."""

    def __init__(self, core: Core, lease: Lease, observer: Optional[Observer], cookie: object) -> None:
        self._core, self._lease = core, lease
        self._observer, self._cookie = observer, cookie
        self._since = time.monotonic()
        if observer is not None:
            lease.on_end.append(self._observe_loss)

    @property
    def key(self) -> str:
        """The lock's name."""
        return self._lease.spec.key

    @property
    def token(self) -> int:
        """The fencing token: it grows with each grant of this lock. Pass it to the resource that the lock protects, and
        let that refuse smaller ones."""
        return self._lease.token

    @property
    def holder_id(self) -> str:
        """This holder's public name. A new one after a move to another broker."""
        return self._lease.holder_id

    @property
    def lease_id(self) -> str:
        """Secret: whoever knows it can release the lock. A new one after a move to another broker."""
        return self._lease.lease_id

    @property
    def hold_count(self) -> int:
        """1; greater when the lock was taken again by re-entry."""
        return self._lease.hold_count

    @property
    def waited(self) -> float:
        """Seconds that the broker let this request wait."""
        return self._lease.waited / SECOND

    @property
    def valid_for(self) -> float:
        """Seconds until the present deadline, 0 when the lock is not held. Renewals move the deadline."""
        return max(self._lease.deadline - clock(), 0) / SECOND if self.is_held else 0.0

    @property
    def is_held(self) -> bool:
        """Whether the lock is held, by the clock, at this moment: never True after its deadline, even when no thread of
        this process ran in between. False after a release, and in a child of fork."""
        return self._core.held(self._lease)

    @property
    def at_risk(self) -> bool:
        """Held, but renewals or heartbeats fail, or its stream broke: finish before the deadline."""
        return self._core.at_risk(self._lease)

    @property
    def cause(self) -> str:
        """How the lock ended: a cause of LockLost, GIVEN_BACK after a release, "" while it is held."""
        if self._core.generation != _fork.generation:
            return "FORKED"
        return "" if self.is_held else self._lease.cause

    def check(self) -> None:
        """Raises LockLost unless the lock is held at this moment. Cheap: no call to the broker."""
        if not self.is_held:
            raise self._loss()

    def _loss(self) -> LockLost:
        if self._core.generation != _fork.generation:
            return LockLost(self.key, "FORKED", "the lock belongs to the process that took it")
        return LockLost(self.key, self._lease.cause, self._lease.message)

    @property
    def _was_lost(self) -> bool:
        """Ended, but not given back by this program."""
        return not self.is_held and self.cause != "GIVEN_BACK"

    def _on_end(self, tell: Callable[[], object]) -> None:
        """Has `tell` called when the lock is lost; at once when it is already."""
        on_end = self._lease.on_end
        on_end.append(tell)
        if self._lease.phase == Phase.HELD and self._core.generation == _fork.generation:
            return  # the table calls it, which needs no mutex here: see LockTable.end
        try:
            on_end.remove(tell)
        except ValueError:
            return  # the table has taken it at this moment
        if self._was_lost:
            tell()

    def _observe_loss(self) -> None:
        if self._observer is not None:
            self._observer.ended(self._cookie, self._lease.cause, time.monotonic() - self._since)

    def _observe_release(self) -> None:
        if self._observer is not None and self._lease.cause == "GIVEN_BACK":
            self._observer.ended(self._cookie, "GIVEN_BACK", time.monotonic() - self._since)

    def __bool__(self) -> bool:
        return self.is_held

    def __repr__(self) -> str:
        state = "held" if self.is_held else self.cause
        return f"<{type(self).__name__} {self.key!r} token={self.token} {state}>"
