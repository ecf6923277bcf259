// SPDX-License-Identifier: Apache-2.0
#include "conformance.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

namespace distlock::store {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kBrokerA[] = "00000000000000aa";
constexpr char kBrokerB[] = "00000000000000bb";
constexpr core::OpId kCompany = 2'000'000;

StoreConformance::Broker StoreConformance::MakeBroker(const LockOptions& locks) {
  Broker broker;
  broker.store = world_->MakeStore(locks);
  broker.store->Start(broker.seen.get());
  Recorder* seen = broker.seen.get();
  EXPECT_TRUE(Await([seen] { return seen->Up() && seen->Count<core::ChannelUp>() > 0; }));
  EXPECT_TRUE(Await([&] { return world_->IsReady(*broker.store); }));
  stores_.push_back(broker.store);
  if (stores_.size() > 1) Settle();
  return broker;
}

void StoreConformance::Settle() {
  if (GetParam().traits.is_quorum && stores_.size() > 1) world_->Advance(milliseconds(20));
  EXPECT_TRUE(Await([&] {
    return std::all_of(stores_.begin(), stores_.end(), [&](const std::weak_ptr<Store>& one) {
      const std::shared_ptr<Store> store = one.lock();
      return store == nullptr || world_->IsSettled(*store);
    });
  }));
}

core::StoreReply StoreConformance::Ask(Broker& broker, core::OpId op, core::StoreCommand command) {
  Recorder& seen = *broker.seen;
  broker.store->Submit(std::move(command));
  if (GetParam().in_company) broker.store->Submit(MakeAcquire(kCompany + op, Lock("company"), Owner(0xff)));
  EXPECT_EQ(seen.Replies(op), 0u) << "answered from inside Submit";
  broker.store->Flush();
  EXPECT_TRUE(Await([&] { return seen.Replies(op) > 0; })) << "op " << op << " was never answered";
  // Else the slowest of several servers might hear another broker first.
  if (stores_.size() > 1) Settle();
  EXPECT_EQ(seen.Replies(op), 1u);
  const auto* reply = seen.Reply(op);
  return reply == nullptr ? core::StoreReply{} : *reply;
}

absl::StatusOr<LockView> StoreConformance::Inspect(Broker& broker, const core::LockName& name, uint32_t max_waiters) {
  std::optional<absl::StatusOr<LockView>> answer;
  broker.store->Inspect(name, max_waiters, seconds(10),
                        [&](absl::StatusOr<LockView> view) { answer = std::move(view); });
  EXPECT_FALSE(answer) << "answered from inside Inspect";
  EXPECT_TRUE(Await([&] { return answer.has_value(); }));
  return *answer;
}

std::vector<int> StoreConformance::HoldersOf(Broker& broker) {
  const auto view = Inspect(broker, Lock("k"), 1000);
  EXPECT_TRUE(view.ok()) << view.status();
  return view.ok() ? NumbersOf(view->holders) : std::vector<int>{};
}

std::vector<int> StoreConformance::WaitersOf(Broker& broker) {
  const auto view = Inspect(broker, Lock("k"), 1000);
  EXPECT_TRUE(view.ok()) << view.status();
  return view.ok() ? NumbersOf(view->waiters) : std::vector<int>{};
}

core::RenewResult StoreConformance::RenewAs(Broker& broker, const core::OwnerId& owner, uint64_t token) {
  const core::StoreRenew renew{.items = {{Lock("k"), owner, token, std::chrono::seconds(30)}}};
  return Do<core::RenewDoneBatch>(broker, renew).results.at(0);
}

TEST_P(StoreConformance, UpComesOnceWithTheStoresTime) {
  Broker a = MakeBroker(kBrokerA);
  EXPECT_EQ(a.seen->Count<core::StoreUp>(), 1u);
}

TEST_P(StoreConformance, GrantsAFreeLockAndRepeatsTheGrantToItsOwner) {
  Broker a = MakeBroker(kBrokerA);
  const auto first = AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  EXPECT_GT(first.token, 0u);
  const core::StoreReply again = Ask(a, 2, MakeAcquire(2, Lock("k"), Owner(1)));
  ASSERT_TRUE(std::holds_alternative<core::AcquireGranted>(again.outcome));
  EXPECT_EQ(std::get<core::AcquireGranted>(again.outcome).token, first.token);
  EXPECT_EQ(std::get<core::AcquireGranted>(again.outcome).since, first.since);
}

TEST_P(StoreConformance, TokensGrowWithEachGrant) {
  Broker a = MakeBroker(kBrokerA);
  uint64_t last = 0;
  for (core::OpId op = 1; op < 20; op += 2) {
    const auto grant = AskFor<core::AcquireGranted>(a, op, MakeAcquire(op, Lock("k"), Owner(static_cast<uint8_t>(op))));
    EXPECT_GT(grant.token, last);
    last = grant.token;
    AskFor<core::GiveBackDone>(a, op + 1, core::StoreRelease{op + 1, Lock("k"), Owner(static_cast<uint8_t>(op)), {}});
  }
}

TEST_P(StoreConformance, OneTryNamesTheHolder) {
  Broker a = MakeBroker(kBrokerA);
  auto wanted = MakeAcquire(1, Lock("k"), Owner(1));
  wanted.lock_delay = seconds(2);
  wanted.info = std::string("any;bytes\0\r\n\xff", 13);
  const auto grant = AskFor<core::AcquireGranted>(a, 1, wanted);
  const auto held = AskFor<core::AcquireHeld>(a, 2, MakeAcquire(2, Lock("k"), Owner(2)));
  ASSERT_EQ(held.holders.size(), 1u);
  EXPECT_EQ(held.holders[0].owner, Owner(1));
  EXPECT_EQ(held.holders[0].token, grant.token);
  EXPECT_EQ(held.holders[0].since, grant.since);
  EXPECT_EQ(held.holders[0].ttl, seconds(30));
  EXPECT_EQ(held.holders[0].lock_delay, seconds(2));
  EXPECT_EQ(held.holders[0].info, wanted.info);
  EXPECT_GT(held.holders[0].time_left, seconds(20));
  EXPECT_LE(held.holders[0].time_left, seconds(32));
  EXPECT_EQ(held.queue_length, 0u);
}

TEST_P(StoreConformance, AnAcquireAfterItsTimeDoesNothing) {
  Broker a = MakeBroker(kBrokerA);
  auto late = MakeAcquire(1, Lock("k"), Owner(1));
  late.run_before = core::Instant(std::chrono::seconds(1));
  AskFor<core::AcquireLate>(a, 1, late);
  const auto view = Inspect(a, Lock("k"));
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_TRUE(view->holders.empty());
}

TEST_P(StoreConformance, WaitersQueueInOrderAndAreHandedTheLockInTheReply) {
  Broker a = MakeBroker(kBrokerA);
  const auto grant = AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  const auto second = AskFor<core::AcquireQueued>(a, 2, MakeAcquire(2, Lock("k"), Owner(2), true));
  const auto third = AskFor<core::AcquireQueued>(a, 3, MakeAcquire(3, Lock("k"), Owner(3), true));
  EXPECT_EQ(second.position, 0u);
  EXPECT_EQ(third.position, 1u);
  EXPECT_EQ(third.queue_length, 2u);
  ASSERT_EQ(third.holders.size(), 1u);
  EXPECT_EQ(third.holders[0].owner, Owner(1));

  const size_t heard = a.seen->inputs.size();
  const auto released = GiveBack(a, 1);
  ASSERT_TRUE(AreNext(a, heard, released.next, {2}));
  std::vector<core::HolderView> told = released.next;
  told.push_back(Inspect(a, Lock("k"))->holders.at(0));
  for (const core::HolderView& next : told) {
    EXPECT_EQ(next.owner, Owner(2));
    EXPECT_GT(next.token, grant.token);
    EXPECT_EQ(next.ttl, seconds(30));
  }
  EXPECT_TRUE(GetParam().traits.is_quorum || a.seen->Count<core::GrantNotice>() == 0);
}

TEST_P(StoreConformance, AnotherBrokersWaiterGetsANotice) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  const core::LockName name = Lock("odd {key} %\n*?[");
  AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, name, Owner(1)));
  AskFor<core::AcquireQueued>(b, 2, MakeAcquire(2, name, Owner(2), true));
  const auto released = AskFor<core::GiveBackDone>(a, 3, core::StoreRelease{3, name, Owner(1), {}});
  EXPECT_TRUE(released.was_holder);
  EXPECT_TRUE(released.next.empty());
  ASSERT_TRUE(Await([&] { return b.seen->Count<core::GrantNotice>() > 0; }));
  const auto* notice = b.seen->Last<core::GrantNotice>();
  EXPECT_EQ(notice->name, name);
  EXPECT_EQ(notice->owner, Owner(2));
  EXPECT_GT(notice->token, 0u);
  EXPECT_EQ(notice->ttl, seconds(30));
  EXPECT_EQ(a.seen->Count<core::GrantNotice>(), 0u);
}

