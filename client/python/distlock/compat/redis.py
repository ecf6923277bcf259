# SPDX-License-Identifier: Apache-2.0
"""A drop-in for redis-py's Lock: the same arguments, methods and exceptions, over a distlock broker.

    from distlock.compat.redis import Lock, LockError       # instead of redis.lock and redis.exceptions
    with Lock(dl, "report", timeout=60, blocking_timeout=10):
        ...

`dl` is a distlock.Client in the place of the redis client. What differs:

- The broker renews the lock. `timeout` no longer is the time after which the lock is lost when nobody extends it: it
  becomes `max_hold`, the most that one acquire may last. None: it lasts until it is released or its process ends.
- Waiters are served in their order. `sleep` is ignored.
- A lock that is lost is lost at once: owned() looks at the clock, and release() raises LockNotOwnedError.
- extend() and reacquire() cannot move the end of a max_hold. They return True when there is none, or raise.
- A token is the fencing token, as text. Locks of redis-py and of distlock do not exclude each other: stop all users of
  the one before the first of the other starts, or hold both.
"""
import logging
import threading
from typing import TYPE_CHECKING, Any, Optional, Type, Union

from distlock.client import Client, Held
from distlock.errors import Busy
from distlock.types import Outcome, Terms

if TYPE_CHECKING:
    from typing_extensions import Unpack

Number = Union[int, float]
log = logging.getLogger("distlock")


try:  # so that programs which catch redis-py's exceptions catch these
    from redis import exceptions as _theirs
    _LockError: Any = _theirs.LockError
    _NotOwned: Any = _theirs.LockNotOwnedError
except ImportError:
    _LockError, _NotOwned = ValueError, object


class LockError(_LockError):  # type: ignore[misc]
    """As redis.exceptions.LockError, and one of these where redis-py is installed."""

    def __init__(self, message: Optional[str] = None, lock_name: Optional[str] = None) -> None:
        Exception.__init__(self, message)  # older versions of theirs take other arguments
        self.message, self.lock_name = message, lock_name


class LockNotOwnedError(LockError, _NotOwned):  # type: ignore[misc]
    """As redis.exceptions.LockNotOwnedError: the lock is not, or no longer, held."""


class _Place:
    """Where a Lock keeps what it holds: for all threads, when thread_local=False."""

    held: Optional[Held] = None

    @property
    def token(self) -> Optional[bytes]:
        """The fencing token as text; None when nothing is held."""
        return str(self.held.token).encode() if self.held is not None else None


class _ThreadsPlace(_Place, threading.local):
    """One for each thread."""


class Lock:
    """See redis.lock.Lock. timeout, blocking_timeout: seconds."""

    def __init__(self, redis: Client, name: Union[str, bytes], timeout: Optional[Number] = None, sleep: Number = 0.1,
                 blocking: bool = True, blocking_timeout: Optional[Number] = None, thread_local: bool = True,
                 raise_on_release_error: bool = True, **options: "Unpack[Terms]") -> None:
        if not isinstance(redis, Client):
            raise TypeError(f"the first argument is {redis!r}; it must be a distlock.Client in place of the redis one")
        self.redis = redis
        self.name = name.decode() if isinstance(name, bytes) else name
        self.timeout, self.sleep = timeout, sleep
        self.blocking, self.blocking_timeout = blocking, blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self._options = options
        if timeout:
            self._options["max_hold"] = timeout
        self.local: _Place = _ThreadsPlace() if self.thread_local else _Place()

    @property
    def token(self) -> Optional[bytes]:
        """The fencing token as text, as in local.token; None when this lock is not held."""
        return self.local.token

    def acquire(self, sleep: Optional[Number] = None, blocking: Optional[bool] = None,
                blocking_timeout: Optional[Number] = None, token: Optional[str] = None) -> bool:
        """True when the lock is held; False when it was not granted in time. Raises distlock.Unavailable and the like
        when no broker can answer. `token` must not be given: the store chooses it."""
        if token is not None:
            raise LockError("distlock chooses the tokens: leave token out", self.name)
        blocking = self.blocking if blocking is None else blocking
        wait = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        try:
            self.local.held = self.redis.lock(self.name, wait=wait if blocking else 0, **self._options).acquire()
        except Busy:
            return False
        return True

    def locked(self) -> bool:
        """Whether anybody holds the lock."""
        namespace = str(self._options.get("namespace", ""))
        return self.redis.inspect(self.name, namespace=namespace, max_waiters=0).holder_count > 0

    def owned(self) -> bool:
        """Whether this Lock holds it, by the clock, at this moment."""
        held = self.local.held
        return held is not None and held.is_held

    def release(self) -> None:
        """Raises LockNotOwnedError when the lock was lost before, LockError when it was not acquired."""
        held = self.local.held
        if held is None:
            raise LockError("Cannot release a lock that's not owned or is already unlocked.", self.name)
        self.local.held = None
        lost = not held.is_held
        if held.release() is Outcome.ALREADY_GONE or lost:
            raise LockNotOwnedError("Cannot release a lock that's no longer owned", self.name)

    def do_release(self, expected_token: Any) -> None:
        self.release()

    def extend(self, additional_time: Number, replace_ttl: bool = False) -> bool:
        """The broker renews the lock, so that without `timeout` there is nothing to extend: True. With one it raises
        LockError, because the end of a max_hold does not move."""
        return self._prolong("extend")

    def reacquire(self) -> bool:
        """As extend()."""
        return self._prolong("reacquire")

    def _prolong(self, what: str) -> bool:
        held = self.local.held
        if held is None:
            raise LockError(f"Cannot {what} an unlocked lock", self.name)
        if not held.is_held:
            raise LockNotOwnedError(f"Cannot {what} a lock that's no longer owned", self.name)
        if self.timeout is not None:
            raise LockError(f"Cannot {what} a lock with a timeout: distlock renews locks itself, and a timeout is the "
                            "most that one acquire may last; leave it out", self.name)
        return True

    def __enter__(self) -> "Lock":
        if self.acquire():
            return self
        raise LockError("Unable to acquire lock within the time specified", self.name)

    def __exit__(self, kind: Optional[Type[BaseException]], error: Any, trace: Any) -> None:
        try:
            self.release()
        except LockError:
            if self.raise_on_release_error:
                raise
            log.warning("the lock %r was lost or given back before its body was left", self.name)
