# SPDX-License-Identifier: Apache-2.0
"""A blocking RESP2 client over a unix socket: just enough to drive the scripts. One thread per connection."""

import socket


class ReplyError(Exception):
    """An error reply; its text starts with Redis's error code."""


class Connection:
    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._socket.settimeout(30)
        self._in = self._socket.makefile("rb")

    def close(self):
        self._in.close()
        self._socket.close()

    def send(self, *args):
        parts = [b"*%d\r\n" % len(args)]
        for arg in args:
            raw = arg if isinstance(arg, bytes) else str(arg).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(raw), raw))
        self._socket.sendall(b"".join(parts))

    def receive(self):
        """The next reply; a nested error is returned, not raised, so that no reply is left half read."""
        line = self._in.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return ReplyError(rest.decode())
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._in.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.receive() for _ in range(int(rest))]
        raise ConnectionError(f"unknown reply type {kind!r}")

    def __call__(self, *args):
        self.send(*args)
        reply = self.receive()
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def pipeline(self, commands):
        for command in commands:
            self.send(*command)
        return [self.receive() for _ in commands]
