// SPDX-License-Identifier: Apache-2.0
#include "model_world.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "redis/redis_model.h"
#include "simulation/network.h"
#include "simulation/replica_set.h"
#include "store/redlock/redlock_store.h"
#include "store/sentinel/sentinel_store.h"
#include "store/single/single_store.h"

namespace distlock::store {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr core::Duration kPatience = seconds(20);
constexpr const char* kHost = "store";
// No connection has it.
constexpr int kAdministrator = 1'000'000;

// The usual world; with --gtest_shuffle --gtest_random_seed=N another one, and the next with each --gtest_repeat.
// DISTLOCK_MODEL_LOG=1 tells what happens in it.
uint64_t Seed() {
  // Without the flag its number comes from the time of day.
  if (!GTEST_FLAG_GET(shuffle)) return 1;
  return 1 + static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed());
}
bool WantsLog() { return std::getenv("DISTLOCK_MODEL_LOG") != nullptr; }

// Where a broker runs: a clock and connections, without a core.
class Host : public sim::Process {
 public:
  Host(sim::Env& env, std::string name) : Process(env, sim::Actor::Kind::kBroker, std::move(name)) { Live(); }
};

// One server, or several independent ones.
class ModelWorld : public StoreWorld {
 public:
  explicit ModelWorld(size_t servers, bool with_sentinels = false) {
    // Messages take some time, so that answers do not come in the instant of the question.
    env_.temper.shortest_delay = microseconds(50);
    env_.temper.usual_delay = milliseconds(1);
    env_.temper.ttls = {seconds(15)};
    env_.trouble = true;  // else no connection may lag
    if (with_sentinels) {
      replica_set_ = std::make_unique<sim::ReplicaSet>(env_, directory_, [] { return std::vector<sim::Process*>(); });
      return;
    }
    for (size_t i = 0; i < servers; ++i) {
      servers_.push_back(std::make_unique<sim::StoreProcess>(env_, i + 1));
      directory_.Lead(HostOf(i), *servers_.back());
    }
  }
  ~ModelWorld() override {
    EXPECT_EQ(env_.failure, "");
    for (const std::string& line : env_.log) std::puts(line.c_str());
  }

  std::unique_ptr<Store> MakeStore(const LockOptions& locks) override {
    sim::Process& host = *hosts_.emplace_back(std::make_unique<Host>(env_, locks.broker_id));
    if (env_.seed != 1) {
      lags_[&host] = env_.dice.Pick<core::Duration>({{}, {}, milliseconds(1), milliseconds(5), milliseconds(60)});
    }
    StoreOptions options;
    options.locks = locks;
    options.seed = env_.dice.Next();
    const Network network{.dialer = std::make_shared<sim::SimDialer>(env_, host, directory_),
                          .timers = std::make_shared<sim::SimTimers>(env_, host)};
    if (replica_set_ != nullptr) {
      options.url.sentinels = replica_set_->SentinelAddresses();
      options.url.primary_name = sim::SentinelProcess::kPrimaryName;
      return std::make_unique<SentinelStore>(network, network, options);
    }
    if (servers_.size() == 1) {
      options.url.address.host = HostOf(0);
      return std::make_unique<SingleStore>(network, options);
    }
    options.url.topology = StoreUrl::Topology::kQuorum;
    for (size_t i = 0; i < servers_.size(); ++i) options.url.servers.push_back({.host = HostOf(i), .path = ""});
    return std::make_unique<RedlockStore>(network, options);
  }

  bool IsReady(const Store& store) override {
    const auto* quorum = dynamic_cast<const RedlockStore*>(&store);
    return quorum == nullptr || quorum->AllServersAreUp();
  }
  bool IsSettled(const Store& store) override {
    const auto* quorum = dynamic_cast<const RedlockStore*>(&store);
    return quorum == nullptr || quorum->in_flight() == 0;
  }

  // One event at a time: done() may itself run the world.
  bool RunUntil(const std::function<bool()>& done) override {
    const core::Instant end = env_.now() + kPatience;
    if (servers_.size() > 1) {
      for (const sim::WirePtr& wire : servers_.back()->Wires()) {
        const core::Duration lag = lags_[&wire->end(sim::Wire::kClient)];
        wire->Lag(sim::Wire::kServer, lag);
        wire->Lag(sim::Wire::kClient, lag);
      }
    }
    while (!done()) {
      if (env_.now() >= end) return false;
      env_.time.Run(end, [first = true]() mutable { return !std::exchange(first, false); });
    }
    return true;
  }
  void Advance(core::Duration time) override {
    env_.time.Run(env_.now() + time, [] { return false; });
  }

  std::string Command(std::initializer_list<std::string_view> argv) override {
    std::string first;
    for (sim::StoreProcess* server : Servers()) {
      server->Sync();
      const ReplyPtr reply = server->model().Execute(kAdministrator, argv);
      server->Sync();
      if (!first.empty()) continue;
      first = reply->type == REDIS_REPLY_INTEGER ? Cat(reply->integer) : std::string(Text(*reply));
    }
    return first;
  }
  void HangUp() override {
    for (sim::StoreProcess* server : Servers()) server->HangUp(milliseconds(1));
  }

 private:
  static std::string HostOf(size_t server) { return server == 0 ? kHost : Cat(kHost, server); }
  // Those that take commands.
  std::vector<sim::StoreProcess*> Servers() {
    if (replica_set_ != nullptr) return {&replica_set_->primary()};
    std::vector<sim::StoreProcess*> all;
    for (const auto& server : servers_) all.push_back(server.get());
    return all;
  }

  sim::Env env_{Seed(), WantsLog()};
  std::vector<std::unique_ptr<sim::StoreProcess>> servers_;  // empty with a replica set
  std::map<const sim::Process*, core::Duration> lags_;       // of a broker's connections to the last of several servers
  sim::Directory directory_;
  std::unique_ptr<sim::ReplicaSet> replica_set_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace

std::unique_ptr<StoreWorld> MakeModelWorld(size_t servers) { return std::make_unique<ModelWorld>(servers); }
std::unique_ptr<StoreWorld> MakeSentinelModelWorld() { return std::make_unique<ModelWorld>(0, true); }

}  // namespace distlock::store
