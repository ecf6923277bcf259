// SPDX-License-Identifier: Apache-2.0
//
// The ids that one session has in use: acquires, from the command until the end of the lease, and releases and
// downgrades that are not answered. It knows the shard of each id; only the core knows whether a lock is held.
//
// Not thread-safe: the session's mutex guards it.
#pragma once

#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "core/messages.h"

namespace distlock::rpc {

class CommandBook {
 public:
  bool Has(core::RequestId id) const { return entries_.contains(id); }
  size_t size() const { return entries_.size(); }
  size_t acquires() const { return acquires_; }
  // How many of the acquires have no grant yet.
  size_t waiting() const { return waiting_; }

  // `id` must not be in use.
  void AddAcquire(core::RequestId id, const core::LockName& name, const core::OwnerId& owner, int shard);
  // `target`: the acquire that is released; 0 for an acquire of another session, and for a downgrade.
  void AddRelease(core::RequestId id, core::RequestId target, int shard);

  // The shard of an acquire; nullopt when the id is not in use by one.
  std::optional<int> ShardOf(core::RequestId acquire) const;
  // Whether this acquire has no grant yet.
  bool IsWaiting(core::RequestId acquire) const;
  // The acquire of this session with this owner id; 0: there is none.
  core::RequestId AcquireOf(const core::OwnerId& owner);

  // Updates the book after an event for `id`. Returns the lock's name for an acquire that is Refused.
  core::LockName OnEvent(core::RequestId id, const core::Event& event);
  // The command was refused before any shard saw it.
  void Forget(core::RequestId id);

 private:
  struct Entry {
    core::OwnerId owner{};
    core::RequestId target = 0;            // releases only
    std::unique_ptr<core::LockName> name;  // acquires only, until the grant
    uint8_t shard = 0;
    bool is_release = false;
  };

  absl::flat_hash_map<core::RequestId, Entry> entries_;
  size_t acquires_ = 0;
  size_t waiting_ = 0;  // entries with a name
  // Filled at the first release by lease id and maintained from then on, because most clients release by acquire id.
  std::optional<absl::flat_hash_map<core::OwnerId, core::RequestId>> by_owner_;
};

}  // namespace distlock::rpc
