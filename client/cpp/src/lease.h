// SPDX-License-Identifier: Apache-2.0
//
// One acquire, from its request to the end of the lock that it got. Shared by the lock table (until that end) and the
// guard. Members come in four groups: constant after construction; written before the guard exists and constant
// afterwards; atomic; the rest, which the mutex of the Core guards.
#pragma once

#include <atomic>
#include <cstdint>
#include <forward_list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "belief.h"
#include "boot_clock.h"
#include "convert.h"
#include "distlock/guard.h"

namespace distlock::internal {

struct Link;
struct Move;

using ChangeCallback = DowngradeCallback;  // of a downgrade or a proclamation

// What a leader shows instead of its first value.
struct Proclamation {
  std::shared_ptr<const Spec> shown;      // null: still the lease's own
  std::shared_ptr<const Spec> asked;      // to be shown next; null: nothing
  std::vector<ChangeCallback> callbacks;  // told the fate of `asked`
};

struct Lease {
  enum class Phase : uint8_t {
    kWaiting,  // not answered yet
    kGranted,  // granted, but its deadline has passed already: the next ack may extend it, then a guard gets it
    kHeld,     // a guard holds it
    kEnded,
  };

  // By what a lease is known to others. Both are new after a move.
  struct Names {
    std::string lease_id;
    std::string holder_id;
  };

  // The acquires of one request, all or nothing: `size` ids from `first` on.
  struct Group {
    int64_t first;
    int64_t size;
  };

  Lease(int64_t id_, std::shared_ptr<const Spec> spec_) : Lease(id_, std::move(spec_), {id_, 1}) {}
  Lease(int64_t id_, std::shared_ptr<const Spec> spec_, Group group_)
      : id(id_), group(group_), spec(std::move(spec_)) {}

  // The first lease of a group has the group's command and timeout.
  bool leads() const { return id == group.first; }

  int64_t id;         // of the acquire command, on every stream it is sent through; of the adoption once it has moved
  const Group group;  // matters until the lease is held
  const std::shared_ptr<const Spec> spec;

  Names granted;                              // as they were granted
  std::forward_list<Names> moved;             // of each session that adopted it; the newest is the first
  std::atomic<const Names*> names{&granted};  // the present ones; a guard may still refer to older ones
  int64_t token = 0;
  int32_t hold_count = 1;
  int64_t waited_ns = 0;

  std::atomic<int64_t> deadline_ns{0};
  std::atomic<EndCause> cause{EndCause::kNotEnded};
  std::atomic<bool> at_risk{false};

  Phase phase = Phase::kWaiting;
  bool one_try = false;
  bool cancelling = false;   // the program withdrew it, and the broker has not answered yet
  bool turned_away = false;  // refused by a draining broker; the Opened of the next stream does not end stranded_ns
  bool abandoned = false;    // refused here, because no answer came in time; a later grant is released
  bool downgraded = false;   // it is SHARED now
  bool mode_unsure = false;  // a downgrade has failed, or perhaps not
  bool stays = false;        // no session can adopt it
  bool crossed = false;      // `former` has granted it: to be given back there when the next broker has the request
  int64_t asked_ns = 0;
  int64_t wait_until_ns = kNever;
  int64_t stranded_ns = kNever;  // since when no broker has this acquire; kNever: one has
  int64_t wake_ns = kNever;      // its time in LockTable::timeouts_
  int64_t limited_by_seq = 0;    // the last ack whose limits named this lease
  // The session that it was sent or is held through; null: none. Of a held lease that means: its session is over, and
  // the belief that is left is all it has.
  Link* link = nullptr;
  Link* former = nullptr;      // of a waiting one: the session that it has left, until the next broker has answered
  std::shared_ptr<Move> move;  // null: no session has been asked to adopt it, or it has been adopted
  std::unique_ptr<Proclamation> proclamation;  // null: others see what was asked for at first
  LockCallback callback;
  LeaseBelief belief;
  std::stop_source stop{std::nostopstate};   // made at the first call of stop_token()
  std::vector<std::stop_source> also_stops;  // of MultiGuards, stopped when this lease ends
  std::string risk;                          // the broker's message, while at_risk
  std::string end_message;
};

using LeasePtr = std::shared_ptr<Lease>;

}  // namespace distlock::internal
