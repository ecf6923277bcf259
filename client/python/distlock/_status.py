# SPDX-License-Identifier: Apache-2.0
"""A failed call's status as a Refused. Reads the google.rpc details by hand: their generated classes would clash with
those of a program that has googleapis-common-protos."""
from typing import Any, Dict, Iterator, List, Tuple, Union

from distlock._tls import connect_failure
from distlock._words import as_written
from distlock.errors import Refused, kind_of
from distlock.types import Holder, Mode

DETAILS = "grpc-status-details-bin"
BY_CODE = {"UNAVAILABLE": "UNREACHABLE", "DEADLINE_EXCEEDED": "UNREACHABLE", "INVALID_ARGUMENT": "INVALID_ARGUMENT",
           "UNIMPLEMENTED": "NOT_SUPPORTED", "UNAUTHENTICATED": "UNAUTHENTICATED", "CANCELLED": "CANCELLED",
           "PERMISSION_DENIED": "PERMISSION_DENIED", "RESOURCE_EXHAUSTED": "QUOTA_EXCEEDED"}
Value = Union[int, bytes]


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[Tuple[int, Value]]:
    """Field numbers and values of a message; groups and fixed widths do not occur in these."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = _varint(data, at)
        if tag & 7 == 2:
            yield tag >> 3, data[at:at + value]
            at += value
        elif tag & 7 == 0:
            yield tag >> 3, value
        else:
            raise ValueError(f"wire type {tag & 7}")


def _message(data: Value) -> Dict[int, List[Value]]:
    found: Dict[int, List[Value]] = {}
    for number, value in _fields(data if isinstance(data, bytes) else b""):
        found.setdefault(number, []).append(value)
    return found


def _text(message: Dict[int, List[Value]], number: int) -> str:
    value = message.get(number, [b""])[0]
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _number(message: Dict[int, List[Value]], number: int) -> int:
    value = message.get(number, [0])[0]
    return value if isinstance(value, int) else 0


def _details(trailers: Any) -> Dict[str, Dict[int, List[Value]]]:
    """The details by the last part of their type's name."""
    for name, value in trailers or ():
        if name != DETAILS or not isinstance(value, bytes):
            continue
        try:
            anys = [_message(one) for one in _message(value).get(3, [])]
            return {_text(one, 1).rpartition(".")[2]: _message(one.get(2, [b""])[0]) for one in anys}
        except (IndexError, ValueError):
            return {}
    return {}


def refused(error: Any, address: str = "") -> Refused:
    """`error`: a grpc.RpcError, or a call that has ended; of a call to `address`, if that is known."""
    code = error.code().name if error.code() is not None else "UNKNOWN"
    details = _details(error.trailing_metadata())
    info = details.get("ErrorInfo", {})
    reason = _text(info, 1) or BY_CODE.get(code, code)
    extra = {_text(entry, 1): _text(entry, 2) for entry in map(_message, info.get(3, []))}
    resource = details.get("ResourceInfo", {})
    holders: Tuple[Holder, ...] = ()
    if extra.get("holder_id"):
        holders = (Holder(extra["holder_id"], _text(resource, 3), {}, Mode.EXCLUSIVE, 0,
                          int(extra.get("fencing_token") or 0), None, 0.0, 0.0, ""),)
    retry = _message(details.get("RetryInfo", {}).get(1, [b""])[0])
    problems = [_message(one) for one in details.get("BadRequest", {}).get(1, [])]
    return as_written(kind_of(reason)(
        reason, connect_failure(address, error.details() or code), holders=holders,
        queue_length=int(extra.get("queue_length") or 0),
        retry_after=_number(retry, 1) + _number(retry, 2) / 1e9 if retry else None,
        field_problems=tuple((_text(one, 1), _text(one, 2)) for one in problems)))
