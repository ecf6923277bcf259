// SPDX-License-Identifier: Apache-2.0
#include "main/recorder.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/time/time.h"
#include "ops/log.h"

namespace distlock {
namespace {

double Seconds(core::Duration duration) { return std::chrono::duration<double>(duration).count(); }

const char* NameOf(core::LostReason reason) {
  switch (reason) {
    case core::LostReason::kExpired:
      return "expired";
    case core::LostReason::kTaken:
      return "taken";
    case core::LostReason::kForced:
      return "forced";
    case core::LostReason::kMaxHold:
      return "max_hold";
    case core::LostReason::kDrained:
      return "drained";
    case core::LostReason::kMoved:
      return "moved";
  }
  return "unknown";
}

std::string_view LimitOf(acceptor::RefuseCause why) {
  switch (why) {
    case acceptor::RefuseCause::kConnections:
      return "max-connections";
    case acceptor::RefuseCause::kPeerConnections:
      return "max-connections-per-peer";
    case acceptor::RefuseCause::kRate:
      return "new-connections-per-peer or handshakes-per-second";
    case acceptor::RefuseCause::kDescriptors:
      return "open files of this process: raise it (ulimit -n, LimitNOFILE=)";
    case acceptor::RefuseCause::kPreface:
      return "";
    case acceptor::RefuseCause::kPenalty:
      return "connections of this peer were cut again and again";
  }
  return "";
}

std::string_view CauseOf(acceptor::CutCause why) {
  switch (why) {
    case acceptor::CutCause::kEarlyCancels:
      return "too many calls were cancelled before their first answer";
    case acceptor::CutCause::kOpenCalls:
      return "more than twice as many open calls as limit max-connection-streams";
    case acceptor::CutCause::kUnusedBytes:
      return "too many bytes that belong to no message";
    case acceptor::CutCause::kFrames:
      return "too many frames that carry nothing, or headers without end";
    case acceptor::CutCause::kNoPause:
      return "its bytes came without a pause, while others waited to come in";
    case acceptor::CutCause::kRevoked:
      return "its rights were revoked";
  }
  return "";
}

}  // namespace

void Recorder::LogLost(const core::Fact& fact) {
  const auto held_back = lost_lines_.Pass();
  if (!held_back) return;
  const auto [ns, key] = fact.name.Decode();
  ops::Warn("lease lost", {{"namespace", ns},
                           {"key", key},
                           {"reason", NameOf(fact.lost)},
                           {"cause", fact.detail},
                           {"held", absl::FromChrono(fact.value)},
                           {"held_back", *held_back}});
}

void Recorder::LogHeldBack() { LogHeldBack(lost_lines_.Rest(), lapsed_lines_.Rest()); }
void Recorder::LogAllHeldBack() { LogHeldBack(lost_lines_.Rest(INT64_MAX), lapsed_lines_.Rest(INT64_MAX)); }

void Recorder::LogHeldBack(std::optional<uint64_t> lost, std::optional<uint64_t> lapsed) {
  if (lost) ops::Warn("more leases lost", {{"held_back", *lost}});
  if (lapsed) ops::Info("more sessions lapsed", {{"held_back", *lapsed}});
}

void Recorder::OnFact(const core::Fact& fact) {
  switch (fact.kind) {
    case core::FactKind::kGranted:
      metrics_.grants.Increment();
      metrics_.wait_seconds.Observe(Seconds(fact.value));
      return;
    case core::FactKind::kRefused:
      return OnRefusedHere(fact.refusal);
    case core::FactKind::kReleased:
      metrics_.releases[ReleaseOutcome::kReleased].Increment();
      if (fact.value > core::Duration::zero()) metrics_.hold_seconds.Observe(Seconds(fact.value));
      return;
    case core::FactKind::kAlreadyGone:
      return OnReleasedNothing();
    case core::FactKind::kGivenBack:
      return metrics_.releases[ReleaseOutcome::kGivenBack].Increment();
    case core::FactKind::kAbandoned:
      metrics_.releases[ReleaseOutcome::kDisconnected].Increment();
      metrics_.hold_seconds.Observe(Seconds(fact.value));
      return;
    case core::FactKind::kLost:
      if (fact.lost == core::LostReason::kTaken) metrics_.renewals[RenewalOutcome::kGone].Increment();
      metrics_.lost[fact.lost].Increment();
      metrics_.hold_seconds.Observe(Seconds(fact.value));
      return LogLost(fact);
    case core::FactKind::kMoved:
      metrics_.releases[ReleaseOutcome::kMoved].Increment();
      metrics_.hold_seconds.Observe(Seconds(fact.value));
      return;
    case core::FactKind::kHolderDied:
      if (const auto held_back = died_lines_.Pass()) {
        ops::Info("holder died", {{"peer", fact.detail}, {"leases", fact.count}, {"held_back", *held_back}});
      }
      return;
    case core::FactKind::kAdopted:
      return metrics_.adoptions.Increment();
    case core::FactKind::kHandedOff:
      return metrics_.handoffs[fact.handoff].Increment();
    case core::FactKind::kAtRisk:
      return metrics_.at_risk.Increment();
    case core::FactKind::kRenewed:
      metrics_.renewal_batch_leases.Observe(fact.count);
      return metrics_.renewals[RenewalOutcome::kRenewed].Increment(fact.count);
    case core::FactKind::kRenewFailed:
      return metrics_.renewals[RenewalOutcome::kUnanswered].Increment(fact.count);
    case core::FactKind::kSessionLapsed:
      if (const auto held_back = lapsed_lines_.Pass()) ops::Info("session lapsed", {{"held_back", *held_back}});
      return;
    case core::FactKind::kClockStep:
      metrics_.clock_steps.Increment();
      return ops::Warn("the store's clock jumped", {{"by", absl::FromChrono(fact.value)}});
  }
}

bool Recorder::AllUp() const { return std::find(up_.begin(), up_.end(), false) == up_.end(); }

void Recorder::OnStoreState(int shard, bool up, const std::string& cause) {
  std::lock_guard lock(mu_);
  if (up_[shard] == up) return;
  up_[shard] = up;
  if (up) {
    if (was_up_) metrics_.store_reconnects.Increment();
    ops::Info("store up", {{"shard", shard}});
  } else {
    ops::Warn("store down", {{"shard", shard}, {"cause", cause}});
  }
  const bool all = AllUp();
  was_up_ = was_up_ || all;
  metrics_.store_up.Set(all ? 1 : 0);
  if (server_ != nullptr) server_->SetStoreUp(all);
  changed_.notify_all();
}

void Recorder::OnLoopLag(core::Duration lag) { metrics_.loop_lag_seconds.Observe(Seconds(lag)); }

void Recorder::OnStoreReply(core::Verb verb, core::Duration took, bool) {
  metrics_.store_commands[verb].Increment();
  metrics_.store_latency_seconds[verb].Observe(Seconds(took));
}

void Recorder::OnQuestionAnswered(shard::Question question, core::Duration took) {
  metrics_.store_commands[question].Increment();
  metrics_.store_latency_seconds[question].Observe(Seconds(took));
}

void Recorder::OnStoreFailure(core::Verb, std::optional<core::FailureKind> why) {
  metrics_.store_errors[why].Increment();
}

void Recorder::OnMailboxFull() { metrics_.mailbox_rejected.Increment(); }

void Recorder::OnStreamClosed(rpc::StreamClose why) { metrics_.streams_closed[why].Increment(); }

void Recorder::OnRefusedHere(core::RefusalReason reason) { metrics_.refusals[reason].Increment(); }

void Recorder::OnReleasedNothing() { metrics_.releases[ReleaseOutcome::kAlreadyGone].Increment(); }

void Recorder::OnForceRelease(const rpc::ForcedRelease& forced) {
  const auto [ns, key] = forced.name.Decode();
  ops::Warn("forced release", {{"who", forced.caller},
                               {"namespace", ns},
                               {"key", key},
                               {"holder_id", forced.holders},
                               {"reason", forced.reason},
                               {"outcome", forced.outcome}});
}

void Recorder::OnQueued(uint32_t position) { metrics_.queue_position.Observe(position); }

void Recorder::OnRefused(acceptor::RefuseCause why, const std::string& who) {
  metrics_.connections_refused[why].Increment();
  // Probes of the network connect and say nothing.
  if (why == acceptor::RefuseCause::kPreface) return ops::Debug("connection speaks no gRPC", {{"peer", who}});
  const auto held_back = refused_lines_.Pass();
  if (!held_back) return;
  ops::Warn("connection refused", {{"peer", who}, {"limit", LimitOf(why)}, {"held_back", *held_back}});
}

void Recorder::OnCut(acceptor::CutCause why, const std::string& who) {
  metrics_.connections_cut[why].Increment();
  const auto held_back = cut_lines_.Pass();
  if (!held_back) return;
  ops::Warn("connection cut", {{"peer", who}, {"cause", CauseOf(why)}, {"held_back", *held_back}});
}

void Recorder::OnDeath() { metrics_.proofs_of_death.Increment(); }

void Recorder::OnFolderMade(const std::string& folder) {
  ops::Info("made the folder of a unix socket, which was not there", {{"folder", folder}});
}

// One line when a hold-off begins and one when it ends, so that nobody wonders why a free lock is not granted.
void Recorder::LogHoldOff(const store::NodeStatus& node) {
  using State = store::NodeStatus::State;
  if (node.state == State::kHeldOff && held_off_.insert(node.number).second) {
    const char* const what =
        node.independent ? "hold-off begins: the votes of this server do not count; with too few of them nobody "
                           "is newly granted a lock"
                         : "hold-off begins: nobody is newly granted a lock; holders keep theirs";
    const std::string left =
        node.hold_off_left ? absl::FormatDuration(absl::FromChrono(*node.hold_off_left)) : "not known yet";
    ops::Warn(what, {{"server", node.address},
                     {"for", left},
                     {"cause",
                      "it was restarted, failed over, or is new, and may have forgotten locks whose holders "
                      "still believe"},
                     {"if_nobody_can_hold_a_lock_yet",
                      node.independent ? "wait; brokers that are first started with --quorum-new do not hold off"
                                       : "start all brokers with --failover-hold-off 0 for that time"}});
  }
  if (node.state == State::kUp && held_off_.erase(node.number) > 0) {
    ops::Info("hold-off ends: locks are granted again", {{"server", node.address}});
  }
  if (node.gone) held_off_.erase(node.number);
}

void Recorder::OnNodeStatus(const store::NodeStatus& status) {
  std::lock_guard lock(mu_);
  store::NodeStatus& node = nodes_[status.number];
  LogHoldOff(status);
  if (status.primary_changes > node.primary_changes) {
    metrics_.store_primary_changes.Increment(static_cast<double>(status.primary_changes - node.primary_changes));
  }
  node = status;
  if (status.gone) nodes_.erase(status.number);
  std::vector<int> in_state(metrics_.store_nodes.size());
  double hold_off = 0;
  uint64_t keys = 0;
  int counted = 0;
  core::Duration skew{};
  int64_t slew = 0;
  for (const auto& [number, one] : nodes_) {
    ++in_state[static_cast<size_t>(one.state)];
    keys += one.keys.value_or(0);
    counted += one.independent && one.not_counted.empty() && one.state != store::NodeStatus::State::kDown;
    skew = std::max(skew, std::chrono::abs(one.clock_skew.value_or(core::Duration::zero())));
    slew = std::max(slew, std::abs(one.clock_slew_ppm));
    const double left = one.hold_off_left ? Seconds(*one.hold_off_left) : std::numeric_limits<double>::infinity();
    hold_off = std::max(hold_off, left);
  }
  for (size_t state = 0; state < in_state.size(); ++state) metrics_.store_nodes[state]->Set(in_state[state]);
  metrics_.store_hold_off_seconds.Set(hold_off);
  const size_t down = static_cast<size_t>(in_state[static_cast<size_t>(store::NodeStatus::State::kDown)]);
  const bool serves = status.independent ? 2 * down < nodes_.size() : down < nodes_.size();
  metrics_.store_writable.Set(serves && store::WhyNoWrites(Nodes()).empty() ? 1 : 0);
  metrics_.quorum_nodes_counted.Set(counted);
  metrics_.store_clock_skew_seconds.Set(Seconds(skew));
  metrics_.store_clock_slew_ppm.Set(static_cast<double>(slew));
  metrics_.store_keys.Set(static_cast<double>(keys));
}

std::vector<store::NodeStatus> Recorder::StoreNodes() {
  std::lock_guard lock(mu_);
  return Nodes();
}

std::vector<store::NodeStatus> Recorder::Nodes() const {
  std::vector<store::NodeStatus> nodes;
  for (const auto& [number, node] : nodes_) nodes.push_back(node);
  return nodes;
}

void Recorder::OnWait(core::Duration took, bool confirmed) {
  metrics_.store_wait_seconds.Observe(Seconds(took));
  if (!confirmed) metrics_.store_wait_short.Increment();
}

void Recorder::OnRedirect(store::ClusterEvents::Redirect redirect) { metrics_.store_redirects[redirect].Increment(); }

void Recorder::OnQuorumRounds(store::QuorumRound kind, uint64_t count) {
  metrics_.quorum_rounds[kind].Increment(static_cast<double>(count));
}

void Recorder::OnSlotMapRefresh(store::ClusterEvents::Refresh refresh) {
  metrics_.slot_map_refreshes[refresh].Increment();
  if (refresh == store::ClusterEvents::Refresh::kAdopted) metrics_.slot_map_time_seconds.SetToCurrentTime();
}

void Recorder::Watch(rpc::Server* server) {
  std::lock_guard lock(mu_);
  server_ = server;
  if (server_ != nullptr) server_->SetStoreUp(AllUp());
}

bool Recorder::AwaitStore(core::Duration timeout) {
  std::unique_lock lock(mu_);
  return changed_.wait_for(lock, timeout, [this] { return AllUp(); });
}

}  // namespace distlock
