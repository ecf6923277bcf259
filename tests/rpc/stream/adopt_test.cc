// SPDX-License-Identifier: Apache-2.0
//
// AdoptLease: a lease that changes its session.
#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "contract/lease_id.h"
#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

constexpr char kRequestId[] = "0123456789abcdef";

v1::AdoptLease& Adopt(TestSession& session, uint64_t id, const std::string& lease_id, const std::string& key = "a") {
  v1::AdoptLease& adopt = *session.Add(id).mutable_adopt();
  adopt.set_lease_id(lease_id);
  adopt.set_request_id(kRequestId);
  adopt.mutable_lock()->set_key(key);
  adopt.mutable_lock()->set_owner("heir");
  return adopt;
}

v1::SessionEvent NextAbout(TestSession& session, int64_t id) {
  v1::SessionEvent event = session.Next();
  while (event.id() != id && event.event_case() != v1::SessionEvent::EVENT_NOT_SET) event = session.Next();
  return event;
}

TEST(Adopt, TakesALeaseFromAnotherSession) {
  TestBroker broker;
  TestSession former(broker.locks());
  former.Open().Acquire(2, "a").Send();
  const v1::Grant held = NextAbout(former, 2).granted();
  TestSession heir(broker.locks());
  heir.Open();
  Adopt(heir, 5, held.lease_id());
  heir.Send();
  const v1::Grant adopted = NextAbout(heir, 5).granted();
  EXPECT_EQ(adopted.fencing_token(), held.fencing_token());
  EXPECT_NE(adopted.lease_id(), held.lease_id());
  EXPECT_EQ(adopted.key(), "a");
  EXPECT_GT(adopted.valid_for().seconds(), 1);
  EXPECT_EQ(NextAbout(former, 2).lost().reason(), v1::LOST_REASON_MOVED);
  EXPECT_EQ(Look(broker, "a").holders(0).owner(), "heir");

  v1::ReleaseRequest request;
  request.set_lease_id(held.lease_id());
  v1::ReleaseResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(broker.locks().Release(&context, request, &response).ok());
  EXPECT_EQ(response.outcome(), v1::RELEASE_OUTCOME_ALREADY_GONE) << "the former lease_id is void";
  former.Goodbye().Send();
  EXPECT_TRUE(former.Finish().ok());
  EXPECT_TRUE(broker.IsHeld("a"));
  heir.Release(6, 5).Send();
  EXPECT_EQ(NextAbout(heir, 6).released().outcome(), v1::RELEASE_OUTCOME_RELEASED);
  EXPECT_FALSE(broker.IsHeld("a"));
}

TEST(Adopt, TakesADetachedLeaseAndRepeatsDoNoHarm) {
  TestBroker broker;
  const v1::Grant held = broker.Take("a");
  TestSession first(broker.locks());
  first.Open();
  Adopt(first, 2, held.lease_id());
  first.Send();
  EXPECT_EQ(NextAbout(first, 2).granted().fencing_token(), held.fencing_token());
  TestSession second(broker.locks());
  second.Open();
  Adopt(second, 2, held.lease_id());
  second.Send();
  EXPECT_EQ(NextAbout(second, 2).granted().fencing_token(), held.fencing_token()) << "the same request_id";
  TestSession third(broker.locks());
  third.Open();
  Adopt(third, 2, held.lease_id()).set_request_id("fedcba9876543210");
  third.Send();
  EXPECT_EQ(NextAbout(third, 2).refused().reason(), v1::REFUSAL_REASON_NOT_HOLDER) << "another request";
}

// So that the store knows which of them is the later one, in whatever order they come to it.
TEST(Adopt, TriesOfASessionAreNumbered) {
  TestBroker broker;
  const v1::Grant held = broker.Take("a");
  TestSession session(broker.locks());
  session.Open();
  std::vector<core::OwnerId> owners;
  for (const uint64_t id : {2, 3}) {
    Adopt(session, id, held.lease_id());
    session.Send();
    const auto lease = contract::DecodeLeaseId(NextAbout(session, static_cast<int64_t>(id)).granted().lease_id());
    ASSERT_TRUE(lease.has_value());
    owners.push_back(lease->owner);
  }
  const auto count = [](const core::OwnerId& owner) { return owner[14] * 256 + owner[15]; };
  EXPECT_EQ(count(owners[1]), (count(owners[0]) + 1) % 65536);
  EXPECT_TRUE(std::equal(owners[0].begin(), owners[0].begin() + 14, owners[1].begin())) << "all else is the same";
}

TEST(Adopt, NamesBadFields) {
  TestBroker broker;
  const v1::Grant held = broker.Take("a");
  TestSession session(broker.locks());
  session.Open();
  Adopt(session, 2, "nonsense");
  Adopt(session, 3, held.lease_id()).clear_request_id();
  Adopt(session, 4, held.lease_id(), "b");
  Adopt(session, 5, held.lease_id()).set_hold_count(2);
  Adopt(session, 6, held.lease_id()).mutable_lock()->set_mode(v1::LOCK_MODE_SHARED);
  session.Send();
  const auto field = [&](int64_t id) { return NextAbout(session, id).refused().field_problems(0).field(); };
  EXPECT_EQ(field(2), "adopt.lease_id");
  EXPECT_EQ(field(3), "adopt.request_id");
  EXPECT_EQ(field(4), "adopt.lock.key");
  EXPECT_EQ(field(5), "adopt.hold_count");
  const v1::Refusal otherwise = NextAbout(session, 6).refused();
  EXPECT_EQ(otherwise.reason(), v1::REFUSAL_REASON_NOT_SUPPORTED);
  EXPECT_THAT(otherwise.message(), testing::HasSubstr("EXCLUSIVE"));
}

TEST(Adopt, ReentrantHoldsKeepTheirNumber) {
  TestBroker broker;
  TestSession former(broker.locks());
  former.Open();
  for (const uint64_t id : {2, 3}) {
    v1::LockSpec& spec = *former.Add(id).mutable_acquire()->add_locks();
    spec.set_key("a");
    spec.set_owner("heir");
    spec.set_reentrant(true);
  }
  former.Send();
  const v1::Grant held = NextAbout(former, 3).granted();
  EXPECT_EQ(held.hold_count(), 2);
  TestSession heir(broker.locks());
  heir.Open();
  v1::AdoptLease& adopt = Adopt(heir, 5, held.lease_id());
  adopt.mutable_lock()->set_reentrant(true);
  adopt.set_hold_count(2);
  heir.Send();
  EXPECT_EQ(NextAbout(heir, 5).granted().hold_count(), 1);
  EXPECT_EQ(NextAbout(heir, 6).granted().hold_count(), 2);
  heir.Release(7, 5).Send();
  EXPECT_EQ(NextAbout(heir, 7).released().outcome(), v1::RELEASE_OUTCOME_STILL_HELD);
}

}  // namespace
}  // namespace distlock::rpc
