// SPDX-License-Identifier: Apache-2.0
//
// The events that the main thread waits for: signals, as values, and notices from other threads. No code runs in a
// signal handler.
//
// Create it before any thread, so that all threads inherit the blocked signals. Wait on main's thread; Notify on any.
#pragma once

#include <optional>

#include "absl/time/time.h"

namespace distlock {

enum class Wake { kTimeout, kStop, kReload, kChild, kNotice };

class Wakeups {
 public:
  Wakeups();
  ~Wakeups();
  Wakeups(const Wakeups&) = delete;
  Wakeups& operator=(const Wakeups&) = delete;

  Wake Wait(absl::Duration timeout = absl::InfiniteDuration());
  void Notify();

  // From here on SIGTERM and SIGINT end the process at once.
  void LetGo();

 private:
  const int signals_;  // signalfd
  const int notices_;  // eventfd
};

// Raises the limit of open files as far as the system allows, since each connection needs one.
void RaiseFileLimit();

}  // namespace distlock
