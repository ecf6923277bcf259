// SPDX-License-Identifier: Apache-2.0
#include "simulation/cluster_failover.h"

#include <algorithm>

#include "simulation/partition.h"

namespace distlock::sim {
namespace {

constexpr Duration kLongestVote = milliseconds(1500);
constexpr Duration kLongestDemotion = seconds(1);  // from a promotion until an old primary that can be reached knows
constexpr Duration kLongestLoss = seconds(20);

}  // namespace

ClusterFailover::ClusterFailover(Env& env, ClusterSet& nodes, std::function<std::vector<Process*>()> brokers)
    : env_(env), set_(nodes), brokers_(std::move(brokers)) {
  for (const ClusterNode* node : set_.primaries()) NotePromoted(*node, hold_off() + seconds(5));
}

Duration ClusterFailover::hold_off() const { return std::max(env_.settings.fixed_hold_off, OwnHoldOff()); }

Duration ClusterFailover::OwnHoldOff() const {
  const Duration longest_ttl = *std::ranges::max_element(env_.temper.ttls);
  switch (env_.settings.guard) {
    case FailoverGuard::kConfirmed:
      return longest_ttl;
    case FailoverGuard::kMinReplicas:
      return longest_ttl + seconds(3);
    case FailoverGuard::kNone:
      break;
  }
  return longest_ttl + env_.temper.node_timeout * 3 / 2 + seconds(1);
}

ClusterNode& ClusterFailover::PrimaryOf(const ClusterNode& node) {
  const auto group = set_.GroupOf(node);
  return **std::ranges::find_if(set_.primaries(),
                                [&](ClusterNode* one) { return std::ranges::find(group, one) != group.end(); });
}

bool ClusterFailover::IsSettled() const {
  const auto goes_on = [&](const auto& node) {
    return node->leads() && std::ranges::find(set_.primaries(), node.get()) == set_.primaries().end();
  };
  return !failing_ && env_.now() >= env_.apart_until && std::ranges::none_of(set_.nodes(), goes_on);
}

// ---- How a primary is lost ----

void ClusterFailover::LosePrimary(Cause cause) { Lose(set_.AnyNodeWithLock(), cause); }

void ClusterFailover::LoseUnheard(Duration unheard, Cause cause) {
  ClusterNode& old = set_.AnyNodeWithLock();
  if (failing_ || !old.running() || CutAway(env_, old)) return;
  StopStream(old, unheard + seconds(1));
  env_.time.After(unheard, [this, &old, cause] {
    if (env_.trouble && &PrimaryOf(old) == &old) Lose(old, cause);
  });
}

void ClusterFailover::LoseAlone() {
  ClusterNode& old = set_.AnyNodeWithLock();
  env_.time.After(old.UntilLagCountsLate(), [this, &old] {
    // An earlier cut would end with the new one.
    const bool is_cut = env_.now() < env_.apart_until;
    if (env_.trouble && !is_cut && old.running() && &PrimaryOf(old) == &old) Lose(old, Cause::kForcedAlone);
  });
}

void ClusterFailover::Lose(ClusterNode& old, Cause cause) {
  if (env_.now() < env_.all_set_at || failing_ || !old.alive() || set_.Moves(old)) return;
  const bool is_forced = cause == Cause::kForcedApart || cause == Cause::kForcedAlone;
  if (is_forced && !OldPrimaryEndsFirst(env_)) return;
  failing_ = true;
  attempts_ = 0;
  const Duration vote = env_.dice.Between(Duration(0), kLongestVote);
  const Duration old_lives = env_.dice.Between(Duration(0), kLongestDemotion);
  Duration promoted_after = env_.temper.node_timeout + vote;
  const Duration time = env_.dice.Between(seconds(1), kLongestLoss);
  switch (cause) {
    case Cause::kForced:
      promoted_after = env_.dice.Between(Duration(0), milliseconds(300));
      break;
    case Cause::kKilled:
      env_.NoteFault(FaultKind::kStoreRestarted, old.actor(), time + ClusterNode::kRejoins);
      old.Restart(time, old.AnyMemory());
      NotePromoted(old, time + ClusterNode::kRejoins + hold_off());  // it may be back before it is replaced
      break;
    case Cause::kPaused:
      env_.NoteFault(FaultKind::kStorePaused, old.actor(), time);
      old.Pause(time);
      break;
    case Cause::kForcedApart:
      promoted_after = env_.dice.Between(Duration(0), milliseconds(300));
      [[fallthrough]];
    case Cause::kCutOff:
      CutOffPrimary(old);
      break;
    case Cause::kForcedAlone:
      promoted_after = env_.dice.Between(Duration(0), env_.dice.Chance(0.5) ? milliseconds(30) : milliseconds(300));
      CutOffAlone(old);
      break;
  }
  if (cause != Cause::kForced && !is_forced && env_.temper.full_coverage) {
    env_.time.After(env_.temper.node_timeout, [this, vote] { RefuseEverywhere(vote); });
  }
  env_.time.After(promoted_after, [this, &old, old_lives] { Promote(old, old_lives); });
}

void ClusterFailover::CutOffPrimary(ClusterNode& old) {
  std::set<int32_t> apart = {old.actor()};
  const bool with_brokers = env_.dice.Chance(0.8);
  for (const Process* broker : brokers_()) {
    if (with_brokers && env_.dice.Chance(0.5)) apart.insert(broker->actor());
  }
  std::vector<ClusterNode*> minority = {&old};
  const auto group = set_.GroupOf(old);
  // It may be an older primary that has not heard yet that it was replaced.
  if (ClusterNode* const with_it = env_.dice.Pick(group); env_.dice.Chance(0.5)) {
    apart.insert(with_it->actor());
    minority.push_back(with_it);
  }
  CutOffAll(
      apart, minority,
      env_.dice.Between(env_.temper.node_timeout, std::max<Duration>(kLongestLoss, 2 * env_.temper.node_timeout)));
}

void ClusterFailover::CutOffAlone(ClusterNode& old) {
  CutOffAll({old.actor(), env_.dice.Pick(brokers_())->actor()}, {&old},
            hold_off() + env_.dice.Between(seconds(2), seconds(10)));
}

// Nodes of a minority refuse commands after the node-timeout, which a node counts from when it asks, up to half of it
// later, and until some time after they hear the others again.
void ClusterFailover::CutOffAll(const std::set<int32_t>& apart, const std::vector<ClusterNode*>& minority,
                                Duration time) {
  std::vector<Process*> all = brokers_();
  for (const auto& node : set_.nodes()) all.push_back(node.get());
  CutOff(env_, apart, all, time);
  env_.time.After(env_.temper.node_timeout + env_.dice.Between(Duration(0), env_.temper.node_timeout / 2),
                  [this, minority] {
                    for (ClusterNode* const node : minority) {
                      if (CutAway(env_, *node))
                        node->RefuseUntil(env_.apart_until + env_.dice.Between(milliseconds(500), seconds(1)));
                    }
                  });
}

void ClusterFailover::RefuseEverywhere(Duration time) {
  for (const auto& node : set_.nodes()) {
    env_.NoteFault(FaultKind::kStoreRefuses, node->actor(), time);
    node->RefuseUntil(env_.now() + time);
  }
}

void ClusterFailover::RestartPrimary(std::optional<Memory> memory) {
  ClusterNode& node = set_.AnyNodeWithLock();
  Restart(node, memory ? *memory : node.AnyMemory());
}

void ClusterFailover::Restart(ClusterNode& node, Memory memory) {
  if (failing_ || !node.alive() || set_.Moves(node)) return;
  const Duration down = env_.dice.Between(milliseconds(1), milliseconds(800));
  node.Restart(down, memory);
  NotePromoted(node, down + ClusterNode::kRejoins + hold_off() + node.StaleWaits() + seconds(5));
}

// ---- The other nodes ----

ClusterNode* ClusterFailover::Candidate(const ClusterNode& old) {
  std::vector<ClusterNode*> fit;
  for (ClusterNode* node : set_.GroupOf(old)) {
    if (node == &old || node->leads() || !node->running() || !node->has_copy() || CutAway(env_, *node)) continue;
    fit.push_back(node);
  }
  if (fit.empty()) return nullptr;
  // The first to ask for votes is not always the one with the newest data.
  if (env_.dice.Chance(0.4)) return env_.dice.Pick(fit);
  return *std::ranges::max_element(fit, {}, &ClusterNode::offset);
}

void ClusterFailover::Promote(ClusterNode& old, Duration old_lives) {
  // A slot has begun to move meanwhile: an operator who has not looked.
  ClusterNode* const next = set_.Moves(old) ? nullptr : Candidate(old);
  if (next == nullptr) {
    if (++attempts_ > 20) failing_ = false;
    if (!failing_) return;
    if (env_.temper.full_coverage && !old.running()) RefuseEverywhere(milliseconds(500));
    return env_.time.After(milliseconds(500), [this, &old, old_lives] { Promote(old, old_lives); });
  }
  Replace(old, *next, old_lives);
  // Before what it may have forgotten is over.
  if (env_.dice.Chance(env_.temper.restarts)) {
    const Duration within = env_.temper.restarts_within > Duration(0) ? env_.temper.restarts_within : hold_off();
    env_.time.After(env_.dice.Between(Duration(0), within), [this, next] {
      if (env_.trouble && &PrimaryOf(*next) == next) Restart(*next, next->AnyMemory());
    });
  }
  env_.time.After(ClusterSet::kLongestNews, [this] { failing_ = false; });
}

void ClusterFailover::Replace(ClusterNode& old, ClusterNode& next, Duration old_lives) {
  env_.Log([&] { return next.name() + " takes over from " + old.name(); });
  NotePromoted(next, std::max(Duration(0), env_.apart_until - env_.now()) + kLongestDemotion + kLongestLoss +
                         hold_off() + next.StaleWaits(old) + seconds(5));
  next.Promote();
  set_.TakeOver(old, next);
  for (ClusterNode* node : set_.GroupOf(old)) {
    if (node != &next)
      DemoteLater(*node, node == &old ? old_lives : env_.dice.Between(Duration(0), ClusterSet::kLongestNews));
  }
}

void ClusterFailover::ReturnUnseenBy(Process& broker) {
  ClusterNode& first = set_.AnyNodeWithLock();
  ClusterNode* const next = Candidate(first);
  if (failing_ || !first.running() || CutAway(env_, first) || set_.Moves(first) || next == nullptr) return;
  failing_ = true;
  const Duration away = hold_off() + env_.dice.Between(milliseconds(500), seconds(4));
  const Duration unseen = env_.dice.Between(milliseconds(100), env_.dice.Chance(0.5) ? milliseconds(700) : seconds(2));
  const Duration rest = env_.dice.Between(Duration(0), env_.dice.Chance(0.5) ? milliseconds(50) : seconds(3));
  env_.NoteFault(FaultKind::kBrokerPaused, broker.actor(), away + unseen + rest);
  broker.Pause(away + unseen + rest);
  Replace(first, *next, env_.dice.Between(Duration(0), kLongestDemotion));
  env_.time.After(away, [this, next, unseen] { StopStream(*next, unseen + seconds(1)); });
  const bool crashes = env_.dice.Chance(0.5);
  env_.time.After(away + unseen, [this, &first, next, crashes] { Return(first, *next, crashes); });
}

// An operator tells the replica to take over, without a vote.
void ClusterFailover::Return(ClusterNode& first, ClusterNode& present, bool crashes) {
  env_.time.After(ClusterSet::kLongestNews, [this] { failing_ = false; });
  const bool fit = first.running() && !first.leads() && first.has_copy() && !set_.Moves(present);
  if (!fit || !present.running()) return;
  if (crashes) {
    const Duration down = env_.dice.Between(seconds(1), seconds(5));
    env_.NoteFault(FaultKind::kStoreRestarted, present.actor(), down + ClusterNode::kRejoins);
    present.Restart(down, Memory::kAll);
  }
  Replace(present, first, env_.dice.Between(Duration(0), kLongestDemotion));
}

void ClusterFailover::StopStream(const ClusterNode& primary, Duration time) {
  for (ClusterNode* const node : set_.GroupOf(primary)) {
    if (node == &primary) continue;
    for (const WirePtr& wire : node->Wires()) {
      if (&wire->end(Wire::kServer) == &primary) wire->SilenceBoth(env_.now() + time);
    }
  }
}

void ClusterFailover::DemoteLater(ClusterNode& node, Duration after) {
  env_.time.After(after, [this, &node] {
    if (&node == &PrimaryOf(node)) return;
    const bool reached = node.alive() && !CutAway(env_, node);
    // A demotion of a node that stands still lies in its socket: it hears of it when it goes on, behind the commands
    // that came before, and even if it is cut off by then.
    if (reached) node.Post([this, &node] { Demote(node); });
    // It may be killed before it goes on. A cut may heal before its time.
    if (!reached || !node.running()) DemoteLater(node, milliseconds(200));
  });
}

void ClusterFailover::Demote(ClusterNode& node) {
  ClusterNode& primary = PrimaryOf(node);
  if (&node == &primary) return;
  // Connections of clients stay.
  node.Follow(primary, false);
  set_.Learn(node);
}

void ClusterFailover::NotePromoted(const ClusterNode& node, Duration lasts) {
  env_.NoteFault(FaultKind::kPromoted, node.actor(), lasts);
}

}  // namespace distlock::sim
