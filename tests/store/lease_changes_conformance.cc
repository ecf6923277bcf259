// SPDX-License-Identifier: Apache-2.0
//
// Any Store: several locks by one command, EXCLUSIVE that becomes SHARED, a lock that is taken from its holder.
#include "conformance.h"

namespace distlock::store {
namespace {

constexpr char kBrokerA[] = "00000000000000a1";
constexpr char kBrokerB[] = "00000000000000b2";

core::StoreAcquireAll All(core::OpId op, const std::vector<std::string>& keys, uint8_t first_owner) {
  core::StoreAcquireAll all{.op = op, .not_after = {}, .items = {}};
  for (size_t i = 0; i < keys.size(); ++i) {
    all.items.push_back(MakeAcquire(0, Lock(keys[i]), Owner(static_cast<uint8_t>(first_owner + i))));
  }
  return all;
}

core::StoreAcquire Reader(core::OpId op, const std::string& key, uint8_t owner, bool wait) {
  core::StoreAcquire reader = MakeAcquire(op, Lock(key), Owner(owner));
  reader.want.mode = core::Mode::kShared;
  reader.wait = wait;
  return reader;
}

}  // namespace

TEST_P(StoreConformance, TakesSeveralThatAreFreeOrNone) {
  Broker a = MakeBroker(kBrokerA);
  const auto done = AskFor<core::AcquireAllDone>(a, 1, All(1, {"a", "b", "c"}, 1));
  ASSERT_EQ(done.grants.size(), 3u);
  EXPECT_EQ(Inspect(a, Lock("b"))->holders.at(0).token, done.grants[1].token);
  const auto none = AskFor<core::AcquireAllDone>(a, 2, All(2, {"d", "b", "e"}, 4));
  EXPECT_TRUE(none.grants.empty());
  EXPECT_TRUE(Inspect(a, Lock("d"))->holders.empty());
  core::StoreAcquireAll late = All(3, {"d", "e"}, 7);
  late.not_after.us = 1;
  AskFor<core::AcquireLate>(a, 3, late);
}

TEST_P(StoreConformance, AConvertedHolderSharesWithTheReadersThatWaitInFront) {
  Broker a = MakeBroker(kBrokerA);
  const auto held = AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  AskFor<core::AcquireQueued>(a, 2, Reader(2, "k", 2, true));
  core::StoreAcquire writer = MakeAcquire(3, Lock("k"), Owner(3));
  writer.wait = true;
  AskFor<core::AcquireQueued>(a, 3, writer);
  for (const core::OpId op : {core::OpId{4}, core::OpId{5}}) {
    const auto done = AskFor<core::ConvertDone>(a, op, core::StoreConvert{op, Lock("k"), Owner(1), held.token, {}});
    EXPECT_EQ(done.result, core::ConvertDone::Result::kConverted);
    ASSERT_EQ(done.next.size(), op == 4 ? 1u : 0u) << "again changes nothing";
    if (!done.next.empty()) {
      EXPECT_EQ(done.next[0].owner, Owner(2));
    }
  }
  const auto view = Inspect(a, Lock("k"));
  EXPECT_EQ(view->holder_count, 2u);
  EXPECT_EQ(view->queue_length, 1u) << "the writer goes on waiting";
  const auto strange = AskFor<core::ConvertDone>(a, 6, core::StoreConvert{6, Lock("k"), Owner(9), 0, {}});
  EXPECT_EQ(strange.result, core::ConvertDone::Result::kNotHolder);
}

TEST_P(StoreConformance, WhoIsForcedIsToldThroughItsBrokerOrReleased) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  const auto held = AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  const auto force = [&](Broker& by, core::OpId op, const std::string& through, uint64_t token) {
    return AskFor<core::ForceDone>(by, op, core::StoreForce{op, Lock("k"), Owner(1), token, through, "why; so"}).result;
  };
  using Result = core::ForceDone::Result;
  EXPECT_EQ(force(b, 1, kBrokerA, held.token + 1), Result::kGone) << "another grant";
  ASSERT_TRUE(Await([&] { return force(b, 2 + b.seen->inputs.size(), kBrokerA, held.token) == Result::kTold; }));
  ASSERT_TRUE(Await([&] { return a.seen->Count<core::ForceNotice>() > 0; }));
  EXPECT_EQ(a.seen->Last<core::ForceNotice>()->owner, Owner(1));
  EXPECT_EQ(a.seen->Last<core::ForceNotice>()->token, held.token);
  EXPECT_EQ(a.seen->Last<core::ForceNotice>()->reason, "why; so");
  EXPECT_EQ(Inspect(b, Lock("k"))->holder_count, 1u) << "its broker knows when it may go";
  EXPECT_EQ(force(a, 1000, kBrokerA, held.token), Result::kReleased) << "and says so itself when it has no such lease";
  EXPECT_EQ(Inspect(b, Lock("k"))->holder_count, 0u);
}

}  // namespace distlock::store
