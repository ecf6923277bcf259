// SPDX-License-Identifier: Apache-2.0
//
// Calls to the server of this process, all on one thread of their own.
//
// Thread: any. Callbacks run on the thread of the calls and must be quick. Owned by the Api.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>

#include "rpc/inside.h"

namespace distlock::web {

// A call under way.
class Call {
 public:
  virtual ~Call() = default;
  // Ends it soon, with CANCELLED; harmless when it has ended. Any thread.
  virtual void Cancel() = 0;
};

// A call whose answers come one by one.
class StreamingCall : public Call {
 public:
  // Asks for one more answer. Without it nothing comes after the first, so whoever gets the answers sets the pace.
  virtual void ReadNext() = 0;
};

class Calls {
 public:
  // `pass` outlives the calls.
  explicit Calls(const rpc::InsidePass& pass);
  // Cancels all calls, and returns when the last callback has.
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // Returns when no call is under way, at the latest after `patience`.
  void AwaitNone(std::chrono::milliseconds patience);

  // `method`: "/package.Service/Method". `done` is called once.
  using Done = std::function<void(const grpc::Status&, const grpc::ByteBuffer& answer)>;
  std::shared_ptr<Call> Start(const std::string& method, const access::PeerFacts& caller,
                              const grpc::ByteBuffer& request, Done done);

  // `answer` is called with each answer, `end` once, last.
  using Answered = std::function<void(const std::shared_ptr<StreamingCall>& call, const grpc::ByteBuffer& answer)>;
  using Ended = std::function<void(const grpc::Status&)>;
  std::shared_ptr<StreamingCall> StartStream(const std::string& method, const access::PeerFacts& caller,
                                             const grpc::ByteBuffer& request, Answered answer, Ended end);

 private:
  class Operation;
  class Unary;
  class Stream;

  void Keep(const std::shared_ptr<Operation>& operation);
  void Forget(Operation* operation);
  void Run();

  const rpc::InsidePass& pass_;
  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;

  // Guarded by mu_.
  std::mutex mu_;
  std::condition_variable none_;
  std::unordered_set<std::shared_ptr<Operation>> open_;

  std::thread thread_;  // last: it uses the rest
};

}  // namespace distlock::web
