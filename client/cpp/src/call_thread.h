// SPDX-License-Identifier: Apache-2.0
//
// A completion queue and the one thread that waits for it. gRPC's own callback API uses at least two threads, which
// hand the sockets to each other at each event. That costs a client with one stream half of its CPU time (gRPC 1.51,
// ev_epoll1_linux.cc: a thread makes another one the poller before it handles the event that it found).
//
// All Clients of a process share one: with a queue and a thread each, gRPC hands the events of one Client's socket from
// thread to thread until the right one has it, and 16 Clients with a blocked caller each took twice the CPU.
//
// A caller that is alone with its blocking calls, one after the other, waits for the queue itself: its answers need not
// pass through another thread, which takes half as long to wake as the broker takes to answer. The queue's thread then
// steps aside, and looks again after a pause whether callers still come. The thread of such a caller runs nothing of
// the program: it may hold a mutex that a callback takes.
//
// Thread: any. Of one call, tags run one at a time, but for the end of a write that Inline has seen. Nothing may be in
// flight on the queue when this is destroyed, which may happen while one of its tags runs.
#pragma once

#include <absl/functional/function_ref.h>
#include <grpcpp/completion_queue.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "waiting.h"

namespace distlock::internal {

// Runs when an operation of the queue ends.
class CallTag {
 public:
  virtual void Run(bool ok) = 0;

 protected:
  ~CallTag() = default;
};

class CallThread final : public Waiting {
 public:
  CallThread();
  ~CallThread() override;
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;

  // The one of this process, for one more Client. Not in a child of fork, if the parent has used gRPC.
  static std::shared_ptr<CallThread> OfProcess();
  // A Client has no calls on it any more. Returns when what runs on it at this moment has returned; at once inside a
  // tag.
  void Leave();
  // Inside a tag: whether what the program does in a callback would hold up other Clients, or run on the thread of a
  // blocked caller.
  bool IsShared() const;

  // Runs `start`, which starts an operation on the queue. If the operation ends at once, as most writes do, its tag
  // runs here: the thread that waits for the queue is not woken for it.
  void Inline(absl::FunctionRef<void()> start);

  // Each tag given to it must be a CallTag*.
  grpc::CompletionQueue* queue() { return &state_->queue; }

  void Begin() override;
  void Answered() override;
  void Await(Notification& done) override;
  void Attend() override;

 private:
  struct State {
    grpc::CompletionQueue queue;
    std::mutex mu;
    std::condition_variable wake;
    // Guarded by mu.
    int clients = 0;
    int unanswered = 0;     // calls that callers wait for, or soon will
    int alone = 0;          // calls in a row that began when no other was unanswered
    bool is_aside = false;  // the thread does not wait for the queue
    bool is_led = false;    // a caller does; only while the thread is aside
    bool came = false;      // a caller has, since the thread last looked
    bool wanted = false;    // the thread is to come back at once
  };

  static void Run(State& state);
  static void StepAside(State& state);
  static void Lead(State& state, Notification& done);

  const std::shared_ptr<State> state_;  // shared with the thread
  std::thread thread_;
};

}  // namespace distlock::internal
