// SPDX-License-Identifier: Apache-2.0
//
// Questions to a node for people: a lock, and lists of locks. Thread: the loop's.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "store/redis/lock_listing.h"
#include "store/redis/node_context.h"
#include "store/redis/pending_queries.h"
#include "store/redis/server_checks.h"

namespace distlock::store {

class NodeQueries {
 public:
  NodeQueries(NodeContext& context, const ServerChecks& checks)
      : context_(context), checks_(checks), queries_(context.timers) {}

  // As the methods of Store. `redirected`, if set, hears of a redirect; when it returns true, `done` is not called.
  void Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
               std::function<void(absl::StatusOr<LockView>)> done,
               std::function<bool(std::string_view error)> redirected = nullptr);
  void List(const std::string& escaped_namespace, const std::string& escaped_key_prefix, uint32_t page_size,
            const std::string& page_token, core::Duration timeout, std::function<void(absl::StatusOr<LockPage>)> done);
  void Stop() { queries_.RefuseAll(absl::CancelledError("the broker is stopping")); }

 private:
  void RefuseSoon(PendingQueries::Id id, absl::Status why);
  void RefuseIfReplica(PendingQueries::Id id);

  NodeContext& context_;
  const ServerChecks& checks_;
  PendingQueries queries_;
};

}  // namespace distlock::store
