# SPDX-License-Identifier: Apache-2.0
"""The inside of a client: the lock table under one mutex, its streams, and the thread that wakes for deadlines,
heartbeats and reconnects. Each call changes the table under the mutex, then runs the callbacks that this led to.

1. The mutex is never held across a gRPC operation or a callback.
2. Commands that gather while a message is being written leave in the next one, together.
3. Callbacks of the program run on a thread of their own (Core.tell), so that one that blocks costs no lock.
"""
import logging
import queue
import random
import threading
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from distlock import _bearer, _channel, _fork, _process, _status
from distlock._clock import NEVER, SECOND
from distlock._clock import now as clock
from distlock._lease import Effects, Lease, Link, Phase, Request
from distlock._lock_table import LockTable
from distlock.errors import ClientClosed, Refused
from distlock.types import Outcome
from distlock.v1 import lock_pb2
from distlock.v1 import lock_service_pb2 as wire

log = logging.getLogger("distlock")

RECONNECT_INITIAL = SECOND // 50
RECONNECT_MAX = 2 * SECOND
CONNECT_TIMEOUT = 5 * SECOND
PAUSE_WHILE_MOVING = SECOND // 5  # leases wait for a session that adopts them, and their last promises run out
CLOSE_PATIENCE_S = 1.0


class Stream:
    """One Session call. gRPC takes its messages on a thread of its own, one at a time."""

    def __init__(self, core: "Core", link: Link, address: str) -> None:
        self.core, self.link, self.address = core, link, address
        self.more = threading.Condition(core.mutex)
        self.over = False  # the table has heard of its end
        self.ended = threading.Event()
        self.call: Any = None

    def messages(self) -> Iterator[wire.SessionRequest]:
        table = self.core.table
        while True:
            with self.core.mutex:
                while not self.over and not table.ready(self.link):
                    self.more.wait()
                looks = self.link.heartbeat_due and self.link.authenticates
            token = _bearer.bearer(self.address) if looks else None
            with self.core.mutex:
                message = None if self.over else table.pack(self.link, clock(), token)
                leaving = self.link.leaving and not self.link.commands
                self.core.arm()
            if message is not None:
                yield message
            if self.over or leaving:
                break
        # A half-close would count as a break: the call goes on until the broker ends it, or it is cancelled.
        self.ended.wait()

    def run(self) -> None:
        """On a thread of its own: reads until the call ends."""
        channel = None
        failure: Optional[Refused] = None
        try:
            channel = _channel.open_channel(self.address)
            self.link.shown = _bearer.bearer(self.address)
            self.call = _channel.open_session(channel, self.messages())
            for response in self.call:
                self.core.on_response(self, response)
        except _channel.RpcError as error:
            failure = _status.refused(error, self.address)
        except Exception as error:
            log.exception("the session with %s ended by a defect", self.address)
            failure = Refused("UNREACHABLE", repr(error))
        self.ended.set()
        self.core.on_stream_end(self, failure)
        if channel is not None:
            channel.close()

    def cancel(self) -> None:
        self.ended.set()
        if self.call is not None:
            self.call.cancel()


