// SPDX-License-Identifier: Apache-2.0
//
// A completion queue and the one thread that waits for it. gRPC's own callback threads are two at least, and pass the
// duty to wait for the sockets to each other at each event: a client with one stream pays for that with half of its CPU
// time (gRPC 1.51, ev_epoll1_linux.cc: a worker hands the poller's place on before it handles what it found).
//
// Thread: any; the tags run on the thread. The queue must be idle, with nothing in flight, when this is destroyed;
// that may happen on the thread itself.
#pragma once

#include <grpcpp/completion_queue.h>

#include <memory>
#include <thread>

namespace distlock::internal {

// What is told, on the thread, when an operation ends.
class CallTag {
 public:
  virtual void Run(bool ok) = 0;

 protected:
  ~CallTag() = default;
};

class CallThread {
 public:
  CallThread();
  ~CallThread();
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;

  // Each tag given to it must be a CallTag*.
  grpc::CompletionQueue* queue() { return queue_.get(); }

 private:
  const std::shared_ptr<grpc::CompletionQueue> queue_;  // the thread's too
  std::thread thread_;
};

}  // namespace distlock::internal
