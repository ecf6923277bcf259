// SPDX-License-Identifier: Apache-2.0
//
// Downgrade and ForceRelease as calls: the checks, the inputs of the core, the answers.
#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "contract/holder_info.h"
#include "contract/ids.h"
#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

class Log final : public CallObserver {
 public:
  void OnStreamClosed(StreamClose) override {}
  void OnRefusedHere(core::RefusalReason) override {}
  void OnQueued(uint32_t) override {}
  void OnReleasedNothing() override {}
  void OnForceRelease(const ForcedRelease& forced) override {
    std::lock_guard lock(mu_);
    lines_.push_back(forced);
  }
  std::vector<ForcedRelease> lines() {
    std::lock_guard lock(mu_);
    return lines_;
  }

 private:
  std::mutex mu_;
  std::vector<ForcedRelease> lines_;
};

grpc::Status Downgrade(TestBroker& broker, const std::string& lease_id) {
  grpc::ClientContext context;
  v1::DowngradeRequest request;
  request.set_lease_id(lease_id);
  v1::DowngradeResponse response;
  return broker.locks().Downgrade(&context, request, &response);
}

std::pair<grpc::Status, uint32_t> Force(TestBroker& broker, const std::string& key, const std::string& holder_id = "",
                                        const std::string& reason = "why") {
  grpc::ClientContext context;
  v1::ForceReleaseRequest request;
  request.set_key(key);
  request.set_holder_id(holder_id);
  request.set_reason(reason);
  v1::ForceReleaseResponse response;
  const grpc::Status status = broker.admin().ForceRelease(&context, request, &response);
  return {status, response.released()};
}

v1::LockMode ModeShown(TestBroker& broker, const std::string& key) {
  const v1::LockInfo lock = Look(broker, key);
  return lock.holders_size() == 1 ? lock.holders(0).mode() : v1::LOCK_MODE_UNSPECIFIED;
}

TEST(Downgrade, MakesADetachedLeaseSharedAndShowsIt) {
  TestBroker broker;
  const v1::Grant grant = broker.Take("a");
  EXPECT_EQ(ModeShown(broker, "a"), v1::LOCK_MODE_EXCLUSIVE);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Downgrade(broker, grant.lease_id()).ok());
  EXPECT_EQ(ModeShown(broker, "a"), v1::LOCK_MODE_SHARED);
}

TEST(Downgrade, OfAPermitIsRefusedAndABadLeaseIdIsNamed) {
  TestBroker broker;
  grpc::ClientContext context;
  v1::AcquireRequest request;
  request.add_locks()->set_key("a");
  request.mutable_locks(0)->set_mode(v1::LOCK_MODE_PERMIT);
  request.mutable_locks(0)->set_limit(2);
  v1::AcquireResponse response;
  ASSERT_TRUE(broker.locks().Acquire(&context, request, &response).ok());
  const grpc::Status status = Downgrade(broker, response.grants(0).lease_id());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(Details(status).reason, "NOT_SUPPORTED");
  EXPECT_THAT(Details(Downgrade(broker, "x")).fields, testing::ElementsAre("lease_id"));
}

TEST(Downgrade, ALeaseThatHasEndedIsNotHeld) {
  TestBroker broker;
  const v1::Grant grant = broker.Take("a");
  grpc::ClientContext context;
  v1::ReleaseRequest request;
  request.set_lease_id(grant.lease_id());
  v1::ReleaseResponse response;
  ASSERT_TRUE(broker.locks().Release(&context, request, &response).ok());
  EXPECT_EQ(Details(Downgrade(broker, grant.lease_id())).reason, "NOT_HOLDER");
}

