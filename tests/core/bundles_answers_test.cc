// SPDX-License-Identifier: Apache-2.0
//
// Several locks of one request: the call for all of them, and what its answer means when it comes late, or not at all.
#include "several.h"

namespace distlock::core {
namespace {

AcquireAllDone Both(const Table& t) { return {{{41, t.StoreNow()}, {42, t.StoreNow()}}}; }

// The call for "a" and "b" is given up, and both are asked for one after the other.
OpId GivenUp(Several& t) {
  const auto all = t.Take<StoreAcquireAll>();
  t.Pass(milliseconds(2500));
  t.Do(Heartbeat{1, 1});
  EXPECT_EQ(t.GrantNext(41).name, Name("a"));
  return all.op;
}

TEST(BundleAnswers, NobodyIsAnsweredWhoseStreamIsOver) {
  Several t;
  t.Do(StreamEnded{1});
  t.Do(t.All({"a", "b"}));
  EXPECT_TRUE(t.commands.empty() && t.notes.empty() && t.facts.empty());
  EXPECT_EQ(t.broker.Stats().timers, 0u);
}

TEST(BundleAnswers, MoreThanTheSessionMayHaveAreRefusedTogether) {
  Several t(BrokerConfig{.max_leases_per_session = 3});
  t.Hold(1, 1, "x", 50);
  t.Do(t.All({"a", "b", "c"}));
  for (const RequestId request : {7, 8, 9})
    EXPECT_EQ(t.Event<Refused>(1, request).reason, RefusalReason::kQuotaExceeded);
  EXPECT_TRUE(t.commands.empty());
  t.Do(t.All({"a", "b"}));
  EXPECT_EQ(t.Take<StoreAcquireAll>().items.size(), 2u) << "as many as it may have";
  t.Do(t.Want(1, 20, "d", 51));
  EXPECT_EQ(t.Event<Refused>(1, 20).reason, RefusalReason::kQuotaExceeded) << "they count while they wait";
}

TEST(BundleAnswers, WithinMaxHoldADetachedOneHasItsTtl) {
  Several t;
  AcquireAll all = Several::Detached(t.All({"a", "b"}), 5);
  all.parts[0].max_hold = kT / 3;
  all.parts[1].max_hold = kT * 3;
  t.Do(all);
  const auto ask = t.Take<StoreAcquireAll>();
  EXPECT_EQ(ask.items[0].ttl, kT / 3);
  EXPECT_EQ(ask.items[1].ttl, kT);
}

TEST(BundleAnswers, ACallOfUnknownFateMayRunUntilItsBound) {
  OneSession t;
  AcquireAll all;
  for (const int n : {1, 2})
    all.parts.push_back(t.Want(1, static_cast<RequestId>(n), std::string(1, static_cast<char>('a' + n)), n));
  t.Do(all);
  const auto ask = t.Take<StoreAcquireAll>();
  EXPECT_EQ(ask.run_before, t.now + milliseconds(2500));
  t.Do(Cancel{1, 1});
  for (int i = 0; i < 2; ++i) t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{});
  t.Pass(milliseconds(2400));
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u);
  t.Pass(milliseconds(200));
  EXPECT_EQ(t.Count<StoreWithdraw>(), 2u) << "once more when it must have run";
}

TEST(BundleAnswers, AGrantThatIsToldAfterItsTtlIsAskedForAgain) {
  Several t;
  AcquireAll all = t.All({"a", "b"});
  for (Acquire& part : all.parts) part.ttl = milliseconds(400);
  t.Do(all);
  const auto ask = t.Take<StoreAcquireAll>();
  t.now += milliseconds(450);
  t.Reply(ask.op, Both(t));
  EXPECT_EQ(t.Events<Granted>(), 0u);
  EXPECT_EQ(t.GrantNext(41).name, Name("a"));
  EXPECT_EQ(t.GrantNext(42).name, Name("b"));
  EXPECT_EQ(t.Event<Granted>(1, 8).token, 42u);
}

