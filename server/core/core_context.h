// SPDX-License-Identifier: Apache-2.0
//
// The state that all parts of one broker core share: the time of this Step, the effects it produces, the deadlines, the
// store commands in flight, the state of the store, the options and the seeded randomness. It takes no decisions.
//
// Thread: the shard's. Ownership: the Broker owns it; parts keep a reference to it.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/broker_config.h"
#include "core/check.h"
#include "core/clock_margin.h"
#include "core/limits.h"
#include "core/messages.h"
#include "core/op.h"
#include "core/random.h"
#include "core/timers.h"

namespace distlock::core {

class CoreContext {
 public:
  explicit CoreContext(const BrokerConfig& broker_config);
  CoreContext(const CoreContext&) = delete;
  CoreContext& operator=(const CoreContext&) = delete;

  // Begins a Step: time moves to `at` (never back), and effects are appended to `out` until EndStep.
  void BeginStep(Instant at, std::vector<Effect>& out);
  void EndStep() { effects_ = nullptr; }

  // ---- effects, REQUIRES: between BeginStep and EndStep

  // Tells one caller. Nothing happens if `to.session` is 0.
  template <typename T>
  void Tell(const Recipient& to, T event) {
    static_assert(!std::is_same_v<T, Event>, "a refusal inside of it would keep its name");
    if constexpr (std::is_same_v<T, Refused>) event.reason = NameOf(event.reason);
    if (to.session != 0) Effects().emplace_back(Notify{to.session, to.request, std::move(event)});
  }
  void Note(Fact fact) {
    fact.refusal = NameOf(fact.refusal);
    Effects().emplace_back(std::move(fact));
  }
  // Refuses a request about a lock, on record.
  void Refuse(const Recipient& to, const LockName& name, Refused refused) {
    Note({.kind = FactKind::kRefused, .value = refused.waited, .refusal = refused.reason, .name = name});
    Tell(to, std::move(refused));
  }
  template <typename Request>
  void Refuse(const Request& in, RefusalReason reason, const std::string& cause) {
    Refuse({in.session, in.request}, in.name, {.reason = reason, .cause = cause});
  }
  template <typename T>
  void Command(T command) {
    Effects().emplace_back(std::in_place_type<StoreCommand>, std::move(command));
  }
  void Announce(DrainComplete done) { Effects().emplace_back(done); }

  // ---- store commands in flight

  // Registers a command as sent now and returns its id; the caller passes the command itself to Command().
  OpId SendOp(Op op);
  // The id that the next SendOp returns.
  OpId NextOp() const { return next_op_; }
  // Null: not in flight.
  const Op* FindOp(OpId id) const;
  // Removes an answered command; nullopt: it is not in flight.
  std::optional<Op> TakeOp(OpId id);
  // Whether a record of `sender` is right about its command.
  bool IsInFlight(OpId id, const Part* sender) const {
    const Op* const op = FindOp(id);
    return op != nullptr && op->sender == sender;
  }
  size_t ops_in_flight() const { return ops_.size(); }

  // ---- time

  // Sets the only deadline of a record; kNever cancels it. Gives the record a serial if it has none.
  void Arm(Timed& timed, Instant at) {
    if (timed.serial == 0) timed.serial = next_serial_++;
    timers.Set(timed, at);
  }
  // For records whose place in an order must be known before they have a deadline.
  uint64_t NextSerial() { return next_serial_++; }

  // ---- the store

  // Whether it has locks of that mode.
  bool Supports(const Want& want) const { return want.mode != Mode::kPermit || config.store.has_permits; }
  // Why it gives no answer, for callers. `last`: why the last command failed; "": it did not.
  std::string WhyNoAnswer(const std::string& last, const char* otherwise = "no answer") const {
    return !store_up ? store_trouble : last.empty() ? otherwise : last;
  }

  // ---- clocks

  // By how much two clocks can differ after `time`.
  Duration Drift(Duration time) const { return core::Drift(time, config.clock_drift_ppm); }
  // How long a client may be told to believe in what holds here for `time`: its clock may be slow, and ours fast.
  Duration Shortened(Duration time) const {
    return time <= Duration::zero() ? Duration::zero()
                                    : std::max<Duration>(time - Drift(time) - kDriftRounding, Duration::zero());
  }
  // The most that a client's clock can count while ours counts `time`.
  Duration Stretched(Duration time) const { return time + Drift(time) + kDriftRounding; }
  // How much earlier than the store's expiry a client's belief in a lease of `ttl` ends.
  Duration Margin(Duration ttl) const { return core::Margin(ttl, config.clock_drift_ppm) + config.store.clock_spread; }
  // D: no belief in a lease of `ttl` goes further, if the store began the ttl no earlier than `sent`.
  Instant DeadlineOf(Instant sent, Duration ttl) const { return sent + ttl - Margin(ttl); }
  // How long one attempt of a command about a lease of `ttl` is waited for.
  static Duration AttemptTimeout(Duration ttl);
  // So long what a request has is kept after the end of its stream. The store keeps the place for longer.
  Duration RetryWindow() const { return std::min(config.validity, config.queue_slot / 2); }
  // The pause before the next attempt: random, and longer on average the more attempts have failed.
  Duration BackOff(int attempts);

  const BrokerConfig config;
  Instant now{};  // of this Step
  Timers timers;
  bool store_up = false;
  std::string store_trouble = "not connected to the store yet";  // why store_up is false
  Instant down_since{};                                          // the last time that store_up became false
  bool draining = false;                                         // no new acquires or watches
  Random random;

 private:
  std::vector<Effect>& Effects() {
    DISTLOCK_CHECK(effects_ != nullptr);
    return *effects_;
  }
  // Several servers are unavailable as a quorum.
  RefusalReason NameOf(RefusalReason reason) const {
    return config.store.is_quorum && reason == RefusalReason::kStoreUnavailable ? RefusalReason::kQuorumNotReached
                                                                                : reason;
  }

  std::vector<Effect>* effects_ = nullptr;
  OpId next_op_ = 1;
  uint64_t next_serial_ = 1;
  absl::flat_hash_map<OpId, Op> ops_;
};

}  // namespace distlock::core
