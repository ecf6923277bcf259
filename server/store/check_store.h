// SPDX-License-Identifier: Apache-2.0
//
// The question main asks before it serves: can this server be reached, and may it keep locks?
// Blocks its thread, on a loop of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/types.h"
#include "store/redis_store.h"

namespace distlock::store {

// During the check, on the caller's thread: `on_problem` hears of each new problem that may pass, and once `stopped` says so,
// which is asked ten times a second, the check ends as Cancelled. Either may be unset.
struct CheckWatch {
  std::function<void(const absl::Status&)> on_problem;
  std::function<bool()> stopped;
};

// Connects, judges the server, subscribes, and tries every script on a lock of its own, so that a missing right shows
// now and not at the first hand-off. Answers with warnings for the log.
//
// Unavailable: not reached or not ready within `timeout`; asking again may help. Any other code: unfit until somebody
// changes something. The message names the URL without its password, what is wrong, and what to do. The options'
// callbacks are not used.
absl::StatusOr<std::vector<std::string>> CheckStore(RedisStoreOptions options, core::Duration timeout,
                                                    CheckWatch watch = {});

}  // namespace distlock::store
