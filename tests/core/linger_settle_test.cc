// SPDX-License-Identifier: Apache-2.0
//
// Locks that are kept for a moment after their release, when others act on their holder or the store has changed.
#include "lingering.h"

namespace distlock::core {
namespace {

void Settle(Lone& t, int owner, uint64_t token) { t.Do(SettleNotice{Name("a"), Owner(owner), token}); }

TEST(LingerSettle, ALeaseThatOthersAskAboutIsNotKeptFromThenOn) {
  Lone t;
  Settle(t, 2, t.grant.token);
  const auto plain = t.Take<StoreNote>();
  EXPECT_EQ(plain.from, Owner(2));
  EXPECT_EQ(plain.owner, Owner(2));
  EXPECT_EQ(plain.from_token, t.grant.token);
  t.Release(2);
  EXPECT_EQ(t.Events<Released>(), 0u) << "another broker may have released it already";
  t.ExpectRelease(2);
  t.Noted(plain);
  EXPECT_EQ(t.commands.size(), 0u);
}

TEST(LingerSettle, WhatLingersIsGivenBack) {
  Lone t;
  t.Release(2);
  Settle(t, 2, t.grant.token);
  EXPECT_EQ(t.Count<StoreNote>(), 0u);
  t.ExpectRelease(2);
}

TEST(LingerSettle, AFormerOwnerIsTheNotesToEnd) {
  Lone t;
  t.Release(2);
  const Granted next = t.Again();
  const auto note = t.Take<StoreNote>();
  Settle(t, 2, t.grant.token);
  EXPECT_EQ(t.commands.size(), 0u);
  t.Noted(note);
  EXPECT_EQ(t.Events<Lost>(), 0u);
  Settle(t, 3, next.token);
  EXPECT_EQ(t.Take<StoreNote>().owner, Owner(3));
  t.Release(3);
  t.ExpectRelease(3);
}

TEST(LingerSettle, ALeaseThatIsAskedAboutBeforeItsNoteIsAnsweredIsNotKeptEither) {
  Lone t;
  t.Release(2);
  const Granted next = t.Again();
  const auto note = t.Take<StoreNote>();
  Settle(t, 3, next.token);
  EXPECT_EQ(t.commands.size(), 0u) << "whoever asked asks again";
  t.Release(3);
  EXPECT_EQ(t.Events<Released>(), 1u) << "of the first lease";
  t.Noted(note);
  t.ExpectRelease(3);
}

TEST(LingerSettle, AHolderWithoutALeaseHereIsTheStores) {
  Lone t;
  Settle(t, 8, 42);
  EXPECT_EQ(t.Take<StoreNote>().owner, Owner(8)) << "its stream has left it to its ttl";
}

TEST(LingerSettle, WithoutTheOptionThereIsNothingToSettle) {
  OneSession t;
  t.Do(SettleNotice{Name("a"), Owner(8), 42});
  EXPECT_EQ(t.commands.size(), 0u);
}

TEST(LingerSettle, AnotherPrimaryEndsAllOfIt) {
  Lone t;
  t.Release(2);
  t.Do(StoreDown{"gone"});
  t.Do(StoreUp{.renew_all = true});
  t.ExpectRelease(2);
  Lone held;
  held.Do(StoreDown{"gone"});
  held.Do(StoreUp{.renew_all = true});
  const auto renewal = held.Take<StoreRenew>();
  held.Reply(renewal.op, RenewDoneBatch{.results = {RenewResult::kRenewed}});
  held.Release(2);
  held.ExpectRelease(2);
}

TEST(LingerSettle, AHoldStreamsLockIsNotKept) {
  OneSession t(SessionKind::kHold, Lingering());
  for (RequestId request = 1; request < 4; ++request) {
    t.Do(OpenSession{.session = 10 + request, .kind = SessionKind::kHold});
    t.Do(t.Want(10 + request, request, "a", static_cast<int>(request)));
    EXPECT_FALSE(t.GrantNext(t.next_token++).lingers);
    t.Do(Release{.session = 10 + request, .request = 100 + request, .acquire = request});
    t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true, .next = {}});
  }
}

TEST(LingerSettle, TurnsWithAnotherBrokerCostOneRecallASecondAtMost) {
  constexpr int kTurns = 200;
  Lone t;
  t.Recall();
  t.Release(2);
  t.ExpectRelease(2);
  int recalls = 1;
  for (RequestId turn = 3; turn < 3 + kTurns; ++turn) {
    t.Do(Heartbeat{.session = 1, .seq = turn});
    t.Pass(milliseconds(150));
    t.Do(t.Want(1, turn, "a", static_cast<int>(turn)));
    if (t.Grant().lingers) {
      t.Recall();
      ++recalls;
    }
    t.Release(turn);
    t.ExpectRelease(static_cast<int>(turn));
  }
  EXPECT_LE(recalls, kTurns * 150 / 1000);
  EXPECT_GE(recalls, 3) << "it is tried again";
}

TEST(LingerSettle, OneTryThatDoesNotMixAsksOnceMore) {
  OneSession t;
  Acquire in = t.Want(1, 1, "a", 1);
  in.want = {.mode = Mode::kPermit, .permits = 1, .limit = 3};
  in.max_wait = Duration(0);
  t.Do(in);
  t.Pass(milliseconds(1));
  t.Reply(t.Take<StoreAcquire>().op, AcquireMismatch{Mode::kExclusive, 0, /*lingers=*/true});
  EXPECT_EQ(t.Events<Refused>(), 0u);
  t.Pass(milliseconds(3));
  t.Reply(t.Take<StoreAcquire>().op, AcquireMismatch{Mode::kExclusive, 0, /*lingers=*/true});
  EXPECT_EQ(t.Event<Refused>(1, 1).reason, RefusalReason::kLimitMismatch);
}

}  // namespace
}  // namespace distlock::core
