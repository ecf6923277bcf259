// SPDX-License-Identifier: Apache-2.0
#include "shard/backlog.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace distlock::shard {
namespace {

TEST(Backlog, ASessionThatSentMuchDelaysTheOthersByOneOnly) {
  Backlog<std::pair<int, int>> backlog;
  for (int i = 0; i < 1000; ++i) backlog.Add(1, {1, i});
  for (int session = 2; session <= 4; ++session) backlog.Add(session, {session, 0});
  EXPECT_EQ(backlog.Take(), (std::pair{1, 0}));
  for (int session = 2; session <= 4; ++session) EXPECT_EQ(backlog.Take(), (std::pair{session, 0}));
  EXPECT_EQ(backlog.size(), 999u);
  backlog.Add(5, {5, 0});
  EXPECT_EQ(backlog.Take(), (std::pair{1, 1}));
  EXPECT_EQ(backlog.Take(), (std::pair{5, 0}));
}

TEST(Backlog, EachSessionKeepsItsOrderAndNothingIsLost) {
  Backlog<std::pair<uint64_t, int>> backlog;
  std::vector<int> sent(7);
  std::vector<int> taken(7);
  int waiting = 0;
  for (int step = 0; step < 5000; ++step) {
    const uint64_t session = static_cast<uint64_t>(step * step) % 7;
    backlog.Add(session, {session, sent[session]++});
    ++waiting;
    for (int i = step % 3; i > 0 && !backlog.empty(); --i, --waiting) {
      const auto [of, serial] = backlog.Take();
      ASSERT_EQ(serial, taken[of]++);
    }
    ASSERT_EQ(backlog.size(), static_cast<size_t>(waiting));
  }
  while (!backlog.empty()) {
    const auto [of, serial] = backlog.Take();
    ASSERT_EQ(serial, taken[of]++);
  }
  EXPECT_EQ(sent, taken);
}

}  // namespace
}  // namespace distlock::shard
