// SPDX-License-Identifier: Apache-2.0
//
// The history of a run, simulated or with real processes: one list of records in the order of a common clock (virtual
// time, or CLOCK_BOOTTIME of one machine). The checkers read nothing else, so simulated and real runs are judged alike.
// Values; one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace distlock::sim {

// The brackets say what `code` and `value` are for each kind. `value` of the store's records but kQueued is the number
// of the call that did it, where that is known: records of one call are one step.
enum class RecordKind : uint8_t {
  // By a client, about one lease: all records from the request on have the same `lease` number. A repeat of a detached
  // request under its request_id has the number of the first request.
  kAsked,     // [value: max_wait in ns; -1 unbounded, 0 one try]
  kGaveUp,    // it cancelled, or its call or stream ended before an answer; a grant may still come
  kMovedOn,   // it asks another broker; a grant through the one that it left may still come, and is kept a while
  kRefused,   // [code: core::RefusalReason]
  kGranted,   // `token`; the client received the grant
  kBelieves,  // the deadline is `until_ns` from now on, until another record changes it; may be earlier than before
  kEnded,     // no belief from now on [code: EndedWhy; value: for kLost core::LostReason + 1, if known]
  kReleased,  // the answer to a release [code: core::ReleaseOutcome]
  kWrote,     // to the fenced register; `token` [code: 1 accepted, 0 rejected]
  kYields,    // it is about to downgrade its EXCLUSIVE lease: it does not rely on being alone any more
  // By the store, about one lease. Only in simulated runs, which can observe the store.
  kQueued,      // it got a place in the queue [value: its arrival number there, by the store's count]
  kUnqueued,    // it lost its place without a grant
  kTook,        // it holds the lock from now on; `token`
  kFreed,       // it does not hold the lock any more [code: FreedHow]; `token`, or 0: any
  kDowngraded,  // it held the lock EXCLUSIVE, and holds it SHARED from now on
  kForced,      // an administrator has begun to take the lock from it
  // Events of the run:
  // A fault [code: FaultKind; value: its duration in ns; for kStoreClock, the size of the step]. `actor`: the faulty
  // process; `lock`: the only lock that it concerns, or -1.
  kFault,
  // The store lost data that it should have kept (emptied, key deleted, rolled back, clock stepped). `lock`: -1: all.
  // From `until_ns` on brokers know of it, and grant nobody what a holder may believe in, so only what was granted
  // before is excused; 0: they do not hold off.
  kForgot,
  kHealed,  // no faults from now on
  kQuiet,   // all clients left long ago: from now on nothing may be left
  kLeft,    // something is left [value: the number]; `note` says what
};

enum class EndedWhy : uint8_t { kReleasing, kLost, kStreamBroke, kDeadline, kClientDied };
// kForced: the administrator's own call freed it, because the holder's broker could not be reached.
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
  kPromoted,  // a replica becomes the primary, and brokers hold off: nothing that a holder relies on is forgotten
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

// The answer to a call that only looks at locks. A lock in a page of ListLocks is a look of its own.
struct Look {
  enum class Kind : uint8_t {
    kLock,   // GetLock, which is what `leader` asks, or one lock of a page of ListLocks
    kToken,  // CheckToken
    kList,   // all pages of one ListLocks
  };
  struct Holder {
    int64_t lease = -1;  // as the holder is named
    uint64_t token = 0;
    friend bool operator==(const Holder&, const Holder&) = default;
  };
  Kind kind = Kind::kLock;
  int32_t actor = -1;           // the broker that was asked
  int32_t lock = -1;            // kList: none
  int64_t asked_ns = 0;         // before the question left
  int64_t told_ns = 0;          // after the answer came
  uint64_t token = 0;           // kToken: that was asked about
  bool newest = false;          // kToken: whether it is the newest
  uint64_t newest_token = 0;    // kLock and kToken
  std::vector<Holder> holders;  // kLock: by token; of many the first
  int64_t holder_count = 0;     // kLock: all of them
  std::vector<int32_t> listed;  // kList: the locks that were shown
};

