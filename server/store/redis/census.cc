// SPDX-License-Identifier: Apache-2.0
#include "store/redis/census.h"

#include <algorithm>

#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::store {

using core::Duration;
using core::StoreTime;

namespace {

// As scripts are told of an end that is not known: no clock shows it.
constexpr int64_t kOpenEnd = 9'007'199'254'740'991;

// Any two sets of so many replicas, each with its primary, share a server.
bool IsMajority(int replicas, int servers) { return replicas > 0 && 2 * (1 + replicas) > servers; }

int64_t Us(Duration duration) { return std::chrono::ceil<std::chrono::microseconds>(duration).count(); }

}  // namespace

void Census::Meet(const CensusFacts& facts) {
  if (facts.identity != facts_.identity) {
    since_ = {};
    step_ = {};
    counted_ = replicas_confirmed_ = false;
    state_ = State::kOpen;
    confirmed_.clear();
  }
  facts_ = facts;
  servers_ = std::max({servers_, 1 + facts.replicas, options_.nodes});
  Judge();
}

void Census::Servers(int count) {
  servers_ = std::max(servers_, count);
  told_servers_ = true;
  if (!facts_.identity.empty()) Judge();
}

void Census::Judge() {
  // What a promoted server sees may not be all there is: the others join it later.
  const bool all_known = !options_.can_fail_over || options_.nodes > 0 || told_servers_;
  needs_replicas_ = all_known && IsMajority(wait_replicas_, servers_);
  if (facts_.aof_always && !facts_.promoted) {
    guard_ = Guard::kNothingForgotten;
  } else if (servers_ == 1 && !options_.can_fail_over) {
    guard_ = Guard::kAlone;
  } else if (needs_replicas_) {
    guard_ = Guard::kConfirmed;
  } else if (all_known && IsMajority(facts_.min_replicas, servers_)) {
    guard_ = Guard::kMinReplicas;
  } else {
    guard_ = Guard::kNone;
  }
}

Duration Census::HoldOff() const {
  if (options_.kind == HoldOffOptions::Kind::kFixed) return options_.fixed;
  switch (guard_) {
    case Guard::kNothingForgotten:
      return Duration::zero();
    case Guard::kAlone:
    case Guard::kConfirmed:
      return options_.longest_ttl;
    case Guard::kMinReplicas:
      return options_.longest_ttl + facts_.max_lag + std::chrono::seconds(1);
    case Guard::kNone:
      return options_.longest_ttl + options_.unguarded;
  }
  return options_.longest_ttl;
}

Census::Request Census::Next() const {
  // In two steps: the replica that confirms may have begun to follow after the first census was written.
  return {.identity = facts_.identity,
          .known_since = since_.us > 0 ? StoreTime{since_.us - Us(step_)} : StoreTime{},
          .confirm = !AwaitsReplicas(),
          .hold_off = HoldOff(),
          .longest_ttl = options_.longest_ttl};
}

void Census::OnCount(const Count& count) {
  counted_ = true;
  if (count.since.us > 0) since_ = StoreTime{count.since.us + Us(step_)};
  const Duration hold_off = std::max(HoldOff(), count.hold_off);
  if (hold_off == Duration::zero()) {
    state_ = State::kNone;
  } else if (since_.us == 0) {
    state_ = State::kOpen;
  } else {
    until_ = StoreTime{since_.us + Us(hold_off)};
    state_ = count.time < until_ ? State::kCounted : State::kNone;
  }
  if (state_ == State::kNone) confirmed_.clear();
}

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

void Census::OnRenewed(const core::OwnerId& owner, StoreTime time) {
  if (state_ == State::kCounted && time >= since_) confirmed_.insert(owner);
}

std::string Census::ScriptArgument(const core::OwnerId& owner) const {
  switch (state_) {
    case State::kNone:
      break;
    case State::kOpen:
      return Cat(kOpenEnd, ";", kOpenEnd, ";0");
    case State::kCounted:
      return Cat(since_.us, ";", until_.us, Confirms(owner) ? ";1" : ";0");
  }
  return "0";
}

Duration Census::Left(StoreTime now) const {
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
