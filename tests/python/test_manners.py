# SPDX-License-Identifier: Apache-2.0
"""What a program may expect of a library beside its locks."""
import inspect
import os
import pwd
import socket
import sys
import types
import typing

import distlock
import pytest
from distlock.compat import redis as compat
from distlock.types import Terms
from distlock.v1 import lock_service_pb2 as wire


def test_the_threads_of_eventlet_are_refused_by_name(broker, monkeypatch):
    patcher = types.ModuleType("eventlet.patcher")
    patcher.is_monkey_patched = lambda what: what == "thread"
    monkeypatch.setitem(sys.modules, "eventlet.patcher", patcher)
    for connect in (distlock.connect, distlock.aio.connect):
        with pytest.raises(RuntimeError, match="eventlet"):
            connect(broker.url)
    patcher.is_monkey_patched = lambda what: False
    distlock.connect(broker.url).close()


def test_options_are_typed():
    """mypy and editors know them; the package's own run is part of client/python/lint.sh."""
    assert typing.get_type_hints(Terms) == typing.get_type_hints(distlock.Options)
    takes = [method for kind in (distlock.Client, distlock.aio.Client, compat.Lock) for _, method in
             inspect.getmembers(kind, inspect.isfunction) if "options" in inspect.signature(method).parameters]
    variadic = [inspect.signature(method).parameters["options"] for method in takes]
    typed = [one.annotation for one in variadic if one.kind is one.VAR_KEYWORD]
    assert len(typed) == 2 * 7 + 1 and set(typed) == {"Unpack[Terms]"}


def test_whoever_names_no_owner_is_named(broker, connect):
    dl = connect(broker.url)
    request = dl.lock("k")
    with request, dl.lock("named", owner="me"), dl.lock("again", owner="me", reentrant=True):
        pass
    with dl.lock("unnamed", reentrant=True), dl.all(["a", "b"]):
        pass
    owners = [lock.owner for one in broker.session().got("acquire") for lock in one.acquire.locks]
    here = f"{pwd.getpwuid(os.geteuid()).pw_name}@{socket.gethostname()}:{os.getpid()}"
    assert owners == [here, "me", "me", "", here, here]
    broker.unary["Acquire"] = lambda call, context: wire.AcquireResponse(
        grants=[{"key": call.locks[0].owner, "valid_for": {"seconds": 10}}])
    assert dl.acquire_detached("k").key == here
