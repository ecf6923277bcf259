// SPDX-License-Identifier: Apache-2.0
//
// The view of the sentinels: whom it believes, and when.
#include "store/sentinel/sentinel_view.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "played_sentinels.h"

namespace distlock::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class SentinelViewTest : public PlayedSentinels {};

// ---- The first choice ----

TEST_F(SentinelViewTest, AMajorityOfTheConfiguredChoosesFirst) {
  Make(3);
  EXPECT_EQ(dials_.size(), 3u);
  Says(0, "a", 4);
  EXPECT_EQ(primary(), "") << "one of three";
  Says(2, "a", 4);
  EXPECT_EQ(primary(), "a");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(SentinelViewTest, OneOfOneIsAMajority) {
  Make(1);
  Says(0, "a", 0);
  EXPECT_EQ(primary(), "a");
}

TEST_F(SentinelViewTest, OfAMajorityTheHighestEpochIsTaken) {
  Make(3);
  Says(0, "old", 4);
  Says(1, "new", 5);
  EXPECT_EQ(primary(), "new");
}

TEST_F(SentinelViewTest, FewThatAgreeAreEnoughAfterAWhileWithAWarning) {
  Make(3);
  Says(1, "a", 4);
  Pass(SentinelView::kFewPatience - milliseconds(1));
  EXPECT_EQ(primary(), "");
  Pass(milliseconds(1));
  EXPECT_EQ(primary(), "a");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("1 of 3"), std::string::npos) << warnings_[0];
}

TEST_F(SentinelViewTest, FewAreNeverEnoughForABrokerThatMayWait) {
  Make(3, /*few_suffice=*/false);
  Says(1, "a", 4);
  Pass(seconds(60));
  EXPECT_EQ(primary(), "");
  Says(2, "a", 4);
  EXPECT_EQ(primary(), "a");
}

TEST_F(SentinelViewTest, FewThatDisagreeAreNotEnough) {
  Make(5);
  Says(1, "a", 4);
  Says(2, "b", 5);
  Pass(seconds(60));
  EXPECT_EQ(primary(), "");
}

// Two primaries in one epoch: only a majority that agrees can tell.
TEST_F(SentinelViewTest, AnEpochWithTwoPrimariesNeedsAMajorityForOne) {
  Make(3);
  Says(0, "a", 4);
  Says(1, "b", 4);
  Pass(seconds(10));
  EXPECT_EQ(primary(), "");
  Says(2, "b", 4);
  EXPECT_EQ(primary(), "b");
}

TEST_F(SentinelViewTest, ALearnedSentinelIsNoPartOfTheMajority) {
  Make(3, false);
  Says(0, "a", 4, {HostAt("s3"), HostAt("s4")});
  ASSERT_EQ(dials_.size(), 5u);
  Says(3, "a", 4);
  Says(4, "a", 4);
  Pass(seconds(10));
  EXPECT_EQ(primary(), "");
}

// ---- Failovers ----

TEST_F(SentinelViewTest, TheFirstSentinelWithAHigherEpochIsFollowed) {
  Make(3);
  for (const SentinelId id : {0, 1, 2}) Says(id, "a", 4);
  Says(2, "b", 5);
  EXPECT_EQ(primary(), "b");
  Says(0, "a", 4);
  Says(1, "a", 4);
  Pass(SentinelView::kOverrule - milliseconds(1));
  EXPECT_EQ(primary(), "b") << "those who have not heard of it yet";
}

TEST_F(SentinelViewTest, ALearnedSentinelMayBeTheFirst) {
  Make(1);
  Says(0, "a", 4, {HostAt("s1")});
  Says(1, "b", 5);
  EXPECT_EQ(primary(), "b");
}

TEST_F(SentinelViewTest, AStuckSentinelFoolsNobody) {
  Make(3);
  for (const SentinelId id : {0, 1, 2}) Says(id, "b", 5);
  Says(1, "a", 4);
  Pass(seconds(60));
  EXPECT_EQ(primary(), "b");
  EXPECT_EQ(primaries_.size(), 1u);
}

TEST_F(SentinelViewTest, ALiarOfTheSameEpochFoolsNobody) {
  Make(3);
  for (const SentinelId id : {0, 1, 2}) Says(id, "b", 5);
  Says(1, "evil", 5);
  Pass(seconds(60));
  EXPECT_EQ(primary(), "b");
}

