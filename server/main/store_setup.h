// SPDX-License-Identifier: Apache-2.0
//
// The store the daemon will use: its own embedded server, or the one at --redis. Checked before any call is served.
// Used by main's thread; the factory it makes runs on the shards' threads.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "main/wakeups.h"
#include "ops/options.h"
#include "store/embedded/embedded_server.h"
#include "store/store.h"
#include "store/store_options.h"

namespace distlock {

struct StoreSetup {
  std::unique_ptr<store::EmbeddedServer> embedded;  // null with --redis
  store::StoreOptions options;
  std::string shown;  // for people, without secrets
};

// The error is one line that says what is wrong and why. Unavailable: not reached. FailedPrecondition, Unimplemented: unfit.
// InvalidArgument, NotFound: wrongly named. Aborted: the embedded server ended. Cancelled: SIGTERM came first.
// With --wait-for-store an unavailable store is asked again until it answers.
absl::StatusOr<StoreSetup> PrepareStore(const ops::Options& options, const std::string& broker_id, Wakeups& wakeups);

// Aborted, with the end of its log, once `embedded` has ended by itself. Null is fine for ever. Main's thread.
absl::Status CheckAlive(store::EmbeddedServer* embedded);

// Shard 0 is known to the store as `broker_id`, the others by names of their own. `setup` outlives the factory.
std::function<std::unique_ptr<store::Store>(int shard, uv_loop_t* loop)> StoreFactory(const StoreSetup& setup);

}  // namespace distlock
