# SPDX-License-Identifier: Apache-2.0
"""The base of the locks for threads and of those for asyncio."""
import builtins
import contextlib
import math
import os
import threading
import time
import weakref
from typing import Any, Callable, Dict, Generic, Iterator, Optional, TypeVar, cast

from distlock._held import Holding
from distlock.compat._files import Path
from distlock.errors import Unavailable

try:  # so that programs which catch filelock's exception catch this one
    from filelock import Timeout as Timeout
except ImportError:
    class Timeout(TimeoutError):  # type: ignore[no-redef]
        """As filelock.Timeout, and the same class where filelock is installed: others have the lock."""

        def __init__(self, lock_file: str) -> None:
            super().__init__()
            self.lock_file = lock_file

        def __reduce__(self) -> Any:
            return type(self), (self.lock_file,)

        def __str__(self) -> str:
            return f"The file lock '{self.lock_file}' could not be acquired."


class ConnectionError(Unavailable, builtins.ConnectionError):
    """No broker or store answered in time: also an OSError, as what goes wrong with a disk."""


CHECK_S = 1.0  # how often cancel_check is asked: a request that waits for less may not find a broker
C = TypeVar("C")
G = TypeVar("G")
H = TypeVar("H", bound=Holding)
Check = Optional[Callable[[], bool]]


class Place(Generic[H, G]):
    """One for all threads, when thread_local=False: the held lock, and how often it was taken. The gate admits one
    acquire at a time."""

    def __init__(self, make_gate: Callable[[], G]) -> None:
        self.held: Optional[H] = None
        self.count, self.gate = 0, make_gate()


class ThreadsPlace(Place[H, G], threading.local):
    """One for each thread."""


class Singletons(type):
    """With is_singleton=True, a class has one lock for each key while anybody has that."""

    def __init__(cls, *values: Any) -> None:
        super().__init__(*values)
        cls._singletons: "weakref.WeakValueDictionary[str, Base[Any, Any, Any]]" = weakref.WeakValueDictionary()
        cls._mutex = threading.RLock()

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        if not made.is_singleton:
            return made
        with cls._mutex:
            found = cls._singletons.setdefault(made.key, made)
        differs = [f"\n\t{name} (existing lock has {value} but {made._settings[name]} was passed)"
                   for name, value in found._settings.items() if value != made._settings[name]]
        if differs:
            raise ValueError("Singleton lock instances cannot be initialized with differing arguments\n"
                             f"Non-matching arguments: {''.join(differs)}")
        return found


class Base(Generic[C, H, G], metaclass=Singletons):
    """The methods that do not wait."""

    def __init__(self, lock_file: Path, timeout: float, mode: int, thread_local: bool, blocking: bool,
                 is_singleton: bool, poll_interval: float, lifetime: Optional[float], on_acquired: Any,
                 client: C, key: Optional[str], gate: Callable[[], G]) -> None:
        self.lock_file = os.fspath(lock_file)
        self.key = os.path.abspath(self.lock_file) if key is None else key
        self.timeout, self.blocking = float(timeout), blocking
        self.poll_interval, self.lifetime = poll_interval, lifetime
        self.is_singleton = is_singleton
        self.mode = 0o644 if mode == -1 else mode
        self._settings: Dict[str, Any] = {"timeout": self.timeout, "mode": mode, "thread_local": thread_local,
                                          "blocking": blocking, "poll_interval": poll_interval, "lifetime": lifetime}
        self._wait(None, None)
        if on_acquired is not None:
            raise ValueError(f"{type(self).__name__} has no file, whose descriptor it could give to on_acquired")
        self._client = client
        self._place: Place[H, G] = (ThreadsPlace if thread_local else Place)(gate)

    def is_thread_local(self) -> bool:
        """Whether each thread holds it for itself."""
        return cast(bool, self._settings["thread_local"])

    @property
    def is_locked(self) -> bool:
        """Whether it is held, by the clock, at this moment."""
        return self._place.held is not None and self._place.held.is_held

    @property
    def lock_counter(self) -> int:
        """How many releases it needs."""
        return self._place.count

    @property
    def held(self) -> Optional[H]:
        """The lock of this package, with its token and check(); None when nothing is held."""
        return self._place.held

    def _wait(self, timeout: Optional[float], blocking: Optional[bool]) -> Optional[float]:
        blocking = self.blocking if blocking is None else blocking
        timeout = self.timeout if timeout is None else timeout
        if not isinstance(blocking, bool):
            raise TypeError(f"blocking must be a bool, not {type(blocking).__name__}")
        if math.isnan(timeout) and blocking:
            raise ValueError("timeout must be a number of seconds, not nan")
        if not blocking:
            return 0
        return None if timeout < 0 or timeout == math.inf else timeout

    def _part(self, until: Optional[float], check: Check) -> Optional[float]:
        """How long to wait before the next look at the clock and at cancel_check."""
        left = None if until is None else max(until - time.monotonic(), 0)
        if check is None:
            return left
        return CHECK_S if left is None else min(left, CHECK_S)

    def _is_over(self, until: Optional[float], check: Check) -> bool:
        return check is None or check() or (until is not None and time.monotonic() >= until)

    def _count_down(self, force: bool) -> Optional[H]:
        """The lock that is to be given back; None, when others of its holds are left."""
        place = self._place
        place.count = 0 if force else max(place.count - 1, 0)
        if place.count:
            return None
        held, place.held = place.held, None
        return held


def until(wait: Optional[float]) -> Optional[float]:
    return None if wait is None else time.monotonic() + wait




@contextlib.contextmanager
def told_if_lost(held: Holding) -> Iterator[None]:
    """Around a release: raises LockLost when the lock had ended before."""
    lost = not held.is_held
    yield
    if lost:
        raise held._loss()
