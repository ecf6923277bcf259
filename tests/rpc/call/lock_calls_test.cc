// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <thread>

#include "contract/ids.h"
#include "contract/lease_id.h"
#include "rpc/call/one_call.h"
#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

using testing::HasSubstr;

TEST(Unary, AcquireRenewReleaseTwice) {
  TestBroker broker;
  const v1::Grant grant = broker.Take("a");
  EXPECT_EQ(grant.namespace_(), "default");
  EXPECT_EQ(grant.key(), "a");
  EXPECT_GT(grant.fencing_token(), 0u);
  EXPECT_EQ(grant.holder_id(), contract::HolderIdOf(contract::DecodeLeaseId(grant.lease_id())->owner));
  EXPECT_GE(grant.valid_for().seconds(), 13);

  v1::RenewRequest renew;
  renew.set_lease_id(grant.lease_id());
  const auto [renewed, validity] = Call<v1::RenewResponse>(broker.locks(), &v1::LockService::Stub::Renew, renew);
  ASSERT_TRUE(renewed.ok()) << renewed.error_message();
  EXPECT_EQ(validity.ttl().seconds(), 15);

  v1::ReleaseRequest release;
  release.set_lease_id(grant.lease_id());
  using Outcome = v1::ReleaseResponse;
  EXPECT_EQ(Call<Outcome>(broker.locks(), &v1::LockService::Stub::Release, release).second.outcome(),
            v1::RELEASE_OUTCOME_RELEASED);
  EXPECT_EQ(Call<Outcome>(broker.locks(), &v1::LockService::Stub::Release, release).second.outcome(),
            v1::RELEASE_OUTCOME_ALREADY_GONE);

  const auto [gone, nothing] = Call<v1::RenewResponse>(broker.locks(), &v1::LockService::Stub::Renew, renew);
  EXPECT_EQ(gone.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Details(gone).reason, "NOT_HOLDER");
  EXPECT_THAT(gone.error_message(), HasSubstr("acquire again"));
}

