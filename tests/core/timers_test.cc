// SPDX-License-Identifier: Apache-2.0
#include "core/timers.h"

#include <deque>
#include <random>
#include <set>
#include <utility>

#include "gtest/gtest.h"

namespace distlock::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Against a sorted set, whatever is set, moved, cancelled and taken.
TEST(Timers, AreTakenInOrderOfTimeAndThenOfCreation) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    Timers timers;
    std::deque<Timed> records;
    for (uint64_t serial = 1; serial <= 300; ++serial) records.emplace_back().serial = serial;
    std::set<std::pair<Instant, uint64_t>> model;
    Instant now(seconds(1000));
    // Coarse steps make many of them equal; fine ones share a millisecond without being equal.
    const Duration steps[] = {Duration(1), Duration(100'000), milliseconds(1), milliseconds(50), seconds(1)};
    for (int i = 0; i < 3000; ++i) {
      Timed& timed = records[random() % records.size()];
      if (random() % 8 == 0) now += steps[random() % 5] * static_cast<int64_t>(random() % 20);
      const bool cancel = random() % 4 == 0;
      const Instant at = cancel ? kNever : now + steps[random() % 5] * (static_cast<int64_t>(random() % 40) - 4);
      model.erase({timed.at, timed.serial});
      timers.Set(timed, at);
      if (!cancel) model.insert({at, timed.serial});
      if (random() % 3 == 0) {
        Timed* due = timers.PopDue(now);
        const bool expected = !model.empty() && model.begin()->first <= now;
        ASSERT_EQ(due != nullptr, expected) << "seed " << seed << ", step " << i;
        if (due != nullptr) {
          ASSERT_EQ(due->serial, model.begin()->second) << "seed " << seed << ", step " << i;
          ASSERT_EQ(due->at, kNever);
          model.erase(model.begin());
        }
      }
      if (random() % 2 == 0) {
        ASSERT_EQ(timers.Earliest(), model.empty() ? kNever : model.begin()->first)
            << "seed " << seed << ", step " << i;
      }
      ASSERT_EQ(timers.size(), model.size());
    }
    for (Timed& timed : records) timers.Cancel(timed);
    EXPECT_EQ(timers.size(), 0U);
    EXPECT_EQ(timers.Earliest(), kNever);
    EXPECT_EQ(timers.PopDue(now + seconds(100)), nullptr);
  }
}

TEST(Timers, OneThatIsSetWhileOthersOfItsTimeAreTakenComesInItsTurn) {
  Timers timers;
  Timed first, second, third;
  first.serial = 1;
  second.serial = 2;
  third.serial = 3;
  const Instant at(seconds(5));
  timers.Set(first, at);
  timers.Set(third, at);
  EXPECT_EQ(timers.PopDue(at - Duration(1)), nullptr);
  EXPECT_EQ(timers.PopDue(at), &first);
  timers.Set(second, at);
  EXPECT_EQ(timers.PopDue(at), &second);
  EXPECT_EQ(timers.PopDue(at), &third);
  EXPECT_EQ(timers.PopDue(at), nullptr);
}

}  // namespace
}  // namespace distlock::core
