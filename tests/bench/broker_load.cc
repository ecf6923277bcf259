// SPDX-License-Identifier: Apache-2.0
#include "bench/broker_load.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/hoard.h"
#include "bench/session.h"

namespace distlock::bench {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);
constexpr size_t kTakenAtOnce = 64;

// The leases that the first session holds all the time.
struct Kept {
  size_t leases = 0;
  double ttl_seconds = 0;
};

class SessionLoad final : public Load {
 public:
  SessionLoad(Target target, size_t sessions, size_t in_flight, Timed timed, Kept kept = {}, bool reads = false)
      : Load(sessions), target_(std::move(target)), timed_(timed), kept_(kept) {
    for (size_t s = 0; s < sessions; ++s) {
      for (size_t i = 0; i < in_flight; ++i) workers_[s].push_back(MakeSlot(s, i, reads));
    }
  }

  void Start() override {
    sessions_ = OpenSessions(workers_.size(), [this](size_t s) {
      return std::make_unique<Session>(
          target_, [this, s](Session& session, const SeenEvent& event) { Handle(s, session, event); });
    });
    pulse_.emplace(Pointers(sessions_));
    TakeKept();
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
      const std::string problem = session->Close(kept_.leases == 0 ? kPatience : PatienceFor(kept_.leases));
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
    int64_t last_token = 0;
    int64_t sent = 0;
  };

  // Command ids: 1 and up; the slot's acquire is 2i + 1, its release 2i + 2. An id is free again once it is answered
  // and its lease is over.
  static Slot MakeSlot(size_t s, size_t i, bool reads) {
    Slot slot;
    const auto id = static_cast<int64_t>(2 * i + 1);
    v1::LockSpec spec = Spec(reads ? "read" : "lock-" + std::to_string(s) + "-" + std::to_string(i), reads);
    if (reads) spec.set_mode(v1::LOCK_MODE_SHARED);
    slot.acquire = EncodeAcquire(id, spec);
    slot.release = EncodeRelease(id + 1, id);
    return slot;
  }

  void TakeKept() {
    if (kept_.leases == 0) return;
    sessions_[0]->Do([this](Session& session) {
      for (size_t i = 0; i < kTakenAtOnce; ++i) AskKept(session);
    });
    std::unique_lock lock(mu_);
    const bool ended = rested_.wait_for(lock, PatienceFor(kept_.leases),
                                        [this] { return taken_ == kept_.leases || !error().empty(); });
    if (!ended) throw std::runtime_error("not all leases to keep were granted in time");
  }

  void AskKept(Session& session) {
    if (asked_ == kept_.leases) return;
    const size_t first_id = 2 * workers_[0].size() + 1;  // after those of the slots
    session.Send(EncodeAcquire(static_cast<int64_t>(first_id + asked_), HoardSpec(0, asked_, kept_.ttl_seconds)));
    ++asked_;
  }

  // An event that belongs to no slot: a grant to keep, or a problem.
  void OnOther(Session& session, const SeenEvent& event) {
    const bool granted = kept_.leases != 0 && event.kind == v1::SessionEvent::kGranted;
    if (granted) AskKept(session);
    if (!granted) Fail(Describe(event));
    std::lock_guard lock(mu_);
    if (granted) ++taken_;
    if (!granted || taken_ == kept_.leases) rested_.notify_all();
  }

  static void Ask(Session& session, Slot& slot, const std::string& command) {
    slot.sent = NowNanos();
    session.Send(command);
  }

  void Handle(size_t s, Session& session, const SeenEvent& event) {
    std::vector<Slot>& slots = workers_[s];
    const auto index = static_cast<size_t>((event.id - 1) / 2);
    if (event.id <= 0 || index >= slots.size()) return OnOther(session, event);
    Slot& slot = slots[index];
    const bool granted = event.kind == v1::SessionEvent::kGranted && event.token > slot.last_token;
    const bool released = event.kind == v1::SessionEvent::kReleased && event.outcome == v1::RELEASE_OUTCOME_RELEASED;
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

  const Target target_;
  const Timed timed_;
  const Kept kept_;
  size_t asked_ = 0;                             // of those to keep; guarded by the first session's own lock
  std::map<size_t, std::vector<Slot>> workers_;  // each guarded by its session's own lock
  std::vector<std::unique_ptr<Session>> sessions_;
  std::optional<Pulse> pulse_;
  std::mutex mu_;  // taken inside a session's own lock, never the other way round
  std::condition_variable rested_;
  size_t busy_ = 0;   // guarded by mu_, as below: slots not at rest
  size_t taken_ = 0;  // leases to keep
};

}  // namespace

std::unique_ptr<Load> BrokerSessions(Target target, size_t sessions, size_t in_flight, Timed timed) {
  return std::make_unique<SessionLoad>(std::move(target), sessions, in_flight, timed);
}

std::unique_ptr<Load> ReadingSession(Target target, size_t in_flight) {
  return std::make_unique<SessionLoad>(std::move(target), 1, in_flight, Timed::kOperation, Kept{}, /*reads=*/true);
}

std::unique_ptr<Load> HoldingSession(Target target, size_t held, double ttl_seconds, size_t in_flight) {
  return std::make_unique<SessionLoad>(std::move(target), 1, in_flight, Timed::kOperation, Kept{held, ttl_seconds});
}

}  // namespace distlock::bench
