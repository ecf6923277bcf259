# SPDX-License-Identifier: Apache-2.0
"""The client for threads. distlock.aio has the one for asyncio; both read alike."""
import functools
import os
import threading
import weakref
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Generic,
    Iterable,
    List,
    Mapping,
    Optional,
    ParamSpec,
    Sequence,
    Tuple,
    TypeVar,
    Union,
    cast,
    overload,
)

from distlock import _convert
from distlock._access import ChannelOptions, access
from distlock._core import Core
from distlock._decorated import decorated
from distlock._held import LEAVE_S, Claim, Holding, call_back, closed_or
from distlock._options import Base
from distlock._queries import Queries
from distlock._threads import Answer, Bell
from distlock._words import BY_NAME, NO_ARGUMENT, NONE, advises, arguments
from distlock.errors import Refused
from distlock.hooks import Observer
from distlock.protocols import Locks
from distlock.types import Lock, Mode, Options, Outcome, Queued, Terms, Tls
from distlock.v1 import lock_pb2

if TYPE_CHECKING:
    from typing_extensions import Unpack

Key = Union[str, Callable[..., str]]
B = TypeVar("B")
F = TypeVar("F", bound=Callable[..., Any])
H = TypeVar("H")
P = ParamSpec("P")
R = TypeVar("R")


