// SPDX-License-Identifier: Apache-2.0
#include "shard/loop.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "shard/boot_clock.h"

namespace distlock::shard {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// Runs `turn` at the end of each turn until it returns false.
template <typename First, typename TurnFn>
void RunLoop(First first, TurnFn turn) {
  std::unique_ptr<Loop> loop;
  loop = std::make_unique<Loop>([&] {
    if (!turn(*loop)) loop->Close();
  });
  first(*loop);
  loop->Run();
}

TEST(Loop, ATurnAskedForComesWithoutAnEvent) {
  int turns = 0;
  RunLoop([](Loop& loop) { loop.RequestTurn(); },
          [&](Loop& loop) {
            loop.RequestTurn();
            return ++turns < 5;
          });
  EXPECT_EQ(turns, 5);
}

TEST(Loop, WakesFromAnotherThread) {
  std::thread waker;
  int turns = 0;
  RunLoop([&](Loop& loop) { waker = std::thread([&] { loop.Wake(); }); }, [&](Loop&) { return ++turns < 1; });
  waker.join();
  EXPECT_EQ(turns, 1);
}

TEST(Loop, ADeadlineIsNotMissedAndNotEarly) {
  const auto deadline = BootNow() + milliseconds(20);
  RunLoop(
      [&](Loop& loop) {
        loop.WakeAt(core::kNever);
        loop.WakeAt(deadline + hours(1));
        loop.WakeAt(deadline);
        loop.WakeAt(deadline + hours(2));
      },
      [&](Loop&) {
        EXPECT_GE(BootNow(), deadline);
        return false;
      });
}

TEST(Loop, APassedDeadlineWakesAtOnceAndEachTime) {
  int turns = 0;
  const auto set = [](Loop& loop) { loop.WakeAt(core::Instant{} - hours(1)); };
  RunLoop(set, [&](Loop& loop) {
    set(loop);
    return ++turns < 3;
  });
  EXPECT_EQ(turns, 3);
}

TEST(Loop, GoesWithoutHavingRun) {
  Loop loop([] {});
}

}  // namespace
}  // namespace distlock::shard
