# SPDX-License-Identifier: Apache-2.0
"""Converts between the wire's messages and this package's values."""
from datetime import datetime, timezone
from enum import Enum
from typing import Any, Dict, List, Mapping, Optional, Tuple, Type, Union

from distlock import _process
from distlock._clock import SECOND, nanoseconds
from distlock.errors import InvalidRequest, Refused, kind_of
from distlock.types import Block, Holder, LockInfo, Mode, OnDisconnect, Options, Outcome, Policy, Queued, Waiting
from distlock.v1 import lock_pb2, look_pb2
from distlock.v1 import lock_service_pb2 as wire

REASON = "REFUSAL_REASON_"
LOST = "LOST_REASON_"
LABEL_BYTES = 256
ELECTION_VALUE = "distlock.election"  # the metadata entry that holds a leader's value
Seconds = Union[int, float]


def cut_label(label: str) -> str:
    return label.encode()[:LABEL_BYTES].decode(errors="ignore")


def invalid(field: str, problem: str) -> InvalidRequest:
    return InvalidRequest("INVALID_ARGUMENT", f"{field} {problem}", field_problems=((field, problem),))


def _set(spec: lock_pb2.LockSpec, field: str, value: Any) -> None:
    try:
        setattr(spec, field, value)
    except (TypeError, ValueError) as error:
        raise invalid(field, f"is {value!r}: {error}") from None


def _duration(spec: lock_pb2.LockSpec, field: str, seconds: Seconds) -> None:
    if not isinstance(seconds, (int, float)) or not 0 <= seconds <= 1e9:
        raise invalid(field, f"is {seconds!r}; it must be seconds, 0 or more")
    getattr(spec, field).FromNanoseconds(nanoseconds(seconds))


def metadata(values: Mapping[str, str]) -> Dict[str, str]:
    """What can be sent; raises InvalidRequest."""
    made = lock_pb2.LockSpec()
    _update(made, values)
    return dict(made.metadata)


def _update(spec: lock_pb2.LockSpec, values: Mapping[str, str]) -> None:
    try:
        spec.metadata.update(values)
    except (TypeError, ValueError) as error:
        raise invalid("metadata", f"is {values!r}: {error}") from None


def _choose(spec: lock_pb2.LockSpec, field: str, value: Enum, kind: Type[Enum]) -> None:
    if not isinstance(value, kind):
        raise invalid(field, f"is {value!r}; it must be one of {', '.join(map(str, kind))}")
    setattr(spec, field, value.value)


def election(value: str) -> Dict[str, str]:
    """The metadata of a leader."""
    if not isinstance(value, str):
        raise invalid("value", f"is {value!r}; it must be text")
    return {ELECTION_VALUE: value}


def patience_of(seconds: Optional[Seconds]) -> Optional[int]:
    """Nanoseconds of `unreachable_after`."""
    if seconds is not None and (not isinstance(seconds, (int, float)) or not 0 <= seconds <= 1e9):
        raise invalid("unreachable_after", f"is {seconds!r}; it must be seconds, or None")
    return None if seconds is None else nanoseconds(seconds)


def wait_of(wait: Optional[Seconds]) -> Optional[int]:
    """Nanoseconds of a `wait` argument."""
    if wait is None:
        return None
    if not isinstance(wait, (int, float)) or not 0 <= wait <= 1e9:
        raise invalid("wait", f"is {wait!r}; it must be seconds, 0 for one try, or None to wait until granted")
    return nanoseconds(wait)


def spec(key: str, mode: Mode, options: Options, permits: int = 0, limit: int = 0) -> lock_pb2.LockSpec:
    """Raises InvalidRequest for what cannot be sent; the broker judges the rest."""
    made = lock_pb2.LockSpec()
    _set(made, "key", key)
    _set(made, "namespace", options.namespace)
    _choose(made, "mode", mode, Mode)
    _set(made, "permits", permits)
    _set(made, "limit", limit)
    _set(made, "owner", options.owner)
    if options.ttl is not None:
        _duration(made, "ttl", options.ttl)
    if options.max_hold:
        _duration(made, "max_hold", options.max_hold)
    if options.lock_delay:
        _duration(made, "lock_delay", options.lock_delay)
    if options.min_hold:
        _duration(made, "min_hold", options.min_hold)
    if options.policy is not None:
        _choose(made, "policy", options.policy, Policy)
    if options.on_disconnect is not OnDisconnect.SAFE:
        _choose(made, "on_disconnect", options.on_disconnect, OnDisconnect)
    _set(made, "reentrant", options.reentrant)
    _set(made, "resume", options.resume)
    _update(made, options.metadata)
    return made


