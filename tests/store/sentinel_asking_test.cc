// SPDX-License-Identifier: Apache-2.0
//
// The view of the sentinels: whom it asks and when, and which others it knows.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "played_sentinels.h"
#include "store/sentinel/sentinel_view.h"

namespace distlock::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class SentinelAskingTest : public PlayedSentinels {};

// ---- Asking ----

TEST_F(SentinelAskingTest, EachIsAskedEachSecond) {
  Make(2);
  Says(0, "a", 1);
  Says(1, "a", 1);
  asks_.clear();
  Pass(seconds(10));
  for (const SentinelId id : {0, 1}) {
    EXPECT_EQ(std::count_if(asks_.begin(), asks_.end(), [id](const auto& ask) { return ask.first == id; }), 10);
  }
}

TEST_F(SentinelAskingTest, ASwitchIsAskedAboutAtOnceButNotTwiceAtATime) {
  Make(3);
  for (const SentinelId id : {0, 1, 2}) Says(id, "a", 1);
  Pass(milliseconds(300));
  said_.erase(2);  // does not answer
  asks_.clear();
  Give(SentinelView::Switched{2});
  ASSERT_EQ(asks_.size(), 1u);
  EXPECT_EQ(asks_[0], std::pair(2, now_));
  Give(SentinelView::Switched{2});
  EXPECT_EQ(asks_.size(), 1u) << "the first question is not answered yet";
  asked_.clear();
  Give(SentinelView::NoAnswer{2});
  EXPECT_EQ(asks_.size(), 2u) << "the answer may be older than the second switch";
}

TEST_F(SentinelAskingTest, InDoubtAllAreAskedSoonButNotWithoutEnd) {
  Make(3);
  for (const SentinelId id : {0, 1, 2}) Says(id, "a", 1);
  Pass(milliseconds(500));
  asks_.clear();
  for (int i = 0; i < 50; ++i) {
    Give(SentinelView::PrimaryDoubted{});
    AnswerAsks();
    Pass(milliseconds(1));
  }
  EXPECT_EQ(asks_.size(), 3u);
  Pass(SentinelView::kAskAgain);
  EXPECT_EQ(asks_.size(), 6u);
}

// ---- Others ----

TEST_F(SentinelAskingTest, OthersAreLearnedUpToABoundAndForgottenWhenNobodyNamesThem) {
  Make(1);
  std::vector<ServerAddress> peers;
  for (int i = 0; i < 20; ++i) peers.push_back(HostAt("p" + std::to_string(i)));
  Says(0, "a", 1, peers);
  EXPECT_EQ(view_->known(), 1 + SentinelView::kMaxLearned);
  Pass(SentinelView::kForgetPeer * 2);
  EXPECT_TRUE(drops_.empty()) << "they are named, though they cannot be reached";
  Says(0, "a", 1);
  Pass(SentinelView::kForgetPeer + seconds(2));
  EXPECT_EQ(drops_.size(), SentinelView::kMaxLearned);
  EXPECT_EQ(view_->known(), 1u);
}

TEST_F(SentinelAskingTest, AnUnknownNameIsToldOnceAMajorityDoesNotKnowIt) {
  Make(3);
  for (const SentinelId id : {0, 1}) {
    up_.insert(id);
    Give(SentinelView::Up{id});
    asked_.clear();
    EXPECT_TRUE(wrong_names_.empty());
    Give(SentinelView::NameUnknown{id, {"cache", "locks" + std::to_string(id)}});
  }
  ASSERT_EQ(wrong_names_.size(), 1u);
  EXPECT_EQ(wrong_names_[0], (std::vector<std::string>{"cache", "locks0", "locks1"}));
}

}  // namespace
}  // namespace distlock::store
