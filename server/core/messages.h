// SPDX-License-Identifier: Apache-2.0
//
// The waist of the daemon: everything that can happen to the core (Input) and everything it can want (Effect).
// Left of it speaks protobuf, right of it speaks RESP, and neither knows the other exists.
//
// Listeners are named by (SessionId, RequestId), never by pointer: an answer to one that is gone is a failed look-up in
// the shard. All types are plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/lease_changes.h"
#include "core/lock_name.h"
#include "core/types.h"
#include "core/watch_messages.h"

namespace distlock::core {

// ---- Inputs from callers -------------------------------------------------------------------------------------------

// kSession: belief is kept alive by Heartbeat. kHold: one acquire, belief is kept alive by Renewed events.
enum class SessionKind : uint8_t { kSession, kHold };

struct OpenSession {
  SessionId session = 0;
  SessionKind kind = SessionKind::kSession;
};

// `detached`: the caller renews; no OpenSession precedes it and the broker forgets the lease once it is granted.
struct Acquire {
  SessionId session = 0;
  RequestId request = 0;
  bool detached = false;
  LockName name;
  Want want;
  OwnerId owner{};  // random, or derived from a request_id: the same owner gets the same grant
  Duration ttl{};
  std::optional<Duration> max_wait;  // unset: until granted; 0: one try
  Duration max_hold{};               // 0 = none
  Duration lock_delay{};
  OnDisconnect on_disconnect = OnDisconnect::kSafe;
  std::string info;  // public facts about the caller, opaque here, shown to others
  // Not empty: the same session may take the lock again under the same label while it has it. Not of a detached lease.
  std::string reentry;
};

// 1..kMaxTogether different locks, all or nothing: each part is answered under its own request, all Granted or all Refused. All are of
// one session, one kind (detached or not) and one max_wait. Detached ones are renewed here until the last is granted.
struct AcquireAll {
  std::vector<Acquire> parts;
};

// Withdraws the acquire (session, acquire) that is not granted yet; it is then Refused(kCancelled). A lease already
// granted under that id is released and answered the same way. Unknown ids are ignored.
struct Cancel {
  SessionId session = 0;
  RequestId acquire = 0;
};

// Gives a lease back; answered Released or Refused to (session, request). By `acquire` of the session, or, if 0, by name and owner.
struct Release {
  SessionId session = 0;
  RequestId request = 0;
  RequestId acquire = 0;
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;   // the grant that is meant: its owner may have been granted the lock again. 0: any
  Duration ttl{};       // of a detached lease: so long the release is repeated until the store has confirmed it
  bool lapsed = false;  // its client does not believe in it any more: it is lost
};

// Extends a detached lease; answered RenewDone or Refused to (session, request).
struct Renew {
  SessionId session = 0;
  RequestId request = 0;
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;  // as in Release
  Duration ttl{};
  StoreTime hold_until;  // end by max_hold, at most kMaxStoreTime; us = 0: none
};

struct Heartbeat {
  SessionId session = 0;
  uint64_t seq = 0;
};

struct Goodbye {
  SessionId session = 0;
};

// The stream or call is over and nobody listens any more. Must be posted exactly once per session or call.
struct StreamEnded {
  SessionId session = 0;
};

struct Drain {
  Duration timeout{};
};

// Time passed; nothing else happened.
struct Tick {};

// ---- Inputs from the store -----------------------------------------------------------------------------------------

// Commands can be sent; `time` was read on the connection just made.
struct StoreUp {
  StoreTime time;
};
struct StoreDown {
  std::string cause;
};
// The hand-off channel is subscribed (again): notices may have been missed.
struct ChannelUp {};

// A lock was handed to a waiter of this broker. Or, with an owner of zeros, it is blocked for `ttl`, and a waiter of this
// broker may be the next.
struct GrantNotice {
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;
  StoreTime since;
  Duration ttl{};
};

enum class FailureKind : uint8_t {
  kNotSent,      // no connection, or refused before it left
  kUnavailable,  // the store answered that it cannot serve (READONLY, LOADING, BUSY, NOREPLICAS, MISCONF, ...)
  kFull,         // maxmemory
  kForeignKey,   // something else is stored under the lock's name
  kProtocol,     // an answer of unknown shape, or a script error
};

// Known not to have changed anything.
struct StoreFailed {
  FailureKind kind = FailureKind::kNotSent;
  std::string cause;
};
// It may or may not have run.
struct StoreUnknown {
  std::string cause;
};

struct AcquireGranted {
  uint64_t token = 0;
  StoreTime since;
};
// `holders`: at most 16, none of very many. `left`: when to look again; unset: when the first of them may have ended, or, with
// none, at once, since the lock is free.
struct AcquireQueued {
  uint32_t position = 0;  // waiters ahead
  std::vector<HolderView> holders;
  uint32_t queue_length = 0;
  std::optional<Duration> left;
};
struct AcquireHeld {
  std::vector<HolderView> holders;
  uint32_t queue_length = 0;
  std::optional<Duration> left;
};
// Its holders have it in a mode, or out of a limit, that does not mix with what was wanted; nothing was done.
struct AcquireMismatch {
  Mode mode = Mode::kExclusive;
  uint32_t limit = 0;
};
struct AcquireLate {};  // not_after had passed; nothing was done
struct AcquireQueueFull {
  uint32_t queue_length = 0;
};

// Each of them, in the order of StoreAcquireAll::items; none: one of them is not free, and nothing was done.
struct AcquireAllDone {
  std::vector<AcquireGranted> grants;
};

enum class RenewResult : uint8_t { kRenewed, kGone, kAnothers };
struct RenewDoneBatch {
  std::vector<RenewResult> results;  // in the order of StoreRenew::items
};

// Release and withdraw answer alike.
struct GiveBackDone {
  bool was_holder = false;
  bool was_waiter = false;
  bool look = false;  // this broker is to tend its queue at once
  // The next holders that are waiters of this broker (no notices are sent for them).
  std::vector<HolderView> next;
};

struct TendDone {
  bool slot_was_gone = false;  // this broker's waiters are no longer queued: ask again for each
  bool more = false;           // dead waiters, or more who fit, are left: tend again at once
  // The one who has it; of many, those of StoreTend::asked, and waiters of this broker who have it since this call.
  std::vector<HolderView> holders;
  std::optional<Duration> left;  // as in AcquireQueued
};

// The answer to the store command `op`; exactly one for each.
struct StoreReply {
  OpId op = 0;
  StoreTime time;  // us = 0 with StoreFailed and StoreUnknown
  std::variant<StoreUnknown, StoreFailed, AcquireGranted, AcquireQueued, AcquireHeld, AcquireLate, AcquireQueueFull,
               AcquireMismatch, AcquireAllDone, RenewDoneBatch, GiveBackDone, TendDone, WatchDone, ConvertDone,
               ForceDone>
      outcome;
};

using Input = std::variant<Tick, OpenSession, Acquire, AcquireAll, Cancel, Release, Renew, Convert, ForceRelease,
                           WatchLock, Heartbeat, Goodbye, StreamEnded, Drain, StoreUp, StoreDown, ChannelUp,
                           GrantNotice, ChangeNotice, ForceNotice, StoreReply>;

// ---- Effects on the store ------------------------------------------------------------------------------------------

struct StoreAcquire {
  OpId op = 0;
  LockName name;
  Want want;
  OwnerId owner{};
  Duration ttl{};
  Duration lock_delay{};
  StoreTime not_after;  // the script does nothing at or after it
  bool wait = false;
  std::string info;
};
// All of them if all are free and nobody waits for any; else none. Never in a queue.
struct StoreAcquireAll {
  OpId op = 0;
  StoreTime not_after;              // as in StoreAcquire
  std::vector<StoreAcquire> items;  // 1..kMaxTogether; of each: name, want, owner, ttl, lock_delay and info
};
struct RenewItem {
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;  // kAnothers when the owner has it under another; 0: any
  Duration ttl{};
  StoreTime hold_until;  // the ttl is cut there; us = 0: none
};
struct StoreRenew {
  OpId op = 0;
  std::vector<RenewItem> items;  // 1..kMaxRenewBatch
};
struct StoreRelease {
  OpId op = 0;
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;  // only this grant of the owner; 0: any
  Duration block{};    // > 0: nobody gets it for this long, instead of handing it off
};
struct StoreWithdraw {
  OpId op = 0;
  LockName name;
  OwnerId owner{};
  bool keep_grant = false;  // only the place in this broker's queue is given up
};
struct StoreTend {
  OpId op = 0;
  LockName name;
  // Those of our waiters who may have been granted the lock without our hearing of it: 1..kMaxAsked, the first one first.
  std::vector<OwnerId> asked;
};
// Nothing has been heard on the command connection for too long: make a new one. All pending commands end Unknown.
struct StoreReconnect {
  std::string cause;
};

using StoreCommand = std::variant<StoreAcquire, StoreAcquireAll, StoreRenew, StoreRelease, StoreWithdraw, StoreTend,
                                  StoreWatch, StoreConvert, StoreForce, StoreReconnect>;

// ---- Effects on listeners ------------------------------------------------------------------------------------------

struct Queued {
  uint32_t position = 0;
  std::vector<HolderView> holders;
};
struct Granted {
  LockName name;
  Mode mode = Mode::kExclusive;
  OwnerId owner{};
  uint64_t token = 0;
  StoreTime since;
  Duration valid_for{};
  uint64_t echo_seq = 0;
  Duration ttl{};
  Duration waited{};
  uint32_t hold_count = 1;
};
struct Refused {
  RefusalReason reason = RefusalReason::kStoreUnavailable;
  std::string cause;  // facts for the message; "" when the reason says all
  Duration retry_after{};
  Duration waited{};
  std::vector<HolderView> holders;
  uint32_t queue_length = 0;
  LockName about;  // of several locks, the one that was not to be had; else empty
};
// Sent under the release's id, and also under the acquire's id when somebody else than its session released it, or when a
// release by owner ended a lease that was taken more than once.
struct Released {
  ReleaseOutcome outcome = ReleaseOutcome::kReleased;
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;
};
struct RenewDone {
  Duration valid_for{};
  Duration ttl{};
};
struct LeaseLimit {
  RequestId acquire = 0;
  Duration valid_for{};
};
struct HeartbeatAck {
  uint64_t seq = 0;
  Duration valid_for{};
  std::vector<LeaseLimit> limits;
};
struct Renewed {
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;
  Duration valid_for{};
};
struct AtRisk {
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;
  Duration valid_for{};
  std::string cause;
};
struct Lost {
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;
  LostReason reason = LostReason::kExpired;
  std::string cause;
};
struct Draining {
  Duration time_left{};
};

// The core wants the stream finished; every event before it comes first. The stream still answers with StreamEnded.
enum class StreamEnd : uint8_t {
  kGoodbye,  // all leases are on their way back
  kLapsed,   // no heartbeat for a whole validity
  kDrained,  // the broker's drain timeout passed
};
struct EndStream {
  StreamEnd why = StreamEnd::kGoodbye;
};

using Event = std::variant<Queued, Granted, Refused, Released, RenewDone, HeartbeatAck, Renewed, AtRisk, Lost, Draining,
                           Changed, Converted, EndStream>;

struct Notify {
  SessionId session = 0;
  RequestId request = 0;  // 0 for HeartbeatAck, Draining and EndStream
  Event event;
};

// ---- Effects for the record ----------------------------------------------------------------------------------------

enum class FactKind : uint8_t {
  kGranted,      // value: waited
  kRefused,      // refusal; value: waited
  kReleased,     // as asked for; value: held, 0 of a detached lease
  kLost,         // lost; value: held
  kAbandoned,    // its stream ended; value: held
  kHandedOff,    // by reply, notice or tend; see handoff
  kAtRisk,       // a renewal failed with time left to try again
  kRenewed,      // count: answered by one command
  kRenewFailed,  // count: left unanswered by one command
  kSessionLapsed,
  kClockStep,    // value: by how much the store's clock jumped
  kAlreadyGone,  // a release found nothing
  kGivenBack,    // a grant that nobody here could use any more
};
enum class HandoffPath : uint8_t { kReply, kNotice, kTend };

// What happened, for metrics and logs; nobody else acts on it.
struct Fact {
  FactKind kind = FactKind::kGranted;
  Duration value{};
  uint32_t count = 1;
  RefusalReason refusal{};
  LostReason lost{};
  HandoffPath handoff{};
  LockName name;  // empty where it is about no single lock
  std::string detail;
};

// Nothing is held or waiting any more after Drain.
struct DrainComplete {};

using Effect = std::variant<StoreCommand, Notify, Fact, DrainComplete>;

}  // namespace distlock::core
