// SPDX-License-Identifier: Apache-2.0
#include "rpc/engine/call_threads.h"

#include <grpcpp/alarm.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "shard/lent_turns.h"

namespace distlock::rpc {
namespace {

constexpr unsigned kMaxThreads = 16;
constexpr int kMostTagsPerTurn = 64;

// Runs the tags of one thread: those that its queue brings, and those that were put off.
class TagRunner {
 public:
  explicit TagRunner(grpc::CompletionQueue& queue) : queue_(queue) { of_this_thread = this; }
  ~TagRunner() { of_this_thread = nullptr; }

  // Until the queue is shut down.
  void Run();
  void AfterTurn(CallTag& tag) { after_turn_.push_back(&tag); }
  void PutOff(CallTag& tag) { put_off_.push_back(&tag); }

  static thread_local TagRunner* of_this_thread;

 private:
  // Runs the next tag that has arrived. False: none has; without `wait`, or because the queue is shut down.
  bool RunNext(bool wait);
  void RunPutOff() {
    CallTag* const tag = put_off_.front();
    put_off_.pop_front();
    tag->Run(true);
  }
  void TakeTurns();

  grpc::CompletionQueue& queue_;
  shard::LentTurns turns_;
  std::vector<CallTag*> after_turn_;
  std::vector<CallTag*> now_;
  // Each belongs to a call that is not done, so the queue is shut down only when there is none.
  std::deque<CallTag*> put_off_;
};

thread_local TagRunner* TagRunner::of_this_thread = nullptr;

bool TagRunner::RunNext(bool wait) {
  void* tag = nullptr;
  bool ok = false;
  const gpr_timespec until = (wait ? gpr_inf_future : gpr_inf_past)(GPR_CLOCK_MONOTONIC);
  if (queue_.AsyncNext(&tag, &ok, until) != grpc::CompletionQueue::GOT_EVENT) return false;
  static_cast<CallTag*>(tag)->Run(ok);
  return true;
}

void TagRunner::TakeTurns() {
  turns_.Take();
  now_.swap(after_turn_);
  for (CallTag* tag : now_) tag->Run(true);
  now_.clear();
}

void TagRunner::Run() {
  for (int arrived = 0;; ++arrived) {  // since a tag that was put off has run
    if (put_off_.empty()) {
      if (!RunNext(/*wait=*/true)) return;
      arrived = 0;
    } else if (arrived >= kMostTagsPerTurn || !RunNext(/*wait=*/false)) {
      RunPutOff();
      arrived = 0;
    }
    // Events that have arrived meanwhile share the turn.
    for (int more = 0; turns_.wanted() && more < kMostTagsPerTurn && RunNext(/*wait=*/false); ++more) ++arrived;
    TakeTurns();
  }
}

void RunTags(grpc::CompletionQueue& queue) { TagRunner(queue).Run(); }

// A tag that is put off to the thread of a queue. Ends itself.
class Delayed final : public CallTag {
 public:
  Delayed(grpc::CompletionQueue& queue, CallTag& tag) : tag_(tag) {
    alarm_.Set(&queue, gpr_now(GPR_CLOCK_MONOTONIC), this);
  }

  void Run(bool) override {
    tag_.Run(true);
    delete this;
  }

 private:
  CallTag& tag_;
  grpc::Alarm alarm_;
};

// One visit to a queue. Ends itself.
class Turn final : public CallTag {
 public:
  Turn(LiveCalls& live, grpc::CompletionQueue& queue, std::shared_ptr<const std::function<void()>> come)
      : live_(live), come_(std::move(come)) {
    live_.Begin();
    alarm_.Set(&queue, gpr_now(GPR_CLOCK_MONOTONIC), this);
  }

  void Run(bool) override {
    (*come_)();
    live_.End();
    delete this;
  }

 private:
  LiveCalls& live_;
  const std::shared_ptr<const std::function<void()>> come_;
  grpc::Alarm alarm_;
};

}  // namespace

void RunAfterTurn(CallTag& tag) {
  if (TagRunner::of_this_thread == nullptr) return tag.Run(true);
  TagRunner::of_this_thread->AfterTurn(tag);
}

void PutOff(CallTag& tag, grpc::CompletionQueue& queue) {
  if (TagRunner::of_this_thread != nullptr) return TagRunner::of_this_thread->PutOff(tag);
  new Delayed(queue, tag);
}

CallThreads::CallThreads(grpc::ServerBuilder& builder, ConnectionOf connection_of, unsigned threads)
    : connection_of_(std::move(connection_of)) {
  if (threads == 0) threads = std::clamp(std::thread::hardware_concurrency() / 2, 1u, kMaxThreads);
  for (unsigned i = 0; i < threads; ++i) queues_.push_back(builder.AddCompletionQueue());
}

CallThreads::~CallThreads() { Stop(); }

void CallThreads::Start() {
  for (const auto& queue : queues_) {
    threads_.emplace_back([&queue = *queue] { RunTags(queue); });
    pthread_setname_np(threads_.back().native_handle(), ("calls-" + std::to_string(threads_.size() - 1)).c_str());
  }
}

void CallThreads::AfterTurns(std::function<void()> done) {
  const auto left = std::make_shared<std::atomic<size_t>>(queues_.size());
  const auto one = std::make_shared<const std::function<void()>>([left, done = std::move(done)] {
    if (--*left == 0) done();
  });
  for (const auto& queue : queues_) new Turn(live_, *queue, one);
}

void CallThreads::Stop() {
  if (std::exchange(stopped_, true)) return;
  live_.WaitUntilNone();  // starting an operation on a queue that is shut down is an error
  for (const auto& queue : queues_) queue->Shutdown();
  for (std::thread& thread : threads_) thread.join();
  if (threads_.empty()) {
    for (const auto& queue : queues_) RunTags(*queue);
  }
}

}  // namespace distlock::rpc
