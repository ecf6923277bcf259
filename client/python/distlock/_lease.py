# SPDX-License-Identifier: Apache-2.0
"""What the lock table keeps of a request, of each lock that it asks for, and of a session with a broker.

A request's locks are WAITING, then GRANTED, HELD and ENDED. A HELD lock has a session (`link`), or moves to one
(`to_id`), or both; without either it is believed in until its deadline, and asked for again. A waiting one has a
session, or is `stranded`, or has left a `former` one. There are two links, each with a stream or none: new acquires go
through the present one. When its broker drains and another is known, the other link becomes the present one, and leases
follow by adoption."""
import itertools
from collections import deque
from enum import IntEnum
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple

from distlock._clock import NEVER, SECOND
from distlock.errors import Refused
from distlock.types import Outcome
from distlock.v1 import lock_pb2
from distlock.v1 import lock_service_pb2 as wire

# Callbacks to run when the table is left: what it tells the program.
Effects = List[Tuple[Callable[..., object], Tuple[Any, ...]]]

MOST_AHEAD = 256  # commands without any event, until the broker has said how many it takes
FIRST_MAX_BYTES = 64 << 10  # of a message, until the broker has said how many it takes
FRAME = 8  # tag and length of a command in its message, at most
REMEMBERED = 64  # heartbeats whose sending times are kept
LEAST_PAUSE = SECOND // 100
GIVEN_BACK = "GIVEN_BACK"


class Phase(IntEnum):
    WAITING = 0  # not answered yet; a refusal, timeout or cancel answers the request, and ends all of its locks
    GRANTED = 1  # granted, but its deadline has passed already, or others of its request are missing
    HELD = 2  # the program has it, until it is released or lost
    ENDED = 3  # in the table no more; a Return follows its way back until a session has answered


class Request:
    """One acquire of one lock or of several, until its answer. wait: nanoseconds; 0: one try; None: until granted.
    `answer`: called once, with None or a Refused."""

    __slots__ = ("leases", "wait", "answer", "on_queued", "asked", "wait_until", "stranded", "turned_away", "bytes",
                 "request_id", "owner", "answered")

    def __init__(self, specs: Sequence[lock_pb2.LockSpec], wait: Optional[int],
                 answer: Callable[[Optional[Refused]], object],
                 on_queued: Optional[Callable[[wire.AcquireQueued], object]] = None) -> None:
        self.leases = [Lease(self, spec) for spec in specs]
        self.wait, self.on_queued, self.answer, self.answered = wait, on_queued, answer, False
        self.asked, self.wait_until = 0, NEVER
        self.stranded = NEVER  # since when no broker has this request; NEVER: one has
        self.turned_away = False  # refused by a draining broker
        self.bytes = 64 + sum(spec.ByteSize() + 3 * FRAME for spec in specs)  # with their max_wait
        self.owner: Any = None  # of its claim
        self.request_id = ""  # of its place in the queue; one try has none

    @property
    def link(self) -> "Optional[Link]":
        """The session it was sent through, until it is answered."""
        return self.leases[0].link

    def unsend(self) -> None:
        for lease in self.leases:
            lease.phase, lease.link = Phase.WAITING, None


class Change:
    """What others are to see of a held lease, until an adoption in its session shows it."""

    def __init__(self) -> None:
        self.spec = lock_pb2.LockSpec()
        self.sent: Optional[lock_pb2.LockSpec] = None  # by the adoption that is under way
        self.told: List[Callable[[Optional[Refused]], object]] = []