class Core:
    """`on_draining(seconds)`: the broker goes down, and not all locks can follow to another one."""

    def __init__(self, address: str, label: str, unreachable_after: Optional[int],
                 on_draining: Optional[Callable[[float], object]] = None,
                 on_session: Optional[Callable[[str, str], object]] = None, ends_with_process: bool = True) -> None:
        self.generation = _fork.generation
        self._ends_with_process = ends_with_process
        self.mutex = threading.Lock()
        self.addresses = _channel.Addresses(address)
        self.table = LockTable(address, len(self.addresses.all), label, unreachable_after, CONNECT_TIMEOUT)
        if _channel.starts_slowly():
            self.table.try_patience = CONNECT_TIMEOUT
        self.on_draining, self.on_session = on_draining, on_session
        self._timer = threading.Condition(self.mutex)
        self._streams: List[Optional[Stream]] = [None, None]
        self._present = 0
        self._reconnect_at = 0
        self._bound = RECONNECT_INITIAL
        self._armed = NEVER
        self._closing = False
        self._told: "queue.SimpleQueue[Optional[Callable[[], object]]]" = queue.SimpleQueue()
        self._teller: Optional[threading.Thread] = None
        self._lookup: Any = None
        self.lookup_address = ""
        _all.add(self)
        _fork.watch(self)
        self._thread = self._spawn(self._run, "distlock-timer")

    @staticmethod
    def _spawn(run: Callable[[], object], name: str) -> threading.Thread:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    # Calls of the program. Any thread.

    def acquire(self, specs: Sequence[lock_pb2.LockSpec], wait: Optional[int],
                answer: Callable[[Optional[Refused]], object],
                on_queued: Optional[Callable[[wire.AcquireQueued], object]] = None) -> Request:
        fx: Effects = []
        with self.mutex:
            request = self.table.acquire(specs, wait, clock(), answer, fx, on_queued)
            self._flush()
        self._run_callbacks(fx)
        return request

    def cancel(self, request: Request) -> None:
        """Gives a request up, also when it is granted at this moment."""
        fx: Effects = []
        with self.mutex:
            if request.answer is None:
                for lease in request.leases:
                    self.table.release(lease, None, clock(), fx)
            else:
                self.table.cancel(request, fx)
            self._flush()
        self._run_callbacks(fx)

    def release(self, lease: Lease, tell: Optional[Callable[[Outcome], object]] = None) -> None:
        fx: Effects = []
        with self.mutex:
            self.table.release(lease, tell, clock(), fx)
            self._flush()
        if fx:
            self._run_callbacks(fx)

    def downgrade(self, lease: Lease, tell: Callable[[Optional[Refused]], object]) -> None:
        fx: Effects = []
        with self.mutex:
            self.table.downgrade(lease, tell, fx)
            self._flush()
        self._run_callbacks(fx)

    def proclaim(self, lease: Lease, metadata: Dict[str, str], tell: Callable[[Optional[Refused]], object]) -> None:
        fx: Effects = []
        with self.mutex:
            self.table.proclaim(lease, metadata, tell, clock(), fx)
            self._flush()
        self._run_callbacks(fx)

    def held(self, lease: Lease) -> bool:
        """Compares the deadline with the clock, at this moment."""
        if self.generation != _fork.generation:
            return False
        if lease.phase != Phase.HELD or clock() < lease.deadline:
            return lease.phase == Phase.HELD
        fx: Effects = []
        with self.mutex:
            # Under the mutex, so that an ack of this moment cannot extend a lease that is reported as lost.
            held = self.table.notice(lease, clock(), fx)
            self._flush()
        self._run_callbacks(fx)
        return held

    def at_risk(self, lease: Lease) -> bool:
        """Whether it is held, and may soon not be."""
        if not self.held(lease):
            return False
        with self.mutex:
            return self.table.at_risk(lease, clock())

    def tell(self, callback: Callable[[], object]) -> None:
        """Runs a callback of the program on the thread for those."""
        if self.generation != _fork.generation:  # a child of fork has neither that thread nor the use of the mutex
            self._spawn(callback, "distlock-callback")
            return
        with self.mutex:
            if self._teller is None:
                self._teller = self._spawn(self._run_told, "distlock-callbacks")
        self._told.put(callback)

    def lookup(self) -> Any:
        """The channel for calls that are no session."""
        with self.mutex:
            if self._closing:
                raise ClientClosed("the client was closed")
            if self._lookup is None:
                self.lookup_address = self.lookup_address or self.addresses.present
                self._lookup = _channel.open_channel(self.lookup_address)
            return self._lookup

    def next_lookup(self, failed: Any) -> None:
        """That channel's broker did not answer: the next call goes to another one."""
        with self.mutex:
            if self._lookup is failed:
                every = self.addresses.all
                self.lookup_address = every[(every.index(self.lookup_address) + 1) % len(every)]
                self._lookup = None
        failed.close()

    @property
    def connected(self) -> bool:
        return self.table.link.opened

    def after_fork(self) -> None:
        """In a child: nothing of this can be used, nor destroyed."""
        _fork.keep(self)

    def close(self) -> None:
        """Gives all back and waits up to a second for the broker's answer."""
        fx: Effects = []
        with self.mutex:
            if self._closing:
                return
            self._closing = True
            self.table.close(clock(), fx)
            self._flush()
            self._timer.notify()
            streams = [stream for stream in self._streams if stream is not None]
            lookup, self._lookup = self._lookup, None
        self._run_callbacks(fx)
        for stream in streams:
            if stream.link.opened:  # one that has not even answered the Open holds nothing
                stream.ended.wait(CLOSE_PATIENCE_S)
            stream.cancel()
        if lookup is not None:
            lookup.close()
        self._told.put(None)
        _all.discard(self)

    # Under the mutex.

    def _flush(self) -> None:
        for stream in self._streams:
            if stream is not None and self.table.ready(stream.link):
                stream.more.notify()
        self.arm()

    def arm(self) -> None:
        due = self.table.wake
        if self._streams[self._present] is None:
            due = min(due, self._reconnect_at)
        if due < self._armed or self.table.present != self._present or self.table.draining_for is not None:
            self._timer.notify()

    def _follow_table(self) -> None:
        """Goes on with the next broker, at once, when the table has left the present one."""
        if self.table.present != self._present:
            self._present = self.table.present
            self.addresses.next()
            self._reconnect_at = 0

    def _break(self, stream: Stream, cause: str, why: str, failure: Optional[Refused], fx: Effects) -> None:
        if stream.over:
            return
        stream.over = True
        stream.more.notify()
        self.table.on_broken(stream.link, cause, why, clock(), fx)
        index = self.table.links.index(stream.link)
        self._streams[index] = None
        if index == self._present:
            self._plan_reconnect(failure)

    def _plan_reconnect(self, failure: Optional[Refused]) -> None:
        self._reconnect_at = 0
        another_may_do = failure is None or failure.reason in ("UNREACHABLE", "DRAINING")
        if not self.addresses.next() or not another_may_do:
            pause = round(random.uniform(0, self._bound))
            if failure is not None and failure.retry_after:
                pause += min(round(failure.retry_after * SECOND), RECONNECT_MAX)
            self._bound = min(2 * self._bound, RECONNECT_MAX)
            if self.table.moving:
                pause = min(pause, PAUSE_WHILE_MOVING)
            self._reconnect_at = clock() + pause

    # Events.

    def on_response(self, stream: Stream, response: wire.SessionResponse) -> None:
        fx: Effects = []
        with self.mutex:
            if stream.over:
                return
            table, link, now = self.table, stream.link, clock()
            was_open = link.opened
            for event in response.events:
                table.on_event(link, event, now, fx)
            if link is table.link and link.acked:
                self._bound = RECONNECT_INITIAL
                self.addresses.succeed()
            if link.opened and not was_open:
                self.lookup_address = stream.address
                if self.on_session is not None:
                    fx.append((self.on_session, ("opened", stream.address)))
            self._flush()
        self._run_callbacks(fx)

    def on_stream_end(self, stream: Stream, failure: Optional[Refused]) -> None:
        fx: Effects = []
        with self.mutex:
            why = "the stream to the broker ended" + (f": {failure.message}" if failure is not None else "")
            cause = "LAPSED" if failure is not None and failure.reason == "LEASE_LOST" else "DISCONNECTED"
            known = stream.over
            self._break(stream, cause, why, failure, fx)
            if failure is not None and not known:
                self.table.on_status(failure, fx)
            if self.on_session is not None:
                fx.append((self.on_session, ("ended", stream.address)))
            self._flush()
            self._timer.notify()
        self._run_callbacks(fx)

    def _run(self) -> None:
        while True:
            fx: Effects = []
            lapsed: List[Stream] = []
            started: Optional[Stream] = None
            with self.mutex:
                due = self.table.wake
                if self._streams[self._present] is None and not self._closing:
                    due = min(due, self._reconnect_at)
                self._armed = due
                now = clock()
                if due > now and self.table.present == self._present and not self._closing:
                    self._timer.wait(min((due - now) / SECOND, 3600))
                self._armed = 0  # whatever comes now is looked at before the next wait
                now = clock()
                for stream in self._streams:
                    if stream is not None and self.table.lapsed(stream.link, now):
                        heard = "the broker was not heard for the whole validity"
                        self._break(stream, "LAPSED", heard if stream.link.opened else
                                    "no answer to Open within the connect timeout", None, fx)
                        lapsed.append(stream)
                self.table.tick(now, fx)
                self._follow_table()
                if self._streams[self._present] is None and now >= self._reconnect_at and not self._closing:
                    started = Stream(self, self.table.link, self.addresses.present)
                    self._streams[self._present] = started
                    claim = _process.claim(started.address) if self._ends_with_process else None
                    self.table.start(now, fx, claim)
                draining, self.table.draining_for = self.table.draining_for, None
                self._flush()
                closing = self._closing
            for stream in lapsed:
                stream.cancel()
            if started is not None:
                self._spawn(started.run, "distlock-session")
            if draining is not None and self.on_draining is not None:
                told = self.on_draining
                seconds = draining / SECOND
                self.tell(lambda told=told, seconds=seconds: told(seconds))  # type: ignore[misc]
            self._run_callbacks(fx)
            if closing:
                return

    def _run_told(self) -> None:
        while True:
            callback = self._told.get()
            if callback is None:
                return
            try:
                callback()
            except Exception:
                log.exception("a callback failed")

    def _run_callbacks(self, fx: Effects) -> None:
        for callback, values in fx:
            try:
                callback(*values)
            except Exception:
                log.exception("a callback failed")


_all: "weakref.WeakSet[Core]" = weakref.WeakSet()


def close_all() -> None:
    """At the end of the process: gives all locks back."""
    for core in list(_all):
        if core.generation == _fork.generation:
            core.close()