TEST(Downgrade, OnASession) {
  TestBroker broker({.shards = 3});
  TestSession session(broker.locks());
  session.Open().Acquire(2, "a").Send();
  session.Next();
  const v1::SessionEvent granted = session.Next();
  ASSERT_TRUE(granted.has_granted());
  auto* downgrade = session.Add(3).mutable_downgrade();
  downgrade->set_acquire_id(2);
  session.Send();
  const v1::SessionEvent downgraded = session.Next();
  EXPECT_EQ(downgraded.id(), 3u);
  EXPECT_EQ(downgraded.downgraded().lease().fencing_token(), granted.granted().fencing_token());

  downgrade = session.Add(3).mutable_downgrade();  // the id is free again
  downgrade->set_lease_id(granted.granted().lease_id());
  session.Send();
  EXPECT_TRUE(session.Next().has_downgraded());
  downgrade = session.Add(4).mutable_downgrade();
  downgrade->set_acquire_id(99);
  session.Send();
  EXPECT_EQ(session.Next().refused().reason(), v1::REFUSAL_REASON_NOT_HOLDER);
  session.Release(6, 2).Send();
  EXPECT_EQ(session.Next().released().outcome(), v1::RELEASE_OUTCOME_RELEASED);
}

TEST(ForceRelease, TakesADetachedLockAndWritesTheAuditLog) {
  Log log;
  TestOptions options;
  options.server.observer = &log;
  TestBroker broker(options);
  EXPECT_EQ(Force(broker, "a").second, 0u);
  const v1::Grant grant = broker.Take("a");
  EXPECT_EQ(Force(broker, "a", "0000000000000000").second, 0u);
  EXPECT_TRUE(broker.IsHeld("a"));
  EXPECT_EQ(Force(broker, "a", grant.holder_id(), "host is gone").second, 1u);
  EXPECT_FALSE(broker.IsHeld("a"));
  const auto lines = log.lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[2].holders, grant.holder_id());
  EXPECT_EQ(lines[2].reason, "host is gone");
  EXPECT_EQ(lines[2].outcome, "released 1");
  EXPECT_THAT(lines[2].caller, testing::HasSubstr("unix:"));
  broker.Stop();
}

TEST(ForceRelease, EndsTheBlockOfAMinHoldUnlessAHolderIsNamed) {
  Log log;
  TestOptions options;
  options.server.observer = &log;
  TestBroker broker(options);
  v1::AcquireRequest request;
  request.add_locks()->set_key("a");
  request.mutable_locks(0)->mutable_max_wait();
  request.mutable_locks(0)->mutable_min_hold()->set_seconds(3600);
  grpc::ClientContext first;
  v1::AcquireResponse taken;
  ASSERT_TRUE(broker.locks().Acquire(&first, request, &taken).ok());
  const std::string holder = taken.grants(0).holder_id();
  broker.Release(taken.grants(0).lease_id());
  EXPECT_EQ(Look(broker, "a").block().min_hold().seconds(), 3600);
  grpc::ClientContext second;
  EXPECT_EQ(Details(broker.locks().Acquire(&second, request, &taken)).reason, "LOCK_HELD");
  EXPECT_EQ(Force(broker, "a", holder).second, 0u);
  EXPECT_TRUE(Look(broker, "a").has_block());
  EXPECT_EQ(Force(broker, "a").second, 1u);
  EXPECT_FALSE(Look(broker, "a").has_block());
  EXPECT_EQ(Force(broker, "a").second, 0u);
  grpc::ClientContext third;
  EXPECT_TRUE(broker.locks().Acquire(&third, request, &taken).ok());
  const auto lines = log.lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1].holders, "block");
  EXPECT_EQ(lines[1].outcome, "released 1");
  broker.Stop();
}

