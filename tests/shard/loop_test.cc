// SPDX-License-Identifier: Apache-2.0
#include "shard/loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

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
  std::atomic<bool> woken = false;
  RunLoop(
      [&](Loop& loop) {
        waker = std::thread([&] {
          woken = true;
          loop.Wake();
        });
      },
      [&](Loop&) {
        if (woken) waker.join();  // before Close, after which nobody may wake it
        return waker.joinable();
      });
  EXPECT_TRUE(woken);
}

// A second Wake must not be lost because the first one is still thought to be pending.
void ExpectTwoWakes(const std::function<void(Loop&)>& prepare) {
  std::atomic<int> turns = 0;
  bool prepared = false;
  std::unique_ptr<Loop> loop;
  loop = std::make_unique<Loop>([&] {
    if (!std::exchange(prepared, true)) {
      prepare(*loop);
    } else if (++turns == 2) {
      loop->Close();
    }
  });
  loop->RequestTurn();
  std::thread waker([&] {
    for (int woken = 0; woken < 2; ++woken) {
      while (turns < woken) std::this_thread::yield();
      // Only a loop that waits can be used: the wake-up ends a wait.
      while (turns < 2 && !loop->TryUse([&] { loop->Wake(); })) std::this_thread::yield();
    }
  });
  loop->Run();
  waker.join();
  EXPECT_EQ(turns, 2);
}

TEST(Loop, WakesTwice) {
  ExpectTwoWakes([](Loop&) {});
}

// libuv 1.49.0 watches its own wake-up descriptor edge-triggered: whoever takes that event from libuv's epoll takes it
// from libuv.
TEST(Loop, WakesTwiceWhenLibuvIsToldOfAWakeUpOnlyOnce) {
  ExpectTwoWakes([](Loop& loop) {
    const int fd = loop.uv()->async_io_watcher.fd;
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.fd = fd;
    ASSERT_EQ(epoll_ctl(uv_backend_fd(loop.uv()), EPOLL_CTL_MOD, fd, &event), 0) << std::strerror(errno);
  });
}

TEST(Loop, IsUsedByAnotherThreadWhileItWaits) {
  std::thread user;
  bool used = false;
  bool turn_came = false;
  RunLoop(
      [&](Loop& loop) {
        user = std::thread([&] {
          const auto use = [&] {
            EXPECT_TRUE(loop.Held());
            used = true;
            loop.RequestTurn();  // or the loop would wait for ever
          };
          while (!loop.TryUse(use)) std::this_thread::yield();
        });
      },
      [&](Loop& loop) {
        EXPECT_TRUE(loop.Held());
        turn_came = used;
        return !turn_came;
      });
  user.join();
  EXPECT_TRUE(turn_came);
}

TEST(Loop, ADeadlineSetByAnotherThreadIsNotMissed) {
  std::thread user;
  const auto deadline = BootNow() + milliseconds(20);
  bool used = false;
  RunLoop(
      [&](Loop& loop) {
        user = std::thread([&] {
          const auto use = [&] {
            used = true;
            loop.WakeAt(deadline);
          };
          while (!loop.TryUse(use)) std::this_thread::yield();
        });
      },
      [&](Loop&) { return !used || BootNow() < deadline; });
  user.join();
}

TEST(Loop, IsNotUsedBeforeItRunsNorWhileItWorksNorOnceItIsClosed) {
  const auto nobody = [] { ADD_FAILURE(); };
  std::unique_ptr<Loop> loop;
  const auto use_elsewhere = [&] {
    bool used = true;
    std::thread([&] { used = loop->TryUse(nobody); }).join();
    return used;
  };
  loop = std::make_unique<Loop>([&] {
    EXPECT_FALSE(use_elsewhere());
    loop->Close();
  });
  EXPECT_FALSE(use_elsewhere());
  loop->RequestTurn();
  loop->Run();
  EXPECT_FALSE(use_elsewhere());
}

TEST(Loop, WhatFollowsATurnDoesNotHoldTheLoop) {
  bool used = false;
  std::unique_ptr<Loop> loop;
  const auto after_turn = [&] {
    if (used) return;
    const auto use = [&] {
      used = true;
      loop->RequestTurn();
    };
    std::thread([&] { EXPECT_TRUE(loop->TryUse(use)); }).join();
  };
  loop = std::make_unique<Loop>(
      [&] {
        if (used) loop->Close();
      },
      after_turn);
  loop->Run();
  EXPECT_TRUE(used);
}

TEST(Loop, ADeadlineIsNotMissed) {
  const auto deadline = BootNow() + milliseconds(20);
  RunLoop(
      [&](Loop& loop) {
        loop.WakeAt(core::kNever);
        loop.WakeAt(deadline + hours(1));
        loop.WakeAt(deadline);
        loop.WakeAt(deadline + hours(2));
      },
      [&](Loop&) { return BootNow() < deadline; });
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
