# SPDX-License-Identifier: Apache-2.0
"""Connections to brokers, in this process or by way of another one."""
import os
import random
import re
import stat
import sys
from typing import Any, Callable, Iterator, List, Optional

# gRPC reads this once. Its own support for forks is on by default: when it meets no thread of a session at work, it
# stops all threads of gRPC for the fork. A child does not use the parent's gRPC here: see open_channel().
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# Its own lines on stderr, one for each handshake that fails, say what a refusal says in words.
if "grpc" not in sys.modules:
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc

from distlock import _bearer, _fork, _tls
from distlock._access import FROM_ENVIRONMENT, Access
from distlock._clock import SECOND
from distlock._clock import now as clock
from distlock._relay import RelayChannel
from distlock.errors import Refused
from distlock.v1 import lock_service_pb2 as wire
from distlock.v1 import look_pb2 as look

SOCKET = "/run/distlock/distlock.sock"
LOOPBACK = "127.0.0.1:7420"
FIRST_PAUSE = SECOND // 50  # at most, between two rounds of all brokers
LONGEST_PAUSE = 2 * SECOND
SERVICE = "/distlock.v1.LockService/"
OPTIONS = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),  # a connection of its own
    ("grpc.enable_retries", 0),  # the lock table decides what is sent again
    ("grpc.enable_http_proxy", 0),  # http_proxy is meant for the web, not for the broker
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.max_receive_message_length", 4 << 20),
    ("grpc.max_send_message_length", 4 << 20),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]


def default_address() -> str:
    """DISTLOCK_SERVER, else unix:///run/distlock/distlock.sock where that socket exists, else 127.0.0.1:7420."""
    named = os.environ.get("DISTLOCK_SERVER")
    if named:
        return named
    try:
        return f"unix://{SOCKET}" if stat.S_ISSOCK(os.stat(SOCKET).st_mode) else LOOPBACK
    except OSError:
        return LOOPBACK


def named_in_messages(given: Optional[str]) -> str:
    """The address of a client that was given this one; of the default, with the socket that it does not lead to."""
    address = given or default_address()
    is_default = not given and not os.environ.get("DISTLOCK_SERVER")
    return f"{address} (there was no socket {SOCKET})" if is_default and address == LOOPBACK else address


def split_addresses(text: str) -> List[str]:
    """The targets of a list that is separated by commas, each once."""
    found: List[str] = []
    for part in (one.strip() for one in text.split(",")):
        target = f"unix://{part}" if part.startswith("/") else part
        if target and target not in found:
            found.append(target)
    return found or [text]


def check_addresses(text: str) -> None:
    """ValueError: no broker can be at one of them, because its port is missing, or is no number of 1..65535."""
    for address in split_addresses(text):
        scheme, has, place = address.rpartition("://")
        if address.startswith(("unix:", "unix-abstract:", "vsock:")) or has and scheme not in ("tls", "dns"):
            continue
        place = place.rpartition("/")[2] if scheme == "dns" else place
        place = re.sub("^(dns|ipv4|ipv6):", "", place)
        before = address[:len(address) - len(place)]
        said = f"the broker's address {address}"
        if place.count(":") > 1 and "]" not in place:
            raise ValueError(f"{said} is IPv6 without brackets; write {before}[{place}]:7420")
        host, port = re.fullmatch(r"(\[.*\]|[^:]*):?(.*)", place, re.S).groups()  # type: ignore[union-attr]
        if not port:
            raise ValueError(f"{said} has no port; write {before}{host}:7420")
        if not re.fullmatch("[0-9]{1,9}", port) or not 1 <= int(port) <= 65535:
            raise ValueError(f"{said} has the port {port}; a port is a number of 1..65535")


