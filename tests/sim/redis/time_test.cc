// SPDX-License-Identifier: Apache-2.0
#include "redis/model_fixture.h"

namespace distlock::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class TimeTest : public ModelTest {};

TEST_F(TimeTest, TimeIsTheCallersAndStandsStill) {
  EXPECT_EQ(Do({"TIME"}), R"(["1700000000", "0"])");
  model.SetClock(kStart + 1'000'007);
  EXPECT_EQ(Do({"TIME"}), R"(["1700000001", "7"])");
  model.SetClock(kStart - 1);
  EXPECT_EQ(Do({"TIME"}), R"(["1699999999", "999999"])");
}

TEST_F(TimeTest, AKeyLivesThroughTheMillisecondOfItsExpiry) {
  Do({"SET", "k", "v", "PX", "5"});
  model.SetClock(kStart + 6 * kMs - 1);
  EXPECT_EQ(Do({"PTTL", "k"}), "0");
  EXPECT_EQ(model.Pttl("k"), 0);
  EXPECT_EQ(Do({"GET", "k"}), "\"v\"");
  model.SetClock(kStart + 6 * kMs);
  EXPECT_EQ(model.Pttl("k"), -2);
  EXPECT_EQ(Do({"GET", "k"}), "nil");
}

TEST_F(TimeTest, ExpiryByAccessDeletes) {
  Do({"SET", "a", "v", "PX", "1"});
  Do({"SET", "b", "v", "PX", "1"});
  changes.clear();
  model.SetClock(kStart + kMs * 2);
  EXPECT_EQ(model.Type("a"), KeyType::kNone);
  EXPECT_THAT(changes, IsEmpty());
  EXPECT_EQ(Do({"EXISTS", "a"}), "0");
  EXPECT_THAT(changes, ElementsAre("expired a"));
  // An expired key that no command has touched exists again when the clock goes back.
  model.SetClock(kStart);
  EXPECT_EQ(Do({"EXISTS", "a", "b"}), "1");
}

TEST_F(TimeTest, AdvanceExpiresInOrder) {
  Do({"SET", "c", "v", "PX", "1"});
  Do({"SET", "a", "v", "PX", "2"});
  Do({"SET", "b", "v", "PX", "1"});
  Do({"SET", "z", "v", "PX", "9"});
  changes.clear();
  EXPECT_EQ(model.NextExpiry(), kStart + 2 * kMs);
  model.Advance(kStart + 2 * kMs - 1);
  EXPECT_THAT(changes, IsEmpty());
  model.Advance(kStart + 3 * kMs);
  EXPECT_THAT(changes, ElementsAre("expired b", "expired c", "expired a"));
  EXPECT_EQ(model.NextExpiry(), kStart + 10 * kMs);
  Do({"SET", "z", "v"});
  EXPECT_EQ(model.NextExpiry(), std::nullopt);
}

TEST_F(TimeTest, PexpireMovesTheExpiryAndDeletesWhenItHasCome) {
  EXPECT_EQ(Do({"PEXPIRE", "k", "5"}), "0");
  Do({"SET", "k", "v"});
  EXPECT_EQ(Do({"PEXPIRE", "k", "5"}), "1");
  EXPECT_EQ(Do({"PTTL", "k"}), "5");
  EXPECT_EQ(Do({"PEXPIREAT", "k", "1700000000007"}), "1");
  EXPECT_EQ(Do({"PEXPIRETIME", "k"}), "1700000000007");
  EXPECT_EQ(Do({"PEXPIRE", "k", "x"}), "-ERR value is not an integer or out of range");
  EXPECT_EQ(Do({"PEXPIRE", "k", "0"}), "1");
  EXPECT_EQ(Do({"EXISTS", "k"}), "0");
  EXPECT_EQ(changes.back(), "deleted k");
}

TEST_F(TimeTest, WritingInPlaceKeepsTheExpiry) {
  Do({"ZADD", "z", "1", "a"});
  Do({"PEXPIRE", "z", "5"});
  Do({"ZADD", "z", "2", "b"});
  EXPECT_EQ(model.Pttl("z"), 5);
}

TEST_F(TimeTest, AnExpiredCollectionIsMadeAnew) {
  Do({"ZADD", "z", "1", "a"});
  Do({"PEXPIRE", "z", "5"});
  model.SetClock(kStart + 6 * kMs);
  EXPECT_EQ(Do({"ZADD", "z", "1", "b"}), "1");
  EXPECT_EQ(Do({"ZCARD", "z"}), "1");
  EXPECT_EQ(model.Pttl("z"), -1);
}

}  // namespace
}  // namespace distlock::sim
