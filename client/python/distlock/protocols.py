# SPDX-License-Identifier: Apache-2.0
"""The interfaces that a program depends on, for annotations, so that it can be given a client or a double.

    def save(locks: distlock.Locks, rows: Rows) -> None:
        with locks.lock("report", wait=10) as held:
            ...
"""
from typing import TYPE_CHECKING, Any, Optional, Protocol, TypeVar

from distlock.types import Outcome, Terms

if TYPE_CHECKING:
    from typing_extensions import Unpack

H_co = TypeVar("H_co", covariant=True)


class HeldLock(Protocol):
    """What distlock.Held and distlock.aio.Held have in common, but for release()."""

    @property
    def key(self) -> str:
        """The lock's name."""

    @property
    def token(self) -> int:
        """The fencing token."""

    @property
    def is_held(self) -> bool:
        """Whether the lock is held, by the clock, at this moment."""

    def check(self) -> None:
        """Raises LockLost unless the lock is held at this moment."""

    def release_soon(self) -> None:
        """Sends the release and does not wait."""


class HeldHere(HeldLock, Protocol):
    """As distlock.Held."""

    def release(self, timeout: Optional[float] = None) -> Outcome:
        """Gives the lock back, and waits for the answer."""


class Request(Protocol[H_co]):
    """As distlock.Acquire."""

    def acquire(self) -> H_co:
        """Waits for the lock."""

    def __enter__(self) -> H_co:
        """Waits for the lock."""

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Gives it back."""


class Locks(Protocol):
    """As distlock.Client."""

    def lock(self, key: str, *, wait: Optional[float] = None, **options: "Unpack[Terms]") -> Request[HeldHere]:
        """An exclusive lock."""

    def shared(self, key: str, *, wait: Optional[float] = None, **options: "Unpack[Terms]") -> Request[HeldHere]:
        """The lock for reading."""

    def permits(self, key: str, *, limit: int, n: int = 1, wait: Optional[float] = None,
                **options: "Unpack[Terms]") -> Request[HeldHere]:
        """n permits of a semaphore that has `limit`."""


class HeldInLoop(HeldLock, Protocol):
    """As distlock.aio.Held."""

    async def release(self) -> Outcome:
        """Gives the lock back, and waits for the answer."""


class RequestInLoop(Protocol[H_co]):
    """As distlock.aio.Acquire."""

    async def acquire(self) -> H_co:
        """Waits for the lock."""

    async def __aenter__(self) -> H_co:
        """Waits for the lock."""

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Gives it back."""


class LocksInLoop(Protocol):
    """As distlock.aio.Client: distlock.aio.Locks."""

    def lock(self, key: str, *, wait: Optional[float] = None, **options: "Unpack[Terms]") -> RequestInLoop[HeldInLoop]:
        """An exclusive lock."""

    def shared(self, key: str, *, wait: Optional[float] = None,
               **options: "Unpack[Terms]") -> RequestInLoop[HeldInLoop]:
        """The lock for reading."""

    def permits(self, key: str, *, limit: int, n: int = 1, wait: Optional[float] = None,
                **options: "Unpack[Terms]") -> RequestInLoop[HeldInLoop]:
        """n permits of a semaphore that has `limit`."""
