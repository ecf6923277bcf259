# SPDX-License-Identifier: Apache-2.0
"""A drop-in for filelock: the same classes, arguments, methods and exceptions, over a distlock broker.

    from distlock.compat.filelock import FileLock, Timeout    # instead of filelock
    with FileLock("/shared/report.lock", timeout=10):
        ...

What differs:

- No file is made. The lock's name is the absolute path, so all hosts see the shared folder at the same place; or pass
  `key`. The broker is the one that distlock.connect() finds; or pass `dl`, a distlock.Client (in distlock.aio for
  AsyncFileLock), whose Options may name a namespace.
- A waiter is served in its turn. `poll_interval` is ignored; `cancel_check` is asked once a second, and a wait with one
  loses its place each time.
- A lock that is lost is lost at once: is_locked looks at the clock, acquire() and the last release() raise LockLost.
  `lock.held` has the fencing token and check().
- `lifetime` ends the lock for its holder, too. No broker is a ConnectionError of this module, which is an OSError and
  no Timeout.
- `mode` and what speaks of the file's life are ignored; `on_acquired` is refused. Two locks of one path in one thread
  wait for each other; filelock raises RuntimeError.
- In a child of fork nothing is held: a lock that the parent holds is lost there. filelock raises RuntimeError.
- SoftFileLock, UnixFileLock and WindowsFileLock are FileLock. There are no read-write locks, leases or strict locks:
  a distlock.Client has its own.
"""
import contextlib
import threading
from typing import Any, Callable, Generic, Optional, TypeVar

from distlock.client import Client, Held
from distlock.compat._files import Path, no_broker_is, shared_client
from distlock.compat.filelock._lock import Base, Check, ConnectionError, Timeout, told_if_lost, until
from distlock.compat.filelock.asyncio import AsyncAcquireReturnProxy, AsyncFileLock, AsyncSoftFileLock
from distlock.errors import Busy, LockLost

__all__ = ["AcquireReturnProxy", "AsyncAcquireReturnProxy", "AsyncFileLock", "AsyncSoftFileLock", "BaseFileLock",
           "ConnectionError", "FileLock", "LockLost", "SoftFileLock", "Timeout", "UnixFileLock", "WindowsFileLock"]

L = TypeVar("L", bound="BaseFileLock")


class AcquireReturnProxy(Generic[L]):
    """The result of acquire(): leaving it releases the lock; entering it takes nothing."""

    def __init__(self, lock: L) -> None:
        self.lock = lock

    def __enter__(self) -> L:
        return self.lock

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.lock.__exit__(kind, error, trace)


class BaseFileLock(Base[Client, Held, "threading.RLock"], contextlib.ContextDecorator):
    """See filelock.FileLock. timeout: seconds; negative: until it is held."""

    def __init__(self, lock_file: Path, timeout: float = -1, mode: int = -1, thread_local: bool = True, *,
                 blocking: bool = True, is_singleton: bool = False, poll_interval: float = 0.05,
                 lifetime: Optional[float] = None, context_error_policy: str = "chain",
                 close_error_policy: str = "default", fallback_to_soft: bool = True, preserve_lock_file: bool = False,
                 on_acquired: Optional[Callable[[int], None]] = None, dl: Optional[Client] = None,
                 key: Optional[str] = None) -> None:
        super().__init__(lock_file, timeout, mode, thread_local, blocking, is_singleton, poll_interval, lifetime,
                         on_acquired, shared_client() if dl is None else dl, key, threading.RLock)

    def acquire(self: L, timeout: Optional[float] = None, poll_interval: Optional[float] = None, *,
                poll_intervall: Optional[float] = None, blocking: Optional[bool] = None,
                cancel_check: Check = None) -> AcquireReturnProxy[L]:
        """Takes the lock, or counts one more hold of it. Raises Timeout when others have it, ConnectionError when no
        broker answered, LockLost when it was held and is lost."""
        wait, place = self._wait(timeout, blocking), self._place
        if not place.gate.acquire(timeout=-1 if wait is None else wait):
            raise Timeout(self.lock_file)
        try:
            if place.held is None:
                place.held = self._take(wait, cancel_check)
            place.held.check()
            place.count += 1
        finally:
            place.gate.release()
        return AcquireReturnProxy(self)

    def _take(self, wait: Optional[float], check: Check) -> Held:
        end = until(wait)
        while True:
            request = self._client.lock(self.key, wait=self._part(end, check), max_hold=self.lifetime or 0)
            try:
                with no_broker_is(ConnectionError):
                    return request.acquire()
            except Busy as busy:
                if self._is_over(end, check):
                    raise Timeout(self.lock_file) from busy

    def release(self, force: bool = False) -> None:
        """Gives back one hold, or all with `force`, and waits for the answer to the last one. Raises LockLost when the
        lock had ended before."""
        if self._place.held is None:
            return
        with self._place.gate:
            held = self._count_down(force)
        if held is not None:
            with told_if_lost(held):
                held.release()

    def __enter__(self: L) -> L:
        self.acquire()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self.release()
        except LockLost:
            if error is None:
                raise


class FileLock(BaseFileLock):
    """The one that programs use."""


SoftFileLock = UnixFileLock = WindowsFileLock = FileLock
