// SPDX-License-Identifier: Apache-2.0
#include "bench/hoard.h"

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include "bench/load.h"

namespace distlock::bench {
namespace {

constexpr size_t kInFlight = 64;

}  // namespace

// A minute, and more for a million leases.
std::chrono::seconds PatienceFor(size_t leases) { return std::chrono::seconds(60 + leases / 5000); }

v1::LockSpec HoardSpec(size_t s, size_t item, double ttl_seconds) {
  char key[64];
  std::snprintf(key, sizeof key, "tenant-%02zu/item-%05zu", s, item);
  v1::LockSpec spec = Spec(key);
  const auto nanos = static_cast<int64_t>(std::lround(ttl_seconds * 1e9));
  spec.mutable_ttl()->set_seconds(nanos / 1'000'000'000);
  spec.mutable_ttl()->set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
  return spec;
}

void WaitUntilFreed(const Daemon& broker, size_t leases) {
  const auto end = std::chrono::steady_clock::now() + PatienceFor(leases);
  while (broker.Leases() != 0) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("leases were left a minute after Goodbye");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Hoard::Hoard(const Daemon& broker, size_t leases, double ttl_seconds, size_t sessions)
    : broker_(broker), leases_(leases), per_session_(leases / sessions), ttl_seconds_(ttl_seconds), asked_(sessions) {
  sessions_ = OpenSessions(sessions, [&](size_t s) {
    return std::make_unique<Session>(
        broker.target(), [this, s](Session& session, const SeenEvent& event) { Handle(s, session, event); });
  });
  pulse_.emplace(Pointers(sessions_));
}

void Hoard::TakeAll() {
  for (size_t s = 0; s < sessions_.size(); ++s) {
    sessions_[s]->Do([this, s](Session& session) {
      for (size_t i = 0; i < kInFlight; ++i) AskNext(s, session);
    });
  }
  {
    std::unique_lock lock(mu_);
    const bool all =
        changed_.wait_for(lock, PatienceFor(leases_), [&] { return granted_ == leases_ || !problem_.empty(); });
    if (!all) throw std::runtime_error("not all leases were granted in time");
  }
  CheckAllHeld();
}

void Hoard::CheckAllHeld() {
  {
    std::lock_guard lock(mu_);
    if (!problem_.empty()) throw std::runtime_error(problem_);
  }
  // The broker sends grants before it counts them.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (broker_.Leases() < leases_) {
    if (std::chrono::steady_clock::now() > end) {
      throw std::runtime_error("the broker does not count the leases that it granted");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void Hoard::GoodbyeAll() {
  for (const auto& session : sessions_) session->Goodbye();
  GoodbyeInTurn();
}

void Hoard::GoodbyeInTurn() {
  for (const auto& session : sessions_) {
    const std::string problem = session->Close(PatienceFor(leases_));
    if (!problem.empty()) throw std::runtime_error(problem);
  }
}

void Hoard::AskNext(size_t s, Session& session) {
  if (asked_[s] == per_session_) return;
  const v1::LockSpec spec = HoardSpec(s, asked_[s], ttl_seconds_);
  session.Send(EncodeAcquire(static_cast<int64_t>(++asked_[s] + 1), spec));
}

void Hoard::Handle(size_t s, Session& session, const SeenEvent& event) {
  const bool granted = event.kind == v1::SessionEvent::kGranted;
  {
    std::lock_guard lock(mu_);
    if (granted) {
      ++granted_;
    } else if (problem_.empty()) {
      problem_ = Describe(event);
    }
    if (!granted || granted_ == leases_) changed_.notify_all();
  }
  if (granted) AskNext(s, session);
}

}  // namespace distlock::bench
