// SPDX-License-Identifier: Apache-2.0
// Rows of a quorum of independent servers, beside one server that is reached in the same way.
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/broker_load.h"
#include "bench/handoff.h"
#include "bench/rows.h"

namespace distlock::bench {
namespace {

using Kind = Comparison::Kind;

struct Servers {
  size_t count;
  bool one_stopped;
  const char* lone_must;  // p50 against one server
  const char* hot_must;
};

constexpr Servers kAll[] = {
    {1, false, "", ""}, {3, false, "1.4", "1.5"}, {5, false, "1.8", "2.0"}, {3, true, "1.4", "1.5"}};

std::string NameOf(const Servers& servers) {
  if (servers.count == 1) return "one server";
  return std::to_string(servers.count) + " servers" + (servers.one_stopped ? ", one of them stopped" : "");
}

template <typename Run>
Case At(const Servers& servers, Run run) {
  return {NameOf(servers), [=](Lab& usual) -> Sample {
            try {
              return run(usual.Quorum(servers.count, servers.one_stopped));
            } catch (const std::runtime_error& e) {
              return {{}, e.what()};
            }
          }};
}

constexpr const char* kNote =
    "All servers over TCP. CPU columns are microseconds per pair or grant; redis CPU is that of the first server.";

Section Lone(const Setup& setup) {
  Section section{"quorum-lone",
                  "A quorum of independent servers: a lone client, one operation in flight",
                  {"pairs/s", "op p50 µs", "op p99 µs", "client CPU", "daemon CPU", "redis CPU"},
                  {},
                  {},
                  kNote};
  for (const Servers& servers : kAll) {
    if (setup.size.smoke && servers.count == 5) continue;
    section.cases.push_back(At(servers, [](Lab& lab) {
      const auto load = BrokerSessions(lab.broker(0).target(), 1, 1);
      return Measure(lab, *load, true);
    }));
    if (servers.count == 1) continue;
    section.comparisons.push_back({"p50 of " + NameOf(servers) + " against one", Kind::kRatio, NameOf(servers),
                                   NameOf(kAll[0]), "op p50 µs", servers.lone_must, ""});
    section.comparisons.push_back({"p99 of " + NameOf(servers) + " against one", Kind::kRatio, NameOf(servers),
                                   NameOf(kAll[0]), "op p99 µs", "", ""});
  }
  return section;
}

Section Hot(const Setup& setup) {
  Section section{"quorum-hot",
                  "A quorum of independent servers: hot hand-off among 50 parties through two brokers",
                  {"p50 µs", "p99 µs", "grants/s", "least/most", "client CPU", "daemon CPU", "redis CPU"},
                  {},
                  {},
                  kNote};
  for (const Servers& servers : kAll) {
    if (setup.size.smoke && (servers.count == 5 || servers.one_stopped)) continue;
    section.cases.push_back(At(servers, [parties = setup.size.smoke ? size_t{4} : size_t{50}](Lab& lab) {
      return HotHandoff(lab, parties, 2);
    }));
    if (servers.count == 1) continue;
    section.comparisons.push_back({"p50 of " + NameOf(servers) + " against one", Kind::kRatio, NameOf(servers),
                                   NameOf(kAll[0]), "p50 µs", servers.hot_must, ""});
  }
  return section;
}

Section Queue(const Setup& setup) {
  Section section{"quorum-queue",
                  "A quorum of independent servers: 50 waiters hold 1 ms each",
                  {"makespan ms", "slowest ms"},
                  {},
                  {},
                  "A perfect queue needs 50 ms. Goal: 80."};
  for (const Servers& servers : kAll) {
    if (setup.size.smoke && servers.count != 3) continue;
    section.cases.push_back(At(servers, [](Lab& lab) { return OneShotQueue(lab); }));
  }
  return section;
}

}  // namespace

std::vector<Section> QuorumSections(const Setup& setup) {
  if (setup.store_delay_us > 0) return {};  // the proxy stands in front of the first server only
  return {Lone(setup), Hot(setup), Queue(setup)};
}

}  // namespace distlock::bench
