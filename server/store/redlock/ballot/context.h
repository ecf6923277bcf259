// SPDX-License-Identifier: Apache-2.0
//
// The shared parts of a ballot: time, effects, the servers, and the commands in flight. It takes no decisions.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/clock_margin.h"
#include "core/random.h"
#include "store/quorum_events.h"
#include "store/redlock/ballot/nodes.h"

namespace distlock::store::ballot {

// A command to a server that is not answered yet.
struct Sent {
  enum class By : uint8_t { kVote, kConfirm, kJoin, kYield, kDebt, kRound, kRenewal, kNobody };
  By by = By::kNobody;
  NodeIndex node = 0;
  Instant at{};
  Instant run_before{};    // of a vote or a join
  Claim claim;             // of a candidate or a debt; the name alone of what may hand the lock on
  uint64_t candidate = 0;  // its serial
  uint64_t id = 0;         // of the round, or of the attempt of a debt
  uint64_t token = 0;      // of a confirm or a join
};

class Context {
 public:
  explicit Context(const Config& the_config) : config(the_config), nodes(the_config), random(the_config.seed) {}

  // The number of the next request for votes, greater than all before.
  uint64_t NextMark() { return ++last_mark_; }

  void Begin(Instant at, std::vector<Effect>& effects) {
    now = std::max(now, at);
    effects_ = &effects;
  }

  NodeOp Send(Sent sent, NodeCommand&& command) {
    const NodeOp op = next_op_++;
    const NodeIndex node = sent.node;
    sent.at = now;
    sent_.emplace(op, std::move(sent));
    effects_->emplace_back(SendTo{node, op, std::move(command)});
    return op;
  }
  std::optional<Sent> Take(NodeOp op) {
    const auto found = sent_.find(op);
    if (found == sent_.end()) return std::nullopt;
    std::optional<Sent> sent = std::move(found->second);
    sent_.erase(found);
    return sent;
  }
  size_t in_flight() const { return sent_.size(); }

  void Tell(core::Input&& input) { effects_->emplace_back(TellCore{std::move(input)}); }
  // Grants that are told while this is on are kept, until they are taken or it is off.
  void HoldGrants(bool on) {
    holds_grants_ = on;
    for (HeldGrant& grant : std::exchange(held_grants_, {})) TellGrant(std::move(grant.notice), grant.lock_delay);
  }
  void TellGrant(core::GrantNotice&& grant, Duration lock_delay) {
    holds_grants_ ? held_grants_.push_back({std::move(grant), lock_delay}) : Tell(std::move(grant));
  }
  // Those of a lock whose lives count from `since` or later.
  std::vector<core::HolderView> TakeGrants(const LockName& name, Instant since) {
    std::vector<core::HolderView> taken;
    std::erase_if(held_grants_, [&](const HeldGrant& held) {
      const core::GrantNotice& grant = held.notice;
      if (grant.name != name || *grant.counted_from < since) return false;
      core::HolderView view;
      view.owner = grant.owner;
      view.token = grant.token;
      view.since = grant.since;
      view.ttl = grant.ttl;
      view.lock_delay = held.lock_delay;
      taken.push_back(std::move(view));
      return true;
    });
    return taken;
  }
  template <typename Outcome>
  void Answer(core::OpId op, Outcome outcome) {
    Tell(core::StoreReply{.op = op, .outcome = std::move(outcome)});
  }

  Duration Drift(Duration time) const { return core::Drift(time, config.clock_drift_ppm); }
  // As core::CoreContext::Margin.
  Duration Margin(Duration ttl) const { return core::Margin(ttl, config.clock_drift_ppm); }
  Duration Trips(int count) const { return nodes.Trip() * count; }

  Duration Jittered(Duration most) {
    return Duration(static_cast<int64_t>(static_cast<double>(most.count()) * (0.5 + random.Next() / 2)));
  }

  void Count(QuorumRound round) { ++rounds_[static_cast<size_t>(round)]; }
  const std::array<uint64_t, kQuorumRounds>& rounds() const { return rounds_; }

  const Config config;
  Instant now{};
  Nodes nodes;
  core::Random random;

 private:
  struct HeldGrant {
    core::GrantNotice notice;
    Duration lock_delay{};
  };

  NodeOp next_op_ = 1;
  uint64_t last_mark_ = 0;
  std::vector<Effect>* effects_ = nullptr;
  bool holds_grants_ = false;
  std::vector<HeldGrant> held_grants_;
  absl::flat_hash_map<NodeOp, Sent> sent_;
  std::array<uint64_t, kQuorumRounds> rounds_{};
};

}  // namespace distlock::store::ballot
