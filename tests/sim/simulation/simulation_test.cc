// SPDX-License-Identifier: Apache-2.0
//
// The simulations themselves: the same seed must give the same simulation, and every fault must happen in some
// simulation.
#include "simulation/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "history/check.h"

namespace distlock::sim {
namespace {

TEST(Simulation, IsTheSameFromTheSameSeed) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Simulation simulation(seed, Workload::kMixed, false);
    Simulation again(seed, Workload::kMixed, true);
    const Outcome first = simulation.Run();
    const Outcome second = again.Run();
    EXPECT_EQ(first.hash, second.hash) << "seed " << seed << ": the log must not change what happens";
    EXPECT_EQ(first.events, second.events);
  }
}

TEST(Simulation, DiffersFromSeedToSeed) {
  EXPECT_NE(Simulation(2, Workload::kMixed, false).Run().hash, Simulation(4, Workload::kMixed, false).Run().hash);
}

TEST(Simulation, EveryOtherIsCalm) {
  for (uint64_t seed = 100; seed < 120; ++seed) {
    Simulation simulation(seed, Workload::kMixed, false);
    simulation.Run();
    const auto& records = simulation.env().history.records;
    const bool any =
        std::any_of(records.begin(), records.end(), [](const Record& r) { return r.kind == RecordKind::kFault; });
    EXPECT_TRUE(seed % 2 == 1 || !any) << "seed " << seed;
  }
}

// A kind of fault or record that never occurs would prove nothing.
TEST(Simulation, EveryFaultAndEveryKindOfRecordComesUp) {
  std::array<int, static_cast<size_t>(FaultKind::kCount)> faults{};
  std::array<int, static_cast<size_t>(RecordKind::kQuiet) + 1> kinds{};
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Simulation simulation(seed, {}, false);
    simulation.Run();
    for (const Record& record : simulation.env().history.records) {
      if (record.kind == RecordKind::kFault) ++faults[record.code];
      if (record.kind <= RecordKind::kQuiet) ++kinds[static_cast<size_t>(record.kind)];
    }
  }
  for (size_t i = 0; i < kinds.size(); ++i) EXPECT_GT(kinds[i], 0) << "record kind " << i;
  const FaultKind elsewhere[] = {FaultKind::kClientClock, FaultKind::kBrokerClock};
  for (size_t i = 0; i < faults.size(); ++i) {
    if (std::find(std::begin(elsewhere), std::end(elsewhere), static_cast<FaultKind>(i)) != std::end(elsewhere))
      continue;
    EXPECT_GT(faults[i], 0) << "fault kind " << i;
  }
}

// Else simulations would not be cruel enough to show what the hold-off is for.
TEST(Simulation, AFailoverWithoutHoldOffShowsTwoHolders) {
  for (const Topology topology : {Topology::kSentinel, Topology::kCluster}) {
    const SimulationWishes wishes{.topology = topology, .hold_off = false};
    bool shown = false;
    for (uint64_t seed = 0; seed < 1000 && !shown; ++seed) {
      for (const std::string& story : Simulation(seed, wishes, false).Run().violations)
        shown |= story.starts_with("I1:");
    }
    EXPECT_TRUE(shown) << "topology " << static_cast<int>(topology);
  }
}

TEST(Simulation, AFailoverWithHoldOffRunsClean) {
  for (const Topology topology : {Topology::kSentinel, Topology::kCluster}) {
    int failovers = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Simulation simulation(seed, {.topology = topology}, false);
      const Outcome outcome = simulation.Run();
      EXPECT_TRUE(outcome.violations.empty()) << "seed " << seed << ": " << outcome.violations.front();
      failovers += static_cast<int>(std::ranges::count_if(simulation.env().history.records, [](const Record& record) {
        return record.kind == RecordKind::kFault && record.code == static_cast<uint8_t>(FaultKind::kPromoted);
      }));
    }
    EXPECT_GT(failovers, 60) << "topology " << static_cast<int>(topology);
  }
}

TEST(Simulation, EachWorkloadRunsClean) {
  for (const auto& [name, workload] : Workloads()) {
    for (uint64_t seed = 500; seed < 520; ++seed) {
      const Outcome outcome = Simulation(seed, workload, false).Run();
      EXPECT_TRUE(outcome.violations.empty()) << name << " seed " << seed << ": " << outcome.violations.front();
    }
  }
}

}  // namespace
}  // namespace distlock::sim
