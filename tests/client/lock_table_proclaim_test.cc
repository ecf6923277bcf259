// SPDX-License-Identifier: Apache-2.0
//
// The lock table: a leader changes what others see of it.
#include "lock_table_fixture.h"

namespace distlock::internal {
namespace {

class ProclaimTest : public LockTableTest {
 protected:
  ProclaimTest() : LockTableTest(2) {
    lease_ = Acquire("a");
    Grant(lease_);
    Drain();
  }

  // Asks for it at this moment, and returns what is sent then.
  Strings Proclaim(const std::string& value) {
    table_.Proclaim(
        lease_, WithMetadata(*lease_->spec, "v", value),
        [this, value](std::optional<Refusal> refusal) {
          told_.push_back(value + ": " + (refusal ? std::string(Name(refusal->reason)) : "shown"));
        },
        now_, fx_);
    table_.Tick(now_, fx_);
    Settle();
    return Drain();
  }

  bool IsHeld() {
    table_.Notice(lease_, now_, fx_);
    Settle();
    return lease_->phase == Lease::Phase::kHeld;
  }

  LeasePtr lease_;
  Strings told_;
};

TEST_F(ProclaimTest, TheSessionAdoptsItsOwnLease) {
  EXPECT_EQ(Proclaim("x"), Strings{"adopt 3: lease-2 as request 1"});
  EXPECT_TRUE(told_.empty());
  Say("id: 2 lost { reason: LOST_REASON_MOVED }");
  SayGranted(3, 0);
  EXPECT_EQ(told_, Strings{"x: shown"});
  EXPECT_TRUE(IsHeld());
  EXPECT_FALSE(lease_->at_risk);
  EXPECT_EQ(Proclaim("y"), Strings{"adopt 4: lease-3 as request 2"});
}

TEST_F(ProclaimTest, OfSeveralTheLastOneCountsForAll) {
  Proclaim("x");
  EXPECT_EQ(Proclaim("y"), Strings{}) << "one at a time";
  SayGranted(3, 0);
  EXPECT_TRUE(told_.empty());
  TickAt(now_);
  EXPECT_EQ(Drain(), Strings{"adopt 4: lease-3 as request 2"});
  SayGranted(4, 0);
  EXPECT_EQ(told_, (Strings{"x: shown", "y: shown"}));
}

TEST_F(ProclaimTest, WhatTheStoreCannotTellIsAskedAgain) {
  Proclaim("x");
  Say("id: 3 refused { reason: REFUSAL_REASON_STORE_UNAVAILABLE }");
  EXPECT_TRUE(told_.empty());
  TickAt(now_ + 600 * kMs);
  EXPECT_EQ(Drain(), Strings{"adopt 4: lease-2 as request 1"});
  SayGranted(4, 0);
  EXPECT_EQ(told_, Strings{"x: shown"});
}

TEST_F(ProclaimTest, WhatTheBrokerDoesNotTakeChangesNothing) {
  Proclaim("x");
  Say("id: 3 refused { reason: REFUSAL_REASON_INVALID_ARGUMENT }");
  EXPECT_EQ(told_, Strings{"x: INVALID_ARGUMENT"});
  EXPECT_TRUE(IsHeld());
  Say("draining { time_left { seconds: 30 } }", 0);
  Start();
  Say(kOpened, 1);
  EXPECT_EQ(Drain(1).size(), 2u) << "it moves as it was";
}

TEST_F(ProclaimTest, AReleaseMeanwhileEndsBoth) {
  Proclaim("x");
  table_.Release(lease_, nullptr, now_, fx_);
  Settle();
  EXPECT_EQ(Drain(), (Strings{"release lease-2", "release 3"})) << "the session may have another id for it by now";
  EXPECT_EQ(told_, Strings{"x: NOT_HOLDER"});
}

TEST_F(ProclaimTest, ALostLockSaysSo) {
  Proclaim("x");
  Say("id: 3 refused { reason: REFUSAL_REASON_NOT_HOLDER }");
  EXPECT_EQ(told_, Strings{"x: NOT_HOLDER"});
  EXPECT_FALSE(IsHeld());
  Proclaim("y");
  EXPECT_EQ(told_.back(), "y: NOT_HOLDER");
}

TEST_F(ProclaimTest, WhatWasShownMovesAlong) {
  Proclaim("x");
  SayGranted(3, 0);
  Say("draining { time_left { seconds: 30 } }", 0);
  Start();
  Say(kOpened, 1);
  const v1::SessionRequest message = Packed(1);
  ASSERT_GT(message.commands_size(), 0);
  ASSERT_TRUE(message.commands().rbegin()->has_adopt());
  EXPECT_EQ(message.commands().rbegin()->adopt().lock().metadata().at("v"), "x");
}

}  // namespace
}  // namespace distlock::internal
