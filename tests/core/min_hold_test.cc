// SPDX-License-Identifier: Apache-2.0
//
// min_hold: only the end that a client asks for leaves it to the store; every other end tells the store that it counts
// no more.
#include <gtest/gtest.h>

#include "table.h"

namespace distlock::core {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

Granted HoldBy(Table& t, OnDisconnect how = OnDisconnect::kSafe) {
  auto want = t.Want(1, 7, "a", 1);
  want.min_hold = minutes(15);
  want.on_disconnect = how;
  t.Do(want);
  const auto ask = t.Take<StoreAcquire>();
  EXPECT_EQ(ask.min_hold, minutes(15));
  t.Reply(ask.op, AcquireGranted{42, t.StoreNow()});
  return t.Event<Granted>(1, 7);
}

void ExpectEnds(Table& t, bool ends) {
  const auto release = t.Take<StoreRelease>();
  EXPECT_EQ(release.ends_min_hold, ends);
  EXPECT_EQ(release.block, Duration::zero()) << "how long is the store's reckoning";
}

TEST(MinHold, CountsAfterARelease) {
  for (const bool by_acquire : {true, false}) {
    OneSession t;
    const Granted granted = HoldBy(t);
    Release release{.session = 1, .request = 8, .name = granted.name, .owner = granted.owner, .token = 42};
    if (by_acquire) release = {.session = 1, .request = 8, .acquire = 7, .name = {}};
    t.Do(release);
    ExpectEnds(t, false);
  }
}

TEST(MinHold, CountsAfterAGoodbye) {
  OneSession t;
  HoldBy(t);
  t.Do(Goodbye{1});
  ExpectEnds(t, false);
}

TEST(MinHold, CountsAfterTheReleaseOfALeaseThatThisBrokerDoesNotKnow) {
  Table t;
  t.StoreComesUp();
  t.Do(Release{.session = 5, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 42});
  ExpectEnds(t, false);
}

TEST(MinHold, EndsWithAnyOtherEnd) {
  struct Row {
    const char* what;
    OnDisconnect how;
    std::function<void(Table&, const Granted&)> end;
  };
  const Row rows[] = {
      {"its stream broke", OnDisconnect::kRelease, [](Table& t, const Granted&) { t.Do(StreamEnded{1}); }},
      {"its stream broke, and its promise has ended", OnDisconnect::kSafe,
       [](Table& t, const Granted&) {
         t.Do(StreamEnded{1});
         t.Pass(kV);
       }},
      {"its client's deadline passed", OnDisconnect::kSafe,
       [](Table& t, const Granted&) {
         t.Do(Release{.session = 1, .request = 8, .acquire = 7, .name = {}, .lapsed = true});
       }},
      {"its grant crossed the cancel", OnDisconnect::kSafe,
       [](Table& t, const Granted&) { t.Do(Cancel{.session = 1, .acquire = 7}); }},
      {"an administrator took it", OnDisconnect::kSafe,
       [](Table& t, const Granted& granted) {
         t.Do(ForceNotice{granted.name, granted.owner, granted.token, "why"});
         t.Pass(kV);
       }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    OneSession t;
    const Granted granted = HoldBy(t, row.how);
    row.end(t, granted);
    ExpectEnds(t, true);
  }
}

TEST(MinHold, AnAdministratorEndsWhatThisBrokerDoesNotKnow) {
  Table t;
  t.StoreComesUp();
  t.Do(ForceNotice{Name("a"), Owner(1), 42, "why"});
  ExpectEnds(t, true);
}

TEST(MinHold, IsKeptByAnAdoption) {
  OneSession t;
  t.Do(Adopt{.session = 1,
             .request = 7,
             .name = Name("a"),
             .from = Owner(1),
             .token = 42,
             .owner = Owner(2),
             .on_disconnect = OnDisconnect::kRelease});
  t.Reply(t.Take<StoreAdopt>().op,
          AdoptDone{.result = AdoptDone::Result::kAdopted, .since = t.StoreNow(), .ttl = kT, .min_hold = minutes(15)});
  t.Event<Granted>(1, 7);
  t.Do(StreamEnded{1});
  ExpectEnds(t, true);
}

// Waiters are not told of the end of a block: this broker looks then.
TEST(MinHold, TheBrokersOwnWaiterIsLookedAfterWhenTheBlockEnds) {
  OneSession t;
  HoldBy(t);
  t.Do(t.Want(1, 9, "a", 2));
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{.holders = {}, .queue_length = 1, .left = kT});
  t.Do(Release{.session = 1, .request = 8, .acquire = 7, .name = {}});
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true, .blocked_for = seconds(2), .next = {}});
  t.Pass(seconds(2) - Duration(1));
  EXPECT_EQ(t.Count<StoreTend>(), 0u);
  t.Pass(kExpirySlack + Duration(1));
  EXPECT_EQ(t.Count<StoreTend>(), 1u);
}

}  // namespace
}  // namespace distlock::core
