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

// A grant that crosses the call's cancellation is given back, as long as its answer has not left; then only the ttl
// ends it. So it is with a request_id, always: a repeat may hold the same grant already.
class AcquireCall final : public UnaryCall {
 private:
  void Start(const grpc::ByteBuffer& request) override;
  void OnEvent(core::Event& event) override;
  void AnswerLost() override;
  void TakeAgain(contract::LeaseId lease, const core::Want& want);
  std::vector<core::Acquire> CheckSpecs(const v1::AcquireRequest& request, contract::Validator& check) const;

  // What was asked for, and has been granted so far, in the order of the request. Written by Start, then by OnEvent.
  struct Part {
    core::LockName name;
    core::OwnerId owner{};
    core::Duration ttl{};
    core::Duration max_hold{};
    std::optional<v1::Grant> grant;
  };
  std::vector<Part> parts_;
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
  void LeaveOne(const contract::LeaseId& lease);

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

class ListLocksCall final : public UnaryCall {
 private:
  void Start(const grpc::ByteBuffer& request) override;
};

}  // namespace distlock::rpc
