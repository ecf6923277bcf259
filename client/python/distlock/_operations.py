# SPDX-License-Identifier: Apache-2.0
"""Calls that are no session, each as a generator that yields Call and is sent the response, or has a Refused thrown in.
The clients for threads and for asyncio drive the same generators."""
import secrets
from dataclasses import dataclass
from typing import Any, Generator, List, Optional, Sequence, Tuple, TypeVar

from distlock import _convert
from distlock._clock import SECOND
from distlock._clock import now as clock
from distlock.errors import LockLost, Refused, Unavailable
from distlock.types import LockInfo, Outcome
from distlock.v1 import lock_pb2
from distlock.v1 import lock_service_pb2 as wire
from distlock.v1 import look_pb2 as look

PATIENCE_S = 5.0  # of a call that does not wait for a lock
REPEATS = 3
MAX_LOCKS_A_PAGE = 1000

T = TypeVar("T")


@dataclass
class Call:
    """One unary call. timeout: seconds, None: as long as it takes."""

    name: str
    request: Any
    timeout: Optional[float] = PATIENCE_S


Operation = Generator[Call, Any, T]


def inspect(namespace: str, key: str, max_waiters: Optional[int]) -> "Operation[LockInfo]":
    request = look.GetLockRequest(namespace=namespace, key=key)
    if max_waiters is not None:
        request.max_waiters = max_waiters
    response = yield Call("GetLock", request)
    return _convert.lock_of(response)


def page(namespace: str, prefix: str, token: str) -> "Operation[Tuple[List[LockInfo], str]]":
    request = look.ListLocksRequest(namespace=namespace, key_prefix=prefix, page_size=MAX_LOCKS_A_PAGE,
                                    page_token=token)
    response = yield Call("ListLocks", request)
    return _convert.locks_of(response), response.next_page_token


def check_token(namespace: str, key: str, token: int) -> "Operation[bool]":
    response = yield Call("CheckToken", look.CheckTokenRequest(namespace=namespace, key=key, fencing_token=token))
    return bool(response.newest)


class DetachedState:
    """What a detached lease knows. `deadline` counts from when a request was sent: Grant.valid_for in lock.proto."""

    def __init__(self, key: str, lease_id: str, holder_id: str = "", token: int = 0, deadline: int = 0) -> None:
        self.key, self.lease_id, self.holder_id, self.token = key, lease_id, holder_id, token
        self.deadline = deadline
        self.unsure = deadline == 0  # handed over by another process: to be renewed before use
        self.cause = ""
        self._gave_back = False

    @property
    def is_held(self) -> bool:
        """Whether it may be believed in, by the clock, at this moment."""
        if self.cause == "" and not self.unsure and clock() >= self.deadline:
            self.cause = "LAPSED"
        return self.cause == "" and not self.unsure

    @property
    def valid_for(self) -> float:
        """Seconds until the present deadline; 0 when it is not held."""
        return max(self.deadline - clock(), 0) / SECOND if self.is_held else 0.0

    def check(self) -> None:
        """Raises LockLost unless it is held at this moment."""
        if not self.is_held:
            raise LockLost(self.key, self.cause or "UNKNOWN", "renew it before use" if self.unsure else "")

    def __repr__(self) -> str:
        state = "held" if self.is_held else self.cause or "to be renewed"
        return f"<{type(self).__name__} {self.key!r} token={self.token} {state}>"

    def _renew(self) -> "Operation[float]":
        if self.is_held or self.unsure:
            sent = clock()
            try:
                response = yield Call("Renew", wire.RenewRequest(lease_id=self.lease_id))
            except Refused as refused:
                if refused.reason != "NOT_HOLDER":
                    raise
                self.cause = self.cause or "TAKEN"
                raise LockLost(self.key, self.cause, refused.message) from None
            if self.is_held or self.unsure:
                self.deadline, self.unsure = sent + response.valid_for.ToNanoseconds(), False
                return self.valid_for
            why = "the answer to the renewal came after the deadline"
        else:
            why = "its deadline has passed, which is final"
        if self.cause != "LAPSED":
            raise LockLost(self.key, self.cause)
        if not self._gave_back:  # so that the lock need not wait for its ttl, which ends it without an answer
            try:
                yield from self._give_back()
            except Refused:
                pass
        raise LockLost(self.key, "LAPSED", why)

    def _release(self) -> "Operation[Outcome]":
        if self.is_held or self.unsure:
            self.cause, self.unsure = "GIVEN_BACK", False
        return (yield from self._give_back())

    def _give_back(self) -> "Operation[Outcome]":
        self._gave_back = True
        response = yield Call("Release", wire.ReleaseRequest(lease_id=self.lease_id))
        return _convert.outcome(response.outcome)


def acquire_detached(specs: Sequence[lock_pb2.LockSpec], wait: Optional[int],
                     make: Any) -> "Operation[List[Any]]":
    """Repeats the request under its request_id when no broker answers: it finds the grant whose answer was lost."""
    request = wire.AcquireRequest(locks=map(_convert.signed, specs), request_id=secrets.token_hex(16))
    until = None if wait is None else clock() + wait
    for left in range(REPEATS, -1, -1):
        if wait is not None:
            for lock in request.locks:
                lock.max_wait.FromNanoseconds(max(until - clock(), SECOND // 1000) if wait and until else 0)
        timeout = None if wait is None else wait / SECOND + PATIENCE_S
        sent = clock()
        try:
            response = yield Call("Acquire", request, timeout)
            break
        except Unavailable as refused:
            if refused.reason != "UNREACHABLE" or left == 0:
                raise
    made = []
    for grant in response.grants:
        deadline = sent + grant.waited.ToNanoseconds() + grant.valid_for.ToNanoseconds()
        lease = make(grant.key, grant.lease_id, grant.holder_id, grant.fencing_token, deadline)
        if clock() >= deadline:  # after a wait of hundreds of ttls
            lease.unsure = True
            yield from lease._renew()
        made.append(lease)
    return made
