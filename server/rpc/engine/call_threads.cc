// SPDX-License-Identifier: Apache-2.0
#include "rpc/engine/call_threads.h"

#include <pthread.h>

#include <algorithm>
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
