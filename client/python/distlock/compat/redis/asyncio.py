# SPDX-License-Identifier: Apache-2.0
"""A drop-in for redis-py's asyncio Lock, over a distlock broker.

    from distlock.compat.redis import LockError             # instead of redis.exceptions
    from distlock.compat.redis.asyncio import Lock          # instead of redis.asyncio.lock
    async with Lock(dl, "report", timeout=60, blocking_timeout=10):
        ...

`dl` is a distlock.aio.Client in the place of the redis client. What differs is said in distlock.compat.redis. A release
that is cancelled is carried out all the same; release() may be called again, to hear how it has ended.
"""
import asyncio
from typing import Any, Awaitable, Literal, Optional, Type

from distlock.aio import Client, Held
from distlock.compat.redis import ConnectionError, LockError, LockNotOwnedError, RedisError, TimeoutError
from distlock.compat.redis._lock import NOT_IN_TIME, NOT_LOCKED, Base, Hold, Number, as_theirs
from distlock.errors import Busy
from distlock.types import Outcome

__all__ = ["ConnectionError", "Lock", "LockError", "LockNotOwnedError", "RedisError", "TimeoutError"]


class _Hold(Hold[Held]):
    _outcome: "Optional[asyncio.Future[Outcome]]" = None

    async def release(self) -> bool:
        """False: it had ended before. Called again, it tells of the first time."""
        if self._outcome is None:
            self._was_held = self.is_held
            self._outcome = self.held._send_release()
            self.end()
        return await asyncio.shield(self._outcome) is not Outcome.ALREADY_GONE and self._was_held


class Lock(Base[Client, _Hold]):
    """See redis.asyncio.lock.Lock. timeout, blocking_timeout: seconds."""

    _client, _called = Client, "distlock.aio.Client"

    async def acquire(self, blocking: Optional[bool] = None, blocking_timeout: Optional[Number] = None,
                      token: Optional[str] = None) -> bool:
        """True when the lock is held; False when it was not granted in time. Raises ConnectionError and the like when
        no broker can answer. `token` must not be given: the store chooses it."""
        wait = self._wait(blocking, blocking_timeout, token)
        with as_theirs():
            try:
                held = await self.redis.lock(self.name, wait=wait, **self._options).acquire()
            except Busy:
                return False
        self.local.hold = _Hold(held, self.timeout)
        return True

    async def locked(self) -> bool:
        """Whether anybody holds the lock."""
        with as_theirs():
            found = await self.redis.inspect(self.name, namespace=self._namespace(), max_waiters=0)
        return found.holder_count > 0

    async def owned(self) -> bool:
        """Whether this Lock holds it, by the clock, at this moment."""
        return self._is_owned()

    async def release(self) -> None:
        """Raises LockNotOwnedError when the lock was lost before, LockError when it was not acquired."""
        hold = self._mine(NOT_LOCKED)
        released = await hold.release()
        if self.local.hold is hold:  # no other task has taken the lock meanwhile
            self.local.hold = None
        if not released:
            raise self._not_released()

    async def do_release(self, expected_token: Any) -> None:
        await self.release()

    def extend(self, additional_time: Number, replace_ttl: bool = False) -> Awaitable[Literal[True]]:
        """Adds so many seconds to what is left of the timeout, or, with replace_ttl, has so many left."""
        self._mine("Cannot extend an unlocked lock")
        return self._moved("extend", additional_time, replace_ttl)

    def reacquire(self) -> Awaitable[Literal[True]]:
        """Has the whole timeout left again."""
        self._mine("Cannot reacquire an unlocked lock")
        return self._moved("reacquire", self.timeout or 0, True)

    async def _moved(self, what: str, seconds: Number, from_now: bool) -> Literal[True]:
        self._move(what, seconds, from_now)
        return True

    async def __aenter__(self) -> "Lock":
        if await self.acquire():
            return self
        raise LockError(NOT_IN_TIME, self.name)

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Any, trace: Any) -> None:
        try:
            await self.release()
        except LockError as lost:
            self._leave(lost)
