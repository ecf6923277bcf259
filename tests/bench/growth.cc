// SPDX-License-Identifier: Apache-2.0
#include "bench/growth.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include "bench/broker_load.h"
#include "bench/hoard.h"
#include "bench/session.h"

namespace distlock::bench {
namespace {

constexpr double kTtlSeconds = 3000;  // so long that nothing is renewed
constexpr size_t kInFlight = 64;
constexpr size_t kSessions = 20;  // of a queue
constexpr auto kPatience = std::chrono::seconds(60);

constexpr size_t kMostPerSession = 10'000;  // as a broker allows by default

const std::vector<std::string> kNoLimits{"--limits", "max-leases-per-session=1000000,max-waiters-per-lock=1000000"};

// A queue of constant length: one lock, and slots that want it.
class LongQueue final : public Load {
 public:
  LongQueue(const Daemon& broker, size_t waiters)
      : Load(1), broker_(broker), waiters_(waiters), spec_(Spec("long-queue", true)), next_id_(kSessions, 2) {}

  void Start() override {
    sessions_ = OpenSessions(kSessions, [this](size_t s) {
      return std::make_unique<Session>(
          broker_.target(), [this, s](Session& session, const SeenEvent& event) { Handle(s, session, event); });
    });
    pulse_.emplace(Pointers(sessions_));
    sessions_[0]->Do([this](Session& session) { Ask(0, session); });
    Wait([this] { return holding_; }, "the first grant");
    for (size_t s = 0; s < kSessions; ++s) {
      const size_t mine = (waiters_ + kSessions - 1 - s) / kSessions;
      sessions_[s]->Do([&](Session& session) {
        for (size_t i = 0; i < mine; ++i) Ask(s, session);
      });
    }
    Wait([this] { return queued_ == waiters_; }, "places in the queue for all");
    sessions_[0]->Do([this](Session& session) {
      std::lock_guard lock(mu_);
      running_ = true;
      Give(0, session);
      Ask(0, session);
    });
  }

  void Stop() override {
    pulse_.reset();
    for (const auto& session : sessions_) {
      const std::string problem = session->Close();
      if (!problem.empty()) Fail(problem);
    }
    sessions_.clear();
  }

 private:
  void Ask(size_t s, Session& session) { session.Send(EncodeAcquire(next_id_[s]++, spec_)); }

  // With mu_ held, as OnGranted.
  void Give(size_t s, Session& session) {
    holding_ = false;
    released_at_ = NowNanos();
    session.Send(EncodeRelease(next_id_[s]++, held_id_));
  }

  void Handle(size_t s, Session& session, const SeenEvent& event) {
    std::lock_guard lock(mu_);
    if (event.kind == v1::SessionEvent::kGranted) {
      OnGranted(s, session, event);
    } else if (event.kind == v1::SessionEvent::kQueued) {
      ++queued_;
    } else if (event.kind != v1::SessionEvent::kReleased || event.outcome != v1::RELEASE_OUTCOME_RELEASED) {
      Fail(Describe(event));
    }
    if (!running_) changed_.notify_all();
  }

  void OnGranted(size_t s, Session& session, const SeenEvent& event) {
    if (stopping()) return;  // Goodbye releases the lock, one session after the other
    const int64_t now = NowNanos();
    if (holding_) Fail("two holders at once: " + Describe(event));
    if (event.token <= last_token_) Fail("the fencing token did not grow: " + Describe(event));
    last_token_ = event.token;
    held_id_ = event.id;
    holding_ = true;
    if (!running_) return;
    if (recording()) tally(0).op_latency.Record(now - released_at_);
    tally(0).pairs.fetch_add(1, std::memory_order_relaxed);
    Give(s, session);
    Ask(s, session);
  }

  template <typename Done>
  void Wait(Done done, const char* what) {
    std::unique_lock lock(mu_);
    const bool ended = changed_.wait_for(lock, kPatience, [&] { return done() || !error().empty(); });
    if (!ended) throw std::runtime_error(std::string("a minute without ") + what);
  }

