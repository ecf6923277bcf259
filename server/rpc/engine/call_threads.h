// SPDX-License-Identifier: Apache-2.0
//
// The threads that wait for gRPC, each with its own completion queue, and the acceptors: an acceptor accepts the calls
// of one method on one queue.
//
// Why not gRPC's callback API: it has two or more threads of its own, which hand the sockets to each other at each
// event (gRPC 1.51, ev_epoll1_linux.cc: a worker makes another one the poller before it handles its event). On a small
// machine the handover costs more than the event.
//
// Order: construct with the builder; when the server runs, open the acceptors (Open...) and Start; Stop after
// Server::Shutdown has returned. Tags run on these threads, all tags of one call on the same one, except those that
// WriteNow runs (reactor.h).
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpc/engine/reactor.h"

namespace distlock::rpc {

class CallThreads {
 public:
  // Finds a connection by the name that gRPC gives it; may return null. Any thread.
  using ConnectionOf = std::function<std::shared_ptr<acceptor::Connection>(const std::string& grpc_peer)>;

  // `threads`: 0 is one for each two cores, at least 1, at most 16.
  CallThreads(grpc::ServerBuilder& builder, ConnectionOf connection_of, unsigned threads = 0);
  ~CallThreads();  // Stop
  CallThreads(const CallThreads&) = delete;
  CallThreads& operator=(const CallThreads&) = delete;

  // Open an acceptor for a method, by its kind. `request` is the generated RequestX of `service`; `serve` gets each
  // call that comes in, on the thread that will run the call's tags.
  template <typename Service, typename Request, typename Serve>
  void OpenUnary(Service& service, Request request, Serve serve) {
    OpenForOne<UnaryReactor>(service, request, std::move(serve));
  }
  template <typename Service, typename Request, typename Serve>
  void OpenStream(Service& service, Request request, Serve serve) {
    OpenForOne<WriteReactor>(service, request, std::move(serve));
  }
  template <typename Service, typename Request, typename Serve>
  void OpenBidi(Service& service, Request request, Serve serve) {
    Open<BidiReactor>(
        [&service, request](auto& call, auto* queue, void* tag) {
          (service.*request)(&call.context, &call.responder, queue, queue, tag);
        },
        std::move(serve));
  }

  void Start();
  // `done` runs once, on one of these threads, when each of them has come by. Only between Start and Stop.
  void AfterTurns(std::function<void()> done);
  // Waits for all calls to end, and returns when the last tag has run.
  void Stop();

 private:
  class AnyCallAcceptor : public CallTag {
   public:
    virtual ~AnyCallAcceptor() = default;
  };
  template <typename ReactorOfCall>
  class CallAcceptor;

  // For methods with one request.
  template <typename ReactorOfCall, typename Service, typename Request, typename Serve>
  void OpenForOne(Service& service, Request request, Serve serve) {
    Open<ReactorOfCall>(
        [&service, request](auto& call, auto* queue, void* tag) {
          (service.*request)(&call.context, &call.request, &call.responder, queue, queue, tag);
        },
        std::move(serve));
  }
  template <typename ReactorOfCall>
  void Open(const std::function<void(typename ReactorOfCall::Incoming&, grpc::ServerCompletionQueue*, void* tag)>& ask,
            const std::function<void(typename ReactorOfCall::Call)>& serve);

  const ConnectionOf connection_of_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::vector<std::unique_ptr<AnyCallAcceptor>> acceptors_;
  std::vector<std::thread> threads_;
  bool stopped_ = false;
  LiveCalls live_;
};

// Asks gRPC for one call at a time. Calls that come meanwhile wait inside gRPC.
template <typename ReactorOfCall>
class CallThreads::CallAcceptor final : public AnyCallAcceptor {
 public:
  using Incoming = typename ReactorOfCall::Incoming;
  using Call = typename ReactorOfCall::Call;
  using Ask = std::function<void(Incoming&, grpc::ServerCompletionQueue*, void*)>;
  using Serve = std::function<void(Call)>;

  CallAcceptor(LiveCalls& live, const ConnectionOf& connection_of, grpc::ServerCompletionQueue* queue, Ask ask,
               Serve serve)
      : live_(live), connection_of_(connection_of), queue_(queue), ask_(std::move(ask)), serve_(std::move(serve)) {
    live_.Begin();
    AskForNext();
  }

  void Run(bool ok) override {
    if (!ok) {  // the server is shut down
      next_.reset();
      return live_.End();
    }
    auto call = std::move(next_);
    call->MarkStarted();
    AskForNext();
    call->connection = connection_of_(call->context.peer());
    if (call->connection != nullptr) call->connection->OnCall(call->request.Length());
    serve_(std::move(call));
  }

 private:
  void AskForNext() {
    next_ = std::make_unique<Incoming>(live_, *queue_);
    next_->context.AsyncNotifyWhenDone(next_->done_tag());
    ask_(*next_, queue_, this);
  }

  LiveCalls& live_;
  const ConnectionOf& connection_of_;
  grpc::ServerCompletionQueue* const queue_;
  const Ask ask_;
  const Serve serve_;
  Call next_;
};

template <typename ReactorOfCall>
void CallThreads::Open(
    const std::function<void(typename ReactorOfCall::Incoming&, grpc::ServerCompletionQueue*, void*)>& ask,
    const std::function<void(typename ReactorOfCall::Call)>& serve) {
  for (const auto& queue : queues_) {
    acceptors_.push_back(std::make_unique<CallAcceptor<ReactorOfCall>>(live_, connection_of_, queue.get(), ask, serve));
  }
}

}  // namespace distlock::rpc
