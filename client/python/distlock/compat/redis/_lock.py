# SPDX-License-Identifier: Apache-2.0
"""What redis-py's two kinds of Lock have in common, and their exceptions."""
import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Iterator, Optional, TypeVar, Union

from distlock._clock import NEVER, SECOND, nanoseconds
from distlock._clock import now as clock
from distlock._held import Holding
from distlock._threads import Bell, spawn
from distlock._words import arguments
from distlock.errors import Unavailable
from distlock.types import Terms

if TYPE_CHECKING:
    from typing_extensions import Unpack

Number = Union[int, float]
C = TypeVar("C")
H = TypeVar("H", bound=Holding)
K = TypeVar("K", bound="Hold[Any]")
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


@contextlib.contextmanager
def as_theirs() -> Iterator[None]:
    """Inside, what refuses names the arguments of redis-py, and no answer is its error."""
    with arguments(key="name", wait="blocking_timeout"):
        try:
            yield
        except Unavailable as gone:
            raise ConnectionError(gone.reason, gone.message, retry_after=gone.retry_after, waited=gone.waited) from gone


class Hold(Generic[H]):
    """One acquire. A thread gives the lock back when its timeout has passed: also when an event loop stands still."""

    def __init__(self, held: H, timeout: Optional[Number]) -> None:
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

    def end(self) -> None:
        """After a release: there is nothing to wait for."""
        self._bell.ring()

    def _run(self) -> None:
        while self.held.is_held:
            with self._mutex:
                left = self.until - clock()
                if left <= 0:
                    self.held.release_soon()
                    return
            self._bell.wait(left / SECOND)


class Place(Generic[K]):
    """Where a Lock keeps what it holds: for all threads, when thread_local=False."""

    hold: Optional[K] = None

    @property
    def token(self) -> Optional[bytes]:
        """The fencing token as text; None when nothing is held."""
        return str(self.hold.held.token).encode() if self.hold is not None else None


class ThreadsPlace(Place[K], threading.local):
    """One for each thread."""


class Base(Generic[C, K]):
    """What does not wait."""

    _client: ClassVar[type]
    _called: ClassVar[str]

    def __init__(self, redis: C, name: Union[str, bytes], timeout: Optional[Number] = None, sleep: Number = 0.1,
                 blocking: bool = True, blocking_timeout: Optional[Number] = None, thread_local: bool = True,
                 raise_on_release_error: bool = True, **options: "Unpack[Terms]") -> None:
        if not isinstance(redis, self._client):
            raise TypeError(f"the first argument is {redis!r}; it must be a {self._called} in place of the redis one")
        self.redis = redis
        self.name = name.decode() if isinstance(name, bytes) else name
        self.timeout, self.sleep = timeout, sleep
        self.blocking, self.blocking_timeout = blocking, blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self._options = options
        if timeout is not None and not 0 <= timeout <= 1e9:
            raise ValueError(f"timeout is {timeout!r}; it must be seconds, or None: until it is released")
        self.local: Place[K] = ThreadsPlace() if self.thread_local else Place()

    @property
    def token(self) -> Optional[bytes]:
        """The fencing token as text, as in local.token; None when this lock is not held."""
        return self.local.token

    def _wait(self, blocking: Optional[bool], blocking_timeout: Optional[Number], token: Any) -> Optional[Number]:
        if token is not None:
            raise LockError("distlock chooses the tokens: leave token out", self.name)
        wait = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        if not (self.blocking if blocking is None else blocking):
            return 0
        return wait if wait is None else max(wait, 0)

    def _namespace(self) -> str:
        return str(self._options.get("namespace", ""))

    def _is_owned(self) -> bool:
        hold = self.local.hold
        return hold is not None and hold.is_held

    def _mine(self, otherwise: str) -> K:
        if self.local.hold is None:
            raise LockError(otherwise, self.name)
        return self.local.hold

    def _not_released(self) -> LockNotOwnedError:
        return LockNotOwnedError("Cannot release a lock that's no longer owned", self.name)

    def _move(self, what: str, seconds: Number, from_now: bool) -> bool:
        hold = self._mine(f"Cannot {what} an unlocked lock")
        moved = hold.move(nanoseconds(seconds), clock() if from_now else None) if self.timeout else hold.is_held
        if not moved:
            raise LockNotOwnedError(f"Cannot {what} a lock that's no longer owned", self.name)
        return True

    def _leave(self, error: LockError) -> None:
        """A body whose lock could not be released."""
        if self.raise_on_release_error:
            raise error
        log.warning("the lock %r was lost or given back before its body was left", self.name)


NOT_LOCKED = "Cannot release a lock that's not owned or is already unlocked."
NOT_IN_TIME = "Unable to acquire lock within the time specified"
