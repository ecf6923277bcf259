// SPDX-License-Identifier: Apache-2.0
//
// Hoard: sessions of one broker that take many leases and keep them, each on a key of 20 bytes. Calls come from one
// thread, which reads the events' outcome when it asks.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bench/lab.h"
#include "bench/session.h"

namespace distlock::bench {

class Hoard {
 public:
  static constexpr size_t kSessions = 20;

  // Opens the sessions; `leases` is a multiple of their number. `broker` outlives the Hoard.
  Hoard(const Daemon& broker, size_t leases, double ttl_seconds);

  // These throw std::runtime_error when it takes too long, or at the first event that was not to come.
  void TakeAll();  // 64 in flight per session
  void CheckAllHeld();
  void GoodbyeAll();      // answered by the broker
  void WaitUntilFreed();  // and counted by it

 private:
  void AskNext(size_t s, Session& session);
  void Handle(size_t s, Session& session, const SeenEvent& event);

  const Daemon& broker_;
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
