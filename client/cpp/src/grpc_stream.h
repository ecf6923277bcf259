// SPDX-License-Identifier: Apache-2.0
//
// A Session call over gRPC. What is in flight keeps it alive.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/async_stream.h>

#include <memory>
#include <optional>
#include <string>

#include "call_thread.h"
#include "distlock/v1/lock_service.grpc.pb.h"
#include "stream.h"

namespace distlock::internal {

class GrpcStream final : public Stream, public std::enable_shared_from_this<GrpcStream> {
 public:
  // The stub to a broker, when the call is started.
  using StubOf = std::function<v1::LockService::Stub&(size_t of_broker)>;
  GrpcStream(std::shared_ptr<Engine> engine, int of_link, size_t to_broker, std::shared_ptr<CallThread> calls,
             StubOf stub_of);

  void Start(const std::optional<std::string>& proof) override;
  void Write() override;
  void Cancel() override { context_.TryCancel(); }
  void Finish() override { call_->Finish(&status_, finishing_.For(this)); }
  bool SharesThread() const override { return calls_->IsShared(); }

 private:
  // One operation, in flight at most once at a time.
  struct Operation final : CallTag {
    explicit Operation(void (GrpcStream::*on_end_)(bool ok)) : on_end(on_end_) {}
    CallTag* For(GrpcStream* stream) {
      of = stream->shared_from_this();
      return this;
    }
    void Run(bool ok) override {
      const std::shared_ptr<GrpcStream> stream = std::move(of);
      (stream.get()->*on_end)(ok);
    }
    void (GrpcStream::* const on_end)(bool ok);
    std::shared_ptr<GrpcStream> of;
  };

  void Read();
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);

  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<CallThread> calls_;
  const StubOf stub_of_;
  ReusedMessage<v1::SessionResponse> response_;  // that is read
  grpc::Status status_;
  Operation reading_{&GrpcStream::OnRead};
  Operation writing_{&GrpcStream::OnWritten};
  Operation finishing_{&GrpcStream::OnFinished};
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::SessionRequest, v1::SessionResponse>>
      call_;  // in context_'s memory
};

}  // namespace distlock::internal
