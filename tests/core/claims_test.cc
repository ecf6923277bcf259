// SPDX-License-Identifier: Apache-2.0
#include "core/claims.h"

#include <memory>

#include "alone.h"

namespace distlock::core {
namespace {

struct Claimed : Alone {
  NoPart none;
  Claims claims{core};

  OwnerId Try(uint8_t request, uint8_t number) const {
    OwnerId owner{kTryMark, request};
    owner.back() = number;
    return owner;
  }
  Waiter& Ask(const OwnerId& owner) {
    auto waiter = std::make_unique<Waiter>(none);
    waiter->spec.owner = owner;
    return claims.Ask(std::move(waiter));
  }
  Lease& Hold(const OwnerId& owner) {
    auto lease = std::make_unique<Lease>(none);
    lease->owner = owner;
    return claims.Hold(std::move(lease));
  }
  PendingRelease& GiveBack(const OwnerId& owner, uint64_t only_token) {
    auto release = std::make_unique<PendingRelease>(none);
    release->owner = owner;
    release->holding = true;
    release->only_token = only_token;
    return claims.GiveBack(std::move(release));
  }
};

TEST(Claims, AnOwnerIsKnownFromItsQuestionUntilItIsGivenBack) {
  Claimed t;
  EXPECT_FALSE(t.claims.IsKnown(Owner(1)));
  t.Ask(Owner(1));
  EXPECT_TRUE(t.claims.IsInUse(Owner(1)));
  t.Hold(Owner(1));
  t.claims.EndAsking(Owner(1));
  EXPECT_TRUE(t.claims.IsInUse(Owner(1)));
  t.GiveBack(Owner(1), 7);
  t.claims.EndLease(Owner(1));
  EXPECT_FALSE(t.claims.IsInUse(Owner(1)));
  EXPECT_TRUE(t.claims.IsKnown(Owner(1)));
  t.claims.EndRelease(Owner(1));
  EXPECT_FALSE(t.claims.IsKnown(Owner(1)));
  EXPECT_EQ(t.claims.waiters() + t.claims.leases() + t.claims.releases(), 0u);
}

TEST(Claims, AnotherBrokerMayAnswerForARepeatableOwner) {
  Claimed t;
  EXPECT_TRUE(t.claims.IsKnown(OwnerId{kRepeatableMark}));
}

TEST(Claims, AnotherTryOfARequestIsFound) {
  Claimed t;
  t.Ask(t.Try(1, 1));
  t.Ask(Owner(1));
  EXPECT_EQ(t.claims.OtherTry(t.Try(1, 2)), t.claims.WaiterOf(t.Try(1, 1)));
  EXPECT_EQ(t.claims.OtherTry(t.Try(2, 1)), nullptr);
  EXPECT_EQ(t.claims.OtherTry(Owner(1)), nullptr);
  t.claims.EndAsking(t.Try(1, 1));
  EXPECT_EQ(t.claims.OtherTry(t.Try(1, 2)), nullptr);
}

TEST(Claims, AReleaseIsOfTheGrantThatItNames) {
  Claimed t;
  t.GiveBack(Owner(1), 7);
  EXPECT_TRUE(t.claims.IsReleasing(Owner(1), 7));
  EXPECT_TRUE(t.claims.IsReleasing(Owner(1), 0));
  EXPECT_FALSE(t.claims.IsReleasing(Owner(1), 8));
  EXPECT_FALSE(t.claims.IsReleasing(Owner(2), 7));
}

TEST(Claims, AGrantThatIsLeftIsKnownForAsLongAsItMayLast) {
  Claimed t;
  t.claims.LeaveToTtl(Owner(1), t.now + seconds(2));
  t.claims.LeaveToTtl(Owner(2), t.now + seconds(4));
  EXPECT_TRUE(t.claims.IsLeft(Owner(1)));
  EXPECT_EQ(t.claims.left(), 2u);
  t.Pass(seconds(2));
  EXPECT_FALSE(t.claims.IsLeft(Owner(1)));
  EXPECT_FALSE(t.claims.IsKnown(Owner(1)));
  EXPECT_TRUE(t.claims.IsKnown(Owner(2)));
  EXPECT_EQ(t.claims.left(), 1u);
}

TEST(Claims, ALaterGrantReplacesAnEarlierOne) {
  Claimed t;
  t.claims.LeaveToTtl(Owner(1), t.now + seconds(9), t.now + seconds(9));
  t.claims.LeaveToTtl(Owner(1), t.now + seconds(2));
  EXPECT_FALSE(t.claims.MayChange(Owner(1)));
  t.Pass(seconds(3));
  EXPECT_FALSE(t.claims.IsLeft(Owner(1)));
}

TEST(Claims, AGrantThatIsLeftIsForgotten) {
  Claimed t;
  t.claims.LeaveToTtl(Owner(1), t.now + seconds(2));
  t.claims.ForgetLeft(Owner(1));
  t.claims.ForgetLeft(Owner(2));
  EXPECT_FALSE(t.claims.IsLeft(Owner(1)));
  EXPECT_EQ(t.claims.left(), 0u);
}

TEST(Claims, ItMayChangeWhileAPromiseLastsOrAnAnswerMayCome) {
  Claimed t;
  t.claims.LeaveToTtl(Owner(1), t.now + seconds(9), t.now + seconds(3));
  EXPECT_TRUE(t.claims.MayChange(Owner(1)));
  EXPECT_FALSE(t.claims.MayChange(Owner(2)));
  t.Pass(seconds(3));
  EXPECT_FALSE(t.claims.MayChange(Owner(1)));
  EXPECT_TRUE(t.claims.IsLeft(Owner(1)));
  t.claims.AddBundle(Owner(3));
  t.claims.AddAdoption(Owner(4));
  t.Ask(Owner(5));
  t.GiveBack(Owner(6), 1);
  for (const int owner : {3, 4, 5, 6}) EXPECT_TRUE(t.claims.MayChange(Owner(owner)));
  t.claims.RemoveBundle(Owner(3));
  t.claims.RemoveAdoption(Owner(4));
  for (const int owner : {3, 4}) EXPECT_FALSE(t.claims.MayChange(Owner(owner)));
}

TEST(ClaimsDeathTest, AnOwnerAsksHoldsAndIsGivenBackOnceAtATime) {
  Claimed t;
  t.Ask(Owner(1));
  t.Hold(Owner(1));
  t.GiveBack(Owner(1), 1);
  EXPECT_DEATH(t.Ask(Owner(1)), "claim.waiter == nullptr");
  EXPECT_DEATH(t.Hold(Owner(1)), "claim.lease == nullptr");
  EXPECT_DEATH(t.GiveBack(Owner(1), 1), "claim.release == nullptr");
  EXPECT_DEATH(t.claims.EndAsking(Owner(2)), "claim.waiter != nullptr");
}

}  // namespace
}  // namespace distlock::core
