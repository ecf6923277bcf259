// SPDX-License-Identifier: Apache-2.0
//
// The client library for a poll() loop: one file descriptor tells that the locks were granted, refused or lost, and
// another one tells of signals. For run, hold and elect. The methods belong to main's thread; the library's threads
// only post.
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

// What the library tells before the locks are granted, or of the broker. Made by its threads, taken by main's.
struct LockEvent {
  enum Kind { kQueued, kDraining } kind;
  QueuedInfo queued;
  Millis time_left{0};
};

// The options of the clients that this program makes.
ClientOptions ClientOptionsFor(const Context& context, std::function<void(Duration)> on_draining = {});

class LockKeeper {
 public:
  // Does not wait for the connection.
  LockKeeper(const Context& context, const LockFlags& flags);
  ~LockKeeper();
  LockKeeper(const LockKeeper&) = delete;
  LockKeeper& operator=(const LockKeeper&) = delete;

  struct Interrupted {
    int signo;
  };
  using Outcome = std::variant<MultiGuard, Failure, Interrupted>;

  // Waits for the locks, a refusal, or a signal that ends a process; after such a signal nothing is held. Calls
  // `on_event` on this thread. To be called once.
  Outcome Wait(Signals& signals, const std::function<void(const LockEvent&)>& on_event);

  // After a granted Wait: makes fd() readable also when a lock of `guard` ends. `guard` must outlive this object.
  void WatchEnd(const MultiGuard& guard);

  // Readable when something has happened. Call Clear() before finding out what.
  int fd() const { return wake_fd_; }
  void Clear();
  std::optional<LockEvent> TakeEvent();

 private:
  using Answer = Result<MultiGuard>;

  LockSet Wanted();
  std::optional<Answer> TakeAnswer();
  Outcome OutcomeOf(Answer answer) const;
  void Wake();

  const Context& context_;
  const LockFlags& flags_;
  const int wake_fd_;

  std::mutex mu_;
  std::deque<LockEvent> events_;  // guarded by mu_
  std::optional<Answer> answer_;  // guarded by mu_

  std::optional<std::stop_callback<std::function<void()>>> on_end_;
  // The last member: its threads use the members above, and its destructor ends them.
  Client client_;
};

// Who keeps a lock from others, for people: "held by bob", or a lock_delay that nobody holds.
std::string HeldBy(const Holder& holder);
std::string EndReason(const MultiGuard& guard);  // "EXPIRED"
Failure FailureFrom(const Context& context, const Refusal& refusal);
std::string OutcomeName(ReleaseOutcome outcome);  // "released", as the release command prints it

}  // namespace distlock::cli
