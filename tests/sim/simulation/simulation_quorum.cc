// SPDX-License-Identifier: Apache-2.0
//
// Simulation: what is different in a Quorum simulation.
#include <algorithm>
#include <set>

#include "simulation/simulation.h"
#include "store/redis/script_caller.h"
#include "store/redis/server_identity.h"
#include "store/redlock/ballot/membership.h"
#include "store/redlock/vote_codec.h"

namespace distlock::sim {
namespace {

constexpr Duration kStrayTime = seconds(3);  // until each server of a quorum must know of a release
constexpr Duration kStartTime = seconds(1);  // until each broker has met most servers
constexpr Duration kReconnect = seconds(8);  // until brokers have met a server of a quorum that is well again

}  // namespace

// Servers that nobody has used yet, and that were marked as new, as the start-up check of the first broker does it.
// Nobody observes them: a lock is where most say it is.
void Simulation::MakeQuorum() {
  env_.history.stray_votes = true;
  const auto count = static_cast<size_t>(env_.temper.nodes);
  for (size_t i = 0; i < count; ++i) {
    stores_.push_back(std::make_unique<StoreProcess>(env_, static_cast<int>(i)));
    stores_.back()->StepClock(dice().Between(milliseconds(-40), milliseconds(40)));
    directory_.Lead("server" + std::to_string(i), *stores_.back());
    vote_log_.Watch(*stores_.back());
  }
  well_at_.resize(count);
  std::vector<std::string> texts;
  for (const store::ServerAddress& address : StoreAddresses()) texts.push_back(address.Text());
  const std::string mark = store::ballot::Membership(texts).mark();
  const store::VoteCodec codec({});
  for (const auto& server : stores_) {
    const auto run = [&server](std::string_view bytes) { return server->model().Execute(0, ParseCommand(bytes)); };
    const store::ReplyPtr info = server->model().Execute(0, {"INFO"});
    const std::string identity = store::IdentityOf(store::ServerInfo(store::Text(*info))).DataIdentity();
    run(store::LoadCommand(lua::kRedlockMember));
    run(codec.EncodeMember(mark, store::VoteCodec::MarkHow::kNew, identity));
  }
}

Duration Simulation::longest_ttl() const { return *std::ranges::max_element(env_.temper.ttls); }

StoreProcess* Simulation::Ail(FaultKind kind, Duration lasts) {
  const auto index = static_cast<size_t>(dice().Roll(static_cast<int>(stores_.size())));
  StoreProcess& server = *stores_[index];
  if (!server.alive()) return nullptr;
  if (!env_.temper.minority) {
    env_.NoteFault(kind, server.actor(), lasts + kReconnect);
    return &server;
  }
  // Until then brokers have met it again, and holders that it does not know have been renewed there.
  const auto ill = std::ranges::count_if(well_at_, [this](Instant at) { return at > env_.now(); });
  if (well_at_[index] <= env_.now() && 2 * (ill + 1) > static_cast<std::ptrdiff_t>(stores_.size())) return nullptr;
  well_at_[index] = std::max(well_at_[index], env_.now() + lasts + kReconnect + longest_ttl());
  return &server;
}

std::optional<core::ForceRelease> Simulation::ForceAtQuorum() {
  std::vector<StoreProcess*> servers;
  for (const auto& server : stores_) servers.push_back(server.get());
  return observer_->ForceAtMost(servers);
}

void Simulation::CheckStrays() {
  if (!env_.acting || !env_.failure.empty()) return;
  const std::vector<Record>& records = env_.history.records;
  for (; over_read_ < records.size(); ++over_read_) {
    const Record& record = records[over_read_];
    if (record.kind == RecordKind::kAsked) over_.erase(record.lease);
    if (record.kind == RecordKind::kRefused || record.kind == RecordKind::kReleased) {
      over_.emplace(record.lease, env_.now());
    }
  }
  for (size_t i = 0; i < stores_.size(); ++i) {
    if (well_at_[i] > env_.now() - kStrayTime) continue;
    stores_[i]->Sync();
    for (int32_t lock = 0; lock < env_.temper.locks; ++lock) {
      for (const int64_t lease : observer_->LeasesAt(*stores_[i], lock)) {
        // One that is released through another broker than its own may leave a vote: the limits in
        // server/store/redlock/README.md.
        if (lease < 0 || env_.history.leases[static_cast<size_t>(lease)].detached) continue;
        const auto over = over_.find(lease);
        if (over == over_.end() || over->second > env_.now() - kStrayTime) continue;
        env_.Fail(stores_[i]->name() + " still has a vote for lease " + std::to_string(lease) + ", which was over " +
                  std::to_string((env_.now() - over->second) / milliseconds(1)) + " ms ago");
      }
    }
  }
  env_.time.After(seconds(1), [this] { CheckStrays(); });
}

void Simulation::ExpectServed() {
  std::set<int64_t> forced;  // the refusal may be what its client hears of that
  for (const Record& record : env_.history.records) {
    if (record.kind == RecordKind::kForced) forced.insert(record.lease);
    const bool starting = record.at_ns < kStartTime.count();
    if (record.kind != RecordKind::kRefused || starting || forced.contains(record.lease)) continue;
    // All of a request for several locks hear that one of them was taken by force.
    if (env_.history.leases[static_cast<size_t>(record.lease)].together) continue;
    const auto reason = static_cast<core::RefusalReason>(record.code);
    if (reason == core::RefusalReason::kStoreUnavailable || reason == core::RefusalReason::kQuorumNotReached) {
      return env_.Fail("lease " + std::to_string(record.lease) + " was refused for the store's sake at " +
                       std::to_string(record.at_ns / 1'000'000) + " ms, although most servers were well");
    }
  }
}

}  // namespace distlock::sim
