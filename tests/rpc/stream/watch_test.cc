// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

class Watching {
 public:
  Watching(TestBroker& broker, const std::string& key) {
    v1::WatchLockRequest request;
    request.set_key(key);
    stream_ = broker.locks().WatchLock(&context_, request);
  }
  v1::LockInfo Next() {
    v1::WatchLockResponse response;
    stream_->Read(&response);
    return response.lock();
  }
  // The next event with so many holders and waiters. Skips events before it, as fast changes may be sent as one.
  v1::LockInfo NextWith(int holders, int waiters) {
    v1::LockInfo lock = Next();
    while (!lock.key().empty() && (lock.holders_size() != holders || lock.queue_length() != waiters)) lock = Next();
    return lock;
  }
  grpc::Status Finish() { return stream_->Finish(); }
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchLockResponse>> stream_;
};

bool AwaitWatches(TestBroker& broker, size_t count) {
  return broker.Await([count](const core::BrokerStats& stats) { return stats.watches == count; });
}

TEST(Watch, ASnapshotAndThenTheChanges) {
  TestBroker broker;
  Watching watch(broker, "a");
  const v1::LockInfo first = watch.Next();
  EXPECT_EQ(first.key(), "a");
  EXPECT_EQ(first.namespace_(), "default");
  EXPECT_EQ(first.holders_size(), 0);
  const v1::Grant grant = broker.Take("a");
  const v1::LockInfo held = watch.NextWith(1, 0);
  ASSERT_EQ(held.holders_size(), 1);
  EXPECT_EQ(held.holders(0).holder_id(), grant.holder_id());
  EXPECT_EQ(held.holders(0).owner(), "taker");
  EXPECT_THAT(held.SerializeAsString(), testing::Not(testing::HasSubstr(grant.lease_id())));
  TestSession session(broker.locks());
  session.Open().Acquire(2, "a").Send();
  EXPECT_EQ(watch.NextWith(1, 1).queue_length(), 1u);
  broker.Release(grant.lease_id());
  const v1::LockInfo handed = watch.NextWith(1, 0);
  ASSERT_EQ(handed.holders_size(), 1);
  EXPECT_GT(handed.fencing_token(), grant.fencing_token());
}

TEST(Watch, CancelledItIsForgotten) {
  TestBroker broker;
  Watching one(broker, "a"), two(broker, "a");
  one.Next();
  two.Next();
  EXPECT_TRUE(AwaitWatches(broker, 1));
  one.Cancel();
  EXPECT_EQ(one.Finish().error_code(), grpc::StatusCode::CANCELLED);
  broker.Take("a");
  EXPECT_EQ(two.NextWith(1, 0).holders_size(), 1);
  two.Cancel();
  EXPECT_TRUE(AwaitWatches(broker, 0));
}

TEST(Watch, WaitsForTheStore) {
  TestBroker broker;
  broker.store().SetUp(false);
  Watching watch(broker, "a");
  EXPECT_TRUE(AwaitWatches(broker, 1));
  broker.store().SetUp(true);
  EXPECT_EQ(watch.Next().key(), "a");
}

TEST(Watch, InvalidIsTheStatus) {
  TestBroker broker;
  Watching watch(broker, "");
  EXPECT_EQ(watch.Next().key(), "");
  const grpc::Status status = watch.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(Details(status).fields, testing::ElementsAre("key"));
}

TEST(Watch, CountsAsAStream) {
  TestOptions options;
  options.server.limits.max_sessions = 1;
  TestBroker broker(options);
  Watching one(broker, "a");
  one.Next();
  Watching two(broker, "a");
  EXPECT_EQ(two.Next().key(), "");
  EXPECT_EQ(Details(two.Finish()).reason, "QUOTA_EXCEEDED");
}

TEST(Watch, DrainEndsIt) {
  TestBroker broker;
  Watching watch(broker, "a");
  watch.Next();
  broker.server().Drain();
  broker.shards().Drain(std::chrono::seconds(30), [] {});
  EXPECT_EQ(watch.Next().key(), "");
  const grpc::Status status = watch.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Details(status).reason, "DRAINING");
}

// A client that does not read misses far more changes than fit into a connection's buffers; in the end it reads the
// newest state.
TEST(Watch, ASlowReaderGetsTheNewest) {
  TestOptions options;
  options.server.limits.max_metadata_bytes = 60'000;
  TestBroker broker(options);
  Watching watch(broker, "a");
  int64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    v1::AcquireRequest request;
    request.add_locks()->set_key("a");
    (*request.mutable_locks(0)->mutable_metadata())["m"] = std::string(50'000, 'x');
    v1::AcquireResponse response;
    grpc::ClientContext context;
    ASSERT_TRUE(broker.locks().Acquire(&context, request, &response).ok());
    last = response.grants(0).fencing_token();
    if (i < 99) broker.Release(response.grants(0).lease_id());
  }
  v1::LockInfo lock = watch.Next();
  while (lock.fencing_token() < last && !lock.key().empty()) lock = watch.Next();
  EXPECT_EQ(lock.fencing_token(), last);
  EXPECT_EQ(lock.holders_size(), 1);
}

}  // namespace
}  // namespace distlock::rpc
