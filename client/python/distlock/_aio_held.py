# SPDX-License-Identifier: Apache-2.0
"""Locks that are held in an event loop, and how they are asked for."""
import asyncio
import collections
import functools
import weakref
from typing import Any, Callable, Deque, Generic, List, Mapping, Optional, Sequence, Tuple, TypeVar

from distlock import _convert
from distlock._held import LEAVE_S, Claim, Holding, closed_or
from distlock._options import Base
from distlock._words import NO_ARGUMENT, NONE, advises, arguments
from distlock.errors import Refused
from distlock.types import Outcome, Queued
from distlock.v1 import lock_pb2

H = TypeVar("H")


class Bridge:
    """Brings answers from the client's threads to one event loop, all that gather in one wake-up."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._gathered: Deque[Tuple[Callable[..., object], Tuple[Any, ...]]] = collections.deque()
        self._woken = False

    def post(self, callback: Callable[..., object], *values: Any) -> None:
        """Takes no lock: also a signal's handler may come here, on a thread that is inside."""
        self._gathered.append((callback, values))
        if self._woken:
            return  # _run comes, and looks at what has gathered after it has said otherwise
        try:
            self._woken = True
            self._loop.call_soon_threadsafe(self._run)
        except RuntimeError:  # the loop is closed: nobody waits any more
            self._gathered.clear()
        except BaseException:
            self._woken = False
            raise

    def _run(self) -> None:
        self._woken = False
        while self._gathered:
            callback, values = self._gathered.popleft()
            callback(*values)


_bridges: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Bridge]" = weakref.WeakKeyDictionary()


def bridge_here() -> Bridge:
    loop = asyncio.get_running_loop()
    bridge = _bridges.get(loop)
    if bridge is None:
        bridge = _bridges[loop] = Bridge(loop)
    return bridge


def settle(future: "asyncio.Future[Any]", value: Any) -> None:
    if not future.done():
        future.set_result(value)


class Held(Holding):
    """A lock that is held. For the event loop that took it."""

    _lost: Optional[asyncio.Event] = None

    @property
    def lost(self) -> asyncio.Event:
        """Set when the lock is lost; never by a release. `is_held` looks at the clock, too."""
        if self._lost is None:
            self._lost = asyncio.Event()
            self._on_end(functools.partial(bridge_here().post, self._lost.set))
        return self._lost

    def on_loss(self, callback: Callable[["Held"], object]) -> None:
        """Calls `callback(self)` in this event loop when the lock is lost; soon when it is already."""
        post, handle = bridge_here().post, weakref.ref(self)

        def tell() -> None:
            held = handle()
            if held is not None:
                post(callback, held)

        self._on_end(tell)

    async def release(self) -> Outcome:
        """Gives the lock back, and waits for the broker's answer. ALREADY_GONE: it had ended before."""
        return await self._send_release()

    def _send_release(self) -> "asyncio.Future[Outcome]":
        bridge, future = bridge_here(), asyncio.get_running_loop().create_future()
        if self.cause == "FORKED":
            future.set_result(Outcome.ALREADY_GONE)
        else:
            self._give_back(functools.partial(bridge.post, settle, future))
        return future

    async def downgrade(self) -> None:
        """Makes an exclusive lock shared, without a gap. There is no way back. Raises Refused."""
        self.check()
        bridge, future = bridge_here(), asyncio.get_running_loop().create_future()
        self._core.post(self._core.table.downgrade, self._lease, functools.partial(bridge.post, settle, future))
        refused = await future
        if refused is not None:
            raise closed_or(refused)

    async def proclaim(self, value: str) -> None:
        """Changes the value that observers are told of a leader, in office. The token stays. Raises Refused."""
        self.check()
        bridge, future = bridge_here(), asyncio.get_running_loop().create_future()
        with arguments(metadata="value"):
            self._core.post(self._core.table.proclaim, self._lease, _convert.metadata(_convert.election(value)),
                            functools.partial(bridge.post, settle, future))
            refused = await future
            if refused is not None:
                raise closed_or(refused)


class HeldAll(Sequence[Held]):
    """Several locks that were taken together, in the order of the request."""

    def __init__(self, parts: List[Held]) -> None:
        self.parts = parts

    @property
    def tokens(self) -> List[int]:
        return [part.token for part in self.parts]

    @property
    def is_held(self) -> bool:
        """Whether all are held at this moment."""
        return all(part.is_held for part in self.parts)

    def check(self) -> None:
        """Raises LockLost unless all are held at this moment."""
        for part in self.parts:
            part.check()

    def on_loss(self, callback: Callable[[Held], object]) -> None:
        """Calls `callback(lock)` in this event loop for each lock that is lost."""
        for part in self.parts:
            part.on_loss(callback)

    async def release(self) -> List[Outcome]:
        """Gives all back, and waits for the answers."""
        return list(await asyncio.gather(*(part.release() for part in self.parts)))

    def release_soon(self) -> None:
        """Sends the releases and does not wait."""
        for part in self.parts:
            part.release_soon()

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, index: Any) -> Any:
        return self.parts[index]


