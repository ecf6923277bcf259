// SPDX-License-Identifier: Apache-2.0
#include "bench/rows.h"

#include "bench/broker_load.h"
#include "bench/direct.h"
#include "bench/handoff.h"
#include "bench/memory.h"
#include "bench/peers.h"

namespace distlock::bench {
namespace {

using Kind = Comparison::Kind;

std::vector<std::string> LoadColumns() {
  return {"pairs/s", "op p50 µs", "op p99 µs", "client CPU", "daemon CPU", "redis CPU"};
}

constexpr const char* kCpuNote = "CPU columns are microseconds per pair; the client is this process.";

std::string Count(size_t n) { return std::to_string(n); }

Case Direct(const std::string& name, DirectKind kind, size_t clients) {
  return {name, [=](Lab& lab) {
            const auto load = DirectSync(lab, kind, clients);
            return Measure(lab, *load, false);
          }};
}

Case Pipelined(const std::string& name, size_t in_flight) {
  return {name, [=](Lab& lab) {
            const auto load = DirectPipelined(lab, in_flight);
            return Measure(lab, *load, false);
          }};
}

Case Broker(const std::string& name, size_t sessions, size_t in_flight) {
  return {name, [=](Lab& lab) {
            const auto load = BrokerSessions(lab, sessions, in_flight);
            return Measure(lab, *load, true);
          }};
}

Case Library(const std::string& name, size_t clients, size_t in_flight) {
  return {name, [=](Lab& lab) {
            const auto load = LibraryClients(lab, clients, in_flight);
            return Measure(lab, *load, true);
          }};
}

struct LoneGoal {
  size_t clients;
  const char* must;
  const char* ambitious;
};

Section Lone(const Setup& setup) {
  Section section{"lone",  "Uncontended: lone clients, own connections, one operation in flight", LoadColumns(), {}, {},
                  kCpuNote};
  for (const LoneGoal& goal :
       {LoneGoal{1, "0.48", "0.57"}, LoneGoal{16, "0.32", "0.42"}, LoneGoal{64, "0.34", "0.45"}}) {
    if (setup.size.smoke && goal.clients > 16) continue;
    const std::string n = Count(goal.clients);
    const std::string plain = n + " direct, SET NX + compare-and-delete";
    const std::string scripts = n + " direct, our scripts";
    const std::string broker = n + " through the broker";
    section.cases.push_back(Direct(plain, DirectKind::kSetNx, goal.clients));
    section.cases.push_back(Direct(scripts, DirectKind::kScripts, goal.clients));
    section.cases.push_back(Broker(broker, goal.clients, 1));
    section.comparisons.push_back(
        {n + " against SET NX", Kind::kRatio, broker, plain, "pairs/s", goal.must, goal.ambitious});
    section.comparisons.push_back(
        {n + " against our scripts", Kind::kRatio, broker, scripts, "pairs/s", goal.must, goal.ambitious});
    if (goal.clients != 1) continue;
    section.comparisons.push_back(
        {"added p50 µs of one op, against our scripts", Kind::kDifference, broker, scripts, "op p50 µs", "60", "40"});
    section.comparisons.push_back(
        {"added p99 µs of one op, against our scripts", Kind::kDifference, broker, scripts, "op p99 µs", "130", "85"});
    section.comparisons.push_back(
        {"added p50 µs of one op, against SET NX", Kind::kDifference, broker, plain, "op p50 µs", "60", "40"});
    section.comparisons.push_back(
        {"added p99 µs of one op, against SET NX", Kind::kDifference, broker, plain, "op p99 µs", "130", "85"});
  }
  return section;
}

struct SessionGoal {
  size_t sessions;
  size_t in_flight;
  const char* must;
  const char* ambitious;
};

Section Multiplexed(const Setup& setup) {
  Section section{"multiplexed",
                  "Uncontended: sessions with many operations in flight, commands batched both ways",
                  LoadColumns(),
                  {},
                  {},
                  std::string(kCpuNote) + " Goal, one session x 256: 180 k pairs/s, ambitious 250 k."};
  const std::string sync = "64 direct connections, our scripts";
  section.cases.push_back(Direct(sync, DirectKind::kScripts, 64));
  for (const SessionGoal& goal : {SessionGoal{1, 16, "", ""}, SessionGoal{1, 64, "0.55", "0.68"},
                                  SessionGoal{1, 256, "0.80", "0.93"}, SessionGoal{64, 32, "", ""}}) {
    if (setup.size.smoke && goal.in_flight > 32) continue;
    const size_t total = goal.sessions * goal.in_flight;
    const std::string shape = Count(goal.sessions) + " x " + Count(goal.in_flight);
    const std::string pipelined = "1 x " + Count(total) + " direct, pipelined";
    const std::string broker = shape + " through the broker";
    section.cases.push_back(Pipelined(pipelined, total));
    section.cases.push_back(Broker(broker, goal.sessions, goal.in_flight));
    section.comparisons.push_back(
        {shape + " against pipelined", Kind::kRatio, broker, pipelined, "pairs/s", goal.must, goal.ambitious});
    const bool is_wide = goal.sessions > 1;
    section.comparisons.push_back({shape + " against 64 direct connections", Kind::kRatio, broker, sync, "pairs/s",
                                   is_wide ? "2.7" : "", is_wide ? "3.7" : ""});
  }
  return section;
}

Section ClientLibrary(const Setup& setup) {
  Section section{"library",
                  "The C++ client library instead of the lean client",
                  LoadColumns(),
                  {},
                  {},
                  std::string(kCpuNote) + " Lone clients use blocking calls, the others the callbacks."};
  section.cases.push_back(Library("1 client, blocking", 1, 1));
  if (setup.size.smoke) return section;
  section.cases.push_back(Library("16 clients, blocking", 16, 1));
  section.cases.push_back(Library("1 client x 64", 1, 64));
  section.cases.push_back(Library("1 client x 256", 1, 256));
  return section;
}

Section HotHandoffs(const Setup& setup) {
  Section section{"handoff-hot",
                  "Hand-off, hot: holders release at once and queue again",
                  {"p50 µs", "p99 µs", "grants/s", "least/most", "client CPU", "daemon CPU", "redis CPU"},
                  {},
                  {},
                  "From release called to grant seen. least/most: grants of the party that got fewest, of the one that "
                  "got most. CPU columns are microseconds per grant. Goal with 50: p50 <= 200, p99 <= 500 µs, "
                  "ambitious 110 and 220."};
  for (const size_t brokers : {1, 2}) {
    for (const size_t parties : {2, 50}) {
      if (setup.size.smoke && parties > 2) continue;
      section.cases.push_back({Count(parties) + " parties, " + Count(brokers) + (brokers == 1 ? " broker" : " brokers"),
                               [=](Lab& lab) { return HotHandoff(lab, parties, brokers); }});
    }
  }
  return section;
}

Section Contended(const Setup&) {
  return {"handoff-idle",
          "Hand-off from idle: the waiter has waited 20 to 150 ms",
          {"p50 µs", "p99 µs"},
          {{"one broker", [](Lab& lab) { return IdleHandoff(lab, 1); }},
           {"two brokers", [](Lab& lab) { return IdleHandoff(lab, 2); }}},
          {},
          "Goal: p50 <= 600, p99 <= 1500 µs, ambitious 400 and 800."};
}

Section Queue(const Setup&) {
  return {"queue",
          "One-shot queue: 50 waiters hold 1 ms each",
          {"makespan ms", "slowest ms"},
          {{"50 sessions, one broker", [](Lab& lab) { return OneShotQueue(lab); }}},
          {},
          "Median and slowest run of a round; order of arrival is checked. A perfect queue needs 50 ms. Goal: 75, "
          "ambitious 62."};
}

Section Quiet(const Setup&) {
  return {
      "quiet",
      "What waiting costs: 50 waiters on one held lock",
      {"commands/s", "EVALSHA/s", "daemon CPU %"},
      {{"50 sessions, one broker", [](Lab& lab) { return QuietWaiters(lab); }}},
      {},
      "Redis commands of renewing the holder and tending the queue, those inside scripts counted too. Goal: about 0.",
      1};
}

Section Memory(const Setup&) {
  return {"memory",
          "Memory of held leases, 20 sessions",
          {"daemon B/lease", "redis B/lease", "free µs/lease"},
          {{"held leases", [](Lab& lab) { return LeaseMemory(lab); }}},
          {},
          "Goal: 530 B of the daemon, ambitious 268.",
          2};
}

}  // namespace

std::vector<Section> Sections(const Setup& setup) {
  std::vector<Section> sections{Lone(setup),      Multiplexed(setup), ClientLibrary(setup), HotHandoffs(setup),
                                Contended(setup), Queue(setup),       Quiet(setup),         Memory(setup)};
  AppendPeers(setup, &sections);
  return sections;
}

}  // namespace distlock::bench