TEST(Unary, AHeldLockNamesItsHolder) {
  TestBroker broker;
  const v1::Grant grant = broker.Take("a/b");
  const auto [status, response] =
      Call<v1::AcquireResponse>(broker.locks(), &v1::LockService::Stub::Acquire, OneTry("a/b"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  const Details details(status);
  EXPECT_EQ(details.reason, "LOCK_HELD");
  EXPECT_EQ(details.facts.at("holder_id"), grant.holder_id());
  EXPECT_GT(details.retry.retry_delay().seconds(), 0);
  EXPECT_EQ(details.resource.resource_name(), "default:a/b");
  EXPECT_EQ(details.resource.owner(), "taker");
  EXPECT_THAT(status.error_message(), HasSubstr("\"default:a/b\" is held by \"taker\""));
  EXPECT_THAT(status.error_message(), HasSubstr("max_wait"));
}

TEST(Unary, ARequestIdGetsTheSameGrant) {
  TestBroker broker;
  const v1::Grant first = broker.Take("a", "0123456789abcdef");
  const v1::Grant again = broker.Take("a", "0123456789abcdef");
  EXPECT_EQ(first.fencing_token(), again.fencing_token());
  EXPECT_EQ(first.lease_id(), again.lease_id());
}

TEST(Unary, ALeaseIdBelongsToOneGrant) {
  TestBroker broker;
  v1::ReleaseRequest release;
  release.set_lease_id(broker.Take("a", "0123456789abcdef").lease_id());
  v1::RenewRequest renew;
  renew.set_lease_id(release.lease_id());
  const auto give_back = [&] {
    return Call<v1::ReleaseResponse>(broker.locks(), &v1::LockService::Stub::Release, release).second.outcome();
  };
  EXPECT_EQ(give_back(), v1::RELEASE_OUTCOME_RELEASED);
  const v1::Grant second = broker.Take("a", "0123456789abcdef");
  EXPECT_EQ(give_back(), v1::RELEASE_OUTCOME_ALREADY_GONE) << "a late repeat";
  EXPECT_EQ(Details(Call<v1::RenewResponse>(broker.locks(), &v1::LockService::Stub::Renew, renew).first).reason,
            "NOT_HOLDER");
  EXPECT_TRUE(broker.IsHeld("a"));
  release.set_lease_id(second.lease_id());
  EXPECT_EQ(give_back(), v1::RELEASE_OUTCOME_RELEASED);
}

TEST(Unary, BadFieldsAreNamedInTheDetails) {
  TestBroker broker;
  v1::AcquireRequest request;
  request.add_locks()->mutable_ttl()->set_seconds(-1);
  request.set_request_id("short");
  const auto [status, response] = Call<v1::AcquireResponse>(broker.locks(), &v1::LockService::Stub::Acquire, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Details(status).reason, "INVALID_ARGUMENT");
  EXPECT_THAT(Details(status).fields, testing::UnorderedElementsAre("locks[0].key", "locks[0].ttl", "request_id"));
}

TEST(Unary, AMangledLeaseIdIsInvalidNotGone) {
  TestBroker broker;
  v1::ReleaseRequest release;
  release.set_lease_id(broker.Take("a").lease_id() + "x");
  const auto [status, response] = Call<v1::ReleaseResponse>(broker.locks(), &v1::LockService::Stub::Release, release);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(Details(status).fields, testing::ElementsAre("lease_id"));
  EXPECT_TRUE(broker.IsHeld("a"));
}

// Its broker ends it with the stream, whatever a caller was promised.
TEST(Unary, ALeaseOfAStreamIsNotRenewedByACaller) {
  TestBroker broker;
  v1::HoldRequest wanted;
  wanted.mutable_lock()->set_key("a");
  grpc::ClientContext context;
  const auto hold = broker.locks().Hold(&context, wanted);
  v1::HoldResponse held;
  ASSERT_TRUE(hold->Read(&held));
  ASSERT_TRUE(held.has_granted());
  v1::RenewRequest renew;
  renew.set_lease_id(held.granted().lease_id());
  const auto [status, response] = Call<v1::RenewResponse>(broker.locks(), &v1::LockService::Stub::Renew, renew);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(Details(status).fields, testing::ElementsAre("lease_id"));
  context.TryCancel();
}

TEST(Unary, SeveralLocksAreAnsweredInTheirOrder) {
  TestBroker broker;
  v1::AcquireRequest request = OneTry("b");
  request.add_locks()->set_key("a");
  request.mutable_locks(1)->mutable_max_wait();
  const auto [taken, response] = Call<v1::AcquireResponse>(broker.locks(), &v1::LockService::Stub::Acquire, request);
  ASSERT_TRUE(taken.ok()) << taken.error_message();
  ASSERT_EQ(response.grants_size(), 2);
  EXPECT_EQ(response.grants(0).key(), "b");
  EXPECT_EQ(response.grants(1).key(), "a");
  const auto [refused, none] =
      Call<v1::AcquireResponse>(broker.locks(), &v1::LockService::Stub::Acquire, v1::AcquireRequest());
  EXPECT_THAT(Details(refused).fields, testing::ElementsAre("locks"));
}

TEST(Unary, CheckTokenKnowsTheNewest) {
  TestBroker broker;
  const v1::Grant first = broker.Take("a");
  const auto ask = [&](int64_t token) {
    v1::CheckTokenRequest request;
    request.set_key("a");
    request.set_fencing_token(token);
    return Call<v1::CheckTokenResponse>(broker.locks(), &v1::LockService::Stub::CheckToken, request);
  };
  EXPECT_TRUE(ask(first.fencing_token()).second.newest());
  broker.Release(first.lease_id());
  EXPECT_TRUE(ask(first.fencing_token()).second.newest()) << "no newer one has been given";
  const v1::Grant second = broker.Take("a");
  EXPECT_FALSE(ask(first.fencing_token()).second.newest());
  EXPECT_EQ(ask(first.fencing_token()).second.newest_token(), second.fencing_token());
  EXPECT_TRUE(ask(second.fencing_token()).second.newest());
  EXPECT_FALSE(ask(second.fencing_token() + 1).second.newest()) << "nobody has been given that one";
  EXPECT_THAT(Details(ask(0).first).fields, testing::ElementsAre("fencing_token"));
  EXPECT_THAT(Details(ask(-1).first).fields, testing::ElementsAre("fencing_token"));
}

TEST(Unary, ListShowsAllNamespaces) {
  TestBroker broker;
  for (const char* ns : {"one", "two"}) {
    v1::AcquireRequest request = OneTry("a");
    request.mutable_locks(0)->set_namespace_(ns);
    ASSERT_TRUE(Call<v1::AcquireResponse>(broker.locks(), &v1::LockService::Stub::Acquire, request).first.ok());
  }
  v1::ListLocksRequest list;
  list.set_namespace_("-");
  const auto [listed, page] = Call<v1::ListLocksResponse>(broker.locks(), &v1::LockService::Stub::ListLocks, list);
  std::set<std::string> seen;
  for (const v1::LockInfo& lock : page.locks()) seen.insert(lock.namespace_());
  EXPECT_THAT(seen, testing::ElementsAre("one", "two"));
  list.set_key_prefix("a");
  const auto [refused, none] = Call<v1::ListLocksResponse>(broker.locks(), &v1::LockService::Stub::ListLocks, list);
  EXPECT_THAT(Details(refused).fields, testing::ElementsAre("key_prefix"));
}

TEST(Unary, GetLockListsAsManyWaitersAsAsked) {
  TestBroker broker;
  const v1::Grant grant = broker.Take("a");
  TestSession session(broker.locks());
  session.Open().Acquire(2, "a").Acquire(3, "a").Send();
  ASSERT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.waiters == 2; }));
  for (int queued = 0; queued < 2;) queued += session.Next().has_queued() ? 1 : 0;
  v1::GetLockRequest get;
  get.set_key("a");
  const auto listed = [&] {
    const auto lock = Call<v1::GetLockResponse>(broker.locks(), &v1::LockService::Stub::GetLock, get).second.lock();
    EXPECT_EQ(lock.queue_length(), 2);
    return lock.waiters_size();
  };
  EXPECT_EQ(listed(), 2) << "unset: up to 100";
  get.set_max_waiters(1);
  EXPECT_EQ(listed(), 1);
  get.set_max_waiters(0);
  EXPECT_EQ(listed(), 0);
  get.set_max_waiters(-1);
  const auto refused = Call<v1::GetLockResponse>(broker.locks(), &v1::LockService::Stub::GetLock, get).first;
  EXPECT_THAT(Details(refused).fields, testing::ElementsAre("max_waiters"));
}

