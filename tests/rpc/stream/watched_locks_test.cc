// SPDX-License-Identifier: Apache-2.0
#include "rpc/stream/watched_locks.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

namespace distlock::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr core::Instant kNow{};

core::LockName Named(const std::string& key) { return core::LockName::Encode("default", key); }

core::LockView View(const std::string& key, size_t holders, size_t waiters = 0) {
  core::LockView view;
  view.name = Named(key);
  view.holders.resize(holders);
  view.holder_count = static_cast<uint32_t>(holders);
  view.waiters.resize(waiters);
  view.queue_length = static_cast<uint32_t>(waiters);
  return view;
}

// The keys of the next changes, with the number of holders: "a1".
std::vector<std::string> Taken(WatchedLocks& locks, size_t most = 100) {
  std::vector<std::string> taken;
  for (const auto& change : locks.TakeChanges(most)) {
    taken.push_back(change.view.name.Decode().second + std::to_string(change.view.holder_count));
  }
  return taken;
}

std::vector<core::SessionId> Dropped(WatchedLocks& locks) {
  std::vector<core::SessionId> dropped;
  for (const auto& one : locks.TakeDropped()) dropped.push_back(one.watch);
  return dropped;
}

TEST(WatchedLocks, ListedComesOnceWithTheLastLockOfTheFirstRound) {
  WatchedLocks locks(10);
  locks.Add(Named("a"), 1);
  locks.See(1, View("a", 1), kNow);
  locks.EndRound(/*complete=*/false);
  EXPECT_THAT(Taken(locks), testing::ElementsAre("a1"));
  EXPECT_FALSE(locks.TakeListed()) << "the round was cut short";
  locks.Add(Named("b"), 2);
  locks.EndRound(true);
  EXPECT_FALSE(locks.TakeListed()) << "b was found, but not seen";
  locks.See(2, View("b", 1), kNow);
  locks.Add(Named("c"), 3);
  EXPECT_FALSE(locks.TakeListed()) << "b was seen, but not told";
  EXPECT_THAT(Taken(locks), testing::ElementsAre("b1"));
  EXPECT_TRUE(locks.TakeListed()) << "c was found later";
  EXPECT_FALSE(locks.TakeListed());
}

TEST(WatchedLocks, ListedNeedNotWaitForTheChangesBehindIt) {
  WatchedLocks locks(10);
  locks.Add(Named("a"), 1);
  locks.See(1, View("a", 1), kNow);
  locks.EndRound(true);
  locks.Add(Named("b"), 2);
  locks.See(2, View("b", 1), kNow);
  EXPECT_THAT(Taken(locks, 1), testing::ElementsAre("a1"));
  EXPECT_TRUE(locks.TakeListed());
}

TEST(WatchedLocks, AnEmptyStoreIsListed) {
  WatchedLocks locks(10);
  locks.EndRound(true);
  EXPECT_TRUE(locks.TakeListed());
}

TEST(WatchedLocks, OfEachLockTheNewestIsToldInTheOrderOfTheFirst) {
  WatchedLocks locks(10);
  locks.Add(Named("a"), 1);
  locks.Add(Named("b"), 2);
  locks.See(1, View("a", 1), kNow);
  locks.See(2, View("b", 1), kNow);
  locks.See(1, View("a", 2), kNow);
  EXPECT_THAT(Taken(locks), testing::ElementsAre("a2", "b1"));
  locks.See(1, View("a", 0), kNow);
  EXPECT_THAT(Taken(locks), testing::ElementsAre("a0"));
}

TEST(WatchedLocks, ALockThatWasFreeWhenItWasSeenIsNotToldOf) {
  WatchedLocks locks(10);
  locks.Add(Named("a"), 1);
  locks.See(1, View("a", 0), kNow);
  EXPECT_THAT(Taken(locks), testing::IsEmpty());
  locks.See(1, View("a", 0, 1), kNow);
  EXPECT_THAT(Taken(locks), testing::ElementsAre("a0")) << "somebody waits";
}

TEST(WatchedLocks, AFreeLockIsDroppedAfterTwoWholeRounds) {
  WatchedLocks locks(10);
  locks.Add(Named("a"), 1);
  locks.Add(Named("b"), 2);
  locks.See(1, View("a", 1), kNow);
  locks.See(1, View("a", 0), kNow);
  locks.See(2, View("b", 1), kNow);
  Taken(locks);
  locks.EndRound(true);
  locks.EndRound(true);
  EXPECT_TRUE(locks.Knows(Named("a")));
  EXPECT_THAT(Dropped(locks), testing::IsEmpty());
  locks.EndRound(false);
  EXPECT_TRUE(locks.Knows(Named("a"))) << "a round that was cut short has not shown all locks";
  locks.EndRound(true);
  EXPECT_FALSE(locks.Knows(Named("a")));
  EXPECT_THAT(Dropped(locks), testing::ElementsAre(1));
  locks.See(1, View("a", 1), kNow);
  EXPECT_THAT(Taken(locks), testing::IsEmpty()) << "what was under way then";
  EXPECT_TRUE(locks.Knows(Named("b")));
}

TEST(WatchedLocks, WhatIsTakenAgainStays) {
  WatchedLocks locks(10);
  locks.Add(Named("a"), 1);
  locks.See(1, View("a", 0), kNow);
  locks.See(1, View("a", 1), kNow);
  Taken(locks);
  for (int i = 0; i < 5; ++i) locks.EndRound(true);
  EXPECT_TRUE(locks.Knows(Named("a")));
}

