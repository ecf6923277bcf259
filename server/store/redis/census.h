// SPDX-License-Identifier: Apache-2.0
//
// The hold-off of one server: after a restart or a promotion it may have forgotten locks whose holders still believe,
// so nobody is newly granted one until the last such belief has ended. README.md argues why that is enough. Pure.
//
// Whether there is a hold-off is decided here, and by lua/single/census.lua, which judges data that nobody has judged
// yet; how long it is, here (HoldOff in census.cc). Scripts obey it: lua/parts/hold_off.lua reads ScriptArgument, and
// fits() in lua/parts/holders.lua lets nobody new in.
//
// All StoreTimes are of that server's clock, all Instants of the broker's. Thread: the loop's, and that of whoever has
// the turn. A value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "store/redis/asserted_ttls.h"
#include "store/store_options.h"

namespace distlock::store {

// How long the marker outlives its last census.
inline constexpr core::Duration kMarkerLives = std::chrono::hours(7 * 24);

// A server's facts about itself.
struct CensusFacts {
  std::string identity;       // of its data: another one after each restart and each promotion; never ""
  core::StoreTime started;    // when its process began, to the second; us = 0: not known
  core::StoreTime asked;      // its time before it was asked for these; us = 0: not known
  int replicas = 0;           // that follow it now
  int in_step = 0;            // of these, those that were heard within the last 2 s
  int min_replicas = 0;       // fewer, and it refuses to write
  core::Duration max_lag{};   // a replica that was silent for longer is not counted for min_replicas
  bool scripts_pass = false;  // min_replicas: fewer, and scripts write all the same
  bool aof_always = false;    // each write is on its disk before it is answered
  bool promoted = false;      // it was a replica once
};

// As scripts are told of the end of a hold-off that is not known: no clock shows it.
inline constexpr core::StoreTime kOpenEnd{9'007'199'254'740'991};
// A hold-off whose end is not known yet is worth another look after this time: as scripts answer (lua/README.md).
inline constexpr core::Duration kLookAtOpenEnd = std::chrono::seconds(1);

class Census {
 public:
  // The bound on the time for which another server can have gone on granting, unseen by this one.
  enum class Guard {
    kNothingForgotten,  // the same server with all its data
    kAlone,             // there is no other server
    kConfirmed,         // a grant counts only once most servers have it (WAIT)
    kMinReplicas,       // a server without most of the others refuses to write
    kNone,              // nothing does: best effort
  };
  // When the data of a server that nobody has judged yet are taken for complete. A set.
  struct CompleteIf {
    bool beating = false;   // every write was kept, as far as the heartbeat shows
    bool original = false;  // they are no copy of another server's data
    bool operator==(const CompleteIf&) const = default;
  };

  // The arguments of census.lua.
  struct Request {
    std::string identity;
    core::StoreTime known_since;  // us = 0: not known
    bool confirm = false;
    core::Duration hold_off{};  // when the data may be incomplete
    core::Duration longest_ttl{};
    core::Duration known_hold_off{};  // with known_since
    CompleteIf complete_if;
    core::StoreTime started;
    bool promoted = false;
    bool has_replicas = false;
    std::vector<AssertedTtls::Assertion> said;
    std::string server;
    bool has_marked = false;  // and since then known_since
    bool lives = false;       // a hold-off counts from the start of its process, if it has kept all data since
    core::StoreTime kept;     // after that time each write was kept, by its settings; us = 0: not, or not known
  };
  // Its answer.
  struct Count {
    core::StoreTime time;
    core::StoreTime since;  // us = 0: still open
    core::Duration hold_off{};
    core::Duration longest_ttl{};
    bool replicated = false;
    std::vector<AssertedTtls::Assertion> said;
  };

  // Knowledge of a server is trusted for so long: it may have been replaced, and be back with older data, while the
  // connection to it stayed and this process stood still.
  static constexpr core::Duration kKnowledgeLasts = std::chrono::seconds(2);

  // `ttls`: what all servers of the store have told; null: what this one does.
  Census(const HoldOffOptions& options, int wait_replicas, std::shared_ptr<AssertedTtls> ttls = nullptr);

  // Censuses are taken.
  bool on() const { return options_.kind != HoldOffOptions::Kind::kOff; }
  // A hold-off that is found is obeyed.
  bool obeys() const { return on() && (!waits_for_replicas() || replicated_); }
  // It is not obeyed before the server is known to be replicated.
  bool waits_for_replicas() const { return options_.kind == HoldOffOptions::Kind::kIfReplicated; }
  // It has, or had, replicas.
  bool replicated() const { return replicated_; }
  // The longest ttl of this broker's leases, but for those told one by one: OnTtl. The same before and after the server
  // is known to be replicated, for what was granted before is still out then.
  core::Duration longest_ttl() const;

  // Takes the server's facts; at least once before Next. With another identity all that was known is forgotten.
  // REQUIRES: on().
  void Meet(const CensusFacts& facts);
  // So many servers there are, by those who know (sentinels): the largest number ever told counts.
  void Servers(int count);
  Request Next(core::Instant now) const;
  // The answer to Next. True: the data that were known have been deleted meanwhile, and are judged anew.
  bool OnCount(const Count& count, core::Instant now);
  // The marker and the heartbeat are other keys from now on.
  void OnOtherKeys() { counted_ = false; }
  // The server was asked at `asked`, and has answered that its data are still those of the identity.
  void OnSame(core::Instant asked);
  // A lease is written with this ttl, which may be longer than longest_ttl().
  void OnTtl(core::Duration ttl, core::Instant now) {
    if (on() && ttl > longest_ttl()) ttls_->Hear({ttl, {}}, now);
  }
  // Replicas that have confirmed what was written before, the last answered Next included.
  void OnReplicas(int confirmed);
  // Whether OnReplicas has to be told before the hold-off can be counted.
  bool AwaitsReplicas() const { return on() && needs_replicas_ && !replicas_confirmed_; }
  // The server's clock was set forward by so much (negative: back).
  void OnClockStep(core::Duration by);

  // By what was heard last, nobody new is granted a lock.
  bool holds_off() const { return obeys() && state_ != State::kNone; }
  // The server's last answer is too old to be trusted.
  bool IsStale(core::Instant now) const { return obeys() && now > known_until(); }
  // Scripts are told so: nobody new is granted a lock.
  bool HoldsOff(core::Instant now) const { return holds_off() || IsStale(now); }
  // Until then what the server said last counts.
  core::Instant known_until() const { return same_ + kKnowledgeLasts; }
  // Until then, by the server's clock, scripts grant nobody new a lock; us = 0: they do, kOpenEnd: it is not known yet.
  core::StoreTime HeldOffUntil(core::Instant now) const;
  // Until then, by the server's clock, a primary that this server has replaced may grant what ends there.
  core::StoreTime OthersUntil(core::Instant now) const;
  // The argument `hold_off` of a script. `known_until`: by the server's clock, since a call may run long after it was
  // sent.
  std::string ScriptArgument(core::Instant now, core::StoreTime known_until) const;

  Guard guard() const;
  // For the log: leases of this length may run out at an old primary that goes on, and be given to somebody else there,
  // while their holders renew them at the new one, since renewals know no hold-off. "": they outlast it, or for how
  // long it goes on is a guess.
  std::string WarningOfShortLeases(core::Duration usual_ttl) const;
  // For the log: min-replicas-to-write is set, and guards nothing. "": it does, or is not needed.
  std::string WarningOfScripts() const;
  // Zero without a hold-off, Duration::max() while its end is not known.
  core::Duration Left(core::StoreTime now) const;
  // The end by the server's clock; us = 0: there is no hold-off, or its end is not known.
  core::StoreTime until() const { return state_ == State::kCounted ? until_ : core::StoreTime{}; }

 private:
  enum class State { kNone, kOpen, kCounted };

  // How long a primary that was replaced may go on granting.
  core::Duration OldPrimaryGoesOn() const;

  void Judge();
  CompleteIf complete_if() const;
  // A promoted server may not see all servers yet: the others join it later.
  bool KnowsAllServers() const;
  // No other server can have had its locks since its process began.
  bool HasBeenAlone() const;
  // When the data may be incomplete.
  core::Duration HoldOff(core::Instant now) const;

  // Const after construction.
  HoldOffOptions options_;
  int wait_replicas_;
  std::shared_ptr<AssertedTtls> ttls_;

  CensusFacts facts_;
  int servers_ = 0;  // the most that were seen or told
  bool told_servers_ = false;
  bool met_another_ = false;  // server, or run of it: it is no first start
  bool replicated_ = false;
  bool was_replicated_ = false;  // before it had these data: they may be another server's that knows nothing of it
  Guard guard_ = Guard::kNone;   // if the data may be incomplete
  bool needs_replicas_ = false;
  bool counted_ = false;             // the marker was written, at its present key
  bool replicas_confirmed_ = false;  // of a marker that was written before
  State state_;
  core::StoreTime since_;            // us = 0: not known
  core::Duration known_hold_off_{};  // the longest that was marked, since since_
  core::Duration step_{};            // by which since_ was moved, since the server's clock was set
  core::StoreTime until_;
  core::Instant same_{};  // when the server was asked last of those that it answered
};

// For people: what the guard is worth.
std::string_view GuardName(Census::Guard guard);

}  // namespace distlock::store
