// SPDX-License-Identifier: Apache-2.0
//
// The tags that the completion queues of the CallThreads carry, and ways to run a tag without its queue.
//
// Thread: as each declaration says.
#pragma once

#include <grpc/grpc.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/impl/codegen/completion_queue_tag.h>

#include <condition_variable>
#include <mutex>

namespace distlock::rpc {

// Owned by the call or acceptor that it belongs to, which outlives the operation that carries it.
class CallTag {
 public:
  virtual void Run(bool ok) = 0;

 protected:
  ~CallTag() = default;
};

// Runs `tag` after the turns that this thread lends to the shards it has posted to. On any other thread than the
// CallThreads it runs at once.
void RunAfterTurn(CallTag& tag);

// Runs `tag` later: on one of the CallThreads, this one or else the queue's, when it has served what arrives there
// meanwhile, and after the tags that were put off before. Thread: any.
void PutOff(CallTag& tag, grpc::CompletionQueue& queue);

// A tag whose operation has completed, and its result.
struct Completed {
  CallTag* tag = nullptr;  // null: none
  bool ok = false;
};

// Runs `start`, which starts operations of `queue`, and returns the first operation of the queue that completes on this
// thread meanwhile, usually the one just started. The caller must run its tag. Otherwise the completion of each write
// would wake the thread that waits for the queue. Thread: any.
template <typename Start>
Completed CompletedBy(grpc::CompletionQueue& queue, Start start) {
  grpc_completion_queue_thread_local_cache_init(queue.cq());
  start();
  void* internal = nullptr;
  int success = 0;
  if (grpc_completion_queue_thread_local_cache_flush(queue.cq(), &internal, &success) == 0) return {};
  void* tag = nullptr;
  bool ok = success != 0;
  // As in CompletionQueue::Next. False: the operation has no tag of ours to run.
  if (!static_cast<grpc::internal::CompletionQueueTag*>(internal)->FinalizeResult(&tag, &ok)) return {};
  return {static_cast<CallTag*>(tag), ok};
}

// Counts the users of a queue that may still start operations: calls that are not done, and acceptors. Thread: any.
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
