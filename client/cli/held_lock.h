// SPDX-License-Identifier: Apache-2.0
//
// The client library seen from a poll() loop: a lock is waited for, and its end is noticed, through a file descriptor,
// beside signals. For run and hold. The methods belong to main's thread; the library's threads only post.
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

// Made by the library's threads, taken by ours.
struct Remark {
  enum Kind { kQueued, kDraining } kind;
  QueuedInfo queued;
  Millis time_left{0};
};

// Of a client that this program makes.
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

  // Waits for the locks, a refusal, or a signal that ends a process; after the last nothing is held. `remark` is called
  // on this thread. Once.
  Outcome Wait(Signals& signals, const std::function<void(const Remark&)>& remark);

  // From a granted Wait on: fd() becomes readable also when `guard` ends. The guard must outlive this call's effect.
  void WatchEnd(const MultiGuard& guard);

  // Readable when something happened; Clear() before looking what.
  int fd() const { return wake_fd_; }
  void Clear();
  std::optional<Remark> TakeRemark();

 private:
  using Answer = Result<MultiGuard>;

  LockSet Wanted();
  std::optional<Answer> TakeAnswer();
  Outcome Convert(Answer answer) const;
  void Wake();

  const Context& context_;
  const LockFlags& flags_;
  const int wake_fd_;

  std::mutex mu_;
  std::deque<Remark> remarks_;    // guarded by mu_
  std::optional<Answer> answer_;  // guarded by mu_

  std::optional<std::stop_callback<std::function<void()>>> on_end_;
  // Last: its threads call into the members above, and its destructor ends them.
  Client client_;
};

std::string EndReason(const MultiGuard& guard);  // "EXPIRED"
Failure FailureFrom(const Context& context, const Refusal& refusal);
std::string OutcomeName(ReleaseOutcome outcome);  // "released", as the release command says it

}  // namespace distlock::cli
