// SPDX-License-Identifier: Apache-2.0
//
// A Session call over gRPC. Deletes itself in OnDone.
#pragma once

#include <google/protobuf/arena.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>
#include <utility>

#include "bidi_call.h"
#include "distlock/v1/lock_service.grpc.pb.h"
#include "effects.h"
#include "stream.h"

namespace distlock::internal {

class GrpcStream final : public BidiCall<v1::SessionRequest, v1::SessionResponse>, public Stream {
 public:
  GrpcStream(std::shared_ptr<Core> core, int link, CallThread& calls);

  // Before Start: shows the broker at `address` who this is, if DISTLOCK_TOKEN_FILE says so.
  void Authorize(const std::string& address);
  // Opens the call with `first` as its first message. Once.
  void Start(v1::LockService::Stub& stub, std::unique_ptr<Batch> first);
  void Write(std::unique_ptr<Batch> batch) override;
  std::unique_ptr<Batch> TakeWritten() override { return std::move(writing_); }
  void Cancel() override { context().TryCancel(); }
  void AllowFinish() override { BidiCall::AllowFinish(); }
  bool SharesThread() const override { return calls_.IsShared(); }

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void Read();

  static constexpr size_t kFirstBlock = 32 << 10;

  const std::shared_ptr<Core> core_;
  CallThread& calls_;  // the Core has it for as long as it has streams
  std::unique_ptr<Batch> writing_;
  const std::unique_ptr<char[]> block_;
  google::protobuf::Arena arena_;  // of the response that is read
  v1::SessionResponse* response_ = nullptr;
  Effects fx_;
};

}  // namespace distlock::internal
