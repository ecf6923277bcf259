// SPDX-License-Identifier: Apache-2.0
//
// Connects the client library to a poll() loop: its file descriptor becomes readable when the locks are granted,
// refused or lost. For run, hold and elect. Only main's thread calls the methods; the library's threads write answers
// and events into it under its mutex.
#pragma once

#include <distlock/client.h>

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>

#include "context.h"
#include "failure.h"
#include "lock_flags.h"
#include "signals.h"

namespace distlock::cli {

// The library's reports before the locks are granted, or about the broker. Its threads make events; main's thread takes
// them.
struct LockEvent {
  enum Kind { kQueued, kDraining } kind;
  QueuedInfo queued;
  Millis time_left{0};
};

class LockKeeper {
 public:
  // Does not wait for the connection. `ends_with_process`: as ClientOptions says.
  LockKeeper(const Context& context, const LockFlags& flags, bool ends_with_process = false);
  ~LockKeeper();
  LockKeeper(const LockKeeper&) = delete;
  LockKeeper& operator=(const LockKeeper&) = delete;

  struct Interrupted {
    int signo;
  };
  using Outcome = std::variant<MultiGuard, Failure, Interrupted>;

  // Waits for the locks, a refusal, or a signal that would end the process; after such a signal nothing is held. Asks
  // again while the wait lasts when broker or store cannot serve. Calls `on_event` on this thread. May be called once.
  Outcome Wait(Signals& signals, const std::function<void(const LockEvent&)>& on_event);

  // After a granted Wait: makes fd() readable also when a lock of `guard` ends. `guard` must outlive this object.
  void WatchEnd(const MultiGuard& guard);

  // Readable when something has happened. Call Clear() before looking for what it is.
  int fd() const { return wake_fd_; }
  void Clear();
  std::optional<LockEvent> TakeEvent();

 private:
  using Answer = Result<MultiGuard>;
  using Clock = std::chrono::steady_clock;

  ClientOptions Options(bool ends_with_process);
  LockSet Wanted();
  void Ask();
  bool AskAgain(const Refusal& refusal);
  void Await(Signals& signals, const std::function<void(const LockEvent&)>& on_event);
  void TakeSignals(Signals& signals);
  std::optional<Answer> TakeAnswer();
  Outcome OutcomeOf(Answer answer) const;
  void Wake();

  const Context& context_;
  const LockFlags& flags_;
  const int wake_fd_;

  std::mutex mu_;
  std::deque<LockEvent> events_;  // guarded by mu_
  std::optional<Answer> answer_;  // guarded by mu_

  Clock::time_point since_{};                   // when the wait began
  std::optional<Clock::time_point> ask_again_;  // set while no request is under way
  std::optional<int> interrupted_by_;
  bool was_queued_ = false;
  bool told_of_outage_ = false;

  std::optional<std::stop_callback<std::function<void()>>> on_end_;
  // Its threads use the members above, and its destructor ends these threads.
  Client client_;
  PendingLock pending_;
};

// For people: "held by bob".
std::string HeldBy(const Holder& holder);
// "default:k, 2 ahead, held by bob", and the events queued and granted of -o json.
std::string QueuedAsText(const LockFlags& lock, const QueuedInfo& queued);
Json QueuedEvent(const LockFlags& lock, const QueuedInfo& queued);
Json GrantedEvent(const LockFlags& lock, const MultiGuard& guard);
std::string EndReason(const MultiGuard& guard);   // "EXPIRED"
std::string OutcomeName(ReleaseOutcome outcome);  // "released", as the release command prints it

}  // namespace distlock::cli
