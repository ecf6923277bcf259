# SPDX-License-Identifier: Apache-2.0
"""Locks from a distlock broker.

    import distlock

    dl = distlock.connect()                          # DISTLOCK_SERVER, else the local socket, else 127.0.0.1:7420
    with dl.lock("report", wait=10) as held:         # raises Busy after 10 s; leaving gives the lock back
        save(rows, token=held.token)                 # held.lost, held.check(): whether it is lost

distlock.aio has the same for asyncio. Make one client in a process: one session serves all of its locks.
"""
import atexit

from distlock import aio
from distlock._core import close_all
from distlock._decorated import SKIP
from distlock._queries import Detached
from distlock.client import Acquire, Client, Held, HeldAll, connect
from distlock.errors import Busy, ClientClosed, DistlockError, InvalidRequest, LockLost, Refused, Unavailable
from distlock.hooks import Observer
from distlock.protocols import HeldLock, Locks
from distlock.types import (
                            Block,
                            Holder,
                            Leader,
                            Lock,
                            LockInfo,
                            Mode,
                            OnDisconnect,
                            Options,
                            Outcome,
                            Policy,
                            Queued,
                            Stats,
                            Tls,
                            Waiting,
)
from distlock.version import __version__

__all__ = ["SKIP", "Acquire", "Block", "Busy", "Client", "ClientClosed", "Detached", "DistlockError", "Held",
           "HeldAll", "HeldLock", "Holder", "InvalidRequest", "Leader", "Lock", "LockInfo", "LockLost", "Locks",
           "Mode", "Observer", "OnDisconnect", "Options", "Outcome", "Policy", "Queued", "Refused", "Stats", "Tls",
           "Unavailable", "Waiting", "__version__", "aio", "connect"]

atexit.register(close_all)