class Lease:
    """One lock, from its request to its end. All but `ends` and `on_end` is the table's; others may read it."""

    __slots__ = ("id", "request", "spec", "phase", "deadline", "ends", "on_end", "lease_id", "holder_id", "token",
                 "hold_count", "waited", "risk", "downgraded", "mode_unsure", "downgrades", "downgrading", "stays",
                 "link", "store", "to_id", "move_key", "former", "crossed", "change", "owner")

    def __init__(self, request: Request, spec: lock_pb2.LockSpec) -> None:
        self.id = self.deadline = self.token = self.waited = 0
        self.request, self.spec = request, spec
        self.phase = Phase.WAITING
        self.ends: List[Tuple[str, str]] = []  # how it ended: only the first one counts
        self.on_end: List[Callable[[], object]] = []  # told once, when it is lost after it was held
        self.lease_id = self.holder_id = ""
        self.hold_count = 1
        self.risk: Optional[str] = None  # why renewals fail
        self.downgraded = self.mode_unsure = False
        self.downgrades: List[Callable[[Optional[Refused]], object]] = []  # to be sent when it has arrived
        self.downgrading = 0  # sent, not answered
        self.stays = False  # no session can adopt it
        self.link: Optional[Link] = None  # the session that has it; None: its former promise is all that is left
        self.store = ""  # of the session that had it last
        self.to_id, self.move_key = 0, ""  # of its last adoption; the key is kept until one has succeeded
        self.former: Optional[Link] = None  # of a waiting one: the session it has left, until the next has its place
        self.crossed = False  # that session has granted it: to be given back there
        self.change: Optional[Change] = None
        self.owner: Any = None  # of its handle

    def conclude(self, cause: str, message: str = "") -> bool:
        """Ends belief for good. Any thread, at any moment. False: it had ended before."""
        end = (cause, message)
        self.ends.append(end)
        return self.ends[0] is end

    def leave_former(self) -> None:
        """The session that it has left matters no more."""
        self.former, self.crossed = None, False

    @property
    def cause(self) -> str:
        return self.ends[0][0] if self.ends else ""

    @property
    def message(self) -> str:
        return self.ends[0][1] if self.ends else ""

    @property
    def grant(self) -> Any:
        """What the holds of one reentrant lease have in common; of another lease, itself."""
        return (self.token, self.spec.namespace, self.spec.key) if self.spec.reentrant else self


class Return:
    """A lease on its way back: released in each session that may have it. Without an answer, a later session adopts it
    under `key`, and releases it then. `tell` hears the outcome when all have answered."""

    def __init__(self, lease: Lease, tell: Optional[Callable[[Outcome], object]] = None) -> None:
        self.lease, self.tell, self.key = lease, tell, lease.move_key
        self.lapsed = lease.cause not in ("", GIVEN_BACK)
        self.missing, self.broken, self.outcome = 0, False, Outcome.ALREADY_GONE  # broken: a stream, without an answer


class SessionBelief:
    """Until when one session may be believed in, from its Open (heartbeat 0) to its end. `grace`: how long the broker
    has to answer the Open."""

    def __init__(self, now: int, grace: int) -> None:
        self._sent = {0: now}
        self.last_sent, self.last_sent_at, self.last_acked = 0, now, -1
        self.deadline = now + grace  # the broker has given the session up then, too; one that has passed stays

    @property
    def unanswered(self) -> bool:
        return self.last_sent > max(self.last_acked, 0)

    def send(self, now: int) -> int:
        """A heartbeat is about to be handed to gRPC; its seq."""
        self._sent[self.last_sent + 1] = self.last_sent_at = now
        self._sent.pop(self.last_sent + 1 - REMEMBERED, None)
        self.last_sent += 1
        return self.last_sent

    def deadline_of(self, seq: int, valid_for: int) -> int:
        """The deadline of a promise that answers heartbeat `seq`; 0 for one that is forgotten or was never sent."""
        sent = self._sent.get(seq)
        return 0 if sent is None else sent + valid_for

    def ack(self, seq: int, promised: int, now: int) -> bool:
        """Takes the promise that answers heartbeat `seq`. Whether it extends anything."""
        if now >= self.deadline or promised == 0 or seq <= self.last_acked:
            return False
        # The grace of the Open is no promise: the first answer replaces it.
        self.deadline = promised if self.last_acked < 0 else max(self.deadline, promised)
        self.last_acked = seq
        return True

    def overdue(self, deadline: int, now: int) -> bool:
        """Whether the oldest unanswered heartbeat has waited for half of what was left then until `deadline`. Only
        reads, and may be asked outside."""
        since = self._sent.get(max(self.last_acked + 1, 1, self.last_sent - REMEMBERED + 1), now)
        return self.unanswered and now - since >= (deadline - since) // 2


