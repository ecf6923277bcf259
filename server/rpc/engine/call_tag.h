// SPDX-License-Identifier: Apache-2.0
//
// What the completion queues of the CallThreads carry, and how to do without them.
#pragma once

#include <grpc/grpc.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/impl/codegen/completion_queue_tag.h>

#include <condition_variable>
#include <mutex>

namespace distlock::rpc {

class CallTag {
 public:
  virtual void Run(bool ok) = 0;

 protected:
  ~CallTag() = default;
};

// Runs `tag` when what this thread has posted to the shards has been taken; at once on a thread of another kind.
void RunAfterTurn(CallTag& tag);

// A tag whose time has come, and how its operation ended.
struct Completed {
  CallTag* tag = nullptr;  // null: none
  bool ok = false;
};

// Runs `start`, which starts operations of `queue`, and returns the first of the queue's operations that this thread
// completes meanwhile, mostly the one just started: the caller runs its tag. From the queue it would wake the thread
// that waits there, only to say that what was written has left. Thread: any.
template <typename Start>
Completed CompletedBy(grpc::CompletionQueue& queue, Start start) {
  grpc_completion_queue_thread_local_cache_init(queue.cq());
  start();
  void* internal = nullptr;
  int success = 0;
  if (grpc_completion_queue_thread_local_cache_flush(queue.cq(), &internal, &success) == 0) return {};
  void* tag = nullptr;
  bool ok = success != 0;
  // As CompletionQueue::Next does; false: nobody asked to be told.
  if (!static_cast<grpc::internal::CompletionQueueTag*>(internal)->FinalizeResult(&tag, &ok)) return {};
  return {static_cast<CallTag*>(tag), ok};
}

// What still may start something on a queue: calls that are not done, and doors that ask for more. Thread: any.
class LiveCalls {
 public:
  void Begin() {
    std::lock_guard lock(mu_);
    ++count_;
  }
  void End() {
    std::lock_guard lock(mu_);
    if (--count_ == 0) none_.notify_all();
  }
  void WaitUntilNone() {
    std::unique_lock lock(mu_);
    none_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  std::mutex mu_;
  std::condition_variable none_;
  size_t count_ = 0;  // guarded by mu_
};

}  // namespace distlock::rpc
