// SPDX-License-Identifier: Apache-2.0
//
// Several servers: holders that are told when somebody wants their locks.
#include "ballot_fixture.h"

namespace distlock::store::ballot {
namespace {

constexpr char kNumber[] = "w00000000000000b1;";

core::StoreWanted Wanted() { return {.op = 7, .name = TheLock(), .owner = OwnerOf(1), .token = kToken, .through = 9}; }

class BallotOfABroker : public BallotTest {
 protected:
  BallotOfABroker() : BallotTest(Config{.broker_id = "00000000000000b1"}) {}
};

TEST_F(BallotOfABroker, AVoteThatIsAskedForSaysWhoTellsItsHolder) {
  core::StoreAcquire acquire{.op = 2, .name = TheLock(), .owner = OwnerOf(2), .ttl = seconds(30), .info = "i"};
  acquire.tell_wanted = true;
  Step(acquire);
  ASSERT_TRUE(IsAsked<AskVote>(0));
  EXPECT_EQ(std::get<AskVote>(sent_[0].front().command).spec.info, std::string(kNumber) + "i");
}

TEST_F(BallotOfABroker, AnAdoptionSaysItBehindItsMark) {
  Step(core::StoreAdopt{.op = 7,
                        .name = TheLock(),
                        .from = OwnerOf(1),
                        .token = kToken,
                        .owner = OwnerOf(2),
                        .tell_wanted = true,
                        .info = "i"});
  ASSERT_TRUE(IsAsked<Plain>(0));
  const auto& adopt = std::get<core::StoreAdopt>(std::get<Plain>(sent_[0].front().command).command);
  EXPECT_TRUE(adopt.info.starts_with("p") && adopt.info.ends_with(std::string(";") + kNumber + "i")) << adopt.info;
  EXPECT_FALSE(adopt.tell_wanted) << "a server alone would put it in front of the mark";
}

TEST_F(BallotOfABroker, EachServerTellsTheHoldersBrokerAndAQuorumAnswers) {
  Step(Wanted());
  EXPECT_EQ(CountAsked<Plain>(), kServers);
  Answer(0, core::WantedDone{true, 1});
  EXPECT_EQ(Told<core::WantedDone>(), nullptr);
  Answer(1, core::WantedDone{true, 4});
  ASSERT_NE(Told<core::WantedDone>(), nullptr);
  EXPECT_TRUE(Told<core::WantedDone>()->is_held);
  EXPECT_EQ(Told<core::WantedDone>()->queue_length, 4u) << "at one of them";
}

TEST_F(BallotOfABroker, TheAnswerOfOneSufficesWhenTheOthersAreSilent) {
  Step(Wanted());
  Answer(0, core::WantedDone{true, 1});
  Pass(seconds(1));
  ASSERT_NE(Told<core::WantedDone>(), nullptr);
  EXPECT_EQ(Told<core::WantedDone>()->queue_length, 1u);
}

TEST_F(BallotOfABroker, WithoutAnAnswerNothingIsKnown) {
  Step(Wanted());
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, core::StoreUnknown{"reset"});
  EXPECT_EQ(Told<core::WantedDone>(), nullptr);
  EXPECT_NE(Told<core::StoreUnknown>(), nullptr);
}

}  // namespace
}  // namespace distlock::store::ballot
