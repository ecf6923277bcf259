# SPDX-License-Identifier: Apache-2.0
"""The calls of the client for threads that are no session: looking at locks, elections, detached leases."""
import random
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Optional, Set, Tuple

from distlock import _channel, _convert, _fork, _status
from distlock import _operations as operations
from distlock._convert import ELECTION_VALUE
from distlock._core import Core
from distlock._options import Base
from distlock._threads import Answer, Bell
from distlock._words import arguments
from distlock.errors import ClientClosed, Refused
from distlock.types import Leader, Lock, LockInfo, Mode, Outcome, Terms
from distlock.v1 import look_pb2 as look

if TYPE_CHECKING:
    from typing_extensions import Unpack

PERMANENT = frozenset(("INVALID_ARGUMENT", "NOT_SUPPORTED", "UNAUTHENTICATED", "PERMISSION_DENIED"))
LONGEST_PAUSE_S = 2.0


def attempts(core: Core) -> int:
    """How often a call is tried: once at each broker, and once more, for a connection that was broken unnoticed."""
    return len(core.addresses.all) + 1


def run(core: Core, operation: "operations.Operation[operations.T]") -> "operations.T":
    """Drives an operation on this thread."""
    try:
        call = next(operation)
        while True:
            try:
                response = _call(core, call)
            except Refused as refused:
                call = operation.throw(refused)
            else:
                call = operation.send(response)
    except StopIteration as done:
        value: "operations.T" = done.value
        return value


def _call(core: Core, call: operations.Call) -> Any:
    for left in range(attempts(core) - 1, -1, -1):
        answer = Answer()
        begun = core.calls.begin(call.name, call.request, call.timeout, answer)
        try:
            answer.get()
        except BaseException:
            begun.cancel()
            raise
        refused = begun.refused()
        if refused is None:
            return begun.response
        if refused.reason not in ("UNREACHABLE", "DRAINING") or left == 0:
            raise refused
        begun.failed_there()
    raise AssertionError("a call is tried at least once")


def leader_of(lock: LockInfo) -> Optional[Leader]:
    if not lock.holders:
        return None
    holder = lock.holders[0]
    return Leader(holder.metadata.get(ELECTION_VALUE, ""), holder.owner, holder.holder_id, holder.token,
                  holder.acquire_time)


def changes(locks: Iterator[LockInfo]) -> Iterator[Optional[Leader]]:
    """Who leads, whenever that has changed."""
    told: Optional[Tuple[Optional[str], int]] = None
    with arguments(key="election"):
        for lock in locks:
            leader = leader_of(lock)
            term = (leader.holder_id, leader.token) if leader is not None else (None, 0)
            if term != told:
                told = term
                yield leader


class Watch:
    """The states of a lock, over reconnects. close() may be called by any thread."""

    method = "WatchLock"
    final = PERMANENT

    def __init__(self, client: Base, request: Any) -> None:
        self._client, self._core, self._request = client, client._core, request
        self._closed, self._bell = False, Bell()
        self._call: Any = None
        _fork.watch(self)

    def after_fork(self) -> None:
        """In a child: the call is the parent's."""
        _fork.keep(self._call)
        self._call = None
        self._closed = True

    def close(self) -> None:
        self._closed = True
        self._bell.ring()
        if self._call is not None:
            self._call.cancel()

    def begin(self) -> None:
        """A stream begins, the first or one after a reconnect."""

    def take(self, response: Any) -> Iterator[LockInfo]:
        yield _convert.lock_info(response.lock)

    def states(self) -> Iterator[LockInfo]:
        """Blocks between them. Raises a Refused that no further attempt can change."""
        pause = 0.05
        try:
            while not self._closed:
                begun = self._core.calls.stream(self.method, self._request)
                try:
                    self._call = begun.call
                    self.begin()
                    if self._closed:
                        return
                    for response in self._call:
                        pause = 0.05
                        yield from self.take(response)
                        if self._closed:  # also in a child of fork, which must not touch the call
                            return
                except _channel.RpcError as error:
                    refused = _status.refused(error, begun.address)
                    if self._closed:
                        return
                    if refused.reason in self.final:
                        raise refused from None
                    if refused.reason in ("UNREACHABLE", "DRAINING"):
                        begun.failed_there()
                except ValueError:  # another thread has closed the channel
                    pass
                self._bell.wait(random.uniform(0, pause))
                pause = min(2 * pause, LONGEST_PAUSE_S)
        except ClientClosed:
            return
        finally:
            self.close()


