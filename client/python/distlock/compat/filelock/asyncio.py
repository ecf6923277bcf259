# SPDX-License-Identifier: Apache-2.0
"""filelock's locks for asyncio, over a distlock broker. What differs is said in distlock.compat.filelock."""
import asyncio
from typing import Any, Callable, Optional, TypeVar

from distlock.aio import Client, Held
from distlock.compat._files import Path, no_broker_is, shared_aio_client
from distlock.compat.filelock._lock import Base, Check, ConnectionError, Timeout, told_if_lost, until
from distlock.errors import Busy, LockLost

__all__ = ["AsyncAcquireReturnProxy", "AsyncFileLock", "AsyncSoftFileLock", "AsyncUnixFileLock",
           "AsyncWindowsFileLock", "BaseAsyncFileLock", "ConnectionError", "Timeout"]

L = TypeVar("L", bound="BaseAsyncFileLock")


class AsyncAcquireReturnProxy:
    """The result of acquire(): leaving it releases the lock; entering it takes nothing."""

    def __init__(self, lock: "BaseAsyncFileLock") -> None:
        self.lock = lock

    async def __aenter__(self) -> "BaseAsyncFileLock":
        return self.lock

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        await self.lock.__aexit__(kind, error, trace)


class BaseAsyncFileLock(Base[Client, Held, asyncio.Lock]):
    """See filelock.AsyncFileLock. loop, run_in_executor and executor are ignored: nothing here blocks."""

    def __init__(self, lock_file: Path, timeout: float = -1, mode: int = -1, thread_local: bool = False, *,
                 blocking: bool = True, is_singleton: bool = False, poll_interval: float = 0.05,
                 lifetime: Optional[float] = None, context_error_policy: str = "chain",
                 close_error_policy: str = "default", fallback_to_soft: bool = True, preserve_lock_file: bool = False,
                 on_acquired: Optional[Callable[[int], None]] = None, loop: Any = None, run_in_executor: bool = True,
                 executor: Any = None, dl: Optional[Client] = None, key: Optional[str] = None) -> None:
        if thread_local and run_in_executor:
            raise ValueError("run_in_executor is not supported when thread_local is True")
        super().__init__(lock_file, timeout, mode, thread_local, blocking, is_singleton, poll_interval, lifetime,
                         on_acquired, shared_aio_client() if dl is None else dl, key, asyncio.Lock)

    async def acquire(self, timeout: Optional[float] = None, poll_interval: Optional[float] = None, *,
                      blocking: Optional[bool] = None, cancel_check: Check = None) -> AsyncAcquireReturnProxy:
        """As FileLock.acquire."""
        wait, place = self._wait(timeout, blocking), self._place
        try:
            if wait == 0 and place.gate.locked():
                raise asyncio.TimeoutError
            await asyncio.wait_for(place.gate.acquire(), wait or None)
        except asyncio.TimeoutError:
            raise Timeout(self.lock_file) from None
        try:
            if place.held is None:
                place.held = await self._take(wait, cancel_check)
            place.held.check()
            place.count += 1
        finally:
            place.gate.release()
        return AsyncAcquireReturnProxy(self)

    async def _take(self, wait: Optional[float], check: Check) -> Held:
        end = until(wait)
        while True:
            request = self._client.lock(self.key, wait=self._part(end, check), max_hold=self.lifetime or 0)
            try:
                with no_broker_is(ConnectionError):
                    return await request.acquire()
            except Busy as busy:
                if self._is_over(end, check):
                    raise Timeout(self.lock_file) from busy

    async def release(self, force: bool = False) -> None:
        """As FileLock.release. One that is cancelled is carried out all the same."""
        if self._place.held is None:
            return
        held = self._count_down(force)
        if held is not None:
            with told_if_lost(held):
                await held.release()

    async def __aenter__(self: L) -> L:
        await self.acquire()
        return self

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            await self.release()
        except LockLost:
            if error is None:
                raise

    def __enter__(self) -> None:
        raise NotImplementedError("Use `async with`: acquire/release are coroutines")

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        raise NotImplementedError("Use `async with`: acquire/release are coroutines")


class AsyncFileLock(BaseAsyncFileLock):
    """The one that programs use."""


AsyncSoftFileLock = AsyncUnixFileLock = AsyncWindowsFileLock = AsyncFileLock
