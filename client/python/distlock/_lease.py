# SPDX-License-Identifier: Apache-2.0
"""What the lock table keeps of a request, of each lock that it asks for, of a session, and of a lease that moves."""
from collections import deque
from enum import IntEnum
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from distlock._belief import SessionBelief
from distlock._clock import NEVER
from distlock._timeouts import Entry
from distlock.errors import Refused
from distlock.v1 import lock_pb2
from distlock.v1 import lock_service_pb2 as wire

# Callbacks to run when the table's mutex is free again.
Effects = List[Tuple[Callable[..., object], Tuple[Any, ...]]]

MOST_AHEAD = 256  # commands without any event, until the broker has said how many it takes
FIRST_MAX_BYTES = 64 << 10  # of a message, until the broker has said how many it takes
FRAME = 8  # tag and length of a command in its message, at most


class Phase(IntEnum):
    WAITING = 0  # not answered yet
    GRANTED = 1  # granted, but its deadline has passed already, or others of its request are missing
    HELD = 2  # the program has it
    ENDED = 3


class Request:
    """One acquire of one lock or of several, until its answer. `answer`: called once, with None or a Refused."""

    __slots__ = ("leases", "answer", "on_queued", "asked", "wait_until", "one_try", "stranded", "timeout", "link",
                 "turned_away", "bytes", "request_id")

    def __init__(self, asked: int, answer: Callable[[Optional[Refused]], object],
                 on_queued: Optional[Callable[[wire.AcquireQueued], object]]) -> None:
        self.leases: List[Lease] = []
        self.answer: Optional[Callable[[Optional[Refused]], object]] = answer
        self.on_queued = on_queued
        self.asked = asked
        self.wait_until = NEVER
        self.one_try = False
        self.stranded = NEVER  # since when no broker has this request; NEVER: one has
        self.timeout: Optional[Entry] = None  # when it is given up
        self.link: Optional[Link] = None  # the session it was sent through
        self.turned_away = False  # refused by a draining broker
        self.bytes = 0
        self.request_id = ""

    @property
    def first(self) -> int:
        return self.leases[0].id


class Lease:
    """One lock, from its request to its end. `on_end` are told once, when it ends after it was held."""

    __slots__ = ("id", "request", "spec", "phase", "deadline", "lease_id", "holder_id", "token", "hold_count", "waited",
                 "cause", "message", "risk", "downgraded", "mode_unsure", "stays", "link", "move", "limited_by",
                 "on_end", "held_at", "former", "crossed", "change")

    def __init__(self, lease_id: int, request: Request, spec: lock_pb2.LockSpec) -> None:
        self.id = lease_id
        self.request = request
        self.spec = spec
        self.phase = Phase.WAITING
        self.deadline = 0
        self.lease_id = self.holder_id = ""
        self.token = self.waited = self.held_at = 0
        self.hold_count = 1
        self.cause = ""  # how it ended; "": it has not
        self.message = ""
        self.risk: Optional[str] = None  # why renewals fail
        self.downgraded = self.mode_unsure = False
        self.stays = False  # no session can adopt it
        self.link: Optional[Link] = None  # the session that has it; None: its former promise is all that is left
        self.move: Optional[Move] = None
        self.limited_by = -1  # seq of the last ack whose limits named it
        self.on_end: List[Callable[[], object]] = []
        self.former: Optional[Link] = None  # of a waiting one: the session it has left, until the next has its place
        self.crossed = False  # that session has granted it: to be given back there
        self.change: Optional[Change] = None

    def same(self, other: "Lease") -> bool:
        """Two holds of one reentrant lease."""
        a, b = self.spec, other.spec
        return self is other or (a.reentrant and b.reentrant and self.token == other.token and a.key == b.key
                                 and a.namespace == b.namespace)


class Change:
    """What others are to see of a lease, until a session shows it. `told`: called once each."""

    def __init__(self, spec: lock_pb2.LockSpec) -> None:
        self.spec = spec
        self.sent: Optional[lock_pb2.LockSpec] = None  # by the adoption that is under way
        self.told: List[Callable[[Optional[Refused]], object]] = []


