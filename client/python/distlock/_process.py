# SPDX-License-Identifier: Apache-2.0
"""What this process says of itself: to a broker on the same machine, so that it sees the end, and to those who wait."""
import functools
import getpass
import os
import socket
from typing import Optional

from distlock.v1 import lock_service_pb2 as wire


@functools.lru_cache(maxsize=None)
def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def claim(address: str) -> Optional[wire.ProcessClaim]:
    """Anew for each session, since a child of fork is another process. None: not by a unix socket, not on Linux, or a
    Python without pidfds. The broker knows whether the kernel tells processes apart by them."""
    pidfd_open = getattr(os, "pidfd_open", None)
    if pidfd_open is None or not address.startswith("unix:"):
        return None
    try:
        pidfd = pidfd_open(os.getpid())
        try:
            return wire.ProcessClaim(boot_id=_boot_id(), pidfd_inode=os.fstat(pidfd).st_ino)
        finally:
            os.close(pidfd)
    except (OSError, ValueError):
        return None


@functools.lru_cache(maxsize=None)
def _account(uid: int) -> str:
    try:
        import pwd
        return pwd.getpwuid(uid).pw_name
    except ImportError:  # not a Unix
        return getpass.getuser()
    except KeyError:
        return f"uid{uid}"


def owner() -> str:
    """user@host:pid, as distlockctl says it. Anew for each lock, since a child of fork is another process."""
    return f"{_account(getattr(os, 'geteuid', int)())}@{socket.gethostname()}:{os.getpid()}"
