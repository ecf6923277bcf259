from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
LOCK_MODE_EXCLUSIVE: LockMode
LOCK_MODE_PERMIT: LockMode
LOCK_MODE_SHARED: LockMode
LOCK_MODE_UNSPECIFIED: LockMode
LOST_REASON_DRAINED: LostReason
LOST_REASON_EXPIRED: LostReason
LOST_REASON_FORCED: LostReason
LOST_REASON_MAX_HOLD: LostReason
LOST_REASON_MOVED: LostReason
LOST_REASON_TAKEN: LostReason
LOST_REASON_UNSPECIFIED: LostReason
ON_DISCONNECT_EXPIRE: OnDisconnect
ON_DISCONNECT_RELEASE: OnDisconnect
ON_DISCONNECT_SAFE: OnDisconnect
ON_DISCONNECT_UNSPECIFIED: OnDisconnect
QUEUE_POLICY_ADAPTIVE: QueuePolicy
QUEUE_POLICY_FAIR: QueuePolicy
QUEUE_POLICY_READER_PREFERRING: QueuePolicy
QUEUE_POLICY_UNSPECIFIED: QueuePolicy
QUEUE_POLICY_WRITER_PREFERRING: QueuePolicy
REFUSAL_REASON_CANCELLED: RefusalReason
REFUSAL_REASON_DRAINING: RefusalReason
REFUSAL_REASON_FOREIGN_KEY: RefusalReason
REFUSAL_REASON_INVALID_ARGUMENT: RefusalReason
REFUSAL_REASON_LEASE_LOST: RefusalReason
REFUSAL_REASON_LIMIT_MISMATCH: RefusalReason
REFUSAL_REASON_LOCK_HELD: RefusalReason
REFUSAL_REASON_NOT_HOLDER: RefusalReason
REFUSAL_REASON_NOT_SUPPORTED: RefusalReason
REFUSAL_REASON_PERMISSION_DENIED: RefusalReason
REFUSAL_REASON_QUORUM_NOT_REACHED: RefusalReason
REFUSAL_REASON_QUOTA_EXCEEDED: RefusalReason
REFUSAL_REASON_STORE_FULL: RefusalReason
REFUSAL_REASON_STORE_HOLD_OFF: RefusalReason
REFUSAL_REASON_STORE_UNAVAILABLE: RefusalReason
REFUSAL_REASON_UNAUTHENTICATED: RefusalReason
REFUSAL_REASON_UNSPECIFIED: RefusalReason
REFUSAL_REASON_WAIT_TIMEOUT: RefusalReason

class AccessDenial(_message.Message):
    __slots__ = ["identity", "key", "namespace", "rule", "verb"]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    identity: str
    key: str
    namespace: str
    rule: str
    verb: str
    def __init__(self, identity: _Optional[str] = ..., verb: _Optional[str] = ..., namespace: _Optional[str] = ..., key: _Optional[str] = ..., rule: _Optional[str] = ...) -> None: ...

class Authenticate(_message.Message):
    __slots__ = ["authorization"]
    AUTHORIZATION_FIELD_NUMBER: _ClassVar[int]
    authorization: str
    def __init__(self, authorization: _Optional[str] = ...) -> None: ...

