# SPDX-License-Identifier: Apache-2.0
"""What the lock table keeps of a request, of each lock that it asks for, and of a session with a broker.

A request's locks are WAITING, then GRANTED, HELD and ENDED. A HELD lock has a session (`link`), or moves to one (`to`),
or both; without either it is believed in until its deadline, and asked for again. A waiting one has a session, or is
`stranded`, or has left a `former` one. There are two links, each with a stream or none: new acquires go through the
present one. When its broker drains and another is known, the other link becomes the present one, and leases follow by
adoption."""
import heapq
import itertools
from collections import OrderedDict, deque
from enum import IntEnum
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple

from distlock._clock import NEVER
from distlock.errors import Refused
from distlock.types import Outcome
from distlock.v1 import lock_pb2
from distlock.v1 import lock_service_pb2 as wire

# Callbacks to run when the table is left: what it tells the program.
Effects = List[Tuple[Callable[..., object], Tuple[Any, ...]]]

MOST_AHEAD = 256  # commands without any event, until the broker has said how many it takes
FIRST_MAX_BYTES = 64 << 10  # of a message, until the broker has said how many it takes
FRAME = 8  # tag and length of a command in its message, at most
GIVEN_BACK = "GIVEN_BACK"


class Phase(IntEnum):
    WAITING = 0  # not answered yet; a refusal, timeout or cancel answers the request, and ends all of its locks
    GRANTED = 1  # granted, but its deadline has passed already, or others of its request are missing
    HELD = 2  # the program has it, until it is released or lost
    ENDED = 3  # in the table no more; a Return follows its way back until a session has answered


class Request:
    """One acquire of one lock or of several, until its answer. wait: nanoseconds; 0: one try; None: until granted.
    `answer`: called once, with None or a Refused."""

    __slots__ = ("leases", "wait", "answer", "on_queued", "asked", "wait_until", "stranded", "link", "turned_away",
                 "bytes", "request_id", "owner")

    def __init__(self, specs: Sequence[lock_pb2.LockSpec], wait: Optional[int],
                 answer: Callable[[Optional[Refused]], object],
                 on_queued: Optional[Callable[[wire.AcquireQueued], object]] = None) -> None:
        self.leases = [Lease(self, spec) for spec in specs]
        self.wait, self.on_queued = wait, on_queued
        self.answer: Optional[Callable[[Optional[Refused]], object]] = answer
        self.asked, self.wait_until = 0, NEVER
        self.stranded = NEVER  # since when no broker has this request; NEVER: one has
        self.link: Optional[Link] = None  # the session it was sent through
        self.turned_away = False  # refused by a draining broker
        self.bytes = 64 + sum(spec.ByteSize() + FRAME for spec in specs)
        self.owner: Any = None  # of its claim
        self.request_id = ""  # of its place in the queue; one try has none

    @property
    def one_try(self) -> bool:
        return self.wait is not None and self.wait <= 0


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
                 "link", "to", "to_id", "move_key", "former", "crossed", "change", "owner")

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
        self.to: Optional[Link] = None  # the session that was asked to adopt it, as `to_id`
        self.to_id, self.move_key = 0, ""  # of the adoption; the key is kept until one has succeeded
        self.former: Optional[Link] = None  # of a waiting one: the session it has left, until the next has its place
        self.crossed = False  # that session has granted it: to be given back there
        self.change: Optional[Change] = None
        self.owner: Any = None  # of its handle

    def conclude(self, cause: str, message: str = "") -> bool:
        """Ends belief for good. Any thread, at any moment. False: it had ended before."""
        end = (cause, message)
        self.ends.append(end)
        return self.ends[0] is end

    @property
    def cause(self) -> str:
        return self.ends[0][0] if self.ends else ""

    @property
    def message(self) -> str:
        return self.ends[0][1] if self.ends else ""

    def same(self, other: "Lease") -> bool:
        """Two holds of one reentrant lease."""
        a, b = self.spec, other.spec
        return self is other or (a.reentrant and b.reentrant and self.token == other.token and a.key == b.key
                                 and a.namespace == b.namespace)


class Return:
    """A lease on its way back: released in each session that may have it. Without an answer, a later session adopts it
    under `key`, and releases it then. `tell` hears the outcome when all have answered."""

    BEST_FIRST = (Outcome.RELEASED, Outcome.STILL_HELD, Outcome.UNKNOWN, Outcome.ALREADY_GONE)

    def __init__(self, lease: Lease, lapsed: bool, tell: Optional[Callable[[Outcome], object]] = None) -> None:
        self.lease, self.lapsed, self.tell, self.key = lease, lapsed, tell, lease.move_key
        self.missing, self.broken, self.outcome = 0, False, Outcome.ALREADY_GONE

    def heard(self, outcome: Outcome) -> None:
        """Of two sessions, only one has had the lease."""
        self.missing -= 1
        self.outcome = min(self.outcome, outcome, key=self.BEST_FIRST.index)


