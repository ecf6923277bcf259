// SPDX-License-Identifier: Apache-2.0
#include "model_world.h"

#include <utility>
#include <vector>

#include "redis/redis_model.h"
#include "store/sentinel/sentinel_store.h"
#include "store/single/single_store.h"
#include "world/network.h"
#include "world/replica_set.h"

namespace distlock::store {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kSeed = 1;
constexpr core::Duration kPatience = seconds(20);
constexpr const char* kHost = "store";
// No connection has it.
constexpr int kAdministrator = 1'000'000;

// Where a broker runs: a clock and connections, without a core.
class Host : public sim::Process {
 public:
  Host(sim::Env& env, std::string name) : Process(env, sim::Actor::Kind::kBroker, std::move(name)) { Live(); }
};

class ModelWorld : public StoreWorld {
 public:
  explicit ModelWorld(bool with_sentinels) {
    // Messages take some time, so that answers do not come in the instant of the question.
    env_.temper.shortest_delay = microseconds(50);
    env_.temper.usual_delay = milliseconds(1);
    env_.temper.ttls = {seconds(15)};
    if (with_sentinels) {
      replica_set_ = std::make_unique<sim::ReplicaSet>(env_, directory_, [] { return std::vector<sim::Process*>(); });
    } else {
      server_ = std::make_unique<sim::StoreProcess>(env_, 1);
      directory_.Lead(kHost, *server_);
    }
  }
  ~ModelWorld() override { EXPECT_EQ(env_.failure, ""); }

  std::unique_ptr<Store> MakeStore(const LockOptions& locks) override {
    sim::Process& host = *hosts_.emplace_back(std::make_unique<Host>(env_, locks.broker_id));
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
    options.url.address.host = kHost;
    return std::make_unique<SingleStore>(network, options);
  }

  // One event at a time: done() may itself run the world.
  bool RunUntil(const std::function<bool()>& done) override {
    const core::Instant end = env_.now() + kPatience;
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
    server().Sync();
    const ReplyPtr reply = server().model().Execute(kAdministrator, argv);
    server().Sync();
    return reply->type == REDIS_REPLY_INTEGER ? Cat(reply->integer) : std::string(Text(*reply));
  }
  void HangUp() override { server().HangUp(milliseconds(1)); }

 private:
  sim::StoreProcess& server() { return replica_set_ != nullptr ? replica_set_->primary() : *server_; }

  sim::Env env_{kSeed, false};
  sim::Directory directory_;
  std::unique_ptr<sim::StoreProcess> server_;  // null with a replica set
  std::unique_ptr<sim::ReplicaSet> replica_set_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace

std::unique_ptr<StoreWorld> MakeModelWorld() { return std::make_unique<ModelWorld>(false); }
std::unique_ptr<StoreWorld> MakeSentinelModelWorld() { return std::make_unique<ModelWorld>(true); }

}  // namespace distlock::store
