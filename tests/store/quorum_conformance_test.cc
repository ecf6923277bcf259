// SPDX-License-Identifier: Apache-2.0
//
// The store of several independent servers passes the suite on three real servers of each kind. All cases of a kind
// share them.
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "conformance.h"
#include "redis/installed_servers.h"
#include "store/redlock/redlock_store.h"
#include "store/text.h"

namespace distlock::store {
namespace {

constexpr size_t kServers = 3;

using Servers = std::array<std::unique_ptr<EmbeddedServer>, kServers>;

class QuorumWorld : public StoreWorld {
 public:
  explicit QuorumWorld(const std::string& binary) : servers_(ServersOf(binary)) { QuorumWorld::Command({"FLUSHALL"}); }
  ~QuorumWorld() override {
    if (!testing::Test::HasFailure()) return;
    for (const std::string& problem : problems_) ADD_FAILURE() << problem;
  }

  std::unique_ptr<Store> MakeStore(const LockOptions& locks) override {
    StoreOptions options;
    options.url.topology = StoreUrl::Topology::kQuorum;
    for (const auto& server : servers_) options.url.servers.push_back(server->Url().address);
    options.locks = locks;
    // A machine that is busy with other tests is no silent server.
    options.node_timeout = std::chrono::seconds(5);
    options.on_problem = [this](const absl::Status& why) { problems_.emplace_back(why.ToString()); };
    return OpenStore(loop_.get(), options);
  }
  bool IsReady(const Store& store) override { return Quorum(store).AllServersAreUp(); }
  bool IsSettled(const Store& store) override { return Quorum(store).in_flight() == 0; }
  bool RunUntil(const std::function<bool()>& done) override { return loop_.RunUntil(done); }
  void Advance(core::Duration time) override {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) loop_.Turn();
  }
  // At every server; the answer of the first.
  std::string Command(std::initializer_list<std::string_view> argv) override {
    std::string first;
    for (const auto& server : servers_) {
      const std::string answer = Admin(server->Url()).Str(argv);
      if (server == servers_.front()) first = answer;
    }
    return first;
  }
  void HangUp() override {
    Command({"CLIENT", "KILL", "TYPE", "normal"});
    Command({"CLIENT", "KILL", "TYPE", "pubsub"});
  }

 private:
  static const RedlockStore& Quorum(const Store& store) { return dynamic_cast<const RedlockStore&>(store); }

  // Made by the first case that needs them, gone with the program.
  static Servers& ServersOf(const std::string& binary) {
    static std::map<std::string, Servers> all;
    Servers& servers = all[binary];
    for (auto& server : servers) {
      if (!server) server = StartServer("", binary);
    }
    return servers;
  }

  Servers& servers_;
  std::vector<std::string> problems_;
  TestLoop loop_;
};

std::vector<StoreKind> ServerKinds() {
  std::vector<StoreKind> kinds;
  for (const std::string& binary : sim::InstalledServers()) {
    kinds.push_back({sim::KindOfServer(binary),
                     {.one_server = false, .has_permits = false, .is_quorum = true},
                     [binary] { return std::make_unique<QuorumWorld>(binary); }});
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Quorum, StoreConformance, testing::ValuesIn(ServerKinds()), NameOf);
// Several locks in one command, permits, and one server that decides alone are what a quorum has not, and half a minute
// takes half a minute here.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreConformanceOfOneServer);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreConformanceOfPermits);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreConformanceOfPrimaries);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreConformanceOfPrimariesOverTime);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreConformanceOverTime);

}  // namespace
}  // namespace distlock::store