TEST_P(StoreConformance, RenewsManyAndTellsEachResult) {
  Broker a = MakeBroker(kBrokerA);
  AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("mine"), Owner(1)));
  AskFor<core::AcquireGranted>(a, 2, MakeAcquire(2, Lock("theirs"), Owner(2)));
  core::StoreRenew renew{3, {}};
  renew.items = {{Lock("mine"), Owner(1), 0, seconds(300)},
                 {Lock("gone"), Owner(1), 0, seconds(300)},
                 {Lock("theirs"), Owner(1), 0, seconds(300)}};
  const auto done = AskFor<core::RenewDoneBatch>(a, 3, renew);
  using R = core::RenewResult;
  EXPECT_EQ(done.results, (std::vector<R>{R::kRenewed, R::kGone, R::kAnothers}));
  const auto view = Inspect(a, Lock("mine"));
  ASSERT_TRUE(view.ok() && !view->holders.empty());
  EXPECT_GT(view->holders[0].time_left, seconds(200));
  EXPECT_TRUE(Inspect(a, Lock("gone"))->holders.empty());
}

TEST_P(StoreConformance, RenewsAFullBatch) {
  Broker a = MakeBroker(kBrokerA);
  core::StoreRenew renew{1, {}};
  for (int i = 0; i < 100; ++i) renew.items.push_back({Lock("k" + std::to_string(i)), Owner(1), 0, seconds(1)});
  EXPECT_EQ(AskFor<core::RenewDoneBatch>(a, 1, renew).results.size(), 100u);
}