class Authenticated(_message.Message):
    __slots__ = ["identity", "valid_for"]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    identity: str
    valid_for: _duration_pb2.Duration
    def __init__(self, identity: _Optional[str] = ..., valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class FieldProblem(_message.Message):
    __slots__ = ["description", "field"]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    description: str
    field: str
    def __init__(self, field: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ["echo_seq", "fencing_token", "hold_count", "holder_id", "key", "lease_id", "mode", "namespace", "replicas_acked", "since_granted", "ttl", "valid_for", "waited"]
    ECHO_SEQ_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HOLDER_ID_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ACKED_FIELD_NUMBER: _ClassVar[int]
    SINCE_GRANTED_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    WAITED_FIELD_NUMBER: _ClassVar[int]
    echo_seq: int
    fencing_token: int
    hold_count: int
    holder_id: str
    key: str
    lease_id: str
    mode: LockMode
    namespace: str
    replicas_acked: int
    since_granted: _duration_pb2.Duration
    ttl: _duration_pb2.Duration
    valid_for: _duration_pb2.Duration
    waited: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., key: _Optional[str] = ..., mode: _Optional[_Union[LockMode, str]] = ..., lease_id: _Optional[str] = ..., holder_id: _Optional[str] = ..., fencing_token: _Optional[int] = ..., valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., echo_seq: _Optional[int] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., waited: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., hold_count: _Optional[int] = ..., replicas_acked: _Optional[int] = ..., since_granted: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Holder(_message.Message):
    __slots__ = ["acquire_time", "broker_id", "detached", "fencing_token", "held_for", "holder_id", "identity", "limit", "metadata", "mode", "owner", "permits", "time_left", "ttl"]
    class MetadataEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ACQUIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HELD_FOR_FIELD_NUMBER: _ClassVar[int]
    HOLDER_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    acquire_time: _timestamp_pb2.Timestamp
    broker_id: str
    detached: bool
    fencing_token: int
    held_for: _duration_pb2.Duration
    holder_id: str
    identity: str
    limit: int
    metadata: _containers.ScalarMap[str, str]
    mode: LockMode
    owner: str
    permits: int
    time_left: _duration_pb2.Duration
    ttl: _duration_pb2.Duration
    def __init__(self, holder_id: _Optional[str] = ..., owner: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., mode: _Optional[_Union[LockMode, str]] = ..., permits: _Optional[int] = ..., fencing_token: _Optional[int] = ..., acquire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., time_left: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., broker_id: _Optional[str] = ..., identity: _Optional[str] = ..., limit: _Optional[int] = ..., held_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., detached: bool = ...) -> None: ...

class LockBlock(_message.Message):
    __slots__ = ["acquire_time", "min_hold", "owner", "start_time", "time_left"]
    ACQUIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    MIN_HOLD_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    acquire_time: _timestamp_pb2.Timestamp
    min_hold: _duration_pb2.Duration
    owner: str
    start_time: _timestamp_pb2.Timestamp
    time_left: _duration_pb2.Duration
    def __init__(self, start_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., time_left: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., owner: _Optional[str] = ..., min_hold: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., acquire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class LockInfo(_message.Message):
    __slots__ = ["block", "fencing_token", "holder_count", "holders", "key", "namespace", "queue_length", "waiters"]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    HOLDER_COUNT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    block: LockBlock
    fencing_token: int
    holder_count: int
    holders: _containers.RepeatedCompositeFieldContainer[Holder]
    key: str
    namespace: str
    queue_length: int
    waiters: _containers.RepeatedCompositeFieldContainer[Waiter]
    def __init__(self, namespace: _Optional[str] = ..., key: _Optional[str] = ..., holders: _Optional[_Iterable[_Union[Holder, _Mapping]]] = ..., waiters: _Optional[_Iterable[_Union[Waiter, _Mapping]]] = ..., fencing_token: _Optional[int] = ..., queue_length: _Optional[int] = ..., holder_count: _Optional[int] = ..., block: _Optional[_Union[LockBlock, _Mapping]] = ...) -> None: ...

class LockSpec(_message.Message):
    __slots__ = ["key", "limit", "lock_delay", "max_hold", "max_wait", "metadata", "min_hold", "mode", "namespace", "on_disconnect", "owner", "permits", "policy", "reentrant", "resume", "tell_wanted", "ttl"]
    class MetadataEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LOCK_DELAY_FIELD_NUMBER: _ClassVar[int]
    MAX_HOLD_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    MIN_HOLD_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ON_DISCONNECT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    REENTRANT_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    TELL_WANTED_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    key: str
    limit: int
    lock_delay: _duration_pb2.Duration
    max_hold: _duration_pb2.Duration
    max_wait: _duration_pb2.Duration
    metadata: _containers.ScalarMap[str, str]
    min_hold: _duration_pb2.Duration
    mode: LockMode
    namespace: str
    on_disconnect: OnDisconnect
    owner: str
    permits: int
    policy: QueuePolicy
    reentrant: bool
    resume: bool
    tell_wanted: bool
    ttl: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., key: _Optional[str] = ..., mode: _Optional[_Union[LockMode, str]] = ..., permits: _Optional[int] = ..., limit: _Optional[int] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., policy: _Optional[_Union[QueuePolicy, str]] = ..., owner: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., max_hold: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., lock_delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., on_disconnect: _Optional[_Union[OnDisconnect, str]] = ..., reentrant: bool = ..., resume: bool = ..., min_hold: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., tell_wanted: bool = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ["block", "denial", "field_problems", "holders", "message", "queue_length", "reason", "retry_after", "waited"]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    DENIAL_FIELD_NUMBER: _ClassVar[int]
    FIELD_PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    WAITED_FIELD_NUMBER: _ClassVar[int]
    block: LockBlock
    denial: AccessDenial
    field_problems: _containers.RepeatedCompositeFieldContainer[FieldProblem]
    holders: _containers.RepeatedCompositeFieldContainer[Holder]
    message: str
    queue_length: int
    reason: RefusalReason
    retry_after: _duration_pb2.Duration
    waited: _duration_pb2.Duration
    def __init__(self, reason: _Optional[_Union[RefusalReason, str]] = ..., message: _Optional[str] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., waited: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., holders: _Optional[_Iterable[_Union[Holder, _Mapping]]] = ..., queue_length: _Optional[int] = ..., field_problems: _Optional[_Iterable[_Union[FieldProblem, _Mapping]]] = ..., block: _Optional[_Union[LockBlock, _Mapping]] = ..., denial: _Optional[_Union[AccessDenial, _Mapping]] = ...) -> None: ...

class Waiter(_message.Message):
    __slots__ = ["broker_id", "metadata", "mode", "owner", "permits", "start_time", "waiter_id"]
    class MetadataEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    WAITER_ID_FIELD_NUMBER: _ClassVar[int]
    broker_id: str
    metadata: _containers.ScalarMap[str, str]
    mode: LockMode
    owner: str
    permits: int
    start_time: _timestamp_pb2.Timestamp
    waiter_id: str
    def __init__(self, waiter_id: _Optional[str] = ..., owner: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., mode: _Optional[_Union[LockMode, str]] = ..., permits: _Optional[int] = ..., start_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., broker_id: _Optional[str] = ...) -> None: ...

class LockMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class QueuePolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class OnDisconnect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class RefusalReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class LostReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
