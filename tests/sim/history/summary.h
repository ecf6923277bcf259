// SPDX-License-Identifier: Apache-2.0
//
// The figures of a history. Values; times in ns.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/types.h"
#include "history/history.h"

namespace distlock::sim {

struct Spread {
  int64_t count = 0;
  int64_t median = 0;
  int64_t p99 = 0;
  int64_t longest = 0;
};

struct Summary {
  int64_t records = 0;
  int64_t lasted = 0;
  int64_t grants = 0;                                         // that clients received
  int64_t releases = 0;                                       // confirmed
  std::array<int64_t, core::kRefusalReasonCount> refusals{};  // by core::RefusalReason
  int64_t losses = 0;
  int64_t false_losses = 0;  // without a fault that explains them
  int64_t writes = 0;        // accepted
  int64_t rejected_writes = 0;
  std::array<int64_t, static_cast<size_t>(FaultKind::kCount)> faults{};
  // I8: the shortest time from the end of a belief to the next grant of that lock; kForEver: no lock had two grants.
  int64_t margin_min = 0;
  Spread waits;       // from a request to its grant
  Spread hand_offs;   // from a release to the next grant, when a client was waiting
  Spread recoveries;  // the same from any other end

  int64_t FaultCount() const;
};

Summary Summarize(const History& history);

}  // namespace distlock::sim
