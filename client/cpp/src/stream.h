// SPDX-License-Identifier: Apache-2.0
//
// One Session call. Made by the Core, deletes itself in OnDone; keeps the Core alive until then.
//
// It is not done before the Core has let it go: the Core counts the threads that are about to start an operation and
// lets go once the stream is broken and unused; after that nobody but gRPC knows this object. At most one write and one
// read are in flight.
#pragma once

#include <google/protobuf/arena.h>
#include <grpcpp/client_context.h>

#include <memory>

#include "bidi_call.h"
#include "distlock/v1/lock_service.grpc.pb.h"
#include "effects.h"
#include "outbox.h"

namespace distlock::internal {

class Core;

class Stream final : public BidiCall<v1::SessionRequest, v1::SessionResponse> {
 public:
  explicit Stream(std::shared_ptr<Core> core);

  // Opens the call with `first` as its first message. Once.
  void Start(v1::LockService::Stub& stub, CallThread& thread, std::unique_ptr<Batch> first);
  void Write(std::unique_ptr<Batch> batch);
  std::unique_ptr<Batch> TakeWritten() { return std::move(writing_); }
  void Cancel() { context().TryCancel(); }

  // Guarded by the Core's mutex.
  struct Use {
    int count = 1;        // of operations being started or in flight; Start is the first
    bool writing = true;  // Start writes
    bool broken = false;
    bool held = true;
  };
  Use use;

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void Read();

  static constexpr size_t kFirstBlock = 32 << 10;

  const std::shared_ptr<Core> core_;
  std::unique_ptr<Batch> writing_;
  const std::unique_ptr<char[]> block_;
  google::protobuf::Arena arena_;  // of what is read
  v1::SessionResponse* response_ = nullptr;
  Effects fx_;
};

}  // namespace distlock::internal
