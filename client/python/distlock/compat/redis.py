# SPDX-License-Identifier: Apache-2.0
"""A drop-in for redis-py's Lock: the same arguments, methods and exceptions, over a distlock broker.

    from distlock.compat.redis import Lock, LockError       # instead of redis.lock and redis.exceptions
    with Lock(dl, "report", timeout=60, blocking_timeout=10):
        ...

`dl` is a distlock.Client in the place of the redis client. What differs:

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
import functools
import logging
import threading
from typing import TYPE_CHECKING, Any, Callable, Optional, Type, TypeVar, Union

from distlock._clock import NEVER, SECOND, nanoseconds
from distlock._clock import now as clock
from distlock._threads import Bell, spawn
from distlock._words import arguments
from distlock.client import Client, Held
from distlock.errors import Busy, Unavailable
from distlock.types import Outcome, Terms

if TYPE_CHECKING:
    from typing_extensions import Unpack

Number = Union[int, float]
T = TypeVar("T")
log = logging.getLogger("distlock")


_LOCK: Any
_NOT_OWNED: Any
_NO_ANSWER: Any
try:  # so that programs which catch redis-py's exceptions catch these
    from redis import exceptions as _theirs
    RedisError: Any = _theirs.RedisError
    _LOCK, _NOT_OWNED = (_theirs.LockError,), (_theirs.LockNotOwnedError,)
    _NO_ANSWER = _theirs.ConnectionError, _theirs.TimeoutError
except ImportError:
    class RedisError(Exception):  # type: ignore[no-redef]
        """The base of those below."""

    _LOCK, _NOT_OWNED, _NO_ANSWER = (RedisError, ValueError), (), (RedisError,)


class LockError(*_LOCK):  # type: ignore[misc]
    """As redis.exceptions.LockError, and one of these where redis-py is installed."""

    def __init__(self, message: Optional[str] = None, lock_name: Optional[str] = None) -> None:
        Exception.__init__(self, message)  # older versions of theirs take other arguments
        self.message, self.lock_name = message, lock_name


class LockNotOwnedError(LockError, *_NOT_OWNED):  # type: ignore[misc]
    """As redis.exceptions.LockNotOwnedError: the lock is not, or no longer, held."""


class ConnectionError(Unavailable, *_NO_ANSWER):  # type: ignore[misc]
    """As redis.exceptions.ConnectionError and TimeoutError: no broker or store answered in time."""


TimeoutError = ConnectionError


def _asked(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except Unavailable as gone:
        raise ConnectionError(gone.reason, gone.message, retry_after=gone.retry_after, waited=gone.waited) from gone


class _Hold:
    """One acquire. A thread gives the lock back when its timeout has passed."""

    def __init__(self, held: Held, timeout: Optional[Number]) -> None:
        self.held, self.until = held, NEVER
        self._mutex = threading.RLock()  # a signal's handler may come here, on a thread that is inside
        self._bell = Bell()
        if timeout:
            self.until = clock() + nanoseconds(timeout)
            held._on_end(self._bell.ring)
            spawn(self._run, answers=False)

    @property
    def is_held(self) -> bool:
        return self.held.is_held and clock() < self.until

    def move(self, by: int, since: Optional[int] = None) -> bool:
        """The timeout ends so long after `since`, else after its present end. False: it is over."""
        with self._mutex:
            if not self.is_held:
                return False
            self.until = (self.until if since is None else since) + by
        self._bell.ring()
        return True

    def release(self) -> bool:
        """False: it had ended before."""
        was_held = self.is_held
        outcome = self.held.release()
        self._bell.ring()
        return was_held and outcome is not Outcome.ALREADY_GONE

    def _run(self) -> None:
        while self.held.is_held:
            with self._mutex:
                left = self.until - clock()
                if left <= 0:
                    self.held.release_soon()
                    return
            self._bell.wait(left / SECOND)


class _Place:
    """Where a Lock keeps what it holds: for all threads, when thread_local=False."""

    hold: Optional[_Hold] = None

    @property
    def token(self) -> Optional[bytes]:
        """The fencing token as text; None when nothing is held."""
        return str(self.hold.held.token).encode() if self.hold is not None else None


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
        if timeout is not None and not 0 <= timeout <= 1e9:
            raise ValueError(f"timeout is {timeout!r}; it must be seconds, or None: until it is released")
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
        wait = (wait if wait is None else max(wait, 0)) if blocking else 0
        with arguments(key="name", wait="blocking_timeout"):
            request = self.redis.lock(self.name, wait=wait, **self._options)
            try:
                self.local.hold = _Hold(_asked(request.acquire), self.timeout)
            except Busy:
                return False
        return True

    def locked(self) -> bool:
        """Whether anybody holds the lock."""
        look = functools.partial(self.redis.inspect, self.name, namespace=str(self._options.get("namespace", "")),
                                 max_waiters=0)
        with arguments(key="name"):
            return _asked(look).holder_count > 0

    def owned(self) -> bool:
        """Whether this Lock holds it, by the clock, at this moment."""
        hold = self.local.hold
        return hold is not None and hold.is_held

    def release(self) -> None:
        """Raises LockNotOwnedError when the lock was lost before, LockError when it was not acquired."""
        hold = self.local.hold
        if hold is None:
            raise LockError("Cannot release a lock that's not owned or is already unlocked.", self.name)
        self.local.hold = None
        if not hold.release():
            raise LockNotOwnedError("Cannot release a lock that's no longer owned", self.name)

    def do_release(self, expected_token: Any) -> None:
        self.release()

    def extend(self, additional_time: Number, replace_ttl: bool = False) -> bool:
        """Adds so many seconds to what is left of the timeout, or, with replace_ttl, has so many left."""
        return self._move("extend", additional_time, replace_ttl)

    def reacquire(self) -> bool:
        """Has the whole timeout left again."""
        return self._move("reacquire", self.timeout or 0, True)

    def _move(self, what: str, seconds: Number, from_now: bool) -> bool:
        hold = self.local.hold
        if hold is None:
            raise LockError(f"Cannot {what} an unlocked lock", self.name)
        moved = hold.move(nanoseconds(seconds), clock() if from_now else None) if self.timeout else hold.is_held
        if not moved:
            raise LockNotOwnedError(f"Cannot {what} a lock that's no longer owned", self.name)
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
