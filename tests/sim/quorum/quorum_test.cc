// SPDX-License-Identifier: Apache-2.0
//
// Random simulations of the quorum topology. DISTLOCK_QUORUM_SEEDS=FROM:COUNT runs others than the usual ones, and
// DISTLOCK_QUORUM_LOG=1 tells what happens in them.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "quorum/simulation.h"

namespace distlock::sim::quorum {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kUsualSimulations = 60;
#else
constexpr uint64_t kUsualSimulations = 600;
#endif

TEST(QuorumSimulations, KeepTheirPromises) {
  uint64_t first = 1, count = kUsualSimulations;
  if (const char* seeds = std::getenv("DISTLOCK_QUORUM_SEEDS")) {
    char* rest = nullptr;
    first = std::strtoull(seeds, &rest, 10);
    count = *rest == ':' ? std::strtoull(rest + 1, nullptr, 10) : 1;
  }
  const bool log = std::getenv("DISTLOCK_QUORUM_LOG") != nullptr;
  Findings all;
  int faults = 0;
  uint64_t most = 0;
  uint64_t at = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Findings found = RunSimulation(seed, log);
    all.grants += found.grants;
    all.refusals += found.refusals;
    all.losses += found.losses;
    all.commands += found.commands;
    const uint64_t traffic = found.commands / found.requests;
    if (traffic > most) most = traffic, at = seed;
    if (found.fault.empty()) continue;
    ADD_FAILURE() << "seed " << seed << ": " << found.fault << "; again with DISTLOCK_QUORUM_SEEDS=" << seed;
    if (++faults == 10) break;
  }
  std::printf(
      "%llu simulations, %llu grants, %llu refusals, %.1f commands a grant, at most %llu a request (seed %llu)\n",
      static_cast<unsigned long long>(count), static_cast<unsigned long long>(all.grants),
      static_cast<unsigned long long>(all.refusals),
      static_cast<double>(all.commands) / static_cast<double>(std::max<uint64_t>(all.grants, 1)),
      static_cast<unsigned long long>(most), static_cast<unsigned long long>(at));
}

}  // namespace
}  // namespace distlock::sim::quorum
