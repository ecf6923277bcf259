from distlock.v1 import lock_pb2 as _lock_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CheckTokenRequest(_message.Message):
    __slots__ = ["fencing_token", "key", "namespace"]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    fencing_token: int
    key: str
    namespace: str
    def __init__(self, namespace: _Optional[str] = ..., key: _Optional[str] = ..., fencing_token: _Optional[int] = ...) -> None: ...

class CheckTokenResponse(_message.Message):
    __slots__ = ["newest", "newest_token"]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    NEWEST_TOKEN_FIELD_NUMBER: _ClassVar[int]
    newest: bool
    newest_token: int
    def __init__(self, newest: bool = ..., newest_token: _Optional[int] = ...) -> None: ...

class GetLockRequest(_message.Message):
    __slots__ = ["key", "max_waiters", "namespace"]
    KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_WAITERS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    key: str
    max_waiters: int
    namespace: str
    def __init__(self, namespace: _Optional[str] = ..., key: _Optional[str] = ..., max_waiters: _Optional[int] = ...) -> None: ...

class GetLockResponse(_message.Message):
    __slots__ = ["hold_off", "lock"]
    HOLD_OFF_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    hold_off: _duration_pb2.Duration
    lock: _lock_pb2.LockInfo
    def __init__(self, lock: _Optional[_Union[_lock_pb2.LockInfo, _Mapping]] = ..., hold_off: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ListLocksRequest(_message.Message):
    __slots__ = ["key_prefix", "namespace", "page_size", "page_token"]
    KEY_PREFIX_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    key_prefix: str
    namespace: str
    page_size: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., key_prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListLocksResponse(_message.Message):
    __slots__ = ["hold_off", "locks", "next_page_token"]
    HOLD_OFF_FIELD_NUMBER: _ClassVar[int]
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    hold_off: _duration_pb2.Duration
    locks: _containers.RepeatedCompositeFieldContainer[_lock_pb2.LockInfo]
    next_page_token: str
    def __init__(self, locks: _Optional[_Iterable[_Union[_lock_pb2.LockInfo, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., hold_off: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WatchLockRequest(_message.Message):
    __slots__ = ["key", "namespace"]
    KEY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    key: str
    namespace: str
    def __init__(self, namespace: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class WatchLockResponse(_message.Message):
    __slots__ = ["lock"]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    lock: _lock_pb2.LockInfo
    def __init__(self, lock: _Optional[_Union[_lock_pb2.LockInfo, _Mapping]] = ...) -> None: ...

class WatchLocksRequest(_message.Message):
    __slots__ = ["key_prefix", "namespace"]
    KEY_PREFIX_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    key_prefix: str
    namespace: str
    def __init__(self, namespace: _Optional[str] = ..., key_prefix: _Optional[str] = ...) -> None: ...

class WatchLocksResponse(_message.Message):
    __slots__ = ["listed", "locks"]
    LISTED_FIELD_NUMBER: _ClassVar[int]
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    listed: bool
    locks: _containers.RepeatedCompositeFieldContainer[_lock_pb2.LockInfo]
    def __init__(self, locks: _Optional[_Iterable[_Union[_lock_pb2.LockInfo, _Mapping]]] = ..., listed: bool = ...) -> None: ...
