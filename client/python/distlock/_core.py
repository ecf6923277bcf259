# SPDX-License-Identifier: Apache-2.0
"""The inside of a client: the lock table, its streams, and the thread that wakes for deadlines, heartbeats and
reconnects.

1. What the program calls only queues (post): it takes no lock, so that it may be called at any moment, by any thread,
   and by what interrupts a thread inside it.
2. The table's turns are this package's threads': nothing of the program can interrupt one, or leave it half done. The
   mutex is theirs alone, and held neither across a gRPC operation nor a callback.
3. Commands that gather while a message is being written leave in the next one, together.
4. Callbacks of the program run on a thread of their own (callbacks), so that one that blocks costs no lock.
"""
import collections
import functools
import logging
import threading
import weakref
from typing import Any, Callable, Deque, Iterator, List, Optional, Tuple

from distlock import _channel, _fork, _process, _status
from distlock._calls import Calls
from distlock._clock import NEVER, SECOND
from distlock._lease import Effects, Lease, Link, Phase
from distlock._lock_table import CONNECT_TIMEOUT, TRY_PATIENCE, LockTable
from distlock._threads import Bell, Mailbox, OneThread, Worker, spawn
from distlock.errors import Refused
from distlock.types import Outcome
from distlock.v1 import lock_service_pb2 as wire

log = logging.getLogger("distlock")

PAUSE_WHILE_MOVING = SECOND // 5  # leases wait for a session that adopts them, and their last promises run out
CLOSE_PATIENCE = SECOND
LONG_WRITE = SECOND // 200  # then the timer's thread looks at what is queued


class Stream:
    """One Session call. gRPC takes its messages on a thread of its own, one at a time."""

    def __init__(self, core: "Core", link: Link, address: str) -> None:
        self.core, self.link, self.address = core, link, address
        self.bell = Bell()
        self.writing = 0  # since when; 0: it is not, and looks at what is queued before it waits
        self.ended = False
        self.call: Any = None

    def messages(self) -> Iterator[wire.SessionRequest]:
        # A half-close would count as a break: this goes on until the broker ends the call, or it is cancelled.
        while not self.ended:
            looks = self.link.heartbeat_due and self.link.authenticates
            token = self.core.addresses.bearer(self.address) if looks else None
            message = self.core.turn(functools.partial(self._pack, token))
            if message is not None:
                self.writing = self.core.clock()
                yield message
                self.writing = 0
            if message is None or not (self.core.inbox or self.link.ready()):
                self.bell.wait()

    def _pack(self, token: Optional[str], now: int, fx: Effects) -> Optional[wire.SessionRequest]:
        return None if self.over or self.link.said else self.core.table.pack(self.link, now, token)

    @property
    def over(self) -> bool:
        """The table has heard of its end."""
        return self.link.stream is not self

    def run(self) -> None:
        """On a thread of its own: reads until the call ends."""
        channel = None
        failure: Optional[Refused] = None
        try:
            channel = self.core.addresses.open(self.address)
            self.link.shown = self.core.addresses.bearer(self.address)
            self.call = _channel.open_session(channel, self.messages())
            for response in self.call:
                self.core.turn(functools.partial(self.core.on_response, self, response))
        except _channel.RpcError as error:
            failure = _status.refused(error, self.address)
        except Exception as error:
            log.exception("the session with %s ended by a defect", self.address)
            failure = Refused("UNREACHABLE", repr(error))
        self.end()
        self.core.turn(functools.partial(self.core.on_stream_end, self, failure))
        if channel is not None:
            channel.close()

    def end(self) -> None:
        self.ended = True
        self.bell.ring()

    def cancel(self) -> None:
        self.end()
        if self.call is not None:
            self.call.cancel()