TEST(ForceRelease, TellsTheHolderAndAnswersWhenItsPromiseHasPassed) {
  TestOptions options;
  options.core.validity = std::chrono::milliseconds(300);
  options.server.limits.validity = options.core.validity;
  TestBroker broker(options);
  grpc::ClientContext context;
  v1::HoldRequest wanted;
  wanted.mutable_lock()->set_key("a");
  const auto hold = broker.locks().Hold(&context, wanted);
  v1::HoldResponse response;
  ASSERT_TRUE(hold->Read(&response));
  ASSERT_TRUE(response.has_granted());
  EXPECT_EQ(Force(broker, "a").second, 1u);
  while (hold->Read(&response) && !response.has_lost()) {
  }
  EXPECT_EQ(response.lost().reason(), v1::LOST_REASON_FORCED);
  EXPECT_THAT(response.lost().message(), testing::HasSubstr("why"));
  EXPECT_EQ(Details(hold->Finish()).facts["lost_reason"], "FORCED");
}

// The caller leaves before the store has named the holders: then no holder may lose the lock.
TEST(ForceRelease, OfACallerThatHasLeftTakesNothing) {
  Log log;
  TestOptions options;
  options.server.observer = &log;
  TestBroker broker(options);
  broker.Take("a");
  broker.store().HoldReplies(true);
  grpc::ClientContext context;
  std::thread caller([&] {
    v1::ForceReleaseRequest request;
    request.set_key("a");
    v1::ForceReleaseResponse response;
    EXPECT_EQ(broker.admin().ForceRelease(&context, request, &response).error_code(), grpc::StatusCode::CANCELLED);
  });
  ASSERT_TRUE(broker.store().Await([](const auto& counts) { return counts.questions == 1; }));
  context.TryCancel();
  caller.join();
  broker.server().Stop(std::chrono::seconds(5));  // the call is over
  broker.store().HoldReplies(false);
  // The second read comes after all effects of the answer to the call's own read.
  for (int look = 0; look < 2; ++look) {
    std::promise<size_t> holders;
    broker.shards().Inspect(
        core::LockName::Encode("default", "a"), 1, std::chrono::minutes(1),
        [&](const absl::StatusOr<store::LockView>& view) { holders.set_value(view.value().holders.size()); });
    EXPECT_EQ(holders.get_future().get(), 1u);
  }
  broker.Stop();
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_EQ(log.lines()[0].outcome, "not known: the caller has left, 0 confirmed");
}

TEST(ForceRelease, WithoutTheStoreTheOutcomeIsUnknown) {
  TestOptions options;
  options.core.store_timeout = std::chrono::milliseconds(100);
  options.core.validity = std::chrono::milliseconds(100);
  TestBroker broker(options);
  broker.Take("a");
  broker.store().LoseReplies(1'000'000);
  const auto [status, released] = Force(broker, "a");
  EXPECT_EQ(Details(status).reason, "STORE_UNAVAILABLE");
  EXPECT_THAT(status.error_message(), testing::HasSubstr("0 of 1 holders are confirmed to be gone"));
}

TEST(ForceRelease, NamesEveryBadField) {
  TestBroker broker;
  EXPECT_THAT(Details(Force(broker, "", "x", std::string(257, 'r')).first).fields,
              testing::UnorderedElementsAre("key", "holder_id", "reason"));
}

TEST(HolderInfo, NamesTheShardItCameThrough) {
  const std::string id = "00000000000000fe";
  for (const int shard : {0, 1, 3}) {
    const std::string info = contract::MakeInfo({}, id, shard);
    EXPECT_EQ(contract::ParseInfo(info).broker_id(), id);
    EXPECT_EQ(contract::ChannelBrokerOf(info), contract::ShardBrokerId(id, shard));
  }
  EXPECT_EQ(contract::ShardBrokerId(id, 0), id);
  EXPECT_EQ(contract::ShardBrokerId(id, 3), "0000000000000101");
  EXPECT_EQ(contract::ParseInfo(contract::MakeInfo({}, id, 1) + contract::ModeOverride(v1::LOCK_MODE_SHARED)).mode(),
            v1::LOCK_MODE_SHARED);
  EXPECT_EQ(contract::ChannelBrokerOf("\xff\xff"), "");
}

}  // namespace
}  // namespace distlock::rpc