class Body:
    """One `async with` body: cancels its task when a lock of it is lost."""

    def __init__(self, held: List[Held]) -> None:
        self.held = held
        self._task = asyncio.current_task()
        self._cancelled = self._over = False
        post, body = bridge_here().post, weakref.WeakMethod(self._lose)  # the table keeps no handle

        def lose() -> None:
            tell = body()
            if tell is not None:
                post(tell)

        for one in held:
            one._on_end(lose)

    def _lose(self) -> None:
        if not self._over and not self._cancelled and self._task is not None:
            self._cancelled = self._task.cancel()

    async def leave(self, error: Optional[BaseException]) -> None:
        self._over = True
        lost = next((one for one in self.held if one._was_lost), None)
        blocking = [one._send_release() for one in self.held if one._has_min_hold]
        for one in self.held:
            if not one._has_min_hold:
                one.release_soon()
        if blocking and lost is None:
            await asyncio.wait(blocking, timeout=LEAVE_S)  # see distlock.client.Held._leave
        if self._cancelled:
            error = await self._uncancel(error)
        if lost is not None and (error is None or (self._cancelled and isinstance(error, asyncio.CancelledError))):
            raise lost._loss() from None

    async def _uncancel(self, error: Optional[BaseException]) -> Optional[BaseException]:
        """Takes our cancellation back. Returns the error that is left when somebody else has cancelled, too."""
        uncancel = getattr(self._task, "uncancel", None)  # from Python 3.11 on
        if error is None:  # the body ended before it could arrive: have it arrive here
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                pass
        if uncancel is not None and uncancel() > 0 and isinstance(error, (asyncio.CancelledError, type(None))):
            raise asyncio.CancelledError
        return error


class Acquire(Generic[H]):
    """A request that is not sent yet: use it in `async with`, or await acquire(). It may be used again and again."""

    def __init__(self, client: Base, specs: List[lock_pb2.LockSpec], wait: Optional[float],
                 wrap: Callable[[List[Held]], H], on_loss: Optional[Callable[[Held], object]],
                 on_queued: Optional[Callable[[Queued], object]], words: Mapping[str, str] = NONE) -> None:
        self._client, self._specs, self._wrap, self._words = client, specs, wrap, words
        self._wait = _convert.wait_of(wait)
        self._on_loss, self._on_queued = on_loss, on_queued
        self._bodies: List[Tuple[Optional["asyncio.Task[Any]"], Body]] = []

    @advises(NO_ARGUMENT)
    async def acquire(self) -> H:
        """Waits for the lock as `wait` says. Raises Busy, Unavailable, InvalidRequest, another Refused or ClientClosed.
        Cancelling the task withdraws the request."""
        return self._wrap(await self._acquire())

    async def _acquire(self) -> List[Held]:
        bridge, future, outcome = bridge_here(), asyncio.get_running_loop().create_future(), "CANCELLED"
        tell = self._on_queued
        on_queued = None if tell is None else (lambda queued: bridge.post(tell, _convert.queued(queued)))
        claim = Claim(self._client, self._specs, self._wait, functools.partial(bridge.post, settle, future), on_queued)
        try:
            claim.send()
            refused: Optional[Refused] = await future
            held: List[Held] = claim.hold(Held, refused)
            outcome = "GRANTED" if refused is None else refused.reason
        finally:
            claim.answered(outcome)
        if refused is not None:
            raise closed_or(refused, self._words, len(self._specs) == 1)
        for one in held:
            one._observe(claim)
            if self._on_loss is not None:
                one.on_loss(self._on_loss)
        return held

    async def __aenter__(self) -> H:
        held = await self._acquire()
        self._bodies.append((asyncio.current_task(), Body(held)))
        return self._wrap(held)

    async def __aexit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        """Gives the lock back without waiting for the answer. Raises LockLost when it was lost, unless the body raised
        something itself."""
        task = asyncio.current_task()
        mine = [one for one in self._bodies if one[0] is task]  # else a generator or stack is closed by another task
        entered = (mine or [one for one in self._bodies if one[0] is None or one[0].done()] or self._bodies)[-1]
        self._bodies.remove(entered)
        await entered[1].leave(error)
