# SPDX-License-Identifier: Apache-2.0
"""What the shims for locks on files have in common."""
import contextlib
import functools
import os
from typing import Iterator, Union

from distlock import aio, client
from distlock._held import Holding
from distlock.errors import Unavailable

Path = Union[str, "os.PathLike[str]"]


class ConnectionError(Unavailable, OSError):
    """No broker or store answered in time: also an OSError, as any failure of a disk."""


@functools.lru_cache(None)
def shared_client() -> client.Client:
    """Of all locks that are given none."""
    return client.connect()


@functools.lru_cache(None)
def shared_aio_client() -> aio.Client:
    return aio.connect()


@contextlib.contextmanager
def as_of_files() -> Iterator[None]:
    try:
        yield
    except Unavailable as gone:
        raise ConnectionError(gone.reason, gone.message, retry_after=gone.retry_after, waited=gone.waited) from gone


@contextlib.contextmanager
def told_if_lost(held: Holding) -> Iterator[None]:
    """Around a release: LockLost when the lock had ended before."""
    lost = not held.is_held
    yield
    if lost:
        raise held._loss()