class Addresses:
    """The brokers in a random order, which one is to be tried next, and when; how they are reached, how messages name
    them, and the clock by which they are believed."""

    clock = staticmethod(clock)

    def __init__(self, text: str, access: Access = FROM_ENVIRONMENT,
                 shuffle: Callable[[List[str]], None] = random.shuffle, named: str = "") -> None:
        self.named, self.access, self.all = named or text, access, split_addresses(text)
        shuffle(self.all)
        self._present = self._tried = 0
        self._bound = FIRST_PAUSE

    @property
    def present(self) -> str:
        return self.all[self._present]

    def open(self, address: str) -> Any:
        return open_channel(address, self.access)

    def bearer(self, address: str) -> Optional[str]:
        """The token that is shown there now."""
        return _bearer.bearer(address, self.access)

    def next(self) -> bool:
        """After an attempt that failed. False: each has been tried since the last success, so pause."""
        self._present = (self._present + 1) % len(self.all)
        self._tried += 1
        if self._tried < len(self.all):
            return True
        self._tried = 0
        return False

    def pause_after(self, failure: Optional[Refused]) -> int:
        """A session has ended, with this status: goes on to the next broker; for how long to pause before. In ns."""
        if self.next() and (failure is None or failure.reason in ("UNREACHABLE", "DRAINING")):
            return 0  # another broker may do
        pause = round(random.uniform(0, self._bound))
        if failure is not None and failure.retry_after:
            pause += min(round(failure.retry_after * SECOND), LONGEST_PAUSE)
        self._bound = min(2 * self._bound, LONGEST_PAUSE)
        return pause

    def succeed(self) -> None:
        self._tried, self._bound = 0, FIRST_PAUSE


class _Anchor:
    """Keeps gRPC running from its first use on. Version 1.51 stops its threads with its last channel; a program that
    forks at that moment hangs in fork() for ever, or is aborted."""

    used_in: Optional[int] = None  # the generation of processes that has used gRPC first
    channel: Any = None

    def after_fork(self) -> None:
        if self.channel is not None:
            _fork.keep(self.channel)


_anchor = _Anchor()
_fork.watch(_anchor)


def _befriend_green_threads() -> None:
    """gRPC waits in C, where no green thread goes on, unless it is told of gevent before its first use."""
    monkey: Any = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        import grpc.experimental.gevent as green
        green.init_gevent()


def check_threads() -> None:
    """RuntimeError: gRPC cannot work with the threads of this process."""
    patcher: Any = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched("thread"):
        raise RuntimeError("distlock cannot work where eventlet has patched threads, because gRPC waits in C, where no "
                           "green thread goes on: call eventlet.monkey_patch(thread=False), or use gevent")


def starts_slowly() -> bool:
    """Whether a channel that is opened now needs a process of its own, which takes its time to start."""
    return _anchor.used_in not in (None, _fork.generation)


def open_channel(address: str, access: Access = FROM_ENVIRONMENT) -> Any:
    """A grpc.Channel; or its like, when an ancestor of this process has used gRPC."""
    if _anchor.used_in is None:
        _befriend_green_threads()
        _anchor.used_in = _fork.generation
        _anchor.channel = grpc.insecure_channel("unix:///nowhere", options=OPTIONS)  # does not connect without a call
    if _anchor.used_in != _fork.generation:
        return RelayChannel(address, access)
    options: List[Any] = list({**dict(OPTIONS), **dict(access.options)}.items())
    secure = address.startswith(_tls.SCHEME)
    channel = _tls.open_secure(address, options, access) if secure else grpc.insecure_channel(address, options=options)
    return _bearer.with_token(channel, address, access)


def open_session(channel: Any, requests: Iterator[wire.SessionRequest]) -> Any:
    method = channel.stream_stream(SERVICE + "Session", request_serializer=wire.SessionRequest.SerializeToString,
                                   response_deserializer=wire.SessionResponse.FromString)
    return method(requests)


def unary(channel: Any, name: str) -> Any:
    """A unary method by its name. Call .future(request, timeout=...)."""
    room = wire if hasattr(wire, name + "Request") else look
    request, response = getattr(room, name + "Request"), getattr(room, name + "Response")
    return channel.unary_unary(SERVICE + name, request_serializer=request.SerializeToString,
                               response_deserializer=response.FromString)


def server_stream(channel: Any, name: str) -> Any:
    """WatchLock or WatchLocks."""
    request, response = getattr(look, name + "Request"), getattr(look, name + "Response")
    return channel.unary_stream(SERVICE + name, request_serializer=request.SerializeToString,
                                response_deserializer=response.FromString)


RpcError = grpc.RpcError
