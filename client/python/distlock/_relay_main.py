# SPDX-License-Identifier: Apache-2.0
"""Makes gRPC calls for a process that cannot: see _relay.py. Runs until its input ends."""
import os
import queue
import signal
import sys
import threading
from typing import Any, Dict, Optional

from distlock import _channel, _status
from distlock._access import Access
from distlock._relay import (
    CANCEL,
    CLOSE,
    END,
    MESSAGE,
    OPEN,
    STARTED,
    pack_texts,
    read_frames,
    unpack_texts,
    write_frame,
)


class Relayed:
    """One call, on a thread of its own."""

    def __init__(self, channels: Dict[int, Any], number: int, data: bytes, mutex: threading.Lock) -> None:
        self.number, self._mutex = number, mutex
        self._requests: "queue.SimpleQueue[Optional[bytes]]" = queue.SimpleQueue()
        self.channel, streams, timeout = STARTED.unpack_from(data)
        texts = unpack_texts(data[STARTED.size:])
        address, path, access = texts[0].decode(), texts[1].decode(), Access.unpack(texts[2])
        if self.channel not in channels:
            channels[self.channel] = _channel.open_channel(address, access)
        channel = channels[self.channel]
        self._timeout = None if timeout < 0 else timeout
        self._streams = bool(streams)
        open_call = channel.stream_stream if streams else channel.unary_stream
        self._method = open_call(path, request_serializer=None, response_deserializer=None)
        self._call: Any = None
        self._cancelled = False
        threading.Thread(target=self._run, daemon=True).start()

    def send(self, data: bytes) -> None:
        self._requests.put(data)

    def cancel(self) -> None:
        self._cancelled = True
        self._requests.put(None)
        if self._call is not None:
            self._call.cancel()

    def _run(self) -> None:
        requests = iter(self._requests.get, None)
        try:
            self._call = self._method(requests if self._streams else next(requests, b""), timeout=self._timeout)
            if self._cancelled:
                self._call.cancel()
            for response in self._call:
                self._write(MESSAGE, response)
            self._write(END, pack_texts(b"OK", b"", b""))
        except _channel.RpcError as error:
            ended: Any = error
            trailer = dict(ended.trailing_metadata() or ()).get(_status.DETAILS, b"")
            self._write(END, pack_texts(ended.code().name.encode(), (ended.details() or "").encode(), trailer))

    def _write(self, kind: int, data: bytes) -> None:
        try:
            write_frame(sys.stdout.buffer, self._mutex, self.number, kind, data)
        except OSError:
            os._exit(0)


def main() -> None:
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # meant for the group: the other process decides
        signal.signal(stop, signal.SIG_IGN)
    mutex = threading.Lock()
    channels: Dict[int, Any] = {}
    calls: Dict[int, Relayed] = {}
    for number, kind, data in read_frames(sys.stdin.buffer):
        if kind == OPEN:
            calls[number] = Relayed(channels, number, data, mutex)
        elif kind == CLOSE:
            channel = channels.pop(number, None)
            if channel is not None:
                channel.close()
        elif number in calls and kind == MESSAGE:
            calls[number].send(data)
        elif number in calls and kind == CANCEL:
            calls.pop(number).cancel()
    os._exit(0)


if __name__ == "__main__":
    main()