TEST(Unary, GetAndListShowHoldersWithoutSecrets) {
  TestBroker broker;
  const v1::Grant grant = broker.Take("a");
  v1::GetLockRequest get;
  get.set_key("a");
  const auto [got, lock] = Call<v1::GetLockResponse>(broker.locks(), &v1::LockService::Stub::GetLock, get);
  ASSERT_TRUE(got.ok());
  ASSERT_EQ(lock.lock().holders_size(), 1);
  EXPECT_EQ(lock.lock().holders(0).owner(), "taker");
  EXPECT_EQ(lock.lock().holders(0).holder_id(), grant.holder_id());
  EXPECT_EQ(lock.lock().holders(0).broker_id(), "00112233445566aa");
  const auto owner = contract::DecodeLeaseId(grant.lease_id())->owner;
  EXPECT_EQ(lock.SerializeAsString().find(std::string(owner.begin(), owner.end())), std::string::npos);

  const auto [listed, page] =
      Call<v1::ListLocksResponse>(broker.locks(), &v1::LockService::Stub::ListLocks, v1::ListLocksRequest());
  ASSERT_TRUE(listed.ok());
  ASSERT_EQ(page.locks_size(), 1);
  EXPECT_EQ(page.locks(0).key(), "a");
}

TEST(Unary, StatusAndDrain) {
  TestBroker broker;
  const auto [got, status] =
      Call<v1::GetStatusResponse>(broker.admin(), &v1::AdminService::Stub::GetStatus, v1::GetStatusRequest());
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(status.broker_id(), "00112233445566aa");
  EXPECT_EQ(status.listen_addresses(0), broker.address());
  EXPECT_EQ(status.validity().seconds(), 3);
  const auto [drained, left] =
      Call<v1::DrainResponse>(broker.admin(), &v1::AdminService::Stub::Drain, v1::DrainRequest());
  EXPECT_EQ(left.timeout().seconds(), 30);
  EXPECT_EQ(broker.drains(), 1);
  v1::DrainRequest bad;
  bad.mutable_timeout()->set_seconds(-1);
  const auto [refused, none] = Call<v1::DrainResponse>(broker.admin(), &v1::AdminService::Stub::Drain, bad);
  EXPECT_EQ(Details(refused).reason, "INVALID_ARGUMENT");
}

