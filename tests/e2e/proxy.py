# SPDX-License-Identifier: Apache-2.0
"""A proxy between two stream sockets that misbehaves on command: the network of the tests.

    with Proxy("unix:///tmp/x/redis.sock", folder) as net:
        start_daemon(redis=net.url)
        net.pause()                                   # bytes stop, the connection stays up
        net.drop_reply_after(b"EVALSHA").wait()       # the script runs, its reply never arrives

It runs in a thread of its own; every method may be called from any thread and has taken effect when it returns.
"""
import asyncio
import contextlib
import dataclasses
import os
import socket
import threading
import time

from proxy_link import BOTH, DOWN, PATIENCE_S, UP, Flow, Link, ReplyLoss, close


def parse(url):
    """(family, address) of unix:///path, unix:/path, host:port or redis://host:port."""
    if url.startswith("unix:"):
        path = url[len("unix:"):]
        return socket.AF_UNIX, path[2:] if path.startswith("//") else path
    host, _, port = url.split("://")[-1].rpartition(":")
    return socket.AF_INET, (host, int(port))


@dataclasses.dataclass
class Counters:
    accepted: int = 0
    open: int = 0
    unreachable: int = 0  # the target refused the connection; the client's was reset
    resets: int = 0       # connections that the proxy reset
    bytes_up: int = 0     # forwarded
    bytes_down: int = 0
    dropped_up: int = 0   # read and thrown away
    dropped_down: int = 0
    held: int = 0         # times that a pause kept bytes from being read
    delayed: int = 0      # reads that were forwarded later
    pieces: int = 0       # bytes that were sent one by one
    halved: int = 0       # half-closed connections


