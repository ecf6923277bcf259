// SPDX-License-Identifier: Apache-2.0
//
// Which servers are taken for one quorum, and which get its mark.
#include "store/redlock/ballot/membership.h"

#include <gtest/gtest.h>

namespace distlock::store::ballot {
namespace {

constexpr uint32_t kAll = 0b111;

struct MembershipTest : testing::Test {
  Membership members{{"b:6379", "a:6379", "c:6379"}};
};

TEST_F(MembershipTest, TheMarkNamesAllInOrder) {
  EXPECT_EQ(members.mark(), "3;a:6379,b:6379,c:6379");
  EXPECT_EQ(Membership({"c:6379", "a:6379", "b:6379"}).mark(), members.mark());
}

TEST_F(MembershipTest, TheFirstStartNeedsAllServers) {
  members.OnMark(0, "");
  members.OnMark(2, "");
  EXPECT_EQ(members.ToMark(), 0u);
  EXPECT_NE(members.WhyNot(0).find("first start needs all 3"), std::string::npos);
  members.OnMark(1, "");
  EXPECT_EQ(members.ToMark(), kAll);
  EXPECT_FALSE(members.established());
}

TEST_F(MembershipTest, WhoHasForgottenIsTakenInAgain) {
  members.OnMark(1, members.mark());
  EXPECT_TRUE(members.IsMember(1));
  EXPECT_EQ(members.WhyNot(1), "");
  EXPECT_EQ(members.ToMark(), 0u);
  members.OnMark(0, "");
  EXPECT_EQ(members.ToMark(), 0b001u) << "although not all servers are there";
  members.OnDown(1);
  EXPECT_FALSE(members.IsMember(1));
  EXPECT_EQ(members.ToMark(), 0b001u) << "it was seen";
}

TEST_F(MembershipTest, NobodyIsMarkedBesideAServerOfAnotherQuorum) {
  members.OnMark(0, "3;a:6379,b:6379,d:6379");
  members.OnMark(1, "");
  members.OnMark(2, members.mark());
  EXPECT_TRUE(members.IsAnothers(0));
  EXPECT_EQ(members.ToMark(), 0u);
  EXPECT_NE(members.WhyNot(0).find("d:6379"), std::string::npos);
  EXPECT_NE(members.WhyNot(0).find("quorum-init"), std::string::npos);
}

TEST_F(MembershipTest, AMarkOfAnythingIsShownWithoutControlCharacters) {
  members.OnMark(0, "\x1b[2J\n" + std::string(1000, 'x'));
  const std::string why = members.WhyNot(0);
  EXPECT_EQ(why.find('\x1b'), std::string::npos);
  EXPECT_LT(why.size(), 600u);
}

}  // namespace
}  // namespace distlock::store::ballot
