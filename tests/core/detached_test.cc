// SPDX-License-Identifier: Apache-2.0
//
// Detached leases: requests repeated under their request_id, and leases named by their lease_id.
#include "table.h"

namespace distlock::core {
namespace {

Acquire Detached(Table& t, SessionId session) {
  auto want = t.Want(session, 1, "a", 1);
  want.detached = true;
  want.owner[0] = kRepeatableMark;
  return want;
}

Release ReleaseOf(const Granted& granted, SessionId session) {
  return Release{.session = session,
                 .request = 1,
                 .name = granted.name,
                 .owner = granted.owner,
                 .token = granted.token,
                 .ttl = granted.ttl};
}

TEST(Detached, ALeaseIsNamedByItsToken) {
  Table t;
  t.StoreComesUp();
  t.Do(Release{.session = 1, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 42, .ttl = kT});
  EXPECT_EQ(t.Take<StoreRelease>().token, 42u);
  t.Do(Renew{.session = 2, .request = 1, .name = Name("a"), .owner = Owner(2), .token = 43, .ttl = kT, .hold_until = {}});
  const auto renew = t.Take<StoreRenew>();
  ASSERT_EQ(renew.items.size(), 1u);
  EXPECT_EQ(renew.items[0].token, 43u);
}

TEST(Detached, AReleaseOfAnotherGrantThanTheStreamsLeavesItAlone) {
  Table t;
  t.StoreComesUp();
  t.Open(1, SessionKind::kHold);
  const auto granted = t.Hold(1, 1, "a", 1);
  auto release = ReleaseOf(granted, 9);
  release.token += 1;
  t.Do(release);
  EXPECT_EQ(t.Event<Released>(9, 1).outcome, ReleaseOutcome::kAlreadyGone);
  EXPECT_EQ(t.broker.Stats().leases, 1u);
  EXPECT_EQ(t.Events<Released>(), 0u);
  t.Do(ReleaseOf(granted, 9));
  EXPECT_EQ(t.Event<Released>(1, 1).outcome, ReleaseOutcome::kReleased);
}

TEST(Detached, ALateReleaseOfAnEarlierGrantLeavesTheRepeatAlone) {
  Table t;
  t.StoreComesUp();
  t.Do(Detached(t, 1));
  t.Reply(t.Take<StoreAcquire>().op, AcquireGranted{42, t.StoreNow()});
  const auto first = t.Event<Granted>(1, 1);
  t.Do(Detached(t, 2));
  const auto ask = t.Take<StoreAcquire>();
  t.Do(ReleaseOf(first, 3));
  const auto release = t.Take<StoreRelease>();
  EXPECT_EQ(release.token, 42u);
  t.Reply(ask.op, AcquireGranted{43, t.StoreNow()});
  t.Reply(release.op, GiveBackDone{});
  EXPECT_EQ(t.Event<Released>(3, 1).outcome, ReleaseOutcome::kAlreadyGone);
  t.Reply(t.Take<StoreAcquire>().op, AcquireGranted{43, t.StoreNow()});
  EXPECT_EQ(t.Event<Granted>(2, 1).token, 43u);
}

TEST(Detached, OfTwoGrantsNamedTheLaterIsReleased) {
  Table t;
  t.StoreComesUp();
  t.Do(StoreDown{"gone"});
  for (uint64_t token : {42, 43}) {
    t.Do(Release{.session = token, .request = 1, .name = Name("a"), .owner = Owner(1), .token = token, .ttl = kT});
  }
  t.StoreComesUp();
  EXPECT_EQ(t.Take<StoreRelease>().token, 43u);
}

}  // namespace
}  // namespace distlock::core
