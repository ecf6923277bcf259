// SPDX-License-Identifier: Apache-2.0
#include "call_thread.h"

#include <grpc/grpc.h>
#include <grpcpp/alarm.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace distlock::internal {
namespace {

using Clock = std::chrono::system_clock;  // gRPC's

// So many calls in a row without company make a lone caller.
constexpr int kAlone = 4;
// How long nobody may wait for the queue: what no caller waits for can be that late.
constexpr auto kPause = std::chrono::milliseconds(1);
// A caller that has waited so long waits for another holder of the lock. What ends its wait from within this process
// does not wake the queue.
constexpr auto kQuickAnswer = std::chrono::milliseconds(5);

thread_local bool in_tag = false;
thread_local bool leads = false;  // runs tags on a thread of the program
thread_local bool is_inline = false;

void RunTag(void* tag, bool ok) {
  const bool was = std::exchange(in_tag, true);
  static_cast<CallTag*>(tag)->Run(ok);
  in_tag = was;
}

struct Settled final : CallTag {
  void Run(bool) override { done.Notify(); }
  Notification done;
};

}  // namespace

std::shared_ptr<CallThread> CallThread::OfProcess() {
  struct Shared {
    std::mutex mu;
    std::weak_ptr<CallThread> thread;
  };
  static Shared& shared = *new Shared;  // a Client may be a static object that ends later than others
  const std::lock_guard lock(shared.mu);
  std::shared_ptr<CallThread> thread = shared.thread.lock();
  if (thread == nullptr) shared.thread = thread = std::make_shared<CallThread>();
  const std::lock_guard clients(thread->state_->mu);
  ++thread->state_->clients;
  return thread;
}

CallThread::CallThread() : state_(std::make_shared<State>()) {
  thread_ = std::thread([state = state_] {
    pthread_setname_np(pthread_self(), "distlock-calls");
    Run(*state);
  });
}

CallThread::~CallThread() {
  {
    const std::lock_guard lock(state_->mu);
    state_->wanted = true;
    state_->wake.notify_one();
  }
  state_->queue.Shutdown();
  if (in_tag) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void CallThread::Leave() {
  {
    const std::lock_guard lock(state_->mu);
    --state_->clients;
  }
  if (in_tag) return;
  Attend();
  Settled settled;
  grpc::Alarm now(&state_->queue, Clock::now(), &settled);
  settled.done.WaitForNotification();
}

bool CallThread::IsShared() const {
  if (leads) return true;
  const std::lock_guard lock(state_->mu);
  return state_->clients > 1;
}

void CallThread::Inline(absl::FunctionRef<void()> start) {
  if (is_inline) return start();  // the end of one write may start the next: not deeper
  is_inline = true;
  grpc_completion_queue* const queue = state_->queue.cq();
  grpc_completion_queue_thread_local_cache_init(queue);
  start();
  void* tag = nullptr;
  int ended_well = 0;
  const bool has_ended = grpc_completion_queue_thread_local_cache_flush(queue, &tag, &ended_well) == 1;
  bool ok = ended_well != 0;
  if (has_ended && static_cast<grpc::internal::CompletionQueueTag*>(tag)->FinalizeResult(&tag, &ok)) {
    const bool led = std::exchange(leads, leads || !in_tag);
    RunTag(tag, ok);
    leads = led;
  }
  is_inline = false;
}

void CallThread::Begin() {
  const std::lock_guard lock(state_->mu);
  state_->alone = state_->unanswered == 0 ? std::min(state_->alone + 1, kAlone) : 0;
  ++state_->unanswered;
}

void CallThread::Answered() {
  const std::lock_guard lock(state_->mu);
  --state_->unanswered;
}

void CallThread::Await(Notification& done) {
  bool is_leader = false;
  {
    const std::lock_guard lock(state_->mu);
    is_leader = state_->is_aside && !state_->is_led && !state_->wanted;
    if (is_leader) state_->is_led = state_->came = true;
  }
  if (is_leader) Lead(*state_, done);
  done.WaitForNotification();
}

void CallThread::Attend() {
  const std::lock_guard lock(state_->mu);
  state_->alone = 0;
  if (!state_->is_aside || state_->is_led) return;
  state_->wanted = true;
  state_->wake.notify_one();
}

void CallThread::Lead(State& state, Notification& done) {
  const auto deadline = Clock::now() + kQuickAnswer;
  void* tag = nullptr;
  bool ok = false;
  leads = true;
  while (!done.HasBeenNotified() && state.queue.AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::GOT_EVENT) {
    RunTag(tag, ok);
  }
  leads = false;
  const std::lock_guard lock(state.mu);
  state.is_led = false;
  if (state.unanswered == 0) return;
  state.alone = 0;
  state.wanted = true;
  state.wake.notify_one();
}

void CallThread::Run(State& state) {
  void* tag = nullptr;
  bool ok = false;
  while (state.queue.Next(&tag, &ok)) {
    RunTag(tag, ok);
    StepAside(state);
  }
}

void CallThread::StepAside(State& state) {
  std::unique_lock lock(state.mu);
  if (state.alone < kAlone || state.unanswered > 0 || state.wanted) return;
  state.is_aside = state.came = true;
  while (!state.wanted) {
    if (state.wake.wait_for(lock, kPause) == std::cv_status::no_timeout || state.is_led) continue;
    if (!std::exchange(state.came, false)) break;
  }
  state.is_aside = state.wanted = false;
}

}  // namespace distlock::internal
