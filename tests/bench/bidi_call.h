// SPDX-License-Identifier: Apache-2.0
//
// A bidirectional call on a CallThread, with the callbacks of gRPC's reactors: OnReadDone, OnWriteDone and OnDone run
// on the thread, one at a time. At most one read and one write are in flight.
//
// The owner calls AllowFinish once, when no write is in flight and none will be started. OnDone runs once, after
// AllowFinish and after OnReadDone(false), which ends the reading. No callback follows OnDone: it may delete the call.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/async_stream.h>

#include <atomic>
#include <memory>
#include <utility>

#include "call_thread.h"

namespace distlock::bench {

using internal::CallTag;

template <typename Request, typename Response>
class BidiCall {
 public:
  using Operations = grpc::ClientAsyncReaderWriter<Request, Response>;

  BidiCall(const BidiCall&) = delete;
  BidiCall& operator=(const BidiCall&) = delete;

  void AllowFinish() { FinishWhenLast(); }

 protected:
  // The headers leave together with the first message.
  BidiCall() { context_.set_initial_metadata_corked(true); }
  virtual ~BidiCall() = default;

  virtual void OnReadDone(bool ok) = 0;
  virtual void OnWriteDone(bool ok) = 0;
  virtual void OnDone(const grpc::Status& status) = 0;

  // The context to prepare the call with.
  grpc::ClientContext& context() { return context_; }

  // Starts the call and the write of `first`; OnWriteDone reports its end. StartRead may follow at once, on this
  // thread.
  void StartCall(std::unique_ptr<Operations> call, const Request& first) {
    call_ = std::move(call);
    call_->StartCall(nullptr);
    StartWrite(&first);
  }
  void StartRead(Response* response) { call_->Read(response, &read_); }
  void StartWrite(const Request* request) { call_->Write(*request, &write_); }

 private:
  struct Tag : CallTag {
    explicit Tag(BidiCall* of) : call(of) {}
    BidiCall* const call;
  };
  struct Reading final : Tag {
    using Tag::Tag;
    void Run(bool ok) override {
      this->call->OnReadDone(ok);
      if (!ok) this->call->FinishWhenLast();
    }
  };
  struct Writing final : Tag {
    using Tag::Tag;
    void Run(bool ok) override { this->call->OnWriteDone(ok); }
  };
  struct Finishing final : Tag {
    using Tag::Tag;
    void Run(bool) override {
      const grpc::Status status = std::move(this->call->status_);  // OnDone may delete the call
      this->call->OnDone(status);
    }
  };

  void FinishWhenLast() {
    if (before_finish_.fetch_sub(1, std::memory_order_acq_rel) == 1) call_->Finish(&status_, &finish_);
  }

  grpc::ClientContext context_;
  std::unique_ptr<Operations> call_;    // after context_, which owns its memory
  std::atomic<int> before_finish_ = 2;  // the end of the reading, and AllowFinish
  grpc::Status status_;
  Reading read_{this};
  Writing write_{this};
  Finishing finish_{this};
};

}  // namespace distlock::bench
