// SPDX-License-Identifier: Apache-2.0
//
// A call on one of the CallThreads, told of in the words of gRPC's reactors. Of a call, the reactions run one at a time
// on its thread, but for what a WriteNow completes elsewhere; the Starts and Finish may come from any thread, at most
// one read, one write and one Finish each.
//
// OnCancel: the call ended otherwise than by Finish, or before that could leave. OnDone comes once, last of all, after
// Finish and the end of all that was started: it may delete the reactor. Memory: an Arrival per call, awaited or open.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <memory>
#include <utility>

#include "rpc/engine/call_tag.h"

namespace distlock::rpc {

template <typename Responder>
class Reactor;

// One call as gRPC hands it over.
template <typename Responder>
class IncomingCall {
 public:
  grpc::ServerContext context;
  grpc::ByteBuffer request;  // of a unary call, or one that answers with a stream
  Responder responder{&context};

  IncomingCall(LiveCalls& live, grpc::ServerCompletionQueue& queue) : live_(live), queue_(queue) {}

  // Runs when the call is over; if it has never come, never.
  void* done_tag() { return static_cast<CallTag*>(&done_); }
  // It is here: from now on it counts, until its reactor is done.
  void MarkStarted() { live_.Begin(); }

 private:
  friend class Reactor<Responder>;
  struct DoneTag final : CallTag {
    Reactor<Responder>* reactor = nullptr;
    void Run(bool) override { reactor->OnCallDone(); }
  };
  DoneTag done_;
  LiveCalls& live_;
  grpc::ServerCompletionQueue& queue_;
};

template <typename Responder>
class Reactor {
 public:
  using Incoming = IncomingCall<Responder>;
  using Call = std::unique_ptr<Incoming>;

  Reactor() = default;
  virtual ~Reactor() = default;
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

 protected:
  virtual void OnReadDone(bool /*ok*/) {}
  virtual void OnWriteDone(bool /*ok*/) {}
  virtual void OnCancel() = 0;
  virtual void OnDone() = 0;

  // Takes the call over; before anything else.
  void Bind(Call call) {
    call_ = std::move(call);
    call_->done_.reactor = this;
  }

  grpc::ServerContext& context() { return call_->context; }
  const grpc::ByteBuffer& request() const { return call_->request; }

  // Of a stream of requests.
  void StartRead(grpc::ByteBuffer* into) {
    Begin();
    call_->responder.Read(into, Tag(read_));
  }
  // The same, when the shards have taken what this reaction has posted to them.
  void StartReadAfterTurn(grpc::ByteBuffer* into) {
    Begin();
    delayed_read_.into = into;
    RunAfterTurn(delayed_read_);
  }
  // Of a stream of responses.
  void StartWrite(const grpc::ByteBuffer* response) {
    Begin();
    call_->responder.Write(*response, Tag(write_));
  }
  // As StartWrite, unless it returns true: then the response has left, and OnWriteDone does not follow. Reactions, also
  // of other calls, may run within it.
  [[nodiscard]] bool WriteNow(const grpc::ByteBuffer* response) {
    const Completed completed = CompletedBy(call_->queue_, [&] { StartWrite(response); });
    if (completed.tag == nullptr) return false;
    if (completed.tag == &write_ && completed.ok) {
      End();
      return true;
    }
    completed.tag->Run(completed.ok);
    return false;
  }
  void Finish(const grpc::Status& status) { call_->responder.Finish(status, Tag(finish_)); }
  // Of a unary call, instead of Finish.
  void FinishWith(const grpc::ByteBuffer& response) {
    call_->responder.Finish(response, grpc::Status::OK, Tag(finish_));
  }
  void FinishWithError(const grpc::Status& status) { call_->responder.FinishWithError(status, Tag(finish_)); }

 private:
  friend class IncomingCall<Responder>;

  struct ReactorTag : CallTag {
    explicit ReactorTag(Reactor* of) : reactor(of) {}
    Reactor* const reactor;
  };
  struct ReadTag final : ReactorTag {
    using ReactorTag::ReactorTag;
    void Run(bool ok) override {
      this->reactor->OnReadDone(ok);
      this->reactor->End();
    }
  };
  struct DelayedReadTag final : ReactorTag {
    using ReactorTag::ReactorTag;
    grpc::ByteBuffer* into = nullptr;
    void Run(bool) override {
      auto& responder = this->reactor->call_->responder;
      if constexpr (requires { responder.Read(into, nullptr); }) responder.Read(into, Tag(this->reactor->read_));
    }
  };
  struct WriteTag final : ReactorTag {
    using ReactorTag::ReactorTag;
    void Run(bool ok) override {
      this->reactor->OnWriteDone(ok);
      this->reactor->End();
    }
  };
  struct FinishTag final : ReactorTag {
    using ReactorTag::ReactorTag;
    void Run(bool) override { this->reactor->End(); }
  };

  static void* Tag(CallTag& tag) { return &tag; }

  void OnCallDone() {
    if (call_->context.IsCancelled()) OnCancel();
    End();
  }

  void Begin() { unended_.fetch_add(1, std::memory_order_relaxed); }
  void End() {
    if (unended_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    // A shard may know the reactor for longer; what is gRPC's ends here.
    Call call = std::move(call_);
    LiveCalls& live = call->live_;
    OnDone();
    call.reset();
    live.End();
  }

  Call call_;                     // from Bind to OnDone
  std::atomic<int> unended_ = 2;  // the call, Finish, and what was started
  ReadTag read_{this};
  DelayedReadTag delayed_read_{this};
  WriteTag write_{this};
  FinishTag finish_{this};
};

using BidiReactor = Reactor<grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>>;
using WriteReactor = Reactor<grpc::ServerAsyncWriter<grpc::ByteBuffer>>;
using UnaryReactor = Reactor<grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>>;

}  // namespace distlock::rpc
