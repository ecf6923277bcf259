# SPDX-License-Identifier: Apache-2.0
"""A drop-in for portalocker: the same classes, arguments, methods and exceptions, over a distlock broker.

    from distlock.compat import portalocker                   # instead of import portalocker
    with portalocker.Lock("/shared/report.csv", "w", timeout=10) as fh:
        ...

What differs:

- The file is opened as by portalocker, and a broker holds the lock. The lock's name is the absolute path, so all hosts
  see the shared folder at the same place; or pass `key`. The broker is the one that distlock.connect() finds; or pass
  `dl`, a distlock.Client, whose Options may name a namespace.
- A waiter is served in its turn: check_interval is ignored. A handle is flushed and closed before its lock is free.
- A lock that is lost is lost at once. The next acquire() and the release raise LockLostError, whatever
  raise_on_release_error says, unless the body raised something itself. `lock.held` has the token and check().
- No broker is a ConnectionError of this module, which is a LockException and no AlreadyLocked.
- A BoundedSemaphore is named by its directory and name, counts the holders of all hosts, and has no files: acquire()
  returns the held lock of this package in the place of a Lock. A store that is a quorum has no semaphores.
- RedisLock takes a distlock.Client as its connection. `fence_token` is there without `fencing`, and the main thread is
  never interrupted: set on_lost. What it says of its channel and of its own threads is ignored.
- There are no lock() and unlock() of an open file, no PidFileLock and no open_atomic.
"""
from distlock.compat.portalocker._errors import (
    AlreadyLocked,
    ConnectionError,
    LockException,
    LockFlags,
    LockLostError,
)
from distlock.compat.portalocker._files import Lock, RLock, TemporaryFileLock
from distlock.compat.portalocker._names import BoundedSemaphore, NamedBoundedSemaphore, RedisLock

LOCK_EX, LOCK_SH, LOCK_NB = LockFlags.EXCLUSIVE, LockFlags.SHARED, LockFlags.NON_BLOCKING

__all__ = ["LOCK_EX", "LOCK_NB", "LOCK_SH", "AlreadyLocked", "BoundedSemaphore", "ConnectionError", "Lock",
           "LockException", "LockFlags", "LockLostError", "NamedBoundedSemaphore", "RLock", "RedisLock",
           "TemporaryFileLock"]