class Link:
    """A session with a broker, and the commands that it has not been told yet. `stream`: of whoever carries it."""

    def __init__(self) -> None:
        self.stream: Any = None
        self.reset()

    def reset(self, now: int = 0, grace: int = 0, streaming: bool = False) -> None:
        """For the next session; streaming: which begins now."""
        self.commands: Deque[wire.SessionCommand] = deque()
        self._ahead: Dict[int, range] = {}  # the unanswered commands, by each of their ids
        self._commands_ahead = 0
        self.most_ahead, self.max_bytes = MOST_AHEAD, FIRST_MAX_BYTES
        self.validity = self.interval = 0
        self.store = ""  # the id of the broker's store; "": not known
        self.shown: Optional[str] = None  # the token that the broker was told
        self.session = SessionBelief(now, grace)
        self.streaming = streaming
        self.opened = self.adopts = self.authenticates = self.draining = self.leaving = self.heartbeat_due = False
        self.heartbeat_at = self.drained_at = NEVER

    @property
    def usable(self) -> bool:
        """Whether commands may be added."""
        return self.streaming and not self.leaving

    @property
    def said(self) -> bool:
        """The goodbye has left: nothing may be sent any more."""
        return self.leaving and not self.commands

    def lapsed(self, now: int) -> bool:
        """The broker has not been heard for too long: the stream must be ended."""
        return self.streaming and now >= self.session.deadline

    def add(self, command: wire.SessionCommand) -> None:
        """Nothing follows the goodbye."""
        if not self.leaving:
            self.commands.append(command)

    def goodbye(self) -> None:
        """Behind what may be sent now: with the session the broker frees what it has not heard of."""
        self.commands = deque(itertools.islice(self.commands, max(self.most_ahead - self._commands_ahead, 0)))
        self.add(wire.SessionCommand(goodbye=wire.Goodbye()))
        self.leaving, self.heartbeat_due, self.heartbeat_at = True, False, NEVER

    def beat_before_half(self, deadline: int, now: int, granted: bool = False) -> None:
        """Sees that a heartbeat leaves before half of what is left until `deadline` is gone; at once for what was
        granted until then, when that is short. There a recent one that is not answered yet is enough."""
        if self.leaving:
            return
        recent = self.session.unanswered and now - self.session.last_sent_at < self.validity // 6
        if granted and not recent and deadline - now < self.validity // 2:
            self.heartbeat_due = True
        if now < deadline:
            self.heartbeat_at = min(self.heartbeat_at, now + max((deadline - now) // 2, LEAST_PAUSE))

    def ready(self) -> bool:
        """Whether pack() has something."""
        return self.heartbeat_due or bool(self.commands) and self._may_send(self.commands[0])

    def _may_send(self, command: wire.SessionCommand) -> bool:
        return self._commands_ahead < self.most_ahead or not self._counts(command)

    @staticmethod
    def _counts(command: wire.SessionCommand) -> bool:
        return bool(command.id) and not command.HasField("open")

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
            self.commands.appendleft(wire.SessionCommand(heartbeat=wire.Heartbeat(seq=self.session.send(now))))
            self.heartbeat_due, self.heartbeat_at = False, now + self.interval
        message, left = wire.SessionRequest(), self.max_bytes
        while self.commands and self._may_send(self.commands[0]):
            command = self.commands[0]
            left -= command.ByteSize() + FRAME
            if left < 0 and message.commands:
                break
            if self._counts(command):
                count = max(len(command.acquire.locks), command.adopt.hold_count, 1)
                ids = range(command.id, command.id + count)
                self._ahead.update(dict.fromkeys(ids, ids))
                self._commands_ahead += 1
            message.commands.append(self.commands.popleft())
        return message if message.commands else None
