// SPDX-License-Identifier: Apache-2.0
//
// A session that adopts what was promised to it before: by an earlier try, in any order, or as its own lease.
#include "table.h"

namespace distlock::core {
namespace {

constexpr uint64_t kAdoptedToken = 77;

// Session 1 takes over owner 5's lease of "a".
Adopt Try(RequestId request, uint8_t owner) {
  return {.session = 1,
          .request = request,
          .name = Name("a"),
          .from = Owner(5),
          .token = kAdoptedToken,
          .owner = Owner(owner),
          .ttl = kT,
          .info = "info"};
}

// The outcome of the first is not known, so it is asked again, and comes to the store behind the second.
TEST(AdoptionTries, OfTwoInOneSessionTheLaterOneCounts) {
  OneSession t;
  t.Do(Try(7, 6));
  t.Reply(t.Take<StoreAdopt>().op, StoreUnknown{"reset"});
  t.Do(Try(8, 16));
  t.Reply(t.Take<StoreAdopt>().op, AdoptDone{.result = AdoptDone::Result::kAdopted, .since = t.StoreNow(), .ttl = kT});
  EXPECT_EQ(t.Event<Granted>(1, 8).token, kAdoptedToken);
  t.Pass(milliseconds(100));
  const auto late = t.Take<StoreAdopt>();
  EXPECT_EQ(late.owner, Owner(6)) << "the core sends it all the same";
  t.Reply(late.op, AdoptDone{.result = AdoptDone::Result::kLater});
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kCancelled);
  EXPECT_EQ(t.broker.Stats().leases, 1u);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
}

// The promise that came with the grant was counted from when this broker heard of it.
TEST(AdoptionTries, MaxHoldFreesNothingWhileAFormerPromiseIsBelievedIn) {
  OneSession t;
  auto want = t.Want(1, 9, "a", 5);
  want.max_hold = seconds(2);
  t.Do(want);
  t.GrantNext(42);
  t.Do(Heartbeat{.session = 1, .seq = 1});
  Adopt adopt = Try(7, 6);
  adopt.token = 42;
  t.Do(adopt);
  t.Reply(t.Take<StoreAdopt>().op, AdoptDone{.result = AdoptDone::Result::kAdopted,
                                             .since = {t.StoreNow().us - 1'500'000},
                                             .held_for = milliseconds(1500),
                                             .ttl = kT,
                                             .max_hold = seconds(2)});
  EXPECT_LE(t.Event<Granted>(1, 7).valid_for, milliseconds(500));
  t.Pass(milliseconds(600));
  EXPECT_EQ(t.Event<Lost>(1, 7).reason, LostReason::kMaxHold);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  t.Pass(kV);
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
}

TEST(AdoptionTries, ASessionDoesNotAdoptItsOwnReentrantLease) {
  OneSession t;
  auto want = t.Want(1, 9, "a", 5);
  want.reentry = "me";
  t.Do(want);
  t.GrantNext(42);
  Adopt adopt = Try(7, 6);
  adopt.token = 42;
  t.Do(adopt);
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kInvalidArgument);
  EXPECT_EQ(t.Count<StoreAdopt>(), 0u);
}

}  // namespace
}  // namespace distlock::core
