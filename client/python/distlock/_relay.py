# SPDX-License-Identifier: Apache-2.0
"""gRPC by another process. gRPC does not survive a fork: its threads are the parent's, and its own support for forks
stops the parent's sessions for seconds, or hangs. So a child whose parent has used gRPC starts a fresh interpreter,
which makes all calls for it (_relay_main.py). When either of the two ends, so do the calls.

RelayChannel has what this package uses of grpc.Channel. A frame is: length, number, kind, bytes. The number is that of
a call, or with CLOSE of a channel.
"""
import os
import queue
import struct
import subprocess
import sys
import threading
from typing import IO, Any, Callable, Dict, Iterator, List, Optional, Tuple

from grpc import RpcError, StatusCode

from distlock import _fork
from distlock._access import Access

HEAD = struct.Struct("!IQB")
OPEN, MESSAGE, END, CANCEL, CLOSE = range(5)
STARTED = struct.Struct("!QBd")  # the channel; is it a stream of requests; timeout in seconds, negative: none


def write_frame(pipe: IO[bytes], mutex: threading.Lock, number: int, kind: int, data: bytes = b"") -> None:
    with mutex:
        pipe.write(HEAD.pack(len(data), number, kind) + data)
        pipe.flush()


def read_frames(pipe: IO[bytes]) -> Iterator[Tuple[int, int, bytes]]:
    while True:
        head = pipe.read(HEAD.size)
        if len(head) < HEAD.size:
            return
        length, number, kind = HEAD.unpack(head)
        data = pipe.read(length)
        if len(data) < length:
            return
        yield number, kind, data


def pack_texts(*texts: bytes) -> bytes:
    return b"".join(struct.pack("!I", len(text)) + text for text in texts)


def unpack_texts(data: bytes) -> List[bytes]:
    found, at = [], 0
    while at < len(data):
        size = struct.unpack_from("!I", data, at)[0]
        found.append(data[at + 4:at + 4 + size])
        at += 4 + size
    return found


def interpreter() -> str:
    """Also of a program that embeds Python, where sys.executable is that program."""
    if "python" in os.path.basename(sys.executable or ""):
        return sys.executable
    return os.path.join(sys.exec_prefix, "bin", "python3")


class RelayError(RpcError):  # type: ignore[misc]
    """As the error of a call of gRPC."""

    def __init__(self, code: str, details: str, trailer: bytes = b"") -> None:
        super().__init__(details)
        self._code, self._details, self._trailer = code, details, trailer

    def code(self) -> Any:
        return getattr(StatusCode, self._code, StatusCode.UNKNOWN)

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> Any:
        return (("grpc-status-details-bin", self._trailer),) if self._trailer else ()


def _ended() -> RelayError:
    return RelayError("UNAVAILABLE", "the process that makes the calls has ended")


class RelayCall:
    """A call of any kind."""

    def __init__(self, process: "RelayProcess", number: int, decode: Callable[[bytes], Any]) -> None:
        self._process, self._number, self._decode = process, number, decode
        self._answers: "queue.SimpleQueue[Tuple[bool, Any]]" = queue.SimpleQueue()
        self._mutex = threading.Lock()
        self._done = False
        self._tell: List[Callable[[Any], object]] = []

    def __iter__(self) -> "RelayCall":
        return self

    def __next__(self) -> Any:
        more, value = self._answers.get()
        if more:
            return self._decode(value)
        self._answers.put((more, value))
        if value is None:
            raise StopIteration
        raise value

    def result(self) -> Any:
        answer = next(self)
        for _ in self:  # until the status has come
            pass
        return answer

    def cancel(self) -> None:
        self._process.send(self._number, CANCEL)
        self.finish(RelayError("CANCELLED", "cancelled"))

    def add_done_callback(self, tell: Callable[[Any], object]) -> None:
        with self._mutex:
            if not self._done:
                self._tell.append(tell)
                return
        tell(self)

    def hear(self, data: bytes) -> None:
        self._answers.put((True, data))

    def finish(self, error: Optional[RelayError]) -> None:
        with self._mutex:
            if self._done:
                return
            self._done = True
        self._answers.put((False, error))
        for tell in self._tell:
            tell(self)


