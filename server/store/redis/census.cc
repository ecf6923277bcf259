// SPDX-License-Identifier: Apache-2.0
#include "store/redis/census.h"

#include <algorithm>
#include <utility>

#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::store {

using core::Duration;
using core::Instant;
using core::StoreTime;

namespace {

// Behind max-lag: a server counts the lag of its replicas in whole seconds, and looks at it once a second.
constexpr Duration kLagIsNoticed = std::chrono::seconds(2);

// Any two sets of so many replicas, each with its primary, share a server.
bool IsMajority(int replicas, int servers) { return replicas > 0 && 2 * (1 + replicas) > servers; }

int64_t Us(Duration duration) { return std::chrono::ceil<std::chrono::microseconds>(duration).count(); }

}  // namespace

Census::Census(const HoldOffOptions& options, int wait_replicas, std::shared_ptr<AssertedTtls> ttls)
    : options_(options),
      wait_replicas_(wait_replicas),
      ttls_(ttls != nullptr ? std::move(ttls) : std::make_shared<AssertedTtls>()),
      state_(on() ? State::kOpen : State::kNone) {}

Duration Census::longest_ttl() const {
  const bool is_shorter = waits_for_replicas() && options_.longest_ttl_if_replicated > Duration::zero();
  return is_shorter ? std::min(options_.longest_ttl, options_.longest_ttl_if_replicated) : options_.longest_ttl;
}

void Census::Meet(const CensusFacts& facts) {
  if (facts.identity != facts_.identity) {
    met_another_ = !facts_.identity.empty();
    since_ = {};
    known_hold_off_ = step_ = {};
    counted_ = replicas_confirmed_ = false;
    state_ = State::kOpen;
    was_replicated_ = replicated_;
  }
  facts_ = facts;
  replicated_ = replicated_ || facts.promoted || facts.replicas > 0;
  servers_ = std::max({servers_, 1 + facts.replicas, options_.nodes});
  Judge();
}

void Census::Servers(int count) {
  servers_ = std::max(servers_, count);
  told_servers_ = true;
  if (!facts_.identity.empty()) Judge();
}

void Census::Judge() {
  const bool can_fail_over = options_.can_fail_over || replicated_;
  const bool all_known = KnowsAllServers();
  needs_replicas_ = all_known && IsMajority(wait_replicas_, servers_);
  const bool refuses = facts_.max_lag > Duration::zero();  // 0 turns min-replicas off
  if (servers_ == 1 && !can_fail_over) {
    guard_ = Guard::kAlone;
  } else if (needs_replicas_) {
    guard_ = Guard::kConfirmed;
  } else if (all_known && refuses && !facts_.scripts_pass && IsMajority(facts_.min_replicas, servers_)) {
    guard_ = Guard::kMinReplicas;
  } else {
    guard_ = Guard::kNone;
  }
}

bool Census::KnowsAllServers() const {
  return !(options_.can_fail_over || replicated_) || options_.nodes > 0 || told_servers_;
}

// Most of the servers follow it now, so none of them was made the primary in its place, unseen by it.
bool Census::HasBeenAlone() const {
  const bool is_followed = facts_.replicas == 0 && servers_ == 1 ? true : IsMajority(facts_.in_step, servers_);
  return options_.kind == HoldOffOptions::Kind::kAuto && options_.has_all_locks && !met_another_ && !facts_.promoted &&
         KnowsAllServers() && is_followed;
}

Census::Guard Census::guard() const {
  return complete_if().beating && state_ != State::kCounted ? Guard::kNothingForgotten : guard_;
}

Census::CompleteIf Census::complete_if() const {
  const bool is_fixed = options_.kind == HoldOffOptions::Kind::kFixed;
  return {.beating = facts_.aof_always && !facts_.promoted && !is_fixed,
          .original = waits_for_replicas() && !was_replicated_};
}

Duration Census::HoldOff(Instant now) const {
  if (options_.kind == HoldOffOptions::Kind::kFixed) return options_.fixed;
  const Duration longest = std::max(longest_ttl(), ttls_->Longest(now));
  return longest + OldPrimaryGoesOn();
}

Duration Census::OldPrimaryGoesOn() const {
  switch (guard_) {
    case Guard::kNothingForgotten:
    case Guard::kAlone:
    case Guard::kConfirmed:
      break;
    case Guard::kMinReplicas:
      return facts_.max_lag + kLagIsNoticed;
    case Guard::kNone:
      return options_.unguarded;
  }
  return Duration::zero();
}

std::string Census::WarningOfShortLeases(Duration usual_ttl) const {
  const bool is_known = guard_ == Guard::kMinReplicas || (guard_ == Guard::kNone && options_.node_timeout);
  const Duration goes_on = OldPrimaryGoesOn();
  // A lease has that much left when a renewal is due.
  const Duration has_left = usual_ttl * 2 / 3;
  if (!obeys() || !is_known || goes_on <= has_left) return "";
  const auto ms = [](Duration time) { return Cat(std::chrono::ceil<std::chrono::milliseconds>(time).count(), " ms"); };
  const std::string longer = Cat("use a --default-ttl of at least ", ms(goes_on * 3 / 2));
  const std::string twice = Cat("leases of ", ms(usual_ttl), " may be held twice when a primary is cut off");
  const std::string too_long = Cat(ms(goes_on), " more, and two thirds of --default-ttl are only ", ms(has_left), "; ");
  if (guard_ == Guard::kNone) {
    return Cat(twice, " and replaced by hand (CLUSTER FAILOVER FORCE or TAKEOVER): cluster-node-timeout is ",
               ms(*options_.node_timeout), ", so it grants for up to ", too_long, longer,
               ", or lower cluster-node-timeout");
  }
  const auto lag = std::chrono::floor<std::chrono::seconds>(has_left - kLagIsNoticed).count();
  const std::string sooner = Cat("run CONFIG SET min-replicas-max-lag ", lag, " on each server, or ");
  return Cat(twice, ": min-replicas-max-lag is ", std::chrono::floor<std::chrono::seconds>(facts_.max_lag).count(),
             " s, so it grants for up to ", too_long, lag > 0 ? sooner : "", longer);
}

