// SPDX-License-Identifier: Apache-2.0
// distlock_bench: starts a Redis and brokers, runs the rows in interleaved rounds, prints their tables.
#include <grpcpp/grpcpp.h>
#include <sys/utsname.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "bench/delay_proxy.h"
#include "bench/peers.h"
#include "bench/relay.h"
#include "bench/report.h"

namespace distlock::bench {
namespace {

std::atomic<bool> interrupted{false};

struct Arguments {
  Setup setup;
  std::string only;
  std::string json;
  int rounds = 0;
  double seconds = 0;
};

constexpr Size kQuick{.rounds = 2,
                      .seconds = 0.15,
                      .warm_seconds = 0.05,
                      .idle_handoffs = 6,
                      .queue_runs = 3,
                      .leases = 40'000,
                      .sessions = 500,
                      .renewal_ttl_seconds = 4.5,
                      .renewal_watch_seconds = 3,
                      .watch_seconds = 2};
constexpr Size kSmoke{.rounds = 1,
                      .seconds = 0.25,
                      .warm_seconds = 0.05,
                      .idle_handoffs = 3,
                      .queue_runs = 1,
                      .leases = 2000,
                      .sessions = 100,
                      .renewal_ttl_seconds = 2,
                      .renewal_watch_seconds = 0.7,
                      .watch_seconds = 0.2,
                      .smoke = true};

int Parse(int argc, char** argv, Arguments* arguments) {
  CLI::App app("Measures distlockd against direct Redis clients; see tests/bench/README.md");
  bool quick = false;
  bool smoke = false;
  std::string clients = "tcp";
  std::string store = "unix";
  app.add_option("--daemon", arguments->setup.daemon, "path of distlockd")->required()->check(CLI::ExistingFile);
  app.add_option("--redis-server", arguments->setup.redis_server, "program to start as the store");
  app.add_option("--clients", clients, "how clients reach the broker, and direct ones Redis")
      ->check(CLI::IsMember({"tcp", "unix"}));
  app.add_option("--store", store, "how the broker reaches Redis")->check(CLI::IsMember({"tcp", "unix"}));
  double delay_ms = 0;
  app.add_option("--store-delay", delay_ms,
                 "round trip to Redis, in ms, that a proxy adds for the broker and all others")
      ->check(CLI::Range(0.0, 1000.0));
  app.add_option("--only", arguments->only,
                 "run only what matches this expression as \"section/case\", such as ^lone or 256");
  app.add_option("--rounds", arguments->rounds, "interleaved rounds")->check(CLI::PositiveNumber);
  app.add_option("--seconds", arguments->seconds, "length of each closed loop")->check(CLI::PositiveNumber);
  app.add_option("--json", arguments->json, "also write every sample to this file");
  app.add_flag("--peers", arguments->setup.peers, "measure other lock systems beside ours, those that are installed");
  app.add_flag("--growth", arguments->setup.growth, "also the rows that show how costs grow, which take minutes");
  app.add_flag("--quick", quick, "a rough look in less than a minute");
  app.add_flag("--smoke", smoke, "a few seconds: does everything run, whatever its speed");
  CLI11_PARSE(app, argc, argv);
  Size& size = arguments->setup.size;
  if (quick) size = kQuick;
  if (smoke) size = kSmoke;
  if (arguments->rounds > 0) size.rounds = arguments->rounds;
  if (arguments->seconds > 0) size.seconds = arguments->seconds;
  arguments->setup.clients_on_tcp = clients == "tcp";
  arguments->setup.store_on_tcp = store == "tcp";
  arguments->setup.store_delay_us = static_cast<int>(delay_ms * 1000);
  return 0;
}

std::string Text(const char* format, double a, double b = 0, double c = 0) {
  char text[160];
  std::snprintf(text, sizeof text, format, a, b, c);
  return text;
}

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

// The median of some round trips to Redis.
double PingMillis(const Lab& lab) {
  const RedisConnection connection = lab.Connect();
  std::vector<int64_t> took(101);
  for (int64_t& one : took) {
    const int64_t start = NowNanos();
    const RedisReply reply(static_cast<redisReply*>(redisCommand(connection.get(), "PING")));
    one = NowNanos() - start;
  }
  std::nth_element(took.begin(), took.begin() + 50, took.end());
  return static_cast<double>(took[50]) * 1e-6;
}

Conditions Describe(const Lab& lab) {
  const Setup& setup = lab.setup();
  utsname system{};
  uname(&system);
  return {
      {"machine", std::to_string(std::thread::hardware_concurrency()) + " cores, " + CpuModel() + ", kernel " +
                      system.release + "; clients, brokers and Redis share them"},
      {"versions", "distlockd " + lab.broker(0).version() + ", gRPC " + grpc::Version() + ", hiredis " +
                       std::to_string(HIREDIS_MAJOR) + "." + std::to_string(HIREDIS_MINOR) + ", Redis " +
                       lab.RedisInfo("server", "redis_version") + " (volatile: save \"\", appendonly no)"},
      {"transport", std::string("clients to broker and direct clients to Redis over ") +
                        (setup.clients_on_tcp ? "loopback TCP" : "unix sockets") + ", broker to Redis over " +
                        (setup.store_on_tcp ? "loopback TCP" : "a unix socket")},
      {"distance", setup.store_delay_us > 0 ? Text("a proxy adds a round trip of %.2f ms between Redis and everybody; "
                                                   "one PING takes %.2f ms",
                                                   setup.store_delay_us / 1e3, PingMillis(lab))
                                            : "Redis is on this machine"},
      {"rounds", Text("%.0f, closed loops of %.2f s after %.2f s of warm-up; medians (min..max)", setup.size.rounds,
                      setup.size.seconds, setup.size.warm_seconds)}};
}

// How much of the machine other processes used, per round. The results are not more exact than that.
class Noise {
 public:
  explicit Noise(const Lab& lab) : lab_(lab) { Begin(); }