class Loss:
    """Whether a lock is lost. Looks at the clock itself, so that it is true after the deadline even before any thread
    of this package has noticed."""

    def __init__(self, held: "Held") -> None:
        self._held = held

    def is_set(self) -> bool:
        """True once the lock is lost; never after a release."""
        return self._held._was_lost

    __bool__ = is_set

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until the lock is lost, for `timeout` seconds at most. Not woken by a release."""
        bell, on_end = Bell(), self._held._lease.on_end
        self._held._on_end(bell.ring)
        if not self.is_set():
            bell.wait(-1 if timeout is None else max(timeout, 0))
        try:
            on_end.remove(bell.ring)
        except ValueError:
            pass  # it was rung
        return self.is_set()


class Held(Holding):
    """A lock that is held. Thread-safe."""

    @property
    def lost(self) -> Loss:
        """True, and its wait() returns, when the lock is lost."""
        return Loss(self)

    def on_loss(self, callback: Callable[["Held"], object]) -> None:
        """Calls `callback(self)` when the lock is lost, on the client's thread for callbacks; at once when it is
        already. A callback that blocks delays other callbacks, and nothing else."""
        core, handle = self._core, weakref.ref(self)  # a callback keeps no handle: one that is dropped is given back

        def tell() -> None:
            held = handle()
            if held is not None:
                call_back(core, functools.partial(callback, held))

        self._on_end(tell)

    def release(self, timeout: Optional[float] = None) -> Outcome:
        """Gives the lock back, and waits for the broker's answer, for `timeout` seconds at most: then UNKNOWN. The lock
        is freed in any case. ALREADY_GONE: it had ended before."""
        return self._outcome(self._send_release(), timeout)

    def _leave(self) -> None:
        """At the end of a body. A process that ends right after it must not take the release along when the lock is to
        stay blocked: at its death it would be free."""
        if self._has_min_hold:
            self.release(LEAVE_S)
        else:
            self.release_soon()

    def _send_release(self) -> Optional[Answer]:
        if self.cause == "FORKED":
            return None
        answer = Answer()
        self._give_back(answer)
        return answer

    def _outcome(self, answer: Optional[Answer], timeout: Optional[float]) -> Outcome:
        if answer is None:
            return Outcome.ALREADY_GONE
        return cast(Outcome, answer.get(timeout) or Outcome.UNKNOWN)

    def downgrade(self) -> None:
        """Makes an exclusive lock shared, without a gap. There is no way back. Raises Refused."""
        self.check()
        answer = Answer()
        self._core.post(self._core.table.downgrade, self._lease, answer)
        refused = answer.get()
        if refused is not None:
            raise closed_or(refused)

    def proclaim(self, value: str) -> None:
        """Changes the value that observers are told of a leader, in office. The token stays. Raises Refused."""
        self.check()
        answer = Answer()
        with arguments(metadata="value"):
            made = _convert.metadata(_convert.election(value))
            self._core.post(self._core.table.proclaim, self._lease, made, answer)
            refused = answer.get()
            if refused is not None:
                raise closed_or(refused)


class HeldAll(Sequence[Held]):
    """Several locks that were taken together, in the order of the request."""

    def __init__(self, parts: List[Held]) -> None:
        self.parts = parts

    @property
    def tokens(self) -> List[int]:
        return [part.token for part in self.parts]

    @property
    def is_held(self) -> bool:
        """Whether all are held at this moment."""
        return all(part.is_held for part in self.parts)

    def check(self) -> None:
        """Raises LockLost unless all are held at this moment."""
        for part in self.parts:
            part.check()

    def on_loss(self, callback: Callable[[Held], object]) -> None:
        """Calls `callback(lock)` for each lock that is lost."""
        for part in self.parts:
            part.on_loss(callback)

    def release(self, timeout: Optional[float] = None) -> List[Outcome]:
        """Gives all back, and waits for the answers, for `timeout` seconds each at most."""
        answers = [part._send_release() for part in self.parts]
        return [part._outcome(answer, timeout) for part, answer in zip(self.parts, answers, strict=True)]

    def release_soon(self) -> None:
        """Sends the releases and does not wait."""
        for part in self.parts:
            part.release_soon()

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, index: Any) -> Any:
        return self.parts[index]


class Exit:
    """Acquire.__exit__. A with statement looks it up before it calls __enter__, and keeps what it gets."""

    def __get__(self, acquire: "Optional[Acquire[Any]]", owner: Any) -> Callable[..., None]:
        if acquire is None:  # contextlib.ExitStack
            return lambda self, *error: Body(self)(*error)
        body = Body(acquire)
        acquire._entered.body = weakref.ref(body)
        return body


class Acquire(Generic[H]):
    """A request that is not sent yet: use it in `with`, or call acquire(). It may be used again and again, also by
    several threads at once, but not nested in itself."""

    def __init__(self, client: Base, specs: List[lock_pb2.LockSpec], wait: Optional[float],
                 wrap: Callable[[List[Held]], H], on_loss: Optional[Callable[[Held], object]],
                 on_queued: Optional[Callable[[Queued], object]], words: Mapping[str, str] = NONE) -> None:
        self._client, self._specs, self._wrap, self._words = client, specs, wrap, words
        self._wait = _convert.wait_of(wait)
        self._on_loss, self._on_queued = on_loss, on_queued
        self._entered = threading.local()
        self._stack: List[Tuple[int, List[Held]]] = []  # by hand, or by an ExitStack: on which thread, and what

    @advises(NO_ARGUMENT)
    def acquire(self) -> H:
        """Waits for the lock as `wait` says. Raises Busy, Unavailable, InvalidRequest, another Refused or ClientClosed.
        An exception of a signal's handler, such as KeyboardInterrupt, withdraws the request."""
        return self._wrap(self._acquire())

    def _acquire(self) -> List[Held]:
        answer, outcome = Answer(), "CANCELLED"
        core = self._client._core
        claim = Claim(self._client, self._specs, self._wait, answer, self._queued(core))
        try:
            claim.send()
            refused: Optional[Refused] = answer.get()
            held: List[Held] = claim.hold(Held, refused)
            outcome = "GRANTED" if refused is None else refused.reason
        finally:
            claim.answered(outcome)
        if refused is not None:
            raise closed_or(refused, self._words, len(self._specs) == 1)
        for one in held:
            one._observe(claim)
            if self._on_loss is not None:
                one.on_loss(self._on_loss)
        return held

    def _queued(self, core: Core) -> Optional[Callable[[Any], object]]:
        tell = self._on_queued
        if tell is None:
            return None
        return lambda queued: call_back(core, lambda: tell(_convert.queued(queued)))

    def __enter__(self) -> H:
        body: Optional[Body] = getattr(self._entered, "body", lambda: None)()
        self._entered.body = lambda: None
        held = self._acquire()
        if body is not None:
            body.held = held
        else:
            self._stack.append((threading.get_ident(), held))
        return self._wrap(held)

    if TYPE_CHECKING:
        def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
            """Gives the lock back without waiting for the answer. Raises LockLost when it was lost, unless the body
            raised something itself."""
    else:
        __exit__ = Exit()


