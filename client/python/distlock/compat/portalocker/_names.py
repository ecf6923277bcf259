# SPDX-License-Identifier: Apache-2.0
"""Locks without a file."""
import os
import random
import tempfile
import warnings
from typing import Any, Callable, Optional

from distlock.client import Client, Held
from distlock.compat.portalocker._base import CHECK_S, TIMEOUT_S, LockBase, first
from distlock.compat.portalocker._errors import AlreadyLocked, LockException, LockFlags

COLLIDES = "bounded_semaphore"


class BoundedSemaphore(LockBase[Optional[Held]]):
    """See portalocker.BoundedSemaphore. At the end of the timeout acquire() raises AlreadyLocked with
    fail_when_locked, and returns None without."""

    def __init__(self, maximum: int, name: str = COLLIDES, filename_pattern: str = "{name}.{number:02d}.lock",
                 directory: str = tempfile.gettempdir(), timeout: Optional[float] = TIMEOUT_S,
                 check_interval: Optional[float] = CHECK_S, fail_when_locked: Optional[bool] = True, *,
                 dl: Optional[Client] = None) -> None:
        super().__init__(timeout, check_interval, first(fail_when_locked, False), dl)
        self.maximum, self.name, self.filename_pattern, self.directory = maximum, name, filename_pattern, directory
        if not name or name == COLLIDES:
            warnings.warn("name the BoundedSemaphore: all that have no name are one", DeprecationWarning, stacklevel=2)

    @property
    def lock(self) -> Optional[Held]:
        """The result of acquire()."""
        return self.held

    def acquire(self, timeout: Optional[float] = None, check_interval: Optional[float] = None,
                fail_when_locked: Optional[bool] = None) -> Optional[Held]:
        """Takes one of `maximum`. Raises LockException when this object holds one already."""
        if self.held is not None:
            raise LockException("Already locked")
        key, wait = os.path.join(self.directory, self.name), self._wait(timeout, False)
        try:
            self.held = self._take(self._dl.permits(key, limit=self.maximum, wait=wait))
        except AlreadyLocked:
            if first(fail_when_locked, self.fail_when_locked):
                raise
        return self.held

    def release(self) -> None:
        """Gives it back, if it is held. Raises LockLostError when it had ended before."""
        with self._mutex:
            held, self.held = self.held, None
        if held is not None:
            self._give_back(held)


class NamedBoundedSemaphore(BoundedSemaphore):
    """See portalocker.NamedBoundedSemaphore: without a name it has one that nobody else has."""

    def __init__(self, maximum: int, name: Optional[str] = None,
                 filename_pattern: str = "{name}.{number:02d}.lock", directory: str = tempfile.gettempdir(),
                 timeout: Optional[float] = TIMEOUT_S, check_interval: Optional[float] = CHECK_S,
                 fail_when_locked: Optional[bool] = True, *, dl: Optional[Client] = None) -> None:
        name = f"{COLLIDES}.{random.getrandbits(64):016x}" if name is None else name
        super().__init__(maximum, name, filename_pattern, directory, timeout, check_interval, fail_when_locked, dl=dl)


class RedisLock(LockBase["RedisLock"]):
    """See portalocker.RedisLock. on_lost is called once, with this lock, on a thread of the client."""

    def __init__(self, channel: str, connection: Optional[Client] = None, timeout: Optional[float] = None,
                 check_interval: Optional[float] = None, fail_when_locked: Optional[bool] = False,
                 thread_sleep_time: float = 0.1, unavailable_timeout: float = 1, redis_kwargs: Any = None,
                 flags: Any = LockFlags.EXCLUSIVE, on_lost: Optional[Callable[["RedisLock"], object]] = None,
                 interrupt_on_lost: Optional[bool] = None, subscription_connection_factory: Any = None,
                 self_check_interval: Optional[float] = None, fencing: bool = False) -> None:
        if flags not in (LockFlags.EXCLUSIVE, LockFlags.SHARED):
            raise ValueError("RedisLock flags must contain exactly one of LockFlags.EXCLUSIVE or LockFlags.SHARED")
        if not isinstance(connection, (Client, type(None))):
            raise TypeError(f"connection is {connection!r}; it must be a distlock.Client in place of the redis one")
        super().__init__(timeout, check_interval, fail_when_locked, connection)
        self.channel, self.flags, self.on_lost = channel, flags, on_lost
        self.fence_token: Optional[int] = None
        self._latest: Optional[Held] = None

    def acquire(self, timeout: Optional[float] = None, check_interval: Optional[float] = None,
                fail_when_locked: Optional[bool] = None) -> "RedisLock":
        """Raises LockException when this object holds it already."""
        if self.held is not None:
            raise LockException("This lock is already active")
        take = self._dl.shared if self.flags == LockFlags.SHARED else self._dl.lock
        held = self._take(take(self.channel, wait=self._wait(timeout, fail_when_locked)))
        self.held, self._latest, self.fence_token = held, held, held.token
        if self.on_lost is not None:
            tell = self.on_lost
            held.on_loss(lambda _: tell(self))
        return self

    @property
    def lost(self) -> bool:
        """Whether it was lost, until it is acquired anew."""
        return self._latest is not None and self._latest._was_lost

    def ensure_held(self) -> None:
        """Raises LockLostError when it is lost."""
        if self._latest is not None and self._latest._was_lost:
            raise self._loss(self._latest)

    def release(self) -> None:
        """Gives it back, if it is held. Does not raise what `lost` tells: leaving `with` does."""
        with self._mutex:
            held, self.held = self.held, None
        if held is not None:
            held.release()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.release()
        if error is None:
            self.ensure_held()