class Proxy:
    """Listens on `listen`, or on a new path in `folder` (target unix:) or a free port of 127.0.0.1 (else)."""

    def __init__(self, target, folder=None, listen=None):
        self.target = target
        self._family, self._target = parse(target)
        if listen is None:
            unix = self._family == socket.AF_UNIX
            listen = f"unix://{folder}/net-{os.urandom(4).hex()}.sock" if unix else "127.0.0.1:0"
        self._listen_family, self._listen = parse(listen)
        self._hold_address()
        self._changed = threading.Condition()
        self._counters = Counters()
        self._links = set()
        self._loss = None
        self._listener = None
        self._acceptor = None
        self._loop = asyncio.new_event_loop()
        self._flows = {UP: Flow(), DOWN: Flow()}
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._call(self._start_listening)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def url(self):
        """Where to connect, in the scheme of the target."""
        if self._listen_family == socket.AF_UNIX:
            return f"unix://{self._listen}"
        scheme, found, _ = self.target.rpartition("://")
        return f"{scheme}{found}{self._listen[0]}:{self._listen[1]}"

    # ---- Faults ----

    def pause(self, directions=BOTH):
        """Bytes stay with their sender; connections stay up, and new ones are accepted."""
        self._set(directions, lambda flow: flow.gate.clear())

    def resume(self, directions=BOTH):
        """Ends pause, drop, delay and split; bytes that pause held back are forwarded now."""
        def heal(flow):
            flow.dropping, flow.delay_s, flow.split = False, 0.0, False
            flow.gate.set()
        self._set(directions, heal)

    def hold(self):
        """Bytes of the present connections stay under way, while new connections flow. Returns how many there are."""
        return self._call(lambda: sum(1 for link in self._links if link.hold() is None))

    def let_arrive(self):
        """What hold() has kept arrives now, also from those who have closed their connections meanwhile."""
        self._call(lambda: [link.gate.set() for link in self._links])

    def drop(self, directions=BOTH):
        """Bytes are read and dropped, and their sender cannot know it. Reset the connections before going on."""
        self._set(directions, lambda flow: setattr(flow, "dropping", True))

    def delay(self, milliseconds, directions=BOTH):
        """Bytes arrive so much later, in order and without a limit of throughput."""
        self._set(directions, lambda flow: setattr(flow, "delay_s", milliseconds / 1000))

    def split(self, directions=BOTH):
        """Sends every byte by itself."""
        self._set(directions, lambda flow: setattr(flow, "split", True))

    def reset_all(self):
        """Ends all connections on both sides (TCP: by RST), and returns their number. New ones are accepted."""
        def reset():
            return sum(1 for link in list(self._links) if link.end(reset=True) is None)
        return self._call(reset)

    def half_close(self, direction):
        """The receiver of this direction reads the end of the stream; the other direction goes on."""
        def shut():
            for link in self._links:
                with contextlib.suppress(OSError):
                    link.ends[direction][1].shutdown(socket.SHUT_WR)
                    self._count("halved", 1)
        self._call(shut)

    def refuse_new(self):
        """The kernel refuses new connections, as if nobody listened; present ones go on."""
        self._call(self._stop_listening)

    def accept_new(self):
        self._call(self._start_listening)

    def drop_reply_after(self, request, reply=1):
        """The next connection on which `request` is seen forwards the request, has its reply swallowed until `reply` is
        seen, and is then reset. Each of the two is a number of bytes, bytes to search for, or a predicate over the
        bytes seen from now on. When replies to earlier requests may still arrive, `reply` must not match them."""
        rule = ReplyLoss(request, reply)
        self._call(lambda: setattr(self, "_loss", rule))
        return rule

    # ---- Observation ----

    def counters(self):
        with self._changed:
            return dataclasses.replace(self._counters)

    def wait_for(self, holds, what="the proxy's condition"):
        """Waits until holds(counters) is true, and returns them."""
        deadline = time.monotonic() + PATIENCE_S
        with self._changed:
            while not holds(self._counters):
                left = deadline - time.monotonic()
                assert left > 0, f"{what} did not come true within {PATIENCE_S} s: {self._counters}"
                self._changed.wait(left)
            return dataclasses.replace(self._counters)

    def close(self):
        if not self._thread.is_alive():
            return
        self._call(self._stop_listening)
        self.reset_all()
        asyncio.run_coroutine_threadsafe(self._end_tasks(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._address_holder:
            self._address_holder.close()
        if self._listen_family == socket.AF_UNIX:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._listen)

    # ---- Inside ----

    def _hold_address(self):
        """Reserves a TCP port also while nobody listens on it."""
        self._address_holder = None
        if self._listen_family == socket.AF_INET:
            self._address_holder = self._bound()
            self._listen = self._address_holder.getsockname()

    def _bound(self):
        sock = socket.socket(self._listen_family, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(self._listen)
        return sock

    def _call(self, work):
        """Runs `work` on the loop and returns its result."""
        async def run():
            return work()
        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE_S)

    async def _end_tasks(self):
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _set(self, directions, change):
        chosen = (directions,) if isinstance(directions, str) else directions
        self._call(lambda: [change(self._flows[direction]) for direction in chosen])

    def _count(self, what, number):
        with self._changed:
            setattr(self._counters, what, getattr(self._counters, what) + number)
            self._changed.notify_all()

    def _start_listening(self):
        if self._listener is not None:
            return
        if self._listen_family == socket.AF_UNIX:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._listen)
        self._listener = self._bound()
        self._listener.listen(1024)
        self._acceptor = self._loop.create_task(self._accept(self._listener))

    def _stop_listening(self):
        if self._listener is None:
            return
        self._acceptor.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        self._listener = None

    async def _accept(self, listener):
        while True:
            client, _ = await self._loop.sock_accept(listener)
            self._count("accepted", 1)
            self._loop.create_task(self._connect(client))

    async def _connect(self, client):
        target = socket.socket(self._family, socket.SOCK_STREAM)
        for sock in (client, target):
            sock.setblocking(False)
            if sock.family == socket.AF_INET:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await self._loop.sock_connect(target, self._target)
        except (OSError, asyncio.CancelledError):
            close(client, reset=True)
            target.close()
            self._count("unreachable", 1)
            return
        link = Link(self, client, target)
        self._links.add(link)
        self._count("open", 1)
        link.start()
