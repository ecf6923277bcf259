// SPDX-License-Identifier: Apache-2.0
#include "bench/etcd_load.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/handoff.h"

namespace distlock::bench {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);
constexpr auto kQueueUp = std::chrono::milliseconds(300);  // time for the waiters to queue; etcd does not report it

// A client with at most one Lock or Unlock call in flight.
class Caller {
 public:
  using Answered = std::function<void(const grpc::Status&)>;

  Caller(v3lockpb::Lock::Stub& stub, const std::string& name, int64_t lease) : stub_(stub) {
    lock_.set_name(name);
    lock_.set_lease(lease);
  }

  void Lock(Answered answered) { stub_.async()->Lock(Context(), &lock_, &locked_, std::move(answered)); }

  void Unlock(Answered answered) {
    unlock_.set_key(locked_.key());
    stub_.async()->Unlock(Context(), &unlock_, &unlocked_, std::move(answered));
  }

  // "" or what is wrong with the answer to Lock.
  std::string CheckLocked(const grpc::Status& status) const {
    if (!status.ok()) return "etcd Lock: " + status.error_message();
    return locked_.key().starts_with(lock_.name() + "/") ? "" : "etcd Lock: an unexpected key";
  }

 private:
  grpc::ClientContext* Context() {
    context_ = std::make_unique<grpc::ClientContext>();
    context_->set_deadline(std::chrono::system_clock::now() + kPatience);
    return context_.get();
  }

  v3lockpb::Lock::Stub& stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  v3lockpb::LockRequest lock_;
  v3lockpb::LockResponse locked_;
  v3lockpb::UnlockRequest unlock_;
  v3lockpb::UnlockResponse unlocked_;
};

class PairsLoad final : public Load {
 public:
  PairsLoad(EtcdServer& server, size_t callers) : Load(callers) {
    const int64_t lease = server.NewLease();
    for (size_t i = 0; i < callers; ++i) callers_.emplace_back(server.locks(), "pair-" + std::to_string(i), lease);
  }

  void Start() override {
    busy_ = callers_.size();
    for (size_t i = 0; i < callers_.size(); ++i) Begin(i);
  }

  // Every call ends, by its deadline if need be.
  void Stop() override {
    std::unique_lock lock(mu_);
    rested_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void Begin(size_t i) {
    const int64_t asked = NowNanos();
    callers_[i].Lock([this, i, asked](const grpc::Status& status) {
      if (const std::string problem = callers_[i].CheckLocked(status); !problem.empty()) return Rest(problem);
      callers_[i].Unlock([this, i, asked](const grpc::Status& unlocked) {
        if (!unlocked.ok()) return Rest("etcd Unlock: " + unlocked.error_message());
        if (recording()) tally(i).op_latency.Record(NowNanos() - asked);
        tally(i).pairs.fetch_add(1, std::memory_order_relaxed);
        if (stopping()) return Rest("");
        Begin(i);
      });
    });
  }

  void Rest(const std::string& problem) {
    if (!problem.empty()) Fail(problem);
    std::lock_guard lock(mu_);
    if (--busy_ == 0) rested_.notify_all();
  }

  std::deque<Caller> callers_;  // each used by whoever has its answer
  std::mutex mu_;
  std::condition_variable rested_;
  size_t busy_ = 0;  // guarded by mu_
};

// Callers of one lock, driven from outside as Parties are.
class EtcdParties {
 public:
  EtcdParties(EtcdServer& server, const std::string& name, size_t count) {
    for (size_t i = 0; i < count; ++i) callers_.emplace_back(server.locks(), name, server.NewLease());
  }

