// SPDX-License-Identifier: Apache-2.0
//
// Parties: clients of one lock that do what the calls tell them, with checks of exclusion and growing tokens. Calls
// come from one driving thread; grants arrive on the sessions' thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bench/lab.h"
#include "bench/load.h"
#include "bench/session.h"

namespace distlock::bench {

class Parties {
 public:
  // In hot mode a holder releases at once and queues again until stopping() of `load`.
  Parties(const Lab& lab, size_t count, size_t brokers, Load* load, bool hot);
  ~Parties();  // Close()

  void Acquire(size_t party);
  void Release(size_t party);

  // These wait, and throw std::runtime_error after 10 s.
  void WaitQueued(size_t party);
  size_t WaitGranted();  // the next holder
  void WaitReleased(size_t party);
  void WaitAllReleased();

  int64_t released_at() const { return released_at_; }
  int64_t granted_at() const { return granted_at_; }
  const std::vector<uint64_t>& grants() const { return grants_; }  // by party; only when no party is active

  // Ends all streams; a problem fails the load.
  void Close();

 private:
  enum class State { kIdle, kAsked, kQueued, kHolding, kReleasing };
  struct Place {
    State state = State::kIdle;
    int64_t acquire_id = 0;
    int64_t next_id = 2;
  };

  void Handle(size_t party, Session& session, const SeenEvent& event);
  void OnGranted(size_t party, Session& session, const SeenEvent& event);
  void Ask(size_t party, Session& session);   // with mu_ held
  void Give(size_t party, Session& session);  // with mu_ held
  void WaitFor(const std::function<bool()>& done, const char* what);

  const v1::LockSpec spec_;
  Load& load_;
  const bool hot_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::optional<Pulse> pulse_;

  std::mutex mu_;  // taken inside a session's own lock, never the other way round
  std::condition_variable changed_;
  std::vector<Place> places_;  // guarded by mu_, as all below
  std::vector<uint64_t> grants_;
  std::deque<size_t> holders_;  // granted, and not yet returned by WaitGranted
  int64_t last_token_ = 0;
  bool held_ = false;
  int64_t released_at_ = 0;
  int64_t granted_at_ = 0;
};

}  // namespace distlock::bench
