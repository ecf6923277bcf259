// SPDX-License-Identifier: Apache-2.0
//
// What the main thread waits for: signals, as values, and notices of other threads. Nothing runs in a signal handler.
//
// Made before any thread is, so that all of them inherit the blocked signals. Wait on main's thread; Notify on any.
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

  // SIGTERM and SIGINT end the process again, at once.
  void LetGo();

 private:
  const int signals_;  // signalfd
  const int notices_;  // eventfd
};

// Each stream and connection is a file: as many as the system allows.
void RaiseFileLimit();

}  // namespace distlock
