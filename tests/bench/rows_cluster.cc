// SPDX-License-Identifier: Apache-2.0
// Rows of a Cluster of three primaries, beside one server that is reached in the same way.
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/broker_load.h"
#include "bench/handoff.h"
#include "bench/rows.h"

namespace distlock::bench {
namespace {

using Kind = Comparison::Kind;

constexpr const char* kOne = "one server";
constexpr const char* kCluster = "a Cluster of 3";
constexpr const char* kNoChannels = "a Cluster of 3 without channels of shards";

// The same case on another Lab than the usual one.
template <typename Run>
std::function<Sample(Lab&)> At(Lab& (*choose)(Lab&), Run run) {
  return [=](Lab& usual) -> Sample {
    try {
      return run(choose(usual));
    } catch (const std::runtime_error& e) {
      return {{}, e.what()};
    }
  };
}

template <typename Run>
std::vector<Case> OnBoth(Run run) {
  return {{kOne, At([](Lab& usual) -> Lab& { return usual.Quorum(1); }, run)},
          {kCluster, At([](Lab& usual) -> Lab& { return usual.Cluster(); }, run)}};
}

}  // namespace

std::vector<Section> ClusterSections(const Setup& setup) {
  if (setup.store_delay_us > 0) return {};  // the proxy stands in front of the first server only
  constexpr const char* kNote =
      "All servers over TCP. CPU columns are microseconds per pair or grant; redis CPU is that of all servers "
      "together.";
  Section lone{"cluster-lone",
               "A Cluster: a lone client, one operation in flight",
               {"pairs/s", "op p50 µs", "op p99 µs", "client CPU", "daemon CPU", "redis CPU"},
               OnBoth([](Lab& lab) {
                 const auto load = BrokerSessions(lab.broker(0).target(), 1, 1);
                 return Measure(lab, *load, true);
               }),
               {{"p50 of a Cluster against one server", Kind::kRatio, kCluster, kOne, "op p50 µs", "1.10", ""}},
               kNote};
  Section many{"cluster-many",
               "A Cluster: one session with 256 operations in flight",
               {"pairs/s", "op p50 µs", "op p99 µs", "client CPU", "daemon CPU", "redis CPU"},
               OnBoth([](Lab& lab) {
                 const auto load = BrokerSessions(lab.broker(0).target(), 1, 256);
                 return Measure(lab, *load, true);
               }),
               {{"pairs/s of a Cluster against one server", Kind::kRatio, kCluster, kOne, "pairs/s", "", ""}},
               kNote};
  constexpr auto kHotHandoff = [](Lab& lab) { return HotHandoff(lab, 2, 2); };
  Section hot{"cluster-hot",
              "A Cluster: hot hand-off among parties through two brokers",
              {"p50 µs", "p99 µs", "grants/s", "least/most", "client CPU", "daemon CPU", "redis CPU"},
              OnBoth(kHotHandoff),
              {{"p50 of a Cluster beyond one server, µs", Kind::kDifference, kCluster, kOne, "p50 µs", "10", ""},
               {"and of one without channels of shards, µs", Kind::kDifference, kNoChannels, kOne, "p50 µs", "", ""}},
              std::string("Two parties. ") + kNote};
  for (Section* const section : {&lone, &many}) section->floors = {{kCluster, kOne, "pairs/s", ""}};
  hot.floors = {{kCluster, kOne, "p50 µs", ""}, {kNoChannels, kOne, "p50 µs", ""}};
  hot.cases.push_back({kNoChannels, At([](Lab& usual) -> Lab& { return usual.Cluster(false); }, kHotHandoff)});
  return {lone, many, hot};
}

}  // namespace distlock::bench
