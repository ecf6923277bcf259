// SPDX-License-Identifier: Apache-2.0
// Rows of throughput and latency where each client has locks of its own.
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/broker_load.h"
#include "bench/direct.h"
#include "bench/relay.h"
#include "bench/rows.h"

namespace distlock::bench {
namespace {

using Kind = Comparison::Kind;

std::vector<std::string> LoadColumns() {
  return {"pairs/s", "op p50 µs", "op p99 µs", "client CPU", "daemon CPU", "redis CPU"};
}

constexpr const char* kCpuNote = "CPU columns are microseconds per pair; the client is this process.";

std::string Count(size_t n) { return std::to_string(n); }

// Where the servers are and how clients reach them.
struct Place {
  bool durable = false;
  Transport over = Transport::kAsSetUp;
};

constexpr Place kUsual{};
constexpr Place kOnUnix{.over = Transport::kUnix};
constexpr Place kOnDurable{.durable = true};

// Measures the load that make(lab) gives.
template <typename Make>
Sample MeasureAt(Lab& usual, const Place& place, bool through_broker, Make make) {
  try {
    Lab& lab = place.durable ? usual.Durable() : usual;
    const std::unique_ptr<Load> load = make(lab);
    return Measure(lab, *load, through_broker);
  } catch (const std::runtime_error& e) {
    return {{}, e.what()};
  }
}

Case Direct(const std::string& name, DirectKind kind, size_t clients, const Place& at = kUsual) {
  return {name, [=](Lab& usual) {
            return MeasureAt(usual, at, false, [&](Lab& lab) { return DirectSync(lab, kind, clients, at.over); });
          }};
}

Case Pipelined(const std::string& name, size_t in_flight, const Place& at = kUsual) {
  return {name, [=](Lab& usual) {
            return MeasureAt(usual, at, false, [&](Lab& lab) { return DirectPipelined(lab, in_flight, at.over); });
          }};
}

Case Broker(const std::string& name, size_t sessions, size_t in_flight, const Place& at = kUsual) {
  return {name, [=](Lab& usual) {
            return MeasureAt(usual, at, true, [&](Lab& lab) {
              return BrokerSessions(lab.broker(0).target(at.over), sessions, in_flight);
            });
          }};
}

enum class Calls { kStream, kUnary };

Case Relayed(const std::string& name, size_t clients, Calls calls, const Place& at = kUsual) {
  return {name, [=](Lab& usual) -> Sample {
            try {
              Lab& lab = at.durable ? usual.Durable() : usual;
              const Relay relay(lab, at.over);
              const bool streams = calls == Calls::kStream;
              const auto load = streams ? RelayClients(lab, relay.target(), clients)
                                        : RelayUnaryClients(lab, relay.target(), clients);
              return Measure(lab.size(), {lab.redis_pid(), {relay.pid()}}, *load);
            } catch (const std::runtime_error& e) {
              return {{}, e.what()};
            }
          }};
}

Case UnaryCalls(const std::string& name, size_t clients) {
  return {name, [=](Lab& lab) {
            const auto load = UnaryClients(lab.broker(0).target(), clients);
            return Measure(lab, *load, true);
          }};
}

Case Callbacks(const std::string& name, size_t clients, size_t in_flight) {
  return {name, [=](Lab& lab) {
            const auto load = CallbackClients(lab, clients, in_flight);
            return Measure(lab, *load, true);
          }};
}

Case Blocking(const std::string& name, const BlockingShape& shape) {
  return {name, [=](Lab& lab) {
            const auto load = BlockingClients(lab, shape);
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
    const std::string fenced = n + " direct, fenced SET NX + compare-and-delete";
    const std::string scripts = n + " direct, our scripts";
    const std::string relay = n + " through a bare relay, SET NX + compare-and-delete";
    const std::string broker = n + " through the broker";
    section.cases.push_back(Direct(plain, DirectKind::kSetNx, goal.clients));
    section.cases.push_back(Direct(fenced, DirectKind::kFenced, goal.clients));
    section.cases.push_back(Direct(scripts, DirectKind::kScripts, goal.clients));
    section.cases.push_back(Relayed(relay, goal.clients, Calls::kStream));
    section.cases.push_back(Broker(broker, goal.clients, 1));
    section.floors.push_back({broker, relay, "pairs/s", ""});
    section.comparisons.push_back(
        {n + " against SET NX", Kind::kRatio, broker, plain, "pairs/s", goal.must, goal.ambitious});
    section.comparisons.push_back(
        {n + " against fenced SET NX", Kind::kRatio, broker, fenced, "pairs/s", goal.must, goal.ambitious});
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

Section Unary(const Setup& setup) {
  Section section{"unary", "Uncontended: lone clients, own connections, one unary call in flight", LoadColumns(), {},
                  {},      std::string(kCpuNote) + " Detached leases: Acquire and Release."};
  for (const LoneGoal& goal :
       {LoneGoal{1, "0.30", "0.40"}, LoneGoal{16, "0.26", "0.34"}, LoneGoal{64, "0.27", "0.36"}}) {
    if (setup.size.smoke && goal.clients > 1) continue;
    const std::string n = Count(goal.clients);
    const std::string plain = n + " direct, SET NX + compare-and-delete";
    const std::string fenced = n + " direct, fenced SET NX + compare-and-delete";
    const std::string scripts = n + " direct, our scripts";
    const std::string relay = n + " through a bare relay, unary, SET NX + compare-and-delete";
    const std::string broker = n + " through the broker, unary";
    section.cases.push_back(Direct(plain, DirectKind::kSetNx, goal.clients));
    section.cases.push_back(Direct(fenced, DirectKind::kFenced, goal.clients));
    section.cases.push_back(Direct(scripts, DirectKind::kScripts, goal.clients));
    section.cases.push_back(Relayed(relay, goal.clients, Calls::kUnary));
    section.cases.push_back(UnaryCalls(broker, goal.clients));
    section.floors.push_back({broker, relay, "pairs/s", ""});
    section.comparisons.push_back(
        {n + " against SET NX", Kind::kRatio, broker, plain, "pairs/s", goal.must, goal.ambitious});
    section.comparisons.push_back(
        {n + " against fenced SET NX", Kind::kRatio, broker, fenced, "pairs/s", goal.must, goal.ambitious});
    section.comparisons.push_back({n + " against our scripts", Kind::kRatio, broker, scripts, "pairs/s", "", ""});
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
    section.floors.push_back({broker, pipelined, "pairs/s", ""});
    section.comparisons.push_back(
        {shape + " against pipelined", Kind::kRatio, broker, pipelined, "pairs/s", goal.must, goal.ambitious});
    const bool is_wide = goal.sessions > 1;
    section.comparisons.push_back({shape + " against 64 direct connections", Kind::kRatio, broker, sync, "pairs/s",
                                   is_wide ? "2.7" : "", is_wide ? "3.7" : ""});
  }
  return section;
}

Section UnixSockets(const Setup& setup) {
  Section section{"unix",
                  "Uncontended: clients on unix sockets, whatever the others use",
                  LoadColumns(),
                  {},
                  {},
                  std::string(kCpuNote) + " Direct clients reach Redis over its unix socket."};
  for (const size_t clients : {1, 16, 64}) {
    if (setup.size.smoke && clients > 1) continue;
    const std::string n = Count(clients);
    const std::string plain = n + " direct, SET NX + compare-and-delete";
    const std::string scripts = n + " direct, our scripts";
    const std::string broker = n + " through the broker";
    section.cases.push_back(Direct(plain, DirectKind::kSetNx, clients, kOnUnix));
    section.cases.push_back(Direct(scripts, DirectKind::kScripts, clients, kOnUnix));
    const std::string relay = n + " through a bare relay, SET NX + compare-and-delete";
    section.cases.push_back(Relayed(relay, clients, Calls::kStream, kOnUnix));
    section.cases.push_back(Broker(broker, clients, 1, kOnUnix));
    section.floors.push_back({broker, relay, "pairs/s", ""});
    section.comparisons.push_back({n + " against SET NX", Kind::kRatio, broker, plain, "pairs/s", "", ""});
    section.comparisons.push_back({n + " against our scripts", Kind::kRatio, broker, scripts, "pairs/s", "", ""});
  }
  if (setup.size.smoke) return section;
  const std::string pipelined = "1 x 256 direct, pipelined";
  const std::string broker = "1 x 256 through the broker";
  section.cases.push_back(Pipelined(pipelined, 256, kOnUnix));
  section.cases.push_back(Broker(broker, 1, 256, kOnUnix));
  section.floors.push_back({broker, pipelined, "pairs/s", ""});
  section.comparisons.push_back({"1 x 256 against pipelined", Kind::kRatio, broker, pipelined, "pairs/s", "", ""});
  section.comparisons.push_back(
      {"1 x 256 against 64 direct connections", Kind::kRatio, broker, "64 direct, our scripts", "pairs/s", "", ""});
  return section;
}

Section Durable(const Setup& setup) {
  Section section{
      "durable",
      "Uncontended, on a Redis with appendonly yes and appendfsync always",
      LoadColumns(),
      {},
      {},
      std::string(kCpuNote) + " What a sync costs depends on the disk with the temporary folder. All use our scripts."};
  const std::string lone = "1 through the broker";
  const std::string direct = "1 direct, our scripts";
  section.cases.push_back(Direct(direct, DirectKind::kScripts, 1, kOnDurable));
  const std::string relay = "1 through a bare relay, SET NX + compare-and-delete";
  section.cases.push_back(Relayed(relay, 1, Calls::kStream, kOnDurable));
  section.cases.push_back(Broker(lone, 1, 1, kOnDurable));
  section.floors.push_back({lone, relay, "pairs/s", ""});
  section.comparisons.push_back({"1 against our scripts", Kind::kRatio, lone, direct, "pairs/s", "", ""});
  if (setup.size.smoke) return section;
  const std::string sync = "64 direct, our scripts";
  const std::string pipelined = "1 x 256 direct, pipelined";
  const std::string many = "64 through the broker";
  const std::string wide = "1 x 256 through the broker";
  section.cases.push_back(Direct(sync, DirectKind::kScripts, 64, kOnDurable));
  section.cases.push_back(Pipelined(pipelined, 256, kOnDurable));
  const std::string relays = "64 through a bare relay, SET NX + compare-and-delete";
  section.cases.push_back(Relayed(relays, 64, Calls::kStream, kOnDurable));
  section.cases.push_back(Broker(many, 64, 1, kOnDurable));
  section.cases.push_back(Broker(wide, 1, 256, kOnDurable));
  section.floors.push_back({many, relays, "pairs/s", ""});
  section.floors.push_back({wide, pipelined, "pairs/s", ""});
  section.comparisons.push_back({"64 against our scripts", Kind::kRatio, many, sync, "pairs/s", "", ""});
  section.comparisons.push_back({"1 x 256 against pipelined", Kind::kRatio, wide, pipelined, "pairs/s", "", ""});
  section.comparisons.push_back(
      {"1 x 256 against 64 direct connections", Kind::kRatio, wide, sync, "pairs/s", "2.5", "3.5"});
  return section;
}

Section ClientLibrary(const Setup& setup) {
  Section section{"library",
                  "The C++ client library instead of the lean client",
                  LoadColumns(),
                  {},
                  {},
                  std::string(kCpuNote) +
                      " Released by scope: the guard's end sends the release and waits for nothing, so a pair costs "
                      "one trip, and an operation is an acquire."};
  const auto add = [&section](const std::string& lean, const std::string& name, const BlockingShape& shape) {
    section.cases.push_back(Blocking(name, shape));
    section.floors.push_back({name, lean, "pairs/s", ""});
  };
  const auto by_scope = [](BlockingShape shape) {
    shape.release = Released::kByScope;
    shape.waits = true;
    return shape;
  };
  for (const size_t clients : {1, 16}) {
    if (setup.size.smoke && clients > 1) continue;
    const std::string n = Count(clients) + (clients == 1 ? " client" : " clients");
    const std::string lean = n + ", lean";
    section.cases.push_back(Broker(lean, clients, 1));
    add(lean, n + ", blocking", {.clients = clients});
    add(lean, n + ", blocking, released by scope", by_scope({.clients = clients}));
  }
  if (setup.size.smoke) return section;
  const std::string shared = "1 client x 16, lean";
  section.cases.push_back(Broker(shared, 1, 16));
  add(shared, "1 client, 16 threads, blocking", {.callers = 16});
  add(shared, "1 client, 16 threads, released by scope", by_scope({.callers = 16}));
  for (const size_t in_flight : {64, 256}) {
    const std::string lean = "1 client x " + Count(in_flight) + ", lean";
    const std::string callbacks = "1 client x " + Count(in_flight) + ", callbacks";
    section.cases.push_back(Broker(lean, 1, in_flight));
    section.cases.push_back(Callbacks(callbacks, 1, in_flight));
    section.floors.push_back({callbacks, lean, "pairs/s", ""});
  }
  return section;
}

}  // namespace

std::vector<Section> UncontendedSections(const Setup& setup) {
  return {Lone(setup), Unary(setup), Multiplexed(setup), UnixSockets(setup), Durable(setup), ClientLibrary(setup)};
}

}  // namespace distlock::bench