class RelayProcess:
    """The process that makes the calls of all channels of this one."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen([interpreter(), "-m", "distlock._relay_main"],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._mutex = threading.Lock()
        self._calls: Dict[int, RelayCall] = {}
        self._numbers = threading.Lock()
        self._last = 0
        self.generation = _fork.generation
        self.over = False
        _fork.watch(self)
        threading.Thread(target=self._read, name="distlock-relay", daemon=True).start()

    def take_number(self) -> int:
        with self._numbers:
            self._last += 1
            return self._last

    def open(self, started: bytes, decode: Callable[[bytes], Any]) -> RelayCall:
        number = self.take_number()
        call = self._calls[number] = RelayCall(self, number, decode)
        if self.over:
            call.finish(_ended())
        self.send(number, OPEN, started)
        return call

    def send(self, number: int, kind: int, data: bytes = b"") -> None:
        try:
            assert self._process.stdin is not None
            write_frame(self._process.stdin, self._mutex, number, kind, data)
        except (OSError, ValueError):
            pass  # the reader tells

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            for number, kind, data in read_frames(self._process.stdout):
                call = self._calls.get(number)
                if call is not None and kind == MESSAGE:
                    call.hear(data)
                elif call is not None:
                    code, details, trailer = unpack_texts(data)
                    self._calls.pop(number, None)
                    call.finish(None if code == b"OK" else
                                RelayError(code.decode(), details.decode(errors="replace"), trailer))
        except (OSError, ValueError):
            pass
        self.over = True
        for call in list(self._calls.values()):
            call.finish(_ended())
        self._process.wait()

    def after_fork(self) -> None:
        """The pipes must end with the process that uses them, not with its children."""
        _fork.keep(self)
        nothing = os.open(os.devnull, os.O_RDWR)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                os.dup2(nothing, pipe.fileno())  # not closed: what is buffered is written when it is destroyed
        os.close(nothing)


_shared: Optional[RelayProcess] = None
_sharing = threading.Lock()


def _shared_process() -> RelayProcess:
    global _shared
    with _sharing:
        if _shared is None or _shared.over or _shared.generation != _fork.generation:
            _shared = RelayProcess()
        return _shared


def _renew_mutex() -> None:
    global _sharing
    _sharing = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_mutex)


class RelayMethod:
    def __init__(self, channel: "RelayChannel", path: str, streams: bool, encode: Callable[[Any], bytes],
                 decode: Callable[[bytes], Any]) -> None:
        self._channel, self._path, self._streams, self._encode, self._decode = channel, path, streams, encode, decode

    def __call__(self, request: Any, timeout: Optional[float] = None) -> RelayCall:
        process = self._channel.process
        started = STARTED.pack(self._channel.number, self._streams, -1 if timeout is None else timeout)
        texts = pack_texts(self._channel.address.encode(), self._path.encode(), self._channel.access.pack())
        call = process.open(started + texts, self._decode)
        if not self._streams:
            process.send(call._number, MESSAGE, self._encode(request))
            return call
        threading.Thread(target=self._send_all, args=(process, call._number, request), daemon=True).start()
        return call

    future = __call__

    def _send_all(self, process: RelayProcess, number: int, requests: Iterator[Any]) -> None:
        for request in requests:
            process.send(number, MESSAGE, self._encode(request))


class RelayChannel:
    """A channel of the shared process; a connection of its own."""

    def __init__(self, address: str, access: Access) -> None:
        self.address, self.access, self.process = address, access, _shared_process()
        self.number = self.process.take_number()

    def stream_stream(self, path: str, request_serializer: Any, response_deserializer: Any) -> RelayMethod:
        return RelayMethod(self, path, True, request_serializer, response_deserializer)

    def unary_unary(self, path: str, request_serializer: Any, response_deserializer: Any) -> RelayMethod:
        return RelayMethod(self, path, False, request_serializer, response_deserializer)

    unary_stream = unary_unary

    def close(self) -> None:
        self.process.send(self.number, CLOSE)
