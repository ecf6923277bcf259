// SPDX-License-Identifier: Apache-2.0
#include "bench/memory.h"

#include <condition_variable>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bench/session.h"

namespace distlock::bench {
namespace {

constexpr size_t kSessions = 20;
constexpr size_t kInFlight = 64;
constexpr int kTtlSeconds = 3000;
constexpr auto kPatience = std::chrono::seconds(60);

// Takes leases and keeps them.
class Hoard {
 public:
  Hoard(const Daemon& broker, size_t leases) : per_session_(leases / kSessions), asked_(kSessions) {
    sessions_ = OpenSessions(kSessions, [&](size_t s) {
      return std::make_unique<Session>(
          broker.target(), [this, s](Session& session, const SeenEvent& event) { Handle(s, session, event); });
    });
  }

  const std::vector<std::unique_ptr<Session>>& sessions() const { return sessions_; }

  void TakeAll() {
    for (size_t s = 0; s < kSessions; ++s) {
      sessions_[s]->Do([this, s](Session& session) {
        for (size_t i = 0; i < kInFlight; ++i) AskNext(s, session);
      });
    }
    std::unique_lock lock(mu_);
    const bool all = changed_.wait_for(lock, kPatience,
                                       [this] { return granted_ == per_session_ * kSessions || !problem_.empty(); });
    if (!problem_.empty()) throw std::runtime_error(problem_);
    if (!all) throw std::runtime_error("not all leases were granted within 60 s");
  }

 private:
  void AskNext(size_t s, Session& session) {
    if (asked_[s] == per_session_) return;
    char key[64];
    std::snprintf(key, sizeof key, "tenant-%02zu/item-%05zu", s, asked_[s]);
    v1::LockSpec spec = Spec(key);
    spec.mutable_ttl()->set_seconds(kTtlSeconds);
    session.Send(EncodeAcquire(++asked_[s] + 1, spec));
  }

  void Handle(size_t s, Session& session, const SeenEvent& event) {
    const bool granted = event.kind == v1::Event::kGranted;
    {
      std::lock_guard lock(mu_);
      if (granted) {
        ++granted_;
      } else {
        problem_ = Describe(event);
      }
      if (!granted || granted_ == per_session_ * kSessions) changed_.notify_all();
    }
    if (granted) AskNext(s, session);
  }

  const size_t per_session_;
  std::vector<size_t> asked_;  // each guarded by its session's own lock
  std::vector<std::unique_ptr<Session>> sessions_;
  std::mutex mu_;
  std::condition_variable changed_;
  size_t granted_ = 0;   // guarded by mu_
  std::string problem_;  // guarded by mu_
};

double UsedMemory(const Lab& lab) { return std::stod(lab.RedisInfo("memory", "used_memory")); }

void WaitForNoLease(const Daemon& broker) {
  const int64_t end = NowNanos() + kPatience / std::chrono::nanoseconds(1);
  while (broker.Leases() != 0) {
    if (NowNanos() > end) throw std::runtime_error("leases were left 60 s after Goodbye");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

Sample LeaseMemory(Lab& lab) {
  Sample sample;
  try {
    const std::unique_ptr<Daemon> broker = lab.FreshBroker("memory");
    const auto leases = static_cast<size_t>(lab.size().leases);
    Hoard hoard(*broker, leases);
    const Pulse pulse(Pointers(hoard.sessions()));
    const double resident = ResidentBytes(broker->pid());
    const double used = UsedMemory(lab);
    hoard.TakeAll();
    const auto count = static_cast<double>(leases);
    sample.values["daemon B/lease"] = (ResidentBytes(broker->pid()) - resident) / count;
    sample.values["redis B/lease"] = (UsedMemory(lab) - used) / count;
    if (broker->Leases() != leases) throw std::runtime_error("the broker does not count the leases that it granted");
    const int64_t start = NowNanos();
    for (const auto& session : hoard.sessions()) {
      const std::string problem = session->Close();
      if (!problem.empty()) throw std::runtime_error(problem);
    }
    WaitForNoLease(*broker);
    sample.values["free µs/lease"] = static_cast<double>(NowNanos() - start) * 1e-3 / count;
    const size_t held = lab.RedisKeys("memory:*:h");
    if (!broker->Stop()) throw std::runtime_error("the broker did not end within 60 s of SIGTERM");
    if (const size_t left = lab.RedisKeys("memory:*:h"); left != 0) {
      throw std::runtime_error("Goodbye and SIGTERM left " + std::to_string(left) + " locks held in the store, of " +
                               std::to_string(held) + " when the broker counted none");
    }
  } catch (const std::runtime_error& e) {
    sample.error = e.what();
  }
  return sample;
}

}  // namespace distlock::bench
