// SPDX-License-Identifier: Apache-2.0
#include <condition_variable>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "bench/broker_load.h"
#include "distlock/client.h"

namespace distlock::bench {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

std::vector<std::unique_ptr<Client>> Connect(const Lab& lab, size_t count) {
  std::vector<std::unique_ptr<Client>> clients;
  for (size_t i = 0; i < count; ++i) {
    ClientOptions options;
    options.address = lab.broker(0).target();
    clients.push_back(std::make_unique<Client>(std::move(options)));
  }
  return clients;
}

class BlockingLoad final : public Load {
 public:
  BlockingLoad(const Lab& lab, const BlockingShape& shape)
      : Load(shape.clients * shape.callers), lab_(lab), shape_(shape) {}

  void Start() override {
    clients_ = Connect(lab_, shape_.clients);
    for (size_t i = 0; i < shape_.clients * shape_.callers; ++i) threads_.emplace_back([this, i] { Run(i); });
  }

  void Stop() override {
    for (std::thread& thread : threads_) thread.join();
    clients_.clear();
  }

 private:
  void Run(size_t i) {
    Mutex mutex = clients_[i / shape_.callers]->MakeMutex("library-" + std::to_string(i));
    Tally& mine = tally(i);
    while (!stopping()) {
      const int64_t start = NowNanos();
      Result<Guard> guard = shape_.waits ? mutex.Lock() : mutex.TryLock();
      if (!guard) return Fail(guard.refusal().message);
      const int64_t granted = NowNanos();
      if (shape_.release == Released::kAwaited) {
        const ReleaseOutcome outcome = guard->Release();
        if (outcome != ReleaseOutcome::kReleased) return Fail("release: " + std::string(Name(outcome)));
      } else {
        *guard = Guard();
      }
      Note(mine, start, granted);
      mine.pairs.fetch_add(1, std::memory_order_relaxed);
    }
  }

  void Note(Tally& mine, int64_t start, int64_t granted) const {
    if (!recording()) return;
    const int64_t end = NowNanos();
    if (shape_.timed == Timed::kPair) return mine.op_latency.Record(end - start);
    mine.op_latency.Record(granted - start);
    if (shape_.release == Released::kAwaited) mine.op_latency.Record(end - granted);
  }

  const Lab& lab_;
  const BlockingShape shape_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::thread> threads_;
};

class CallbackLoad final : public Load {
 public:
  CallbackLoad(const Lab& lab, size_t clients, size_t in_flight)
      : Load(clients), lab_(lab), count_(clients), in_flight_(in_flight) {}

  void Start() override {
    clients_ = Connect(lab_, count_);
    for (size_t i = 0; i < count_ * in_flight_; ++i) {
      const size_t worker = i / in_flight_;
      slots_.push_back({clients_[worker]->MakeMutex("library-async-" + std::to_string(i)), worker, {}, 0});
    }
    {
      std::lock_guard lock(mu_);
      busy_ = slots_.size();
    }
    for (Slot& slot : slots_) Acquire(slot);
  }

  void Stop() override {
    std::unique_lock lock(mu_);
    const bool rested = rested_.wait_for(lock, kPatience, [this] { return busy_ == 0; });
    lock.unlock();
    if (!rested) Fail("some requests were never answered");
    clients_.clear();
  }

 private:
  struct Slot {
    Mutex mutex;
    size_t worker;
    Guard guard;
    int64_t sent;
  };

  // One client's callbacks come one at a time.
  void Acquire(Slot& slot) {
    slot.sent = NowNanos();
    slot.mutex.TryLockAsync([this, &slot](Result<Guard> guard) {
      if (!guard) {
        Fail(guard.refusal().message);
        return Rest();
      }
      Note(slot);
      slot.guard = std::move(*guard);
      slot.sent = NowNanos();
      slot.guard.ReleaseAsync([this, &slot](ReleaseOutcome outcome) { OnReleased(slot, outcome); });
    });
  }

  void OnReleased(Slot& slot, ReleaseOutcome outcome) {
    if (outcome != ReleaseOutcome::kReleased) Fail("release: " + std::string(Name(outcome)));
    Note(slot);
    tally(slot.worker).pairs.fetch_add(1, std::memory_order_relaxed);
    if (stopping()) return Rest();
    Acquire(slot);
  }

  void Note(const Slot& slot) {
    if (recording()) tally(slot.worker).op_latency.Record(NowNanos() - slot.sent);
  }

  void Rest() {
    std::lock_guard lock(mu_);
    if (--busy_ == 0) rested_.notify_all();
  }

  const Lab& lab_;
  const size_t count_;
  const size_t in_flight_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::deque<Slot> slots_;
  std::mutex mu_;
  std::condition_variable rested_;
  size_t busy_ = 0;  // guarded by mu_
};

}  // namespace

std::unique_ptr<Load> BlockingClients(const Lab& lab, const BlockingShape& shape) {
  return std::make_unique<BlockingLoad>(lab, shape);
}

std::unique_ptr<Load> CallbackClients(const Lab& lab, size_t clients, size_t in_flight) {
  return std::make_unique<CallbackLoad>(lab, clients, in_flight);
}

}  // namespace distlock::bench
