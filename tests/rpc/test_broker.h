// SPDX-License-Identifier: Apache-2.0
//
// A whole broker in this process: gRPC on a unix socket in a temporary folder, real shards, cores and stores, on
// modelled servers. And the client side of one Session, one call at a time.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "contract/details.h"
#include "distlock/v1/admin_service.grpc.pb.h"
#include "distlock/v1/lock_service.grpc.pb.h"
#include "rpc/server.h"
#include "shard/model_store.h"

namespace distlock::rpc {

struct TestOptions {
  int shards = 1;
  size_t mailbox_capacity = 4096;
  ServerOptions server;
  core::BrokerConfig core;
};

class TestBroker {
 public:
  explicit TestBroker(TestOptions options = {});
  ~TestBroker();

  v1::LockService::Stub& locks() { return *locks_; }
  v1::AdminService::Stub& admin() { return *admin_; }
  std::shared_ptr<grpc::Channel> NewChannel() const;  // a connection of its own
  shard::ModelStores& store() { return store_; }
  shard::ShardSet& shards() { return *shards_; }
  Server& server() { return *server_; }
  const std::string& address() const { return address_; }
  int drains() const { return drains_; }
  // UpgradeStore and InitQuorum end with this status; the changes are those that they were asked for.
  void ChangesEndWith(absl::Status status) { change_ends_ = std::move(status); }
  const std::vector<std::string>& changes() const { return changes_; }

  // Takes a detached lease at once; fails the test when it is refused.
  v1::Grant Take(const std::string& key, const std::string& request_id = "");
  // Releases a lease of Take; fails the test when it was not held any more.
  void Release(const std::string& lease_id);
  // Whether one try for the lock is refused with LOCK_HELD.
  bool IsHeld(const std::string& key);
  // Waits until `wanted` is true for the sum of the shards' numbers; false after a minute.
  bool Await(const std::function<bool(const core::BrokerStats&)>& wanted);

  void Stop();

 private:
  std::string folder_;
  std::string address_;
  std::atomic<int> drains_ = 0;
  absl::Status change_ends_;
  std::vector<std::string> changes_;
  shard::ModelStores store_;
  std::unique_ptr<shard::ShardSet> shards_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::LockService::Stub> locks_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
};

class TestSession {
 public:
  // authorization: metadata of the call; "": none.
  explicit TestSession(v1::LockService::Stub& stub, const std::string& authorization = "") {
    if (!authorization.empty()) context_.AddMetadata("authorization", authorization);
    stream_ = stub.Session(&context_);
  }
  ~TestSession();

  // These commands gather until Send.
  TestSession& Open(uint64_t id = 1);
  TestSession& Acquire(uint64_t id, const std::string& key, bool one_try = false);
  TestSession& Release(uint64_t id, uint64_t acquire);
  TestSession& Cancel(uint64_t acquire);
  TestSession& Heartbeat(uint64_t seq);
  TestSession& Goodbye();
  v1::SessionCommand& Add(uint64_t id = 0) {
    v1::SessionCommand& command = *request_.add_commands();
    command.set_id(id);
    return command;
  }
  bool Send();

  // The next event, or an empty one when the stream has ended.
  v1::SessionEvent Next();
  bool HalfClose() { return stream_->WritesDone(); }
  grpc::Status Finish();  // reads the remaining events first
  grpc::ClientContext& context() { return context_; }
  size_t largest_message() const { return largest_; }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SessionRequest, v1::SessionResponse>> stream_;
  v1::SessionRequest request_;
  v1::SessionResponse response_;
  int at_ = 0;
  size_t largest_ = 0;
  bool finished_ = false;
};

// The details of a failed call.
struct Details : contract::Details {
  explicit Details(const grpc::Status& status);

 private:
  static wire::RpcStatus Read(const grpc::Status& status);
};

// The lock as GetLock shows it.
inline v1::LockInfo Look(TestBroker& broker, const std::string& key) {
  grpc::ClientContext context;
  v1::GetLockRequest request;
  request.set_key(key);
  v1::GetLockResponse response;
  EXPECT_TRUE(broker.locks().GetLock(&context, request, &response).ok());
  return response.lock();
}

}  // namespace distlock::rpc
