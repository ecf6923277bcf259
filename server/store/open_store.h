// SPDX-License-Identifier: Apache-2.0
//
// From a URL to a store. Only this file and its source name all topologies.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/store_traits.h"
#include "core/types.h"
#include "store/check_store.h"
#include "store/store.h"
#include "store/store_options.h"

namespace distlock::store {

// The abilities of the store at `url`.
core::StoreTraits TraitsOf(const StoreOptions& options);

// The store at `options.url`, not started. `loop` outlives it, and runs after Stop until the store's handles are
// closed.
std::unique_ptr<Store> OpenStore(uv_loop_t* loop, const StoreOptions& options);

// The same, but it stays down, for the reason `why`, until `may_open` is true; that is asked on the loop's thread.
std::unique_ptr<Store> OpenStoreLater(uv_loop_t* loop, StoreOptions options, std::string why,
                                      std::function<bool()> may_open);

// Connects, judges the servers, subscribes, and runs the scripts on a lock of its own, so that a missing right shows
// now and not at the first hand-off. Returns warnings for the log. Blocks the thread, on a loop of its own.
//
// Unavailable: not reached or not ready within `timeout`; asking again may help. Any other code: unfit until somebody
// changes something; AlreadyExists: servers belong to another quorum. The message names the URL without its password,
// what is wrong, and what to do. The options' callbacks are not used.
absl::StatusOr<std::vector<std::string>> CheckStore(StoreOptions options, core::Duration timeout,
                                                    CheckWatch watch = {});

}  // namespace distlock::store
