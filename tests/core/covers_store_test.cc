// SPDX-License-Identifier: Apache-2.0
//
// Readers of one lock behind one hold in the store: a store that shows it again, a reader that went away, and ttls that
// are short against `linger`.
#include "covering.h"

namespace distlock::core {
namespace {

// A primary that has forgotten the spread shows it again.
TEST(Covers, ACoverThatCameBackIsSpreadAgain) {
  Reading t;
  t.Join(2);
  t.Recall();
  t.Spread(t.TakeSpread({1, 2}));
  t.Do(StoreUp{.renew_all = true});
  while (t.Count<StoreRenew>() > 0) {
    const auto renew = t.Take<StoreRenew>();
    std::vector<RenewResult> results;
    for (const auto& item : renew.items)
      results.push_back(item.owner == Owner(1) ? RenewResult::kRenewed : RenewResult::kAnothers);
    t.Reply(renew.op, RenewDoneBatch{.results = results});
  }
  EXPECT_EQ(t.Event<Lost>(1, 2).reason, LostReason::kTaken);
  t.Recall();
  EXPECT_GT(t.Count<StoreNote>(), 0u) << "others want it: owner 1 is a reader, and the store takes it for a writer";
  t.Do(SettleNotice{Name("a"), Owner(1), t.first.token});
  ASSERT_GT(t.Count<StoreNote>(), 0u);
  EXPECT_EQ(t.Take<StoreNote>().readers.size(), 1u) << "the mark of a cover is only taken off by a spread";
}

TEST(Covers, AHiddenReaderIsNotAtRisk) {
  BrokerConfig config = Lingering();
  config.linger = milliseconds(200);
  OneSession t(SessionKind::kSession, config);
  for (RequestId request = 1; request < 3; ++request) {
    Acquire in = t.Want(1, request, "a", static_cast<int>(request));
    in.want.mode = Mode::kShared;
    in.ttl = seconds(1);
    t.Do(in);
  }
  const auto token = static_cast<uint64_t>(t.StoreNow().us);
  t.Reply(t.Take<StoreAcquire>().op, AcquireGranted{token, t.StoreNow(), {}, token + kReserved});
  EXPECT_EQ(t.Events<Granted>(), 2u);
  t.Pass(milliseconds(190));
  EXPECT_EQ(t.Events<AtRisk>(), 0u) << "nothing was asked of the store";
}

TEST(Covers, AHiddenReaderIsNotLostWhileTheStoreIsWell) {
  BrokerConfig config = Lingering();
  config.linger = seconds(1);
  OneSession t(SessionKind::kSession, config);
  for (RequestId request = 1; request < 3; ++request) {
    Acquire in = t.Want(1, request, "a", static_cast<int>(request));
    in.want.mode = Mode::kShared;
    in.ttl = milliseconds(400);
    t.Do(in);
  }
  const auto token = static_cast<uint64_t>(t.StoreNow().us);
  t.Reply(t.Take<StoreAcquire>().op, AcquireGranted{token, t.StoreNow(), {}, token + kReserved});
  for (int i = 0; i < 450; ++i) {
    t.Pass(milliseconds(1));
    while (t.Count<StoreRenew>() > 0) {
      const auto renew = t.Take<StoreRenew>();
      t.Reply(renew.op, RenewDoneBatch{.results = std::vector(renew.items.size(), RenewResult::kRenewed)});
    }
    while (t.Count<StoreNote>() > 0) t.Reply(t.Take<StoreNote>().op, NoteDone{.is_noted = true, .next = {}});
  }
  EXPECT_EQ(t.Events<Lost>(), 0u);
}

// What an EXCLUSIVE try has is kept for its next one; this would hold up all readers elsewhere.
TEST(Covers, ACoverOfAnOrphanGoesBackWhenItIsRecalled) {
  OneSession t(SessionKind::kSession, Lingering());
  Acquire in = t.Want(1, 1, "a", 1);
  in.want.mode = Mode::kShared;
  in.owner[0] = 0xfe;
  ASSERT_TRUE(IsTry(in.owner));
  t.Do(in);
  const auto ask = t.Take<StoreAcquire>();
  EXPECT_TRUE(ask.lingers);
  t.Do(StreamEnded{1});
  const auto token = static_cast<uint64_t>(t.StoreNow().us);
  t.Reply(ask.op, AcquireGranted{token, t.StoreNow(), {}, token + kReserved});
  t.Do(RecallNotice{Name("a")});
  Duration waited{};
  for (; t.Count<StoreRelease>() + t.Count<StoreWithdraw>() + t.Count<StoreNote>() == 0 && waited < seconds(30);
       waited += milliseconds(10))
    t.Pass(milliseconds(10));
  EXPECT_LT(waited, milliseconds(200)) << std::chrono::duration_cast<milliseconds>(waited).count() << " ms";
}

// Nobody but an EXCLUSIVE lease is alone with its lock at all stores that may show it so.
TEST(Covers, OfReadersTheStoreIsToldThatTheyAreNotAlone) {
  Reading t;
  t.Join(2);
  t.Recall();
  t.Spread(t.TakeSpread({1, 2}));
  t.Do(t.Want(1, 3, "b", 3));
  t.Reply(t.Take<StoreAcquire>().op, AcquireGranted{9'000'000, t.StoreNow()});
  t.Do(StoreUp{.renew_all = true});
  const auto renew = t.Take<StoreRenew>();
  ASSERT_EQ(renew.items.size(), 3u);
  for (const auto& item : renew.items) EXPECT_EQ(item.is_exclusive, item.name == Name("b"));
}

}  // namespace
}  // namespace distlock::core
