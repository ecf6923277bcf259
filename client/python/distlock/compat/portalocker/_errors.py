# SPDX-License-Identifier: Apache-2.0
"""portalocker's exceptions and flags: its own where it is installed, so that programs may go on with them."""
import enum
import fcntl
from typing import Any

from distlock.errors import LockLost, Unavailable

_LOST: Any
LockException: Any
AlreadyLocked: Any
LockFlags: Any
try:
    import portalocker as _theirs
    LockException, AlreadyLocked, LockFlags = _theirs.LockException, _theirs.AlreadyLocked, _theirs.LockFlags
    _LOST = getattr(_theirs, "LockLostError", LockException)  # older versions do not have it
except ImportError:
    class LockException(Exception):  # type: ignore[no-redef]
        """As portalocker.LockException. strerror: who has the lock."""

        def __init__(self, *args: Any, fh: Any = None) -> None:
            super().__init__(*args)
            self.fh, self.strerror = fh, str(args[1]) if len(args) > 1 else None

    class AlreadyLocked(LockException):  # type: ignore[misc, no-redef]
        """As portalocker.AlreadyLocked: others have the lock."""

    class LockFlags(enum.IntFlag):  # type: ignore[no-redef]
        """As portalocker.LockFlags."""

        EXCLUSIVE = fcntl.LOCK_EX
        SHARED = fcntl.LOCK_SH
        NON_BLOCKING = fcntl.LOCK_NB
        UNBLOCK = fcntl.LOCK_UN

    _LOST = LockException


class LockLostError(LockLost, _LOST):  # type: ignore[misc]
    """As portalocker.LockLostError, and a distlock.LockLost, for each kind of lock."""


class ConnectionError(Unavailable, LockException):  # type: ignore[misc]
    """No broker or store answered in time: as any LockException that is no AlreadyLocked."""
