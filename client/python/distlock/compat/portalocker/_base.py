# SPDX-License-Identifier: Apache-2.0
"""How portalocker's locks are taken and given back."""
import threading
from typing import Any, Generic, Optional, TypeVar

from distlock.client import Acquire, Client, Held
from distlock.compat._files import no_broker_is, shared_client
from distlock.compat.portalocker._errors import AlreadyLocked, ConnectionError, LockLostError
from distlock.errors import Busy

TIMEOUT_S, CHECK_S = 5, 0.25
R = TypeVar("R")


def first(*values: Any) -> Any:
    """The first that is not None."""
    return next((value for value in values if value is not None), None)


class LockBase(Generic[R]):
    """The base of all kinds."""

    def __init__(self, timeout: Optional[float], check_interval: Optional[float], fail_when_locked: Optional[bool],
                 dl: Optional[Client]) -> None:
        self.timeout, self.check_interval = first(timeout, TIMEOUT_S), first(check_interval, CHECK_S)
        self.fail_when_locked = bool(fail_when_locked)
        self.held: Optional[Held] = None
        self._dl = shared_client() if dl is None else dl
        self._mutex = threading.RLock()

    def acquire(self, timeout: Optional[float] = None, check_interval: Optional[float] = None,
                fail_when_locked: Optional[bool] = None) -> R:
        """Raises AlreadyLocked when others have it, ConnectionError when no broker answered."""
        raise NotImplementedError

    def release(self) -> None:
        """Gives it back, if it is held. Raises LockLostError when it had ended before."""
        raise NotImplementedError

    def _wait(self, timeout: Optional[float], fail_when_locked: Optional[bool]) -> float:
        at_once = first(fail_when_locked, self.fail_when_locked)
        return 0 if at_once else max(first(timeout, self.timeout), 0)

    def _take(self, request: Acquire[Held], fh: Any = None) -> Held:
        try:
            with no_broker_is(ConnectionError):
                return request.acquire()
        except Busy as busy:
            raise AlreadyLocked(busy, str(busy), fh=fh) from busy

    def _check(self, held: Held) -> None:
        if not held.is_held:
            raise self._loss(held)

    def _loss(self, held: Held) -> LockLostError:
        lost = held._loss()
        return LockLostError(lost.key, lost.cause, lost.message)

    def _give_back(self, held: Held) -> None:
        was_held = held.is_held
        held.release()
        if not was_held:
            raise self._loss(held)

    def __enter__(self) -> R:
        return self.acquire()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Optional[bool]:
        try:
            self.release()
        except Exception:
            if error is None:
                raise
        return None

    def __delete__(self, instance: object) -> None:
        self.release()
