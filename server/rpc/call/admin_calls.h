// SPDX-License-Identifier: Apache-2.0
//
// The unary calls of the admin service except ForceRelease, one class each. Thread and lifetime: see UnaryCall.
#pragma once

#include <functional>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "distlock/v1/admin_service.pb.h"
#include "rpc/call/unary_call.h"
#include "store/node_status.h"

namespace distlock::rpc {

// Facts about this broker that main knows. `drain` and `reload` are called on any thread and return
// at once.
struct BrokerFacts {
  std::string version;
  std::string store_url;  // without secrets
  absl::Time started;
  int wait_replicas = 0;  // that confirm each grant
  // The servers of the store as they are now. Any thread.
  std::function<std::vector<store::NodeStatus>()> store_nodes;
  // SessionOpened.store_id; empty: not known. Any thread.
  std::function<std::string()> store_id;
  // Addresses as bound. Set by the Server; ready soon after its first calls come in.
  std::shared_future<std::vector<std::string>> listen;
  // Starts the same drain as SIGTERM. `timeout` unset: the daemon's own. Returns the timeout in force.
  std::function<core::Duration(std::optional<core::Duration> timeout)> drain;
  // Reads what can be read again, and answers on any thread; may drop the answer when the daemon ends. Empty: there is
  // nothing to read again.
  std::function<void(std::function<void(const v1::ReloadResponse&)>)> reload;
  // Changes of the store as a whole, for `caller`. They return at once and answer on any thread: with OK, Unavailable
  // (a server cannot be reached, or the change cannot be begun now), or another error, why nothing was changed. They
  // may drop the answer when the daemon ends. Empty: the store cannot be changed.
  using Changed = std::function<void(const absl::Status&)>;
  std::function<void(uint32_t to, const std::string& caller, Changed changed)> upgrade_store;
  std::function<void(bool all_brokers_stopped, const std::string& caller, Changed changed)> init_quorum;
};

// The answer of GetStatus; the status page of the HTTP port shows it as well.
v1::GetStatusResponse BrokerStatus(const Frontend& frontend, const BrokerFacts& facts);

class GetStatusCall final : public UnaryCall {
 public:
  explicit GetStatusCall(const BrokerFacts& facts) : facts_(facts) {}

 private:
  void Start(const grpc::ByteBuffer& request) override;

  const BrokerFacts& facts_;
};

class DrainCall final : public UnaryCall {
 public:
  explicit DrainCall(const BrokerFacts& facts) : facts_(facts) {}

 private:
  void Start(const grpc::ByteBuffer& request) override;

  const BrokerFacts& facts_;
};

// Answers with a refusal that was decided before.
class RefusedCall final : public UnaryCall {
 public:
  explicit RefusedCall(v1::Refusal refusal) : refusal_(std::move(refusal)) {}

 private:
  void Start(const grpc::ByteBuffer&) override { Refuse(refusal_); }

  const v1::Refusal refusal_;
};

class ReloadCall final : public UnaryCall {
 public:
  explicit ReloadCall(const BrokerFacts& facts) : facts_(facts) {}

 private:
  void Start(const grpc::ByteBuffer& request) override;

  const BrokerFacts& facts_;
};

// A change of the store as a whole: its outcome is the `problem` of the response.
class StoreChangeCall : public UnaryCall {
 public:
  explicit StoreChangeCall(const BrokerFacts& facts) : facts_(facts) {}

 protected:
  template <typename Response>
  BrokerFacts::Changed AnswerWith();

  const BrokerFacts& facts_;
};

class UpgradeStoreCall final : public StoreChangeCall {
 public:
  using StoreChangeCall::StoreChangeCall;

 private:
  void Start(const grpc::ByteBuffer& request) override;
};

class InitQuorumCall final : public StoreChangeCall {
 public:
  using StoreChangeCall::StoreChangeCall;

 private:
  void Start(const grpc::ByteBuffer& request) override;
};

class ListSessionsCall final : public UnaryCall {
 private:
  void Start(const grpc::ByteBuffer& request) override;
};

}  // namespace distlock::rpc
