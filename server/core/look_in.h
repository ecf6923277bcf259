// SPDX-License-Identifier: Apache-2.0
//
// When a lock that is held is worth another look.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "core/lock_view.h"
#include "core/types.h"

namespace distlock::core {

// How long until what a waiter waits for may have changed without a notice; nullopt: the lock is free.
inline std::optional<Duration> LookIn(std::optional<Duration> left, const std::vector<HolderView>& holders) {
  if (left || holders.empty()) return left;
  return std::min_element(holders.begin(), holders.end(),
                          [](const HolderView& a, const HolderView& b) { return a.time_left < b.time_left; })
      ->time_left;
}

}  // namespace distlock::core
