// SPDX-License-Identifier: Apache-2.0
//
// The unary calls of the lock service, one class each. Thread and lifetime: see UnaryCall.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "contract/lease_id.h"
#include "contract/validate.h"
#include "core/messages.h"
#include "distlock/v1/lock_service.pb.h"
#include "rpc/call/unary_call.h"

namespace distlock::rpc {

// A grant that comes after the call was cancelled is released, unless the answer has left: then only the ttl ends it.
// With a request_id it is never released, because a repeated request may hold the same grant already.
class AcquireCall final : public UnaryCall {
 private:
  void Start(const grpc::ByteBuffer& request) override;
  void OnEvent(core::Event& event) override;
  void OnEnd() override;
  void AnswerLost() override;
  // True: the caller's quota does not let it ask for so many, and the call is refused.
  bool Metered(size_t locks);

  // The locks of the request, in its order, and the grants so far. Written by Start, then by OnEvent.
  struct Part {
    core::LockName name;
    core::OwnerId owner{};
    core::Duration ttl{};
    core::Duration max_hold{};
    std::optional<v1::Grant> grant;
    uint64_t token = 0;  // of the grant
  };
  std::vector<Part> parts_;
  std::string peer_;                          // who counts as one with the caller
  bool admitted_ = false;                     // counts as a waiting call
  std::shared_ptr<access::Account> account_;  // null: no quota
  int64_t waiting_ = 0;                       // locks that are counted there
  int home_ = 0;
  bool repeatable_ = false;
  std::atomic<bool> granted_ = false;
};

class RenewCall final : public UnaryCall {
 private:
  void Start(const grpc::ByteBuffer& request) override;
  void OnEvent(core::Event& event) override;

  core::LockName name_;
};

class ReleaseCall final : public UnaryCall {
 private:
  void Start(const grpc::ByteBuffer& request) override;
  void OnEvent(core::Event& event) override;

  core::LockName name_;
};

class DowngradeCall final : public UnaryCall {
 private:
  void Start(const grpc::ByteBuffer& request) override;
  void OnEvent(core::Event& event) override;

  core::LockName name_;
};

class GetLockCall final : public UnaryCall {
 private:
  void Start(const grpc::ByteBuffer& request) override;
};

class CheckTokenCall final : public UnaryCall {
 private:
  void Start(const grpc::ByteBuffer& request) override;
};

class ListLocksCall final : public UnaryCall {
 private:
  void Start(const grpc::ByteBuffer& request) override;
  void AskForPage(uint32_t page_size);
  void OnPage(absl::StatusOr<store::LockPage> page);

  // Set by Start.
  contract::LockSearch search_;
  std::string caller_;      // its name
  std::string page_token_;  // the store's
  core::Duration store_timeout_{};
  std::shared_ptr<Listings> listings_;
};

}  // namespace distlock::rpc
