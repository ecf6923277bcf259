# SPDX-License-Identifier: Apache-2.0
"""A broker inside of a test's process, for programs that take locks. No daemon and no port; the client is the real one,
and so are its errors. Time stands still until the test moves it.

    from distlock.testing import Broker

    broker = Broker()
    mine, theirs = broker.client(), broker.client()
    with mine.lock("report") as held:
        with pytest.raises(distlock.Busy):
            theirs.lock("report", wait=0).acquire()
        broker.lose("report", "FORCED")            # held.is_held is False now, and on_loss was called
    broker.advance(60)                             # max_hold, lock_delay, min_hold and waits of other threads pass

A wait ends by advance(), or by a release, so let another thread or task do the waiting. Locks of every kind, elections,
inspect, list, watch(key) and check_token work as at a broker that serves fairly; detached leases and watch_locks are
refused.
"""
import functools
import threading
import weakref
from typing import Any, Dict, List, Optional, Tuple

from distlock import aio
from distlock._channel import Addresses, RpcError
from distlock._clock import SECOND
from distlock._core import Core, Stream
from distlock._lease import Effects
from distlock._relay import RelayError
from distlock._testing_channel import Answer, Call, Channel, InProcess
from distlock._testing_locks import VALIDITY, Locks, Name, Request, name_of
from distlock._threads import spawn
from distlock.client import Client
from distlock.types import Options
from distlock.v1 import lock_pb2, look_pb2
from distlock.v1 import lock_service_pb2 as wire

__all__ = ["Broker"]

BEAT = SECOND  # heartbeats come as often, so no step of time is longer
PATIENCE_S = 20  # for threads of this process
STOPPED = "failed to connect: the test has stopped the broker"