TEST(Unary, WhileDrainingNewAcquiresAreRefused) {
  TestBroker broker;
  const v1::Grant grant = broker.Take("a");
  broker.server().Drain();
  const auto [status, response] =
      Call<v1::AcquireResponse>(broker.locks(), &v1::LockService::Stub::Acquire, OneTry("b"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Details(status).reason, "DRAINING");
  EXPECT_GT(Details(status).retry.retry_delay().seconds(), 0);
  v1::ReleaseRequest release;
  release.set_lease_id(grant.lease_id());
  EXPECT_TRUE(Call<v1::ReleaseResponse>(broker.locks(), &v1::LockService::Stub::Release, release).first.ok());
}

// The store's answer comes long after the end of the call and its reactor.
TEST(Unary, AGrantAfterCancelIsReleased) {
  TestBroker broker;
  broker.store().HoldReplies(true);
  grpc::ClientContext context;
  v1::AcquireRequest request;
  request.add_locks()->set_key("a");
  v1::AcquireResponse response;
  grpc::Status status;
  std::thread caller([&] { status = broker.locks().Acquire(&context, request, &response); });
  ASSERT_TRUE(broker.store().Await([](const auto& counts) { return counts.acquires == 1; }));
  context.TryCancel();
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.pending_releases == 1; }));
  broker.store().HoldReplies(false);
  ASSERT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.pending_releases == 0; }));
  EXPECT_FALSE(broker.IsHeld("a"));
  EXPECT_EQ(broker.store().counts().releases_of_any, 0u);
}

// A grant whose answer left before the cancel came ends by its ttl; every other grant is released.
TEST(Unary, CancelsAtAnyMomentAreSurvived) {
  TestBroker broker;
  for (int i = 0; i < 300; ++i) {
    grpc::ClientContext context;
    const v1::AcquireRequest request = OneTry("k" + std::to_string(i));
    v1::AcquireResponse response;
    grpc::Status status;
    std::thread caller([&] { status = broker.locks().Acquire(&context, request, &response); });
    const auto until = std::chrono::steady_clock::now() + i * std::chrono::microseconds(3);
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
    context.TryCancel();
    caller.join();
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::CANCELLED) << status.error_message();
  }
  EXPECT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.waiters + stats.pending_releases == 0; }));
  EXPECT_EQ(broker.store().counts().releases_of_any, 0u);
  broker.Take("alive");
}

TEST(Unary, WithoutItsStoreTheBrokerIsUnavailable) {
  TestOptions options;
  options.core.store_timeout = std::chrono::milliseconds(200);
  TestBroker broker(options);
  broker.Take("warm");
  broker.store().SetUp(false);
  const auto [status, response] =
      Call<v1::AcquireResponse>(broker.locks(), &v1::LockService::Stub::Acquire, OneTry("a"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Details(status).reason, "STORE_UNAVAILABLE");
  EXPECT_TRUE(Details(status).retry.has_retry_delay());
}

}  // namespace
}  // namespace distlock::rpc
