// SPDX-License-Identifier: Apache-2.0
//
// Several locks of one request: max_hold counts from the moment all of them are granted.
#include "several.h"

namespace distlock::core {
namespace {

struct HeldForAtMost : Several {
  explicit HeldForAtMost(Instant start = Instant(hours(100)))
      : Several(BrokerConfig{.store = {.takes_many_at_once = false}}, start) {}
  static AcquireAll With(AcquireAll all, Duration max_hold) {
    for (Acquire& part : all.parts) part.max_hold = max_hold;
    return all;
  }
  // The client believes on, and the store renews whatever it is asked to.
  void PassKeeping(Duration time) {
    for (const Instant end = now + time; now < end;) {
      Pass(std::min<Duration>(milliseconds(10), end - now));
      Do(Heartbeat{1, ++seq});
      while (Count<StoreRenew>() > 0) {
        const auto renew = Take<StoreRenew>();
        Reply(renew.op, RenewDoneBatch{std::vector(renew.items.size(), RenewResult::kRenewed)});
      }
    }
  }
  // A notice that may be old has the core ask again.
  void HandOver(const OwnerId& owner, uint64_t token, Duration ttl) {
    Do(GrantNotice{Name("b"), owner, token, StoreNow(), ttl, now});
    if (Count<StoreAcquire>() > 0) Reply(Take<StoreAcquire>().op, AcquireGranted{token, StoreNow()});
  }
  // The store has granted both parts of a repeated request before: each is held for at most so long, by its own count.
  void RepeatHeldFor(Duration at_most, Duration a_at_least, Duration b_at_least) {
    Do(With(Repeatable({"a", "b"}, 5), seconds(8)));
    const StoreTime since{StoreNow().us - at_most / microseconds(1)};
    Reply(Take<StoreAcquire>().op, AcquireGranted{41, since, at_most, a_at_least});
    Reply(Take<StoreAcquire>().op, AcquireGranted{42, since, at_most, b_at_least});
    EXPECT_EQ(Events<Granted>(), 0u);
  }
  uint64_t seq = 0;
};

TEST(BundleMaxHold, CountsFromTheGrantOfAll) {
  HeldForAtMost t;
  t.Do(t.With(t.All({"a", "b"}), seconds(10)));
  t.GrantNext(41);
  t.QueueNext();
  t.PassKeeping(seconds(8));
  t.HandOver(Owner(2), 42, kT);
  EXPECT_EQ(t.Event<Granted>(1, 7).token, 41u);
  EXPECT_EQ(t.Event<Granted>(1, 8).token, 42u);
  t.PassKeeping(seconds(10) - milliseconds(20));
  EXPECT_EQ(t.Events<Lost>(), 0u);
  t.PassKeeping(milliseconds(20));
  EXPECT_EQ(t.Event<Lost>(1, 7).reason, LostReason::kMaxHold);
  EXPECT_EQ(t.Event<Lost>(1, 8).reason, LostReason::kMaxHold);
}

TEST(BundleMaxHold, OfRequestsThatWaitLongerRefusesNone) {
  for (const bool detached : {false, true}) {
    HeldForAtMost t;
    const AcquireAll all = t.With(t.All({"a", "b"}), seconds(10));
    t.Do(detached ? t.Detached(all, 5) : all);
    t.GrantNext(41);
    const auto asked = t.QueueNext();
    t.PassKeeping(seconds(12));
    EXPECT_EQ(t.Events<Refused>(), 0u);
    t.HandOver(asked.owner, 42, detached ? seconds(10) : kT);
    EXPECT_EQ(t.Event<Granted>(detached ? 5 : 1, 7).token, 41u);
    EXPECT_EQ(t.Event<Granted>(detached ? 5 : 1, 8).token, 42u);
  }
}

// The lease id of a detached lease says until when it may be renewed: max_hold after Granted::since.
TEST(BundleMaxHold, OfDetachedOnesIsTheSameForAll) {
  HeldForAtMost t;
  t.Do(t.Detached(t.With(t.All({"a", "b"}), seconds(10)), 5));
  t.GrantNext(41);
  const auto asked = t.QueueNext();
  t.PassKeeping(seconds(7));
  const StoreTime since = t.StoreNow();
  t.HandOver(asked.owner, 42, seconds(10));
  for (const RequestId request : {7, 8}) {
    const auto granted = t.Event<Granted>(5, request);
    EXPECT_EQ(granted.since, since);
    EXPECT_LE(granted.waited, seconds(7));
    EXPECT_LE(granted.valid_for, seconds(10));
  }
}

// Another broker may have granted it a while ago: its renewals end where the lease id of then says.
TEST(BundleMaxHold, OfARepeatCountsFromTheFirstGrant) {
  HeldForAtMost t;
  t.Do(t.With(t.Repeatable({"a", "b"}, 5), seconds(8)));
  const StoreTime since{t.StoreNow().us - 5'000'000};
  const auto a = t.Take<StoreAcquire>();
  EXPECT_EQ(a.ttl, seconds(8)) << "no longer than max_hold";
  t.Reply(a.op, AcquireGranted{41, {since.us - 9'000'000}, seconds(14)});
  t.Reply(t.Take<StoreAcquire>().op, AcquireGranted{42, since, seconds(5)});
  for (const RequestId request : {7, 8}) {
    const auto granted = t.Event<Granted>(5, request);
    EXPECT_EQ(granted.since, since);
    EXPECT_LE(granted.valid_for, seconds(3));
    EXPECT_GT(granted.valid_for, seconds(2));
  }
}

TEST(BundleMaxHold, OfARepeatThatFindsItOverAsksAnew) {
  HeldForAtMost t;
  t.RepeatHeldFor(seconds(8), seconds(8), seconds(8));
  for (const uint64_t token : {41, 42}) {
    const auto release = t.Take<StoreRelease>();
    EXPECT_EQ(release.token, token);
    t.Reply(release.op, GiveBackDone{.was_holder = true});
  }
  t.GrantNext(51);
  t.GrantNext(52);
  EXPECT_EQ(t.Event<Granted>(5, 7).token, 51u);
  EXPECT_EQ(t.Event<Granted>(5, 8).token, 52u);
}

// The grants are older than this broker's machine is up.
TEST(BundleMaxHold, OfARepeatThatFindsItOverSinceBeforeTheBootAsksAnew) {
  HeldForAtMost t(Instant(seconds(5)));
  t.RepeatHeldFor(seconds(30), seconds(30), seconds(30));
  EXPECT_EQ(t.Count<StoreRelease>(), 2u);
}

// The way to the store, and an old vote of a quorum, make a hold look longer than it is: the broker that granted it may
// have promised it until max_hold has passed for certain.
TEST(BundleMaxHold, OfARepeatIsGivenBackOnlyWhenNobodyIsPromisedIt) {
  HeldForAtMost t;
  t.RepeatHeldFor(seconds(8), seconds(7), seconds(6));
  t.Pass(seconds(2) - milliseconds(10));
  EXPECT_EQ(t.Events<Granted>(), 0u);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  t.Pass(milliseconds(20));
  EXPECT_EQ(t.Count<StoreRelease>(), 2u);
}

}  // namespace
}  // namespace distlock::core
