// SPDX-License-Identifier: Apache-2.0
//
// What a step of the table wants told to the program: collected under the Core's mutex, carried out after it is let go,
// because all of it runs foreign code.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
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
  std::vector<std::pair<DowngradeCallback, std::optional<Refusal>>> downgraded;
  std::optional<Duration> draining;

  // Keeps the capacity, so that a stream's effects are allocated once.
  void Clear() {
    queued.clear();
    granted.clear();
    refused.clear();
    stopped.clear();
    released.clear();
    downgraded.clear();
    draining.reset();
  }
};

}  // namespace distlock::internal
