// SPDX-License-Identifier: Apache-2.0
//
// Locks that are kept for a moment after their release, and given to the next lease without the store.
#include <functional>

#include "lingering.h"

namespace distlock::core {
namespace {

TEST(Linger, AReleaseIsAnsweredAtOnceAndTheNextLeaseIsGrantedAtOnce) {
  Lone t;
  t.Release(2);
  EXPECT_EQ(t.Event<Released>(1, 102).outcome, ReleaseOutcome::kReleased);
  EXPECT_EQ(t.commands.size(), 0u) << "the store has it still";
  EXPECT_EQ(t.broker.Stats().leases, 0u);
  const Granted next = t.Again();
  EXPECT_GT(next.token, t.grant.token);
  EXPECT_LT(next.token, static_cast<uint64_t>(t.StoreNow().us)) << "no more than the store's clock shows";
  const auto note = t.Take<StoreNote>();
  EXPECT_EQ(note.from, Owner(2));
  EXPECT_EQ(note.from_token, t.grant.token);
  EXPECT_EQ(note.owner, Owner(3));
  EXPECT_EQ(note.token, next.token);
  EXPECT_EQ(note.ttl, kT);
  t.Noted(note);
  EXPECT_EQ(t.broker.Stats().lingering, 0u);
  EXPECT_EQ(t.commands.size(), 0u);
}

TEST(Linger, WithoutTheOptionNothingIsKept) {
  OneSession t;
  for (RequestId request = 1; request < 4; ++request) {
    t.Do(t.Want(1, request, "a", static_cast<int>(request)));
    EXPECT_FALSE(t.GrantNext(t.next_token++).lingers);
    t.Do(Release{.session = 1, .request = 100 + request, .acquire = request});
    t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true, .next = {}});
  }
}

TEST(Linger, ALockThatNobodyTakesIsGivenBackInTime) {
  Lone t;
  t.Release(2);
  t.Pass(kLinger - milliseconds(1));
  EXPECT_EQ(t.commands.size(), 0u);
  t.Pass(milliseconds(1));
  t.ExpectRelease(2);
}

TEST(Linger, TheStoreIsAskedForWhatMayNotBeGivenOn) {
  struct Case {
    const char* what;
    std::function<void(Acquire&)> change;
  };
  const Case kCases[] = {
      {"the request says so", [](Acquire& in) { in.may_linger = false; }},
      {"others may share it", [](Acquire& in) { in.want.mode = Mode::kShared; }},
      {"a delay after its end", [](Acquire& in) { in.lock_delay = seconds(1); }},
      {"a bound of the hold", [](Acquire& in) { in.max_hold = seconds(1); }},
      {"a block after its release", [](Acquire& in) { in.min_hold = seconds(1); }},
      {"a longer ttl than the store's key has", [](Acquire& in) { in.ttl = kT + seconds(1); }},
      {"another caller renews it", [](Acquire& in) { in.detached = true; }},
      {"it may have to move without this broker", [](Acquire& in) { in.resume = true; }},
  };
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.what);
    Lone t;
    t.Release(2);
    Acquire in = t.Want(1, 3, "a", 3);
    one.change(in);
    if (in.detached) in.session = 9;
    t.Do(in);
    ASSERT_EQ(t.commands.size(), 2u);
    EXPECT_TRUE(std::holds_alternative<StoreRelease>(t.commands[0])) << "first it is given back";
    EXPECT_TRUE(std::holds_alternative<StoreAcquire>(t.commands[1]));
    EXPECT_EQ(t.Events<Granted>(), 0u);
  }
}

TEST(Linger, ARecallEndsItAndNothingIsKeptForAWhile) {
  Lone t;
  t.Release(2);
  t.Recall();
  t.ExpectRelease(2);
  t.Do(t.Want(1, 3, "a", 3));
  EXPECT_FALSE(t.Grant().lingers);
  t.Release(3);
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
}