class Body:
    """One use of an Acquire in `with`. The statement itself keeps this, and this the locks: when it is left by an
    exception that comes before this is called, or in the middle, they have no owner any more."""

    def __init__(self, acquire: Acquire[Any]) -> None:
        self._stack = acquire._stack
        self.held: Optional[List[Held]] = None

    def __call__(self, kind: Any, error: Any, trace: Any) -> None:
        held = self._newest() if self.held is None else self.held
        lost = next((one for one in held if one._was_lost), None)
        for one in held:
            one._leave()
        if lost is not None and error is None:
            raise lost._loss()

    def _newest(self) -> List[Held]:
        """Of this thread, or, when it has entered none, of another one."""
        here = threading.get_ident()
        entered = next((one for one in reversed(self._stack) if one[0] == here), self._stack[-1])
        self._stack.remove(entered)
        return entered[1]


class Client(Queries):
    """A connection to the lock brokers: one session for all locks of this process. It connects at its first call, and
    reconnects by itself. Thread-safe. A child of fork connects anew; locks stay with the parent.

    Waiting: wait=None waits until the lock is granted, 0 tries once, a number waits for that many seconds.
    `options` of every method are the fields of distlock.Options.
    """

    @advises(BY_NAME)
    def lock(self, key: str, *, wait: Optional[float] = None, on_loss: Optional[Callable[[Held], object]] = None,
             on_queued: Optional[Callable[[Queued], object]] = None, **options: "Unpack[Terms]") -> Acquire[Held]:
        """An exclusive lock."""
        return self._one(Lock(key), wait, on_loss, on_queued, options)

    @advises(BY_NAME)
    def shared(self, key: str, *, wait: Optional[float] = None, on_loss: Optional[Callable[[Held], object]] = None,
               on_queued: Optional[Callable[[Queued], object]] = None, **options: "Unpack[Terms]") -> Acquire[Held]:
        """The lock for reading: beside other readers, and never beside lock(key)."""
        return self._one(Lock(key, Mode.SHARED), wait, on_loss, on_queued, options)

    @advises(BY_NAME)
    def permits(self, key: str, *, limit: int, n: int = 1, wait: Optional[float] = None,
                on_loss: Optional[Callable[[Held], object]] = None,
                on_queued: Optional[Callable[[Queued], object]] = None, **options: "Unpack[Terms]") -> Acquire[Held]:
        """n permits of a semaphore that has `limit`."""
        return self._one(Lock(key, Mode.PERMIT, n, limit), wait, on_loss, on_queued, options, permits="n")

    @advises(BY_NAME)
    def all(self, locks: Iterable[Union[str, Lock]], *, wait: Optional[float] = None,
            on_loss: Optional[Callable[[Held], object]] = None,
            on_queued: Optional[Callable[[Queued], object]] = None, **options: "Unpack[Terms]") -> Acquire[HeldAll]:
        """Up to 64 different locks, all or nothing. The broker takes them in one order, so that callers which name them
        in different orders do not wait for each other in a circle."""
        return Acquire(self, self._specs(locks, options), wait, HeldAll, on_loss, on_queued)

    def campaign(self, name: str, value: str = "", *, wait: Optional[float] = None,
                 on_loss: Optional[Callable[[Held], object]] = None, **options: "Unpack[Terms]") -> Acquire[Held]:
        """Leadership of the election `name`, which is the lock of that name. value: what observers are told."""
        words = self._of_campaign(options)
        with arguments(**words):
            specs = self._candidate(name, value, options)
        return Acquire(self, specs, wait, lambda held: held[0], on_loss, None, words)

    @overload
    def locked(self, key: Key, *, wait: Optional[float] = None, busy: None = None,
               **options: "Unpack[Terms]") -> Callable[[F], F]: ...

    @overload
    def locked(self, key: Key, *, wait: Optional[float] = None, busy: B,
               **options: "Unpack[Terms]") -> Callable[[Callable[P, R]], Callable[P, Union[R, B]]]: ...

    def locked(self, key: Key, *, wait: Optional[float] = None, busy: Any = None, **options: "Unpack[Terms]") -> Any:
        """Decorates a function: each call holds the lock. key: may be a function of the call's arguments. busy: what a
        call returns instead of raising Busy, such as distlock.SKIP."""
        return functools.partial(decorated, self.lock, key, wait, busy, options)

    def drained(self, timeout: Optional[float] = None) -> bool:
        """Waits until this client holds nothing, waits for nothing, and brokers have confirmed what it gave back.
        False: not within `timeout` seconds. For a shutdown that lets the work end, before close()."""
        answer = Answer()
        return not self._when_drained(functools.partial(answer, True)) or answer.get(timeout) is not None

    def close(self) -> None:
        """Gives all locks back, and waits at most a second for the answer. Calls that wait raise ClientClosed."""
        self._close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _one(self, lock: Lock, wait: Optional[float], on_loss: Optional[Callable[[Held], object]],
             on_queued: Optional[Callable[[Queued], object]], options: Any, **words: str) -> Acquire[Held]:
        with arguments(**words):
            specs = self._specs([lock], options)
        return Acquire(self, specs, wait, lambda held: held[0], on_loss, on_queued, words)


