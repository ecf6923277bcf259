// SPDX-License-Identifier: Apache-2.0
//
// Grants that were made here and are not renewed here: of detached leases, and of leases left to expire. While one may
// last, a second message about it is no reason to release it.
//
// Thread: the shard's.
#pragma once

#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "core/core_context.h"

namespace distlock::core {

class PastGrants {
 public:
  explicit PastGrants(CoreContext& core) : core_(core) {}

  // `until`: the store may keep the grant so long; replaces what is known of `owner`. `promised_until`: its client may
  // believe in it so long.
  void Remember(const OwnerId& owner, Instant until, Instant promised_until = {});
  void Forget(const OwnerId& owner);
  // Whether the last grant of `owner` may still last. Drops all that do not.
  bool Contains(const OwnerId& owner);
  // How many may still last. Drops all that do not.
  size_t size();
  // Whether a client may still believe in the last grant of `owner`.
  bool IsPromised(const OwnerId& owner) const;
  // Crashes if its two orders differ.
  void Check() const;

 private:
  struct Grant {
    Instant until{};
    Instant promised_until{};
  };

  void DropOld();

  CoreContext& core_;
  absl::btree_map<OwnerId, Grant> grants_;
  absl::btree_set<std::pair<Instant, OwnerId>> by_end_;
};

}  // namespace distlock::core
