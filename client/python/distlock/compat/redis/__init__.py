# SPDX-License-Identifier: Apache-2.0
"""A drop-in for redis-py's Lock: the same arguments, methods and exceptions, over a distlock broker.

    from distlock.compat.redis import Lock, LockError       # instead of redis.lock and redis.exceptions
    with Lock(dl, "report", timeout=60, blocking_timeout=10):
        ...

`dl` is a distlock.Client in the place of the redis client. For redis.asyncio.lock: distlock.compat.redis.asyncio. What
differs:

- The broker renews the lock, and it is free soon after its process has died. `timeout` is the time after which this
  package gives it back, also when its Lock is dropped, unless extend() or reacquire() moves that. None: it lasts until
  it is released.
- Waiters are served in their order. `sleep` is ignored.
- A lock that is lost is lost at once: owned() looks at the clock, and release() raises LockNotOwnedError.
- Without a `timeout`, extend() and reacquire() return True: there is nothing to extend.
- No answer in time is a ConnectionError and a TimeoutError, as of redis-py, and a distlock.Unavailable.
- A token is the fencing token, as text. Locks of redis-py and of distlock do not exclude each other: stop all users of
  the one before the first of the other starts, or hold both.
"""
from typing import Any, Optional, Type

from distlock.client import Client, Held
from distlock.compat.redis._lock import (
    NOT_IN_TIME,
    NOT_LOCKED,
    Base,
    ConnectionError,
    Hold,
    LockError,
    LockNotOwnedError,
    Number,
    RedisError,
    TimeoutError,
    as_theirs,
)
from distlock.errors import Busy
from distlock.types import Outcome

__all__ = ["ConnectionError", "Lock", "LockError", "LockNotOwnedError", "RedisError", "TimeoutError"]


class Lock(Base[Client, Hold[Held]]):
    """See redis.lock.Lock. timeout, blocking_timeout: seconds."""

    _client, _called = Client, "distlock.Client"

    def acquire(self, sleep: Optional[Number] = None, blocking: Optional[bool] = None,
                blocking_timeout: Optional[Number] = None, token: Optional[str] = None) -> bool:
        """True when the lock is held; False when it was not granted in time. Raises ConnectionError and the like when
        no broker can answer. `token` must not be given: the store chooses it."""
        wait = self._wait(blocking, blocking_timeout, token)
        with as_theirs():
            try:
                self.local.hold = Hold(self.redis.lock(self.name, wait=wait, **self._options).acquire(), self.timeout)
            except Busy:
                return False
        return True

    def locked(self) -> bool:
        """Whether anybody holds the lock."""
        with as_theirs():
            return self.redis.inspect(self.name, namespace=self._namespace(), max_waiters=0).holder_count > 0

    def owned(self) -> bool:
        """Whether this Lock holds it, by the clock, at this moment."""
        return self._is_owned()

    def release(self) -> None:
        """Raises LockNotOwnedError when the lock was lost before, LockError when it was not acquired."""
        hold = self._mine(NOT_LOCKED)
        self.local.hold = None
        was_held = hold.is_held
        outcome = hold.held.release()
        hold.end()
        if not was_held or outcome is Outcome.ALREADY_GONE:
            raise self._not_released()

    def do_release(self, expected_token: Any) -> None:
        self.release()

    def extend(self, additional_time: Number, replace_ttl: bool = False) -> bool:
        """Adds so many seconds to what is left of the timeout, or, with replace_ttl, has so many left."""
        return self._move("extend", additional_time, replace_ttl)

    def reacquire(self) -> bool:
        """Has the whole timeout left again."""
        return self._move("reacquire", self.timeout or 0, True)

    def __enter__(self) -> "Lock":
        if self.acquire():
            return self
        raise LockError(NOT_IN_TIME, self.name)

    def __exit__(self, kind: Optional[Type[BaseException]], error: Any, trace: Any) -> None:
        try:
            self.release()
        except LockError as lost:
            self._leave(lost)