if TYPE_CHECKING:
    def _is_one(client: Client) -> Locks:
        return client


def connect(address: Optional[str] = None, *, label: Optional[str] = None, unreachable_after: Optional[float] = None,
            options: Optional[Options] = None, on_draining: Optional[Callable[[float], object]] = None,
            observer: Optional[Observer] = None, ends_with_process: bool = True, tls: Optional[Tls] = None,
            token: Optional[str] = None, token_file: Union[str, "os.PathLike[str]", None] = None,
            channel_options: Optional[ChannelOptions] = None) -> Client:
    """A client for threads. Does not wait for the connection; the first call makes it.

    address: brokers of one store, separated by commas, each a gRPC target: "unix:///path" or "host:port". One is used,
        in a random order; when it cannot be reached or goes down, the next one. None: DISTLOCK_SERVER, else
        unix:///run/distlock/distlock.sock where that socket exists, else 127.0.0.1:7420.
    label: shown by ListSessions, up to 256 bytes. None: the program's name.
    unreachable_after: seconds that a request looks for a broker before it is refused with UNREACHABLE. None: one try 1,
        a wait with an end all of it, another one 10.
    options: defaults of all locks.
    on_draining: called with the seconds that are left when the broker goes down and locks cannot move to another one.
    observer: hooks for tracing and metrics.
    ends_with_process: by a unix socket, on Linux 6.9, locks are free at once when this process has ended, however it
        did. False where another process acts under them: then after the last promise has passed, up to 3 s.
    tls, token, token_file: which authorities the client trusts, and how it proves who it is. None: as the DISTLOCK_TLS_
        variables and DISTLOCK_TOKEN_FILE say. The file of a token is read anew for each use; a token leaves this
        machine by TLS only.
    channel_options: gRPC's, in the place of those of this package: {"grpc.primary_user_agent": "reports"}.
    """
    return Client(address, label, unreachable_after, options or Options(), on_draining, observer, ends_with_process,
                  access(tls, token, token_file, channel_options))