// A promise of a higher epoch cannot be told from a failover at first, but the majority overrules it.
TEST_F(SentinelViewTest, ALiarOfAHigherEpochIsOverruledAndStaysSo) {
  Make(3);
  for (const SentinelId id : {0, 1, 2}) Says(id, "a", 5);
  Says(1, "evil", 99);
  EXPECT_EQ(primary(), "evil");
  Pass(SentinelView::kOverrule);
  EXPECT_EQ(primary(), "a");
  const size_t changes = primaries_.size();
  Pass(seconds(60));
  EXPECT_EQ(primaries_.size(), changes) << "it says the same as before";
  Says(0, "b", 6);
  EXPECT_EQ(primary(), "b") << "a real failover, below the liar's epoch";
  Says(1, "b", 100);
  EXPECT_EQ(view_->chosen()->epoch, 100u) << "it says something new";
}

TEST_F(SentinelViewTest, EpochsThatBeginAnewAreTakenOnceAMajorityHasAgreedForAWhile) {
  Make(3);
  for (const SentinelId id : {0, 1, 2}) Says(id, "a", 50);
  Says(0, "b", 0);
  Pass(seconds(60));
  EXPECT_EQ(primary(), "a") << "one of three";
  Says(1, "b", 0);
  Pass(SentinelView::kOverrule - milliseconds(1));
  EXPECT_EQ(primary(), "a");
  Pass(milliseconds(1));
  EXPECT_EQ(primary(), "b");
  EXPECT_EQ(warnings_.size(), 1u);
  Says(2, "c", 1);
  EXPECT_EQ(primary(), "c") << "the new epochs count from now on";
}

TEST_F(SentinelViewTest, AMajorityThatWaversOverrulesNothing) {
  Make(3);
  for (const SentinelId id : {0, 1, 2}) Says(id, "a", 50);
  for (int i = 0; i < 10; ++i) {
    Says(0, "b", 0);
    Says(1, "b", 0);
    Pass(SentinelView::kOverrule - milliseconds(500));
    Says(1, "a", 50);
    Pass(milliseconds(500));
  }
  EXPECT_EQ(primary(), "a");
}

TEST_F(SentinelViewTest, WithoutSentinelsThePrimaryStays) {
  Make(3);
  for (const SentinelId id : {0, 1, 2}) Says(id, "a", 5);
  for (const SentinelId id : {0, 1, 2}) Gone(id);
  Give(SentinelView::PrimaryDoubted{});
  Pass(seconds(600));
  EXPECT_EQ(primary(), "a");
  EXPECT_EQ(primaries_.size(), 1u);
  Says(1, "b", 6);
  EXPECT_EQ(primary(), "b");
}

// A sentinel's answer on a connection that is gone says nothing now.
TEST_F(SentinelViewTest, ALostSentinelDoesNotCount) {
  Make(3, false);
  Says(0, "a", 5);
  Gone(0);
  Says(1, "a", 5);
  Pass(seconds(10));
  EXPECT_EQ(primary(), "");
}

// ---- All kinds of order ----

// A failover that every sentinel learns of at some time, in any order, with losses and switches between: at the end the
// newest is followed, and the view never goes back to an older epoch.
TEST_F(SentinelViewTest, InAnyOrderTheNewestIsFollowedAndNoneIsGoneBackTo) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
    primaries_.clear();
    up_.clear();
    asked_.clear();
    said_.clear();
    const int count = 1 + draw(5);
    Make(count);
    const int last = 1 + draw(4);
    std::vector<int> epoch(static_cast<size_t>(count), 0);
    const auto show = [&](int id) { Says(id, "p" + std::to_string(epoch[id]), static_cast<uint64_t>(epoch[id])); };
    for (int id = 0; id < count; ++id) show(id);
    for (int step = 0; step < 60; ++step) {
      const int id = draw(count);
      const int what = draw(5);
      if (what == 0 && up_.contains(id)) Gone(id);
      if (what == 1 && up_.contains(id)) Give(SentinelView::Switched{id});
      if (what == 2) Give(SentinelView::PrimaryDoubted{});
      if (what == 3) {
        epoch[id] = std::min(last, epoch[id] + 1);
        show(id);
      }
      AnswerAsks();
      // All of it takes less than kOverrule, so that those who know only the old epoch never overrule it.
      if (what == 4) Pass(milliseconds(draw(80)));
    }
    for (int id = 0; id < count; ++id) {
      epoch[id] = last;
      show(id);
    }
    EXPECT_EQ(primary(), "p" + std::to_string(last)) << "seed " << seed;
    for (size_t i = 1; i < primaries_.size(); ++i) {
      EXPECT_GE(primaries_[i].epoch, primaries_[i - 1].epoch) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace distlock::store
