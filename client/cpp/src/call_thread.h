// SPDX-License-Identifier: Apache-2.0
//
// A completion queue and the one thread that waits for it. gRPC's own callback API uses at least two threads, which
// hand the sockets to each other at each event. That costs a client with one stream half of its CPU time (gRPC 1.51,
// ev_epoll1_linux.cc: a thread makes another one the poller before it handles the event that it found).
//
// Thread: any; the tags run on the queue's thread. Nothing may be in flight on the queue when this is destroyed, which
// may happen on the queue's thread.
#pragma once

#include <grpcpp/completion_queue.h>

#include <memory>
#include <thread>

namespace distlock::internal {

// What the queue's thread runs when an operation ends.
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
  const std::shared_ptr<grpc::CompletionQueue> queue_;  // shared with the thread
  std::thread thread_;
};

}  // namespace distlock::internal
