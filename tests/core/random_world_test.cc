// SPDX-License-Identifier: Apache-2.0
//
// Seeded worlds around the core. DISTLOCK_SEED=n plays one again and prints what happened; DISTLOCK_SEEDS=n how many.
#include <cstdlib>
#include <iostream>

#include "gtest/gtest.h"
#include "world.h"

namespace distlock::core {
namespace {

uint64_t FromEnv(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// The same seed again, this time with its log.
void Tell(uint64_t seed, size_t lines) {
  World again(seed, /*log=*/true);
  again.Run();
  const auto& log = again.env().log;
  for (size_t i = log.size() > lines ? log.size() - lines : 0; i < log.size(); ++i) std::cout << log[i] << '\n';
}

TEST(RandomWorld, KeepsItsPromises) {
  const uint64_t only = FromEnv("DISTLOCK_SEED", 0);
  const uint64_t first = only != 0 ? only : FromEnv("DISTLOCK_FIRST_SEED", 1);
  const uint64_t count = only != 0 ? 1 : FromEnv("DISTLOCK_SEEDS", 3000);
  uint64_t grants = 0;
  int failures = 0;
  for (uint64_t seed = first; seed < first + count && failures < 5; ++seed) {
    World world(seed, /*log=*/false);
    const std::string failure = world.Run();
    grants += world.env().judge->grants();
    if (failure.empty()) continue;
    ADD_FAILURE() << "seed " << seed << ": " << failure;
    if (failures++ == 0) Tell(seed, only != 0 ? 4000 : 80);
  }
  // A world in which nothing happens proves nothing.
  if (only == 0 && failures == 0) {
    EXPECT_GT(grants, 5 * count);
  }
  std::cout << count << " worlds, " << grants << " grants\n";
}

}  // namespace
}  // namespace distlock::core
