// SPDX-License-Identifier: Apache-2.0
//
// One acquire from its request to the end of the lock it got. Shared by the table (while it lives) and the guard.
// Shelves: constant after construction; written before the guard exists and constant afterwards; read by any thread;
// everything else is guarded by the mutex of the Core it belongs to.
#pragma once

#include <atomic>
#include <cstdint>
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

struct Lease {
  enum class Phase : uint8_t {
    kWaiting,  // not answered
    kGranted,  // given, but belief in it has already run out: useful from the next heartbeat's answer on
    kHeld,     // a guard has it
    kEnded,
  };

  // Those that are asked for together, all or nothing: the ids from `first` on.
  struct Group {
    uint64_t first;
    size_t size;
  };

  Lease(uint64_t id_, std::shared_ptr<const Spec> spec_) : Lease(id_, std::move(spec_), {id_, 1}) {}
  Lease(uint64_t id_, std::shared_ptr<const Spec> spec_, Group group_)
      : id(id_), group(group_), spec(std::move(spec_)) {}

  // The first of its group does what is done once for all: the command, the timeout.
  bool leads() const { return id == group.first; }

  const uint64_t id;  // of the acquire command, on every stream it is sent through
  const Group group;  // counts until it is held; from then on each is a lease like any other
  const std::shared_ptr<const Spec> spec;

  std::string lease_id;
  std::string holder_id;
  uint64_t token = 0;
  uint32_t hold_count = 1;
  int64_t waited_ns = 0;

  std::atomic<int64_t> deadline_ns{0};
  std::atomic<EndCause> cause{EndCause::kNotEnded};
  std::atomic<bool> at_risk{false};

  Phase phase = Phase::kWaiting;
  bool one_try = false;
  bool sent = false;         // on the present stream
  bool cancelling = false;   // the user withdrew it; the broker has not answered yet
  bool turned_away = false;  // by a broker that drains; Opened alone does not mean that one has taken it up
  bool abandoned = false;    // refused for being late; whatever the broker still answers is undone
  int64_t asked_ns = 0;
  int64_t wait_until_ns = kNever;
  int64_t stranded_ns = kNever;  // since when no broker has taken it up; kNever = one has
  int64_t wake_ns = kNever;      // its entry in the table's timeouts
  uint64_t limited_by_seq = 0;   // the last ack that named it
  LockCallback callback;
  LeaseBelief belief;
  std::stop_source stop{std::nostopstate};   // made when somebody asks for a token
  std::vector<std::stop_source> also_stops;  // others' that its end stops
  std::string risk;                          // the broker's words, while at_risk
  std::string end_message;
};

using LeasePtr = std::shared_ptr<Lease>;

}  // namespace distlock::internal
