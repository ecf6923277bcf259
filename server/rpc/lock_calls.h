// SPDX-License-Identifier: Apache-2.0
//
// The unary calls of the lock service, one class each. Thread and lifetime: see UnaryCall.
#pragma once

#include <atomic>

#include "core/messages.h"
#include "rpc/call.h"

namespace distlock::rpc {

// A grant that crosses the call's cancellation is given back, as long as its answer has not left; then only the ttl
// ends it. So it is with a request_id, always: a repeat may hold the same grant already.
class AcquireCall final : public UnaryCall {
 private:
  void Start(const grpc::ByteBuffer& request) override;
  void OnEvent(core::Event& event) override;
  void AnswerLost() override;

  core::LockName name_;
  core::Duration max_hold_{};
  core::Duration ttl_{};
  core::OwnerId owner_{};
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

class ConvertCall final : public UnaryCall {
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