  // Every call ends, by its deadline if need be.
  ~EtcdParties() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [this] { return in_flight_ == 0; });
  }

  void Acquire(size_t party) {
    Begin();
    callers_[party].Lock([this, party](const grpc::Status& status) {
      const int64_t now = NowNanos();
      std::string problem = callers_[party].CheckLocked(status);
      std::lock_guard lock(mu_);
      if (problem.empty() && held_) problem = "etcd: two parties held one lock";
      held_ = true;
      holders_.push_back({party, now});
      End(problem);
    });
  }

  void Release(size_t party) {
    Begin();
    {
      std::lock_guard lock(mu_);
      held_ = false;
    }
    released_at_ = NowNanos();
    callers_[party].Unlock([this](const grpc::Status& status) {
      std::lock_guard lock(mu_);
      End(status.ok() ? "" : "etcd Unlock: " + status.error_message());
    });
  }

  struct Grant {
    size_t party = 0;
    int64_t at = 0;
  };

  Grant WaitGranted() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [this] { return !holders_.empty() || !problem_.empty(); });
    if (!problem_.empty()) throw std::runtime_error(problem_);
    const Grant grant = holders_.front();
    holders_.pop_front();
    return grant;
  }

  // When at most `waiting` calls have no answer yet: those whose turn has not come.
  void WaitAnswered(size_t waiting) {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return in_flight_ <= waiting || !problem_.empty(); });
    if (!problem_.empty()) throw std::runtime_error(problem_);
  }

  int64_t released_at() const { return released_at_; }

 private:
  void Begin() {
    std::lock_guard lock(mu_);
    ++in_flight_;
  }

  // With mu_ held.
  void End(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
    --in_flight_;
    changed_.notify_all();
  }

  std::deque<Caller> callers_;
  int64_t released_at_ = 0;  // of the driving thread, as the above

  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<Grant> holders_;  // guarded by mu_, as all below
  std::string problem_;
  size_t in_flight_ = 0;
  bool held_ = false;
};

}  // namespace

std::unique_ptr<Load> EtcdPairs(EtcdServer& server, size_t callers) {
  return std::make_unique<PairsLoad>(server, callers);
}

Sample EtcdIdleHandoff(EtcdServer& server, const Size& size) {
  EtcdParties parties(server, "handoff", 2);
  Histogram latency;
  parties.Acquire(0);
  size_t holder = parties.WaitGranted().party;
  for (const auto pause : IdlePauses(size)) {
    parties.Acquire(1 - holder);
    std::this_thread::sleep_for(pause);
    parties.Release(holder);
    const EtcdParties::Grant next = parties.WaitGranted();
    latency.Record(next.at - parties.released_at());
    parties.WaitAnswered(0);
    holder = next.party;
  }
  parties.Release(holder);
  Sample sample;
  sample.values["p50 µs"] = latency.Micros(0.5);
  sample.values["p99 µs"] = latency.Micros(0.99);
  return sample;
}

Sample EtcdQueue(EtcdServer& server, const Size& size) {
  prctl(PR_SET_TIMERSLACK, 1000);  // so that the hold lasts 1 ms, not 1.05 ms
  EtcdParties parties(server, "queue", kQueueWaiters + 1);
  std::vector<double> makespans;
  for (int run = 0; run < size.queue_runs; ++run) {
    parties.Acquire(0);
    parties.WaitGranted();
    for (size_t i = 1; i <= kQueueWaiters; ++i) parties.Acquire(i);
    std::this_thread::sleep_for(kQueueUp);
    parties.Release(0);
    const int64_t start = parties.released_at();
    for (size_t served = 0; served < kQueueWaiters; ++served) {
      const EtcdParties::Grant grant = parties.WaitGranted();
      std::this_thread::sleep_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(grant.at)) +
                                    kQueueHold);
      parties.Release(grant.party);
    }
    makespans.push_back(static_cast<double>(parties.released_at() - start) * 1e-6);
    parties.WaitAnswered(0);
  }
  std::sort(makespans.begin(), makespans.end());
  Sample sample;
  sample.values["makespan ms"] = makespans[makespans.size() / 2];
  sample.values["slowest ms"] = makespans.back();
  return sample;
}

}  // namespace distlock::bench
