// SPDX-License-Identifier: Apache-2.0
//
// Hoard: sessions of one broker that take many leases and keep them, each on a key of 20 bytes. All calls come from one
// thread; events arrive on another, and the calls report their problems.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bench/lab.h"
#include "bench/session.h"

namespace distlock::bench {

// How long a broker may take to grant or to free so many leases.
std::chrono::seconds PatienceFor(size_t leases);
// Lock `item` of session `s`, taken at once or not at all.
v1::LockSpec HoardSpec(size_t s, size_t item, double ttl_seconds);
// Throws std::runtime_error when it takes longer than a broker may for `leases`.
void WaitUntilFreed(const Daemon& broker, size_t leases);

class Hoard {
 public:
  // Opens the sessions, at most 100; `leases` is a multiple of their number. `broker` outlives the Hoard.
  Hoard(const Daemon& broker, size_t leases, double ttl_seconds, size_t sessions = 20);

  // These throw std::runtime_error after too long a time, or at the first unexpected event.
  void TakeAll();  // 64 in flight per session
  void CheckAllHeld();
  void GoodbyeAll();                                                  // and waits for the broker's answers
  void GoodbyeInTurn();                                               // waits for each answer before the next goodbye
  void WaitUntilFreed() { bench::WaitUntilFreed(broker_, leases_); }  // until the broker counts no lease

 private:
  void AskNext(size_t s, Session& session);
  void Handle(size_t s, Session& session, const SeenEvent& event);

  const Daemon& broker_;
  const size_t leases_;
  const size_t per_session_;
  const double ttl_seconds_;
  std::vector<size_t> asked_;  // each guarded by its session's own lock
  std::mutex mu_;              // taken inside a session's own lock, never the other way round
  std::condition_variable changed_;
  size_t granted_ = 0;   // guarded by mu_
  std::string problem_;  // guarded by mu_
  std::vector<std::unique_ptr<Session>> sessions_;
  std::optional<Pulse> pulse_;
};

}  // namespace distlock::bench
