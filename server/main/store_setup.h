// SPDX-License-Identifier: Apache-2.0
//
// The store that the daemon uses: its own embedded server, or the one at --redis. It is checked before any call is
// served. Thread: main's. The factory runs on the shards' threads.
#pragma once

#include <uv.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "main/wakeups.h"
#include "ops/options.h"
#include "store/embedded/embedded_server.h"
#include "store/store.h"
#include "store/store_options.h"
#include "store/store_url.h"

namespace distlock {

struct StoreSetup {
  std::unique_ptr<store::EmbeddedServer> embedded;  // null with --redis
  store::StoreOptions options;
  std::string shown;  // for people, without secrets
  // A server at one address has turned out to have, or to have had, replicas. Set by the shards' threads.
  std::shared_ptr<std::atomic<bool>> is_replicated;
  // Why nothing is granted until AdminService.InitQuorum has set `may_open`: the servers belong to another quorum. "":
  // the store may be used.
  std::string awaits_init;
  std::shared_ptr<std::atomic<bool>> may_open;
};

// Starts the embedded store or reads --redis, and checks the store. With --wait-for-store it repeats the check until
// the store answers. Errors, each one line that says what is wrong and why:
// - Unavailable: cannot be reached. FailedPrecondition, Unimplemented: unfit for locks. InvalidArgument, NotFound: a
//   wrong option.
// - Aborted: the embedded server has ended. Cancelled: SIGTERM came first.
absl::StatusOr<StoreSetup> PrepareStore(const ops::Options& options, const std::string& broker_id, Wakeups& wakeups);

// The store that --redis names. InvalidArgument: no store can be reached by it; the message is fit for people.
absl::StatusOr<store::StoreUrl> ReadStoreUrl(const ops::Options& options);

// Ok while `embedded` runs, and always for null. Aborted, with the end of its log, once it has ended by itself.
absl::Status CheckAlive(store::EmbeddedServer* embedded);

// In the store each shard has a broker id of its own; shard 0 has the daemon's. `setup` outlives the factory.
std::function<std::unique_ptr<store::Store>(int shard, uv_loop_t* loop)> StoreFactory(const StoreSetup& setup);

}  // namespace distlock