  const Daemon& broker_;
  const size_t waiters_;
  const v1::LockSpec spec_;
  std::vector<int64_t> next_id_;  // each guarded by its session's own lock
  std::mutex mu_;                 // taken inside a session's own lock, never the other way round
  std::condition_variable changed_;
  bool running_ = false;  // guarded by mu_, as all below
  bool holding_ = false;
  size_t queued_ = 0;
  int64_t held_id_ = 0;
  int64_t last_token_ = 0;
  int64_t released_at_ = 0;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::optional<Pulse> pulse_;
};

double UsedMemory(const Lab& lab) { return std::stod(lab.RedisInfo("memory", "used_memory")); }

Sample MeasureOn(const Lab& lab, const Daemon& broker, Load& load) {
  return Measure(lab.size(), {lab.redis_pid(), {broker.pid()}}, load);
}

}  // namespace

Sample PairsBesideLeases(Lab& lab, size_t leases) {
  Sample sample;
  try {
    const std::unique_ptr<Daemon> broker = lab.FreshBroker("growth-leases", {"--drain-timeout", "10m"});
    Hoard hoard(*broker, leases, kTtlSeconds, std::max<size_t>(1, leases / kMostPerSession));
    const double resident = ResidentBytes(broker->pid());
    const double used = UsedMemory(lab);
    hoard.TakeAll();
    const double held_resident = ResidentBytes(broker->pid());
    const double held_used = UsedMemory(lab);
    const std::unique_ptr<Load> load = BrokerSessions(broker->target(), 1, kInFlight);
    sample = MeasureOn(lab, *broker, *load);
    sample.values["µs/pair"] = 1e6 / sample.values["pairs/s"];
    sample.values["daemon B/lease"] = (held_resident - resident) / static_cast<double>(leases);
    sample.values["redis B/lease"] = (held_used - used) / static_cast<double>(leases);
    hoard.CheckAllHeld();
    // In turn, because freeing a million leases at once would keep the broker busy for longer than a session lives
    // without a heartbeat.
    hoard.GoodbyeInTurn();
    hoard.WaitUntilFreed();
    // The broker forgets leases sooner than Redis does, and its default drain timeout is too short for a million.
    lab.EndFreshBroker(*broker, PatienceFor(leases));
  } catch (const std::runtime_error& e) {
    if (sample.error.empty()) sample.error = e.what();
  }
  return sample;
}

Sample PairsOfHolder(Lab& lab, size_t leases) {
  Sample sample;
  try {
    const std::unique_ptr<Daemon> broker = lab.FreshBroker("growth-session", kNoLimits);
    const std::unique_ptr<Load> load = HoldingSession(broker->target(), leases, kTtlSeconds, kInFlight);
    sample = MeasureOn(lab, *broker, *load);
    sample.values["µs/pair"] = 1e6 / sample.values["pairs/s"];
    WaitUntilFreed(*broker, leases);
    lab.EndFreshBroker(*broker);
  } catch (const std::runtime_error& e) {
    if (sample.error.empty()) sample.error = e.what();
  }
  return sample;
}

Sample HandoffsBeforeWaiters(Lab& lab, size_t waiters) {
  Sample sample;
  try {
    const std::unique_ptr<Daemon> broker = lab.FreshBroker("growth-waiters", kNoLimits);
    LongQueue load(*broker, waiters);
    sample = MeasureOn(lab, *broker, load);
    std::map<std::string, double>& values = sample.values;
    values["µs/hand-off"] = 1e6 / values["pairs/s"];
    values["p50 µs"] = values["op p50 µs"];
    values["p99 µs"] = values["op p99 µs"];
    lab.EndFreshBroker(*broker);
  } catch (const std::runtime_error& e) {
    if (sample.error.empty()) sample.error = e.what();
  }
  return sample;
}

}  // namespace distlock::bench