TEST_P(StoreConformance, GivingBackWhatIsNotHeldIsSaid) {
  Broker a = MakeBroker(kBrokerA);
  AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  const auto foreign = AskFor<core::GiveBackDone>(a, 2, core::StoreRelease{2, Lock("k"), Owner(2), {}});
  EXPECT_FALSE(foreign.was_holder || foreign.was_waiter || !foreign.next.empty());
  AskFor<core::GiveBackDone>(a, 3, core::StoreRelease{3, Lock("k"), Owner(1), {}});
  const auto twice = AskFor<core::GiveBackDone>(a, 4, core::StoreRelease{4, Lock("k"), Owner(1), {}});
  EXPECT_FALSE(twice.was_holder);
  const auto never = AskFor<core::GiveBackDone>(a, 5, core::StoreWithdraw{5, Lock("k"), Owner(1)});
  EXPECT_FALSE(never.was_holder || never.was_waiter);
}

TEST_P(StoreConformance, ATokenNamesOneGrantOfItsOwner) {
  Broker a = MakeBroker(kBrokerA);
  const auto first = AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  EXPECT_TRUE(AskFor<core::GiveBackDone>(a, 2, core::StoreRelease{2, Lock("k"), Owner(1), first.token}).was_holder);
  const auto second = AskFor<core::AcquireGranted>(a, 3, MakeAcquire(3, Lock("k"), Owner(1)));
  EXPECT_FALSE(AskFor<core::GiveBackDone>(a, 4, core::StoreRelease{4, Lock("k"), Owner(1), first.token}).was_holder);
  const core::StoreRelease block{0, Lock("k"), Owner(1), first.token, seconds(20)};
  EXPECT_FALSE(Do<core::GiveBackDone>(a, block).was_holder);
  const core::StoreRelease stranger{0, Lock("k"), Owner(2), second.token, {}};
  EXPECT_FALSE(Do<core::GiveBackDone>(a, stranger).was_holder) << "a token is public and proves nothing";
  using R = core::RenewResult;
  const auto renew = [&](core::OpId op, uint64_t token) {
    core::StoreRenew command{op, {{Lock("k"), Owner(1), token, seconds(300)}}};
    return AskFor<core::RenewDoneBatch>(a, op, command).results;
  };
  EXPECT_EQ(renew(5, first.token), std::vector<R>{R::kAnothers});
  EXPECT_EQ(renew(6, second.token), std::vector<R>{R::kRenewed});
  EXPECT_TRUE(AskFor<core::GiveBackDone>(a, 7, core::StoreRelease{7, Lock("k"), Owner(1), second.token}).was_holder);
}

TEST_P(StoreConformance, WithdrawTakesAWaiterOutOrReleasesAHolder) {
  Broker a = MakeBroker(kBrokerA);
  AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  AskFor<core::AcquireQueued>(a, 2, MakeAcquire(2, Lock("k"), Owner(2), true));
  AskFor<core::AcquireQueued>(a, 3, MakeAcquire(3, Lock("k"), Owner(3), true));
  EXPECT_TRUE(AskFor<core::GiveBackDone>(a, 4, core::StoreWithdraw{4, Lock("k"), Owner(2)}).was_waiter);
  const size_t heard = a.seen->inputs.size();
  const auto holder = AskFor<core::GiveBackDone>(a, 5, core::StoreWithdraw{5, Lock("k"), Owner(1)});
  EXPECT_TRUE(holder.was_holder);
  EXPECT_TRUE(AreNext(a, heard, holder.next, {3}));
}

