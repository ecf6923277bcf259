// SPDX-License-Identifier: Apache-2.0
//
// Bounds of the broker: clients with default limits can read every answer, and clients cannot fill the broker's memory.
#include <gmock/gmock.h>

#include <map>
#include <thread>
#include <vector>

#include "rpc/call/one_call.h"
#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

using testing::HasSubstr;

TEST(Bounds, LocksWithManyHoldersFitIntoAMessage) {
  TestOptions options;
  options.server.limits.max_metadata_bytes = 16'384;
  TestBroker broker(options);
  // More than fit into one answer, and more than a page shows of a lock.
  constexpr uint32_t kCrowd = 100, kGroup = 17;
  std::map<std::string, uint32_t> held{{"crowded", kCrowd}};
  for (int i = 0; i < 12; ++i) held["key" + std::to_string(i)] = kGroup;
  for (const auto& [key, readers] : held) {
    v1::AcquireRequest request = OneTry(key);
    request.mutable_locks(0)->set_mode(v1::LOCK_MODE_SHARED);
    (*request.mutable_locks(0)->mutable_metadata())["m"] = std::string(16'000, 'x');
    for (uint32_t i = 0; i < readers; ++i) {
      ASSERT_TRUE(Call<v1::AcquireResponse>(broker.locks(), &v1::LockService::Stub::Acquire, request).first.ok());
    }
  }
  v1::GetLockRequest get;
  get.set_key("crowded");
  const auto [got, lock] = Call<v1::GetLockResponse>(broker.locks(), &v1::LockService::Stub::GetLock, get);
  ASSERT_TRUE(got.ok()) << got.error_message();
  EXPECT_EQ(lock.lock().holder_count(), kCrowd);
  EXPECT_GT(lock.lock().holders_size(), 16);
  EXPECT_LT(lock.lock().holders_size(), static_cast<int>(kCrowd));

  v1::ListLocksRequest list;
  std::map<std::string, uint32_t> listed;
  int pages = 0;
  do {
    const auto [status, page] = Call<v1::ListLocksResponse>(broker.locks(), &v1::LockService::Stub::ListLocks, list);
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (const v1::LockInfo& one : page.locks()) {
      EXPECT_EQ(one.holders_size(), 16);
      EXPECT_TRUE(listed.emplace(one.key(), one.holder_count()).second) << one.key();
    }
    ++pages;
    list.set_page_token(page.next_page_token());
  } while (!list.page_token().empty());
  EXPECT_EQ(listed, held);
  EXPECT_GT(pages, 1);
}

TEST(Bounds, ARefusalReachesItsCallerDespiteLongNames) {
  TestOptions options;
  options.server.limits.max_namespace_bytes = 1024;
  options.server.limits.max_key_bytes = 4096;
  options.server.limits.max_owner_bytes = 4096;
  TestBroker broker(options);
  std::string wide;
  for (int i = 0; i < 2048; ++i) wide += "\xc3\xa9";
  v1::AcquireRequest request = OneTry(wide);
  request.mutable_locks(0)->set_namespace_(std::string(1024, '%'));
  request.mutable_locks(0)->set_owner(wide);
  const auto [taken, grant] = Call<v1::AcquireResponse>(broker.locks(), &v1::LockService::Stub::Acquire, request);
  ASSERT_TRUE(taken.ok()) << taken.error_message();
  const auto [held, none] = Call<v1::AcquireResponse>(broker.locks(), &v1::LockService::Stub::Acquire, request);
  EXPECT_EQ(held.error_code(), grpc::StatusCode::ABORTED) << held.error_message();
  EXPECT_EQ(Details(held).reason, "LOCK_HELD");
  EXPECT_EQ(Details(held).facts["holder_id"], grant.grants(0).holder_id());

  for (int i = 0; i < 63; ++i) {
    v1::LockSpec& bad = *request.add_locks();
    bad.set_key(std::to_string(i));
    bad.mutable_ttl()->set_seconds(-1);
    bad.mutable_max_hold()->set_seconds(-1);
    bad.set_permits(1);
  }
  const auto [invalid, nothing] = Call<v1::AcquireResponse>(broker.locks(), &v1::LockService::Stub::Acquire, request);
  EXPECT_EQ(invalid.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << invalid.error_message();
  EXPECT_THAT(Details(invalid).fields, testing::Contains("locks[1].ttl"));
}

TEST(Bounds, WaitingCallsOfAPeerAreLimited) {
  TestOptions options;
  options.server.limits.max_waiting_calls_per_peer = 2;
  TestBroker broker(options);
  const v1::Grant first = broker.Take("a");
  v1::AcquireRequest wait;
  wait.add_locks()->set_key("a");
  std::vector<std::thread> waiters;
  for (int i = 0; i < 2; ++i) {
    waiters.emplace_back([&] {
      const auto [status, granted] = Call<v1::AcquireResponse>(broker.locks(), &v1::LockService::Stub::Acquire, wait);
      ASSERT_TRUE(status.ok()) << status.error_message();
      broker.Release(granted.grants(0).lease_id());
    });
  }
  ASSERT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.waiters == 2; }));
  const auto [refused, none] = Call<v1::AcquireResponse>(broker.locks(), &v1::LockService::Stub::Acquire, OneTry("b"));
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Details(refused).reason, "QUOTA_EXCEEDED");
  EXPECT_GT(Details(refused).retry.retry_delay().seconds(), 0);
  EXPECT_THAT(refused.error_message(), HasSubstr("limit max-waiting-calls-per-peer"));
  broker.Release(first.lease_id());
  for (std::thread& waiter : waiters) waiter.join();
  // The calls stop counting when gRPC is done with them, a little after they are answered.
  EXPECT_TRUE(broker.Await([&](const core::BrokerStats&) {
    return Call<v1::AcquireResponse>(broker.locks(), &v1::LockService::Stub::Acquire, OneTry("b")).first.error_code() !=
           grpc::StatusCode::RESOURCE_EXHAUSTED;
  }));
}

TEST(Bounds, AcquiresOfAPeerAreRateLimited) {
  TestOptions options;
  options.server.limits.requests_per_second = 5;
  TestBroker broker(options);
  int refused = 0;
  for (int i = 0; i < 50; ++i) {
    const auto [status, granted] =
        Call<v1::AcquireResponse>(broker.locks(), &v1::LockService::Stub::Acquire, OneTry("key" + std::to_string(i)));
    if (status.ok()) {
      broker.Release(granted.grants(0).lease_id());
      continue;
    }
    ++refused;
    EXPECT_EQ(Details(status).reason, "QUOTA_EXCEEDED");
    EXPECT_TRUE(Details(status).retry.has_retry_delay());
    EXPECT_THAT(status.error_message(), HasSubstr("limit requests-per-second"));
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace distlock::rpc