struct Actor {
  enum class Kind : uint8_t { kClient, kBroker, kStore, kLink };
  Kind kind = Kind::kClient;
  std::string name;
};

enum class HoldKind : uint8_t { kExclusive, kShared, kPermit };

// The request of one lease; the index is the lease number.
struct LeaseTerms {
  int32_t lock = -1;
  int32_t client = -1;
  int64_t ttl_ns = 0;
  int64_t lock_delay_ns = 0;
  int64_t max_hold_ns = 0;
  int64_t min_hold_ns = 0;
  bool detached = false;
  // on_disconnect RELEASE: the client accepts that another may get the lock while it still believes.
  bool risky = false;
  // The broker sees the stream end, and frees the lock when the last promise has ended (neither detached nor EXPIRE):
  // then the client's death blocks the lock for a validity. False also where that is not known: it may block for a ttl.
  bool freed_by_promise = false;
  // The client sends heartbeats; without one for a validity it loses the lease, even if its connection is up.
  bool by_heartbeat = false;
  bool together = false;  // one of several, all or nothing: it may be held while the request waits for the others
  HoldKind kind = HoldKind::kExclusive;
  uint32_t permits = 1;  // kPermit: of `limit`
  uint32_t limit = 0;
  bool preferred = false;  // queues in front of waiters that are not preferred
  bool keeps_place =
      false;              // its request goes on as the same in the next session, at once, with its place in the queue
  bool adaptive = false;  // may take a free lock before waiters that have not waited for long
  // Its client gave it back through a broker that did not have it: see History::stray_votes.
  bool released_elsewhere = false;
};

// Whether both may hold the lock at the same time; permits only as long as there are enough.
inline bool MayShare(const LeaseTerms& a, const LeaseTerms& b) {
  return a.kind == b.kind && a.kind != HoldKind::kExclusive;
}

struct History {
  // The whole run.
  bool calm = false;  // no fault at all: no loss, no false alarm, arrival order is strict, hand-off is prompt
  int64_t validity_ns = 0;
  int64_t longest_ttl_ns = 0;  // with lock_delay
  // The store is a quorum of which a minority may be at fault at any time, and no record tells of that.
  bool silent_minority = false;
  // The store is a Cluster: a list may miss a lock whose slot moves.
  bool slots_move = false;
  // Added to every bound for messages there and back and for a busy machine: in calm times, and while there are faults.
  int64_t slack_ns = 100'000'000;
  int64_t slow_ns = 5'000'000'000;
  // By then brokers have looked for all servers of their store, which the simulation starts together with them.
  int64_t start_ns = 0;
  // How long after the end of a fault until all processes are connected and informed again: back-off, connect timeouts,
  // and the third of a queue slot after which a broker tends a queue without news.
  int64_t recovery_ns = 20'000'000'000;
  // How long a live broker with a live store may need to undo a command whose grant nobody wants: until the command
  // cannot take effect any more, by the store's clock, which the broker knows only roughly, and the time of another
  // command.
  int64_t give_back_ns = 8'000'000'000;
  // The store is a quorum: a lease that another broker than its own releases may leave a vote for its ttl, a stream's
  // until its broker finds it released (server/store/redlock/README.md, limits), and with one server that is ill others
  // may miss that vote.
  bool stray_votes = false;
  // With `stray_votes`: after its grant a lease may join the rest of the servers for so long; joins that are refused
  // are repeated for half of that.
  int64_t joins_ns = 2'000'000'000;
  std::vector<Actor> actors;
  std::vector<std::string> locks;
  std::vector<LeaseTerms> leases;
  std::vector<std::string> notes;
  std::vector<Record> records;  // by at_ns
  std::vector<Look> looks;      // by told_ns
};

}  // namespace distlock::sim