std::string Census::WarningOfScripts() const {
  if (!obeys() || guard_ != Guard::kNone || !facts_.scripts_pass || facts_.min_replicas == 0) return "";
  return "min-replicas-to-write guards nothing here: Redis before 6.2.7 lets scripts write without replicas, so a "
         "failover "
         "may give a lock to a second holder while the primary that was cut off goes on; use Redis 6.2.7 or newer, or "
         "Valkey, or set --store-nodes and --wait-replicas";
}

Census::Request Census::Next(Instant now) const {
  std::vector<AssertedTtls::Assertion> said = ttls_->All(now);
  said.insert(said.begin(), {longest_ttl(), Duration::zero()});
  // In two steps: the replica that confirms may have begun to follow after the first census was written.
  return {.identity = facts_.identity,
          .known_since = since_.us > 0 ? StoreTime{since_.us - Us(step_)} : StoreTime{},
          .confirm = !AwaitsReplicas(),
          .hold_off = HoldOff(now),
          .longest_ttl = longest_ttl(),
          .known_hold_off = known_hold_off_,
          .complete_if = complete_if(),
          .started = facts_.started,
          .promoted = facts_.promoted,
          .has_replicas = facts_.replicas > 0 || replicated_,
          .said = std::move(said),
          .server = options_.server,
          .has_marked = counted_,
          .lives = HasBeenAlone(),
          .kept = facts_.aof_always ? facts_.asked : StoreTime{}};
}

bool Census::OnCount(const Count& count, Instant now) {
  // The same data have only one stamp ever marked, but when the marker was deleted together with them.
  const int64_t known = since_.us - Us(step_);
  const bool is_lost = counted_ && since_.us > 0 && (count.since.us == 0 || count.since.us > known);
  counted_ = true;
  if (is_lost) since_ = {};
  for (const AssertedTtls::Assertion& one : count.said) ttls_->Hear(one, now);
  if (count.replicated && !std::exchange(replicated_, true)) Judge();
  if (count.since.us > 0) since_ = StoreTime{count.since.us + Us(step_)};
  known_hold_off_ = count.hold_off;
  // A possible loss in data that need not be incomplete was judged once, and marked.
  const bool is_judged = complete_if() != CompleteIf{};
  const Duration hold_off = is_judged ? count.hold_off : std::max(HoldOff(now), count.hold_off);
  if (hold_off == Duration::zero()) {
    state_ = State::kNone;
  } else if (since_.us == 0) {
    state_ = State::kOpen;
  } else {
    until_ = StoreTime{since_.us + Us(hold_off)};
    state_ = count.time < until_ ? State::kCounted : State::kNone;
  }
  return is_lost;
}

void Census::OnSame(Instant asked) { same_ = std::max(same_, asked); }

void Census::OnReplicas(int confirmed) {
  if (counted_ && confirmed >= wait_replicas_) replicas_confirmed_ = true;
}

void Census::OnClockStep(Duration by) {
  // A clock that was set back only makes the hold-off longer.
  if (since_.us == 0 || by <= Duration::zero()) return;
  step_ += by;
  since_.us += Us(by);
  until_.us += Us(by);
}

StoreTime Census::HeldOffUntil(Instant now) const {
  if (!HoldsOff(now)) return {};
  return state_ != State::kCounted || IsStale(now) ? kOpenEnd : until_;
}

StoreTime Census::OthersUntil(Instant now) const {
  if (IsStale(now)) return kOpenEnd;
  if (guard_ == Guard::kConfirmed) return {};
  if (since_.us == 0) return kOpenEnd;
  return StoreTime{since_.us + Us(OldPrimaryGoesOn())};
}

std::string Census::ScriptArgument(Instant now, StoreTime known_until) const {
  if (!HoldsOff(now)) return Cat(known_until.us);
  const StoreTime until = HeldOffUntil(now);
  return Cat(until.us, ";", until == kOpenEnd ? kOpenEnd.us : known_until.us, ";", OthersUntil(now).us);
}

Duration Census::Left(StoreTime now) const {
  if (!obeys()) return Duration::zero();
  switch (state_) {
    case State::kNone:
      break;
    case State::kOpen:
      return Duration::max();
    case State::kCounted:
      return std::chrono::microseconds(std::max<int64_t>(until_.us - now.us, 0));
  }
  return Duration::zero();
}

std::string_view GuardName(Census::Guard guard) {
  switch (guard) {
    case Census::Guard::kNothingForgotten:
      return "nothing is forgotten";
    case Census::Guard::kAlone:
      return "one server";
    case Census::Guard::kConfirmed:
      return "confirmed by replicas";
    case Census::Guard::kMinReplicas:
      return "min-replicas-to-write";
    case Census::Guard::kNone:
      return "best effort";
  }
  return "";
}

}  // namespace distlock::store