class Link:
    """A session with a broker, or the place for the next one; and the commands that it has not sent yet."""

    def __init__(self) -> None:
        self.commands: Deque[wire.SessionCommand] = deque()
        self.session = SessionBelief(0, 0)
        self.streaming = self.opened = self.acked = self.adopts = self.draining = self.leaving = False
        self.heartbeat_due = False
        self.validity = self.interval = 0
        self.heartbeat_at = self.drained_at = NEVER
        self.broker_id = ""
        self.max_bytes, self.most_ahead = FIRST_MAX_BYTES, MOST_AHEAD
        self._ahead: Dict[int, range] = {}  # of each id that a command without any event takes: all its ids
        self._commands_ahead = 0
        self.authenticates = False
        self.shown: Optional[str] = None  # the last token that the broker was shown, and has not refused
        self.proof = 0  # id of the command that brought it; 0: the call did

    def start(self, now: int, grace: int) -> None:
        self.commands.clear()
        self._ahead.clear()
        self.max_bytes, self.most_ahead, self._commands_ahead = FIRST_MAX_BYTES, MOST_AHEAD, 0
        self.authenticates, self.shown, self.proof = False, None, 0
        self.session = SessionBelief(now, grace)
        self.streaming = True
        self.opened = self.acked = self.adopts = self.draining = self.leaving = False
        self.heartbeat_due = False
        self.heartbeat_at = self.drained_at = NEVER

    def ready(self) -> bool:
        """Whether pack() has something."""
        return self.heartbeat_due or bool(self.commands) and self._may_send(self.commands[0])

    def _may_send(self, command: wire.SessionCommand) -> bool:
        return not self._counts(command) or self._commands_ahead < self.most_ahead

    @staticmethod
    def _counts(command: wire.SessionCommand) -> bool:
        return bool(command.id) and not command.HasField("open")

    def _sent(self, command: wire.SessionCommand) -> None:
        if not self._counts(command):
            return
        count = max(len(command.acquire.locks), command.adopt.hold_count, 1)
        ids = range(command.id, command.id + count)
        self._ahead.update(dict.fromkeys(ids, ids))
        self._commands_ahead += 1

    def say_goodbye(self) -> None:
        """Behind what may be sent now: with the session the broker frees what it has not heard of."""
        room = self.most_ahead - self._commands_ahead
        kept = [command for command in self.commands if not self._counts(command) or (room := room - 1) >= 0]
        self.commands.clear()
        self.commands.extend(kept)
        self.commands.append(wire.SessionCommand(goodbye=wire.Goodbye()))

    def answered(self, command: int) -> None:
        """An event has come under this id."""
        ids = self._ahead.get(command)
        if ids is not None:
            self._commands_ahead -= 1
            for one in ids:
                del self._ahead[one]

    def pack(self, now: int) -> Optional[wire.SessionRequest]:
        """The next message, or None. Takes the time of a heartbeat now, before the message is handed to gRPC."""
        if self.heartbeat_due:
            self.heartbeat_due = False
            beat = wire.Heartbeat(seq=self.session.send(now))
            self.commands.appendleft(wire.SessionCommand(heartbeat=beat))
            self.heartbeat_at = now + self.interval
        if not self.commands:
            return None
        message = wire.SessionRequest()
        left = self.max_bytes
        while self.commands and self._may_send(self.commands[0]):
            left -= self.commands[0].ByteSize() + FRAME
            if left < 0 and message.commands:
                break
            self._sent(self.commands[0])
            message.commands.append(self.commands.popleft())
        return message


class Move:
    """An adoption, from the first AdoptLease until it is answered. All holds of a reentrant lease move together."""

    __slots__ = ("request_id", "through", "id", "holds")

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id  # the same in every try: a try whose answer was lost may have succeeded
        self.through: Optional[Link] = None  # the session that was asked
        self.id = 0
        self.holds: List[Optional[Lease]] = []