class SessionBelief:
    """One session, from its Open (heartbeat 0) to its end. `grace`: how long the broker has to answer the Open."""

    REMEMBERED = 64

    def __init__(self, now: int, grace: int) -> None:
        self._sent: "OrderedDict[int, int]" = OrderedDict({0: now})
        self._lapsed = False
        self.last_sent, self.last_sent_at = 0, now
        self.last_acked = -1
        self.deadline = now + grace
        self.unanswered_since = NEVER  # the oldest heartbeat without an answer, of those remembered; NEVER: none

    @property
    def unanswered(self) -> int:
        return self.last_sent - max(self.last_acked, 0)

    def send(self, now: int) -> int:
        """A heartbeat is about to be handed to gRPC; its seq."""
        self.last_sent += 1
        self.last_sent_at = self._sent[self.last_sent] = now
        if len(self._sent) > self.REMEMBERED:
            self._sent.popitem(last=False)
        self._look()
        return self.last_sent

    def _look(self) -> None:
        since = (at for seq, at in self._sent.items() if seq > self.last_acked)
        self.unanswered_since = next(since, NEVER) if self.unanswered else NEVER

    def deadline_of(self, seq: int, valid_for: int) -> int:
        """The deadline of a promise that answers heartbeat `seq`; 0 for one that is forgotten or was never sent."""
        sent = self._sent.get(seq)
        return 0 if sent is None else sent + valid_for

    def ack(self, seq: int, valid_for: int, now: int) -> bool:
        """Whether this ack extends anything."""
        deadline = self.deadline_of(seq, valid_for)
        if self.lapsed(now) or deadline == 0 or seq <= self.last_acked:
            return False
        # The grace of the Open is no promise: the first answer replaces it.
        self.deadline = deadline if self.last_acked < 0 else max(self.deadline, deadline)
        self.last_acked = seq
        self._look()
        return True

    def lapsed(self, now: int) -> bool:
        """No answer came for a whole validity: the broker has given the session up, too. Final."""
        self._lapsed = self._lapsed or now >= self.deadline
        return self._lapsed

    def overdue(self, deadline: int, now: int) -> bool:
        """Whether the oldest of these heartbeats has waited for half of what was left then until `deadline`."""
        since = self.unanswered_since
        return since != NEVER and now - since >= (deadline - since) // 2


class Link:
    """A session with a broker, and the commands that it has not been told yet."""

    def __init__(self) -> None:
        self.commands: Deque[wire.SessionCommand] = deque()
        self.start(0, 0)
        self.streaming = False  # there is a stream, opened or not

    def start(self, now: int, grace: int) -> None:
        self.commands.clear()
        self._ahead: Dict[int, range] = {}  # the unanswered commands, by each of their ids
        self._commands_ahead = 0
        self.most_ahead, self.max_bytes = MOST_AHEAD, FIRST_MAX_BYTES
        self.validity = self.interval = 0
        self.authenticates, self.proof = False, 0
        self.shown: Optional[str] = None  # the token that the broker was told
        self.session = SessionBelief(now, grace)
        self.streaming = True
        self.opened = self.acked = self.adopts = self.draining = self.leaving = self.heartbeat_due = False
        self.heartbeat_at = self.drained_at = NEVER

    def stop(self) -> None:
        self.streaming = self.opened = self.draining = self.leaving = self.heartbeat_due = False
        self.commands.clear()

    def ready(self) -> bool:
        """Whether pack() has something."""
        return self.heartbeat_due or bool(self.commands) and self._may_send(self.commands[0])

    def _may_send(self, command: wire.SessionCommand) -> bool:
        return not self._counts(command) or self._commands_ahead < self.most_ahead

    @staticmethod
    def _counts(command: wire.SessionCommand) -> bool:
        return bool(command.id) and not command.HasField("open")

    def _sent(self, command: wire.SessionCommand) -> None:
        if self._counts(command):
            count = max(len(command.acquire.locks), command.adopt.hold_count, 1)
            ids = range(command.id, command.id + count)
            self._ahead.update(dict.fromkeys(ids, ids))
            self._commands_ahead += 1

    def say_goodbye(self) -> None:
        """Behind what may be sent now: with the session the broker frees what it has not heard of."""
        self.leaving, self.heartbeat_due = True, False
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


class Timeouts:
    """A heap. What is set anew or removed leaves its entry behind; those are never more than the others, but for a few.
    Most requests are answered long before their time."""

    LEAST_TO_CLEAN = 64

    def __init__(self) -> None:
        self._heap: List[Tuple[int, int, Any]] = []
        self._valid: Dict[Any, Tuple[int, int, Any]] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, request: Any, at: int) -> None:
        """Sets, moves, or with NEVER removes a request's time."""
        self._valid.pop(request, None)
        if at != NEVER:
            entry = self._valid[request] = (at, next(self._numbers), request)
            heapq.heappush(self._heap, entry)
        if len(self._heap) > max(self.LEAST_TO_CLEAN, 2 * len(self._valid)):
            self._heap = sorted(self._valid.values())

    @property
    def next(self) -> int:
        """The earliest time, or NEVER."""
        while self._heap and self._valid.get(self._heap[0][2]) is not self._heap[0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else NEVER

    def take(self) -> Any:
        """Removes and returns the request whose time is `next`; there must be one."""
        request = heapq.heappop(self._heap)[2]
        del self._valid[request]
        return request