class WatchPrefix(Watch):
    """The states of all locks under a prefix. What became free while no stream was there is told after the next one has
    listed what is taken."""

    method = "WatchLocks"
    final = PERMANENT | {"QUOTA_EXCEEDED"}

    def __init__(self, client: Base, request: Any, on_listed: Optional[Callable[[], object]]) -> None:
        super().__init__(client, request)
        self._on_listed = on_listed
        self._taken: Set[Tuple[str, str]] = set()
        self._unseen: Set[Tuple[str, str]] = set()  # taken before this stream, and not told of by it yet

    def begin(self) -> None:
        self._unseen = set(self._taken)

    def take(self, response: Any) -> Iterator[LockInfo]:
        for lock in map(_convert.lock_info, response.locks):
            name = (lock.namespace, lock.key)
            self._unseen.discard(name)
            (self._taken.discard if lock.is_free else self._taken.add)(name)
            yield lock
        if response.listed:
            gone, self._unseen = self._unseen, set()
            self._taken -= gone
            for namespace, key in sorted(gone):
                yield LockInfo(namespace, key, (), (), 0, 0, 0, None)
            if self._on_listed is not None:
                self._on_listed()


class Detached(operations.DetachedState):
    """A lease without a stream: this program renews it, at any broker of the store, before `valid_for` is over. Its
    lease_id may be handed to another process, which takes it up with Client.detached."""

    _client: Base

    def renew(self) -> float:
        """Extends the lease to its full ttl; seconds until the new deadline. Raises LockLost, Unavailable."""
        return run(self._client._core, self._renew())

    def release(self) -> Outcome:
        """Gives the lock back. Raises Unavailable: then the ttl ends it."""
        return run(self._client._core, self._release())


class Queries(Base):
    """Each raises a Refused, such as Unavailable after about 5 s without an answer, and ClientClosed."""

    def inspect(self, key: str, *, namespace: str = "", max_waiters: Optional[int] = None) -> LockInfo:
        """Who holds a lock and who waits for it. max_waiters: 0 to 1000, None: 100."""
        return run(self._core, operations.inspect(namespace, key, max_waiters))

    def list(self, prefix: str = "", *, namespace: str = "") -> Iterator[LockInfo]:
        """The held locks of a namespace, in no particular order; namespace "-": of all namespaces."""
        token = ""
        while True:
            locks, token = run(self._core, operations.page(namespace, prefix, token))
            yield from locks
            if not token:
                return

    def watch(self, key: str, *, namespace: str = "") -> Iterator[LockInfo]:
        """The lock as it is, then again after each change of its holders or waiters. Never ends by itself."""
        return Watch(self, look.WatchLockRequest(namespace=namespace, key=key)).states()

    def watch_locks(self, prefix: str = "", *, namespace: str = "",
                    on_listed: Optional[Callable[[], object]] = None) -> Iterator[LockInfo]:
        """All locks whose keys begin with `prefix`: first each that is taken, as it is, then each change of one, also
        of locks that are taken later; lock.is_free tells of its end. Fast changes come as one. namespace "-": all.
        on_listed is called, on this thread, whenever all that are taken have been told. Never ends by itself."""
        request = look.WatchLocksRequest(namespace=namespace, key_prefix=prefix)
        return WatchPrefix(self, request, on_listed).states()

    def leader(self, election: str, *, namespace: str = "") -> Optional[Leader]:
        """Who leads an election; None between two terms."""
        with arguments(key="election"):
            return leader_of(self.inspect(election, namespace=namespace, max_waiters=0))

    def observe(self, election: str, *, namespace: str = "") -> Iterator[Optional[Leader]]:
        """Who leads, at once and after each change. Never ends by itself."""
        return changes(self.watch(election, namespace=namespace))

    def check_token(self, key: str, token: int, *, namespace: str = "") -> bool:
        """Whether no newer token was given. For resources that cannot compare tokens themselves."""
        return run(self._core, operations.check_token(namespace, key, token))

    def acquire_detached(self, key: str, *, mode: Mode = Mode.EXCLUSIVE, permits: int = 0, limit: int = 0,
                         wait: Optional[float] = None, **options: "Unpack[Terms]") -> Detached:
        """A lease that outlives this process's connection: nobody renews it but the caller."""
        specs = self._specs([Lock(key, mode, permits, limit)], options)
        found: List[Detached] = run(self._core, operations.acquire_detached(specs, _convert.wait_of(wait), self._maker))
        return found[0]

    def detached(self, lease_id: str, key: str = "") -> Detached:
        """A detached lease that another process has acquired. Call renew() before use. key: for messages only."""
        return self._maker(key, lease_id)

    def _maker(self, *values: Any) -> Detached:
        made = Detached(*values)
        made._client = self
        return made
