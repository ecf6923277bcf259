// SPDX-License-Identifier: Apache-2.0
//
// The records that several parts of a broker core share: callers, waiters, leases, releases, sessions, bundles. Plain
// records without behaviour; the part that owns them keeps their invariants. Each Timed has one deadline, in Timers.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/messages.h"
#include "core/op.h"
#include "core/part.h"

namespace distlock::core {

// One of those who wait for the answer to an acquire, and until when.
struct Caller {
  Recipient recipient;
  Instant arrived{};
  Instant deadline = kNever;  // max_wait, or the patience of one try
  bool one_try = false;
};

struct Bundle;

// An acquire that is not answered yet.
struct Waiter : PartRecord {
  explicit Waiter(Part& of) : PartRecord(of) {}
  Acquire spec;                 // of the first caller
  std::vector<Caller> callers;  // in order of arrival; several if the request was repeated. See Callers::CallersOf
  Instant retry_at = kNever;    // of the next attempt; with `op` in flight: when its answer is overdue
  uint64_t placed_as_of = 0;    // of the last answer that it waits: a grant under no greater token is old news
  Instant placed_sent{};        // before that answer's command was sent: a later grant is no older than this
  OpId stale_before = 0;        // a notice came while it had no place: answers to earlier ops may be older than that
  Instant may_run_until{};      // an attempt whose answer is not known may take effect until then
  OpId op = 0;                  // the acquire in flight
  Bundle* bundle = nullptr;     // the bundle it is a part of, whose callers wait
  Instant began{};              // of a part: when its turn came, maybe long after the request
  int attempts = 0;
  bool waits = false;     // the last attempt asked for a place in the queue
  bool queued = false;    // has a place in the store's queue, as far as we know
  bool answered = false;  // its callers were told that it waits
  bool exists = false;    // the store has said that it waits or holds, and that may still be so
  std::string trouble;    // why the store could not answer
};

// How the news of a grant came.
enum class Arrival : uint8_t { kAnswer, kReply, kNotice, kTend };

// A grant as the news tells it. `deadline`: see CoreContext::DeadlineOf.
struct GrantNews {
  uint64_t token = 0;
  StoreTime since{};
  Instant made_earliest{};  // when the store made it, at the earliest and at the latest
  Instant made_latest{};
  Duration ttl{};
  Instant deadline{};
  Arrival arrival = Arrival::kAnswer;
};

// A lease that its session may take again: the requests that have it, besides Lease::recipient.
struct Reentry {
  std::string label;
  Want want;
  std::vector<RequestId> others{};
};

// A lease on a stream: renewed here until it is released or lost, or its stream ends.
// ending: the stream is gone; it is renewed no more, and freed at free_at, when the client's belief has ended, or when
// its process has.
struct Lease : PartRecord {
  explicit Lease(Part& of) : PartRecord(of) {}
  LockName name;
  OwnerId owner{};
  Recipient recipient;
  uint64_t token = 0;
  Duration ttl{};
  Duration lock_delay{};
  bool has_min_hold = false;  // the store has it: a release blocks the lock, unless it says otherwise
  Instant granted{};
  Instant deadline{};           // D: see broker.h
  Instant hold_until = kNever;  // max_hold
  Instant next_renew{};
  Instant free_at = kNever;
  Recipient had_by;          // who had it before it began to end
  Instant promised_until{};  // Hold streams; sessions promise for all their leases at once
  // It was taken over from another stream, whose promise may still be believed in until then: not freed earlier.
  Instant former_believes_until{};
  // Until then its client may believe in what it was promised before it adopted the lease: when a max_hold ends that
  // began a little later than the store's, it is not freed earlier.
  Instant adopted_until{};
  Instant may_run_until{};
  OpId renew_op = 0;                 // the renewal in flight
  uint64_t due_place = 0;            // in Renewals, if renew_due
  std::unique_ptr<Reentry> reentry;  // null: not reentrant
  Bundle* bundle = nullptr;          // it is a part of this bundle, and no caller has been told of it
  OnDisconnect on_disconnect = OnDisconnect::kSafe;
  bool resume = false;       // its client adopts it when the stream has ended
  bool tell_wanted = false;  // its client hears when somebody wants the lock: see Wants
  bool at_risk = false;
  bool ending = false;
  bool renew_due = false;  // stands in the line of Renewals
  bool end_noted = false;
};

// Until when its client may believe in a lease that is promised for as long as possible.
inline Instant BelieveUntil(const Lease& lease) { return std::min(lease.deadline, lease.hold_until); }

// A release or withdrawal that is not confirmed.
struct PendingRelease : PartRecord {
  explicit PendingRelease(Part& of) : PartRecord(of) {}
  LockName name;
  OwnerId owner{};
  // These are still to be given up. Withdrawing gives up both at once, but for a repeatable owner, whose grants it
  // spares.
  bool waiting = false;  // its place in the queue
  bool holding = false;  // its grant
  Duration block{};
  bool has_min_hold = false;   // its grant; of one that this broker does not know, the store's record says
  bool ends_min_hold = false;  // see StoreRelease
  Recipient recipient;         // who is told the outcome
  Instant answer_until{};      // the end of the recipient's patience
  uint64_t token = 0;          // of a lease of ours, for the answer
  uint64_t only_token = 0;     // the grant that is meant; 0: whatever the owner has, which no caller can ask for
  Instant not_before{};        // it is kept until then: another try of its request may take it over
  Instant until{};             // the store has forgotten it by itself then
  Instant retry_at = kNever;
  // An acquire of the owner may still run until then: release again after it if order was lost.
  Instant may_run_until{};
  // A withdrawal of unknown outcome may still run until then. It names no grant, so its owner does not ask meanwhile.
  Instant withdraws_until{};
  bool order_lost = false;   // a connection broke: the store may run that acquire after this release
  uint64_t deferred_as = 0;  // its key among the deferred; 0: it is not deferred
  OpId op = 0;
  bool withdrawing = false;  // what `op` does; else it releases
  Instant op_until{};        // it does nothing any more from then on, if it withdraws
  uint64_t sent_token = 0;   // the only_token that `op` was sent with
  int attempts = 0;
};

// A stream that holds leases, or waits for some.
struct Session : PartRecord {
  explicit Session(Part& of) : PartRecord(of) {}
  SessionId id = 0;
  SessionKind kind = SessionKind::kSession;
  uint64_t heartbeat_seq = 0;
  Instant heartbeat_at{};
  Instant promised_until{};                     // heartbeat_at + V: no promise to this session goes further
  Instant least_belief = kNever;                // lower bound of BelieveUntil over all leases
  absl::btree_map<RequestId, Lease*> leases;    // a lease that was taken again is under each of its requests
  absl::btree_map<RequestId, Waiter*> waiters;  // the same
  absl::btree_map<RequestId, Bundle*> bundles;  // under each of its requests, until it is answered
  absl::btree_map<std::pair<LockName, std::string>, OwnerId> reentrant;  // by label: what may be taken again
};

// Several acquires that are granted together. All are tried at once first, by one store command. Then they are taken
// one after the other in the order of their names, which is the same everywhere, so there is no circle of waiters.
struct Bundle : PartRecord {
  explicit Bundle(Part& of) : PartRecord(of) {}
  struct Item {
    Acquire spec;
    GrantNews news{};    // of its grant
    bool taken = false;  // a lease of that owner is renewed for it
  };
  std::vector<Item> parts;      // by name
  std::vector<Caller> callers;  // never empty; several if a detached request was repeated
  size_t next = 0;              // the part that is waited for
  OpId op = 0;                  // the command for all, in flight
  Instant may_run_until{};      // the command for all may take effect until then
  bool detached = false;
};

}  // namespace distlock::core
