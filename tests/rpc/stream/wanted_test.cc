// SPDX-License-Identifier: Apache-2.0
//
// LeaseWanted: holders hear that somebody wants their locks.
#include <gmock/gmock.h>

#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

class Wanted : public testing::TestWithParam<int> {
 protected:
  static TestOptions Options() { return {.shards = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Shards, Wanted, testing::Values(1, 4));

v1::SessionCommand& AcquireTelling(TestSession& session, uint64_t id, const std::vector<std::string>& keys) {
  v1::SessionCommand& command = session.Add(id);
  for (const std::string& key : keys) {
    v1::LockSpec& spec = *command.mutable_acquire()->add_locks();
    spec.set_key(key);
    spec.set_tell_wanted(true);
  }
  return command;
}

v1::SessionEvent NextOf(TestSession& session, v1::SessionEvent::EventCase kind) {
  v1::SessionEvent event = session.Next();
  while (event.event_case() != kind && event.event_case() != v1::SessionEvent::EVENT_NOT_SET) event = session.Next();
  return event;
}

TEST_P(Wanted, ASessionHearsItUnderTheAcquire) {
  TestBroker broker(Options());
  TestSession holder(broker.locks());
  holder.Open();
  AcquireTelling(holder, 7, {"a"});
  holder.Send();
  EXPECT_THAT(NextOf(holder, v1::SessionEvent::kOpened).opened().features(), testing::Contains("wanted"));
  const v1::Grant granted = NextOf(holder, v1::SessionEvent::kGranted).granted();
  TestSession waiter(broker.locks());
  waiter.Open().Acquire(2, "a").Send();
  const v1::SessionEvent event = NextOf(holder, v1::SessionEvent::kWanted);
  EXPECT_EQ(event.id(), 7);
  EXPECT_EQ(event.wanted().lease().key(), "a");
  EXPECT_EQ(event.wanted().lease().holder_id(), granted.holder_id());
  EXPECT_EQ(event.wanted().lease().fencing_token(), granted.fencing_token());
  holder.Release(8, 7).Send();
  EXPECT_TRUE(NextOf(waiter, v1::SessionEvent::kGranted).has_granted());
}

TEST_P(Wanted, AHoldHearsOfAOneTry) {
  TestBroker broker(Options());
  grpc::ClientContext context;
  v1::HoldRequest request;
  request.mutable_lock()->set_key("a");
  request.mutable_lock()->set_tell_wanted(true);
  auto stream = broker.locks().Hold(&context, request);
  v1::HoldResponse response;
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_TRUE(response.has_granted());
  const int64_t token = response.granted().fencing_token();
  EXPECT_TRUE(broker.IsHeld("a"));
  while (!response.has_wanted()) ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.wanted().lease().fencing_token(), token);
}

TEST_P(Wanted, AHolderThatDidNotAskHearsNothing) {
  TestBroker broker(Options());
  TestSession holder(broker.locks());
  holder.Open().Acquire(7, "a").Send();
  EXPECT_TRUE(NextOf(holder, v1::SessionEvent::kGranted).has_granted());
  EXPECT_TRUE(broker.IsHeld("a"));
  holder.Release(8, 7).Send();
  EXPECT_TRUE(holder.Next().has_released());
}

TEST_P(Wanted, ALeaseThatWasHandedOnHearsOfThoseBehindIt) {
  TestBroker broker(Options());
  const v1::Grant first = broker.Take("a");
  TestSession holder(broker.locks());
  holder.Open();
  AcquireTelling(holder, 7, {"a"});
  holder.Send();
  EXPECT_TRUE(NextOf(holder, v1::SessionEvent::kQueued).has_queued());
  TestSession waiter(broker.locks());
  waiter.Open().Acquire(2, "a").Send();
  EXPECT_TRUE(NextOf(waiter, v1::SessionEvent::kQueued).has_queued());
  broker.Release(first.lease_id());
  EXPECT_TRUE(NextOf(holder, v1::SessionEvent::kGranted).has_granted());
  EXPECT_EQ(NextOf(holder, v1::SessionEvent::kWanted).id(), 7);
}

TEST_P(Wanted, OfSeveralLocksTheOneIsToldOfThatIsWanted) {
  TestBroker broker(Options());
  TestSession holder(broker.locks());
  holder.Open();
  AcquireTelling(holder, 7, {"a", "b", "c"});
  holder.Send();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(NextOf(holder, v1::SessionEvent::kGranted).has_granted());
  holder.Release(20, 7).Send();
  TestSession waiter(broker.locks());
  waiter.Open();
  AcquireTelling(waiter, 2, {"a", "b"});
  waiter.Send();
  const v1::SessionEvent event = NextOf(holder, v1::SessionEvent::kWanted);
  EXPECT_EQ(event.id(), 8);
  EXPECT_EQ(event.wanted().lease().key(), "b") << "the other one is free";
}

TEST_P(Wanted, AnAdoptedLeaseHearsItThroughItsNewSession) {
  TestBroker broker(Options());
  TestSession former(broker.locks());
  former.Open().Acquire(2, "a").Send();
  const v1::Grant held = NextOf(former, v1::SessionEvent::kGranted).granted();
  TestSession waiter(broker.locks());
  waiter.Open().Acquire(2, "a").Send();
  EXPECT_TRUE(NextOf(waiter, v1::SessionEvent::kQueued).has_queued());
  TestSession heir(broker.locks());
  heir.Open();
  v1::AdoptLease& adopt = *heir.Add(5).mutable_adopt();
  adopt.set_lease_id(held.lease_id());
  adopt.set_request_id("0123456789abcdef");
  adopt.mutable_lock()->set_key("a");
  adopt.mutable_lock()->set_tell_wanted(true);
  heir.Send();
  EXPECT_TRUE(NextOf(heir, v1::SessionEvent::kGranted).has_granted());
  EXPECT_EQ(NextOf(heir, v1::SessionEvent::kWanted).id(), 5) << "somebody waits already";
}

TEST_P(Wanted, ADetachedLeaseHasNobodyToTell) {
  TestBroker broker(Options());
  grpc::ClientContext context;
  v1::AcquireRequest request;
  v1::LockSpec& spec = *request.add_locks();
  spec.set_key("a");
  spec.set_tell_wanted(true);
  v1::AcquireResponse response;
  const grpc::Status status = broker.locks().Acquire(&context, request, &response);
  EXPECT_EQ(Details(status).reason, "INVALID_ARGUMENT");
  EXPECT_THAT(status.error_message(), testing::HasSubstr("tell_wanted"));
}

}  // namespace
}  // namespace distlock::rpc
