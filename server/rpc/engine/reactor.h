// SPDX-License-Identifier: Apache-2.0
//
// One call on the CallThreads, with the interface of gRPC's own reactors.
//
// Thread: the reactions (On...) of a call run one at a time on its thread, except those that a WriteNow runs elsewhere.
// The Start... methods and Finish may be called on any thread, with at most one read, one write and one Finish under
// way.
//
// OnCancel: the call ended without Finish, or before Finish was sent. OnDone comes once, as the last reaction, after
// Finish and after every started operation has ended; it may delete the reactor. Memory: one IncomingCall for each call
// that is open or that an acceptor waits for.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "acceptor/connection.h"
#include "rpc/engine/call_tag.h"

namespace distlock::rpc {

template <typename Responder>
class Reactor;

// One call as gRPC delivers it.
template <typename Responder>
class IncomingCall {
 public:
  grpc::ServerContext context;
  grpc::ByteBuffer request;  // unary and server-streaming calls only
  Responder responder{&context};
  // Whose connection the call came on, read once, when it arrived. Null: gone already, or not from the acceptor.
  std::shared_ptr<acceptor::Connection> connection;

  IncomingCall(LiveCalls& live, grpc::ServerCompletionQueue& queue) : live_(live), queue_(queue) {}

  // The tag that runs when the call is over. It never runs for a call that has not arrived.
  void* done_tag() { return static_cast<CallTag*>(&done_); }
  // The call has arrived: it counts as live until its reactor is done.
  void MarkStarted() { live_.Begin(); }
  // The caller's address, for people and for counting.
  std::string PeerName() const { return connection != nullptr ? connection->address : context.peer(); }

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
  virtual void OnYieldDone() {}
  virtual void OnCancel() = 0;
  virtual void OnDone() = 0;

  // Takes the call over. Must be called before anything else.
  void Bind(Call call) {
    call_ = std::move(call);
    call_->done_.reactor = this;
  }

  grpc::ServerContext& context() { return call_->context; }
  // As IncomingCall::connection.
  const acceptor::Connection* connection() const { return call_->connection.get(); }
  std::string PeerName() const { return call_->PeerName(); }
  const grpc::ByteBuffer& request() const { return call_->request; }

  // For a stream of requests.
  void StartRead(grpc::ByteBuffer* into) {
    Begin();
    read_.into = into;
    call_->responder.Read(into, Tag(read_));
  }
  // The same, after the turns that this thread lends to the shards it has posted to.
  void StartReadAfterTurn(grpc::ByteBuffer* into) {
    Begin();
    read_.into = into;
    RunAfterTurn(delayed_read_);
  }
  // Lets other calls go first, so that a call with much to do keeps nobody waiting. One at a time.
  void StartYield() {
    Begin();
    PutOff(yield_, call_->queue_);
  }
  // For a stream of responses.
  void StartWrite(const grpc::ByteBuffer* response) {
    Begin();
    MarkAnswered();
    if (call_->connection != nullptr) call_->connection->OnAnswer();
    call_->responder.Write(*response, Tag(write_));
  }
  // As StartWrite, but true means that the response has left and OnWriteDone does not follow. Reactions, also of other
  // calls, may run within it.
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
  void Finish(const grpc::Status& status) {
    MarkAnswered();
    call_->responder.Finish(status, Tag(finish_));
  }
  // For a unary call, instead of Finish.
  void FinishWith(const grpc::ByteBuffer& response) {
    MarkAnswered();
    call_->responder.Finish(response, grpc::Status::OK, Tag(finish_));
  }
  void FinishWithError(const grpc::Status& status) {
    MarkAnswered();
    call_->responder.FinishWithError(status, Tag(finish_));
  }

 private:
  friend class IncomingCall<Responder>;

  struct ReactorTag : CallTag {
    explicit ReactorTag(Reactor* of) : reactor(of) {}
    Reactor* const reactor;
  };
  struct ReadTag final : ReactorTag {
    using ReactorTag::ReactorTag;
    grpc::ByteBuffer* into = nullptr;
    void Run(bool ok) override {
      if (ok && this->reactor->call_->connection != nullptr)
        this->reactor->call_->connection->OnMessage(into->Length());
      this->reactor->OnReadDone(ok);
      this->reactor->End();
    }
  };
  struct DelayedReadTag final : ReactorTag {
    using ReactorTag::ReactorTag;
    void Run(bool) override {
      grpc::ByteBuffer* const into = this->reactor->read_.into;
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
  struct YieldTag final : ReactorTag {
    using ReactorTag::ReactorTag;
    void Run(bool) override {
      this->reactor->OnYieldDone();
      this->reactor->End();
    }
  };
  struct FinishTag final : ReactorTag {
    using ReactorTag::ReactorTag;
    void Run(bool) override { this->reactor->End(); }
  };

  static void* Tag(CallTag& tag) { return &tag; }

  void OnCallDone() {
    if (call_->context.IsCancelled()) {
      early_ = !answered_.load(std::memory_order_relaxed);
      OnCancel();
    }
    End();
  }

  void MarkAnswered() { answered_.store(true, std::memory_order_relaxed); }

  void Begin() { unended_.fetch_add(1, std::memory_order_relaxed); }
  void End() {
    if (unended_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    // A shard may keep the reactor for longer. The gRPC call ends here.
    Call call = std::move(call_);
    LiveCalls& live = call->live_;
    OnDone();
    if (call->connection != nullptr) {
      call->connection->OnCallOver(early_, early_ ? acceptor::Clock::now() : acceptor::Clock::time_point());
    }
    call.reset();
    live.End();
  }

  Call call_;                           // from Bind to OnDone
  std::atomic<bool> answered_ = false;  // something was sent
  bool early_ = false;                  // cancelled before that
  std::atomic<int> unended_ = 2;        // the call itself, Finish, and operations in flight
  ReadTag read_{this};
  DelayedReadTag delayed_read_{this};
  WriteTag write_{this};
  YieldTag yield_{this};
  FinishTag finish_{this};
};

using BidiReactor = Reactor<grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>>;
using WriteReactor = Reactor<grpc::ServerAsyncWriter<grpc::ByteBuffer>>;
using UnaryReactor = Reactor<grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>>;

}  // namespace distlock::rpc
