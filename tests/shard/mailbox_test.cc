// SPDX-License-Identifier: Apache-2.0
#include "shard/mailbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <thread>

namespace distlock::shard {
namespace {

struct Item {
  int poster = 0;
  int serial = 0;
};

TEST(Mailbox, WakesOncePerBatch) {
  int wakes = 0;
  Mailbox<int> mailbox(10, [&] { ++wakes; });
  std::vector<int> first;
  std::vector<int> batch;
  EXPECT_EQ(mailbox.Drain(first, batch), core::kNever);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(mailbox.TryPost(int{i}));
  mailbox.Post(5);
  EXPECT_EQ(wakes, 1);
  const auto first_at = mailbox.Drain(first, batch);
  EXPECT_LE(first_at, BootNow());
  EXPECT_EQ(batch, (std::vector{0, 1, 2, 3, 4, 5}));
  batch.clear();
  mailbox.Post(6);
  EXPECT_EQ(wakes, 2);
  EXPECT_GE(mailbox.Drain(first, batch), first_at);
}

TEST(Mailbox, TheBoundedLaneRefusesAndRecoversAndTheOtherAlwaysDelivers) {
  Mailbox<int> mailbox(3, [] {});
  EXPECT_TRUE(mailbox.TryPost(std::vector{1, 2}));
  EXPECT_FALSE(mailbox.TryPost(std::vector{3, 4})) << "all or nothing";
  EXPECT_TRUE(mailbox.TryPost(5));
  EXPECT_FALSE(mailbox.TryPost(6));
  for (int i = 7; i < 17; ++i) EXPECT_FALSE(mailbox.Post(int{i})) << "was given back";
  EXPECT_FALSE(mailbox.TryPost(18)) << "the other lane makes no room";
  EXPECT_EQ(mailbox.waiting(), 13u);
  std::vector<int> first;
  std::vector<int> batch;
  mailbox.Drain(first, batch);
  EXPECT_EQ(batch.size(), 13u);
  EXPECT_FALSE(mailbox.TryPost(19)) << "nothing of it is handled yet";
  mailbox.Handled(13);
  EXPECT_TRUE(mailbox.TryPost(std::vector{1, 2, 3}));
  EXPECT_FALSE(mailbox.TryPost(4));
}

TEST(Mailbox, WhatComesFirstIsApartAndKeepsItsOrder) {
  Mailbox<int> mailbox(2, [] {});
  EXPECT_TRUE(mailbox.TryPost(std::vector{1, 2}));
  EXPECT_TRUE(mailbox.TryPostFirst(3)) << "the other queue is full";
  EXPECT_TRUE(mailbox.TryPostFirst(4));
  EXPECT_FALSE(mailbox.TryPostFirst(5));
  std::vector<int> first{0};
  std::vector<int> batch;
  mailbox.Drain(first, batch);
  EXPECT_EQ(first, (std::vector{0, 3, 4}));
  EXPECT_EQ(batch, (std::vector{1, 2}));
}

TEST(Mailbox, ARefusedItemIsLeftAsItWas) {
  Mailbox<std::unique_ptr<int>> mailbox(0, [] {});
  std::vector<std::unique_ptr<int>> items(1);
  items[0] = std::make_unique<int>(1);
  EXPECT_FALSE(mailbox.TryPost(std::move(items[0])));
  EXPECT_NE(items[0], nullptr);
}

TEST(Mailbox, AClosedMailboxGivesTheItemBack) {
  Mailbox<std::unique_ptr<int>> mailbox(1, [] {});
  std::vector<std::unique_ptr<int>> first;
  std::vector<std::unique_ptr<int>> unread;
  mailbox.Close(first, unread);
  const auto returned = mailbox.Post(std::make_unique<int>(1));
  ASSERT_TRUE(returned);
  EXPECT_NE(*returned, nullptr);
}

TEST(Mailbox, NobodyIsWokenAfterClose) {
  int wakes = 0;
  Mailbox<int> mailbox(10, [&] { ++wakes; });
  std::vector<int> first;
  std::vector<int> unread;
  mailbox.Close(first, unread);
  EXPECT_TRUE(mailbox.Post(1)) << "was not given back";
  EXPECT_FALSE(mailbox.TryPost(1));
  EXPECT_FALSE(mailbox.TryPostFirst(1));
  mailbox.WakeIfOpen([&] { ++wakes; });
  EXPECT_EQ(wakes, 0);
}

TEST(Mailbox, ManyPostersLoseNothingAndKeepTheirOrderAcrossLanes) {
  constexpr int kPosters = 6, kEach = 20'000;
  std::mutex mu;
  std::condition_variable woken;
  bool wake = false;
  int wakes = 0;
  Mailbox<Item> mailbox(100, [&] {
    std::lock_guard lock(mu);
    ++wakes;
    wake = true;
    woken.notify_one();
  });
  std::atomic<int> refused = 0;
  std::vector<std::thread> posters;
  for (int p = 0; p < kPosters; ++p) {
    posters.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) {
        if (i % 3 == 0) {
          mailbox.Post({p, i});
          continue;
        }
        while (!mailbox.TryPost({p, i})) {
          ++refused;
          std::this_thread::yield();
        }
      }
    });
  }
  std::map<int, int> next;
  std::vector<Item> first;
  std::vector<Item> batch;
  int batches = 0;
  for (int seen = 0; seen < kPosters * kEach;) {
    {
      std::unique_lock lock(mu);
      ASSERT_TRUE(woken.wait_for(lock, std::chrono::minutes(1), [&] { return wake; })) << "a wake-up was lost";
      wake = false;
    }
    batch.clear();
    mailbox.Drain(first, batch);
    ++batches;
    for (const Item& item : batch) ASSERT_EQ(item.serial, next[item.poster]++);
    mailbox.Handled(batch.size());
    seen += static_cast<int>(batch.size());
  }
  for (auto& poster : posters) poster.join();
  EXPECT_LE(wakes, batches);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace distlock::shard
