// SPDX-License-Identifier: Apache-2.0
#include "simulation/simulation.h"

#include "history/check.h"
#include "simulation/detached_client.h"
#include "simulation/faults.h"
#include "simulation/hold_client.h"
#include "simulation/library_client.h"
#include "simulation/session_client.h"

namespace distlock::sim {
namespace {

constexpr Duration kLongestLate = seconds(20);  // until the last message that a fault delays has arrived
constexpr Duration kPatience = seconds(600);    // until every client must have been served
constexpr Duration kQuietTime = seconds(75);    // until everything that may stay for a while must have ended
constexpr Duration kNewsTime = seconds(1);      // until a watcher must know of a change

}  // namespace

Simulation::Simulation(uint64_t seed, const SimulationWishes& wishes, bool with_log) : env_(seed, with_log) {
  env_.temper = DrawTemper(seed, env_.dice, wishes);
  env_.settings = {.longest_ttl = longest_ttl(), .guard = env_.temper.guard};
  env_.history.calm = env_.temper.calm;
  env_.history.start_ns = Duration(milliseconds(300)).count();
  env_.history.validity_ns = env_.temper.validity.count();
  for (const Duration ttl : env_.temper.ttls) {
    env_.history.longest_ttl_ns = std::max(env_.history.longest_ttl_ns, (ttl + seconds(3)).count());
  }
  for (int i = 0; i < env_.temper.locks; ++i) env_.history.locks.emplace_back(1, static_cast<char>('a' + i));
  env_.Log([&] {
    constexpr const char* kKept[] = {"nothing", "all but the last second", "always all",
                                     "always all, unless a rewrite is under way"};
    return std::string("of servers' writes their disks keep ") + kKept[static_cast<size_t>(env_.temper.persistence)] +
           "; guard " + std::to_string(static_cast<int>(env_.temper.guard)) +
           (env_.temper.name_moves ? "; the store's name moves" : "");
  });
  MakeStores();
  for (int i = 0; i < env_.temper.brokers; ++i) {
    brokers_.push_back(std::make_unique<BrokerProcess>(env_, i, directory_, StoreAddresses()));
  }
  MakeClients();
  MakeWatchers();
  MakeLookers();
}

void Simulation::MakeStores() {
  observer_ = std::make_unique<StoreObserver>(env_);
  if (env_.temper.topology == Topology::kSentinel || env_.temper.name_moves) {
    replica_set_ = std::make_unique<ReplicaSet>(env_, directory_, [this] { return Brokers(); });
    return;
  }
  if (env_.temper.topology == Topology::kCluster) return MakeCluster();
  if (of_quorum()) return MakeQuorum();
  if (env_.temper.hold_off) return MakeForgetful();
  const int count = 1 + (env_.temper.calm ? 0 : env_.temper.replicas);
  for (int i = 0; i < count; ++i) {
    stores_.push_back(std::make_unique<StoreProcess>(env_, i));
    stores_.back()->AfterCall([this, i] {
      if (static_cast<size_t>(i) == primary_) observer_->Look();
    });
  }
  observer_->Watch(primary());
  directory_.Lead(BrokerProcess::kStoreHost, primary());
  for (size_t i = 1; i < stores_.size(); ++i) AddReplica(i);
}

std::vector<BrokerProcess*> Simulation::LiveBrokers() const {
  std::vector<BrokerProcess*> live;
  for (const auto& broker : brokers_) {
    if (broker->alive()) live.push_back(broker.get());
  }
  return live;
}

// A forgetful store is judged without any excuse, so it is not observed.
void Simulation::MakeForgetful() {
  stores_.push_back(std::make_unique<StoreProcess>(env_, 0));
  directory_.Lead(BrokerProcess::kStoreHost, primary());
  NoteHoldOff(Duration(0));
}

void Simulation::RestartHeldOff(Memory memory, Duration down) {
  primary().Restart(down, memory);
  NoteHoldOff(down + primary().StaleWaits());
}

bool Simulation::HasOnePrimary() const {
  if (replica_set_ != nullptr) return replica_set_->IsSettled();
  return cluster_failover_ == nullptr || cluster_failover_->IsSettled();
}

std::vector<StoreProcess*> Simulation::AllServers() const {
  std::vector<StoreProcess*> all;
  for (const auto& server : stores_) all.push_back(server.get());
  if (replica_set_ != nullptr) {
    for (const auto& server : replica_set_->servers()) all.push_back(server.get());
  }
  if (cluster_set_ != nullptr) {
    for (const auto& node : cluster_set_->nodes()) all.push_back(node.get());
  }
  return all;
}

// The server is away for so long, and may have forgotten all when it is back.
void Simulation::NoteHoldOff(Duration down) {
  constexpr Duration kReconnect = seconds(5);
  env_.NoteFault(FaultKind::kPromoted, primary().actor(),
                 down + std::max(longest_ttl(), env_.settings.fixed_hold_off) + kReconnect);
}

std::vector<Process*> Simulation::Brokers() const {
  std::vector<Process*> brokers;
  for (const auto& broker : brokers_) brokers.push_back(broker.get());
  return brokers;
}

void Simulation::MakeCluster() {
  const bool fails = env_.temper.failing_nodes;
  cluster_set_ = std::make_unique<ClusterSet>(env_, directory_, [this, fails] {
    if (!fails) observer_->SeeMoves();
  });
  // Then two primaries of a lock may be at work.
  if (fails) {
    cluster_failover_ = std::make_unique<ClusterFailover>(env_, *cluster_set_, [this] { return Brokers(); });
    return;
  }
  std::vector<StoreProcess*> nodes;
  for (const auto& node : cluster_set_->nodes()) {
    nodes.push_back(node.get());
    node->AfterCall([this] { observer_->Look(); });
  }
  observer_->WatchAll(
      nodes, [this](int32_t lock) { return cluster_set_->NodeOf(env_.history.locks[static_cast<size_t>(lock)]); });
}

std::vector<store::ServerAddress> Simulation::StoreAddresses() const {
  if (env_.temper.topology == Topology::kSentinel) return replica_set_->SentinelAddresses();
  if (cluster_set_ != nullptr) return cluster_set_->Seeds();
  std::vector<store::ServerAddress> addresses;
  for (size_t i = 0; of_quorum() && i < stores_.size(); ++i) {
    addresses.push_back({.host = "server" + std::to_string(i), .path = ""});
  }
  return addresses;
}

void Simulation::AddReplica(size_t index) {
  primary().ReplicateTo(stores_[index].get(), dice().Pick<Duration>({milliseconds(1), milliseconds(20), seconds(2)}));
}

void Simulation::MakeClients() {
  data_ = std::make_unique<FencedRegister>(env_.history.locks.size());
  for (int i = 0; i < env_.temper.clients; ++i) clients_.push_back(MakeClient(i));
}

std::unique_ptr<ClientProcess> Simulation::MakeClient(int number) {
  const Neighbours neighbours{&brokers_, data_.get()};
  Workload workload = env_.temper.workload;
  if (workload == Workload::kMixed) {
    workload = dice().Pick<Workload>({Workload::kMutex, Workload::kMutex, Workload::kDetached, Workload::kHold});
  }
  if (workload == Workload::kDetached) return std::make_unique<DetachedClient>(env_, number, neighbours);
  if (workload == Workload::kHold) return std::make_unique<HoldClient>(env_, number, neighbours);
  if (dice().Chance(env_.temper.elsewhere > 0 ? 0.8 : 0.2))
    return std::make_unique<SessionClient>(env_, number, neighbours);
  return std::make_unique<LibraryClient>(env_, number, neighbours);
}

void Simulation::MakeWatchers() {
  for (int i = dice().Roll(3); i > 0; --i) watchers_.push_back(std::make_unique<Watcher>(env_, i, brokers_));
  observer_->OnSight([this](int32_t lock) {
    env_.time.After(kNewsTime,
                    [this, lock, since = observer_->SightOf(lock).since] { CheckWatchers(lock, since, kNewsTime); });
  });
}

void Simulation::MakeLookers() {
  env_.history.slots_move = cluster_set_ != nullptr;
  env_.history.silent_minority = env_.temper.minority;
  for (int i = 0; i < env_.temper.lookers; ++i) lookers_.push_back(std::make_unique<Looker>(env_, i, brokers_));
}

// A change after `since`, or a very recent one, need not have been reported yet.
void Simulation::CheckWatchers(int32_t lock, Instant since, Duration due) {
  const StoreObserver::Sight& sight = observer_->SightOf(lock);
  const bool is_one_store = replica_set_ == nullptr && cluster_set_ == nullptr && !of_quorum() && !env_.temper.hold_off;
  if (!is_one_store || !told_in_time_ || sight.since != since || since > env_.now() - due) return;
  for (const auto& watcher : watchers_) {
    if (watcher->lock() != lock || watcher->begun() > env_.now() - kNewsTime) continue;
    const std::string wrong = watcher->Wrong(sight);
    if (!wrong.empty()) env_.Fail(wrong);
  }
}

// ---- Faults ----

void Simulation::CauseFaults() {
  if (!env_.trouble || env_.temper.faults.empty()) return;
  env_.time.After(dice().Between(Duration(0), 2 * env_.temper.fault_every), [this] {
    if (!env_.trouble) return;
    const Fault& fault = Faults()[static_cast<size_t>(dice().Pick(env_.temper.faults))];
    env_.Log([&] { return std::string("FAULT ") + fault.name; });
    fault.cause(*this);
    CauseFaults();
  });
}

// An administrator who takes locks from their holders, through any broker.
void Simulation::Administer() {
  if (!env_.acting || env_.temper.force_every == Duration(0)) return;
  env_.time.After(dice().Between(Duration(0), 2 * env_.temper.force_every), [this] {
    if (!env_.acting) return;
    BrokerProcess& broker = AnyBroker();
    if (broker.alive()) {
      if (auto force = of_quorum() ? ForceAtQuorum() : observer_->Force()) {
        force->request = ++forces_;
        broker.Force(*std::move(force));
      }
    }
    Administer();
  });
}

void Simulation::For(Duration lasts, std::function<void()> undo) {
  auto shared = std::make_shared<std::function<void()>>(std::move(undo));
  undo_.push_back(shared);
  env_.time.After(lasts, [shared] {
    if (*shared) std::exchange(*shared, nullptr)();
  });
}

WirePtr Simulation::AnyWire() {
  std::vector<WirePtr> all;
  for (const auto& broker : brokers_) {
    for (const WirePtr& wire : broker->Wires()) all.push_back(wire);
  }
  return all.empty() ? nullptr : dice().Pick(all);
}

bool Simulation::FailOver() {
  const size_t next = primary_ + 1;
  if (next >= stores_.size() || !stores_[next]->alive()) return false;
  StoreProcess& old = primary();
  // Until then the address leads to the old server, which is a replica.
  const Duration lag = dice().Chance(0.7) ? Duration(0) : dice().Between(Duration(0), seconds(3));
  env_.NoteFault(FaultKind::kFailover, old.actor(), lag + seconds(1));
  observer_->Forget();
  old.StopReplicating();
  old.model().BecomeReplica();
  // The old server may go on answering on present connections, for a while or for ever: it refuses writes, and its
  // subscribers wait for messages that go to another server.
  const int hang_up = dice().Roll(10);
  if (hang_up < 7) {
    For(hang_up < 4 ? Duration(0) : dice().Between(Duration(0), seconds(10)), [&old] { old.HangUp(seconds(1)); });
  }
  primary_ = next;
  primary().model().Promote();
  primary().Sync();
  For(lag, [this] { directory_.Lead(BrokerProcess::kStoreHost, primary()); });
  observer_->Watch(primary());
  for (size_t i = next + 1; i < stores_.size(); ++i) AddReplica(i);
  return true;
}

void Simulation::Heal() {
  env_.Log([] { return std::string("ALL HEALS"); });
  env_.trouble = false;
  env_.acting = false;
  for (const auto& undo : undo_) {
    if (*undo) std::exchange(*undo, nullptr)();
  }
  if (replica_set_ != nullptr) replica_set_->Heal();
  if (cluster_set_ != nullptr) cluster_set_->Heal();
  if (cluster_failover_ != nullptr) cluster_failover_->Heal();
  // Waits until paused processes run, slow messages have arrived, and broken connections are noticed.
  if (!env_.temper.calm) {
    RunUntil(std::max<Duration>(kLongestLate, env_.all_run_at - env_.now()) + seconds(10), false);
  }
  env_.Note({.kind = RecordKind::kHealed});
}

// ---- The course of the simulation ----

bool Simulation::Idle() const {
  for (const auto& client : clients_) {
    if (!client->idle()) return false;
  }
  return true;
}

std::string Simulation::Waiting() const {
  for (const auto& client : clients_) {
    if (!client->idle()) return client->Waiting();
  }
  return "";
}

void Simulation::RunUntil(Duration longest, bool until_idle) {
  env_.time.Run(env_.now() + longest, [&] { return !env_.failure.empty() || (until_idle && Idle()); });
}

Outcome Simulation::Run() {
  env_.acting = true;
  env_.trouble = !env_.temper.calm;
  told_in_time_ = env_.temper.calm;
  if (env_.temper.slow > 0) env_.NoteFault(FaultKind::kLinkSlow, -1, env_.temper.busy_time + env_.temper.slowest_delay);
  if (env_.temper.notice_lag > Duration(0)) {
    env_.NoteFault(FaultKind::kChannelLost, -1, env_.temper.busy_time + env_.temper.notice_lag);
  }
  for (auto& broker : brokers_) broker->Start();
  for (auto& client : clients_) client->Start();
  for (auto& watcher : watchers_) watcher->Start();
  for (auto& looker : lookers_) looker->Start();
  if (env_.temper.slow > 0) env_.NoteFault(FaultKind::kLinkSlow, -1, env_.temper.busy_time + env_.temper.slowest_delay);
  CauseFaults();
  Administer();
  if (of_quorum() && (env_.temper.calm || env_.temper.minority)) CheckStrays();
  RunUntil(env_.temper.busy_time, false);
  Heal();
  RunUntil(kPatience, true);
  if (env_.failure.empty() && !Idle()) env_.Fail("somebody waits for ever: " + Waiting());
  if (env_.failure.empty()) {
    RunUntil(seconds(15), false);
    for (const auto& broker : brokers_) {
      const std::string unanswered = broker->front().Unanswered();
      if (!unanswered.empty()) env_.Fail("never answered: " + unanswered);
    }
    told_in_time_ = true;
    // No notice reports a queue that expires with its dead broker; the broker finds it when it renews the watch.
    const Duration due = env_.temper.queue_slot / 3 + kNewsTime;
    for (size_t lock = 0; lock < env_.history.locks.size(); ++lock) {
      const auto index = static_cast<int32_t>(lock);
      CheckWatchers(index, observer_->SightOf(index).since, due);
    }
    for (auto& client : clients_) client->Leave();
    for (auto& watcher : watchers_) watcher->Leave();
    for (auto& looker : lookers_) looker->Leave();
    RunUntil(kQuietTime, false);
    env_.Note({.kind = RecordKind::kQuiet});
    ExpectNothingLeft();
  }
  if (env_.temper.minority) ExpectServed();
  if (of_quorum()) {
    const std::string without = vote_log_.FirstWithout(stores_.size() / 2 + 1, env_.history);
    if (!without.empty()) env_.Fail(without);
  }
  Outcome outcome{.hash = env_.hash(),
                  .events = env_.time.events_run(),
                  .records = env_.history.records.size(),
                  .lasted = env_.now() - kDawn,
                  .violations = {}};
  if (!env_.failure.empty()) outcome.violations.push_back(env_.failure);
  for (const Violation& violation : CheckAll(env_.history)) {
    outcome.violations.push_back(violation.invariant + ": " + violation.story);
  }
  return outcome;
}

void Simulation::Left(const std::string& what, size_t count) {
  if (count == 0) return;
  env_.history.notes.push_back(what);
  env_.Note({.kind = RecordKind::kLeft,
             .value = static_cast<int64_t>(count),
             .note = static_cast<int32_t>(env_.history.notes.size()) - 1});
}

void Simulation::ExpectNothingLeft() {
  for (const auto& broker : brokers_) {
    if (!broker->alive()) continue;
    const core::BrokerStats stats = broker->Stats();
    Left("sessions in " + broker->name(), stats.sessions);
    Left("leases in " + broker->name(), stats.leases);
    Left("waiters in " + broker->name(), stats.waiters);
    Left("give-backs in " + broker->name(), stats.pending_releases);
    Left("queues in " + broker->name(), stats.queues);
    Left("watches in " + broker->name(), stats.watches);
    Left("store commands in " + broker->name(), stats.ops);
    Left("timers in " + broker->name(), stats.timers);
  }
  if (cluster_set_ != nullptr) {
    for (ClusterNode* const node : cluster_set_->primaries()) {
      node->Sync();
      for (const std::string& key : StoreObserver::Leftovers(node->model())) Left("key " + key, 1);
    }
    return;
  }
  if (of_quorum()) {
    for (const auto& server : stores_) {
      server->Sync();
      for (const std::string& key : StoreObserver::Leftovers(server->model())) Left("key " + key, 1);
    }
    return;
  }
  primary().Sync();
  for (const std::string& key : StoreObserver::Leftovers(primary().model())) Left("key " + key, 1);
}

}  // namespace distlock::sim
