# SPDX-License-Identifier: Apache-2.0
"""gRPC by another process. gRPC does not survive a fork: its threads are the parent's, and its own support for forks
stops the parent's sessions for seconds, or hangs. So a child whose parent has used gRPC starts a fresh interpreter,
which makes the calls for it (_relay_main.py). When either of the two ends, so do the calls.

RelayChannel has what this package uses of grpc.Channel. A frame is: length, call, kind, bytes.
"""
import os
import queue
import struct
import subprocess
import sys
import threading
from typing import IO, Any, Callable, Dict, Iterator, List, Optional, Tuple

from grpc import RpcError, StatusCode

HEAD = struct.Struct("!IQB")
OPEN, MESSAGE, END, CANCEL = range(4)
STARTED = struct.Struct("!Bd")  # is it a stream of requests; timeout in seconds, negative: none


def write_frame(pipe: IO[bytes], mutex: threading.Lock, call: int, kind: int, data: bytes = b"") -> None:
    with mutex:
        pipe.write(HEAD.pack(len(data), call, kind) + data)
        pipe.flush()


def read_frames(pipe: IO[bytes]) -> Iterator[Tuple[int, int, bytes]]:
    while True:
        head = pipe.read(HEAD.size)
        if len(head) < HEAD.size:
            return
        length, call, kind = HEAD.unpack(head)
        data = pipe.read(length)
        if len(data) < length:
            return
        yield call, kind, data


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


class RelayCall:
    """A call of any kind."""

    def __init__(self, channel: "RelayChannel", number: int, decode: Callable[[bytes], Any]) -> None:
        self._channel, self._number, self._decode = channel, number, decode
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
        self._channel.send(self._number, CANCEL)
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


class RelayMethod:
    def __init__(self, channel: "RelayChannel", path: str, streams: bool, encode: Callable[[Any], bytes],
                 decode: Callable[[bytes], Any]) -> None:
        self._channel, self._path, self._streams, self._encode, self._decode = channel, path, streams, encode, decode

    def __call__(self, request: Any, timeout: Optional[float] = None) -> RelayCall:
        call = self._channel.open(self._path, self._streams, timeout, self._decode)
        if not self._streams:
            self._channel.send(call._number, MESSAGE, self._encode(request))
            return call
        threading.Thread(target=self._send_all, args=(call._number, request), daemon=True).start()
        return call

    future = __call__

    def _send_all(self, number: int, requests: Iterator[Any]) -> None:
        for request in requests:
            self._channel.send(number, MESSAGE, self._encode(request))


class RelayChannel:
    """A process that makes the calls."""

    def __init__(self, address: str) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen([interpreter(), "-m", "distlock._relay_main", address],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._mutex = threading.Lock()
        self._calls: Dict[int, RelayCall] = {}
        self._over = False
        self._last = 0
        threading.Thread(target=self._read, name="distlock-relay", daemon=True).start()

    def open(self, path: str, streams: bool, timeout: Optional[float], decode: Callable[[bytes], Any]) -> RelayCall:
        with self._mutex:
            self._last += 1
            call = self._calls[self._last] = RelayCall(self, self._last, decode)
        if self._over:
            call.finish(RelayError("UNAVAILABLE", "the process that makes the calls has ended"))
        self.send(call._number, OPEN, STARTED.pack(streams, -1 if timeout is None else timeout) + path.encode())
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
        self._over = True
        for call in list(self._calls.values()):
            call.finish(RelayError("UNAVAILABLE", "the process that makes the calls has ended"))
        self._process.wait()

    def stream_stream(self, path: str, request_serializer: Any, response_deserializer: Any) -> RelayMethod:
        return RelayMethod(self, path, True, request_serializer, response_deserializer)

    def unary_unary(self, path: str, request_serializer: Any, response_deserializer: Any) -> RelayMethod:
        return RelayMethod(self, path, False, request_serializer, response_deserializer)

    unary_stream = unary_unary

    def close(self) -> None:
        try:
            assert self._process.stdin is not None
            self._process.stdin.close()
        except OSError:
            pass
