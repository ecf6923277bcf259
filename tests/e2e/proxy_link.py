# SPDX-License-Identifier: Apache-2.0
"""One connection through a Proxy, and what may befall its bytes."""
import asyncio
import contextlib
import socket
import struct
import threading

UP = "up"      # from the connecting side to the target
DOWN = "down"  # from the target to the connecting side
BOTH = (UP, DOWN)
PATIENCE_S = 60
CHUNK = 65536
CHUNKS_IN_FLIGHT = 256


class ReplyLoss:
    """A reply that will be lost. wait() returns the swallowed bytes when that has happened."""

    def __init__(self, request, reply):
        self.request, self.reply = _matcher(request), _matcher(reply)
        self.link = None  # the connection whose reply is being swallowed
        self.swallowed = b""
        self._done = threading.Event()

    def happened(self):
        return self._done.is_set()

    def wait(self, timeout=PATIENCE_S):
        assert self._done.wait(timeout), "no reply was lost: the request never came or was never answered"
        return self.swallowed


def _matcher(what):
    """A number of bytes, a piece of text, or a predicate over all bytes seen since the rule was set."""
    if callable(what):
        return what
    return (lambda seen: len(seen) >= what) if isinstance(what, int) else (lambda seen: what in seen)


class Flow:
    """The faults of one direction."""

    def __init__(self):
        self.gate = asyncio.Event()
        self.gate.set()
        self.dropping = False
        self.delay_s = 0.0
        self.split = False


class Link:
    """One connection through the proxy: two sockets, and for each direction a reader and a writer."""

    def __init__(self, proxy, client, target):
        self.proxy, self.loop = proxy, proxy._loop
        self.ends = {UP: (client, target), DOWN: (target, client)}
        self.seen = bytearray()  # upwards, since the armed ReplyLoss was set
        self.seen_rule = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_late = False  # was held: what it has goes on to the target also when its client is gone
        self.tasks = []
        self.unfinished = len(BOTH)

    def start(self):
        for direction in BOTH:
            queue = asyncio.Queue(CHUNKS_IN_FLIGHT)
            self.tasks.append(self.loop.create_task(self._guard(self._read(direction, queue))))
            self.tasks.append(self.loop.create_task(self._guard(self._write(direction, queue))))

    async def _guard(self, work):
        try:
            await work
        except OSError:
            self.end(reset=True)  # passes the error on to the other side

    async def _pass(self, flow):
        """While paused, bytes stay with their sender."""
        for gate in (flow.gate, self.gate):
            if not gate.is_set():
                self.proxy._count("held", 1)
                await gate.wait()

    def hold(self):
        self.is_late = True
        self.gate.clear()

    async def _read(self, direction, queue):
        flow, source = self.proxy._flows[direction], self.ends[direction][0]
        while True:
            await self._pass(flow)
            try:
                data = await self.loop.sock_recv(source, CHUNK)
            except OSError:
                if not self.is_late:
                    raise
                data = b""
            if flow.delay_s:
                self.proxy._count("delayed", 1)
            await queue.put((self.loop.time() + flow.delay_s, data))
            if not data:
                return

    async def _write(self, direction, queue):
        flow, sink = self.proxy._flows[direction], self.ends[direction][1]
        while True:
            due, data = await queue.get()
            if due > self.loop.time():
                await asyncio.sleep(due - self.loop.time())
            await self._pass(flow)
            if not data:
                break
            if flow.dropping or self._swallows(direction, data):
                self.proxy._count("dropped_" + direction, len(data))
                continue
            try:
                await self._send(direction, sink, data, flow.split)
            except OSError:
                if not self.is_late or direction == UP:
                    raise
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        self.unfinished -= 1
        if self.unfinished == 0:
            self.end(reset=False)

    async def _send(self, direction, sink, data, split):
        for piece in (data[i:i + 1] for i in range(len(data))) if split else (data,):
            await self.loop.sock_sendall(sink, piece)
            self.proxy._count("bytes_" + direction, len(piece))
            if split:
                self.proxy._count("pieces", 1)
                await asyncio.sleep(0)

    def _swallows(self, direction, data):
        rule = self.proxy._loss
        if rule is None:
            return False
        if direction == UP:
            # Checked before the request leaves, so that the proxy cannot miss its reply.
            if self.seen_rule is not rule:
                self.seen, self.seen_rule = bytearray(), rule
            self.seen += data
            if rule.link is None and rule.request(bytes(self.seen)):
                rule.link = self
            return False
        if rule.link is not self:
            return False
        rule.swallowed += data
        if rule.reply(rule.swallowed):
            self.proxy._loss = None
            self.end(reset=True)
            rule._done.set()
        return True

    def end(self, reset):
        if self not in self.proxy._links:
            return
        self.proxy._links.remove(self)
        if (rule := self.proxy._loss) and rule.link is self:
            rule.link, rule.swallowed = None, b""  # this connection got no reply: the next connection's will be lost
        for task in self.tasks:
            if task is not asyncio.current_task():
                task.cancel()
        for end, _ in self.ends.values():
            # Before the kernel can give the descriptor to another connection.
            self.loop.remove_reader(end)
            self.loop.remove_writer(end)
            close(end, reset)
        self.proxy._count("resets", int(reset))
        self.proxy._count("open", -1)


def close(sock, reset):
    """A unix socket has no reset: its peer reads the end of the stream, or ECONNRESET if it had sent unread bytes."""
    with contextlib.suppress(OSError):
        if reset and sock.family == socket.AF_INET:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
