// SPDX-License-Identifier: Apache-2.0
//
// What happened in a run, simulated or with real processes: one list of records in the order of a clock that is common to
// all (virtual time, or CLOCK_BOOTTIME of the one machine). The checkers read nothing else, so every way to make a history
// is judged alike. Values; one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace distlock::sim {

// `code` and `value` by kind are in brackets.
enum class RecordKind : uint8_t {
  // A client, about one lease: everything from its request on carries the same `lease` number. A repeat of a detached
  // request under its request_id has the number of the first.
  kAsked,     // [value: max_wait in ns; -1 unbounded, 0 one try]
  kGaveUp,    // it cancelled, or its call or stream ended before an answer; a grant may still cross this
  kRefused,   // [code: core::RefusalReason]
  kGranted,   // `token`; told to the client
  kBelieves,  // until `until_ns` from now on, unless another record says otherwise; also to less than before
  kEnded,     // no belief from now on [code: EndedWhy; value: with kLost core::LostReason + 1, where it is known]
  kReleased,  // the answer to a release [code: core::ReleaseOutcome]
  kWrote,     // to a store that rejects tokens smaller than it has seen; `token` [code: 1 accepted, 0 rejected]
  kYields,    // it has it EXCLUSIVE, and is about to ask to have it SHARED: it counts on being alone no more
  // The store, about one lease. Only where it can be seen (the simulator).
  kQueued,      // it got a place [value: its arrival number in this lock's queue, as the store counts]
  kUnqueued,    // it lost its place without a grant
  kTook,        // it holds the lock; `token`
  kFreed,       // it holds it no more [code: FreedHow]
  kDowngraded,  // it held it EXCLUSIVE, and holds it SHARED
  kForced,      // an administrator takes it from its holder, from now on
  // The run.
  // Somebody broke something [code: FaultKind; value: for how long, ns; of kStoreClock, by how much]. `actor` is what it
  // happened to, `lock` the only lock it concerns, or -1.
  kFault,
  kForgot,  // the store lost what it had promised to keep (emptied, key deleted, rolled back, clock stepped); `lock`: -1 all
  kHealed,  // no faults from now on
  kQuiet,   // the clients have released and left long ago: nothing may be left
  kLeft,    // something is left [value: how many]; `note` says what
};

enum class EndedWhy : uint8_t { kReleasing, kLost, kStreamBroke, kDeadline, kClientDied };
// kForced: by the administrator's own call, since no broker could be told.
enum class FreedHow : uint8_t { kReleased, kExpired, kForgotten, kForced };
enum class FaultKind : uint8_t {
  kClientKilled,
  kClientPaused,
  kClientClock,
  kBrokerKilled,
  kBrokerPaused,
  kBrokerDrained,
  kBrokerClock,
  kStorePaused,
  kStoreRestarted,
  kStoreEmptied,
  kKeyDeleted,
  kStoreClock,
  kStoreFull,
  kStoreRefuses,
  kFailover,
  kScriptsFlushed,
  kLinkReset,
  kLinkSlow,
  kLinkSilent,
  kLinkOneWay,
  kChannelLost,
  kNoticesLost,
  kCount
};

struct Record {
  int64_t at_ns = 0;
  RecordKind kind = RecordKind::kAsked;
  uint8_t code = 0;
  int32_t actor = -1;  // a process: index into History::actors
  int32_t lock = -1;   // index into History::locks
  int64_t lease = -1;
  uint64_t token = 0;
  int64_t until_ns = 0;
  int64_t value = 0;
  int32_t note = -1;  // index into History::notes
};

struct Actor {
  enum class Kind : uint8_t { kClient, kBroker, kStore, kLink };
  Kind kind = Kind::kClient;
  std::string name;
};

enum class HoldKind : uint8_t { kExclusive, kShared, kPermit };

// What was asked for in one lease; index = lease number.
struct LeaseTerms {
  int32_t lock = -1;
  int32_t client = -1;
  int64_t ttl_ns = 0;
  int64_t lock_delay_ns = 0;
  int64_t max_hold_ns = 0;
  bool detached = false;
  bool risky =
      false;  // on_disconnect RELEASE: its client accepts that another may get the lock while it still believes
  // Its broker sees its stream end, and frees it when the last promise has passed (neither detached nor EXPIRE): then the end
  // of its client costs a validity. False where that is not known: it may cost a ttl.
  bool freed_by_promise = false;
  // Its client says at least once in a validity that it lives; else it loses the lease, though its connection may stand.
  bool by_heartbeat = false;
  bool together = false;  // with others, all or nothing: it may be kept for it while those are waited for
  HoldKind kind = HoldKind::kExclusive;
  uint32_t permits = 1;  // kPermit: of `limit`
  uint32_t limit = 0;
  bool preferred = false;  // its place is in front of those who are not
  bool adaptive = false;   // it may take a free lock before those who have not waited for long
};

// Whether both may have the lock at a time; of permits only as long as there are enough.
inline bool MayShare(const LeaseTerms& a, const LeaseTerms& b) {
  return a.kind == b.kind && a.kind != HoldKind::kExclusive;
}

struct History {
  // Of the whole run.
  bool calm = false;  // no fault at all: no loss, no false alarm, arrival order is strict, hand-off is prompt
  int64_t validity_ns = 0;
  int64_t longest_ttl_ns = 0;  // with lock_delay
  // What messages there and back, and a busy machine, may add to any bound: in calm times, and while there are faults.
  int64_t slack_ns = 100'000'000;
  int64_t slow_ns = 5'000'000'000;
  // How long after the end of a fault until all have found back to each other: back-off, connect timeouts, and the third of a
  // queue slot after which a broker tends a queue that it has heard nothing of.
  int64_t recovery_ns = 20'000'000'000;
  // How long a broker that lives, and whose store does, may need to undo what it asked for and nobody wants: until that
  // can take effect no more, by a clock of the store that it knows coarsely, and the way of a command.
  int64_t give_back_ns = 8'000'000'000;
  std::vector<Actor> actors;
  std::vector<std::string> locks;
  std::vector<LeaseTerms> leases;
  std::vector<std::string> notes;
  std::vector<Record> records;  // by at_ns
};

}  // namespace distlock::sim
