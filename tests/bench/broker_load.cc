// SPDX-License-Identifier: Apache-2.0
#include "bench/broker_load.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/session.h"

namespace distlock::bench {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

class SessionLoad final : public Load {
 public:
  SessionLoad(std::string target, size_t sessions, size_t in_flight, Timed timed)
      : Load(sessions), target_(std::move(target)), timed_(timed) {
    for (size_t s = 0; s < sessions; ++s) {
      for (size_t i = 0; i < in_flight; ++i) workers_[s].push_back(MakeSlot(s, i));
    }
  }

  void Start() override {
    sessions_ = OpenSessions(workers_.size(), [this](size_t s) {
      return std::make_unique<Session>(
          target_, [this, s](Session& session, const SeenEvent& event) { Handle(s, session, event); });
    });
    pulse_.emplace(Pointers(sessions_));
    {
      std::lock_guard lock(mu_);
      for (const auto& [s, slots] : workers_) busy_ += slots.size();
    }
    for (size_t s = 0; s < sessions_.size(); ++s) {
      sessions_[s]->Do([this, s](Session& session) {
        for (Slot& slot : workers_[s]) Ask(session, slot, slot.acquire);
      });
    }
  }

  void Stop() override {
    {
      std::unique_lock lock(mu_);
      rested_.wait_for(lock, kPatience, [this] { return busy_ == 0 || !error().empty(); });
    }
    pulse_.reset();
    for (const auto& session : sessions_) {
      const std::string problem = session->Close();
      if (!problem.empty()) Fail(problem);
    }
    if (busy_ != 0) Fail("some requests were never answered");
    sessions_.clear();
  }

 private:
  struct Slot {
    std::string acquire;
    std::string release;
    bool holding = false;
    uint64_t last_token = 0;
    int64_t sent = 0;
  };

  // Command ids: 1 and up; the slot's acquire is 2i + 1, its release 2i + 2. An id is free again once it is answered
  // and its lease is over.
  static Slot MakeSlot(size_t s, size_t i) {
    Slot slot;
    const uint64_t id = 2 * i + 1;
    slot.acquire = EncodeAcquire(id, Spec("lock-" + std::to_string(s) + "-" + std::to_string(i)));
    slot.release = EncodeRelease(id + 1, id);
    return slot;
  }

  static void Ask(Session& session, Slot& slot, const std::string& command) {
    slot.sent = NowNanos();
    session.Send(command);
  }

  void Handle(size_t s, Session& session, const SeenEvent& event) {
    std::vector<Slot>& slots = workers_[s];
    const size_t index = (event.id - 1) / 2;
    if (event.id == 0 || index >= slots.size()) return Fail(Describe(event));
    Slot& slot = slots[index];
    const bool granted = event.kind == v1::Event::kGranted && event.token > slot.last_token;
    const bool released = event.kind == v1::Event::kReleased && event.outcome == v1::RELEASE_OUTCOME_RELEASED;
    if (slot.holding ? !released : !granted) return Fail(Describe(event));
    const bool pair_goes_on = granted && timed_ == Timed::kPair;
    if (recording() && !pair_goes_on) tally(s).op_latency.Record(NowNanos() - slot.sent);
    slot.holding = granted;
    if (granted) {
      slot.last_token = event.token;
      return pair_goes_on ? session.Send(slot.release) : Ask(session, slot, slot.release);
    }
    tally(s).pairs.fetch_add(1, std::memory_order_relaxed);
    if (!stopping()) return Ask(session, slot, slot.acquire);
    std::lock_guard lock(mu_);
    if (--busy_ == 0) rested_.notify_all();
  }

  const std::string target_;
  const Timed timed_;
  std::map<size_t, std::vector<Slot>> workers_;  // each guarded by its session's own lock
  std::vector<std::unique_ptr<Session>> sessions_;
  std::optional<Pulse> pulse_;
  std::mutex mu_;
  std::condition_variable rested_;
  size_t busy_ = 0;  // guarded by mu_: slots not at rest
};

}  // namespace

std::unique_ptr<Load> BrokerSessions(std::string target, size_t sessions, size_t in_flight, Timed timed) {
  return std::make_unique<SessionLoad>(std::move(target), sessions, in_flight, timed);
}

}  // namespace distlock::bench
