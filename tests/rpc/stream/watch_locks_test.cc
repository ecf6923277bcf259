// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <map>

#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

class WatchingMany {
 public:
  explicit WatchingMany(TestBroker& broker, const std::string& prefix = "", const std::string& ns = "") {
    v1::WatchLocksRequest request;
    request.set_namespace_(ns);
    request.set_key_prefix(prefix);
    stream_ = broker.locks().WatchLocks(&context_, request);
  }
  // False: the stream has ended.
  bool Next() {
    v1::WatchLocksResponse response;
    if (!stream_->Read(&response)) return false;
    for (v1::LockInfo& lock : *response.mutable_locks()) {
      changes.push_back(lock.key());
      locks[lock.key()] = std::move(lock);
    }
    if (response.listed()) ++listed;
    return true;
  }
  // Reads until it was told that all are listed.
  bool Listed() {
    while (listed == 0) {
      if (!Next()) return false;
    }
    return true;
  }
  // Reads until `key` has so many holders and waiters.
  bool NextWith(const std::string& key, int holders, int waiters = 0) {
    while (!locks.contains(key) || locks[key].holders_size() != holders || locks[key].queue_length() != waiters) {
      if (!Next()) return false;
    }
    return true;
  }
  // After Next was false.
  grpc::Status Finish() {
    while (Next()) {
    }
    return stream_->Finish();
  }
  void Cancel() { context_.TryCancel(); }

  std::map<std::string, v1::LockInfo> locks;  // as last told
  std::vector<std::string> changes;
  int listed = 0;

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchLocksResponse>> stream_;
};

bool AwaitWatchedLocks(TestBroker& broker, size_t count) {
  return broker.Await([count](const core::BrokerStats& stats) { return stats.watches == count; });
}

TEST(WatchLocks, WhatIsTakenThenEachChangeThenWhatComesLater) {
  TestBroker broker;
  const v1::Grant one = broker.Take("a/1");
  broker.Take("a/2");
  broker.Take("b/1");
  broker.Release(broker.Take("a/free").lease_id());
  WatchingMany watch(broker, "a/");
  ASSERT_TRUE(watch.Listed());
  EXPECT_THAT(watch.changes, testing::UnorderedElementsAre("a/1", "a/2"));
  EXPECT_EQ(watch.locks["a/1"].holders(0).holder_id(), one.holder_id());
  EXPECT_EQ(watch.locks["a/1"].holders(0).owner(), "taker");

  TestSession session(broker.locks());
  session.Open().Acquire(2, "a/1").Send();
  ASSERT_TRUE(watch.NextWith("a/1", 1, 1));
  EXPECT_EQ(watch.locks["a/1"].waiters_size(), 1);
  broker.Release(one.lease_id());
  ASSERT_TRUE(watch.NextWith("a/1", 1));
  EXPECT_GT(watch.locks["a/1"].fencing_token(), one.fencing_token());
  session.Release(3, 2).Send();
  ASSERT_TRUE(watch.NextWith("a/1", 0));

  broker.Take("a/new");
  ASSERT_TRUE(watch.NextWith("a/new", 1)) << "a later listing finds it";
  EXPECT_EQ(watch.listed, 1);
  EXPECT_FALSE(watch.locks.contains("b/1"));
}

TEST(WatchLocks, CancelledEachOfItsWatchesIsForgotten) {
  TestBroker broker;
  broker.Take("a");
  broker.Take("b");
  WatchingMany watch(broker);
  ASSERT_TRUE(watch.Listed());
  EXPECT_TRUE(AwaitWatchedLocks(broker, 2));
  watch.Cancel();
  EXPECT_EQ(watch.Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(AwaitWatchedLocks(broker, 0));
}

TEST(WatchLocks, WithNothingToTellItSaysThatAllAreListed) {
  TestBroker broker;
  WatchingMany watch(broker);
  EXPECT_TRUE(watch.Listed());
  EXPECT_THAT(watch.changes, testing::IsEmpty());
}

TEST(WatchLocks, AllNamespaces) {
  TestBroker broker;
  v1::AcquireRequest request;
  request.add_locks()->set_key("there");
  request.mutable_locks(0)->set_namespace_("other");
  v1::AcquireResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(broker.locks().Acquire(&context, request, &response).ok());
  broker.Take("here");
  WatchingMany all(broker, "", "-");
  ASSERT_TRUE(all.Listed());
  EXPECT_THAT(all.changes, testing::UnorderedElementsAre("here", "there"));
  EXPECT_EQ(all.locks["there"].namespace_(), "other");
}

TEST(WatchLocks, WaitsForTheStore) {
  TestBroker broker;
  broker.Take("a");
  broker.store().SetUp(false);
  WatchingMany watch(broker);
  broker.store().SetUp(true);
  ASSERT_TRUE(watch.Listed());
  EXPECT_THAT(watch.changes, testing::ElementsAre("a"));
}

TEST(WatchLocks, MoreThanItMayWatchEndsItAndSaysWhatToDo) {
  TestOptions options;
  options.server.limits.max_watched_locks = 2;
  TestBroker broker(options);
  broker.Take("a");
  broker.Take("b");
  WatchingMany watch(broker);
  ASSERT_TRUE(watch.Listed());
  broker.Take("c");
  const grpc::Status status = watch.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Details(status).reason, "QUOTA_EXCEEDED");
  EXPECT_THAT(status.error_message(), testing::HasSubstr("limit max-watched-locks"));
  EXPECT_TRUE(AwaitWatchedLocks(broker, 0));
}

