# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, in one small hierarchy:

    DistlockError
      Refused            no lock was given; `reason` says why
        Busy             others hold it (one try, or the wait is over)
        Unavailable      no broker or store answered in time: the outcome of other calls may be unknown
        InvalidRequest   a value was wrong (also a ValueError)
      LockLost           a lock ended before it was given back
      ClientClosed       the client was closed, or closed while the call waited
"""
from typing import Any, Optional, Tuple

from distlock.types import Block, Holder


class DistlockError(Exception):
    """Base of all errors of this package."""


class Refused(DistlockError):
    """No lock was given, or an operation on a lease could not be done.

    reason: a RefusalReason of the contract without its prefix, such as "QUOTA_EXCEEDED", or "UNREACHABLE".
    message: English; names the wrong value and what to do next.
    retry_after: seconds until a retry makes sense, or None.
    waited: seconds that the request has waited.
    holders: who holds the lock, as far as known, at most 16.
    queue_length: how many wait, as far as known.
    field_problems: (field, what is wrong with it).
    block: a lock_delay or min_hold that keeps the lock, or None.
    """

    def __init__(self, reason: str, message: str = "", *, retry_after: Optional[float] = None, waited: float = 0.0,
                 holders: Tuple[Holder, ...] = (), queue_length: int = 0,
                 field_problems: Tuple[Tuple[str, str], ...] = (), block: Optional[Block] = None) -> None:
        super().__init__(f"{reason}: {message}" if message else reason)
        self.reason, self.message = reason, message
        self.retry_after, self.waited = retry_after, waited
        self.holders, self.queue_length = holders, queue_length
        self.field_problems, self.block = field_problems, block

    def again(self, message: Optional[str] = None,
              field_problems: Optional[Tuple[Tuple[str, str], ...]] = None) -> "Refused":
        """A copy to raise: an exception that several threads raise would collect all their tracebacks."""
        copy = type(self)(self.reason, self.message if message is None else message, retry_after=self.retry_after,
                          waited=self.waited, holders=self.holders, queue_length=self.queue_length, block=self.block,
                          field_problems=self.field_problems if field_problems is None else field_problems)
        copy.__cause__ = self.__cause__
        return copy


class Busy(Refused):
    """LOCK_HELD, WAIT_TIMEOUT or LIMIT_MISMATCH: others have it. `holders` names them."""


class Unavailable(Refused):
    """UNREACHABLE, STORE_UNAVAILABLE, QUORUM_NOT_REACHED or DRAINING: no broker or store could answer in time.

    Or STORE_HOLD_OFF: the store may have forgotten a holder, and grants nobody a lock before `retry_after` is over.
    """


class InvalidRequest(Refused, ValueError):
    """INVALID_ARGUMENT: `field_problems` names each value that is wrong."""


class LockLost(DistlockError):
    """A lock ended although its holder had not given it back.

    cause: EXPIRED, TAKEN, FORCED, MAX_HOLD, DRAINED (told by the broker); LAPSED (the client's own deadline passed),
    DISCONNECTED (the stream ended), RELEASED (by somebody who knew its lease_id), FORKED (it belongs to the parent
    process) or CLIENT_CLOSED.
    """

    def __init__(self, key: str, cause: str, message: str = "") -> None:
        super().__init__(f"the lock {key!r} is lost ({cause})" + (f": {message}" if message else ""))
        self.key, self.cause, self.message = key, cause, message

    def __reduce__(self) -> Any:  # multiprocessing and celery send exceptions by pickle
        return type(self), (self.key, self.cause, self.message), self.__dict__


class ClientClosed(DistlockError):
    """The client was closed."""


_KINDS = {"LOCK_HELD": Busy, "WAIT_TIMEOUT": Busy, "LIMIT_MISMATCH": Busy,
          "UNREACHABLE": Unavailable, "STORE_UNAVAILABLE": Unavailable, "QUORUM_NOT_REACHED": Unavailable,
          "DRAINING": Unavailable, "STORE_HOLD_OFF": Unavailable, "INVALID_ARGUMENT": InvalidRequest}


def kind_of(reason: str) -> "type[Refused]":
    """The class that a refusal for this reason is raised as."""
    return _KINDS.get(reason, Refused)
