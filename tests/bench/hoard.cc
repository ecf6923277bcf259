// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <iostream>

#include "bench/session.h"

namespace distlock::bench {
namespace {

constexpr size_t kInFlight = 64;  // of each session

// Lock `item` of session `s`, taken at once or not at all.
v1::LockSpec HoardSpec(size_t s, size_t item, double ttl_seconds) {
  char key[64];
  std::snprintf(key, sizeof key, "tenant-%02zu/item-%05zu", s, item);
  v1::LockSpec spec;
  spec.set_key(key);
  spec.mutable_max_wait();
  const auto nanos = static_cast<int64_t>(std::lround(ttl_seconds * 1e9));
  spec.mutable_ttl()->set_seconds(nanos / 1'000'000'000);
  spec.mutable_ttl()->set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
  return spec;
}

// Says what is reached, and waits to be told to go on.
void Say(const char* what) {
  std::cout << what << std::endl;
  std::string line;
  std::getline(std::cin, line);
}

}  // namespace

void Hoard(const std::string& target, size_t sessions, size_t leases, double ttl_seconds) {
  Problem problem;
  std::vector<size_t> asked(sessions);  // each guarded by its session's lock
  std::atomic<size_t> granted{0};
  const auto ask_next = [&](size_t s, Session& session) {
    if (asked[s] == leases / sessions) return;
    const v1::LockSpec spec = HoardSpec(s, asked[s]++, ttl_seconds);
    session.Send(EncodeAcquire(static_cast<int64_t>(asked[s] + 1), spec));
  };
  Sessions open(sessions, [&](size_t s) {
    const auto handle = [&, s](Session& session, const v1::SessionEvent& event) {
      if (!event.has_granted()) return problem.Fail(event.ShortDebugString());
      ++granted;
      ask_next(s, session);
    };
    return std::make_unique<Session>(target, handle, problem);
  });
  Say("open");
  for (size_t s = 0; s < sessions; ++s) {
    open[s].Do([&](Session& session) {
      for (size_t i = 0; i < kInFlight; ++i) ask_next(s, session);
    });
  }
  const std::chrono::seconds patience = 6 * kPatience;
  if (!Eventually([&] { return granted == leases || problem.found(); }, patience)) {
    problem.Fail("not all leases were granted in time");
  }
  problem.Check();
  Say("held");
  problem.Check();
  open.Close(patience);
  problem.Check();
}

}  // namespace distlock::bench