TEST(Linger, ALeaseThatIsRecalledWhileItIsHeldIsGivenBackWhenItEnds) {
  Lone t;
  t.Recall();
  EXPECT_EQ(t.commands.size(), 0u);
  t.Release(2);
  EXPECT_EQ(t.Events<Released>(), 0u) << "once the store has confirmed it";
  t.ExpectRelease(2);
  EXPECT_EQ(t.Events<Released>(), 1u);
}

TEST(Linger, ARecallMayComeBeforeTheNewsOfTheGrant) {
  Lone t;
  t.Release(2);
  t.Pass(kLinger);
  t.ExpectRelease(2);
  t.Do(t.Want(1, 3, "a", 3));
  t.Recall();
  EXPECT_TRUE(t.Grant().lingers);
  t.Release(3);
  t.ExpectRelease(3);
}

TEST(Linger, TheAnswerToANoteRecallsAsWell) {
  Lone t;
  t.Release(2);
  t.Again();
  t.Noted(t.Take<StoreNote>(), 1);
  t.Release(3);
  t.ExpectRelease(3);
}

TEST(Linger, NothingIsReleasedUnderAnOwnerThatTheStoreDoesNotKnow) {
  Lone t;
  t.Release(2);
  t.Again();
  t.Do(StreamEnded{1});
  t.Pass(kV);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u) << "it would find nothing, and the lock would stay for a ttl";
  auto note = t.Take<StoreNote>();
  while (t.Count<StoreNote>() > 0) note = t.Take<StoreNote>();
  t.Noted(note);
  t.ExpectRelease(3);
}

TEST(Linger, ARenewalThatIsDueWaitsForTheNote) {
  Lone t;
  t.Release(2);
  t.Again();
  const auto note = t.Take<StoreNote>();
  t.Do(StoreClockStep{seconds(1)});
  EXPECT_EQ(t.Count<StoreRenew>(), 0u);
  t.Noted(note);
  EXPECT_EQ(t.Take<StoreRenew>().items.at(0).owner, Owner(3));
}

TEST(Linger, AReleaseWaitsForTheNote) {
  Lone t;
  t.Release(2);
  t.Again();
  const auto note = t.Take<StoreNote>();
  t.Recall();
  t.Release(3);
  EXPECT_EQ(t.commands.size(), 0u);
  t.Noted(note);
  t.ExpectRelease(3);
}

TEST(Linger, OfManyLeasesOnlyTheLastIsTold) {
  Lone t;
  t.Release(2);
  t.Again(3);
  const auto note = t.Take<StoreNote>();
  for (RequestId request = 4; request < 8; ++request) {
    t.Release(request - 1);
    t.Again(request);
  }
  EXPECT_EQ(t.commands.size(), 0u) << "one command of a lock at a time";
  t.Noted(note);
  const auto last = t.Take<StoreNote>();
  EXPECT_EQ(last.from, Owner(3));
  EXPECT_EQ(last.from_token, note.token);
  EXPECT_EQ(last.owner, Owner(7));
  t.Noted(last);
  EXPECT_EQ(t.broker.Stats().lingering, 0u);
}

TEST(Linger, ALockThatIsGivenBackIsNotToldOfOnceMore) {
  Lone t;
  t.Release(2);
  t.Again(3);
  const auto note = t.Take<StoreNote>();
  t.Release(3);
  t.Again(4);
  t.Release(4);
  t.Recall();
  EXPECT_EQ(t.commands.size(), 0u);
  t.Noted(note);
  EXPECT_EQ(t.Count<StoreNote>(), 0u);
  t.ExpectRelease(3);
}

TEST(Linger, ANoteIsRepeatedAsItWasUntilItsAnswerIsKnown) {
  Lone t;
  t.Release(2);
  t.Again(3);
  const auto first = t.Take<StoreNote>();
  t.Release(3);
  t.Again(4);
  t.Reply(first.op, StoreUnknown{"reset"});
  t.Pass(seconds(1));
  const auto second = t.Take<StoreNote>();
  EXPECT_EQ(second.from, Owner(2)) << "it may have run, or not";
  EXPECT_EQ(second.owner, Owner(3));
  t.Noted(second);
  EXPECT_EQ(t.Take<StoreNote>().owner, Owner(4));
}

