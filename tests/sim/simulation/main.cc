// SPDX-License-Identifier: Apache-2.0
//
// distlock_sim: runs simulations, one for each seed, up to a time or a number, or until one has a violation.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <random>

#include "simulation/simulation.h"

namespace distlock::sim {
namespace {

struct Wishes {
  std::optional<uint64_t> first_seed;
  uint64_t seed = 0;
  uint64_t seeds = 0;
  double minutes = 0;
  SimulationWishes simulation;
  bool no_hold_off = false;
  bool log = false;
  bool keep_going = false;
  bool quiet = false;
};

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Prints one simulation in full.
int Replay(const Wishes& wishes) {
  Simulation simulation(wishes.seed, wishes.simulation, true);
  const Outcome outcome = simulation.Run();
  for (const std::string& line : simulation.env().log) std::printf("%s\n", line.c_str());
  for (const std::string& story : outcome.violations) std::printf("VIOLATION %s\n", story.c_str());
  std::printf("seed %llu: %llu events, hash %016llx, %zu violations\n", static_cast<unsigned long long>(wishes.seed),
              static_cast<unsigned long long>(outcome.events), static_cast<unsigned long long>(outcome.hash),
              outcome.violations.size());
  return outcome.violations.empty() ? 0 : 1;
}

class Tally {
 public:
  void Add(uint64_t seed, const Outcome& outcome) {
    ++seeds_;
    events_ += outcome.events;
    records_ += outcome.records;
    hours_ += std::chrono::duration<double, std::ratio<3600>>(outcome.lasted).count();
    if (outcome.violations.empty()) return;
    ++violations_;
    std::printf("VIOLATION seed %llu (replay: distlock_sim --seed %llu): %s\n", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(seed), outcome.violations.front().c_str());
    std::fflush(stdout);
  }
  void Progress() {
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ < std::chrono::seconds(10)) return;
    told_ = now;
    std::fprintf(stderr, "%llu seeds, %llu violations\n", static_cast<unsigned long long>(seeds_),
                 static_cast<unsigned long long>(violations_));
  }
  void Sum() const {
    const double cpu = CpuSeconds() - began_;
    std::printf("%.0f events and %.0f records a seed, %.0f hours of simulated time\n",
                static_cast<double>(events_) / static_cast<double>(std::max<uint64_t>(seeds_, 1)),
                static_cast<double>(records_) / static_cast<double>(std::max<uint64_t>(seeds_, 1)), hours_);
    std::printf("%llu seeds, %llu violations, %.0f seeds per hour and core\n", static_cast<unsigned long long>(seeds_),
                static_cast<unsigned long long>(violations_), static_cast<double>(seeds_) / cpu * 3600);
  }
  uint64_t violations() const { return violations_; }

 private:
  const double began_ = CpuSeconds();
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
  uint64_t seeds_ = 0;
  uint64_t violations_ = 0;
  uint64_t events_ = 0;
  uint64_t records_ = 0;
  double hours_ = 0;
};

int RunMany(const Wishes& wishes) {
  std::printf("from seed %llu on\n", static_cast<unsigned long long>(wishes.seed));
  std::fflush(stdout);
  Tally tally;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(wishes.minutes * 60);
  for (uint64_t i = 0; wishes.minutes > 0 ? std::chrono::steady_clock::now() < end : i < wishes.seeds; ++i) {
    const uint64_t seed = wishes.seed + i;
    tally.Add(seed, Simulation(seed, wishes.simulation, false).Run());
    if (!wishes.quiet) tally.Progress();
    if (tally.violations() > 0 && !wishes.keep_going) break;
  }
  tally.Sum();
  return tally.violations() == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  Wishes wishes;
  std::map<std::string, Workload> workloads(Workloads().begin(), Workloads().end());
  std::map<std::string, Topology> topologies(Topologies().begin(), Topologies().end());
  CLI::App app("Runs simulations of brokers, clients and stores, and judges each.");
  app.footer(
      "Without --seeds or --minutes the one seed is replayed with its log.\n"
      "  distlock_sim --seed 17                 replay a simulation\n"
      "  distlock_sim --seeds 100000 --seed 1   look for violations");
  app.add_option("--seed", wishes.first_seed, "the first seed; a random one, which is printed, if there is none");
  app.add_option("--seeds", wishes.seeds, "how many simulations");
  app.add_option("--minutes", wishes.minutes, "run simulations for so long");
  app.add_option("--workload", wishes.simulation.workload, "what clients do")
      ->transform(CLI::CheckedTransformer(workloads));
  app.add_option("--topology", wishes.simulation.topology, "what locks are kept in; drawn, if it is not given")
      ->transform(CLI::CheckedTransformer(topologies));
  app.add_flag("--no-hold-off", wishes.no_hold_off, "brokers grant at once after a failover: expect violations");
  app.add_flag("--keep-going", wishes.keep_going, "do not stop at the first violation");
  app.add_flag("--quiet", wishes.quiet, "no progress lines");
  CLI11_PARSE(app, argc, argv);
  wishes.simulation.hold_off = !wishes.no_hold_off;
  // Short seeds are easy to copy, and two runs with random seeds rarely overlap.
  wishes.seed = wishes.first_seed ? *wishes.first_seed : std::random_device()() * 1000ULL;
  return wishes.seeds == 0 && wishes.minutes <= 0 ? Replay(wishes) : RunMany(wishes);
}

}  // namespace
}  // namespace distlock::sim

int main(int argc, char** argv) { return distlock::sim::Main(argc, argv); }
