// SPDX-License-Identifier: Apache-2.0
//
// The worlds themselves: the same seed must give the same world, and every fault must happen in some world.
#include "world/world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "history/check.h"

namespace distlock::sim {
namespace {

TEST(World, IsTheSameFromTheSameSeed) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    World world(seed, Workload::kMixed, false);
    World again(seed, Workload::kMixed, true);
    const Outcome first = world.Run();
    const Outcome second = again.Run();
    EXPECT_EQ(first.hash, second.hash) << "seed " << seed << ": the log must not change what happens";
    EXPECT_EQ(first.events, second.events);
  }
}

TEST(World, DiffersFromSeedToSeed) {
  EXPECT_NE(World(2, Workload::kMixed, false).Run().hash, World(4, Workload::kMixed, false).Run().hash);
}

TEST(World, EveryOtherIsCalm) {
  for (uint64_t seed = 100; seed < 120; ++seed) {
    World world(seed, Workload::kMixed, false);
    world.Run();
    const auto& records = world.env().history.records;
    const bool any =
        std::any_of(records.begin(), records.end(), [](const Record& r) { return r.kind == RecordKind::kFault; });
    EXPECT_TRUE(seed % 2 == 1 || !any) << "seed " << seed;
  }
}

// A kind of fault or record that never occurs would prove nothing.
TEST(World, EveryFaultAndEveryKindOfRecordComesUp) {
  std::array<int, static_cast<size_t>(FaultKind::kCount)> faults{};
  std::array<int, static_cast<size_t>(RecordKind::kQuiet) + 1> kinds{};
  for (uint64_t seed = 0; seed < 400; ++seed) {
    World world(seed, {}, false);
    world.Run();
    for (const Record& record : world.env().history.records) {
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

// Else worlds would not be cruel enough to show what the hold-off is for.
TEST(World, AFailoverWithoutHoldOffShowsTwoHolders) {
  for (const Topology topology : {Topology::kSentinel, Topology::kCluster}) {
    const WorldWishes wishes{.topology = topology, .hold_off = false};
    bool shown = false;
    for (uint64_t seed = 0; seed < 1000 && !shown; ++seed) {
      for (const std::string& story : World(seed, wishes, false).Run().violations) shown |= story.starts_with("I1:");
    }
    EXPECT_TRUE(shown) << "topology " << static_cast<int>(topology);
  }
}

TEST(World, AFailoverWithHoldOffRunsClean) {
  for (const Topology topology : {Topology::kSentinel, Topology::kCluster}) {
    int failovers = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      World world(seed, {.topology = topology}, false);
      const Outcome outcome = world.Run();
      EXPECT_TRUE(outcome.violations.empty()) << "seed " << seed << ": " << outcome.violations.front();
      failovers += static_cast<int>(std::ranges::count_if(world.env().history.records, [](const Record& record) {
        return record.kind == RecordKind::kFault && record.code == static_cast<uint8_t>(FaultKind::kPromoted);
      }));
    }
    EXPECT_GT(failovers, 60) << "topology " << static_cast<int>(topology);
  }
}

TEST(World, EachWorkloadRunsClean) {
  for (const auto& [name, workload] : Workloads()) {
    for (uint64_t seed = 500; seed < 520; ++seed) {
      const Outcome outcome = World(seed, workload, false).Run();
      EXPECT_TRUE(outcome.violations.empty()) << name << " seed " << seed << ": " << outcome.violations.front();
    }
  }
}

}  // namespace
}  // namespace distlock::sim