  void Begin() {
    wall_ = NowNanos();
    machine_ = MachineCpuSeconds();
    ours_ = lab_.OursCpuSeconds();
  }

  void End() {
    const double seconds = static_cast<double>(NowNanos() - wall_) * 1e-9 * std::thread::hardware_concurrency();
    const double others = (MachineCpuSeconds() - machine_) - (lab_.OursCpuSeconds() - ours_);
    percent_.push_back(std::max(0.0, others / seconds * 100));
  }

  std::string Summary() {
    if (percent_.empty()) return "unknown";
    std::sort(percent_.begin(), percent_.end());
    return Text("other processes used %.0f %% of the machine (%.0f..%.0f by round)", percent_[percent_.size() / 2],
                percent_.front(), percent_.back());
  }

 private:
  const Lab& lab_;
  int64_t wall_ = 0;
  double machine_ = 0;
  double ours_ = 0;
  std::vector<double> percent_;
};

// Each round begins with another case, so that no case always follows the same one.
void RunRound(Lab& lab, size_t round, SectionResult* result) {
  const std::vector<Case>& cases = result->section.cases;
  std::map<std::string, Sample> samples;
  for (size_t i = 0; i < cases.size() && !interrupted; ++i) {
    const Case& c = cases[(i + round) % cases.size()];
    std::fprintf(stderr, "\rround %zu: %-12s %-50s", round + 1, result->section.id.c_str(), c.name.c_str());
    samples[c.name] = c.run(lab);
  }
  result->rounds.push_back(std::move(samples));
}

// Keeps the cases whose "section/case" matches, and the comparisons that are still possible.
void Select(const std::regex& only, Section* section) {
  std::erase_if(section->cases, [&](const Case& c) { return !std::regex_search(section->id + "/" + c.name, only); });
  const auto gone = [&](const std::string& name) {
    return std::none_of(section->cases.begin(), section->cases.end(), [&](const Case& c) { return c.name == name; });
  };
  std::erase_if(section->comparisons, [&](const Comparison& c) { return gone(c.of) || gone(c.against); });
  std::erase_if(section->floors, [&](const Floor& f) { return gone(f.of) || gone(f.floor); });
}

Results Run(const Arguments& arguments) {
  Lab lab(arguments.setup);
  Results results;
  for (Section& section : Sections(arguments.setup)) {
    Select(std::regex(arguments.only), &section);
    if (!section.cases.empty()) results.sections.push_back({std::move(section), {}});
  }
  if (results.sections.empty()) throw std::runtime_error("--only '" + arguments.only + "' matches nothing");
  Noise noise(lab);
  for (int round = 0; round < lab.size().rounds && !interrupted; ++round) {
    noise.Begin();
    for (SectionResult& result : results.sections) {
      if (round < result.section.max_rounds) RunRound(lab, static_cast<size_t>(round), &result);
    }
    noise.End();
  }
  std::fprintf(stderr, "\r%80s\r", "");
  results.conditions = Describe(lab);
  if (arguments.setup.peers) results.conditions.emplace_back("peers", PeerVersions());
  results.conditions.emplace_back("noise", noise.Summary());
  return results;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  const int usage = Parse(argc, argv, &arguments);
  if (usage != 0 || arguments.setup.daemon.empty()) return usage;
  std::signal(SIGINT, [](int) { interrupted = true; });
  std::signal(SIGTERM, [](int) { interrupted = true; });
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const Results results = Run(arguments);
    WriteMarkdown(results, std::cout);
    if (!arguments.json.empty()) {
      std::ofstream file(arguments.json);
      WriteJson(results, file);
      if (!file.flush()) throw std::runtime_error("cannot write " + arguments.json);
    }
    if (interrupted) return 130;
    return results.AllValid() ? 0 : 1;
  } catch (const std::exception& e) {
    std::cerr << "distlock_bench: " << e.what() << '\n';
    return 1;
  }
}

}  // namespace
}  // namespace distlock::bench

int main(int argc, char** argv) {
  // How this program starts itself; see relay.h and delay_proxy.h.
  if (argc == 5 && std::string_view(argv[1]) == "--relay") return distlock::bench::RunRelay(argv[2], argv[4]);
  if (argc == 7 && std::string_view(argv[1]) == "--delay-proxy") {
    return distlock::bench::RunDelayProxy(std::stoi(argv[2]), argv[3], argv[4],
                                          std::chrono::microseconds(std::stoi(argv[5])),
                                          std::string_view(argv[6]) == "told");
  }
  return distlock::bench::Main(argc, argv);
}