TEST_P(StoreConformance, ABlockIsToldToTheBrokerOfTheNextWaiter) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  AskFor<core::AcquireQueued>(b, 1, MakeAcquire(1, Lock("k"), Owner(2), true));
  AskFor<core::GiveBackDone>(a, 2, core::StoreRelease{2, Lock("k"), Owner(1), 0, seconds(20)});
  ASSERT_TRUE(Await([&] { return b.seen->Count<core::GrantNotice>() > 0; }));
  const auto* notice = b.seen->Last<core::GrantNotice>();
  EXPECT_EQ(notice->name, Lock("k"));
  EXPECT_EQ(notice->owner, core::OwnerId{});
  EXPECT_EQ(notice->ttl, seconds(20));
  EXPECT_GT(notice->since.us, 0);
}

TEST_P(StoreConformance, ABlockedLockStaysTakenByNobody) {
  Broker a = MakeBroker(kBrokerA);
  AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  EXPECT_TRUE(AskFor<core::GiveBackDone>(a, 2, core::StoreRelease{2, Lock("k"), Owner(1), 0, seconds(20)}).was_holder);
  const auto held = AskFor<core::AcquireHeld>(a, 3, MakeAcquire(3, Lock("k"), Owner(2)));
  ASSERT_EQ(held.holders.size(), 1u);
  EXPECT_EQ(held.holders[0].owner, core::OwnerId{});
  EXPECT_GT(held.holders[0].time_left, seconds(10));
  const auto view = Inspect(a, Lock("k"));
  EXPECT_EQ(view->holder_count, 0u);
  EXPECT_EQ(NumbersOf(view->holders), std::vector{0});
  AskFor<core::AcquireHeld>(a, 4, MakeAcquire(4, Lock("k"), Owner(1)));
  AskFor<core::AcquireQueued>(a, 5, MakeAcquire(5, Lock("k"), Owner(2), true));
}

TEST_P(StoreConformance, TendShowsWhoHoldsIt) {
  Broker a = MakeBroker(kBrokerA);
  const auto grant = AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  AskFor<core::AcquireQueued>(a, 2, MakeAcquire(2, Lock("k"), Owner(2), true));
  const auto tended = AskFor<core::TendDone>(a, 3, core::StoreTend{3, Lock("k"), {Owner(2)}});
  EXPECT_FALSE(tended.slot_was_gone);
  ASSERT_EQ(tended.holders.size(), 1u);
  EXPECT_EQ(tended.holders[0].owner, Owner(1));
  EXPECT_EQ(tended.holders[0].token, grant.token);
  EXPECT_GT(tended.holders[0].time_left, seconds(10));
  EXPECT_GE(tended.holders[0].held_for, core::Duration::zero());
  EXPECT_LT(tended.holders[0].held_for, seconds(10));
  EXPECT_TRUE(AskFor<core::TendDone>(a, 4, core::StoreTend{4, Lock("nobody waits here"), {Owner(2)}}).slot_was_gone);
}

TEST_P(StoreConformance, TendHandsOnALockThatLapsed) {
  Broker a = MakeBroker(kBrokerA);
  auto brief = MakeAcquire(1, Lock("k"), Owner(1));
  // A server of a quorum is silent after a tenth of it.
  brief.ttl = GetParam().traits.is_quorum ? milliseconds(2000) : milliseconds(30);
  AskFor<core::AcquireGranted>(a, 1, brief);
  AskFor<core::AcquireQueued>(a, 2, MakeAcquire(2, Lock("k"), Owner(2), true));
  core::OpId op = 3;
  core::TendDone tended;
  EXPECT_TRUE(Await([&] {
    tended = AskFor<core::TendDone>(a, op, core::StoreTend{op, Lock("k"), {Owner(2)}});
    ++op;
    return !tended.holders.empty() && tended.holders[0].owner == Owner(2);
  }));
}

TEST_P(StoreConformance, CommandsForOneLockAreAnsweredInOrder) {
  Broker a = MakeBroker(kBrokerA);
  std::map<std::string, core::OpId> last;
  const auto key_of = [](core::OpId op) { return std::to_string(op % 10); };
  for (core::OpId op = 1; op <= 500; ++op) a.store->Submit(MakeAcquire(op, Lock(key_of(op)), Owner(1)));
  a.store->Flush();
  ASSERT_TRUE(Await([&] { return a.seen->Count<core::StoreReply>() == 500; }));
  for (const auto& input : a.seen->inputs) {
    const auto* reply = std::get_if<core::StoreReply>(&input);
    if (reply != nullptr) {
      EXPECT_GT(reply->op, std::exchange(last[key_of(reply->op)], reply->op));
    }
  }
}