class Core:
    """`on_draining(seconds)`: the broker goes down, and not all locks can follow to another one."""

    def __init__(self, addresses: _channel.Addresses, label: str, unreachable_after: Optional[int],
                 on_draining: Callable[[float], object], on_session: Callable[[str, str], object],
                 ends_with_process: bool) -> None:
        self.generation = _fork.generation
        self._ends_with_process = ends_with_process
        self.addresses, self.calls, self.clock = addresses, Calls(addresses), addresses.clock
        try_patience = CONNECT_TIMEOUT if _channel.starts_slowly() else TRY_PATIENCE
        self.table = LockTable(addresses.named, len(addresses.all), label, unreachable_after, try_patience)
        self.callbacks = Worker()
        self.table.tell_draining = lambda left: self.callbacks(functools.partial(on_draining, left / SECOND))
        self._on_session = on_session
        self.inbox: Deque[Tuple[Callable[..., object], Tuple[Any, ...]]] = collections.deque()
        self._mutex = threading.Lock()  # of the table, for this package's threads
        self._timer = OneThread(self._run, lambda: bool(self.inbox))
        self.mail = Mailbox()  # wakes the timer's thread, also with what has lost its owner
        self.owner: Any = None  # of the client
        self._armed = self._reconnect_at = 0  # when it wakes by itself; when it opens the next stream
        self._closed, self._closed_at = Bell(), NEVER
        self.when_drained: List[Callable[[], object]] = []  # added to in a turn
        _all.add(self)
        _fork.watch(self)

    def post(self, method: Callable[..., object], *values: Any) -> None:
        """Has `method(*values, now, fx)` called in the table's next turn."""
        self.inbox.append((method, values))
        stream: Optional[Stream] = self.table.link.stream
        if stream is not None and stream.link.opened and self.clock() - (stream.writing or NEVER) < LONG_WRITE:
            stream.bell.ring()
        else:
            self.mail.put(None)
        self._timer.ensure()

    def release(self, lease: Lease, tell: Optional[Callable[[Outcome], object]] = None) -> None:
        self.post(self.table.release, lease, tell)
        if lease.phase == Phase.HELD:
            self.table.leave_off(lease, self.clock())  # at once; the turn may come a little later
        lease.owner = None

    def held(self, lease: Lease) -> bool:
        """Compares the deadline with the clock, at this moment. What was lost once is lost."""
        if self.generation != _fork.generation or lease.phase != Phase.HELD or lease.ends:
            return False
        now = self.clock()
        if now < lease.deadline:
            return True
        if lease.conclude(*self.table.verdict(lease, now)):
            self.post(self.table.notice, lease)
        return False

    def after_fork(self) -> None:
        """In a child: nothing of this can be used, nor destroyed."""
        _fork.keep(self)

    def close(self, patience: float = 2 * CLOSE_PATIENCE / SECOND) -> None:
        """Gives all back and waits up to a second for the broker's answer."""
        self.post(self._close)
        if self._closed.wait(patience):
            self._closed.ring()  # for others that wait

    def turn(self, act: Callable[[int, Effects], Any]) -> Any:
        """Carries out what the program has asked for, then `act`, and tells what comes of it."""
        fx: Effects = []
        with self._mutex:
            now = self.clock()
            while self.inbox:
                method, values = self.inbox.popleft()
                method(*values, now, fx)
            result = act(now, fx)
            while self.when_drained and self.table.drained:
                fx.append((self.when_drained.pop(), ()))
            for stream in self._streams():
                if self.table.ready(stream.link):
                    stream.bell.ring()
            if self._due() < self._armed:
                self.mail.put(None)
        for callback, arguments in fx:
            try:
                callback(*arguments)
            except BaseException:  # also of sys.exit in a hook: this thread is not the program's
                log.exception("a callback failed")
        return result

    def _streams(self) -> List[Stream]:
        return [link.stream for link in self.table.links if link.stream is not None]

    def _due(self) -> int:
        due = min(self.table.wake, self._closed_at)
        return due if self.table.link.stream is not None else min(due, self._reconnect_at)

    def _run(self) -> None:
        while (wait := self.turn(self._tick)) >= 0:
            for owned in self.mail.get(min(wait, 3600)):
                if owned is not None:
                    owned.leave()

    def _tick(self, now: int, fx: Effects) -> float:
        """The timer's turn. Seconds until the next one; negative: never, this is closed."""
        table = self.table
        for stream in self._streams():
            if stream.link.lapsed(now):
                self._break(stream, "LAPSED", "the broker was not heard for the whole validity" if stream.link.opened
                            else "no answer to Open within the connect timeout", None, now, fx)
                fx.append((stream.cancel, ()))
        table.tick(now, fx)
        if table.closed and (now >= self._closed_at or not any(stream.link.opened for stream in self._streams())):
            # A stream that has not even answered the Open holds nothing.
            fx.extend((stream.cancel, ()) for stream in self._streams())
            fx.extend([(self._closed.ring, ()), (self.calls.close, ())])
            self._closed_at = NEVER
            _all.discard(self)
            return -1
        if table.link.stream is None and now >= self._reconnect_at:
            if any(stream.address == self.addresses.present for stream in self._streams()):
                self.addresses.next()  # the table has left that broker
            started = table.link.stream = Stream(self, table.link, self.addresses.present)
            table.start(now, fx, _process.claim(started.address) if self._ends_with_process else None)
            fx.append((spawn, (started.run,)))
        self._armed = self._due()
        return max(self._armed - now, 0) / SECOND

    def _close(self, now: int, fx: Effects) -> None:
        if not self.table.closed:
            self.table.close(now, fx)
            self._closed_at = now + CLOSE_PATIENCE
            self._reconnect_at = NEVER

    def _break(self, stream: Stream, cause: str, why: str, failure: Optional[Refused], now: int, fx: Effects) -> None:
        if stream.over:
            return
        stream.link.stream = None
        present = stream.link is self.table.link
        self.table.on_broken(stream.link, cause, why, failure, now, fx)
        if present and not self.table.closed:
            pause = self.addresses.pause_after(failure)
            hurry = self.table.moving or self.table.leftovers
            self._reconnect_at = now + (min(pause, PAUSE_WHILE_MOVING) if hurry else pause)
        self.mail.put(None)

    def on_response(self, stream: Stream, response: wire.SessionResponse, now: int, fx: Effects) -> None:
        if stream.over:
            return
        for event in response.events:
            self.table.on_event(stream.link, event, now, fx)
            if event.HasField("opened"):
                self.calls.prefer(stream.address)
                fx.append((self._on_session, ("opened", stream.address)))
        if stream.link is self.table.link and stream.link.session.last_acked > 0:
            self.addresses.succeed()

    def on_stream_end(self, stream: Stream, failure: Optional[Refused], now: int, fx: Effects) -> None:
        why = "the stream to the broker ended" + (f": {failure.message}" if failure is not None else "")
        cause = "LAPSED" if failure is not None and failure.reason == "LEASE_LOST" else "DISCONNECTED"
        self._break(stream, cause, why, failure, now, fx)
        fx.append((self._on_session, ("ended", stream.address)))


_all: "weakref.WeakSet[Core]" = weakref.WeakSet()


def close_all() -> None:
    """At the end of the process: gives all locks back."""
    for core in list(_all):
        if core.generation == _fork.generation:
            core.close()