def signed(made: lock_pb2.LockSpec) -> lock_pb2.LockSpec:
    """A copy, which names this process where the program names no owner. Holds of one reentrant lock are those of one
    owner: that must be named."""
    copy = lock_pb2.LockSpec.FromString(made.SerializeToString())
    if not copy.owner and not copy.reentrant:
        copy.owner = cut_label(_process.owner())
    return copy


def _time(message: Any, field: str) -> Optional[datetime]:
    if not message.HasField(field):
        return None
    stamp: datetime = getattr(message, field).ToDatetime()
    return stamp.replace(tzinfo=timezone.utc)


def _seconds(duration: Any) -> float:
    return float(duration.seconds + duration.nanos / 1e9)


def _mode(value: int) -> Mode:
    return Mode(value) if value in (1, 2, 3) else Mode.EXCLUSIVE


def _holders(message: Any) -> Tuple[Holder, ...]:
    return tuple(Holder(h.holder_id, h.owner, dict(h.metadata), _mode(h.mode), h.permits, h.fencing_token,
                        _time(h, "acquire_time"), _seconds(h.time_left), _seconds(h.ttl), h.broker_id)
                 for h in message.holders)


def _block(message: Any) -> Optional[Block]:
    if not message.HasField("block"):
        return None
    block = message.block
    return Block(_time(block, "start_time"), _seconds(block.time_left), block.owner)


def lock_info(lock: lock_pb2.LockInfo, hold_off: float = 0.0) -> LockInfo:
    waiters = tuple(Waiting(w.waiter_id, w.owner, dict(w.metadata), _mode(w.mode), w.permits, _time(w, "start_time"),
                            w.broker_id) for w in lock.waiters)
    return LockInfo(lock.namespace, lock.key, _holders(lock), waiters, lock.fencing_token, lock.queue_length,
                    lock.holder_count, _block(lock), hold_off)


def lock_of(response: look_pb2.GetLockResponse) -> LockInfo:
    return lock_info(response.lock, _seconds(response.hold_off))


def locks_of(response: look_pb2.ListLocksResponse) -> List[LockInfo]:
    return [lock_info(lock, _seconds(response.hold_off)) for lock in response.locks]


def queued(message: wire.AcquireQueued) -> Queued:
    return Queued(message.position, _holders(message), _block(message))


def _name(enum: Any, value: int, prefix: str) -> str:
    """Without the prefix; a value of a newer contract is named by its number."""
    known = enum.values_by_number.get(value)
    return str(known.name)[len(prefix):] if known is not None else f"UNKNOWN_{value}"


def lost_reason(value: int) -> str:
    return _name(lock_pb2.LostReason.DESCRIPTOR, value, LOST)


_OUTCOMES = {1: Outcome.RELEASED, 2: Outcome.STILL_HELD, 3: Outcome.ALREADY_GONE}


def outcome(value: int) -> Outcome:
    return _OUTCOMES.get(value, Outcome.UNKNOWN)


def duration_ns(duration: Any) -> int:
    """As its ToNanoseconds(), which checks more than a broker gets wrong, and takes longer."""
    return int(duration.seconds * SECOND + duration.nanos)


def refusal(message: lock_pb2.Refusal) -> Refused:
    reason = _name(lock_pb2.RefusalReason.DESCRIPTOR, message.reason, REASON)
    return kind_of(reason)(
        reason, message.message,
        retry_after=_seconds(message.retry_after) if message.HasField("retry_after") else None,
        waited=_seconds(message.waited), holders=_holders(message), queue_length=message.queue_length,
        field_problems=tuple((p.field, p.description) for p in message.field_problems), block=_block(message))
