# SPDX-License-Identifier: Apache-2.0
"""What both kinds of clients do with a request, and know of a lock that they hold. Nothing is held without an owner: a
Claim until the lock's handle exists, then the handle; one that is dropped gives back what it had."""
import functools
import logging
import time
from typing import TYPE_CHECKING, Any, Callable, List, Mapping, NoReturn, Optional, Sequence

from distlock import _convert, _fork
from distlock._clock import SECOND
from distlock._core import Core
from distlock._lease import GIVEN_BACK, Lease, Phase, Request
from distlock._threads import owned, spawn
from distlock._words import NONE, as_written
from distlock.errors import ClientClosed, LockLost, Refused
from distlock.hooks import Observer
from distlock.types import Mode
from distlock.v1 import lock_pb2

if TYPE_CHECKING:
    from distlock._options import Base

log = logging.getLogger("distlock")
LEAVE_S = 1.0  # how long leaving a body waits for the answer to a release that leaves a block


def closed_or(refused: Refused, words: Mapping[str, str] = NONE, alone: bool = True) -> Exception:
    """What to raise for a refusal of the table."""
    return ClientClosed(refused.message) if refused.reason == "CLIENT_CLOSED" else as_written(refused, words, alone)


def observe(observer: Optional[Observer], method: str, *values: Any) -> Any:
    """An observer that raises costs no lock."""
    if observer is None:
        return None
    try:
        return getattr(observer, method)(*values)
    except Exception:
        log.exception("the observer's method %s failed", method)
        return None


def call_back(core: Core, callback: Callable[[], object]) -> None:
    """Runs a callback of the program on the client's thread for those."""
    if core.generation == _fork.generation:
        core.callbacks(callback)
    else:  # a child of fork does not have that thread
        spawn(callback, answers=False)


class Claim:
    """One request, and what it has been granted until handles have that."""

    def __init__(self, client: "Base", specs: Sequence[lock_pb2.LockSpec], wait: Optional[int],
                 answer: Callable[[Optional[Refused]], object], on_queued: Optional[Callable[[Any], object]]) -> None:
        self.client, self.core = client, client._core
        self.request = Request([_convert.signed(spec) for spec in specs], wait, answer, on_queued)
        mode = Mode(specs[0].mode).name if len(specs) == 1 else "MULTIPLE"
        self.cookie = observe(client._observer, "acquiring", [spec.key for spec in specs], mode)
        self._began = time.monotonic()

    def send(self) -> None:
        core, request = self.core, self.request
        request.owner = owned(self, core.mail.put, functools.partial(core.post, core.table.cancel, request))
        core.post(core.table.acquire, request)

    def hold(self, make: Callable[["Base", Core, Lease], Any], refused: Optional[Refused]) -> List[Any]:
        """The handles, once the request is answered."""
        held = [] if refused is not None else [make(self.client, self.core, lease) for lease in self.request.leases]
        self.request.owner = None
        return held

    def answered(self, outcome: str) -> None:
        if self.request.owner is not None:
            self.core.post(self.core.table.cancel, self.request)
        observe(self.client._observer, "answered", self.cookie, outcome, time.monotonic() - self._began)


class Span:
    """Tells an observer of the end of one lock, once."""

    def __init__(self, claim: Claim, lease: Lease) -> None:
        self._observer, self._cookie, self._lease = claim.client._observer, claim.cookie, lease
        self._since = time.monotonic()
        self._untold = [True]

    def ended(self) -> None:
        try:
            self._untold.pop()
        except IndexError:
            return
        observe(self._observer, "ended", self._cookie, self._lease.cause, time.monotonic() - self._since)


def _dropped(core: Core, lease: Lease) -> None:
    if lease.phase == Phase.HELD and not lease.ends:
        core.release(lease)
        core.callbacks(functools.partial(log.warning, "the lock %r was given back because its handle was dropped: "
                                         "keep what acquire() returns, and release it", lease.spec.key))


class Holding:
    """One held lock. Thread-safe."""

    _span: Optional[Span] = None

    def __init__(self, client: "Base", core: Core, lease: Lease) -> None:
        self._core, self._lease = core, lease
        self._client = client  # which ends with its last lock, when it is dropped
        lease.owner = owned(self, core.mail.put, functools.partial(_dropped, core, lease))

    def _observe(self, claim: Claim) -> None:
        if claim.client._observer is not None:
            self._span = Span(claim, self._lease)
            self._on_end(self._span.ended)

    def _give_back(self, tell: Optional[Callable[[Any], object]] = None) -> None:
        """Sends the release."""
        self._core.release(self._lease, tell)
        if self._span is not None and self._lease.cause == GIVEN_BACK:
            self._span.ended()

    def release_soon(self) -> None:
        """Sends the release and does not wait. Commands keep their order, so that the next acquire of the same lock by
        this client finds it free."""
        if self.cause != "FORKED":
            self._give_back()

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
        return max(self._lease.deadline - self._core.clock(), 0) / SECOND if self.is_held else 0.0

    @property
    def is_held(self) -> bool:
        """Whether the lock is held, by the clock, at this moment: never True after its deadline, even when no thread of
        this process ran in between. False after a release, and in a child of fork."""
        return self._core.held(self._lease)

    @property
    def at_risk(self) -> bool:
        """Held, but renewals or heartbeats fail, or its stream broke: finish before the deadline."""
        return self.is_held and self._core.table.at_risk(self._lease, self._core.clock())

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
    def _has_min_hold(self) -> bool:
        return self._lease.spec.HasField("min_hold")

    @property
    def _was_lost(self) -> bool:
        """Ended, but not given back by this program."""
        return not self.is_held and self.cause != GIVEN_BACK

    def _on_end(self, tell: Callable[[], object]) -> None:
        """Has `tell` called when the lock is lost; at once when it is already."""
        on_end = self._lease.on_end
        on_end.append(tell)
        if self._lease.phase == Phase.HELD and self._core.generation == _fork.generation:
            return  # the table calls it: see TableBase.end
        try:
            on_end.remove(tell)
        except ValueError:
            return  # the table has taken it at this moment
        if self._was_lost:
            tell()

    def __bool__(self) -> bool:
        return self.is_held

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"the lock {self.key!r} belongs to this process and has one handle, which cannot be copied or "
                        "pickled: let the other side take it, or give it a detached lease")

    def __repr__(self) -> str:
        state = "held" if self.is_held else self.cause
        return f"<{type(self).__name__} {self.key!r} token={self.token} {state}>"
