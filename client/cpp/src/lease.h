// SPDX-License-Identifier: Apache-2.0
//
// One lock, from its request to its end, and the acquire that asked for it. A lock is WAITING, then GRANTED, HELD and
// ENDED. A HELD one has a session (`link`), or moves to one (`to`), or both; without either it is believed in until its
// deadline, and asked for again. A WAITING one has a session, or is stranded, or has left a `former` one.
//
// Members of a Lease come in four groups: constant after construction; written before the program has it and constant
// afterwards; atomic; the rest, which the mutex of the Engine guards.
#pragma once

#include <absl/container/inlined_vector.h>

#include <atomic>
#include <cstdint>
#include <forward_list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "boot_clock.h"
#include "convert.h"
#include "distlock/guard.h"

namespace distlock::internal {

struct Lease;
struct Link;
struct Request;

using SpecPtr = std::shared_ptr<const Spec>;
using LeasePtr = std::shared_ptr<Lease>;
using Leases = absl::InlinedVector<LeasePtr, 1>;
using RequestPtr = std::shared_ptr<Request>;
using AcquireCallback = Callback<void(Result<Leases>)>;
using ChangeCallback = DowngradeCallback;  // of a downgrade or a proclamation

// Others are to see this of a held lease; an adoption in its session shows it.
struct Change {
  SpecPtr spec;
  SpecPtr sent;  // by the adoption that is under way
  std::vector<ChangeCallback> callbacks;
};

struct Lease {
  enum class Phase : uint8_t {
    kWaiting,  // not answered yet
    kGranted,  // granted, but its deadline has passed already, or others of its request are missing
    kHeld,     // the program has it
    kEnded,
  };

  // By what a lease is known to others. Both are new after a move.
  struct Names {
    std::string lease_id;
    std::string holder_id;
  };

  Lease(int64_t id_, SpecPtr spec_, Request* request_) : spec(std::move(spec_)), id(id_), request(request_) {}

  // The session that it has left matters no more.
  void LeaveFormer() {
    former = nullptr;
    crossed = false;
  }

  const SpecPtr spec;  // as it was asked for

  Names granted;  // as they were granted
  int64_t token = 0;
  int32_t hold_count = 1;
  int64_t waited_ns = 0;

  std::atomic<const Names*> names{&granted};  // the present ones; a guard may still refer to older ones
  std::atomic<int64_t> deadline_ns{0};
  std::atomic<EndCause> cause{EndCause::kNotEnded};
  std::atomic<bool> at_risk{false};  // renewals fail, or its stream broke

  Phase phase = Phase::kWaiting;
  int64_t id;                      // of the acquire command, on every stream; of the adoption once it has moved
  Request* request;                // until it is answered
  std::forward_list<Names> moved;  // of each session that adopted it; the newest is the first
  Link* link = nullptr;            // the session that has it; null: its former promise is all that is left
  Link* former = nullptr;          // of a waiting one: the session that it has left, until the next one has its place
  bool crossed = false;            // `former` has granted it: to be given back there when the next one has its place
  std::string store;               // the id of that of the session that had it last; "": not known
  bool stays = false;              // no session can adopt it
  bool downgraded = false;         // it is SHARED now
  bool mode_unsure = false;        // a downgrade has failed, or perhaps not
  int downgrading = 0;             // downgrades that are sent and not answered
  std::vector<ChangeCallback> downgrades;  // of those to be sent when it has arrived
  Link* to = nullptr;                      // the session that was asked to adopt it, and has not answered; null: none
  int64_t to_id = 0;                       // of that adoption
  std::string move_key;                    // kept until an adoption has succeeded: one whose answer was lost may have
  std::unique_ptr<Change> change;
  SpecPtr shown;  // what others see instead of `spec`, once that was changed
  // Its way back.
  ReleaseCallback on_released;
  int releases = 0;                                       // that are sent and not answered
  bool unheard = false;                                   // a stream ended without an answer to one
  ReleaseOutcome outcome = ReleaseOutcome::kAlreadyGone;  // of those that are answered
  std::stop_source stop{std::nostopstate};                // made at the first call of stop_token()
  std::stop_source any{std::nostopstate};  // of several locks of one request: stops when any of them ends
  std::string risk;                        // why, while at_risk
  std::string end_message;
};

// One acquire of one lock or of several, all or none, until its answer.
struct Request {
  Leases leases;  // their ids follow each other
  AcquireCallback answer;
  bool answered = false;
  bool one_try = false;
  bool turned_away = false;  // refused by a draining broker; the Opened of the next stream does not end stranded_ns
  int64_t asked_ns = 0;
  int64_t wait_until_ns = kNever;
  int64_t stranded_ns = kNever;  // since when no broker has it; kNever: one has
  int64_t given_up_at_ns = kNever;

  int64_t id() const { return leases.front()->id; }
  // The session that it was sent through; null: none has it.
  Link* link() const { return leases.front()->link; }
  // No session has it any more.
  void Unsend() {
    for (const LeasePtr& lease : leases) {
      lease->phase = Lease::Phase::kWaiting;
      lease->link = nullptr;
    }
  }
};

}  // namespace distlock::internal