TEST(WatchLocks, LocksThatAreFreeMakeRoom) {
  TestOptions options;
  options.server.limits.max_watched_locks = 1;
  TestBroker broker(options);
  WatchingMany watch(broker);
  for (const char* key : {"a", "b", "c"}) {
    const v1::Grant grant = broker.Take(key);
    ASSERT_TRUE(watch.NextWith(key, 1));
    broker.Release(grant.lease_id());
    ASSERT_TRUE(watch.NextWith(key, 0));
  }
}

TEST(WatchLocks, CountsAsAStreamAndAsAPrefixWatch) {
  TestOptions options;
  options.server.limits.max_prefix_watches = 1;
  TestBroker broker(options);
  WatchingMany one(broker);
  ASSERT_TRUE(one.Listed());
  WatchingMany two(broker);
  const grpc::Status refused = two.Finish();
  EXPECT_EQ(Details(refused).reason, "QUOTA_EXCEEDED");
  EXPECT_THAT(refused.error_message(), testing::HasSubstr("limit max-prefix-watches"));
  v1::ListSessionsResponse sessions;
  grpc::ClientContext context;
  ASSERT_TRUE(broker.admin().ListSessions(&context, {}, &sessions).ok());
  ASSERT_EQ(sessions.sessions_size(), 1);
  EXPECT_EQ(sessions.sessions(0).kind(), v1::STREAM_KIND_WATCH);
  one.Cancel();
  one.Finish();
  for (bool listed = false; !listed;) listed = WatchingMany(broker).Listed();
}

TEST(WatchLocks, InvalidIsTheStatus) {
  TestBroker broker;
  const grpc::Status all = WatchingMany(broker, "p", "-").Finish();
  EXPECT_EQ(all.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(Details(all).fields, testing::ElementsAre("key_prefix"));
  const grpc::Status both = WatchingMany(broker, std::string(600, 'p'), std::string(70, 'n')).Finish();
  EXPECT_THAT(Details(both).fields, testing::ElementsAre("namespace", "key_prefix"));
}

TEST(WatchLocks, DrainEndsIt) {
  TestBroker broker;
  broker.Take("a");
  WatchingMany with_a_lock(broker), without(broker, "nothing");
  ASSERT_TRUE(with_a_lock.Listed());
  ASSERT_TRUE(without.Listed());
  broker.server().Drain();
  broker.shards().Drain(std::chrono::seconds(30), [] {});
  for (WatchingMany* watch : {&with_a_lock, &without}) {
    const grpc::Status status = watch->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(Details(status).reason, "DRAINING");
  }
}

// A client that does not read for a while misses changes, and in the end has the newest of each lock, in messages that
// a client takes by default.
TEST(WatchLocks, ASlowReaderGetsTheNewestOfEach) {
  TestOptions options;
  options.server.limits.max_metadata_bytes = 60'000;
  options.server.limits.max_watched_locks = 200;
  TestBroker broker(options);
  WatchingMany watch(broker);
  ASSERT_TRUE(watch.Listed());
  std::map<std::string, int64_t> newest;
  for (int i = 0; i < 300; ++i) {
    v1::AcquireRequest request;
    const std::string key = absl::StrCat("k", i % 100);
    request.add_locks()->set_key(key);
    (*request.mutable_locks(0)->mutable_metadata())["m"] = std::string(50'000, 'x');
    v1::AcquireResponse response;
    grpc::ClientContext context;
    ASSERT_TRUE(broker.locks().Acquire(&context, request, &response).ok());
    newest[key] = response.grants(0).fencing_token();
    if (i < 200) broker.Release(response.grants(0).lease_id());
  }
  for (const auto& [key, token] : newest) {
    while (!watch.locks.contains(key) || watch.locks[key].fencing_token() < token) ASSERT_TRUE(watch.Next());
    EXPECT_EQ(watch.locks[key].holders_size(), 1);
  }
}

}  // namespace
}  // namespace distlock::rpc
