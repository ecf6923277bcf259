// SPDX-License-Identifier: Apache-2.0
//
// The hold-off of one server: after a restart or a promotion it may have forgotten locks whose holders still believe,
// so nobody is newly granted one until the last such belief has ended. README.md argues why that is enough. Pure.
//
// All StoreTimes are of that server's clock. Thread: the loop's. A value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "core/types.h"
#include "store/store_options.h"

namespace distlock::store {

// How long the marker outlives its last census.
inline constexpr core::Duration kMarkerLives = std::chrono::hours(7 * 24);

// What a server says of itself.
struct CensusFacts {
  std::string identity;      // of its data: another one after each restart and each promotion; never ""
  int replicas = 0;          // that follow it now
  int min_replicas = 0;      // fewer, and it refuses to write
  core::Duration max_lag{};  // a replica that was silent for longer is not counted for min_replicas
  bool aof_always = false;   // each write is on its disk before it is answered
  bool promoted = false;     // it was a replica once
};

class Census {
 public:
  // What bounds the time for which another server can have gone on granting, unseen by this one.
  enum class Guard {
    kNothingForgotten,  // the same server with all its data
    kAlone,             // there is no other server
    kConfirmed,         // a grant counts only once most servers have it (WAIT)
    kMinReplicas,       // a server without most of the others refuses to write
    kNone,              // nothing does: best effort
  };

  // The arguments of census.lua.
  struct Request {
    std::string identity;
    core::StoreTime known_since;  // us = 0: not known
    bool confirm = false;
    core::Duration hold_off{};
    core::Duration longest_ttl{};
  };
  // Its answer.
  struct Count {
    core::StoreTime time;
    core::StoreTime since;  // us = 0: still open
    core::Duration hold_off{};
    core::Duration longest_ttl{};
  };

  Census(const HoldOffOptions& options, int wait_replicas)
      : options_(options), wait_replicas_(wait_replicas), state_(on() ? State::kOpen : State::kNone) {}

  bool on() const { return options_.kind != HoldOffOptions::Kind::kOff; }

  // What the server says now; at least once before Next. With another identity all that was known is forgotten.
  // REQUIRES: on().
  void Meet(const CensusFacts& facts);
  // So many servers there are, by those who know (sentinels): the largest number ever told counts.
  void Servers(int count);
  Request Next() const;
  // The answer to Next.
  void OnCount(const Count& count);
  // Replicas that have confirmed what was written before, the last answered Next included.
  void OnReplicas(int confirmed);
  // Whether OnReplicas has to be told before the hold-off can be counted.
  bool AwaitsReplicas() const { return on() && needs_replicas_ && !replicas_confirmed_; }
  // The server's clock was set forward by so much (negative: back).
  void OnClockStep(core::Duration by);
  // This server has renewed, at `time`, a lease that this broker keeps, and that was EXCLUSIVE ever since.
  void OnRenewed(const core::OwnerId& owner, core::StoreTime time);

  // Scripts are told so: nobody new is granted a lock.
  bool holds_off() const { return state_ != State::kNone; }
  // The argument `hold_off` of a script that is called for `owner`.
  std::string ScriptArgument(const core::OwnerId& owner) const;
  bool Confirms(const core::OwnerId& owner) const { return confirmed_.contains(owner); }

  Guard guard() const { return guard_; }
  // Zero without a hold-off, Duration::max() while its end is not known.
  core::Duration Left(core::StoreTime now) const;
  // The end by the server's clock; us = 0: there is no hold-off, or its end is not known.
  core::StoreTime until() const { return state_ == State::kCounted ? until_ : core::StoreTime{}; }

 private:
  enum class State { kNone, kOpen, kCounted };

  void Judge();
  core::Duration HoldOff() const;

  // Const after construction.
  HoldOffOptions options_;
  int wait_replicas_;

  CensusFacts facts_;
  int servers_ = 0;  // the most that were seen or told
  bool told_servers_ = false;
  Guard guard_ = Guard::kNone;
  bool needs_replicas_ = false;
  bool counted_ = false;             // the marker was written
  bool replicas_confirmed_ = false;  // of a marker that was written before
  State state_;
  core::StoreTime since_;  // us = 0: not known
  core::Duration step_{};  // by which since_ was moved, since the server's clock was set
  core::StoreTime until_;
  absl::flat_hash_set<core::OwnerId> confirmed_;  // during the hold-off only
};

// For people: what the guard is worth.
std::string_view GuardName(Census::Guard guard);

}  // namespace distlock::store
