// SPDX-License-Identifier: Apache-2.0
// distlock_bench: one measurement, for bench.py. Prints a line of JSON: {"values": {column: number}} or {"error": why}.
// The works relay and delay serve until they are killed.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>

#include "bench/load.h"

namespace distlock::bench {
namespace {

struct Arguments {
  std::vector<std::string> targets;
  std::string listen;
  std::string redis_socket;
  int port = 0;
  size_t clients = 1;
  size_t in_flight = 1;
  size_t leases = 0;
  double ttl_seconds = 0;
  double delay_ms = 0;
  double seconds = 1;
  double warm_seconds = 0;
};

using MakeLoad = std::function<std::unique_ptr<Load>(const Arguments&)>;

const std::map<std::string, MakeLoad>& Loads() {
  static const std::map<std::string, MakeLoad> loads{
      {"direct", [](const Arguments& a) { return DirectClients(a.port, a.clients); }},
      {"pipelined", [](const Arguments& a) { return PipelinedClient(a.port, a.in_flight); }},
      {"relayed", [](const Arguments& a) { return RelayClients(a.targets.at(0), a.port, a.clients); }},
      {"sessions", [](const Arguments& a) { return BrokerSessions(a.targets.at(0), a.clients, a.in_flight); }},
      {"handoff", [](const Arguments& a) { return HotHandoff(a.targets, a.clients); }}};
  return loads;
}

nlohmann::json Run(const std::string& work, const Arguments& a) {
  if (const auto load = Loads().find(work); load != Loads().end()) {
    // Never freed: what has failed may have calls in flight.
    return Measure(*load->second(a).release(), a.warm_seconds, a.seconds);
  }
  if (work == "hoard") {
    Hoard(a.targets.at(0), a.clients, a.leases, a.ttl_seconds);
  } else if (work == "relay") {
    std::exit(RunRelay(a.listen, a.redis_socket));
  } else if (work == "delay") {
    RunDelayProxy(a.port, a.listen, a.redis_socket, std::chrono::microseconds(static_cast<int64_t>(a.delay_ms * 1000)));
  } else {
    throw std::runtime_error("there is no work " + work);
  }
  return nlohmann::json::object();
}

int Main(int argc, char** argv) {
  CLI::App app("One measurement for tests/bench/bench.py");
  std::string work;
  Arguments a;
  app.add_option("work", work)->required();
  app.add_option("--target", a.targets, "gRPC's name of a broker, or of several")->delimiter(',');
  app.add_option("--listen", a.listen, "of a relay, or the unix socket of a delay");
  app.add_option("--redis-socket", a.redis_socket, "of the Redis behind a relay or a delay");
  app.add_option("--port", a.port, "of Redis on loopback, or of a delay before it");
  app.add_option("--clients", a.clients, "or sessions, or parties");
  app.add_option("--in-flight", a.in_flight, "operations of each client")->check(CLI::Range(1, 512));
  app.add_option("--leases", a.leases);
  app.add_option("--ttl", a.ttl_seconds, "of leases, in seconds");
  app.add_option("--delay", a.delay_ms, "round trip, in ms");
  app.add_option("--seconds", a.seconds, "length of a closed loop");
  app.add_option("--warm", a.warm_seconds, "before it counts");
  CLI11_PARSE(app, argc, argv);
  nlohmann::json answer;
  try {
    answer["values"] = Run(work, a);
  } catch (const std::exception& e) {
    answer = {{"error", e.what()}};
  }
  std::puts(answer.dump().c_str());
  std::fflush(stdout);
  std::_Exit(answer.contains("error") ? 1 : 0);
}

}  // namespace
}  // namespace distlock::bench

int main(int argc, char** argv) { return distlock::bench::Main(argc, argv); }
