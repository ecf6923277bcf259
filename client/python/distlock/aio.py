# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio. It reads like the one for threads: `async with dl.lock("report", wait=10) as held`.

    dl = distlock.aio.connect()
    async with dl.lock("report", wait=10) as held:
        await save(rows, token=held.token)

When the lock is lost, the task that entered the body is cancelled, and leaving the body raises LockLost.
A client may be used by several event loops. Its session runs on threads of its own.
"""
import asyncio
import functools
import os
import threading
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Optional,
    ParamSpec,
    Tuple,
    TypeVar,
    Union,
    cast,
    overload,
)

from distlock import _convert, _queries
from distlock import _operations as operations
from distlock._access import ChannelOptions, access
from distlock._aio_held import Acquire, Held, HeldAll, bridge_here, settle
from distlock._core import Core
from distlock._decorated import decorated_for_a_loop
from distlock._options import Base
from distlock._words import BY_NAME, advises, arguments
from distlock.errors import Refused
from distlock.hooks import Observer
from distlock.protocols import LocksInLoop as Locks
from distlock.types import Leader, Lock, LockInfo, Mode, Options, Outcome, Queued, Terms, Tls
from distlock.v1 import look_pb2 as look

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Acquire", "Client", "Detached", "Held", "HeldAll", "Locks", "connect"]

B = TypeVar("B")
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Key = Union[str, Callable[..., str]]


class Detached(operations.DetachedState):
    """A lease without a stream: this program renews it, at any broker of the store, before `valid_for` is over."""

    _client: Base

    async def renew(self) -> float:
        """Extends the lease to its full ttl; seconds until the new deadline. Raises LockLost, Unavailable."""
        return await run(self._client._core, self._renew())

    async def release(self) -> Outcome:
        """Gives the lock back. Raises Unavailable: then the ttl ends it."""
        return await run(self._client._core, self._release())


async def run(core: Core, operation: "operations.Operation[T]") -> T:
    """Drives an operation in this event loop."""
    try:
        call = next(operation)
        while True:
            try:
                response = await _call(core, call)
            except Refused as refused:
                call = operation.throw(refused)
            else:
                call = operation.send(response)
    except StopIteration as done:
        value: T = done.value
        return value


async def _call(core: Core, call: operations.Call) -> Any:
    for left in range(_queries.attempts(core) - 1, -1, -1):
        bridge, over = bridge_here(), asyncio.get_running_loop().create_future()
        begun = core.calls.begin(call.name, call.request, call.timeout, functools.partial(bridge.post, settle, over))
        try:
            await over
        except BaseException:
            begun.cancel()
            raise
        refused = begun.refused()
        if refused is None:
            return begun.response
        if refused.reason not in ("UNREACHABLE", "DRAINING") or left == 0:
            raise refused
        begun.failed_there()
    raise AssertionError("a call is tried at least once")


async def _pump(make: Callable[[], Iterator[T]], close: Callable[[], None]) -> AsyncIterator[T]:
    """A blocking iterator, which is read on a thread of its own."""
    items: "asyncio.Queue[Tuple[bool, Any]]" = asyncio.Queue()
    post = bridge_here().post

    def read() -> None:
        try:
            for item in make():
                post(items.put_nowait, (True, item))
            post(items.put_nowait, (False, None))
        except BaseException as error:
            post(items.put_nowait, (False, error))

    threading.Thread(target=read, name="distlock-watch", daemon=True).start()
    try:
        while True:
            more, item = await items.get()
            if not more:
                if item is not None:
                    raise item
                return
            yield item
    finally:
        close()


class Client(Base):
    """As distlock.Client, for asyncio."""

    @advises(BY_NAME)
    def lock(self, key: str, *, wait: Optional[float] = None, on_loss: Optional[Callable[[Held], object]] = None,
             on_queued: Optional[Callable[[Queued], object]] = None, **options: "Unpack[Terms]") -> Acquire[Held]:
        """An exclusive lock. wait: None until granted, 0 one try, or seconds."""
        return self._one(Lock(key), wait, on_loss, on_queued, options)

    @advises(BY_NAME)
    def shared(self, key: str, *, wait: Optional[float] = None, on_loss: Optional[Callable[[Held], object]] = None,
               on_queued: Optional[Callable[[Queued], object]] = None, **options: "Unpack[Terms]") -> Acquire[Held]:
        """The lock for reading: beside other readers, and never beside lock(key)."""
        return self._one(Lock(key, Mode.SHARED), wait, on_loss, on_queued, options)

    @advises(BY_NAME)
    def permits(self, key: str, *, limit: int, n: int = 1, wait: Optional[float] = None,
                on_loss: Optional[Callable[[Held], object]] = None,
                on_queued: Optional[Callable[[Queued], object]] = None, **options: "Unpack[Terms]") -> Acquire[Held]:
        """n permits of a semaphore that has `limit`."""
        return self._one(Lock(key, Mode.PERMIT, n, limit), wait, on_loss, on_queued, options, permits="n")

    @advises(BY_NAME)
    def all(self, locks: Iterable[Union[str, Lock]], *, wait: Optional[float] = None,
            on_loss: Optional[Callable[[Held], object]] = None,
            on_queued: Optional[Callable[[Queued], object]] = None, **options: "Unpack[Terms]") -> Acquire[HeldAll]:
        """Up to 64 different locks, all or nothing."""
        return Acquire(self, self._specs(locks, options), wait, HeldAll, on_loss, on_queued)

    def campaign(self, name: str, value: str = "", *, wait: Optional[float] = None,
                 on_loss: Optional[Callable[[Held], object]] = None, **options: "Unpack[Terms]") -> Acquire[Held]:
        """Leadership of the election `name`. value: what observers are told."""
        words = self._of_campaign(options)
        with arguments(**words):
            specs = self._candidate(name, value, options)
        return Acquire(self, specs, wait, lambda held: held[0], on_loss, None, words)

    @overload
    def locked(self, key: Key, *, wait: Optional[float] = None, busy: None = None,
               **options: "Unpack[Terms]") -> Callable[[F], F]: ...

    @overload
    def locked(self, key: Key, *, wait: Optional[float] = None, busy: B, **options: "Unpack[Terms]"
               ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, Union[R, B]]]]: ...

    def locked(self, key: Key, *, wait: Optional[float] = None, busy: Any = None, **options: "Unpack[Terms]") -> Any:
        """Decorates a coroutine function, or a plain one, which becomes one; as Client.locked of distlock."""
        return functools.partial(decorated_for_a_loop, self.lock, key, wait, busy, options)

    async def inspect(self, key: str, *, namespace: str = "", max_waiters: Optional[int] = None) -> LockInfo:
        """Who holds a lock and who waits for it."""
        return await run(self._core, operations.inspect(namespace, key, max_waiters))

    async def list(self, prefix: str = "", *, namespace: str = "") -> AsyncIterator[LockInfo]:
        """The held locks of a namespace, in no particular order; namespace "-": of all namespaces."""
        token = ""
        while True:
            locks, token = await run(self._core, operations.page(namespace, prefix, token))
            for lock in locks:
                yield lock
            if not token:
                return

    def watch(self, key: str, *, namespace: str = "") -> AsyncIterator[LockInfo]:
        """The lock as it is, then again after each change of its holders or waiters. Never ends by itself."""
        watch = self._watch(namespace, key)
        return _pump(watch.states, watch.close)

    def watch_locks(self, prefix: str = "", *, namespace: str = "",
                    on_listed: Optional[Callable[[], object]] = None) -> AsyncIterator[LockInfo]:
        """All locks whose keys begin with `prefix`, as distlock.Client.watch_locks. on_listed is called in this event
        loop, behind the locks that it is about."""
        request = look.WatchLocksRequest(namespace=namespace, key_prefix=prefix)
        tell = None if on_listed is None else functools.partial(bridge_here().post, on_listed)
        watch = _queries.WatchPrefix(self, request, tell)
        return _pump(watch.states, watch.close)

    def _watch(self, namespace: str, key: str) -> _queries.Watch:
        return _queries.Watch(self, look.WatchLockRequest(namespace=namespace, key=key))

    async def leader(self, election: str, *, namespace: str = "") -> Optional[Leader]:
        """Who leads an election; None between two terms."""
        with arguments(key="election"):
            return _queries.leader_of(await self.inspect(election, namespace=namespace, max_waiters=0))

    def observe(self, election: str, *, namespace: str = "") -> AsyncIterator[Optional[Leader]]:
        """Who leads, at once and after each change. Never ends by itself."""
        watch = self._watch(namespace, election)
        return _pump(lambda: _queries.changes(watch.states()), watch.close)

    async def check_token(self, key: str, token: int, *, namespace: str = "") -> bool:
        """Whether no newer token was given."""
        return await run(self._core, operations.check_token(namespace, key, token))

    async def acquire_detached(self, key: str, *, mode: Mode = Mode.EXCLUSIVE, permits: int = 0, limit: int = 0,
                               wait: Optional[float] = None, **options: "Unpack[Terms]") -> Detached:
        """A lease that outlives this process's connection: nobody renews it but the caller."""
        specs = self._specs([Lock(key, mode, permits, limit)], options)
        found = await run(self._core, operations.acquire_detached(specs, _convert.wait_of(wait), self._maker))
        return cast(Detached, found[0])

    def detached(self, lease_id: str, key: str = "") -> Detached:
        """A detached lease that another process has acquired. Await renew() before use. key: for messages only."""
        return self._maker(key, lease_id)

    def _maker(self, *values: Any) -> Detached:
        made = Detached(*values)
        made._client = self
        return made

    async def drained(self, timeout: Optional[float] = None) -> bool:
        """Waits until this client holds nothing, waits for nothing, and brokers have confirmed what it gave back.
        False: not within `timeout` seconds."""
        bridge, future = bridge_here(), asyncio.get_running_loop().create_future()
        if self._when_drained(functools.partial(bridge.post, settle, future, True)):
            await asyncio.wait([future], timeout=timeout)
            return future.done()
        return True

    async def close(self) -> None:
        """Gives all locks back and waits at most a second for the broker's answer."""
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _one(self, lock: Lock, wait: Optional[float], on_loss: Optional[Callable[[Held], object]],
             on_queued: Optional[Callable[[Queued], object]], options: Any, **words: str) -> Acquire[Held]:
        with arguments(**words):
            specs = self._specs([lock], options)
        return Acquire(self, specs, wait, lambda held: held[0], on_loss, on_queued, words)


if TYPE_CHECKING:
    def _is_one(client: Client) -> Locks:
        return client


def connect(address: Optional[str] = None, *, label: Optional[str] = None, unreachable_after: Optional[float] = None,
            options: Optional[Options] = None, on_draining: Optional[Callable[[float], object]] = None,
            observer: Optional[Observer] = None, ends_with_process: bool = True, tls: Optional[Tls] = None,
            token: Optional[str] = None, token_file: Union[str, "os.PathLike[str]", None] = None,
            channel_options: Optional[ChannelOptions] = None) -> Client:
    """A client for asyncio, with the arguments of distlock.connect. on_draining is called on a thread of the client."""
    return Client(address, label, unreachable_after, options or Options(), on_draining, observer, ends_with_process,
                  access(tls, token, token_file, channel_options))
