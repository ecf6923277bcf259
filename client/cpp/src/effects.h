// SPDX-License-Identifier: Apache-2.0
//
// The callbacks that a change of the lock table leads to. They are collected under the Core's mutex and run after it is
// unlocked, because they are the program's code.
#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "awaited.h"
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

  bool empty() const {
    return queued.empty() && granted.empty() && refused.empty() && stopped.empty() && released.empty() &&
           changed.empty() && !draining && log.empty();
  }
  // Moves all that runs code of the program, and leaves what only wakes callers that wait.
  void MoveProgramsTo(Effects& other) {
    const auto of_program = [](const auto& callback) { return callback && !IsAwaited(callback); };
    Move(queued, other.queued);
    MoveIf(granted, other.granted, [&](const auto& one) { return of_program(one.second); });
    MoveIf(refused, other.refused, [&](const auto& one) { return of_program(one.first); });
    Move(stopped, other.stopped);
    MoveIf(released, other.released, [&](const auto& one) { return of_program(one.first); });
    MoveIf(changed, other.changed, [&](const auto& one) { return of_program(one.first); });
    Move(log, other.log);
    if (draining) other.draining = std::exchange(draining, std::nullopt);
  }
  // Appends all of `later`.
  void Append(Effects later) {
    Move(later.queued, queued);
    Move(later.granted, granted);
    Move(later.refused, refused);
    Move(later.stopped, stopped);
    Move(later.released, released);
    Move(later.changed, changed);
    Move(later.log, log);
    if (later.draining) draining = later.draining;
  }

 private:
  template <class T>
  static bool IsAwaited(const Callback<void(T)>& callback) {
    return Awaited<T>::Has(callback);
  }
  template <class T>
  static void Move(std::vector<T>& from, std::vector<T>& to) {
    std::move(from.begin(), from.end(), std::back_inserter(to));
    from.clear();
  }
  template <class T, class Chosen>
  static void MoveIf(std::vector<T>& from, std::vector<T>& to, Chosen chosen) {
    const auto first = std::stable_partition(from.begin(), from.end(), [&](const T& one) { return !chosen(one); });
    std::move(first, from.end(), std::back_inserter(to));
    from.erase(first, from.end());
  }
};

}  // namespace distlock::internal