class Broker:
    """refusing: a reason, such as "STORE_UNAVAILABLE" or "QUOTA_EXCEEDED", for which each acquire is refused."""

    def __init__(self) -> None:
        self.refusing: Optional[str] = None
        self._frozen: Optional[List[Tuple[Call, wire.SessionCommand]]] = None  # what has come since freeze()
        self._turn = threading.Condition(threading.RLock())
        self._now = 1 << 50
        self._serving = True
        self._locks = Locks()
        self._calls: List[Call] = []  # that are not over
        self._clients: "weakref.WeakSet[Any]" = weakref.WeakSet()

    def client(self, options: Optional[Options] = None, **more: Any) -> Client:
        """A client for threads. more: label, unreachable_after, on_draining, observer, as of distlock.connect."""
        broker = self

        class Here(Client):
            def _addresses(self) -> Addresses:
                return broker._addresses()

        return self._made(Here, options, more)  # type: ignore[no-any-return]

    def aio_client(self, options: Optional[Options] = None, **more: Any) -> aio.Client:
        """A client for asyncio."""
        broker = self

        class Here(aio.Client):
            def _addresses(self) -> Addresses:
                return broker._addresses()

        return self._made(Here, options, more)  # type: ignore[no-any-return]

    def _addresses(self) -> Addresses:
        return InProcess(Channel(self._open, self._ask, self._watch), lambda: self._now)

    def _made(self, kind: Any, options: Optional[Options], more: Dict[str, Any]) -> Any:
        settings = {"label": None, "unreachable_after": None, "on_draining": None, "observer": None, **more}
        made = kind("memory:1", options=options or Options(), ends_with_process=False, **settings)
        self._clients.add(made)
        return made

    def advance(self, seconds: float) -> None:
        """Moves time on, and waits until clients have noticed. Not from a callback of a lock."""
        until = self._now + round(seconds * SECOND)
        self.settle()
        while self._now < until:
            with self._turn:
                self._now = min(until, self._now + BEAT, *(at for at in self._locks.times() if at > self._now))
                self._expire()
            self.settle()

    def lose(self, key: str, cause: str = "FORCED", namespace: str = "") -> None:
        """Takes the lock from all who hold it, and waits until they have noticed. cause: of LockLost, by a broker."""
        with self._turn:
            for lease in list(self._locks.lock((namespace or "default", key)).holders):
                self._locks.end(lease, cause, self._now)
            self._serve()
        self.settle()

    def stop(self) -> None:
        """No broker is there any more: streams break, and calls find nobody, until start()."""
        with self._turn:
            self._serving = False
            for call in list(self._calls):
                self._break(call, RelayError("UNAVAILABLE", STOPPED))
        self.settle()

    def start(self) -> None:
        """After stop(). Clients come back when they try again: advance(2)."""
        self._serving = True

    def freeze(self) -> None:
        """The broker stands still, and clients hear nothing until thaw(): their locks lapse after advance(3)."""
        with self._turn:
            self._frozen = []

    def thaw(self) -> None:
        """After freeze(): the broker goes on with what has come meanwhile."""
        with self._turn:
            missed, self._frozen = self._frozen or [], None
            for session, command in missed:
                if not session.over:
                    self._obey(session, command)
        self.settle()

    def await_waiting(self, key: str, count: int = 1, namespace: str = "") -> None:
        """Until so many wait for the lock, in other threads or tasks: advance() then moves their waits."""
        name = namespace or "default", key
        with self._turn:
            if not self._turn.wait_for(lambda: self._info(name).queue_length >= count, PATIENCE_S):
                raise AssertionError(f"{self._info(name).queue_length} wait for {key!r} instead of {count}")

    def _cores(self) -> List[Core]:
        return [core for client in list(self._clients) for core in list(client._cores.values())]

    def settle(self) -> None:
        """Waits until each client has told all, has heard all, and has called back. Leaving `with` does not wait: call
        this before another client tries to take the lock."""
        for core in self._cores():
            core.turn(core._tick)
            for stream in core._streams():
                self._await(stream, 0)  # it may be about to open
                self._await(stream, core.turn(functools.partial(self._beat, stream.link)))
            told = threading.Event()
            core.callbacks(told.set)
            told.wait(PATIENCE_S)

    def _await(self, stream: Stream, seq: int) -> None:
        """Until the stream's heartbeat has come, and its client has seen all that there was to see."""
        def seen() -> bool:
            call: Optional[Call] = stream.call
            return stream.over or call is not None and not call.over and call.idle and not call.outbox and (
                call.heard >= seq and (stream.link.opened or self._frozen is not None))

        for _ in range(PATIENCE_S * 100):
            with self._turn:
                if self._turn.wait_for(seen, 0.01):
                    return

    @staticmethod
    def _beat(link: Any, now: int, fx: Effects) -> int:
        """Has a heartbeat sent, behind all commands; its seq."""
        link.heartbeat_due = link.usable and link.opened
        return int(link.session.last_sent + 1) if link.heartbeat_due else 0

    # The commands of clients. All below runs under _turn.

    def _open(self, requests: Any) -> Call:
        with self._turn:
            if not self._serving:
                raise RelayError("UNAVAILABLE", STOPPED)
            call = self._call()
            spawn(lambda: call.read(requests, self._obey))
            return call

    def _call(self, name: Optional[Name] = None) -> Call:
        call = Call(self._turn, self._now, self._break, name)
        self._calls.append(call)
        return call

    def _obey(self, session: Call, command: wire.SessionCommand) -> None:
        kind = command.WhichOneof("command")
        if self._frozen is not None:
            session.heard = max(session.heard, command.heartbeat.seq)
            self._frozen.append((session, command))
        elif kind is not None:
            getattr(self, f"_on_{kind}")(session, command.id, getattr(command, kind))
            self._serve()

    def _on_open(self, session: Call, number: int, _: wire.OpenSession) -> None:
        opened = wire.SessionOpened(session_id="test", broker_id="test", max_message_bytes=1 << 20, max_leases=100_000,
                                    max_unanswered=4096, features=["permit", "adopt"])
        opened.validity.FromNanoseconds(VALIDITY)
        opened.heartbeat_interval.FromNanoseconds(BEAT)
        session.say(number, opened=opened)

    def _on_heartbeat(self, session: Call, _: int, beat: wire.Heartbeat) -> None:
        session.heard, session.heard_at = beat.seq, self._now
        ack = wire.HeartbeatAck(seq=beat.seq)
        ack.valid_for.FromNanoseconds(VALIDITY)
        for lease in self._locks.held_by(session):
            if lease.ends_at < self._now + VALIDITY:
                ack.limits.add(acquire_id=lease.number).valid_for.FromNanoseconds(lease.ends_at - self._now)
        session.say(heartbeat_ack=ack)

    def _on_acquire(self, session: Call, number: int, acquire: wire.AcquireLocks) -> None:
        request = Request(session, number, acquire, self._now)
        if self.refusing is not None:
            self._locks.refuse(request, self.refusing, "as the test says", self._now)
            return
        place = self._locks.join(request)
        self._serve()
        self._locks.keep_waiting(request, place, self._now)

    def _on_cancel(self, session: Call, _: int, cancel: wire.CancelAcquire) -> None:
        self._locks.cancel(session, cancel.acquire_id, self._now)

    def _on_release(self, session: Call, number: int, release: wire.ReleaseLease) -> None:
        outcome = self._locks.release(session, release, self._now)
        session.say(number, released=wire.LeaseReleased(outcome=outcome))

    def _on_downgrade(self, session: Call, number: int, downgrade: wire.DowngradeLease) -> None:
        if self._locks.downgrade(session, downgrade.acquire_id):
            session.say(number, downgraded=wire.LeaseDowngraded())
        else:
            session.say(number, refused=lock_pb2.Refusal(reason="REFUSAL_REASON_NOT_HOLDER"))

    def _on_adopt(self, session: Call, number: int, adopt: wire.AdoptLease) -> None:
        if not self._locks.adopt(session, number, adopt):
            session.say(number, refused=lock_pb2.Refusal(reason="REFUSAL_REASON_NOT_HOLDER", message="it is not held"))

    def _on_goodbye(self, session: Call, _: int, __: wire.Goodbye) -> None:
        self._locks.leave(session, self._now)
        self._calls.remove(session)
        session.end()

    def _break(self, call: Call, error: RpcError) -> None:
        if call.over:
            return
        self._calls.remove(call)
        call.end(error)
        self._locks.part(call, self._now)
        self._expire()

    def _expire(self) -> None:
        self._locks.expire(self._now)
        self._serve()

    def _serve(self) -> None:
        """Grants what can be granted, and tells those who watch."""
        self._locks.serve(self._now)
        for call in self._calls:
            if call.name is not None:
                state = look_pb2.WatchLockResponse(lock=self._info(call.name))
                if call.last != state:
                    call.last = state
                    call.put(state)

    # Looking.

    def _info(self, name: Name) -> lock_pb2.LockInfo:
        return self._locks.info(name, self._now)

    def _ask(self, method: str, request: Any) -> Answer:
        with self._turn:
            if not self._serving:
                return Answer(None, RelayError("UNAVAILABLE", STOPPED))
            if method == "GetLock":
                return Answer(look_pb2.GetLockResponse(lock=self._info(name_of(request))))
            if method == "ListLocks":
                return Answer(look_pb2.ListLocksResponse(locks=[
                    self._info(name) for name in self._locks.names()
                    if (request.namespace or "default") in ("-", name[0]) and name[1].startswith(request.key_prefix)]))
            if method == "CheckToken":
                newest = self._locks.lock(name_of(request)).token
                return Answer(look_pb2.CheckTokenResponse(newest=request.fencing_token >= newest))
            return Answer(None, RelayError("UNIMPLEMENTED", f"distlock.testing has no {method}"))

    def _watch(self, method: str, request: Any) -> Call:
        with self._turn:
            if method != "WatchLock" or not self._serving:
                raise RelayError("UNIMPLEMENTED" if self._serving else "UNAVAILABLE", f"{method}: not here")
            call = self._call(name_of(request))
            self._serve()
            return call