TEST(WatchedLocks, NobodyIsDroppedBeforeItsClientHasHeardThatItIsFree) {
  WatchedLocks locks(1);
  locks.Add(Named("a"), 1);
  locks.See(1, View("a", 1), kNow);
  locks.See(1, View("a", 0), kNow);
  for (int i = 0; i < 5; ++i) locks.EndRound(true);
  EXPECT_FALSE(locks.Add(Named("b"), 2));
  EXPECT_THAT(Taken(locks), testing::ElementsAre("a0"));
  EXPECT_TRUE(locks.Add(Named("b"), 2));
  EXPECT_THAT(Dropped(locks), testing::ElementsAre(1));
}

TEST(WatchedLocks, AFullTableDropsTheOneThatIsFreeForLongest) {
  WatchedLocks locks(2);
  locks.Add(Named("a"), 1);
  locks.Add(Named("b"), 2);
  locks.See(2, View("b", 0), kNow);
  locks.EndRound(true);
  locks.See(1, View("a", 0), kNow);
  EXPECT_TRUE(locks.Add(Named("c"), 3));
  EXPECT_THAT(Dropped(locks), testing::ElementsAre(2));
  EXPECT_EQ(locks.size(), 2u);
  locks.See(1, View("a", 1), kNow);
  EXPECT_FALSE(locks.Add(Named("d"), 4)) << "a is held, and c may be";
}

TEST(WatchedLocks, AWatchThatCouldNotBeginIsForgotten) {
  WatchedLocks locks(10);
  locks.Add(Named("a"), 1);
  locks.Forget(1);
  EXPECT_THAT(Dropped(locks), testing::IsEmpty()) << "the core does not know it";
  locks.EndRound(false);
  EXPECT_FALSE(locks.Knows(Named("a")));
  locks.EndRound(true);
  EXPECT_TRUE(locks.TakeListed()) << "nothing is waited for";
}

TEST(WatchedLocks, ForeignMeansNoHolders) {
  WatchedLocks locks(10);
  locks.Add(Named("a"), 1);
  locks.Add(Named("b"), 2);
  locks.See(1, View("a", 1), kNow);
  Taken(locks);
  locks.SeeForeign(1, kNow);
  locks.SeeForeign(2, kNow);
  EXPECT_THAT(Dropped(locks), testing::ElementsAre(2));
  EXPECT_THAT(Taken(locks), testing::ElementsAre("a0"));
  EXPECT_THAT(Dropped(locks), testing::ElementsAre(1));
  EXPECT_EQ(locks.size(), 0u);
}

TEST(WatchedLocks, KeepsNoMoreOfALockThanIsTold) {
  WatchedLocks locks(10);
  locks.Add(Named("a"), 1);
  locks.See(1, View("a", 1000, 100), kNow);
  const auto change = locks.TakeChanges(1);
  ASSERT_EQ(change.size(), 1u);
  EXPECT_LE(change[0].view.holders.size(), WatchedLocks::kListed + 1);
  EXPECT_EQ(change[0].view.waiters.size(), WatchedLocks::kListed);
  EXPECT_EQ(change[0].view.holder_count, 1000u);
  EXPECT_EQ(change[0].view.queue_length, 100u);
}

// However locks come and go: at most so many are watched, those that are taken are never dropped, and what the client
// was told last of a lock that is still watched is how it was last seen.
TEST(WatchedLocks, AnyOrder) {
  uint64_t random = 1;
  const auto roll = [&random](uint64_t n) {
    random = random * 6364136223846793005u + 1;
    return (random >> 33) % n;
  };
  for (int run = 0; run < 200; ++run) {
    WatchedLocks locks(5);
    std::map<core::SessionId, std::string> key_of;
    std::map<std::string, size_t> is, told;
    core::SessionId last = 0;
    for (int step = 0; step < 200; ++step) {
      const std::string key(1, static_cast<char>('a' + roll(8)));
      switch (roll(5)) {
        case 0:
          if (!locks.Knows(Named(key)) && locks.Add(Named(key), ++last)) key_of[last] = key;
          break;
        case 1:
          locks.EndRound(roll(4) != 0);
          break;
        case 2:
          for (const auto& change : locks.TakeChanges(roll(3))) {
            told[change.view.name.Decode().second] = change.view.holder_count;
          }
          break;
        default:
          if (key_of.empty()) break;
          auto one = std::next(key_of.begin(), static_cast<std::ptrdiff_t>(roll(key_of.size())));
          const size_t holders = roll(3);
          locks.See(one->first, View(one->second, holders), kNow);
          is[one->second] = holders;
      }
      for (const auto& dropped : locks.TakeDropped()) {
        const std::string gone = dropped.name.Decode().second;
        ASSERT_EQ(is[gone], 0u);
        ASSERT_EQ(told[gone], 0u);
        ASSERT_EQ(key_of.erase(dropped.watch), 1u);
      }
      ASSERT_LE(locks.size(), 5u);
      ASSERT_EQ(locks.size(), key_of.size());
    }
    for (const auto& change : locks.TakeChanges(100)) told[change.view.name.Decode().second] = change.view.holder_count;
    for (const auto& [watch, key] : key_of) ASSERT_EQ(told[key], is[key]) << key;
  }
}

TEST(WatchedLocks, ListingsTakeATwentiethOfTheTimeAtMost) {
  EXPECT_EQ(PauseAfterListing(milliseconds(1)), seconds(1));
  EXPECT_EQ(PauseAfterListing(seconds(1)), seconds(19));
}

TEST(WatchedLocks, AgeIsTakenOffWhatIsLeft) {
  core::LockView view = View("a", 2);
  view.holders[0].time_left = seconds(3);
  view.holders[1].time_left = seconds(1);
  SubtractAge(&view, seconds(2));
  EXPECT_EQ(view.holders[0].time_left, seconds(1));
  EXPECT_EQ(view.holders[1].time_left, seconds(0));
}

}  // namespace
}  // namespace distlock::rpc
