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

class ListSessionsCall final : public UnaryCall {
 private:
  void Start(const grpc::ByteBuffer& request) override;
};

}  // namespace distlock::rpc