TEST_P(StoreConformanceOfOneServer, CommandsOfOneTurnAreAnsweredInOrder) {
  Broker a = MakeBroker(kBrokerA);
  for (core::OpId op = 1; op <= 500; ++op) a.store->Submit(MakeAcquire(op, Lock(std::to_string(op)), Owner(1)));
  a.store->Flush();
  ASSERT_TRUE(Await([&] { return a.seen->Count<core::StoreReply>() == 500; }));
  core::OpId expected = 0;
  for (const auto& input : a.seen->inputs) {
    const auto* reply = std::get_if<core::StoreReply>(&input);
    if (reply == nullptr) continue;
    EXPECT_EQ(reply->op, ++expected);
  }
}

TEST_P(StoreConformance, SubmitFromInsideAnAnswerWorks) {
  Broker a = MakeBroker(kBrokerA);
  Store* store = a.store.get();
  a.seen->on_input = [store](const core::Input& input) {
    const auto* reply = std::get_if<core::StoreReply>(&input);
    if (reply == nullptr || reply->op >= 50) return;
    store->Submit(MakeAcquire(reply->op + 1, Lock("k"), Owner(1)));
    store->Flush();
  };
  store->Submit(MakeAcquire(1, Lock("k"), Owner(1)));
  store->Flush();
  EXPECT_TRUE(Await([&] { return a.seen->Replies(50) == 1; }));
}

TEST_P(StoreConformance, AHangUpEndsEveryCommandOnceAndItComesUpAgain) {
  Broker a = MakeBroker(kBrokerA);
  for (core::OpId op = 1; op <= 50; ++op) a.store->Submit(MakeAcquire(op, Lock(std::to_string(op)), Owner(1)));
  a.store->Flush();
  world_->HangUp();
  const bool is_quorum = GetParam().traits.is_quorum;  // it may be up again before the last server has hung up
  ASSERT_TRUE(Await([&] { return a.seen->Count<core::StoreDown>() == 1; }));
  a.store->Submit(MakeAcquire(51, Lock("after"), Owner(1)));
  ASSERT_TRUE(Await([&] { return a.seen->Count<core::StoreReply>() == 51; }));
  for (core::OpId op = 1; op <= 51; ++op) EXPECT_EQ(a.seen->Replies(op), 1u) << op;
  EXPECT_TRUE(Await([&] { return a.seen->Count<core::StoreUp>() >= 2 && a.seen->Up(); }));
  if (!is_quorum) {
    EXPECT_EQ(a.seen->Count<core::StoreDown>(), 1u);
  }
  AskFor<core::AcquireGranted>(a, 60, MakeAcquire(60, Lock("k"), Owner(9)));
}

TEST_P(StoreConformance, NothingIsDeliveredAfterStopAndQuestionsAreCancelled) {
  Broker a = MakeBroker(kBrokerA);
  std::optional<absl::StatusOr<LockView>> view;
  std::optional<absl::StatusOr<LockPage>> page;
  for (core::OpId op = 1; op <= 20; ++op) a.store->Submit(MakeAcquire(op, Lock("k"), Owner(1)));
  a.store->Flush();
  a.store->Inspect(Lock("k"), 1, seconds(10), [&](absl::StatusOr<LockView> got) { view = std::move(got); });
  a.store->List("default", "", 1, "", seconds(10), [&](absl::StatusOr<LockPage> got) { page = std::move(got); });
  const size_t before = a.seen->inputs.size();
  a.store->Stop();
  ASSERT_TRUE(view && page);
  EXPECT_EQ(view->status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(page->status().code(), absl::StatusCode::kCancelled);
  // A late answer would have come by the time that another broker has connected and has its answer.
  Broker b = MakeBroker(kBrokerB);
  const core::StoreReply reply = Ask(b, 1, MakeAcquire(1, Lock("k"), Owner(2)));
  // A Cluster's node may still have had an answer about its slots to give: when it finds that nobody takes that any
  // more, it discards what it has not read yet.
  const bool discarded = !GetParam().traits.one_server && std::holds_alternative<core::AcquireGranted>(reply.outcome);
  EXPECT_TRUE(discarded || std::holds_alternative<core::AcquireHeld>(reply.outcome)) << reply.outcome.index();
  EXPECT_EQ(a.seen->inputs.size(), before);
}

}  // namespace distlock::store
