# SPDX-License-Identifier: Apache-2.0
"""The values that this package takes and returns. Durations are in seconds; times are datetimes in UTC."""
import os
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Dict, Mapping, Optional, Tuple, TypedDict, Union


class Mode(Enum):
    """How a lock is held."""

    EXCLUSIVE = 1  # alone
    SHARED = 2  # beside other readers
    PERMIT = 3  # some permits of a semaphore


class Policy(Enum):
    """Who goes next when several wait. Applies to the request that names it."""

    FAIR = 1  # order of arrival; neighbouring readers share
    WRITER_PREFERRING = 2  # waiting writers first
    READER_PREFERRING = 3  # readers enter whenever no writer holds the lock
    ADAPTIVE = 4  # newcomers may take a free lock until some waiter has waited for 100 ms


class OnDisconnect(Enum):
    """What the broker does with a lock whose stream broke."""

    SAFE = 1  # frees it when its last promise to this client has ended: within the validity (3 s)
    RELEASE = 2  # frees it at once, although this client may not have noticed yet
    EXPIRE = 3  # leaves it to its ttl


class Outcome(Enum):
    """What a release did."""

    RELEASED = 1  # this call gave the lock back
    STILL_HELD = 2  # reentrant: others of this client's holds are left
    ALREADY_GONE = 3  # it had ended before; nothing was changed
    UNKNOWN = 4  # no answer came; the lock is freed all the same, at the latest when its ttl ends


@dataclass(frozen=True)
class Options:
    """How a lock is asked for. Bounds are the defaults of the broker.

    namespace: 0 to 64 bytes; "" = "default".
    ttl: seconds that the store keeps the lock when the broker crashes, 1 to 3600; None: 15.
    max_hold: the lock ends this many seconds after its grant; 0: never.
    lock_delay: after an abnormal end the lock stays taken for this many seconds, 0 to 60.
    min_hold: released sooner after its grant, the lock stays taken until then, so that a job that several hosts start
        runs once a period: seconds, 0 to 90 000. Exclusive, and one lock only.
    owner: label shown to others, up to 256 bytes; "": user@host:pid, but for reentrant locks.
    metadata: shown to others, up to 1 KiB.
    reentrant: while this client holds the lock, another acquire with the same non-empty owner succeeds at once, with
        the same token. Not for several locks at once.
    resume: the lock outlives a broken stream when a broker of the same store is reached before its last promise ends.
    """

    namespace: str = ""
    ttl: Optional[float] = None
    max_hold: float = 0
    lock_delay: float = 0
    policy: Optional[Policy] = None
    on_disconnect: OnDisconnect = OnDisconnect.SAFE
    owner: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    reentrant: bool = False
    resume: bool = False
    min_hold: float = 0


@dataclass(frozen=True)
class Tls:
    """PEM files for brokers at tls://host:port; they are read again at each connect.

    ca: the brokers' authorities; None: the system's.
    cert, key: this client's own certificate and its key, both or none.
    server_name: the name that the broker's certificate must have, if it is not the host of the address.
    """

    ca: Union[str, "os.PathLike[str]", None] = None
    cert: Union[str, "os.PathLike[str]", None] = None
    key: Union[str, "os.PathLike[str]", None] = None
    server_name: Optional[str] = None


class Terms(TypedDict, total=False):
    """The fields of Options, as keyword arguments of what takes a lock."""

    namespace: str
    ttl: Optional[float]
    max_hold: float
    lock_delay: float
    policy: Optional[Policy]
    on_disconnect: OnDisconnect
    owner: str
    metadata: Mapping[str, str]
    reentrant: bool
    resume: bool
    min_hold: float


@dataclass(frozen=True)
class Lock:
    """One lock of several that are taken together: Client.all takes these as well as plain keys.

    permits and limit: for Mode.PERMIT only.
    """

    key: str
    mode: Mode = Mode.EXCLUSIVE
    permits: int = 0
    limit: int = 0
    options: Optional[Options] = None


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, as everybody may see it. time_left: of the ttl, without another renewal."""

    holder_id: str
    owner: str
    metadata: Dict[str, str]
    mode: Mode
    permits: int
    token: int
    acquire_time: Optional[datetime]
    time_left: float
    ttl: float
    broker_id: str


@dataclass(frozen=True)
class Waiting:
    """Who waits for a lock. waiter_id becomes its holder_id."""

    waiter_id: str
    owner: str
    metadata: Dict[str, str]
    mode: Mode
    permits: int
    start_time: Optional[datetime]
    broker_id: str


@dataclass(frozen=True)
class Block:
    """A lock_delay that runs, after an abnormal end, or a min_hold, after a release that came sooner. time_left:
    seconds until others may have the lock."""

    start_time: Optional[datetime]
    time_left: float
    owner: str


@dataclass(frozen=True)
class LockInfo:
    """A lock as the store knows it. Counts are complete, lists are bounded. token: of the latest grant; 0: none.

    hold_off, of inspect and list: seconds for which nobody is newly granted a lock, since the store may have forgotten
    a holder.
    """

    namespace: str
    key: str
    holders: Tuple[Holder, ...]
    waiters: Tuple[Waiting, ...]
    token: int
    queue_length: int
    holder_count: int
    block: Optional[Block]
    hold_off: float = 0.0

    @property
    def is_free(self) -> bool:
        """Nobody holds it, waits for it, or is kept from it by a lock_delay or a hold-off."""
        return not (self.holder_count or self.queue_length or self.block or self.hold_off)


@dataclass(frozen=True)
class Queued:
    """The place in the queue at the moment of joining it. position: how many wait in front."""

    position: int
    holders: Tuple[Holder, ...]
    block: Optional[Block]


@dataclass(frozen=True)
class Stats:
    """What a client has at one moment. held: locks that it holds; at_risk: those of them that it may soon lose;
    waiting: locks that it has asked for. connected: whether its session is open."""

    held: int
    at_risk: int
    waiting: int
    connected: bool


@dataclass(frozen=True)
class Leader:
    """Who leads an election, as others see it."""

    value: str
    owner: str
    holder_id: str
    token: int
    acquire_time: Optional[datetime]
