// SPDX-License-Identifier: Apache-2.0
//
// What a broker core remembers: sessions, waiters, leases and queues. Plain
// records without behaviour; class Broker keeps their invariants. Each has one deadline, kept in Timers.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/messages.h"
#include "core/op.h"
#include "core/timers.h"

namespace distlock::core {

// Who waits for the answer to an acquire, and until when.
struct Caller {
  Listener listener;
  Instant arrived{};
  Instant deadline = kNever;  // max_wait, or the patience of one try
  bool one_try = false;
};

struct Bundle;

// An acquire that is not answered yet.
struct Waiter : Timed {
  Waiter() : Timed(TimerKind::kWaiter) {}
  Acquire spec;  // of the first caller
  std::vector<Caller>
      callers;  // several: who asked for the same again meanwhile, in order of arrival. See Broker::CallersOf
  Instant retry_at = kNever;  // ask (again); with `op` in flight: give up on that answer
  StoreTime placed;           // when the store last said that it waits; an earlier grant is not news
  Instant placed_sent{};      // before that answer's command was sent: a later grant is no older than this
  StoreTime hint;             // a notice of then came while the place was not certain
  Instant may_run_until{};    // an attempt of unknown fate may still take effect until then
  OpId op = 0;                // the acquire in flight
  Bundle* bundle = nullptr;   // that it is a part of; the callers of that ask
  Instant began{};            // a part: its turn came then, maybe long after its callers
  int attempts = 0;
  bool waits = false;     // the last attempt asked for a place in the queue
  bool queued = false;    // has a place in the store's queue, as far as we know
  bool answered = false;  // has ever had a place
  bool exists = false;    // the store has said that it waits or holds, and may still have it so
  std::string trouble;    // why the store could not answer
};

// Of a lease that its session may take again: which of its requests have it besides the first that does.
struct Reentry {
  std::string label;
  Want want;
  std::vector<RequestId> others;
};

// A lease on a stream: renewed here until it is given back, lost, or its stream ends.
// ending: the stream is gone; renewed no more, freed at free_at when the client's belief has ended.
struct Lease : Timed {
  Lease() : Timed(TimerKind::kLease) {}
  LockName name;
  OwnerId owner{};
  Listener listener;
  uint64_t token = 0;
  Duration ttl{};
  Duration lock_delay{};
  Instant granted{};
  Instant deadline{};           // D
  Instant hold_until = kNever;  // max_hold
  Instant next_renew{};
  Instant free_at = kNever;
  Instant promised_until{};  // Hold streams; sessions promise for all their leases at once
  Instant may_run_until{};
  OpId renew_op = 0;                 // the renewal in flight
  uint64_t due_place = 0;            // in Broker::due_, if renew_due
  std::unique_ptr<Reentry> reentry;  // null: not reentrant
  Bundle* bundle = nullptr;          // it waits for the other parts; nobody has been told of it
  OnDisconnect on_disconnect = OnDisconnect::kSafe;
  bool at_risk = false;
  bool ending = false;
  bool renew_due = false;  // is in Broker::due_
  bool end_noted = false;
};

// Until when its client may believe in a lease that is promised for as long as possible.
inline Instant BelieveUntil(const Lease& lease) { return std::min(lease.deadline, lease.hold_until); }

struct Session : Timed {
  Session() : Timed(TimerKind::kSession) {}
  SessionId id = 0;
  SessionKind kind = SessionKind::kSession;
  uint64_t heartbeat_seq = 0;
  Instant heartbeat_at{};
  Instant promised_until{};                     // heartbeat_at + V: nobody was promised more
  Instant least_belief = kNever;                // lower bound of BelieveUntil over all leases
  absl::btree_map<RequestId, Lease*> leases;    // one that was taken again stands under each of its requests
  absl::btree_map<RequestId, Waiter*> waiters;  // the same
  absl::btree_map<RequestId, Bundle*> bundles;  // under each of its requests, until it is answered
  absl::btree_map<std::pair<LockName, std::string>, OwnerId> reentrant;  // by label: what may be taken again
};

// Several acquires that are granted together. They are taken one after the other, in the order of their names: everybody does
// it in that order, so nobody waits for one who waits for him. First all are tried at once, by one call of the store.
struct Bundle : Timed {
  Bundle() : Timed(TimerKind::kBundle) {}
  struct Part {
    Acquire spec;
    uint64_t token = 0;  // of its grant
    StoreTime since;
    bool taken = false;  // a lease of that owner is kept for it
  };
  std::vector<Part> parts;      // by name
  std::vector<Caller> callers;  // never empty; several: repeats of a detached request. Of a session: the one, request 0
  size_t next = 0;              // the part that is waited for
  OpId op = 0;                  // all at once
  Instant may_run_until{};      // that may still take effect until then
  bool detached = false;
};

}  // namespace distlock::core
