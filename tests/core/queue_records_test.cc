// SPDX-License-Identifier: Apache-2.0
//
// Queues without waiters and grants: see queues_test.cc for what callers see of them.
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "alone.h"
#include "core/queues.h"

namespace distlock::core {
namespace {

constexpr Want kReading{.mode = Mode::kShared};
constexpr Want kPreferredWriter{.policy = Policy::kWriterPreferring};

struct Standing : Alone {
  Queues queues{core, none};
  std::deque<Waiter> waiters;

  Waiter& Join(int owner, const Want& want = {}, const std::string& key = "a") {
    Waiter& waiter = waiters.emplace_back(none);
    waiter.serial = core.NextSerial();
    waiter.spec.name = Name(key);
    waiter.spec.owner = Owner(owner);
    waiter.spec.want = want;
    queues.Join(waiter);
    return waiter;
  }
  LocalQueue& queue() { return *queues.Find(Name("a")); }
  StoreTend Tend() {
    queues.Tend(queue());
    return Take<StoreTend>().at(0);
  }
  // Returns the owners whose places are lost.
  std::vector<OwnerId> Answer(const StoreTend& tend, const TendDone& done) {
    const std::optional<Op> sent = core.TakeOp(tend.op);
    std::vector<OwnerId> lost;
    for (const Waiter* const waiter : queues.OnTended(*sent, tend.op, &done)) lost.push_back(waiter->spec.owner);
    return lost;
  }
  static TendDone HeldBy(int owner, uint64_t as_of = 0) {
    return {.holders = {{.owner = Owner(owner), .time_left = kT}}, .as_of = as_of};
  }
};

TEST(QueueRecords, PlacesAreInOrderOfArrivalBehindThePreferred) {
  Standing t;
  t.Join(1, kReading);
  t.Join(2, kPreferredWriter);
  t.Join(3, kReading);
  t.Join(4, kPreferredWriter);
  const std::vector order{Owner(2), Owner(4), Owner(1), Owner(3)};
  const StoreTend tend = t.Tend();
  EXPECT_EQ(tend.asked, order);
  EXPECT_EQ(t.Answer(tend, {.slot_was_gone = true}), order) << "new places are asked for in the old order";
}

TEST(QueueRecords, TheLastWaiterTakesTheQueueAway) {
  Standing t;
  Waiter& first = t.Join(1);
  Waiter& second = t.Join(2);
  const StoreTend tend = t.Tend();
  t.queues.Leave(first);
  EXPECT_EQ(t.queue().waiters.size(), 1u);
  t.queues.Leave(second);
  t.queues.Leave(second);
  EXPECT_EQ(t.queues.size() + t.core.timers.size(), 0u);
  t.Join(3);
  const Instant next = t.queue().at;
  t.Answer(tend, Standing::HeldBy(9, 70));
  EXPECT_EQ(t.queue().seen_as_of, 0u) << "that look was for others";
  EXPECT_EQ(t.queue().at, next);
}

TEST(QueueRecords, AfterAReaderAllAreAskedForUntilTheQueueIsGone) {
  Standing t;
  t.Join(1);
  t.Join(2);
  EXPECT_EQ(t.Tend().asked.size(), 1u);
  Waiter& reader = t.Join(3, kReading);
  t.queues.Leave(reader);
  EXPECT_EQ(t.Tend().asked.size(), 2u) << "the reader may have let others in";
}

TEST(QueueRecords, AnEarlierLookReplacesALaterOneOnly) {
  Standing t;
  t.Join(1);
  const Instant slot = t.queue().at;
  EXPECT_EQ(slot, t.now + t.core.config.queue_slot / 3);
  t.queues.LookBy(Name("a"), slot + seconds(1));
  EXPECT_EQ(t.queue().at, slot);
  t.queues.LookBy(Name("a"), t.now + seconds(1));
  EXPECT_EQ(t.queue().at, t.now + seconds(1));
  t.queues.LookBy(Name("b"), t.now + seconds(1));
  EXPECT_EQ(t.queues.size(), 1u);
}

// Some servers of a quorum answer a tend before a release there, and the others so late that the release is done first.
TEST(QueueRecords, AnAnswerOnItsWayPutsOffNoLook) {
  Standing t;
  t.Join(1);
  const StoreTend before = t.Tend();
  t.queues.LookBy(Name("a"), t.now + seconds(1));
  const auto tends = t.Take<StoreTend>();
  ASSERT_EQ(tends.size(), 1u);
  t.Answer(before, Standing::HeldBy(9, 70));
  EXPECT_LE(t.queue().at, t.now + kAttemptMax) << "as it was before the release";
  t.Answer(tends[0], TendDone{.left = seconds(1)});
  EXPECT_LT(t.queue().at, t.now + seconds(1) + 2 * kTendRetry);
}

TEST(QueueRecords, WithoutTheStoreNothingIsDueUntilItIsBack) {
  Standing t;
  t.Join(2, {}, "b");
  t.Join(1);
  t.core.store_up = false;
  t.queues.TendAll();
  EXPECT_TRUE(t.Take<StoreTend>().empty());
  EXPECT_EQ(t.core.timers.size(), 0u);
  t.core.store_up = true;
  t.queues.TendAll();
  const auto tends = t.Take<StoreTend>();
  ASSERT_EQ(tends.size(), 2u);
  EXPECT_EQ(tends[0].name, Name("a"));
  EXPECT_EQ(tends[1].name, Name("b"));
}

// Its waiter has got the lock, and nobody else waits here.
TEST(QueueRecords, AnAnswerForAQueueThatIsGoneIsNothing) {
  Standing t;
  Waiter& waiter = t.Join(1);
  const StoreTend tend = t.Tend();
  t.queues.Leave(waiter);
  EXPECT_TRUE(t.Answer(tend, Standing::HeldBy(1)).empty());
  EXPECT_EQ(t.queues.size() + t.core.timers.size(), 0u);
}

TEST(QueueRecords, WhatAHolderSaysOfItselfIsKeptWhileItHolds) {
  Standing t;
  t.Join(1);
  t.queue().holders = {{.owner = Owner(9), .time_left = seconds(1), .info = "who"}};
  t.Answer(t.Tend(), Standing::HeldBy(9));
  ASSERT_EQ(t.queue().holders.size(), 1u);
  EXPECT_EQ(t.queue().holders[0].info, "who");
  EXPECT_EQ(t.queue().holders[0].time_left, kT);
  t.Answer(t.Tend(), Standing::HeldBy(8));
  EXPECT_TRUE(t.queue().holders.empty()) << "a tend does not bring what the next one says";
}

TEST(QueueRecords, OnlyTheLastTendSaysHowNewItsAnswerIs) {
  Standing t;
  t.Join(1);
  const StoreTend earlier = t.Tend();
  t.Pass(seconds(1));
  const StoreTend later = t.Tend();
  t.Answer(earlier, Standing::HeldBy(9, 70));
  EXPECT_EQ(t.queue().seen_as_of, 0u);
  EXPECT_EQ(t.queue().op, later.op);
  t.Answer(later, Standing::HeldBy(9, 71));
  EXPECT_EQ(t.queue().seen_as_of, 71u);
  EXPECT_EQ(t.queue().seen_sent, t.now);
  EXPECT_EQ(t.queue().op, 0u);
}

}  // namespace
}  // namespace distlock::core
