# SPDX-License-Identifier: Apache-2.0
"""Locks that open the file which they are named by."""
import contextlib
import fcntl
import logging
import os
import warnings
from typing import IO, Any, Optional

from distlock.client import Client, Held
from distlock.compat._files import Path
from distlock.compat.portalocker._base import CHECK_S, LockBase
from distlock.compat.portalocker._errors import LockException, LockFlags

log = logging.getLogger("distlock")
METHOD = LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING
IN_VAIN = "timeout has no effect in blocking mode"


class Lock(LockBase[IO[Any]]):
    """See portalocker.Lock. Without LockFlags.NON_BLOCKING it waits until it is held."""

    def __init__(self, filename: Path, mode: str = "a", timeout: Optional[float] = None,
                 check_interval: float = CHECK_S, fail_when_locked: bool = False, flags: Any = METHOD, *,
                 raise_on_release_error: bool = False, dl: Optional[Client] = None, key: Optional[str] = None,
                 **file_open_kwargs: Any) -> None:
        super().__init__(timeout, check_interval, fail_when_locked, dl)
        self.fh: Optional[IO[Any]] = None
        self.filename = os.path.abspath(filename)
        self.key = self.filename if key is None else key
        self.mode, self.truncate = mode.replace("w", "a"), "w" in mode  # it is emptied when it is locked
        self.flags, self.raise_on_release_error = flags, raise_on_release_error
        self.file_open_kwargs = file_open_kwargs
        if timeout is not None and self._blocks:
            warnings.warn(IN_VAIN, stacklevel=2)

    @property
    def _blocks(self) -> bool:
        return not self.flags & LockFlags.NON_BLOCKING

    def acquire(self, timeout: Optional[float] = None, check_interval: Optional[float] = None,
                fail_when_locked: Optional[bool] = None) -> IO[Any]:
        """The open file, also when this lock holds it already. Raises AlreadyLocked, ConnectionError, OSError."""
        with self._mutex:
            if self.fh is not None and self.held is not None:
                self._check(self.held)
                return self.fh
        fh = self._open()
        held: Optional[Held] = None
        try:
            take = self._dl.shared if self.flags & LockFlags.SHARED else self._dl.lock
            wait = None if self._blocks else self._wait(timeout, fail_when_locked)
            held = self._take(take(self.key, wait=wait), fh)
            fh = self._ready(fh)
            with self._mutex:
                self.fh, self.held = fh, held
        except BaseException:
            with contextlib.suppress(OSError):
                fh.close()
            if held is not None:
                held.release_soon()
            raise
        return fh

    def release(self) -> None:
        """Closes the file, then gives the lock back, if it is held. Raises LockLostError when that had ended before."""
        with self._mutex:
            fh, held, self.fh, self.held = self.fh, self.held, None, None
        if fh is None or held is None:
            return
        try:
            self._close(fh, held)
        except Exception as error:
            if self.raise_on_release_error:
                raise
            log.warning("closing %r before its lock is given back: %r", self.filename, error)
        finally:
            self._give_back(held)

    def _close(self, fh: IO[Any], held: Held) -> None:
        fh.close()

    def _ready(self, fh: IO[Any]) -> IO[Any]:
        """The open file, when it is locked."""
        if self.truncate:
            fh.seek(0)
            fh.truncate(0)
            flags = fcntl.fcntl(fh.fileno(), fcntl.F_GETFL)
            fcntl.fcntl(fh.fileno(), fcntl.F_SETFL, flags & ~os.O_APPEND)
        return fh

    def _open(self) -> IO[Any]:
        made: IO[Any] = open(self.filename, self.mode, **self.file_open_kwargs)
        return made


class RLock(Lock):
    """See portalocker.RLock: needs as many releases as acquires, by any thread."""

    def __init__(self, filename: Path, mode: str = "a", timeout: Optional[float] = None,
                 check_interval: float = CHECK_S, fail_when_locked: bool = False, flags: Any = METHOD, *,
                 dl: Optional[Client] = None, key: Optional[str] = None) -> None:
        super().__init__(filename, mode, timeout, check_interval, fail_when_locked, flags, dl=dl, key=key)
        self._acquire_count = 0

    def acquire(self, timeout: Optional[float] = None, check_interval: Optional[float] = None,
                fail_when_locked: Optional[bool] = None) -> IO[Any]:
        """As Lock.acquire, once; then it counts."""
        fh = super().acquire(timeout, check_interval, fail_when_locked)
        with self._mutex:
            self._acquire_count += 1
        return fh

    def release(self) -> None:
        """Raises LockException when it is released more often than acquired."""
        with self._mutex:
            if self._acquire_count == 0:
                raise LockException("Cannot release more times than acquired")
            self._acquire_count -= 1
            if self._acquire_count:
                return
        super().release()


class TemporaryFileLock(Lock):
    """See portalocker.TemporaryFileLock: release() removes the file."""

    def __init__(self, filename: Path = ".lock", timeout: Optional[float] = None, check_interval: float = CHECK_S,
                 fail_when_locked: bool = True, flags: Any = METHOD, *, raise_on_release_error: bool = False,
                 dl: Optional[Client] = None, key: Optional[str] = None) -> None:
        super().__init__(filename, "w", timeout, check_interval, fail_when_locked, flags,
                         raise_on_release_error=raise_on_release_error, dl=dl, key=key)

    def _ready(self, fh: IO[Any]) -> IO[Any]:
        fh.close()  # another holder may have removed that file meanwhile
        return super()._ready(self._open())

    def _close(self, fh: IO[Any], held: Held) -> None:
        try:
            if held.is_held:
                os.unlink(self.filename)
        finally:
            fh.close()
