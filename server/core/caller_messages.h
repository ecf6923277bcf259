// SPDX-License-Identifier: Apache-2.0
//
// The inputs of the core that come from streams and calls.
//
// A caller is named by (SessionId, RequestId), never by a pointer: an answer to one that is gone is a failed look-up in
// the shard. All types are plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/lock_name.h"
#include "core/types.h"

namespace distlock::core {

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
  Duration min_hold{};  // released sooner after its grant, the lock stays blocked until then; only EXCLUSIVE, and alone
  OnDisconnect on_disconnect = OnDisconnect::kSafe;
  bool resume = false;       // the client adopts the lease when its stream has ended
  bool tell_wanted = false;  // the stream hears when somebody wants the lock; not detached
  std::string info;          // public facts about the caller, opaque here, shown to others
  // Not empty: the same session may take the lock again under the same label while it has it. Not of a detached lease.
  std::string reentry;
};

// 1..kMaxTogether different locks, all or nothing: each part is answered under its own request, all Granted or all
// Refused. All are of one session, one kind (detached or not) and one max_wait. Detached ones are renewed here until
// the last is granted.
struct AcquireAll {
  std::vector<Acquire> parts;
};

// Withdraws the acquire (session, acquire) that is not granted yet; it is then Refused(kCancelled). A lease already
// granted under that id is released and answered the same way. Unknown ids are ignored.
struct Cancel {
  SessionId session = 0;
  RequestId acquire = 0;
};

// Gives a lease back; answered Released or Refused to (session, request). By `acquire` of the session, or, if 0, by
// name and owner.
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

// Makes an EXCLUSIVE lease SHARED, in one step and under the same token; answered Downgraded or Refused to (session,
// request). By `acquire` of the same session, or, when that is 0, by name and owner.
struct Downgrade {
  SessionId session = 0;
  RequestId request = 0;
  RequestId acquire = 0;
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;  // as in Release
  std::string info;    // appended to what the holder says of itself
};

// Takes over a lease that another stream has, or had, or that was detached: the same grant, for this session. Answered
// Granted or Refused to (session, request), (session, request + 1), ... for each hold.
struct Adopt {
  SessionId session = 0;
  RequestId request = 0;
  LockName name;
  OwnerId from{};      // who has it
  uint64_t token = 0;  // its grant; not 0
  // The owner that takes it: new in each try, but with a first half that all tries of the request share. Behind it are
  // the number of the client's session, as in IsTry, two bytes of the session's own, and two that count its adoptions.
  // Then a repeat takes it from the try before, an earlier try that is late takes nothing back, and what ends that try
  // or its session later does not touch it.
  OwnerId owner{};
  Duration ttl{};  // the lease's, as its id says
  Want want;       // how it is held
  Duration max_hold{};
  OnDisconnect on_disconnect = OnDisconnect::kSafe;
  bool resume = false;       // as in Acquire
  bool tell_wanted = false;  // as in Acquire
  std::string info;
  std::string reentry;      // as in Acquire
  uint32_t hold_count = 1;  // by so many requests; more than 1 only with `reentry`
};

// Takes a lock from one holder; answered to (session, request): Released once the store has confirmed that it holds it
// no more, or Refused when that is not known in time. `broker_id`: through which it has the lock; "" when that is not
// known.
struct ForceRelease {
  SessionId session = 0;
  RequestId request = 0;
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;  // the grant that is meant
  std::string broker_id;
  std::string reason;  // for the holder
};

// Shows the lock, and each change of its holders or waiters from then on, as Changed to (session, request),
// until StreamEnded. No OpenSession precedes it.
struct WatchLock {
  SessionId session = 0;
  RequestId request = 0;
  LockName name;
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

// The process that holds what a stream holds has ended, with all its threads, so nobody believes in that any more. It
// may come before StreamEnded, after it or without it, more than once, and of streams that never were. Nothing that is
// left to its ttl is freed by it, and no detached lease.
struct HolderDied {
  SessionId session = 0;
  std::string who;  // for the log
};

struct Drain {
  Duration timeout{};
};

}  // namespace distlock::core