TEST(BundleAnswers, AnAnswerAfterTheLastWithdrawalIsGivenBack) {
  for (const bool repeatable : {false, true}) {
    Several t;
    t.Do(repeatable ? t.Repeatable({"a", "b"}, 5) : t.All({"a", "b"}));
    const auto all = t.Take<StoreAcquireAll>();
    repeatable ? t.Do(StreamEnded{5}) : t.Do(Cancel{1, 7});
    for (int i = 0; i < 2; ++i) t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{});
    t.Pass(seconds(3));
    for (int i = 0; i < 2; ++i) t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{});
    ASSERT_EQ(t.broker.Stats().pending_releases, 0u);
    t.Reply(all.op, Both(t));
    EXPECT_EQ(t.Events<Granted>(), 0u);
    EXPECT_EQ(t.Count<StoreWithdraw>(), repeatable ? 0u : 2u) << "a repeat may have it through another broker";
  }
}

TEST(BundleAnswers, ALateAnswerForAllGivesBackNothingThatIsHeldOrWaitedFor) {
  Several t;
  t.Do(t.All({"a", "b"}));
  const OpId late = GivenUp(t);
  t.QueueNext();
  t.commands.clear();
  t.Reply(late, Both(t));
  EXPECT_EQ(t.Count<StoreRelease>() + t.Count<StoreWithdraw>(), 0u);
  t.Do(GrantNotice{Name("b"), Owner(2), 42, t.StoreNow(), kT, t.now});
  EXPECT_EQ(t.Event<Granted>(1, 7).token, 41u);
}

TEST(BundleAnswers, ALateAnswerForAllGivesBackNothingThatItsCallerHas) {
  Several t;
  AcquireAll all = Several::Detached(t.All({"a", "b"}), 5);
  for (Acquire& part : all.parts) part.owner[0] = 0;
  t.Do(all);
  const OpId late = GivenUp(t);
  t.GrantNext(42);
  EXPECT_EQ(t.Event<Granted>(5, 8).token, 42u);
  t.commands.clear();
  t.Reply(late, Both(t));
  EXPECT_TRUE(t.commands.empty());
}

TEST(BundleAnswers, WhatIsReleasedAtThisMomentIsNotGranted) {
  for (const char* key : {"a", "b"}) {
    Several t;
    t.is_any_meant = true;
    t.Do(t.Repeatable({"a", "b"}, 5));
    const auto all = t.Take<StoreAcquireAll>();
    t.Do(Release{.session = 9, .request = 1, .name = Name(key), .owner = Several::OwnerOf(key), .ttl = kT});
    const auto release = t.Take<StoreRelease>();
    t.Reply(all.op, Both(t));
    EXPECT_EQ(t.Events<Granted>(), 0u) << "the release may undo it";
    const bool first = key[0] == 'a';
    if (!first) t.GrantNext(41);
    EXPECT_EQ(t.Count<StoreAcquire>(), 0u) << "the release could undo this one too";
    t.Reply(release.op, GiveBackDone{.was_holder = true});
    EXPECT_EQ(t.Event<Released>(9, 1).outcome, ReleaseOutcome::kReleased);
    t.GrantNext(43);
    if (first) t.GrantNext(42);
    EXPECT_EQ(t.Event<Granted>(5, 7).token, first ? 43u : 41u);
    EXPECT_EQ(t.Event<Granted>(5, 8).token, first ? 42u : 43u);
    EXPECT_TRUE(t.commands.empty());
  }
}

TEST(BundleAnswers, OneTryWithoutAnAnswerSaysThatTheStoreIsAway) {
  Several t;
  t.Do(t.All({"a", "b"}, Duration::zero()));
  for (int i = 0; i < 4; ++i) {
    t.Pass(seconds(1));
    t.Do(Heartbeat{1, static_cast<uint64_t>(i + 1)});
  }
  EXPECT_EQ(t.Events<Refused>(), 0u);
  t.Pass(seconds(1));
  for (const RequestId request : {7, 8}) {
    const auto refused = t.Event<Refused>(1, request);
    EXPECT_EQ(refused.reason, RefusalReason::kStoreUnavailable) << "nobody has said that they are held";
    EXPECT_EQ(refused.about, Name("a"));
  }
}

