// SPDX-License-Identifier: Apache-2.0
//
// The start-up check of any topology, by the verbs of the seam alone: can the store be reached, and may it keep locks?
// Blocks its thread, on a loop of its own.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/types.h"
#include "store/store.h"
#include "store/store_options.h"

namespace distlock::store {

// Called during the check on the caller's thread; either may be unset. `on_problem` hears of each new problem that may
// pass. `stopped` is asked ten times a second; once it returns true, the check ends as Cancelled.
struct CheckWatch {
  std::function<void(const absl::Status&)> on_problem;
  std::function<bool()> stopped;
};

using MakeStore = std::function<std::unique_ptr<Store>(uv_loop_t* loop, const StoreOptions& options)>;

// As CheckStore of open_store.h, for the store that `make` makes.
absl::StatusOr<std::vector<std::string>> CheckStore(const MakeStore& make, StoreOptions options, core::Duration timeout,
                                                    CheckWatch watch);

}  // namespace distlock::store
