// SPDX-License-Identifier: Apache-2.0
#include "simulation/replica_set.h"

#include <algorithm>

#include "simulation/partition.h"

namespace distlock::sim {
namespace {

constexpr Duration kDownAfter = seconds(1);
constexpr Duration kMaxLag = seconds(1);
// From the moment when sentinels call a server the primary until the old one has been told, measured on real ones.
constexpr Duration kLongestDemotion = seconds(11);

}  // namespace

ReplicaSet::ReplicaSet(Env& env, Directory& directory, std::function<std::vector<Process*>()> brokers)
    : env_(env), directory_(directory), brokers_(std::move(brokers)) {
  for (int i = 0; i < kServers; ++i) {
    servers_.push_back(std::make_unique<ReplicaServer>(env, i, "server-" + std::to_string(i)));
    directory.Lead(servers_.back()->host(), *servers_.back());
  }
  std::vector<std::string> hosts;
  for (int i = 0; i < kSentinels; ++i) {
    sentinels_.push_back(std::make_unique<SentinelProcess>(env, i, "sentinel-" + std::to_string(i), kServers - 1));
    directory.Lead(sentinels_.back()->host(), *sentinels_.back());
    hosts.push_back(sentinels_.back()->host());
  }
  for (const auto& sentinel : sentinels_) {
    std::vector<std::string> peers = hosts;
    std::erase(peers, sentinel->host());
    sentinel->Meet(std::move(peers));
    sentinel->Tell(primary().host(), ReplicaServer::kPort, epoch_);
  }
  for (const auto& server : servers_) {
    server->DemandReplicas(env.temper.guard == FailoverGuard::kMinReplicas ? 1 : 0, kMaxLag);
    if (server.get() != &primary()) server->Follow(primary(), false);
  }
  LeadName();
  NotePromoted(hold_off() + seconds(5));
}

void ReplicaSet::LeadName() {
  if (env_.temper.name_moves) directory_.Lead(Directory::kStoreHost, primary());
}

std::vector<store::ServerAddress> ReplicaSet::SentinelAddresses() const {
  std::vector<store::ServerAddress> addresses;
  for (const auto& sentinel : sentinels_)
    addresses.push_back({.host = sentinel->host(), .port = SentinelProcess::kPort});
  return addresses;
}

SentinelProcess& ReplicaSet::AnySentinel() { return *sentinels_[static_cast<size_t>(env_.dice.Roll(kSentinels))]; }

Duration ReplicaSet::hold_off() const { return std::max(env_.settings.fixed_hold_off, OwnHoldOff()); }

Duration ReplicaSet::OwnHoldOff() const {
  const Duration longest_ttl = *std::max_element(env_.temper.ttls.begin(), env_.temper.ttls.end());
  switch (env_.settings.guard) {
    case FailoverGuard::kConfirmed:
      return longest_ttl;
    case FailoverGuard::kMinReplicas:
      return longest_ttl + kMaxLag + seconds(2);
    case FailoverGuard::kNone:
      break;
  }
  return longest_ttl + seconds(12);
}

// ---- How a primary is lost ----

void ReplicaSet::LosePrimary(Cause cause) {
  // Without a guard, what an old primary grants is bounded by nothing but the time of the cut.
  const bool is_bounded = env_.settings.guard != FailoverGuard::kNone && OldPrimaryEndsFirst(env_);
  if ((cause == Cause::kForcedApart || cause == Cause::kForcedAlone) && !is_bounded) return;
  if (env_.now() < env_.all_set_at || std::exchange(failing_, true)) return;
  attempts_ = 0;
  ReplicaServer& old = primary();
  const Duration noticed = kDownAfter + env_.dice.Between(Duration(0), milliseconds(1500));
  // Behind one name nobody tells brokers that they are connected to an old primary.
  Duration old_lives = env_.dice.Between(Duration(0), env_.temper.name_moves ? milliseconds(500) : kLongestDemotion);
  Duration promoted_after = noticed;
  switch (cause) {
    case Cause::kManual:
      promoted_after = env_.dice.Between(Duration(0), milliseconds(300));
      break;
    case Cause::kKilled:
      env_.NoteFault(FaultKind::kStoreRestarted, old.actor(), seconds(20));
      old.Restart(env_.dice.Between(seconds(1), seconds(20)), old.AnyMemory());
      NotePromoted(seconds(20) + hold_off());  // it may be back before it is replaced, with what it has
      break;
    case Cause::kPaused: {
      const Duration time = env_.dice.Between(seconds(1), seconds(20));
      env_.NoteFault(FaultKind::kStorePaused, old.actor(), time);
      old.Pause(time);
      break;
    }
    case Cause::kCutOff:
      // Without a guard, what a primary grants while it is cut off is bounded by nothing but the time of the cut.
      CutOffPrimary(env_.settings.guard == FailoverGuard::kNone ? env_.dice.Between(seconds(2), seconds(8))
                                                                : env_.dice.Between(seconds(2), seconds(30)));
      if (env_.settings.guard == FailoverGuard::kNone) old_lives = env_.dice.Between(Duration(0), seconds(1));
      // Somebody does not wait for the sentinels.
      if (env_.settings.guard != FailoverGuard::kNone && OldPrimaryEndsFirst(env_) && env_.dice.Chance(0.5)) {
        promoted_after = env_.dice.Between(Duration(0), milliseconds(300));
      }
      break;
    case Cause::kForcedApart:
      CutOffPrimary(env_.dice.Between(seconds(3), seconds(20)));
      promoted_after = env_.dice.Between(Duration(0), milliseconds(300));
      break;
    case Cause::kForcedAlone:
      CutOffAlone(hold_off() + env_.dice.Between(seconds(2), seconds(10)));
      promoted_after = env_.dice.Between(Duration(0), env_.dice.Chance(0.5) ? milliseconds(30) : milliseconds(300));
      break;
  }
  env_.time.After(promoted_after, [this, old_lives] { Promote(old_lives); });
}

bool ReplicaSet::IsSettled() const {
  const auto& primary = servers_[static_cast<size_t>(primary_)];
  const auto goes_on = [&](const auto& server) { return server != primary && server->leads(); };
  return !failing_ && env_.now() >= env_.apart_until && std::ranges::none_of(servers_, goes_on);
}

void ReplicaSet::LoseUnheard(Duration unheard, Cause cause) {
  const ReplicaServer& old = primary();
  if (failing_ || !old.running()) return;
  for (const auto& server : servers_) {
    for (const WirePtr& wire : server->Wires()) {
      const bool is_stream = server.get() != &old && &wire->end(Wire::kServer) == &old;
      if (is_stream) wire->SilenceBoth(env_.now() + unheard + seconds(1));
    }
  }
  env_.time.After(unheard, [this, &old, cause] {
    if (env_.trouble && &primary() == &old) LosePrimary(cause);
  });
}

void ReplicaSet::LoseAlone() {
  env_.time.After(primary().UntilLagCountsLate(), [this] {
    // An earlier cut would end with the new one.
    const bool is_cut = env_.now() < env_.apart_until;
    if (env_.trouble && !is_cut && primary().running()) LosePrimary(Cause::kForcedAlone);
  });
}

void ReplicaSet::CutOffPrimary(Duration time) {
  std::set<int32_t> apart = {primary().actor()};
  // Without a guard, leases there that end before the cut does are given to others, and renewed at the new primary.
  const bool is_short = time * 3 / 2 <= *std::ranges::min_element(env_.temper.ttls);
  const bool with_brokers = env_.dice.Chance(0.8) && (env_.settings.guard != FailoverGuard::kNone || is_short);
  for (const Process* broker : brokers_()) {
    if (with_brokers && env_.dice.Chance(0.5)) apart.insert(broker->actor());
  }
  // A replica and a majority of the sentinels stay on the other side.
  for (const auto& server : servers_) {
    if (server.get() == &primary() || !env_.dice.Chance(0.3)) continue;
    apart.insert(server->actor());
    break;
  }
  if (env_.dice.Chance(0.5)) apart.insert(AnySentinel().actor());
  CutOffAll(apart, time);
}

void ReplicaSet::CutOffAlone(Duration time) {
  CutOffAll({primary().actor(), env_.dice.Pick(brokers_())->actor()}, time);
}

void ReplicaSet::CutOffAll(const std::set<int32_t>& apart, Duration time) {
  std::vector<Process*> all = brokers_();
  for (const auto& server : servers_) all.push_back(server.get());
  for (const auto& sentinel : sentinels_) all.push_back(sentinel.get());
  CutOff(env_, apart, all, time);
}

void ReplicaSet::RestartPrimary(Memory memory) {
  if (failing_ || !primary().alive()) return;
  const Duration down = env_.dice.Between(milliseconds(1), milliseconds(800));
  primary().Restart(down, memory);
  NotePromoted(down + hold_off() + primary().StaleWaits() + seconds(5));
}

void ReplicaSet::RestartSoon(ReplicaServer& promoted) {
  const Duration within = env_.temper.restarts_within > Duration(0) ? env_.temper.restarts_within : hold_off();
  env_.time.After(env_.dice.Between(Duration(0), within), [this, &promoted] {
    if (env_.trouble && &promoted == &primary()) RestartPrimary(promoted.AnyMemory());
  });
}

// ---- The sentinels ----

ReplicaServer* ReplicaSet::Candidate() {
  std::vector<ReplicaServer*> fit;
  for (const auto& server : servers_) {
    if (server.get() == &primary() || server->leads() || !server->running() || !server->has_copy()) continue;
    if (!CutAway(env_, *server)) fit.push_back(server.get());
  }
  if (fit.empty()) return nullptr;
  // Sentinels go by what they saw last, and by priorities, so it is not always the one with the newest data.
  if (env_.dice.Chance(0.4)) return env_.dice.Pick(fit);
  return *std::max_element(fit.begin(), fit.end(),
                           [](const auto* a, const auto* b) { return a->offset() < b->offset(); });
}

void ReplicaSet::Promote(Duration old_primary_lives) {
  ReplicaServer* const next = Candidate();
  if (next == nullptr) {
    if (++attempts_ > 20) failing_ = false;
    if (failing_) env_.time.After(milliseconds(500), [this, old_primary_lives] { Promote(old_primary_lives); });
    return;
  }
  ReplicaServer& old = primary();
  env_.Log([&] { return next->name() + " is promoted"; });
  primary_ = static_cast<int>(
      std::find_if(servers_.begin(), servers_.end(), [&](const auto& one) { return one.get() == next; }) -
      servers_.begin());
  ++epoch_;
  NotePromoted(std::max(Duration(0), env_.apart_until - env_.now()) + kLongestDemotion + seconds(20) + hold_off() +
               next->StaleWaits(old) + seconds(5));
  next->Promote();
  TellSentinels();
  env_.time.After(env_.dice.Between(Duration(0), env_.temper.longest_news), [this] { LeadName(); });
  if (env_.dice.Chance(env_.temper.restarts)) RestartSoon(*next);
  for (const auto& server : servers_) {
    if (server.get() == next) continue;
    DemoteLater(*server,
                server.get() == &old ? old_primary_lives : env_.dice.Between(Duration(0), env_.temper.longest_news));
  }
  env_.time.After(env_.temper.longest_news, [this] { failing_ = false; });
}

void ReplicaSet::TellSentinels() {
  for (const auto& sentinel : sentinels_) {
    TellLater(*sentinel, env_.dice.Between(Duration(0), env_.temper.longest_news));
  }
}

// Sentinels tell each other, also one that was away.
void ReplicaSet::TellLater(SentinelProcess& sentinel, Duration after) {
  env_.time.After(after, [this, &sentinel] {
    // A cut may heal before its time.
    if (!sentinel.running() || CutAway(env_, sentinel)) return TellLater(sentinel, milliseconds(500));
    sentinel.Tell(primary().host(), ReplicaServer::kPort, epoch_);
  });
}

void ReplicaSet::DemoteLater(ReplicaServer& server, Duration after) {
  env_.time.After(after, [this, &server] {
    if (&server == &primary()) return;
    if (!server.running() || CutAway(env_, server)) return DemoteOnceReached(server);
    // Sentinels end the connections of a server's clients when they demote it; an administrator may not.
    server.Follow(primary(), env_.dice.Chance(0.8));
  });
}

// Sentinels wait some 8 s before they demote a primary that has come back. Without a guard nothing bounds that on which
// locks could rely, nor behind one name, as in LosePrimary.
void ReplicaSet::DemoteOnceReached(ReplicaServer& server) {
  env_.time.After(milliseconds(200), [this, &server] {
    if (!server.running() || CutAway(env_, server)) return DemoteOnceReached(server);
    const bool is_soon = env_.settings.guard == FailoverGuard::kNone || env_.temper.name_moves;
    DemoteLater(server, env_.dice.Between(Duration(0), is_soon ? milliseconds(1) : kLongestDemotion));
  });
}

void ReplicaSet::Heal() { env_.apart_until = env_.now(); }

void ReplicaSet::NotePromoted(Duration lasts) { env_.NoteFault(FaultKind::kPromoted, primary().actor(), lasts); }

}  // namespace distlock::sim