TEST(BundleAnswers, AWaitShorterThanTheStoresAnswerIsATimeOut) {
  Several t;
  t.Do(t.All({"b", "a"}, milliseconds(10)));
  t.Take<StoreAcquireAll>();
  t.Pass(milliseconds(10) - Duration(1));
  EXPECT_EQ(t.Events<Refused>(), 0u);
  t.Pass(Duration(1));
  for (const RequestId request : {7, 8}) {
    const auto refused = t.Event<Refused>(1, request);
    EXPECT_EQ(refused.reason, RefusalReason::kWaitTimeout);
    EXPECT_EQ(refused.about, Name("a"));
    EXPECT_EQ(refused.waited, milliseconds(10));
  }
  for (int i = 0; i < 2; ++i) t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{});
  EXPECT_EQ(t.broker.Stats().pending_releases, 2u) << "the call may take effect yet";
  t.Pass(seconds(3));
  EXPECT_EQ(t.Count<StoreWithdraw>(), 2u) << "once more when it cannot any more";
}

TEST(BundleAnswers, AWaitThatEndsWhileTheStoreIsAwayIsNoTimeOut) {
  Several t;
  t.Do(t.All({"a", "b"}, milliseconds(10)));
  t.Do(StoreDown{"gone"});
  t.Pass(milliseconds(10));
  const auto refused = t.Event<Refused>(1, 7);
  EXPECT_EQ(refused.reason, RefusalReason::kStoreUnavailable) << "nobody has said that they are held";
  EXPECT_EQ(refused.cause, "gone");
}

TEST(BundleAnswers, WhatRefusesOneRefusesAllAndNamesIt) {
  const std::vector<std::pair<decltype(StoreReply::outcome), RefusalReason>> table = {
      {StoreFailed{FailureKind::kFull, "OOM"}, RefusalReason::kStoreFull},
      {StoreFailed{FailureKind::kForeignKey, "hash"}, RefusalReason::kForeignKey},
      {AcquireQueueFull{10'000}, RefusalReason::kQuotaExceeded},
      {AcquireMismatch{Mode::kPermit, 3}, RefusalReason::kLimitMismatch},
  };
  for (const auto& [outcome, reason] : table) {
    Several t(false);
    t.Do(t.All({"a", "b", "c"}));
    t.GrantNext(41);
    t.Reply(t.Take<StoreAcquire>().op, outcome);
    for (const RequestId request : {7, 8, 9}) {
      const auto refused = t.Event<Refused>(1, request);
      EXPECT_EQ(refused.reason, reason);
      EXPECT_EQ(refused.about, Name("b"));
    }
    EXPECT_EQ(t.Released(), std::vector<OwnerId>{Owner(1)});
    EXPECT_TRUE(t.commands.empty()) << "the third was never asked for";
  }
}

TEST(BundleAnswers, AReleaseByTheOwnerOfAPartEndsTheRequest) {
  Several t(false);
  t.Do(t.All({"a", "b"}));
  t.GrantNext(41);
  t.QueueNext();
  t.Do(Release{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 41, .ttl = kT});
  for (const RequestId request : {7, 8}) {
    const auto refused = t.Event<Refused>(1, request);
    EXPECT_EQ(refused.about, Name("a"));
    EXPECT_NE(refused.cause.find("its owner released it"), std::string::npos) << refused.cause;
  }
  EXPECT_EQ(t.Take<StoreWithdraw>().owner, Owner(2));
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.Event<Released>(9, 1).outcome, ReleaseOutcome::kReleased);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u) << "once";
}

}  // namespace
}  // namespace distlock::core
