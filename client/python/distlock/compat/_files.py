# SPDX-License-Identifier: Apache-2.0
"""The clients and errors of the shims for locks on files."""
import contextlib
import functools
import os
from typing import Iterator, Type, Union

from distlock import aio, client
from distlock.errors import Unavailable

Path = Union[str, "os.PathLike[str]"]


@functools.lru_cache(None)
def shared_client() -> client.Client:
    """The client of all locks that are given none."""
    return client.connect()


@functools.lru_cache(None)
def shared_aio_client() -> aio.Client:
    return aio.connect()


@contextlib.contextmanager
def no_broker_is(error: Type[Unavailable]) -> Iterator[None]:
    """Inside, no answer is an error of the other package, too."""
    try:
        yield
    except Unavailable as gone:
        raise error(gone.reason, gone.message, retry_after=gone.retry_after, waited=gone.waited) from gone
