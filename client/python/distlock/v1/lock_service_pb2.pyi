from distlock.v1 import lock_pb2 as _lock_pb2
from distlock.v1 import look_pb2 as _look_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
RELEASE_OUTCOME_ALREADY_GONE: ReleaseOutcome
RELEASE_OUTCOME_RELEASED: ReleaseOutcome
RELEASE_OUTCOME_STILL_HELD: ReleaseOutcome
RELEASE_OUTCOME_UNSPECIFIED: ReleaseOutcome

class AcquireLocks(_message.Message):
    __slots__ = ["locks", "request_id"]
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[_lock_pb2.LockSpec]
    request_id: str
    def __init__(self, locks: _Optional[_Iterable[_Union[_lock_pb2.LockSpec, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class AcquireQueued(_message.Message):
    __slots__ = ["block", "holders", "position"]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    block: _lock_pb2.LockBlock
    holders: _containers.RepeatedCompositeFieldContainer[_lock_pb2.Holder]
    position: int
    def __init__(self, position: _Optional[int] = ..., holders: _Optional[_Iterable[_Union[_lock_pb2.Holder, _Mapping]]] = ..., block: _Optional[_Union[_lock_pb2.LockBlock, _Mapping]] = ...) -> None: ...

class AcquireRequest(_message.Message):
    __slots__ = ["locks", "request_id"]
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[_lock_pb2.LockSpec]
    request_id: str
    def __init__(self, locks: _Optional[_Iterable[_Union[_lock_pb2.LockSpec, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class AcquireResponse(_message.Message):
    __slots__ = ["grants"]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[_lock_pb2.Grant]
    def __init__(self, grants: _Optional[_Iterable[_Union[_lock_pb2.Grant, _Mapping]]] = ...) -> None: ...

class AdoptLease(_message.Message):
    __slots__ = ["hold_count", "lease_id", "lock", "request_id"]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    hold_count: int
    lease_id: str
    lock: _lock_pb2.LockSpec
    request_id: str
    def __init__(self, lease_id: _Optional[str] = ..., lock: _Optional[_Union[_lock_pb2.LockSpec, _Mapping]] = ..., request_id: _Optional[str] = ..., hold_count: _Optional[int] = ...) -> None: ...

class BrokerDraining(_message.Message):
    __slots__ = ["deadline_time", "time_left"]
    DEADLINE_TIME_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    deadline_time: _timestamp_pb2.Timestamp
    time_left: _duration_pb2.Duration
    def __init__(self, time_left: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., deadline_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CancelAcquire(_message.Message):
    __slots__ = ["acquire_id"]
    ACQUIRE_ID_FIELD_NUMBER: _ClassVar[int]
    acquire_id: int
    def __init__(self, acquire_id: _Optional[int] = ...) -> None: ...

class DowngradeLease(_message.Message):
    __slots__ = ["acquire_id", "lease_id"]
    ACQUIRE_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    acquire_id: int
    lease_id: str
    def __init__(self, acquire_id: _Optional[int] = ..., lease_id: _Optional[str] = ...) -> None: ...

class DowngradeRequest(_message.Message):
    __slots__ = ["lease_id"]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    def __init__(self, lease_id: _Optional[str] = ...) -> None: ...

class DowngradeResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class Goodbye(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ["seq"]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    seq: int
    def __init__(self, seq: _Optional[int] = ...) -> None: ...

class HeartbeatAck(_message.Message):
    __slots__ = ["limits", "seq", "valid_for"]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    limits: _containers.RepeatedCompositeFieldContainer[LeaseLimit]
    seq: int
    valid_for: _duration_pb2.Duration
    def __init__(self, seq: _Optional[int] = ..., valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., limits: _Optional[_Iterable[_Union[LeaseLimit, _Mapping]]] = ...) -> None: ...

class HoldRequest(_message.Message):
    __slots__ = ["generation", "lock", "process", "request_id"]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    generation: int
    lock: _lock_pb2.LockSpec
    process: ProcessClaim
    request_id: str
    def __init__(self, lock: _Optional[_Union[_lock_pb2.LockSpec, _Mapping]] = ..., process: _Optional[_Union[ProcessClaim, _Mapping]] = ..., request_id: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class HoldResponse(_message.Message):
    __slots__ = ["at_risk", "draining", "granted", "lost", "queued", "released", "renewed", "wanted"]
    AT_RISK_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    at_risk: LeaseAtRisk
    draining: BrokerDraining
    granted: _lock_pb2.Grant
    lost: LeaseLost
    queued: AcquireQueued
    released: LeaseReleased
    renewed: LeaseRenewed
    wanted: LeaseWanted
    def __init__(self, queued: _Optional[_Union[AcquireQueued, _Mapping]] = ..., granted: _Optional[_Union[_lock_pb2.Grant, _Mapping]] = ..., renewed: _Optional[_Union[LeaseRenewed, _Mapping]] = ..., at_risk: _Optional[_Union[LeaseAtRisk, _Mapping]] = ..., lost: _Optional[_Union[LeaseLost, _Mapping]] = ..., draining: _Optional[_Union[BrokerDraining, _Mapping]] = ..., released: _Optional[_Union[LeaseReleased, _Mapping]] = ..., wanted: _Optional[_Union[LeaseWanted, _Mapping]] = ...) -> None: ...

class LeaseAtRisk(_message.Message):
    __slots__ = ["cause", "lease", "since_granted", "valid_for"]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    SINCE_GRANTED_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    cause: str
    lease: LeaseRef
    since_granted: _duration_pb2.Duration
    valid_for: _duration_pb2.Duration
    def __init__(self, lease: _Optional[_Union[LeaseRef, _Mapping]] = ..., valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., cause: _Optional[str] = ..., since_granted: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LeaseDowngraded(_message.Message):
    __slots__ = ["lease"]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseRef
    def __init__(self, lease: _Optional[_Union[LeaseRef, _Mapping]] = ...) -> None: ...

class LeaseLimit(_message.Message):
    __slots__ = ["acquire_id", "valid_for"]
    ACQUIRE_ID_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    acquire_id: int
    valid_for: _duration_pb2.Duration
    def __init__(self, acquire_id: _Optional[int] = ..., valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LeaseLost(_message.Message):
    __slots__ = ["lease", "message", "reason"]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseRef
    message: str
    reason: _lock_pb2.LostReason
    def __init__(self, lease: _Optional[_Union[LeaseRef, _Mapping]] = ..., reason: _Optional[_Union[_lock_pb2.LostReason, str]] = ..., message: _Optional[str] = ...) -> None: ...

class LeaseRef(_message.Message):
    __slots__ = ["fencing_token", "holder_id", "key", "namespace"]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HOLDER_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    fencing_token: int
    holder_id: str
    key: str
    namespace: str
    def __init__(self, namespace: _Optional[str] = ..., key: _Optional[str] = ..., holder_id: _Optional[str] = ..., fencing_token: _Optional[int] = ...) -> None: ...

class LeaseReleased(_message.Message):
    __slots__ = ["lease", "outcome"]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseRef
    outcome: ReleaseOutcome
    def __init__(self, lease: _Optional[_Union[LeaseRef, _Mapping]] = ..., outcome: _Optional[_Union[ReleaseOutcome, str]] = ...) -> None: ...

class LeaseRenewed(_message.Message):
    __slots__ = ["lease", "since_granted", "valid_for"]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    SINCE_GRANTED_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseRef
    since_granted: _duration_pb2.Duration
    valid_for: _duration_pb2.Duration
    def __init__(self, lease: _Optional[_Union[LeaseRef, _Mapping]] = ..., valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., since_granted: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LeaseWanted(_message.Message):
    __slots__ = ["lease"]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseRef
    def __init__(self, lease: _Optional[_Union[LeaseRef, _Mapping]] = ...) -> None: ...

class OpenSession(_message.Message):
    __slots__ = ["client", "generation", "process"]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    client: str
    generation: int
    process: ProcessClaim
    def __init__(self, client: _Optional[str] = ..., generation: _Optional[int] = ..., process: _Optional[_Union[ProcessClaim, _Mapping]] = ...) -> None: ...

class ProcessClaim(_message.Message):
    __slots__ = ["boot_id", "pidfd_inode"]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    PIDFD_INODE_FIELD_NUMBER: _ClassVar[int]
    boot_id: str
    pidfd_inode: int
    def __init__(self, boot_id: _Optional[str] = ..., pidfd_inode: _Optional[int] = ...) -> None: ...

class ReleaseLease(_message.Message):
    __slots__ = ["acquire_id", "lapsed", "lease_id"]
    ACQUIRE_ID_FIELD_NUMBER: _ClassVar[int]
    LAPSED_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    acquire_id: int
    lapsed: bool
    lease_id: str
    def __init__(self, acquire_id: _Optional[int] = ..., lease_id: _Optional[str] = ..., lapsed: bool = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ["lease_id"]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    def __init__(self, lease_id: _Optional[str] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ["outcome"]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    outcome: ReleaseOutcome
    def __init__(self, outcome: _Optional[_Union[ReleaseOutcome, str]] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ["lease_id"]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    def __init__(self, lease_id: _Optional[str] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ["ttl", "valid_for"]
    TTL_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    ttl: _duration_pb2.Duration
    valid_for: _duration_pb2.Duration
    def __init__(self, valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SessionCommand(_message.Message):
    __slots__ = ["acquire", "adopt", "authenticate", "cancel", "downgrade", "goodbye", "heartbeat", "id", "open", "release"]
    ACQUIRE_FIELD_NUMBER: _ClassVar[int]
    ADOPT_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    DOWNGRADE_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    acquire: AcquireLocks
    adopt: AdoptLease
    authenticate: _lock_pb2.Authenticate
    cancel: CancelAcquire
    downgrade: DowngradeLease
    goodbye: Goodbye
    heartbeat: Heartbeat
    id: int
    open: OpenSession
    release: ReleaseLease
    def __init__(self, id: _Optional[int] = ..., open: _Optional[_Union[OpenSession, _Mapping]] = ..., acquire: _Optional[_Union[AcquireLocks, _Mapping]] = ..., release: _Optional[_Union[ReleaseLease, _Mapping]] = ..., cancel: _Optional[_Union[CancelAcquire, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., downgrade: _Optional[_Union[DowngradeLease, _Mapping]] = ..., adopt: _Optional[_Union[AdoptLease, _Mapping]] = ..., authenticate: _Optional[_Union[_lock_pb2.Authenticate, _Mapping]] = ...) -> None: ...

class SessionEvent(_message.Message):
    __slots__ = ["at_risk", "authenticated", "downgraded", "draining", "granted", "heartbeat_ack", "id", "lost", "opened", "queued", "refused", "released", "renewed", "wanted"]
    AT_RISK_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATED_FIELD_NUMBER: _ClassVar[int]
    DOWNGRADED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_ACK_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    at_risk: LeaseAtRisk
    authenticated: _lock_pb2.Authenticated
    downgraded: LeaseDowngraded
    draining: BrokerDraining
    granted: _lock_pb2.Grant
    heartbeat_ack: HeartbeatAck
    id: int
    lost: LeaseLost
    opened: SessionOpened
    queued: AcquireQueued
    refused: _lock_pb2.Refusal
    released: LeaseReleased
    renewed: LeaseRenewed
    wanted: LeaseWanted
    def __init__(self, id: _Optional[int] = ..., opened: _Optional[_Union[SessionOpened, _Mapping]] = ..., queued: _Optional[_Union[AcquireQueued, _Mapping]] = ..., granted: _Optional[_Union[_lock_pb2.Grant, _Mapping]] = ..., refused: _Optional[_Union[_lock_pb2.Refusal, _Mapping]] = ..., released: _Optional[_Union[LeaseReleased, _Mapping]] = ..., heartbeat_ack: _Optional[_Union[HeartbeatAck, _Mapping]] = ..., renewed: _Optional[_Union[LeaseRenewed, _Mapping]] = ..., at_risk: _Optional[_Union[LeaseAtRisk, _Mapping]] = ..., lost: _Optional[_Union[LeaseLost, _Mapping]] = ..., draining: _Optional[_Union[BrokerDraining, _Mapping]] = ..., downgraded: _Optional[_Union[LeaseDowngraded, _Mapping]] = ..., authenticated: _Optional[_Union[_lock_pb2.Authenticated, _Mapping]] = ..., wanted: _Optional[_Union[LeaseWanted, _Mapping]] = ...) -> None: ...

class SessionOpened(_message.Message):
    __slots__ = ["broker_id", "features", "heartbeat_interval", "identity", "max_leases", "max_message_bytes", "max_unanswered", "process_bound", "proof_valid_for", "session_id", "store_held_off", "store_id", "store_problem", "validity"]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    MAX_LEASES_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_UNANSWERED_FIELD_NUMBER: _ClassVar[int]
    PROCESS_BOUND_FIELD_NUMBER: _ClassVar[int]
    PROOF_VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STORE_HELD_OFF_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    STORE_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    VALIDITY_FIELD_NUMBER: _ClassVar[int]
    broker_id: str
    features: _containers.RepeatedScalarFieldContainer[str]
    heartbeat_interval: _duration_pb2.Duration
    identity: str
    max_leases: int
    max_message_bytes: int
    max_unanswered: int
    process_bound: bool
    proof_valid_for: _duration_pb2.Duration
    session_id: str
    store_held_off: bool
    store_id: str
    store_problem: str
    validity: _duration_pb2.Duration
    def __init__(self, session_id: _Optional[str] = ..., broker_id: _Optional[str] = ..., validity: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., heartbeat_interval: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_message_bytes: _Optional[int] = ..., max_leases: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ..., identity: _Optional[str] = ..., process_bound: bool = ..., proof_valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_unanswered: _Optional[int] = ..., store_id: _Optional[str] = ..., store_problem: _Optional[str] = ..., store_held_off: bool = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ["commands"]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedCompositeFieldContainer[SessionCommand]
    def __init__(self, commands: _Optional[_Iterable[_Union[SessionCommand, _Mapping]]] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ["events"]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[SessionEvent]
    def __init__(self, events: _Optional[_Iterable[_Union[SessionEvent, _Mapping]]] = ...) -> None: ...

class ReleaseOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
