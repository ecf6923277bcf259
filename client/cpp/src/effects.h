// SPDX-License-Identifier: Apache-2.0
//
// The callbacks that a change of the lock table leads to. They are collected under the Core's mutex and run after it is
// unlocked, because they are the program's code.
#pragma once

#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "lease.h"

namespace distlock::internal {

struct Effects {
  std::vector<std::pair<std::shared_ptr<const Spec>, QueuedInfo>> queued;
  std::vector<std::pair<LeasePtr, LockCallback>> granted;
  std::vector<std::pair<LockCallback, Refusal>> refused;
  std::vector<std::stop_source> stopped;
  std::vector<std::pair<ReleaseCallback, ReleaseOutcome>> released;
  std::vector<std::pair<ChangeCallback, std::optional<Refusal>>> changed;
  std::optional<Duration> draining;
  std::vector<std::pair<LogLevel, std::string>> log;  // only where the program wants it

  // Keeps the capacity, so that a stream's effects are allocated once.
  void Clear() {
    queued.clear();
    granted.clear();
    refused.clear();
    stopped.clear();
    released.clear();
    changed.clear();
    draining.reset();
    log.clear();
  }

  // The callbacks that a call of the program itself can lead to.
  bool HasCallbacks() const { return !refused.empty() || !released.empty() || !changed.empty(); }
  void MoveCallbacksTo(Effects& other) {
    Move(refused, other.refused);
    Move(released, other.released);
    Move(changed, other.changed);
  }

 private:
  template <class T>
  static void Move(std::vector<T>& from, std::vector<T>& to) {
    std::move(from.begin(), from.end(), std::back_inserter(to));
    from.clear();
  }
};

}  // namespace distlock::internal
