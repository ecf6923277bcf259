// SPDX-License-Identifier: Apache-2.0
#include "rpc/engine/call_threads.h"

#include <grpcpp/alarm.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "shard/lent_turns.h"

namespace distlock::rpc {
namespace {

constexpr unsigned kMaxThreads = 16;
constexpr int kMostTagsPerTurn = 64;

thread_local std::vector<CallTag*>* after_turn = nullptr;

void RunTags(grpc::CompletionQueue& queue) {
  std::vector<CallTag*> later;
  std::vector<CallTag*> now;
  after_turn = &later;
  void* tag = nullptr;
  bool ok = false;
  shard::LentTurns turns;
  while (queue.Next(&tag, &ok)) {
    static_cast<CallTag*>(tag)->Run(ok);
    // Events that have arrived meanwhile share the turn.
    for (int more = 0; turns.wanted() && more < kMostTagsPerTurn; ++more) {
      if (queue.AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_MONOTONIC)) != grpc::CompletionQueue::GOT_EVENT) break;
      static_cast<CallTag*>(tag)->Run(ok);
    }
    turns.Take();
    now.swap(later);
    for (CallTag* next : now) next->Run(true);
    now.clear();
  }
  after_turn = nullptr;
}

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
  if (after_turn == nullptr) return tag.Run(true);
  after_turn->push_back(&tag);
}

CallThreads::CallThreads(grpc::ServerBuilder& builder, VisitorOf visitor_of, unsigned threads)
    : visitor_of_(std::move(visitor_of)) {
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