TEST(Linger, BeliefEndsWithTheLastTtlThatTheStoreHasConfirmed) {
  Lone t;
  t.Pass(seconds(2));
  t.Do(Heartbeat{.session = 1, .seq = 1});
  t.Pass(seconds(1));
  t.Release(2);
  t.Again();
  const auto lost = t.Take<StoreNote>();
  t.Reply(lost.op, StoreUnknown{"reset"});
  t.Do(StoreDown{"gone"});
  for (uint64_t seq = 1; seq < 10; ++seq) {
    t.Do(Heartbeat{.session = 1, .seq = seq});
    t.Pass(seconds(1));
  }
  t.Do(Heartbeat{.session = 1, .seq = 10});
  t.Pass(seconds(2));
  EXPECT_EQ(t.Events<Lost>(), 0u);
  t.Do(Heartbeat{.session = 1, .seq = 11});
  t.Pass(seconds(1));
  EXPECT_EQ(t.Event<Lost>(1, 3).reason, LostReason::kExpired) << "15 s after the grant of the lease before";
}

TEST(Linger, ANoteThatFindsAnotherHolderEndsTheLease) {
  Lone t;
  t.Release(2);
  t.Again();
  t.Reply(t.Take<StoreNote>().op, NoteDone{});
  EXPECT_EQ(t.Event<Lost>(1, 3).reason, LostReason::kTaken);
  EXPECT_EQ(t.broker.Stats().lingering + t.broker.Stats().leases, 0u);
}

TEST(Linger, ADrainGivesItBack) {
  Lone t;
  t.Release(2);
  t.Do(Drain{seconds(10)});
  EXPECT_EQ(t.drains, 0);
  t.ExpectRelease(2);
  EXPECT_EQ(t.drains, 1);
}

TEST(Linger, ALeaseThatCouldNotBeRenewedIsGivenBack) {
  Lone t;
  for (uint64_t seq = 1; seq < 8; ++seq) {
    t.Do(Heartbeat{.session = 1, .seq = seq});
    t.Pass(seconds(1));
  }
  t.Do(Heartbeat{.session = 1, .seq = 9});
  t.Pass(milliseconds(600));
  t.Release(2);
  EXPECT_EQ(t.Take<StoreRelease>().owner, Owner(2)) << "less than half of its ttl is left";
}

TEST(Linger, WhoeverNamesTheFormerOwnerFindsItGone) {
  Lone t;
  t.Release(2);
  t.Do(Release{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(2), .token = t.grant.token, .ttl = kT});
  t.ExpectRelease(2);
  Lone other;
  other.Release(2);
  other.Do(ForceNotice{Name("a"), Owner(2), other.grant.token, "why"});
  EXPECT_EQ(other.Take<StoreRelease>().owner, Owner(2));
}

TEST(Linger, OneTryElsewhereAsksOnceMore) {
  OneSession t;
  Acquire in = t.Want(1, 1, "a", 1);
  in.max_wait = Duration(0);
  t.Do(in);
  const HolderView holder{.owner = Owner(9), .time_left = seconds(9), .info = {}, .lingers = true};
  t.Pass(milliseconds(1));
  t.Reply(t.Take<StoreAcquire>().op, AcquireHeld{{holder}});
  EXPECT_EQ(t.Events<Refused>(), 0u);
  t.Pass(milliseconds(3));
  t.Reply(t.Take<StoreAcquire>().op, AcquireHeld{{holder}});
  EXPECT_EQ(t.Event<Refused>(1, 1).reason, RefusalReason::kLockHeld);
}

TEST(Linger, AWaiterIsToldOfItsPlaceWhenTheRecallHasHadItsTime) {
  OneSession t;
  t.Do(t.Want(1, 1, "a", 1));
  const HolderView holder{.owner = Owner(9), .time_left = seconds(9), .info = {}, .lingers = true};
  t.Pass(milliseconds(1));
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{0, {holder}, 1, seconds(9)});
  EXPECT_EQ(t.Events<Queued>(), 0u);
  t.Pass(milliseconds(1));
  EXPECT_EQ(t.Events<Queued>(), 1u);
}

}  // namespace
}  // namespace distlock::core
