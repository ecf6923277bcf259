// SPDX-License-Identifier: Apache-2.0
//
// The store of a Cluster passes the suite, on each kind of server. All cases of a kind share one Cluster of real
// servers.
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster_servers.h"
#include "conformance.h"
#include "redis/installed_servers.h"
#include "store/text.h"

namespace distlock::store {
namespace {

class ClusterWorld : public StoreWorld {
 public:
  explicit ClusterWorld(const std::string& binary) : servers_(ServersOf(binary)) { servers_.Clean(); }
  ~ClusterWorld() override {
    if (!testing::Test::HasFailure()) return;
    for (const std::string& problem : problems_) ADD_FAILURE() << problem;
  }

  std::unique_ptr<Store> MakeStore(const LockOptions& locks) override {
    StoreOptions options;
    options.url = servers_.Url();
    options.locks = locks;
    options.on_problem = [this](const absl::Status& why) { problems_.emplace_back(why.ToString()); };
    return OpenStore(loop_.get(), options);
  }
  bool RunUntil(const std::function<bool()>& done) override { return loop_.RunUntil(done); }
  void Advance(core::Duration time) override {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) loop_.Turn();
  }
  // At every node; the answer of the first that does not send it to another.
  std::string Command(std::initializer_list<std::string_view> argv) override {
    std::string answer = "(no node)";
    for (int node = ClusterServers::kNodes - 1; node >= 0; --node) {
      const std::string one = servers_.admin(node).Str(argv);
      if (!one.starts_with("MOVED")) answer = one;
    }
    return answer;
  }
  void HangUp() override {
    for (int node = 0; node < ClusterServers::kNodes; ++node) {
      servers_.admin(node).Do({"CLIENT", "KILL", "TYPE", "normal"});
      servers_.admin(node).Do({"CLIENT", "KILL", "TYPE", "pubsub"});
    }
  }

 private:
  // Made by the first case that needs it, gone with the program.
  static ClusterServers& ServersOf(const std::string& binary) {
    static std::map<std::string, std::unique_ptr<ClusterServers>> all;
    auto& servers = all[binary];
    if (!servers) servers = std::make_unique<ClusterServers>(binary);
    return *servers;
  }

  ClusterServers& servers_;
  std::vector<std::string> problems_;
  TestLoop loop_;
};

std::vector<StoreKind> Kinds() {
  std::vector<StoreKind> kinds;
  for (const std::string& binary : sim::InstalledServers()) {
    for (const bool in_company : {false, true}) {
      kinds.push_back({Cat(sim::KindOfServer(binary), in_company ? "InCompany" : ""),
                       {.one_server = false},
                       [binary] { return std::make_unique<ClusterWorld>(binary); },
                       in_company});
    }
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Cluster, StoreConformance, testing::ValuesIn(Kinds()), NameOf);
INSTANTIATE_TEST_SUITE_P(Cluster, StoreConformanceOfPermits, testing::ValuesIn(Kinds()), NameOf);
INSTANTIATE_TEST_SUITE_P(Cluster, StoreConformanceOfPrimaries, testing::ValuesIn(Kinds()), NameOf);
// Several locks in one command are what a Cluster cannot do, and half a minute takes half a minute here.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreConformanceOfOneServer);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreConformanceOverTime);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreConformanceOfPrimariesOverTime);

}  // namespace
}  // namespace distlock::store
